"""Very many links that start, fail, lose their upstream and are removed at the same moment hold no turn of the loop."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from tests.support.federation import Place, Site
from tests.support.http import asgi_scope
from tests.support.loop_thread import LoopThread
from tests.support.polling import until_async
from tests.support.speed import within
from warren.broker.config.config import Federation
from warren.broker.runtime.garbage_collection import collect_young
from warren.plugins.management.application import application
from warren.plugins.management.framework.context import State

from .crowd import stay
from .meter import ATTEMPTS, TURN_MS, Meter

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


class Crowd:
    """A broker with very many exchanges and queues. `longest_ms` are the longest turns by what was done in them."""

    def __init__(self, meter: Meter, count: int) -> None:
        self.longest_ms: dict[str, float] = {}
        self.count = count
        self.site = Site(MeasuredLoop(meter), "down", federation=Federation(link_limit=None))
        self.place = self.site.place()
        self._meter = meter
        self._young = meter.loop.create_task(collect_young())
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

        async def work() -> None:
            act()
            await until_async(done, lambda: f"{what}: {self.status()}", WITHIN_S, 0.01)

        self._meter.run(work())
        self._note(what)

    def _note(self, what: str) -> None:
        self.longest_ms[what] = min(self._meter.longest_s * 1000, self.longest_ms.get(what, 1e9))

    def list(self, path: str) -> None:
        """Measure a request for the status of all links."""
        api = application(self.site.host, State(self.site.host))
        scope, _ = asgi_scope("GET", path, None, "guest")
        size = 0

        async def send(event: Any) -> None:
            nonlocal size
            size += len(event.get("body", b""))

        self._meter.run(api(scope, stay, send))
        assert size > 100 * self.count
        self._note(path)

    def federate(self) -> None:
        self.site.node.policies.set(self.place.vhost, "p", "^fed", {"federation-upstream-set": "all"}, 0, "all")

    def unfederate(self) -> None:
        self.site.node.policies.clear(self.place.vhost, "p")

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *error: object) -> None:
        self._young.cancel()
        self.site.close()


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


@pytest.mark.parametrize("count", [FEW, pytest.param(2_000, marks=FULL)])
@pytest.mark.parametrize("way", ["closes", "vanishes"])
def test_very_many_links_that_lose_their_upstream(meter: Meter, up: Place, count: int, way: str) -> None:
    crowd = Crowd(meter, count)
    crowd.place.upstream("up", up.uri)

    def lose() -> None:
        server = up.site.server
        if way == "closes":
            up.site.loop.call(server.close_connections, lambda connection: True, "bye")
        else:
            up.site.loop.call(lambda: [transport.abort() for transport in list(server.connections)])

    def attempt() -> None:
        crowd.measured("applied", crowd.federate, lambda: crowd.status() == {"running": count})
        failed = crowd.reconnects()
        crowd.measured("lost", lose, lambda: crowd.reconnects() >= failed + count)
        crowd.measured("back", lambda: None, lambda: crowd.status() == {"running": count})
        crowd.measured("removed", crowd.unfederate, lambda: not crowd.status())

    with crowd:
        check(crowd, attempt)
