"""Whether a link may listen at the exchange upstream for ours, whose type asks for it (`ExchangeType.listening`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.plugin import Exchange

from ..errors import LinkError

if TYPE_CHECKING:
    from .connection import UpstreamConnection

INEQUIVALENT = "inequivalent arg"


async def obstacle(connection: UpstreamConnection, ours: Exchange, name: str) -> str:
    """Why not; empty where it may. The exchange of that name has to be of the same type, as another would pass on what
    clients publish there. To declare it once more is the way to know, for which the link needs the right to configure
    it; where there is none yet, it is made. Raises LinkError where the connection is lost."""
    channel = await connection.channel()
    try:
        await channel.declare_exchange(name, ours.type_name, ours.durable, ours.auto_delete, False, ours.arguments)
    except LinkError as fault:
        if not fault.code:
            raise
        # What differs is told, and the type first of all.
        same_type = INEQUIVALENT in fault.text and f"{INEQUIVALENT} 'type'" not in fault.text
        return "" if same_type else fault.text
    await channel.close()
    return ""
