"""The port of the clock, through which time reaches the core."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that `Clock.call_at` has scheduled."""

    def cancel(self) -> None:
        """Cancel the call, unless it was made."""


class Clock(Protocol):
    """The time and timers of the node."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970 that never go back while the node runs.

        They start from wall time, so a deadline can be stored and holds after a restart.
        """

    def timestamp_s(self) -> int:
        """Return wall time in seconds since 1970."""

    def processor_s(self) -> float:
        """Return the processor time that the node's thread has used, in seconds."""

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        """Call `fn` when `now_ms` has reached `when_ms`."""
