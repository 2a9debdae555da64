"""The memory that ready messages may take in the whole node."""

from __future__ import annotations

from typing import ClassVar


class MemoryBudget:
    """An estimate of the memory that ready messages take: their bodies, their long headers (`header_bytes_of`),
    and OVERHEAD bytes for each message, of which packing saves SAVED.

    `exceeded` says that the estimate is above the limit; queues then page out what they get. Dead letters that wait are
    no ready messages: `dead_letter_bytes` is their sum, and `deleted_letter_bytes` that of deleted queues.
    `full_outboxes` counts the queues that must not reject more messages, which they would dead-letter.
    """

    __slots__ = (
        *("limit_bytes", "used_bytes", "exceeded", "dead_letter_bytes", "deleted_letter_bytes", "full_outboxes"),
        "_dead_letters_of",
    )
    OVERHEAD: ClassVar[int] = 300
    SAVED: ClassVar[int] = 200

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.exceeded = False
        self.dead_letter_bytes = self.deleted_letter_bytes = self.full_outboxes = 0
        self._dead_letters_of: dict[str, int] = {}  # bytes, by account

    def add(self, count: int, content_bytes: int) -> None:
        """Count messages that came; both numbers are negative for messages that left. HOT: bench A-M."""
        self.used_bytes += content_bytes + count * self.OVERHEAD
        self.exceeded = self.used_bytes > self.limit_bytes

    def add_dead_letters(self, account: str, held_bytes: int) -> None:
        """Count dead letters of a user that came; `held_bytes` is negative for those that left."""
        self.dead_letter_bytes += held_bytes
        rest = self.dead_letters_of(account) + held_bytes
        if rest:
            self._dead_letters_of[account] = rest
        else:
            self._dead_letters_of.pop(account, None)

    def dead_letters_of(self, account: str) -> int:
        """Return the bytes of the dead letters of a user."""
        return self._dead_letters_of.get(account, 0)

    def add_packed(self, count: int) -> None:
        """Count messages that were packed; negative for messages that were unpacked."""
        self.used_bytes -= count * self.SAVED
        self.exceeded = self.used_bytes > self.limit_bytes
