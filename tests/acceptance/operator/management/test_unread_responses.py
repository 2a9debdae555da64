"""The memory of responses that clients do not read."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
from starlette.types import ASGIApp

from tests.support.http import Api, Response, asgi_scope, call_application
from tests.support.polling import until_async
from warren.broker.plugin import Listener
from warren.plugins.http import time_slices
from warren.plugins.http.limits import Quota
from warren.plugins.http.responses import HTTPError
from warren.plugins.management.framework import state, unread
from warren.plugins.management.framework.http_api import HTTPAPI
from warren.plugins.management.service import LocalHTTP, ManagementService

QUEUES = 100
HERE, THERE = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A broker whose limits allow three lists, and two of one source."""
    monkeypatch.setattr(time_slices, "TEXT_BYTES", 1000)
    monkeypatch.setattr(unread, "FREE_BYTES", 1000)
    monkeypatch.setattr(unread, "SHORT_BYTES", 5000)
    monkeypatch.setattr(unread, "ROOM_S", 0.05)
    made = Api()
    for number in range(QUEUES):
        made.put(f"/queues/%2F/q{number}")
    size = len(made.get("/queues").body)
    made.close()
    monkeypatch.setattr(state, "UNREAD_BYTES", 3 * size)
    monkeypatch.setattr(state, "SOURCE_UNREAD_BYTES", 2 * size)
    api = Api(made.peer)
    yield api
    api.close()


class NotListening:
    """A listener of a broker without sockets."""

    sockets: tuple[()] = ()

    def close(self) -> None:
        pass


class Client:
    """A client that asks for all queues, and reads the end of the response on request."""

    def __init__(self, api: Api, address: str = HERE, application: ASGIApp | None = None) -> None:
        self.status = 0
        self.size = 0
        self.reads = asyncio.Event()
        self.leaves = asyncio.Event()
        self._begun = asyncio.Event()
        self.headers: dict[bytes, bytes] = {}
        scope, _ = asgi_scope("GET", "/queues", address=address)
        self.task = asyncio.ensure_future((application or api.application)(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.headers = dict(event["headers"])
            self._begun.set()
        elif self.status == 200:
            await self.reads.wait()
        self.size += len(event.get("body", b""))

    async def begun(self) -> int:
        await self._begun.wait()
        return self.status

    async def read(self) -> None:
        """Read all of the response."""
        self.reads.set()
        await self.task


async def ask(api: Api, path: str, method: str = "GET", body: object = None) -> Response:
    return await call_application(api.application, *asgi_scope(method, path, body))


async def test_unread_responses_are_limited_by_source_and_in_total(api: Api) -> None:
    clients = [Client(api) for _ in range(4)]
    assert sorted([await client.begun() for client in clients]) == [200, 200, 503, 503]
    other, refused = Client(api, THERE), Client(api, THERE)
    assert sorted([await other.begun(), await refused.begun()]) == [200, 503]
    response = await ask(api, "/queues")
    assert response.error[:2] == (503, "service_unavailable")
    assert response.headers["retry-after"]
    assert (await ask(api, "/queues/%2F/q1?columns=name")).status == 200  # a short one
    for client in (*clients, other, refused):
        await client.read()
    assert (await ask(api, "/queues")).status == 200
    assert api.state.unread.used == 0


@pytest.mark.parametrize("sources", [1, 5])
async def test_responses_without_room_wait_in_order(api: Api, sources: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "ROOM_S", 10)
    clients = [Client(api, f"127.0.0.{1 + number % sources}") for number in range(20)]
    short = await ask(api, "/queues/%2F/q1?columns=name")
    assert short.status == 200
    for _ in clients:
        await until_async(lambda: any(client.status and not client.reads.is_set() for client in clients))
        assert api.state.unread.used <= api.state.unread.limit
        assert api.state.unread.of(HERE) <= api.state.unread.key_limit
        next(client for client in clients if client.status and not client.reads.is_set()).reads.set()
    await asyncio.gather(*[client.task for client in clients])
    assert {client.status for client in clients} == {200} and len({client.size for client in clients}) == 1
    assert api.state.unread.used == 0


async def test_waits_for_room_are_bounded_and_end_with_the_client(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "ROOM_S", 10)
    monkeypatch.setattr(unread, "SOURCE_WAITING_LIMIT", 2)
    api = Api(api.peer)
    waiting = api.state.unread
    readers = [Client(api) for _ in range(2)]
    for client in readers:
        assert await client.begun() == 200
    others = [Client(api) for _ in range(3)]
    await until_async(lambda: [client.status for client in others].count(503) == 1)
    other = next(client for client in others if not client.status)
    other.leaves.set()
    await other.task
    for client in readers:
        client.reads.set()
    last = next(client for client in others if not client.status and client is not other)
    await last.read()
    assert (other.status, last.status) == (0, 200)
    assert not waiting.used and not waiting._waiting and not waiting._counts.used
    api.close()


async def test_a_short_response_passes_waiting_ones(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "ROOM_S", 10)
    monkeypatch.setattr(unread, "SOURCE_WAITING_LIMIT", 2)
    api = Api(api.peer)
    take = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    clients = [Client(api) for _ in range(2)]
    for client in clients:
        assert await client.begun() == 200
    api.state.unread.key_limit += 5000  # less than a list needs
    clients += [Client(api) for _ in range(2)]
    await until_async(lambda: len(api.state.unread._waiting) == 2)
    for _ in range(3):
        assert (await ask(api, "/queues/%2F/q0/get", "POST", take)).json == []
        assert len((await ask(api, "/queues?page=1&page_size=5")).json["items"]) == 5
    assert (await ask(api, "/queues")).status == 503
    for client in clients:
        await client.read()
    assert not api.state.unread.used and not api.state.unread._turns
    api.close()


async def test_a_short_response_is_made_beside_a_long_one_that_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "FREE_BYTES", 0)
    monkeypatch.setattr(unread, "SHORT_BYTES", 10)
    quota = unread.UnreadQuota(1000, 1000)
    full, long, other, short = (unread.Unread(quota, HERE) for _ in range(4))

    def refuse(response: unread.Unread, size: int) -> None:
        with pytest.raises(HTTPError):
            response.resize(size)

    full.resize(1000)
    waits = []
    for response in (long, other):
        refuse(response, 100)
        waits.append(asyncio.ensure_future(response.room()))
        await asyncio.sleep(0)
    full.resize(0, refuse=False)
    await waits[0]
    assert not waits[1].done() and quota.has_room(HERE, 800)
    refuse(short, 4)  # as another one waits
    await asyncio.wait_for(short.room(), 1)
    short.resize(8)
    refuse(short, 9)  # as it has kept room for 8
    wait = asyncio.ensure_future(short.room())
    await asyncio.sleep(0)
    assert not wait.done()  # it is not so short
    long.resize(900)
    long.resize(0, refuse=False)
    await asyncio.wait_for(wait, 1)
    short.resize(0, refuse=False)
    await asyncio.wait_for(waits[1], 1)


async def test_responses_that_wait_when_the_service_stops_are_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread, "ROOM_S", 10)

    async def check(stop: Callable[[], Awaitable[None]], application: ASGIApp, quota: unread.UnreadQuota) -> None:
        clients = [Client(api, application=application) for _ in range(2)]
        for client in clients:
            assert await client.begun() == 200
        clients += [Client(api, application=application) for _ in range(2)]
        await until_async(lambda: len(quota._waiting) == 2)
        await stop()
        clients += [Client(api, application=application)]
        for client in clients[2:]:
            assert await asyncio.wait_for(client.begun(), 5) == 503
            assert client.headers[b"retry-after"]
        for client in clients:
            await client.read()

    service = ManagementService()
    service._state = api.state
    await check(service.stop, api.application, api.state.unread)
    local = LocalHTTP(api.host, cast(Listener, NotListening()))
    web = cast(HTTPAPI, local._application())
    await check(local.close, web, web._unread)


