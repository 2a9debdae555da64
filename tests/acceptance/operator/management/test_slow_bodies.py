"""Request bodies that arrive slowly or not at all, and their effect on other requests."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.hashing import FakeHashing
from tests.support.http import Api, asgi_scope, incoming_of, request, serving
from tests.support.polling import until_async
from warren.plugins.http.limits import Quota
from warren.plugins.http.responses import HTTPError
from warren.plugins.management.framework import bodies, http_api
from warren.plugins.management.framework.http_api import HTTPAPI

PATIENCE_S = 20
FORM = b"username=guest&password=guest"
LIMIT = 1 << 20


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be set forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class Body:
    """The sender of a body: pieces, with a pause of the loop's clock before each; after the last nothing is sent."""

    def __init__(self, pieces: list[bytes], pause_s: float, complete: bool = False) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._left = len(pieces)
        self._pause_s = pause_s
        self._complete = complete

    async def receive(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        loop.ahead_s += self._pause_s
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # an expired deadline cancels the reader here
        self._left -= 1
        if self._left < 0:
            await loop.create_future()
        more = self._left > 0 or not self._complete
        return {"type": "http.request", "body": next(self._pieces), "more_body": more}


def read(body: Body, user: str = "guest", quota: Quota | None = None, idle_s: float = 300.0) -> bytes:
    quota = quota or Quota(LIMIT, LIMIT)
    with asyncio.Runner(loop_factory=Loop) as runner:
        data = runner.run(bodies.read(incoming_of(body.receive, user), quota, LIMIT, "too long", idle_s))
    assert not quota.used
    return data


def refused(*arguments: Any, **more: Any) -> HTTPError:
    with pytest.raises(HTTPError) as caught:
        read(*arguments, **more)
    return caught.value


def test_a_long_body_may_take_minutes_as_long_as_it_comes() -> None:
    pieces = [b"x" * bodies.WINDOW_BYTES] * 100
    assert len(read(Body(pieces, bodies.WINDOW_S / 2, complete=True))) == 100 * bodies.WINDOW_BYTES


def test_a_body_that_comes_slower_than_the_least_rate_is_refused_and_the_connection_closed() -> None:
    answer = refused(Body([b"x"] * 100, 1.0)).answer
    assert (answer.status, answer.headers["connection"]) == (408, "close")


def test_bytes_that_came_early_are_no_credit() -> None:
    assert refused(Body([b"x" * LIMIT], bodies.WINDOW_S + 1)).answer.status == 408


def test_a_pause_longer_than_the_configured_one_ends_a_body() -> None:
    assert refused(Body([b"x" * bodies.WINDOW_BYTES] * 9, 2.0), idle_s=1.0).answer.status == 408


def test_a_form_of_somebody_unknown_has_seconds_however_fast_it_comes() -> None:
    assert refused(Body([b"x" * 5000] * 20, 1.0), user="").answer.status == 408
    assert read(Body([FORM], 1.0, complete=True), user="") == FORM


def test_a_body_beyond_the_quota_is_refused_with_503() -> None:
    assert refused(Body([b"x"], 0.0, complete=True), quota=Quota(0, LIMIT)).answer.status == 503


def test_one_user_cannot_take_the_room_of_all() -> None:
    quota = Quota(100, 50)
    assert quota.take("alice", 50) and not quota.take("alice")
    assert quota.take("bob", 50) and not quota.take("carol")
    quota.release("alice", 50)
    assert quota.take("carol", 50) and quota.used == 100


@pytest.mark.parametrize(("path", "user"), [("/login", None), ("/queues/%2F/q/get", "guest")])
async def test_unfinished_bodies_do_not_block_requests_of_others(web_of: HTTPAPI, path: str, user: str | None) -> None:
    """Only requests whose body has arrived count against the limit of requests in progress."""
    waiting = 0

    async def receive() -> dict[str, Any]:
        nonlocal waiting
        waiting += 1
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def send(event: Any) -> None: ...

    scopes = [asgi_scope("POST", path, b"x" * 100, user)[0] for _ in range(http_api.REQUESTS_LIMIT + 1)]
    slow = [asyncio.ensure_future(web_of(scope, receive, send)) for scope in scopes]
    await until_async(lambda: waiting == len(slow))
    assert (await request(web_of, "GET", "/vhosts")).status == 200
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_one_source_leaves_room_for_others(api: Api, web_of: HTTPAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_of, "_requests", Quota(http_api.REQUESTS_LIMIT, 1))
    callbacks: list[Callable[[], None]] = []
    journal = api.host.node.journal
    monkeypatch.setattr(journal, "ticket", lambda: journal.durable + 1)
    monkeypatch.setattr(journal, "when_durable", lambda ticket, fn: callbacks.append(fn))
    api.host.node.users.loopback_only = frozenset()
    waiting = asyncio.ensure_future(request(web_of, "PUT", "/queues/%2F/q", {}, "2001:db8::1"))
    await until_async(lambda: bool(callbacks))
    assert (await request(web_of, "GET", "/vhosts", address="2001:db8::2")).status == 503, "of the same network"
    assert (await request(web_of, "GET", "/health/checks/alarms", address="2001:db8::2")).status == 200
    assert (await request(web_of, "GET", "/vhosts", address="2001:db8:0:1::1")).status == 200
    callbacks[0]()
    await waiting
    assert (await request(web_of, "GET", "/vhosts", address="2001:db8::2")).status == 200


@pytest.mark.sockets
async def test_a_login_whose_client_has_left_is_forgotten_though_its_body_never_came(api: Api, web_of: HTTPAPI) -> None:
    hashing = api.host.node.users.hashing = FakeHashing()
    hashing.slow = True
    async with serving(api, lambda: web_of) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = "PUT /api/queues/%2F/q HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic eDp4\r\n"
        writer.write(f"{head}Content-Length: 9\r\n\r\n".encode())
        await until_async(lambda: len(hashing.waiting) == 1)
        writer.close()
        await until_async(lambda: not hashing.waiting)
