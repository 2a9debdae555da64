"""A long response of bytes that a thread reads, so slow while the loop is busy that others hardly notice it."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Generator
from typing import NamedTuple

from ...http.pace import pace_of
from .line_stream import Stream

PIECE_S = 0.0003  # that a piece of 256 KiB takes of the loop
OTHERS_S = 0.025  # that a busy loop works for others after each piece
PAUSE_S = 0.08  # at most, on a machine that has many others to serve
SCHEDULED = "/proc/thread-self/schedstat"  # of Linux: nanoseconds of this thread on a processor, and of its waits


class LoopTime(NamedTuple):
    """The seconds that the thread of the loop has worked, and waited for a processor, until `now_s`."""

    worked_s: float
    waited_s: float
    now_s: float


class ByteStream(Stream):
    """A response of the bytes of a generator, whose steps run in a thread."""

    whole = False

    def __init__(self, media_type: str, source: Generator[bytes, None, None]) -> None:
        super().__init__(media_type)
        self._source = source
        self._ended = False
        try:
            self._scheduled = os.open(SCHEDULED, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a kernel without it
            self._scheduled = -1
        self._last = self._loop_time()

    def close(self) -> None:
        """Close the source, which no thread reads any more."""
        self._source.close()
        if self._scheduled >= 0:
            os.close(self._scheduled)
            self._scheduled = -1

    def end(self) -> None:
        self._ended = True

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        reading: asyncio.Future[bytes | None] | None = None
        try:
            while not self._ended:
                reading = self._loop.run_in_executor(None, next, self._source, None)
                piece = await asyncio.shield(reading)
                if piece is None:
                    self.whole = True
                    return
                await pace_of(self._loop).time(PIECE_S)
                yield piece
                await asyncio.sleep(self._pause_s())
        finally:
            if reading is not None:
                await asyncio.wait([reading])  # no other thread may close what this one reads
            self.leave_once()

    def _pause_s(self) -> float:
        """Return in how much time the loop will work OTHERS_S for others, less in proportion if it is not busy."""
        before, self._last = self._last, self._loop_time()
        worked_s = self._last.worked_s - before.worked_s - PIECE_S
        wanted_s = worked_s + self._last.waited_s - before.waited_s
        if worked_s <= 0:
            return 0
        busy = min(wanted_s / (self._last.now_s - before.now_s), 1)
        return min(OTHERS_S * busy * wanted_s / worked_s, PAUSE_S)

    def _loop_time(self) -> LoopTime:
        worked_s, waited_s = time.thread_time(), 0.0
        if self._scheduled >= 0:
            ran, waited, _ = os.pread(self._scheduled, 100, 0).split()
            worked_s, waited_s = int(ran) / 1e9, int(waited) / 1e9
        return LoopTime(worked_s, waited_s, time.perf_counter())
