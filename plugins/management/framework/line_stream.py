"""A response without a fixed end; and one of lines, each sent when it is logged."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

NDJSON = "application/x-ndjson"
WAITING_LIMIT = 1000  # lines for a slow reader; further ones are dropped and counted
WAITING_SIZE = 1 << 20  # characters of those lines; a line can have headers of 128 KiB


class Stream:
    """A response that ends when its source ends, the client disconnects, or the node stops.

    `leave` leaves the source when the stream has ended. `check` raises HTTPError if the caller has lost the right to
    read.
    """

    whole = True  # whether the client is to take what it has got for all

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type
        self.leave: Callable[[], object] = lambda: None
        self.check: Callable[[], object] = lambda: None
        self._loop = asyncio.get_running_loop()

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the body."""
        raise NotImplementedError

    def end(self) -> None:
        """End the stream soon."""

    def leave_once(self) -> None:
        """Leave the source unless that is done."""
        leave, self.leave = self.leave, lambda: None
        leave()


class LineStream(Stream):
    """A response of lines: it also ends when the time is up.

    `duration_s` may be None. `missed(n)` returns the line that reports n dropped lines.
    """

    def __init__(self, media_type: str, duration_s: float | None, missed: Callable[[int], str]) -> None:
        super().__init__(media_type)
        self._waiting: deque[str] = deque()
        self._waiting_size = 0
        self._missed = 0
        self._missed_line = missed
        self._news = asyncio.Event()
        self._ended = False
        self._timer = self._loop.call_later(duration_s, self.end) if duration_s is not None else None

    def put(self, line: str) -> None:
        """Add a line, from any thread."""
        self._loop.call_soon_threadsafe(self._put, line)

    def _put(self, line: str) -> None:
        if len(self._waiting) < WAITING_LIMIT and self._waiting_size < WAITING_SIZE:
            self._waiting.append(line)
            self._waiting_size += len(line)
            self._news.set()
        else:
            self._missed += 1

    def end(self) -> None:
        """End the stream after the waiting lines."""
        self._ended = True
        self._news.set()

    async def lines(self) -> AsyncGenerator[list[str], None]:
        """Yield the lines that have arrived since the last iteration."""
        try:
            while not self._ended or self._waiting:
                await self._news.wait()
                self._news.clear()
                lines = list(self._waiting)
                self._waiting.clear()
                self._waiting_size = 0
                if self._missed:
                    lines.append(self._missed_line(self._missed))
                    self._missed = 0
                if lines:
                    yield lines
        finally:
            self.leave_once()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.lines()) as arrived:
            async for lines in arrived:
                yield "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")

    def leave_once(self) -> None:
        super().leave_once()
        if self._timer is not None:
            self._timer.cancel()
