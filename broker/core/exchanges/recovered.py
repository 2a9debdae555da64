"""The messages of one exchange that recovery found in the journal."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from ..messages.ports import RecoveredQueue


class RecoveredMessages:
    """The messages that an exchange type had stored when the broker stopped, in that order.

    pages         id and location of each
    deadlines_ms  the deadline in the `MessageState` of each, NEVER for none. Messages with and without a deadline are
                  stored by different exchange types.
    """

    __slots__ = ("pages", "deadlines_ms")

    def __init__(self, recovered: RecoveredQueue) -> None:
        deadlines_ms = recovered.deadlines_ms
        self.pages = recovered
        self.deadlines_ms = deadlines_ms if deadlines_ms is not None else array("Q", bytes(8 * len(recovered)))

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield (deadline, id, location) of each message."""
        return ((due_ms, *page) for due_ms, page in zip(self.deadlines_ms, self.pages, strict=True))
