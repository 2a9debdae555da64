"""The memory that ready messages may take in the whole node."""

from __future__ import annotations

from typing import ClassVar


class BytesOfUsers:
    """Bytes, by the account of a user, empty for none; `total` is their sum."""

    __slots__ = ("total", "_by_account")

    def __init__(self) -> None:
        self.total = 0
        self._by_account: dict[str, int] = {}

    def add(self, account: str, count: int) -> None:
        """Add bytes, or remove them with a negative number."""
        self.total += count
        rest = self.of(account) + count
        if rest:
            self._by_account[account] = rest
        else:
            self._by_account.pop(account, None)

    def of(self, account: str) -> int:
        return self._by_account.get(account, 0)


class MemoryBudget:
    """An estimate of the memory that ready messages take: their bodies, their long headers (`header_bytes_of`),
    and OVERHEAD bytes for each message, of which packing saves SAVED.

    `exceeded` says that the estimate is above the limit; queues then page out what they get. Dead letters that wait are
    no ready messages: `dead_letters` counts them, and `deleted_letters` those of deleted queues. `full_outboxes` counts
    the queues that must not reject more messages, which they would dead-letter.
    """

    __slots__ = ("limit_bytes", "used_bytes", "exceeded", "dead_letters", "deleted_letters", "full_outboxes")
    OVERHEAD: ClassVar[int] = 300
    SAVED: ClassVar[int] = 200

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.exceeded = False
        self.dead_letters = BytesOfUsers()
        self.deleted_letters = BytesOfUsers()
        self.full_outboxes = 0

    def add(self, count: int, content_bytes: int) -> None:
        """Count messages that came; both numbers are negative for messages that left. HOT: bench A-M."""
        self.used_bytes += content_bytes + count * self.OVERHEAD
        self.exceeded = self.used_bytes > self.limit_bytes

    def add_packed(self, count: int) -> None:
        """Count messages that were packed; negative for messages that were unpacked."""
        self.used_bytes -= count * self.SAVED
        self.exceeded = self.used_bytes > self.limit_bytes
