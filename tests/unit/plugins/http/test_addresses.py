"""Listeners of an HTTP service: configured ones, default ones, and the peer address that an application gets."""

import asyncio
import os
import re
import socket
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse

from tests.support.http import Api
from warren.broker.config import HTTPListener, SSLOptions
from warren.plugins.http.asgi import is_loopback, takes_gzip
from warren.plugins.http.lazy_listener import HTTPApp, HTTPListeners

pytestmark = pytest.mark.sockets

PATIENCE_S = 60
NAME = Path("/proc/self/comm").read_text().strip()
OPTION = "--greet"
NOWHERE = HTTPListener()
NO_TLS = SSLOptions()


def listeners_of(api: Api) -> HTTPListeners:
    app = HTTPApp("greeter", "http/greeting", "json", lambda: PlainTextResponse("hello"), OPTION)
    return HTTPListeners(api.host, app)


async def greeting(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()


async def test_a_listener_is_bound_at_once_and_answers_from_the_first_request_on(api: Api) -> None:
    listeners = listeners_of(api)
    await listeners.open(HTTPListener(port=0), NOWHERE, NO_TLS, NOWHERE)
    (listening,) = api.host.listening()
    assert (len(listeners), listening.protocol, listening.host) == (1, "http/greeting", "127.0.0.1")
    for _ in range(2):
        answer = await asyncio.wait_for(greeting(listening.port), PATIENCE_S)
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"hello")
    await listeners.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", listening.port)


def test_a_stock_port_that_is_taken_is_warned_of_and_another_one_is_an_error(api: Api) -> None:
    async def visit(at: HTTPListener) -> None:
        listeners = listeners_of(api)
        await listeners.open(at, NOWHERE, NO_TLS, stock=at)
        assert len(listeners) == 0
        event, level, fields = api.peer.log[-1]
        assert (event, level, fields["service"]) == ("cannot_listen", "warning", "greeter")
        place, reason = f"127.0.0.1:{at.port}", "another program listens there, perhaps RabbitMQ or another Warren"
        assert (fields["address"], fields["reason"]) == (place, reason)
        lacking = api.host.not_listening["http/greeting"]
        assert re.fullmatch(rf"none at {place}: {reason}; --greet \d+ chooses another address", lacking)
        reason = re.escape(f"another program listens there: {NAME} (pid {os.getpid()})")
        with pytest.raises(ValueError, match=rf"cannot listen at {place}: {reason}; --greet \d+ chooses another"):
            await listeners.open(at, NOWHERE, NO_TLS, stock=NOWHERE)
        await listeners.close()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asyncio.run(visit(HTTPListener(port=taken.getsockname()[1])))


async def test_an_unused_listener_closes_too(api: Api) -> None:
    listeners = listeners_of(api)
    await listeners.open(HTTPListener(port=0), NOWHERE, NO_TLS, NOWHERE)
    (listening,) = api.host.listening()
    await listeners.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", listening.port)


def test_loopback_addresses_are_recognised() -> None:
    assert is_loopback("127.1.2.3") and is_loopback("::1") and is_loopback("::ffff:127.0.0.1")
    assert not is_loopback("192.0.2.1") and not is_loopback("") and not is_loopback("::ffff:192.0.2.1")


def test_gzip_is_taken_unless_it_is_refused() -> None:
    assert takes_gzip({"accept-encoding": "deflate, gzip;q=1.0"}) and takes_gzip({"accept-encoding": "GZIP"})
    assert not takes_gzip({"accept-encoding": "gzip;q=0"}) and not takes_gzip({})
