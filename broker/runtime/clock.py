"""The loop's time as the core's clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..core.messages.ports import Clock, Timer


class LoopTimer(Timer):
    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def cancel(self) -> None:
        self._handle.cancel()


class LoopClock(Clock):
    """Milliseconds since the epoch as the wall showed them at the start, and as the loop counted them since: what was
    stored as a time keeps its meaning over a restart, and no step of the wall clock moves a timer.

    `after` is called after each timer's callback, which may have published or settled something.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None] = lambda: None) -> None:
        self._loop = loop
        self._after = after
        self._epoch_s = time.time() - loop.time()  # of the loop's clock

    def now_ms(self) -> int:
        return int((self._epoch_s + self._loop.time()) * 1000)

    def timestamp_s(self) -> int:
        return int(time.time())

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        return LoopTimer(self._loop.call_at(when_ms / 1000 - self._epoch_s, self._call, fn))

    def _call(self, fn: Callable[[], None]) -> None:
        try:
            fn()
        finally:
            self._after()
