"""The periodic sampling of all objects, in slices short enough not to delay messages."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from warren.broker.core.counters.statistics import Statistics
from warren.broker.plugin import Node
from warren.broker.session.connection import Connection

from . import counters
from .counters import Values
from .history import Sample, Samples
from .watermarks import Watermarks, tails

SLICE = 100  # objects, or priority levels of queues, sampled in one turn of the loop: about a millisecond


@dataclass(slots=True, eq=False)
class Sampler:
    """The task that samples all counters.

    `connections` returns the open ones; `gauges` returns the values of GAUGES; `more` yields further samples.
    """

    node: Node
    samples: Samples
    connections: Callable[[], Iterable[Connection]]
    gauges: Callable[[], Values] | None = None
    more: Callable[[], Iterable[Sample]] = tuple
    watermarks: Watermarks = field(default_factory=Watermarks)

    async def run(self) -> None:
        """Sample at each interval until cancelled."""
        interval_s = self.samples.interval_ms / 1000
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while True:
            await self.sample_in_slices()
            next_s = max(next_s + interval_s, loop.time())
            await asyncio.sleep(next_s - loop.time())

    async def sample_in_slices(self) -> None:
        """Sample all objects once, in several turns of the loop."""
        for number, _ in enumerate(self.sample_all(self.node.clock.now_ms()), 1):
            if not number % SLICE:
                await asyncio.sleep(0)

    def sample_all(self, now_ms: int) -> Iterator[None]:
        """Sample all objects once, yielding often; objects created meanwhile are sampled at the next tick."""
        samples = self.samples
        if samples.mode == "none":
            return
        samples.begin(now_ms)
        self.watermarks.begin(now_ms)
        vhost_bytes: dict[str, tuple[int, int]] = {}
        yield from self._sample_connections(vhost_bytes)
        for sample in self.more():
            samples.add_sample(*sample)
            yield
        total = (0, 0, 0)
        for vhost in list(self.node.vhosts.values()):
            lengths = (0, 0, 0)
            for queue in list(vhost.queues.values()):
                own = counters.lengths(queue)
                lengths = plus(lengths, own)
                values = (queue.published, *counters.delivering(queue.delivering), *own)
                key = counters.object_key(queue)
                samples.add_sample("queue", key, queue, values)
                if own[0]:
                    yield from self.watermarks.add("queue", key, queue, tails(queue))
                yield
            for exchange in list(vhost.exchanges.values()):
                values = (exchange.publish_in, exchange.publish_out)
                samples.add_sample("exchange", counters.object_key(exchange), exchange, values)
                yield
            total = plus(total, lengths)
            counted = vhost.statistics
            received, sent = vhost_bytes.get(vhost.name, (0, 0))
            values = (
                *counted.publishing.values(),
                *counters.delivering(counted.delivered()),
                *lengths,
                *(counted.received_bytes + received, counted.sent_bytes + sent),
            )
            samples.add_sample("vhost", counters.vhost_key(vhost), vhost, values)
            yield
        yield from self._sample_node(total)
        yield from samples.end()
        yield from self.watermarks.end()

    def _sample_connections(self, vhost_bytes: dict[str, tuple[int, int]]) -> Iterator[None]:
        """Sample connections and channels; add received and sent bytes to `vhost_bytes` by virtual host."""
        samples = self.samples
        held = (0, 0, 0)
        for connection in list(self.connections()):
            held = plus(held, connection.held_bytes)
            came, went = connection.received_bytes, connection.sent_bytes
            samples.add_sample("connection", counters.connection_key(connection), connection, (came, went))
            if connection.vhost is not None:
                received, sent = vhost_bytes.get(connection.vhost.name, (0, 0))
                vhost_bytes[connection.vhost.name] = (received + came, sent + went)
            for channel in list(connection.channels.values()):
                values = (*channel.publishing.values(), *counters.delivering(channel.delivering))
                key = counters.channel_key(connection, channel)
                samples.add_sample("channel", key, channel, values)
                if channel.unacked:
                    yield from self.watermarks.add("channel", key, channel, ((0, channel.delivery_tag + 1),))
                yield
            yield
        ledger = self.node.ledger
        ledger.arriving_bytes, ledger.output_bytes, ledger.transaction_bytes = held

    def _sample_node(self, lengths: tuple[int, int, int]) -> Iterator[None]:
        node, samples, counted = self.node, self.samples, Statistics()
        yield from node.sum_statistics(counted)
        values = (
            *counted.publishing.values(),
            *counters.delivering(counted.delivered()),
            *lengths,
            *node.churn.values(),
        )
        samples.add_sample("overview", counters.OVERVIEW, node, values)
        if self.gauges is not None:
            samples.add_sample("node", counters.OVERVIEW, node, self.gauges())


def plus(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
