"""Routing: the queues that a message reaches from an exchange, through other exchanges and alternate exchanges."""

from __future__ import annotations

from collections import deque

from ..messages.binding import Destination
from ..messages.message import Address, Message
from ..queues.queue import Queue
from ..queues.route_target import RouteTarget
from .exchange import Exchange

EXCHANGE_COST = 3  # of an exchange on the way (`jobs.scheduler`)
DESTINATIONS_SHIFT = 3  # of 8 destinations: 1

ENQUEUE_COST = 3_000  # of the messages that are enqueued in one step
PER_MESSAGE_COST = 3  # of a queue that looks at each message
PAGE_COST = 8  # of a queue that stores the message and keeps its location, as memory is used up
SHARED = 16  # messages that are enqueued together in many queues cost twice as much as one
UNLIMITED = 1 << 30

RouteKey = bytes | tuple[str, str]
"""The key of a cached route: the payload of basic.publish, or exchange and routing key of an internal publisher."""


class Route:
    """The cached route of all publishes with one address, valid until the topology changes.

    `cost` is that of enqueueing one message (`jobs.scheduler`), and `at_once` how many may be enqueued in one step.
    `queues` is None if each message must be routed by itself. So must a message whose properties contain any of the
    `markers`. `direct` messages came from a queue of the same name elsewhere: they go to `queues` whatever their CC.
    """

    __slots__ = ("address", "exchange", "queues", "mandatory", "markers", "direct", "cost", "at_once")

    def __init__(
        self,
        address: Address,
        exchange: Exchange,
        queues: tuple[RouteTarget, ...] | None,
        mandatory: bool,
        markers: frozenset[bytes],
        direct: bool = False,
    ) -> None:
        self.address = address
        self.exchange = exchange
        self.queues = queues
        self.mandatory = mandatory
        self.markers = markers
        self.direct = direct
        self.cost = 1
        self.at_once = UNLIMITED
        if queues is not None and len(queues) > 1:
            self.cost = count = len(queues)
            self.at_once = max(SHARED * (ENQUEUE_COST // count - 1), 1)
            if any(queue.per_message for queue in queues):
                self.cost = PER_MESSAGE_COST * count
                self.at_once = max(ENQUEUE_COST // self.cost, 1)

    def needs_message(self, raw: bytes) -> bool:
        """Return whether the properties contain a marker, so that the message must be routed by itself."""
        return any(marker in raw for marker in self.markers)


NOTHING = Message(Address("", ""), b"", 0, 0, 0, False)  # for types that route by key only


def route(
    exchange: Exchange,
    exchanges: dict[str, Exchange],
    queues: dict[str, Queue],
    keys: tuple[str, ...],
    message: Message | None,
    markers: set[bytes] | None = None,
    some_deleted: bool = False,
) -> tuple[tuple[RouteTarget, ...], bool, int]:
    """Return the queues that a message reaches, each once, whether they may be cached until a binding changes, and the
    cost of the search (`jobs.scheduler`).

    The result may be cached if every exchange on the way routes by key only; if not, and `message` is None, the result
    has no queues. Names of headers that affect the route are added to `markers`. The default exchange ("") routes to
    the queue named by each key. An alternate exchange gets the messages that its exchange cannot route. Recorders
    follow the queues. With `some_deleted`, destinations that are in neither dict are skipped.
    """
    if exchange.name == "":
        return tuple([queues[key] for key in dict.fromkeys(keys) if key in queues]), True, len(keys)
    cost = 0
    found: dict[RouteTarget, None] = {}
    recorders: list[RouteTarget] = []
    stable = True
    seen = {exchange.name}
    work = deque((exchange,))
    while work:
        current = work.popleft()
        if markers is not None and current.type.routes_by_key_unless_header:
            markers.add(current.type.routes_by_key_unless_header)
        else:
            stable = stable and current.type.routes_by_key_only
        if message is None and not stable:
            return (), False, cost
        destinations: list[Destination] = current.type.route(keys, message or NOTHING)
        cost += EXCHANGE_COST + current.type.route_cost + len(keys) + (len(destinations) >> DESTINATIONS_SHIFT)
        if some_deleted:
            destinations = [one for one in destinations if exists(one, exchanges, queues)]
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
    return (*found, *recorders) if found else (), stable, cost


def exists(destination: Destination, exchanges: dict[str, Exchange], queues: dict[str, Queue]) -> bool:
    return queues.get(destination.name) is destination or exchanges.get(destination.name) is destination
