"""Long input of HTTP clients: heads, and bodies of requests that are refused before their end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.http import Api, serving
from tests.support.polling import until_async
from warren.plugins.http.connection import UNREAD_BYTES
from warren.plugins.http.h11_input import HEAD_BYTES

pytestmark = pytest.mark.sockets

PATIENCE_S = 20
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
PUT = b"PUT / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = PUT + b"Transfer-Encoding: chunked\r\n\r\n"
Dialogue = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def talk(api: Api, dialogue: Dialogue) -> list[dict[str, Any]]:
    """Talk to a service that answers without a look at bodies; return the errors that its loop has reported."""
    errors: list[dict[str, Any]] = []

    async def visit() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        async with serving(api, "hi") as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            async with asyncio.timeout(PATIENCE_S):
                await dialogue(reader, writer)
            writer.close()
            await until_async(lambda: api.peer.server.limits.open == 0)

    asyncio.run(visit())
    return errors


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The first line of an answer, of which all is read."""
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(len(b"hi"))
    return head.partition(b"\r\n")[0]


@pytest.mark.parametrize("more", [b"a: " + b"x" * HEAD_BYTES, b"a:\r\n" * (HEAD_BYTES // 4)], ids=["line", "lines"])
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_head_above_the_limit_is_refused_however_it_comes(api: Api, more: bytes, pieces: int) -> None:
    head = GET + more + b"\r\n\r\n"

    async def dialogue(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = len(head) // pieces + 1
        for start in range(0, len(head), size):
            writer.write(head[start : start + size])
            for _ in range(5):  # turns of the loop, which is the server's, too
                await asyncio.sleep(0)
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")

    assert talk(api, dialogue) == []


def test_a_head_at_the_limit_is_taken_also_behind_the_end_of_a_body(api: Api) -> None:
    head = GET + b"a: "
    head += b"x" * (HEAD_BYTES - len(head) - 4) + b"\r\n\r\n"

    async def dialogue(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"1\r\na\r\n0\r\n\r\n" + head * 2)
        for _ in range(3):
            assert await answer(reader) == b"HTTP/1.1 200 OK"

    assert talk(api, dialogue) == []


def test_a_connection_stays_after_the_answer_to_a_request_whose_short_body_comes_later(api: Api) -> None:
    async def dialogue(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(PUT + b"Content-Length: %d\r\n\r\n" % UNREAD_BYTES)
        assert await answer(reader) == b"HTTP/1.1 200 OK"
        writer.write(bytes(UNREAD_BYTES) + GET + b"\r\n")
        assert await answer(reader) == b"HTTP/1.1 200 OK"

    assert talk(api, dialogue) == []


@pytest.mark.parametrize("later", [False, True])
def test_a_connection_ends_after_the_answer_to_a_request_with_a_long_body(api: Api, later: bool) -> None:
    body = b"1\r\na\r\n" * (UNREAD_BYTES // 3)

    async def dialogue(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED if later else CHUNKED + body)
        assert await answer(reader) == b"HTTP/1.1 200 OK"
        if later:
            writer.write(body)
        assert await reader.read() == b""

    assert talk(api, dialogue) == []


def test_invalid_input_after_a_response_closes_the_connection(api: Api) -> None:
    """The error of the loop made a line in the log for each."""

    async def dialogue(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        assert await answer(reader) == b"HTTP/1.1 200 OK"
        writer.write(b"no chunk\r\n")
        assert await reader.read() == b""

    assert talk(api, dialogue) == []


def test_requests_in_a_row_are_answered_in_order(api: Api) -> None:
    async def dialogue(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((GET + b"\r\n" + CHUNKED + b"1\r\na\r\n" * 1000 + b"0\r\n\r\n") * 40)
        for _ in range(80):
            assert await answer(reader) == b"HTTP/1.1 200 OK"

    assert talk(api, dialogue) == []
