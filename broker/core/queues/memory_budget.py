"""The memory that ready messages may take in the whole node."""

from __future__ import annotations

from typing import ClassVar

from .dead_letter_budget import DeadLetterBudget


class MemoryBudget:
    """An estimate of the memory that ready messages take: their bodies, their long headers (`header_bytes_of`),
    and OVERHEAD bytes for each message, of which packing saves SAVED.

    `exceeded` says that the estimate is above the limit; queues then page out what they get. Messages that wait to be
    dead-lettered are no ready messages: `dead_letters` counts them.
    """

    __slots__ = ("limit_bytes", "used_bytes", "exceeded", "dead_letters")
    OVERHEAD: ClassVar[int] = 300
    SAVED: ClassVar[int] = 200

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.exceeded = False
        self.dead_letters = DeadLetterBudget()

    def add(self, count: int, content_bytes: int) -> None:
        """Count messages that came; both numbers are negative for messages that left. HOT: bench A-M."""
        self.used_bytes += content_bytes + count * self.OVERHEAD
        self.exceeded = self.used_bytes > self.limit_bytes

    def add_packed(self, count: int) -> None:
        """Count messages that were packed; negative for messages that were unpacked."""
        self.used_bytes -= count * self.SAVED
        self.exceeded = self.used_bytes > self.limit_bytes
