"""The transport that sends later."""

import asyncio
import time

from warren.testing.slow_network import SlowSocket

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
    SlowSocket(socket, asyncio.Protocol()).write(b"x")
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
