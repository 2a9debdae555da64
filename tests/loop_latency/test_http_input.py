"""Input of HTTP clients without a login holds no turn of the loop, however many send it at once."""

import asyncio
import socket
from contextlib import ExitStack, suppress

import pytest

from tests.support.http import Api, basic, serving
from tests.support.speed import within

from .meter import TURN_MS, Meter

pytestmark = pytest.mark.sockets

PATIENCE_S = 30
HEAD_BYTES = 15_000
END = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
LOGIN = b"Authorization: " + basic("guest").encode() + b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
SHORT_CHUNKS = b"1\r\na\r\n" * 15_000 + b"0\r\n\r\n"


def get(path: bytes, more: bytes = b"") -> bytes:
    return b"GET /api/" + path + END + more + b"\r\n"


def filled(head: bytes, piece: bytes) -> bytes:
    return head + piece * ((HEAD_BYTES - len(head)) // len(piece))


# Requests, and how many clients send each of them at once.
INPUTS: dict[str, tuple[bytes, int]] = {
    "short chunks that are not wanted": (b"POST /api/x" + END + CHUNKED + SHORT_CHUNKS, 4),
    "short chunks that are read": (b"POST /api/definitions" + END + LOGIN + CHUNKED + SHORT_CHUNKS, 4),
    "a trailer": (b"POST /api/x" + END + CHUNKED + filled(b"0\r\n", b"a:\r\n") + b"\r\n", 30),
    "lines": (get(b"x", filled(b"", b"a:\r\n")), 50),
    "very many lines": (get(b"x", b"a:\r\n" * 60_000), 10),
    "folded lines": (get(b"x", filled(b"a: b\r\n", b" \r\n")), 50),
    "tokens": (get(b"x", filled(b"Connection: ", b"a,") + b"\r\n"), 50),
    "segments": (get(filled(b"queues/", b"/%41")), 50),
    "fields of a query": (get(filled(b"auth?", b"%41=%41&")), 30),
    "short requests": (get(b"x"), 400),
    "requests in a row": (get(b"x").replace(b"Connection: close\r\n", b"") * 90, 10),
}


def send_at_once(port: int, request: bytes, clients: int) -> list[bytes]:
    """Send the request by so many connections, and return the beginnings of the answers."""
    with ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) for _ in range(clients)
        ]
        unsent = dict.fromkeys(connections, request)
        while unsent:
            for connection, rest in list(unsent.items()):
                with suppress(BlockingIOError):
                    unsent[connection] = rest[connection.send(rest, socket.MSG_DONTWAIT) :]
                if not unsent[connection]:
                    del unsent[connection]
        return [connection.recv(15) for connection in connections]


@pytest.mark.parametrize("kind", INPUTS)
def test_input_of_very_many_events_holds_no_turn(api: Api, uvloop_meter: Meter, kind: str) -> None:
    request, clients = INPUTS[kind]

    async def visit() -> None:
        async with serving(api, lambda: api.application, request_timeout=30_000) as port:
            await asyncio.to_thread(send_at_once, port, get(b"x"), 1)  # which starts the server
            uvloop_meter.longest_s = 0.0
            answers = await asyncio.to_thread(send_at_once, port, request, clients)
            assert all(answer.startswith(b"HTTP/1.1 ") for answer in answers)
        api.host.forget_bound()

    assert within(uvloop_meter.longest_ms(visit), TURN_MS)
