"""HTTP connections whose clients do not read."""

import asyncio
import socket
import struct

import pytest
from starlette.responses import PlainTextResponse

from tests.support.http import Api, serving
from tests.support.polling import until_async
from warren.plugins.http import connection as protocol_module
from warren.plugins.http import lazy_listener as door_module

pytestmark = pytest.mark.sockets

PATIENCE_S = 20
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LONG = "x" * (32 << 20)  # more than the buffers of both sockets


async def until_open_are(api: Api, count: int) -> None:
    await until_async(lambda: api.peer.server.limits.open == count)


@pytest.mark.parametrize("ending", ["", "Connection: close\r\n"])
async def test_a_client_that_does_not_read_its_answer_is_closed(
    api: Api, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(protocol_module, "STALL_CHECK_S", 0.2)
    async with serving(api, LONG) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\n" + ending.encode() + b"\r\n"))
            await until_open_are(api, 1)
            await until_open_are(api, 0)


@pytest.mark.parametrize("body_bytes", [1 << 20, 24 << 20])
async def test_a_client_that_sends_all_of_a_refused_body_gets_the_answer(api: Api, body_bytes: int) -> None:
    """The greeter answers without the body."""
    head = f"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {body_bytes}\r\n\r\n".encode()
    async with serving(api, "hello") as port:
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + bytes(body_bytes))
            await writer.drain()
            assert (await asyncio.wait_for(reader.read(), PATIENCE_S)).endswith(b"hello")
            writer.close()
        await until_open_are(api, 0)


@pytest.mark.parametrize("sends", [False, True])
async def test_input_after_a_response_is_limited_in_time_and_length(
    api: Api, monkeypatch: pytest.MonkeyPatch, sends: bool
) -> None:
    monkeypatch.setattr(protocol_module, "REST_BYTES", 4 << 20)
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000000\r\n\r\n"
    async with serving(api, "hello", request_timeout=30_000 if sends else 200) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        assert (await asyncio.wait_for(reader.read(), PATIENCE_S)).endswith(b"hello")
        if sends:
            with pytest.raises(ConnectionError):
                for _ in range(1_000):
                    writer.write(bytes(1 << 20))
                    await writer.drain()
        await until_open_are(api, 0)
        writer.close()


async def test_a_client_that_reads_slowly_gets_its_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol_module, "STALL_CHECK_S", 0.5)
    async with serving(api, LONG) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        got = 0
        while data := await asyncio.wait_for(reader.read(1 << 20), PATIENCE_S):
            got += len(data)
            await asyncio.sleep(0.02)
        writer.close()
        assert got > len(LONG)


async def test_a_connection_that_its_client_resets_does_not_stay_for_the_idle_time(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[protocol_module.Protocol] = []
    connection_lost = protocol_module.Protocol.connection_lost

    def noted(protocol: protocol_module.Protocol, error: Exception | None) -> None:
        connection_lost(protocol, error)
        lost.append(protocol)

    monkeypatch.setattr(protocol_module.Protocol, "connection_lost", noted)
    async with serving(api, "hello") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await asyncio.wait_for(reader.readuntil(b"hello"), PATIENCE_S)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await until_async(lambda: len(lost) > 0)
    assert lost[0].timeout_keep_alive_task is None


async def test_the_idle_time_of_a_connection_is_configured(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []
    made = protocol_module.Protocol.connection_made

    def noted(protocol: protocol_module.Protocol, transport: asyncio.Transport) -> None:
        made(protocol, transport)
        times.append(protocol.timeout_keep_alive)

    monkeypatch.setattr(protocol_module.Protocol, "connection_made", noted)
    async with serving(api, "hello", idle_timeout=1_500) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await until_async(lambda: len(times) > 0)
        writer.close()
    assert times == [1.5]


async def test_one_address_cannot_take_all_connections(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "SOURCE_LIMIT", 3)
    async with serving(api, "hello") as port:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(6)]
        await until_open_are(api, 3)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        assert (await asyncio.wait_for(reader.readline(), PATIENCE_S)).startswith(b"HTTP/1.1 200 ")
        writer.close()
        for client in clients:
            client.close()


async def test_a_failed_start_of_an_application_is_logged_and_repeated(api: Api) -> None:
    """The connection that finds the fault is closed, and a later one is answered."""
    made: list[int] = []

    def application() -> PlainTextResponse:
        made.append(1)
        if len(made) == 1:
            raise OSError(13, "Permission denied")
        return PlainTextResponse("hello")

    async def ask(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(REQUEST)
            return await reader.readline()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async with serving(api, application) as port:
        assert await asyncio.wait_for(ask(port), PATIENCE_S) == b""
        assert (await asyncio.wait_for(ask(port), PATIENCE_S)).startswith(b"HTTP/1.1 200 ")
        failed = [fields for event, _, fields in api.peer.log if event == "task_failed"]
        assert [(fields["task"], fields["service"]) for fields in failed] == [("http_server", "greeter")]


async def test_requests_of_strangers_do_not_fill_the_log(api: Api) -> None:
    """Upgrade requests and bytes that are not HTTP caused two lines and one line each."""

    async def ask(port: int, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        line = await asyncio.wait_for(reader.readline(), PATIENCE_S)
        writer.close()
        return line

    async with serving(api, "hello") as port:
        upgrade = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert (await ask(port, upgrade)).startswith(b"HTTP/1.1 200 ")
        assert not [event for event, _, _ in api.peer.log if event == "http"]
        for _ in range(5):
            assert (await ask(port, b"no HTTP\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        api.peer.clock.advance(10_000)
        await ask(port, b"no HTTP\r\n\r\n")
        said = "Invalid HTTP request received."
        lines = [fields for event, _, fields in api.peer.log if event == "http"]
        assert lines == [{"what": said}, {"what": said, "left_out": 4}]
