"""The transport that sends later, or after a partition."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from warren.testing.slow_socket import LATE_BYTES, SlowSocket

TICK_S, LATENCY_S = 1 / 64, 1 / 32  # exact, unlike decimal fractions


class CoarseLoop(asyncio.SelectorEventLoop):
    """A loop whose time and timers have ticks, as those of uvloop, whose tick is 1 ms."""

    def time(self) -> float:
        return super().time() // TICK_S * TICK_S


class Socket(asyncio.Transport):
    """A socket that notes when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.get_running_loop().create_future()

    def write(self, data: object) -> None:
        self.written.set_result(time.monotonic())

    def get_write_buffer_size(self) -> int:
        return 0


async def write_at_the_end_of_a_tick() -> float:
    """Return how long the output waited."""
    socket = Socket()
    SlowSocket.set_latency(LATENCY_S)
    while time.monotonic() % TICK_S < 0.8 * TICK_S:
        pass
    begun_s = time.monotonic()
    SlowSocket(socket, asyncio.Protocol(), 0).write(b"x")
    loop = asyncio.get_running_loop()

    def look_again() -> None:
        """Keep the loop busy, so that it looks at its timers again and again."""
        if not socket.written.done():
            loop.call_soon(look_again)

    look_again()
    try:
        return float(await socket.written) - begun_s
    finally:
        SlowSocket.set_latency(0)


def test_nothing_is_sent_earlier_than_after_the_latency() -> None:
    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        assert runner.run(write_at_the_end_of_a_tick()) >= LATENCY_S


class OpenSocket(asyncio.Transport):
    """A socket that notes all that is done with it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[object] = []

    def write(self, data: object) -> None:
        self.done.append(data)

    def __getattribute__(self, name: str) -> Any:
        if name in ("pause_reading", "resume_reading", "close", "abort"):
            return lambda: self.done.append(name)
        return super().__getattribute__(name)

    def is_closing(self) -> bool:
        return bool({"close", "abort"} & set(map(str, self.done)))

    def get_write_buffer_size(self) -> int:
        return 0


class LossProtocol(asyncio.Protocol):
    """A protocol that counts how often its connection was lost, and notes when writing is paused."""

    lost = 0
    paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


Use = Callable[[SlowSocket], object]


async def use_in_a_partition(latency_s: float, before: Sequence[Use], within: Sequence[Use]) -> tuple[Any, Any, int]:
    """Use a socket before and within a partition; return what is done with that of the system in it, and after it.

    The last value is how often the protocol lost its connection in it.
    """
    system, protocol = OpenSocket(), LossProtocol()
    socket = SlowSocket(system, protocol, 0)
    SlowSocket.set_latency(latency_s)
    try:
        for use in before:
            use(socket)
        del system.done[:]
        socket.cut_off("a")
        socket.cut_off("b")
        for use in within:
            use(socket)
        SlowSocket.set_latency(0)
        SlowSocket.heal("b")
        await asyncio.sleep(2 * latency_s)
        lost, in_it = protocol.lost, system.done[:]
        assert protocol.paused == any(use is write_much for use in within)
        SlowSocket.heal("a")
        assert SlowSocket.separate == set() and SlowSocket.waiting == set() and not protocol.paused
        return in_it, system.done[len(in_it) :], lost
    finally:
        SlowSocket.set_latency(0)


def write(socket: SlowSocket) -> None:
    socket.write(b"x")


def write_much(socket: SlowSocket) -> None:
    socket.write(bytes(LATE_BYTES + 1))


@pytest.mark.parametrize(
    ("before", "within", "after", "lost"),
    [
        ([], [], ["resume_reading"], 0),
        ([], [write, write], ["resume_reading", b"x", b"x"], 0),
        ([write], [], ["resume_reading", b"x"], 0),  # it waits for the latency when the partition begins
        ([], [write, SlowSocket.close], ["resume_reading", b"x", "close"], 0),
        ([], [SlowSocket.close], ["resume_reading", "close"], 0),
        ([], [write, SlowSocket.abort, SlowSocket.abort], ["abort"], 1),
        ([], [SlowSocket.close, SlowSocket.abort], ["abort"], 1),
        ([], [SlowSocket.pause_reading], [], 0),
        ([SlowSocket.pause_reading], [SlowSocket.resume_reading], ["resume_reading"], 0),
        ([], [write_much], ["resume_reading", bytes(LATE_BYTES + 1)], 0),
    ],
)
def test_a_socket_that_is_cut_off_sends_reads_and_closes_after_the_partition(
    before: Sequence[Use], within: Sequence[Use], after: list[object], lost: int
) -> None:
    latency_s = LATENCY_S if before == [write] else 0
    in_it, done, losses = asyncio.run(use_in_a_partition(latency_s, before, within))
    assert [each for each in in_it if each != "pause_reading"] == []
    assert done == after
    assert losses == lost
