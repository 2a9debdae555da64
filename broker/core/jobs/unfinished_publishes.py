"""Unfinished publishes, commits and moves: jobs do the rest of them, and keep the messages until all queues have them.

Connections may have closed, so no limit of them is a bound: while those of a user have LIMIT_BYTES, others of the
same user wait that may take as long.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from ..messages.clock import Clock

LIMIT_BYTES: Final = 32 << 20
JOB_BYTES: Final = 16 << 10  # of a job, with its channel and connection
WOKEN: Final = 100  # waiting connections that go on in one turn


class UnfinishedPublishes:
    """The unfinished publishes of a user. `full` is True while others have to wait."""

    __slots__ = ("full", "_bytes", "_clock", "_waiting", "_waking")

    def __init__(self, clock: Clock) -> None:
        self.full = False
        self._bytes = 0
        self._clock = clock
        self._waiting: dict[Callable[[], None], None] = {}
        self._waking = False

    def begin(self, content_bytes: int) -> None:
        """Count a publish; call `end` with the same number."""
        self._count(content_bytes + JOB_BYTES)

    def end(self, content_bytes: int) -> None:
        """Count a publish no more, and call those that wait if there is room for others."""
        self._count(-content_bytes - JOB_BYTES)
        if self._waiting and not self._waking:
            self._waking = True
            self._clock.call_at(self._clock.now_ms(), self._wake)

    def wait(self, call: Callable[[], None]) -> None:
        """Call a function once there is room; it has to look again."""
        self._waiting[call] = None

    def forget(self, call: Callable[[], None]) -> None:
        """Call it no more, if it waits."""
        self._waiting.pop(call, None)

    def _count(self, content_bytes: int) -> None:
        self._bytes += content_bytes
        self.full = self._bytes >= LIMIT_BYTES

    def _wake(self) -> None:
        """Call some of those that wait, in their order. While there is no room, the next `end` does."""
        self._waking = False
        if self.full:
            return
        for call in list(islice(self._waiting, WOKEN)):
            self.forget(call)
            call()
        if self._waiting:
            self._waking = True
            self._clock.call_at(self._clock.now_ms(), self._wake)
