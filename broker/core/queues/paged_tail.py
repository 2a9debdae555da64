"""The part of a queue that lies on the disk: for each message its id and place in the journal, 16 octets in memory."""

from __future__ import annotations

from array import array

from ..messages.ports import Pages


class PagedTail:
    """Pages, first in, first out: each an id and a place, and with a message log what that knows the message by."""

    __slots__ = ("_ids", "_locations", "_seqs", "_first")

    def __init__(self) -> None:
        self._ids = array("Q")
        self._locations = array("Q")
        self._seqs = array("Q")  # shorter than the others where those behind have none
        self._first = 0

    def __len__(self) -> int:
        return len(self._ids) - self._first

    def append(self, id_: int, location: int, seq: int = 0) -> None:
        if seq:
            self._seqs.frombytes(bytes(8 * (len(self._ids) - len(self._seqs))))
            self._seqs.append(seq)
        self._ids.append(id_)
        self._locations.append(location)

    def restore(self, pages: Pages) -> None:
        """Take over all of these; it had none."""
        self._ids, self._locations = pages.ids, pages.locations

    def extend(self, other: PagedTail) -> None:
        """Add all that another has."""
        seqs = other._seqs[other._first :]
        if seqs:
            self._seqs.frombytes(bytes(8 * (len(self._ids) - len(self._seqs))))
            self._seqs.extend(seqs)
        self._ids.extend(other._ids[other._first :])
        self._locations.extend(other._locations[other._first :])

    def seqs(self, count: int) -> list[int]:
        """Of the first pages, that many or as many as there are; `Message.seq` of each."""
        end = min(self._first + count, len(self._ids))
        known = self._seqs[self._first : end].tolist()
        return known + [0] * (end - self._first - len(known))

    def peek(self, count: int) -> list[tuple[int, int]]:
        """The first pages, that many or as many as there are."""
        end = min(self._first + count, len(self._ids))
        return list(zip(self._ids[self._first : end], self._locations[self._first : end], strict=True))

    def take(self, count: int) -> list[tuple[int, int]]:
        """Likewise, and they leave."""
        pages = self.peek(count)
        self._first = end = self._first + len(pages)
        if end * 2 > len(self._ids):  # what was taken is as long as what is left: let go of it
            del self._ids[:end]
            del self._locations[:end]
            del self._seqs[:end]
            self._first = 0
        return pages


class Unread:
    """Pages that the disk did not give when it was their turn, each with the position that is kept for its message.

    `average_bytes` is about what a body takes.
    """

    __slots__ = ("pages", "average_bytes", "_positions")

    def __init__(self) -> None:
        self.pages = PagedTail()
        self.average_bytes = 0
        self._positions = array("Q")

    def __len__(self) -> int:
        return len(self.pages)

    def append(self, position: int, id_: int, location: int, seq: int) -> None:
        self.pages.append(id_, location, seq)
        self._positions.append(position)

    def peek(self, count: int) -> list[tuple[int, int, int, int]]:
        """The first of them, that many or as many as there are: position, id, place and `Message.seq` of each."""
        positions, pages, seqs = self._positions[:count], self.pages.peek(count), self.pages.seqs(count)
        return [(at, *page, seq) for at, page, seq in zip(positions, pages, seqs, strict=True)]

    def take(self, count: int) -> None:
        """The first of them leave."""
        del self._positions[:count]
        self.pages.take(count)
