"""What an exchange had stored when the broker stopped."""

from array import array
from collections.abc import Iterator

from ..messages.ports import Pages


class RecoveredMessages:
    """`pages` are the id and place of each message, in the order in which they were stored; `deadlines_ms` those of
    their lives, NEVER where there is none. Messages with and without a deadline are of different keepers."""

    __slots__ = ("pages", "deadlines_ms")

    def __init__(self, pages: Pages, deadlines_ms: "array[int] | None") -> None:
        self.pages = pages
        self.deadlines_ms = deadlines_ms if deadlines_ms is not None else array("Q", bytes(8 * len(pages)))

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Each as (deadline, id, place)."""
        return ((due_ms, *page) for due_ms, page in zip(self.deadlines_ms, self.pages, strict=True))
