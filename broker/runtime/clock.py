"""The event loop's clock as the Clock port of the core."""

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
    """The wall time at the start plus the loop's time since then.

    So stored times are valid after a restart, and changes of the wall clock move no timer. `after` is called after each
    timer's callback, which may have published or settled messages.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None] = lambda: None) -> None:
        self._loop = loop
        self._after = after
        self._epoch_s = time.time() - loop.time()  # wall time at zero of the loop's clock
        self._stopped = False

    def now_ms(self) -> int:
        return int((self._epoch_s + self._loop.time()) * 1000)

    def timestamp_s(self) -> int:
        return int(time.time())

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        return LoopTimer(self._loop.call_at(when_ms / 1000 - self._epoch_s, self._call, fn))

    def stop(self) -> None:
        """Call back no more: nothing expires while the node stops."""
        self._stopped = True

    def _call(self, fn: Callable[[], None]) -> None:
        if self._stopped:
            return
        try:
            fn()
        finally:
            self._after()
