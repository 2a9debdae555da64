"""From an exchange and routing keys to queues (spec/core.md 5.5-5.7, 8): pure, and each queue at most once."""

from __future__ import annotations

from collections import deque

from ..messages.binding import Destination
from ..messages.message import Address, Message
from ..queues.queue import Queue
from ..queues.route_target import RouteTarget
from .exchange import Exchange

RouteKey = bytes | tuple[str, str]
"""Key of a remembered route: the payload of basic.publish, or exchange and routing key of an internal publisher."""


class Route:
    """Where publishes with one address go, worked out once and remembered until the topology changes.

    `queues` is None where every message has to be routed by itself. So has one whose properties have any of `telling`.
    """

    __slots__ = ("address", "exchange", "queues", "mandatory", "telling")

    def __init__(
        self,
        address: Address,
        exchange: Exchange,
        queues: tuple[RouteTarget, ...] | None,
        mandatory: bool,
        telling: frozenset[bytes],
    ) -> None:
        self.address = address
        self.exchange = exchange
        self.queues = queues
        self.mandatory = mandatory
        self.telling = telling

    def is_told_by(self, raw: bytes) -> bool:
        """Whether these properties have any of them."""
        return any(octets in raw for octets in self.telling)


NOTHING = Message(Address("", ""), b"", 0, 0, 0, False)  # for types that look at keys alone


def route(
    exchange: Exchange,
    exchanges: dict[str, Exchange],
    queues: dict[str, Queue],
    keys: tuple[str, ...],
    message: Message | None,
    telling: set[bytes] | None = None,
    some_deleted: bool = False,
) -> tuple[tuple[RouteTarget, ...], bool]:
    """The queues a message goes to, and whether that holds for every message with these keys until a binding changes.

    It holds when every exchange on the way decides by its keys alone; without a message there are no queues else.
    Octets of properties that change the decision are added to `telling`. The default exchange ("") leads to the queue
    of each key's name; an alternate exchange is tried where an exchange finds nothing. Recorders come last. With
    `some_deleted` bindings may lead to what is in neither dict any more.
    """
    if exchange.name == "":
        return tuple([queues[key] for key in dict.fromkeys(keys) if key in queues]), True
    found: dict[RouteTarget, None] = {}
    recorders: list[RouteTarget] = []
    stable = True
    seen = {exchange.name}
    work = deque((exchange,))
    while work:
        current = work.popleft()
        if telling is not None and current.type.by_key_without:
            telling.add(current.type.by_key_without)
        else:
            stable = stable and current.type.by_key
        if message is None and not stable:
            return (), False
        destinations: list[Destination] = current.type.route(keys, message or NOTHING)
        if some_deleted:
            destinations = [one for one in destinations if is_there(one, exchanges, queues)]
        if current.type.records and (recorder := current.type.recorder) is not None:
            recorders.append(recorder)
        if not destinations:
            alternate = current.alternate
            follow = exchanges.get(alternate) if alternate is not None else None
            destinations = [follow] if follow is not None else []
        for destination in destinations:
            if isinstance(destination, RouteTarget):
                found[destination] = None
            elif isinstance(destination, Exchange) and destination.name not in seen:
                if destination.name == "":  # as an alternate exchange
                    found.update((queues[key], None) for key in keys if key in queues)
                    continue
                seen.add(destination.name)
                work.append(destination)
    return (*found, *recorders) if found else (), stable


def is_there(destination: Destination, exchanges: dict[str, Exchange], queues: dict[str, Queue]) -> bool:
    return queues.get(destination.name) is destination or exchanges.get(destination.name) is destination
