"""The socket of a broker for tests sends later, in order, and bounded."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import pytest

from tests.support.polling import until_async
from warren.testing.slow_network import LATE_BYTES, SlowSocket

LONG_S = 3600


class Socket:
    """A socket that records what is done with it."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.buffered = 0

    def write(self, data: bytes) -> None:
        self.calls.append(bytes(data))

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.buffered


class Protocol:
    """A protocol that records whether it may write."""

    writable = True

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True


@pytest.fixture(autouse=True)
def no_latency() -> Iterator[None]:
    yield
    SlowSocket.latency_s = 0.0
    assert not SlowSocket.waiting


Use = Callable[[SlowSocket, Socket, Protocol], Coroutine[Any, Any, None]]


def run(use: Use) -> None:
    async def main() -> None:
        socket, protocol = Socket(), Protocol()
        slow = SlowSocket(cast(asyncio.Transport, socket), cast(asyncio.Protocol, protocol))
        await use(slow, socket, protocol)

    asyncio.run(main())


def test_output_is_sent_at_once_without_a_latency() -> None:
    async def use(slow: SlowSocket, socket: Socket, protocol: Protocol) -> None:
        slow.write(b"a")
        slow.writelines([b"b", b"c"])
        slow.close()
        assert socket.calls == [b"a", b"bc", "close"]

    run(use)


def test_output_waits_and_then_the_close() -> None:
    async def use(slow: SlowSocket, socket: Socket, protocol: Protocol) -> None:
        SlowSocket.set_latency(0.01)
        slow.write(b"a")
        SlowSocket.latency_s = 0.001  # what is written later is not sent before
        slow.write(b"b")
        slow.close()
        assert socket.calls == [] and slow.is_closing()
        await until_async(lambda: len(socket.calls) == 3)
        assert socket.calls == [b"a", b"b", "close"]

    run(use)


def test_what_waits_is_sent_when_the_latency_ends() -> None:
    async def use(slow: SlowSocket, socket: Socket, protocol: Protocol) -> None:
        SlowSocket.set_latency(LONG_S)
        slow.write(b"a")
        SlowSocket.set_latency(0)
        slow.write(b"b")
        assert socket.calls == [b"a", b"b"]

    run(use)


def test_what_waits_is_dropped_by_an_abort() -> None:
    async def use(slow: SlowSocket, socket: Socket, protocol: Protocol) -> None:
        SlowSocket.set_latency(LONG_S)
        slow.write(b"a")
        slow.abort()
        SlowSocket.set_latency(0)
        assert socket.calls == ["abort"]

    run(use)


def test_deliveries_stop_while_very_much_waits() -> None:
    async def use(slow: SlowSocket, socket: Socket, protocol: Protocol) -> None:
        SlowSocket.set_latency(LONG_S)
        slow.write(bytes(LATE_BYTES))
        assert protocol.writable
        slow.write(b"x")
        assert not protocol.writable
        SlowSocket.set_latency(0)
        assert protocol.writable

    run(use)


def test_a_socket_that_is_full_itself_resumes_by_itself() -> None:
    async def use(slow: SlowSocket, socket: Socket, protocol: Protocol) -> None:
        SlowSocket.set_latency(LONG_S)
        slow.write(bytes(LATE_BYTES + 1))
        socket.buffered = LATE_BYTES
        SlowSocket.set_latency(0)
        assert not protocol.writable

    run(use)
