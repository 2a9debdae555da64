"""The pauses between the pieces of a long response, by what the loop has worked for others since the last one."""

import asyncio
from collections.abc import Generator

import pytest

from warren.plugins.management.framework.byte_stream import OTHERS_S, PAUSE_S, PIECE_S, ByteStream, LoopTime


def source() -> Generator[bytes, None, None]:
    yield b"piece"
    yield b"and another"


@pytest.mark.parametrize(
    ("since", "pause_s"),
    [
        (LoopTime(PIECE_S, 0, 1), 0),  # nothing else
        (LoopTime(PIECE_S + 0.1, 0, 1), OTHERS_S / 10),
        (LoopTime(PIECE_S + 1, 0, 1), OTHERS_S),
        (LoopTime(PIECE_S + 0.5, 0.5, 1), 2 * OTHERS_S),  # it had a processor for half of the time
        (LoopTime(PIECE_S + 0.01, 0.99, 1), PAUSE_S),
        (LoopTime(0, 0.5, 1), 0),
    ],
)
def test_the_busier_the_loop_the_longer_the_pause(since: LoopTime, pause_s: float) -> None:
    async def pause() -> float:
        stream = ByteStream("text/plain", source())
        stream._last = LoopTime(0, 0, 0)
        stream._loop_time = lambda: since  # type: ignore[method-assign]
        stream.close()
        return stream._pause_s()

    assert asyncio.run(pause()) == pytest.approx(pause_s)


@pytest.mark.parametrize("ended", [False, True])
def test_a_stream_that_is_ended_is_not_whole(ended: bool) -> None:
    async def read() -> tuple[bytes, bool, int]:
        stream, left = ByteStream("text/plain", source()), []
        stream.leave = lambda: left.append(True)
        data = b""
        async for piece in stream.pieces():
            data += piece
            if ended:
                stream.end()
        stream.close()
        return data, stream.whole, len(left)

    assert asyncio.run(read()) == ((b"piece", False, 1) if ended else (b"pieceand another", True, 1))