async def test_a_get_waits_for_room_before_it_takes_a_message(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "ROOM_S", 10)
    api.peer.connect().channel().fill("q0", b"x")
    client = Client(api)
    assert await client.begun() == 200
    api.state.unread.key_limit = api.state.unread.used
    take = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    getting = asyncio.ensure_future(ask(api, "/queues/%2F/q0/get", "POST", take))
    await until_async(lambda: api.state.unread._waiting)
    assert api.peer.node.vhosts["/"].queues["q0"].ready == 1
    client.reads.set()
    assert [got["payload"] for got in (await getting).json] == ["x"]
    await client.task
    assert api.state.unread.used == 0


async def test_a_response_longer_than_the_limits_is_made_if_no_other_one_waits(api: Api) -> None:
    api.state.unread.limit = api.state.unread.key_limit = 2000
    assert len((await ask(api, "/queues")).json) == QUEUES
    first, second = Client(api), Client(api)
    assert await first.begun() + await second.begun() == 703
    for client in (first, second):
        await client.read()
    assert api.state.unread.used == 0


async def test_a_get_that_may_not_have_a_long_response_takes_no_message(api: Api) -> None:
    api.peer.connect().channel().fill("q0", *[b"x" * 5000] * 3)
    take = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}
    client = Client(api)
    assert await client.begun() == 200
    api.state.unread.key_limit = api.state.unread.used
    assert (await ask(api, "/queues/%2F/q0/get", "POST", take)).status == 503
    api.state.unread.key_limit += 5000
    assert len((await ask(api, "/queues/%2F/q0/get", "POST", take)).json) == 2
    await client.read()
    assert len((await ask(api, "/queues/%2F/q0/get", "POST", take)).json) == 1


def test_the_excess_of_one_source_leaves_room_for_others() -> None:
    quota = Quota(10, 4)
    assert quota.has_room("one", 20, 0)
    quota.add("one", 20)
    assert quota.has_room("one", 5, 20) and not quota.has_room("one", 1, 0)
    assert quota.has_room("two", 4, 0) and not quota.has_room("two", 7, 1)
    quota.release("one", 20)
    assert not quota.used
