"""The check of the upstream exchange's type, for types with an `ExchangeType.upstream_binding`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.plugin import Exchange

from .errors import LinkError

if TYPE_CHECKING:
    from .connection import UpstreamConnection

INEQUIVALENT = "inequivalent arg"


async def type_mismatch(connection: UpstreamConnection, exchange: Exchange, upstream_name: str) -> str:
    """Return how the upstream exchange's type differs, or an empty string if it does not or the exchange was missing.

    An exchange of another type would pass on what clients publish there. The type is checked by declaring the exchange
    again, for which the link needs permission to configure it. Raises LinkError if the connection is lost.
    """
    channel = await connection.channel()
    try:
        await channel.declare_exchange(
            upstream_name,
            exchange.type_name,
            durable=exchange.durable,
            auto_delete=exchange.auto_delete,
            arguments=exchange.arguments,
        )
    except LinkError as fault:
        if not fault.code:
            raise
        # The text names the first property that differs, and the type is compared first.
        same_type = INEQUIVALENT in fault.text and f"{INEQUIVALENT} 'type'" not in fault.text
        return "" if same_type else fault.text
    await channel.close()
    return ""
