"""Requests that wait, for the disk or in long lists, and their end when the client disconnects."""

import asyncio
import base64
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.http import Api, incoming_of, request, serving
from tests.support.polling import until_async
from warren.plugins.http.limits import Quota
from warren.plugins.http.responses import Response
from warren.plugins.management.api import queue_messages
from warren.plugins.management.framework import bodies, http_api
from warren.plugins.management.framework.http_api import HTTPAPI
from warren.plugins.management.framework.request import Request

PATIENCE_S = 20
GET = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
MOVE = {"count": 9, "destination": {"queue": "other"}}
HEALTH = "/health/checks/is-in-service"


class FullDisk:
    """A disk that stores nothing until `room` is called; the callbacks that wait for it are counted."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self._journal = api.host.node.journal
        self.callbacks: list[Callable[[], None]] = []
        monkeypatch.setattr(self._journal, "ticket", lambda: self._journal.durable + 1)
        monkeypatch.setattr(self._journal, "when_durable", lambda ticket, fn: self.callbacks.append(fn))

    def room(self) -> None:
        for callback in self.callbacks:
            callback()


@pytest.fixture
def full_disk(api: Api, monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(api, monkeypatch)


async def test_a_change_not_stored_in_time_is_503(
    api: Api, web_of: HTTPAPI, full_disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_api, "STORING_S", 0.01)
    answer = await request(web_of, "PUT", "/queues/%2F/q", {})
    reason = "the change is made, and not stored yet: the disk does not take it now"
    assert answer.error == (503, "service_unavailable", reason)
    assert answer.headers["retry-after"] == "5"
    api.host.node.alarms.set("disk")
    assert "the broker is low on disk" in (await request(web_of, "DELETE", "/queues/%2F/q")).json["reason"]
    assert "q" not in api.peer.node.vhosts["/"].queues
    for _ in range(20):
        assert (await request(web_of, "PUT", "/vhosts/v", {})).status == 503
    assert len(full_disk.callbacks) == 1  # of all requests that timed out


async def test_messages_that_were_taken_or_moved_are_answered_while_the_disk_takes_nothing(
    api: Api, web_of: HTTPAPI, full_disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_messages, "STORED_S", 0.01)
    vhost = api.peer.node.vhosts["/"]
    for name in ("q", "other"):
        vhost.declare_queue(name, durable=True)
    channel = api.peer.connect().channel()
    for body in (b"one", b"two"):
        channel.publish("", "q", body)
    channel.declare("last")  # so that they have been handled
    got = await request(web_of, "POST", "/queues/%2F/q/get", GET)
    assert [message["payload"] for message in got.json] == ["one"]
    moved = await request(web_of, "POST", "/warren/queues/%2F/q/move", MOVE)
    assert moved.json == {"moved": 1, "messages_ready": 0, "problem": "the disk does not take it now"}


async def test_a_change_is_answered_once_the_disk_has_room(api: Api, web_of: HTTPAPI, full_disk: FullDisk) -> None:
    asking = asyncio.ensure_future(request(web_of, "PUT", "/queues/%2F/q", {}))
    await until_async(lambda: bool(full_disk.callbacks))
    assert not asking.done()
    full_disk.room()
    assert (await asking).status == 201


async def test_others_are_answered_while_changes_wait(
    api: Api, web_of: HTTPAPI, full_disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_api, "STORING_LIMIT", 2)
    waiting = [asyncio.ensure_future(request(web_of, "PUT", f"/queues/%2F/{n}", {})) for n in range(2)]
    await until_async(lambda: web_of._storing == 2)
    assert (await request(web_of, "PUT", "/queues/%2F/third", {})).status == 503
    assert (await request(web_of, "GET", "/vhosts")).status == 200
    full_disk.room()
    assert [answer.status for answer in await asyncio.gather(*waiting)] == [201, 201]


async def test_health_is_checked_beyond_the_limit(
    api: Api, web_of: HTTPAPI, full_disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_of, "_requests", Quota(1, 1))
    waiting = asyncio.ensure_future(request(web_of, "PUT", "/queues/%2F/q", {}))
    await until_async(lambda: bool(full_disk.callbacks))
    assert (await request(web_of, "GET", "/vhosts")).status == 503
    for path in (HEALTH, "/health/checks/alarms", "/healthchecks/node"):
        assert (await request(web_of, "GET", path)).status == 200
    full_disk.room()
    await waiting
    assert (await request(web_of, "GET", "/vhosts")).status == 200


def test_a_request_that_takes_too_long_is_503(api: Api, full_disk: FullDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HTTPAPI, "request_s", 0.01)
    answer = api.put("/queues/%2F/q")
    assert answer.status == 503 and "not answered within" in answer.json["reason"]


async def test_work_ends_with_its_client() -> None:
    ended = []

    async def work() -> Response:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)
        raise AssertionError

    async def leave() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    with pytest.raises(ConnectionResetError):
        await incoming_of(leave).run_while_connected(work())
    assert ended == [True]


async def test_a_refused_request_is_freed_without_the_garbage_collector(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Request]] = []

    class Watched(Request):
        __slots__ = ("__weakref__",)

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(weakref.ref(self))

    monkeypatch.setattr(http_api, "Request", Watched)
    requests: tuple[tuple[str, str, object, int], ...] = (
        ("POST", "/definitions", b"{" + b" " * bodies.THREAD_FROM, 400),  # decoded in a thread
        ("PUT", "/policies/%2F/p", b"{" + b" " * bodies.THREAD_FROM, 400),
        ("POST", "/definitions", {"queues": [{"vhost": "nowhere", "name": "q"}]}, 400),
        ("POST", "/queues/%2F/q/get", {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto"}, 404),
        ("PUT", "/queues/%2F/amq.q", {}, 401),
        ("GET", "/connections/nobody", {}, 404),
    )
    gc.collect()
    gc.disable()
    try:
        for method, path, body, status in requests:
            assert (await request(api.application, method, path, body)).status == status
        await until_async(lambda: not any(ref() is not None for ref in made))  # a thread lets go of one a bit later
        assert len(made) == len(requests) and not [one for ref in made if (one := ref()) is not None]
    finally:
        gc.enable()


@pytest.mark.sockets
async def test_clients_that_disconnect_do_not_block_health_checks(
    api: Api, web_of: HTTPAPI, full_disk: FullDisk
) -> None:
    basic = base64.b64encode(b"guest:guest").decode()

    async def connected(port: int, method: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"{method} /api{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {basic}\r\n"
        writer.write(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
        return reader, writer

    async with serving(api, lambda: web_of) as port:
        leaving = [await connected(port, "PUT", f"/queues/%2F/{number}") for number in range(50)]
        await until_async(lambda: web_of._storing == 50)
        reader, writer = await connected(port, "GET", HEALTH)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        for _, closing in leaving:
            closing.close()
        await until_async(lambda: web_of._requests.used == web_of._storing == 0)
        writer.close()
