"""Sums over the objects of each virtual host."""

from collections.abc import Iterable

from warren.broker.plugin import Queue, VHost
from warren.broker.session.connection import Connection

from ...http.time_slices import in_slices
from .counters import Values, lengths


class Totals:
    """Queue lengths and bytes of connections, closed ones included, by virtual host, and the number of consumers."""

    __slots__ = ("consumers", "lengths", "bytes")

    def __init__(self) -> None:
        self.consumers = 0
        self.lengths: dict[str, Values] = {}
        self.bytes: dict[str, Values] = {}


async def totals_of(vhosts: Iterable[VHost], connections: Iterable[Connection]) -> Totals:
    """Return the sums, computed in slices, because there may be many queues."""
    totals = Totals()
    queues: list[Queue] = []
    for vhost in vhosts:
        totals.lengths[vhost.name] = (0, 0, 0)
        totals.bytes[vhost.name] = (vhost.statistics.received_bytes, vhost.statistics.sent_bytes)
        queues += vhost.queues.values()

    async for queue in in_slices(queues):
        totals.lengths[queue.vhost] = plus(totals.lengths[queue.vhost], lengths(queue))
        totals.consumers += len(queue.consumers)
    async for connection in in_slices(connections):
        vhost_of = connection.vhost
        if vhost_of is not None and vhost_of.name in totals.bytes:
            own = (connection.received_bytes, connection.sent_bytes)
            totals.bytes[vhost_of.name] = plus(totals.bytes[vhost_of.name], own)
    return totals


def plus(one: Values, other: Values) -> Values:
    return tuple(left + right for left, right in zip(one, other, strict=True))
