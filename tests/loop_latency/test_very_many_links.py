"""Very many links that start, fail, lose their upstream and are removed at the same moment hold no turn of the loop.

Nor do very many links of one exchange or queue whose bindings or consumers change.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar, cast

import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.federation import Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until_async
from tests.support.ports import ReservedPort
from tests.support.speed import within
from warren.broker.amqp.field_table import Table
from warren.broker.config.config import Federation
from warren.broker.core.queues.consumers import Consumer
from warren.broker.runtime.garbage_collection import collect_young
from warren.federation import exchange_link, queue_link
from warren.federation.exchange_link import ExchangeLink
from warren.federation.link import Link
from warren.federation.queue_link import QueueLink
from warren.federation.upstream.errors import LinkError
from warren.federation.upstream.turns import CHECK_COST, TURN_COST
from warren.plugins.management.dispatcher import application
from warren.plugins.management.framework.state import ManagementState

from .crowd import Reader
from .meter import ATTEMPTS, LIMIT_MS, MANY, TURN_MS, Meter, attempts_within

pytestmark = pytest.mark.sockets

FULL = pytest.mark.rest("some seconds of processor time")
REFUSED = "amqp://127.0.0.1:1"
WITHIN_S = 120.0
# Links that run take long to start. Fewer are enough to see whether all of them have a step in the same turn.
FEW, FEW_MS = 200, 12

T = TypeVar("T")


class MeasuredLoop(LoopThread):
    """The loop of a meter, which runs only while somebody waits for it, in the place of one with a thread."""

    def __init__(self, meter: Meter) -> None:
        self.loop = meter.loop

    def run(self, work: Coroutine[Any, Any, T], within_s: float = WITHIN_S) -> T:
        return self.loop.run_until_complete(work)


class Down:
    """A broker without a limit of links, the turns of whose loop are measured."""

    def __init__(self, meter: Meter, count: int) -> None:
        self.meter = meter
        self.count = count
        self.site = Site(MeasuredLoop(meter), "down", federation=Federation(link_limit=None))
        self.place = self.site.place()
        self._young = meter.loop.create_task(collect_young())

    def turn_ms(self, act: Callable[[], object], done: Callable[[], bool], state: Callable[[], str]) -> float:
        """Return the longest turn from `act` until `done`, in milliseconds; `state` is told if that takes too long."""

        async def work() -> None:
            act()
            await until_async(done, state, WITHIN_S, 0.01)

        self.meter.run(work())
        return self.meter.longest_s * 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._young.cancel()
        self.site.close()


class Crowd(Down):
    """A broker with very many exchanges and queues. `longest_ms` are the longest turns by what was done in them.

    Its links are suspended unless it is `alone`.
    """

    def __init__(self, meter: Meter, count: int) -> None:
        super().__init__(meter, count)
        self.longest_ms: dict[str, float] = {}
        self.alone = True
        self.site.loop.run(self.site.stop_federating())
        self.site.host.alone = lambda: self.alone
        self.site.loop.run(self.site.begin_federating())
        with self.site.host.acting("guest"):
            vhost = self.site.node.vhosts[self.place.vhost]
            for number in range(count // 2):
                vhost.declare_exchange(f"fed.{number}", "fanout")
                vhost.declare_queue(f"fed.{number}")

    def status(self) -> dict[str, int]:
        return dict(self.site.federation.count_by_status())

    def retries(self) -> int:
        """The attempts of the link that has made the fewest."""
        return min(link.status.retries for link in self.site.federation.links.values())

    def reconnects(self) -> int:
        return sum(link.status.reconnects for link in self.site.federation.links.values())

    def measured(self, what: str, act: Callable[[], object], done: Callable[[], bool]) -> None:
        """Measure the turns from `act` until `done`."""
        self._note(what, self.turn_ms(act, done, lambda: f"{what}: {self.status()}"))

    def _note(self, what: str, turn_ms: float) -> None:
        self.longest_ms[what] = min(turn_ms, self.longest_ms.get(what, 1e9))

    def list(self, path: str) -> None:
        """Measure a request for the status of all links."""
        reader = Reader(application(self.site.host, ManagementState(self.site.host)))
        self.meter.run(reader.read(path))
        assert len(reader.body) > 100 * self.count
        self._note(path, self.meter.longest_s * 1000)

    def federate(self) -> None:
        self.site.node.policies.set(self.place.vhost, "p", "^fed", {"federation-upstream-set": "all"}, 0, "all")

    def unfederate(self) -> None:
        self.site.node.policies.clear(self.place.vhost, "p")


class Fan(Down):
    """A broker with one exchange and one queue that very many links of one kind connect to as many upstreams."""

    def __init__(self, meter: Meter, up: Place, count: int, kind: str) -> None:
        super().__init__(meter, count)
        self.vhost = self.site.node.vhosts[self.place.vhost]
        with self.site.host.acting("guest"):
            self.vhost.declare_exchange("fed", "direct")
            self.queue = self.vhost.declare_queue("fed")
            self.other = self.vhost.declare_queue("other")
        for number in range(count):
            self.place.upstream(f"u{number}", up.uri, **{kind: f"up{number}"})
        self.site.node.policies.set(self.vhost.name, "p", "^fed", {"federation-upstream-set": "all"}, 0, f"{kind}s")
        self.until(lambda: self.site.federation.count_by_status() == {"running": count})

    def links(self) -> list[Link]:
        return list(self.site.federation.links.values())

    def until(self, done: Callable[[], bool], act: Callable[[], object] = lambda: None) -> float:
        """Return the longest turn from `act` until `done`, in milliseconds."""
        return self.turn_ms(act, done, lambda: f"{self.bound()}, {self.site.federation.count_by_status()}")

    def bound(self) -> set[int]:
        """The numbers of bindings that links have upstream."""
        return {link.status.bindings for link in self.links()}


@pytest.fixture
def up() -> Iterator[Place]:
    thread = LoopThread()
    site = Site(thread, "up")
    yield site.place()
    site.close()
    thread.close()


def check(crowd: Crowd, attempt: Callable[[], None]) -> None:
    """Fail if a kind of turn is too long in each of some attempts."""
    limit_ms = TURN_MS if crowd.count > FEW else FEW_MS
    for _ in range(ATTEMPTS):
        attempt()
        if all(within(longest, limit_ms) for longest in crowd.longest_ms.values()):
            break
    assert all(within(longest, limit_ms) for longest in crowd.longest_ms.values()), crowd.longest_ms


@pytest.mark.parametrize("count", [1_000, pytest.param(2_000, marks=FULL)])
def test_very_many_links_whose_upstream_refuses(meter: Meter, count: int) -> None:
    crowd = Crowd(meter, count)
    crowd.place.upstream("up", REFUSED, reconnect_delay=1)

    def attempt() -> None:
        crowd.measured("applied", crowd.federate, lambda: crowd.status() == {"error": count})
        tried = crowd.retries()
        crowd.measured("retried", lambda: None, lambda: crowd.retries() > tried)
        crowd.list("/federation-links")
        crowd.measured("removed", crowd.unfederate, lambda: not crowd.status())

    with crowd:
        check(crowd, attempt)


@pytest.mark.parametrize("count", [FEW // 2, pytest.param(2_000, marks=FULL)])
@pytest.mark.parametrize("way", ["closes", "vanishes", "suspended"])
def test_very_many_links_that_lose_their_upstream(uvloop_meter: Meter, tmp_path: Path, count: int, way: str) -> None:
    # In a process of its own: a thread of this one would take the interpreter's lock at each read, which takes time.
    port = ReservedPort()
    address = f"127.0.0.1:{port.number}"
    up = BrokerProcess(tmp_path, "--http", ANY_PORT, memory=True, amqp=address)

    def lose() -> None:
        if way == "suspended":
            crowd.alone = False
        elif way == "closes":
            assert up.http().delete("/connections/username/guest").status == 204
        else:
            up.kill()
            up.start()

    def attempt() -> None:
        crowd.measured("applied", crowd.federate, lambda: crowd.status() == {"running": count})
        failed = crowd.reconnects()
        lose()
        crowd.measured("lost", lambda: None, lambda: crowd.reconnects() >= failed + count)
        crowd.alone = True
        crowd.measured("back", lambda: None, lambda: crowd.status() == {"running": count})
        crowd.measured("removed", crowd.unfederate, lambda: not crowd.status())

    crowd = Crowd(uvloop_meter, count)
    with up, crowd:
        crowd.place.upstream("up", f"amqp://guest:guest@{address}/%2f")
        check(crowd, attempt)
    port.close()


def check_one_of(attempt: Callable[[], float], count: int) -> None:
    """Fail if the longest turn is too long in each of some attempts."""
    limit_ms = TURN_MS if count > FEW else FEW_MS
    for took_ms in attempts_within(limit_ms):
        took_ms.append(attempt())


BINDINGS = 30


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=FULL)])
def test_bindings_of_an_exchange_with_very_many_links(meter: Meter, up: Place, count: int) -> None:
    with Fan(meter, up, count, "exchange") as fan:
        vhost = fan.vhost

        def bind() -> None:
            for number in range(BINDINGS):
                vhost.bind("fed", fan.other, f"k{number}", Table.EMPTY)

        def unbind() -> None:
            for number in range(BINDINGS):
                vhost.unbind("fed", fan.other, f"k{number}", Table.EMPTY)

        def attempt() -> float:
            bound = fan.until(lambda: fan.bound() == {BINDINGS}, bind)
            return max(bound, fan.until(lambda: fan.bound() == {0}, unbind))

        check_one_of(attempt, count)
        upstream = up.site.node.vhosts[up.vhost]
        fan.until(lambda: fan.bound() == {BINDINGS}, bind)
        fan.until(lambda: all(len(upstream.exchanges[f"up{number}"].outgoing) == BINDINGS for number in range(count)))
        assert fan.site.federation.count_by_status() == {"running": count}


def test_bindings_are_forgotten_when_the_links_of_their_exchange_have_ended(meter: Meter, up: Place) -> None:
    with Fan(meter, up, 2, "exchange") as fan:
        for number in range(BINDINGS):
            fan.vhost.bind("fed", fan.other, f"k{number}", Table.EMPTY)
        fan.until(lambda: fan.bound() == {BINDINGS})
        federation = fan.site.federation
        (bindings,) = federation._bindings.values()
        assert len(bindings) == BINDINGS

        def forgotten() -> bool:
            federation.reconcile_soon()
            return not bindings.all()

        def kept() -> bool:
            federation.reconcile_soon()
            return fan.bound() == {BINDINGS} and not federation._ending

        fan.until(kept, lambda: federation.restart(next(iter(federation.links)).id))
        assert list(federation._bindings.values()) == [bindings] and len(bindings) == BINDINGS
        fan.until(forgotten, lambda: fan.site.node.policies.clear(fan.vhost.name, "p"))
        assert not federation.links and not federation._bindings


@pytest.mark.parametrize("count", [FEW, pytest.param(2_000, marks=FULL)])
@pytest.mark.parametrize("change", ["consumers", "room"])
def test_consumers_of_a_queue_with_very_many_links(meter: Meter, up: Place, count: int, change: str) -> None:
    with Fan(meter, up, count, "queue") as fan:
        evaluated = noted(fan, meter)

        def act() -> None:
            for _ in range(100):
                fan.vhost.consumers_changed(fan.queue) if change == "consumers" else fan.queue._demand_changed()
            followed = count if change == "consumers" else 0
            assert len(fan.queue.demand_followers) == followed, "each is notified once until it evaluates demand"

        def attempt() -> float:
            evaluated.clear()
            return fan.until(lambda: len({link for link, _ in evaluated}) == count, act)

        check_one_of(attempt, count)
        assert len(evaluated) == count, "many changes are one"
        assert max(Counter(turn for _, turn in evaluated).values()) < 2 * TURN_COST


def test_very_many_links_whose_intervals_end_in_a_long_turn(
    meter: Meter, up: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_link, "DEMAND_INTERVAL_S", 0.3)
    with Fan(meter, up, FEW, "queue") as fan:
        evaluated = noted(fan, meter)

        def act() -> None:
            evaluated.clear()
            fan.queue._demand_changed()
            meter.loop.call_later(0.15, time.sleep, 0.3)

        for _ in range(2):  # the first evaluations begin the intervals
            fan.until(lambda: len(evaluated) == FEW, act)
        assert max(Counter(turn for _, turn in evaluated).values()) < 2 * TURN_COST


def noted(fan: Fan, meter: Meter) -> list[tuple[QueueLink, int]]:
    """Return a list to which each link is added, with the turn, in place of an evaluation of its demand."""
    evaluated: list[tuple[QueueLink, int]] = []

    async def evaluate(link: QueueLink, *_: object) -> None:
        evaluated.append((link, meter.turns))

    for link in fan.links():
        assert isinstance(link, QueueLink)
        link._evaluate_demand = partial(evaluate, link)  # type: ignore[method-assign]
    return evaluated


class Sated(Consumer):
    """A consumer that has no room."""

    def room(self, body_bytes: int) -> int:
        return 0


@pytest.mark.parametrize("priorities", [1, MANY])
def test_very_many_consumers_without_room_of_a_queue_with_a_link(meter: Meter, up: Place, priorities: int) -> None:
    with Fan(meter, up, 1, "queue") as fan:
        queue = fan.queue

        def attempt() -> float:
            queue.consumers.remove_all()
            for number in range(MANY):
                queue.add_consumer(Sated(f"c{number}", None, True, False, number % priorities))
            return fan.until(lambda: not queue.consumers.any_ready(), lambda: fan.vhost.consumers_changed(queue))

        assert any(within(attempt(), LIMIT_MS) for _ in range(ATTEMPTS))
        assert all(consumer.waiting for consumer in queue.consumers.all)


@pytest.mark.parametrize("kind", ["exchange", "queue"])
def test_checks_of_very_many_links_that_are_due_at_the_same_moment(
    meter: Meter, up: Place, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 100
    with Fan(meter, up, count, kind) as fan:
        checked: list[int] = []

        async def check(*_: object) -> NoReturn:
            checked.append(meter.turns)
            raise LinkError("checked")

        def checks(link: Link) -> Coroutine[Any, Any, None]:
            if isinstance(link, QueueLink):
                link._look_at_backlog = check  # type: ignore[method-assign]
                return link._watch_backlog(cast(Any, None))
            assert isinstance(link, ExchangeLink) and link._connection is not None
            link.open_passive_channel = check  # type: ignore[method-assign]
            return link._check(link._connection, cast(Any, None))

        async def check_all() -> None:
            await asyncio.gather(*map(checks, fan.links()), return_exceptions=True)

        for module in (exchange_link, queue_link):
            monkeypatch.setattr(module, "BACKLOG_S", 0.001)
        meter.run(check_all())
        assert len(checked) == count
        assert max(Counter(checked).values()) < 2 * TURN_COST // CHECK_COST
