"""The bindings of one link, however many there are and whatever their arguments, hold no turn of the loop."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.support.session import SlowJournal, new_node
from tests.support.speed import within
from warren.broker.amqp.field_table import MAX_ENTRIES, Table
from warren.broker.core.jobs.scheduler import Job
from warren.broker.core.vhost.vhost import VHost
from warren.broker.plugin import Binding
from warren.federation import binding_set
from warren.federation.binding_set import FREED, STEP_COST, ExchangeBindings
from warren.federation.binding_sync import BindingSync
from warren.federation.link_settings import link_settings
from warren.federation.link_spec import LinkKey, LinkSpec
from warren.federation.link_status import LinkStatus
from warren.federation.upstream.channel import WINDOW_BYTES, UpstreamChannel
from warren.federation.upstream.turns import CHANGES_COST, Turns

from .meter import MANY, SLICE_MS, Meter

COUNT = MANY // 2
SENT_MS = 2 * SLICE_MS  # a turn of links, and the last binding that it has begun
FIELDS = MAX_ENTRIES - 8
PASSED_ON = [{"cluster-name": "far", "vhost": "/", "exchange": "/:y A", "hops": ("s", 9)}]


def no_arguments() -> Table:
    return Table.EMPTY


def many_fields() -> Table:
    """The arguments whose decoding takes longest for their size: as many fields as a table may have."""
    return Table(Table.of({"x-bound-from": PASSED_ON}).raw + b"\x01aV" * FIELDS)


def long_field() -> Table:
    return Table.of({"a": "b" * 120_000})


class AnsweringTransport:
    """A transport whose upstream answers in the next turn. `most` is the most bytes that were unanswered at once."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.most = self._unanswered = self.methods = 0
        self._loop = asyncio.get_running_loop()

    def call(self, channel: int, index: int, arguments: bytes) -> asyncio.Future[bytes]:
        self.methods += 1
        self._unanswered += len(arguments)
        self.most = max(self.most, self._unanswered)
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._loop.call_soon(self._answer, answer, len(arguments))
        return answer

    def _answer(self, answer: asyncio.Future[bytes], size: int) -> None:
        self._unanswered -= size
        answer.set_result(b"")


def synchronisation(bindings: ExchangeBindings, transport: AnsweringTransport) -> BindingSync:
    settings = link_settings("up", {"uri": "amqp://there", "max-hops": 9})
    spec = LinkSpec(LinkKey("/", "exchange", "x", "up", "x"), settings, "")
    channel = UpstreamChannel(1, cast(Any, transport), cast(Any, None))
    status = LinkStatus(time.time, lambda: None)
    return BindingSync(bindings, spec, "here", status, channel, ("there", "/"), ("federation: x A", "A"), False)


def bound(count: int, arguments: Callable[[], Table]) -> VHost:
    """A virtual host whose exchange x has so many bindings."""
    vhost = new_node(SlowJournal()).vhosts["/"]
    vhost.declare_exchange("x", "topic")
    queue = vhost.declare_queue("q")
    for number in range(count):
        vhost.bind("x", queue, f"some.key.{number}", arguments())
    return vhost


def read(bindings: ExchangeBindings) -> float:
    longest_ms = longest_step_ms(bindings.read(), STEP_COST)
    assert len(bindings) == len(bindings.exchange.outgoing)
    return longest_ms


def longest_step_ms(job: Job, least_cost: int) -> float:
    longest_s, begun_s = 0.0, time.thread_time()
    for cost in job:
        longest_s = max(longest_s, time.thread_time() - begun_s)
        begun_s = time.thread_time()
        assert cost >= least_cost, "several bindings in one step, unless they are large"
    return longest_s * 1000


WORST = [(COUNT, no_arguments), (200, many_fields), (50, long_field)]


@pytest.mark.parametrize(("count", "arguments"), WORST, ids=lambda value: getattr(value, "__name__", None))
def test_bindings_are_read_in_slices(count: int, arguments: Callable[[], Table]) -> None:
    bindings = ExchangeBindings(bound(count, arguments).exchanges["x"])
    assert within(read(bindings), SLICE_MS)


@pytest.mark.parametrize(("count", "arguments"), WORST, ids=lambda value: getattr(value, "__name__", None))
def test_bindings_are_sent_in_slices(meter: Meter, count: int, arguments: Callable[[], Table]) -> None:
    bindings = ExchangeBindings(bound(count, arguments).exchanges["x"])
    read(bindings)

    async def send() -> None:
        transport = AnsweringTransport()
        sync = synchronisation(bindings, transport)
        await sync.send()
        assert transport.methods == count
        sync.resend_some()
        await sync.send()
        assert transport.methods == count + min(count, 1000)
        assert transport.most < WINDOW_BYTES + (1 << 17)

    assert within(meter.longest_ms(send), SENT_MS)


def test_bindings_are_compared_in_slices(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding_set, "CHANGES_BYTES", 1_000)
    vhost = bound(MANY, no_arguments)
    bindings = ExchangeBindings(vhost.exchanges["x"])
    read(bindings)
    begun = meter.run(begin(bindings))

    async def compare() -> None:
        transport, sync = begun
        before = transport.methods
        for binding in list(vhost.exchanges["x"].outgoing.values())[:10]:
            bindings.change(binding, False)
            bindings.change(binding, True)
        sync.changed()
        await sync.send()
        assert transport.methods == before

    assert within(meter.longest_ms(compare), SLICE_MS)


def test_bindings_that_no_link_uses_are_freed_in_slices() -> None:
    bindings = ExchangeBindings(bound(COUNT, no_arguments).exchanges["x"])
    read(bindings)
    assert within(longest_step_ms(bindings.clear(), FREED), SLICE_MS)
    assert not bindings.all()


async def begin(bindings: ExchangeBindings) -> tuple[AnsweringTransport, BindingSync]:
    transport = AnsweringTransport()
    sync = synchronisation(bindings, transport)
    await sync.send()
    return transport, sync


LINKS, CHANGES = 128, 3_000


def test_changes_that_very_many_links_read_at_the_same_moment(meter: Meter) -> None:
    """Each has read up to another number, so that they share nothing. What is bound is unbound again, for less work."""
    vhost = bound(0, no_arguments)
    exchange, queue = vhost.exchanges["x"], vhost.queues["q"]
    bindings = ExchangeBindings(exchange)

    def change(bind: bool, number: int) -> None:
        bindings.change(Binding("x", queue, f"k{number}", Table.EMPTY), bind)

    async def follow() -> None:
        transport = AnsweringTransport()
        syncs = [synchronisation(bindings, transport) for _ in range(LINKS)]
        for number, sync in enumerate(syncs):
            change(True, number)
            await sync.send()
        for number in range(LINKS, LINKS + CHANGES):
            change(True, number)
            change(False, number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        tasks = [asyncio.ensure_future(sync.follow()) for sync in syncs]
        for sync in syncs:
            transport.turns.run(CHANGES_COST, sync.changed)
        while any(sync._read < bindings.number for sync in syncs):  # noqa: ASYNC110 - each turn is measured
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()

    assert within(meter.longest_ms(follow), SENT_MS)
