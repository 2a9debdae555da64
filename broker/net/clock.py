"""The loop's time as the core's clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..core.ports import Clock, Timer


class LoopTimer(Timer):
    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def cancel(self) -> None:
        self._handle.cancel()


class LoopClock(Clock):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def timestamp_s(self) -> int:
        return int(time.time())

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        return LoopTimer(self._loop.call_at(when_ms / 1000, fn))
