"""Samples of queues with messages of very many priorities are taken in short turns."""

from collections.abc import Iterator
from itertools import islice

from tests.support.in_process import InProcessPeer
from tests.support.speed import within
from warren.broker.amqp.field_table import Table
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.plugins.management.stats.counters import KINDS
from warren.plugins.management.stats.history import Samples
from warren.plugins.management.stats.sampler import SLICE, Sampler
from warren.plugins.management.stats.watermarks import MARKS, Watermarks

from .broker import StepMeter
from .meter import LIMIT_MS, Meter

LEVELS = 256
MESSAGE = Message(RoutingAddress("", "q"), b"", 1, 0, 0, False)
FEW = 10  # queues whose numbers change at each tick


def test_very_many_queues_with_messages_of_all_priorities(meter: Meter) -> None:
    peer = InProcessPeer()
    vhost, arguments = peer.node.vhosts["/"], Table.of({"x-max-priority": LEVELS - 1})
    for number in range(SLICE):
        queue = vhost.declare_queue(f"q{number}", arguments=arguments)
        for level in range(LEVELS):
            queue.push_at(level, [MESSAGE], 0)
    kept = []  # as to free it takes long

    async def sample() -> None:
        kept.append(Watermarks())
        connections = peer.server.connections.values
        await Sampler(peer.node, Samples(KINDS), connections, watermarks=kept[-1]).sample_in_slices()

    assert within(meter.longest_ms(sample), LIMIT_MS)
    first = vhost.queues["q0"]
    assert kept[-1].age_s("queue", ("/", "q0"), first, LEVELS - 1, 0, peer.clock.now_ms() + 5_000) == 5
    peer.close()


def test_marks_that_are_merged_and_dropped(step_meter: StepMeter) -> None:
    """All marks are merged at one tick, and dropped at another, as the queues are empty."""
    step = step_meter.measured(lambda ticking: len(list(islice(ticking, SLICE))))

    def tick(watermarks: Watermarks, number: int) -> Iterator[None]:
        watermarks.begin(number)
        for queue in range(FEW) if number <= MARKS else ():
            yield from watermarks.add("queue", (str(queue),), queue, [(level, number) for level in range(LEVELS)])
        yield from watermarks.end()

    for _ in step_meter.attempts(LIMIT_MS):
        watermarks = Watermarks()
        for number in range(MARKS + 2):
            ticking = tick(watermarks, number)
            while step(ticking) == SLICE:
                pass
        assert watermarks.age_s("queue", ("0",), 0, 0, 0, 0) is None
