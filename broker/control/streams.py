"""Lines that are told as they come, until nobody reads them any more or the time is up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

WAITING_LIMIT = 1000  # lines; who reads too slowly for the rest misses it, and is told how much


class Stream:
    """Made on the loop. `missed` says, of a number, how many lines there were no room for. `leave` is called when it
    ends, by whoever reads."""

    def __init__(self, duration_s: float | None, missed: Callable[[int], str]) -> None:
        self.leave: Callable[[], object] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[str] = deque()
        self._missed = 0
        self._say_missed = missed
        self._news = asyncio.Event()
        self._ended = False
        self._timer = self._loop.call_later(duration_s, self.end) if duration_s is not None else None

    def put(self, line: str) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._put, line)

    def _put(self, line: str) -> None:
        if len(self._waiting) < WAITING_LIMIT:
            self._waiting.append(line)
            self._news.set()
        else:
            self._missed += 1

    def end(self) -> None:
        """What has come is still told."""
        self._ended = True
        self._news.set()

    async def lines(self) -> AsyncGenerator[list[str], None]:
        """All that have come meanwhile, again and again."""
        try:
            while not self._ended or self._waiting:
                await self._news.wait()
                self._news.clear()
                found = list(self._waiting)
                self._waiting.clear()
                if self._missed:
                    found.append(self._say_missed(self._missed))
                    self._missed = 0
                if found:
                    yield found
        finally:
            self.leave()
            if self._timer is not None:
                self._timer.cancel()
