"""What is summed up over all that is in a virtual host."""

from __future__ import annotations

from collections.abc import Iterable

from warren.broker.plugin import Queue, VHost
from warren.broker.session.connection import Connection

from ..pagination import each_in_slices
from .counters import Values, lengths


class Totals:
    """Sums by the names of virtual hosts: lengths of queues, and bytes of connections, the closed ones too.

    `consumers` are those of all together.
    """

    __slots__ = ("consumers", "lengths", "octets")

    def __init__(self) -> None:
        self.consumers = 0
        self.lengths: dict[str, Values] = {}
        self.octets: dict[str, Values] = {}


async def totals_of(vhosts: Iterable[VHost], connections: Iterable[Connection]) -> Totals:
    """In slices, as there may be many queues."""
    totals = Totals()
    queues: list[Queue] = []
    for vhost in vhosts:
        totals.lengths[vhost.name] = (0, 0, 0)
        totals.octets[vhost.name] = (vhost.statistics.received_bytes, vhost.statistics.sent_bytes)
        queues += vhost.queues.values()

    def add_lengths(queue: Queue) -> None:
        totals.lengths[queue.vhost] = plus(totals.lengths[queue.vhost], lengths(queue))
        totals.consumers += len(queue.consumers)

    def add_octets(one: Connection) -> None:
        if one.vhost is not None and one.vhost.name in totals.octets:
            own = (one.received_bytes, one.sent_bytes)
            totals.octets[one.vhost.name] = plus(totals.octets[one.vhost.name], own)

    await each_in_slices(queues, add_lengths)
    await each_in_slices(connections, add_octets)
    return totals


def plus(one: Values, other: Values) -> Values:
    return tuple(left + right for left, right in zip(one, other, strict=True))
