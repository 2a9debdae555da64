"""Connections to servers that are no AMQP broker or too slow, and cancelled attempts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pamqp import commands

from tests.support import codec
from tests.support.polling import until_async
from tests.support.upstream_broker import PATIENCE_S, UpstreamBroker, on_each_loop
from warren.broker.plugin import Table
from warren.federation.upstream.channel import UpstreamChannel
from warren.federation.upstream.endpoint import parse_endpoint
from warren.federation.upstream.errors import LinkError

pytestmark = pytest.mark.sockets


@asynccontextmanager
async def listening(first: bytes = b"", goes: bool = False) -> AsyncIterator[tuple[int, list[asyncio.StreamReader]]]:
    """A server that says so much and no more."""
    readers: list[asyncio.StreamReader] = []
    writers: list[asyncio.StreamWriter] = []
    over = asyncio.Event()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        readers.append(reader)
        writers.append(writer)
        writer.write(first)
        if goes or over.is_set():  # it may have come so late that nobody else would close it
            writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], readers
    finally:
        over.set()
        server.close()
        for writer in writers:
            writer.close()


@pytest.mark.parametrize(
    ("first", "goes", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, "does not speak AMQP"),
        (b"AMQP\x01\x01\x00\x0a", True, "does not speak AMQP"),
        (b"", True, "closed the connection before AMQP began"),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x0b\xce", False, "does not speak AMQP"),
        (b"\x08\x00\x00\x00\x00\x00\x00\xce", False, "does not speak AMQP"),
        (b"", False, "timeout"),
    ],
)
@on_each_loop
async def test_who_speaks_no_amqp_is_said_to(site: UpstreamBroker, first: bytes, goes: bool, reason: str) -> None:
    async with listening(first, goes) as (port, _):
        limit = "?connection_timeout=100" if reason == "timeout" else ""
        fault = await site.fault(parse_endpoint(f"amqp://127.0.0.1:{port}{limit}"))
        assert reason in fault.text


@on_each_loop
async def test_where_nobody_listens_the_reason_is_in_known_words(site: UpstreamBroker) -> None:
    async with listening() as (port, _):
        pass
    refused = await site.fault(parse_endpoint(f"amqp://user:secret@127.0.0.1:{port}"))
    assert refused.text == "connection refused: nothing listens at this port"
    unknown = await site.fault(parse_endpoint("amqp://user:secret@no-such-host.invalid"))
    assert unknown.text == "the host has no address: its name is not known, or no name server answers"
    assert "no valid name" in (await site.fault(parse_endpoint(f"amqp://{'a' * 300}"))).text


@pytest.mark.parametrize("answers", [True, False])
@on_each_loop
async def test_a_dial_that_is_given_up_leaves_nothing(site: UpstreamBroker, answers: bool) -> None:
    async with listening() as (port, readers):
        dialling = asyncio.ensure_future(site.dial(parse_endpoint(f"amqp://127.0.0.1:{port}")))
        await until_async(lambda: readers)
        if answers:
            assert await readers[0].readexactly(8) == b"AMQP\x00\x00\x09\x01"
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
        await asyncio.wait_for(readers[0].read(), PATIENCE_S)  # to the end, which has come


@on_each_loop
async def test_a_dial_from_within_that_is_given_up_leaves_nothing(site: UpstreamBroker) -> None:
    for turns in range(12):
        dialling = asyncio.ensure_future(site.dial(site.inside()))
        for _ in range(turns):
            await asyncio.sleep(0)
        if dialling.done():
            await dialling.result().close(PATIENCE_S)
            continue
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
    await until_async(lambda: not site.server.connections)


def start(properties: bytes, mechanisms: bytes) -> bytes:
    """Return a connection.start with any bytes in its names."""
    texts = b"".join([len(text).to_bytes(4, "big") + text for text in (properties, mechanisms, b"\xff_US")])
    return codec.frame(codec.METHOD, 0, commands.Connection.Start.index.to_bytes(4, "big") + b"\0\x09" + texts)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (start(b"\1\xfft\1", b"PLAIN"), "the upstream does not speak AMQP 0-9-1 as it should"),
        (start(b"\1aF\0\0\0\4\1\xfft\1", b"PLAIN"), "the upstream does not speak AMQP 0-9-1 as it should"),
        (start(b"", b"\xffOTHER"), "the upstream offers no login by PLAIN or AMQPLAIN, only by \ufffdOTHER"),
        (start(b"\x0ccluster_nameS\0\0\0\1\xff", b"\xff PLAIN"), "timeout"),  # PLAIN is chosen: nothing answers
    ],
)
@on_each_loop
async def test_names_that_are_not_utf_8_fail_the_attempt(site: UpstreamBroker, first: bytes, reason: str) -> None:
    async with listening(first) as (port, _):
        limit = "?connection_timeout=100" if reason == "timeout" else ""
        assert (await site.fault(parse_endpoint(f"amqp://127.0.0.1:{port}{limit}"))).text == reason
    assert not [event for event, _, _ in site.log if event == "internal_error"]


@pytest.mark.parametrize("answer", [b"", b"\1q\0\0", b"\xff" * 8])
def test_a_reply_that_is_too_short_is_an_error_of_the_link(answer: bytes) -> None:
    class Answering:
        def call(self, channel: int, index: int, arguments: bytes) -> asyncio.Future[bytes]:
            future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            future.set_result(answer)
            return future

    async def close(channel: UpstreamChannel) -> None: ...

    async def test() -> None:
        channel = UpstreamChannel(1, Answering(), close)  # type: ignore[arg-type]
        with pytest.raises(LinkError, match=r"malformed queue\.declare-ok"):
            await channel.declare_queue("q")
        await channel.consume("q", "", True, Table.EMPTY)  # whose tag nobody needs

    asyncio.run(test())
