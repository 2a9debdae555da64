"""The part of a queue that is on the disk: the id and location in the journal of each message, 16 bytes in memory."""

from __future__ import annotations

from array import array

from ..messages.ports import Pages


class PagedTail:
    """A FIFO of pages: the id and the location of each message, and its `Message.seq` if there is a message log."""

    __slots__ = ("_ids", "_locations", "_seqs", "_first")

    def __init__(self) -> None:
        self._ids = array("Q")
        self._locations = array("Q")
        self._seqs = array("Q")  # may be shorter than the others: the last pages have none
        self._first = 0

    def __len__(self) -> int:
        return len(self._ids) - self._first

    def append(self, id_: int, location: int, seq: int = 0) -> None:
        if seq > 0:  # else its message is that of a copy which has none, as the log ended meanwhile
            self._seqs.frombytes(bytes(8 * (len(self._ids) - len(self._seqs))))
            self._seqs.append(seq)
        self._ids.append(id_)
        self._locations.append(location)

    def restore(self, pages: Pages) -> None:
        """Take over all of these pages, while empty."""
        self._ids, self._locations = pages.ids, pages.locations

    def extend(self, other: PagedTail) -> None:
        """Append all pages of another."""
        seqs = other._seqs[other._first :]
        if seqs:
            self._seqs.frombytes(bytes(8 * (len(self._ids) - len(self._seqs))))
            self._seqs.extend(seqs)
        self._ids.extend(other._ids[other._first :])
        self._locations.extend(other._locations[other._first :])

    def seqs(self, count: int) -> list[int]:
        """Return `Message.seq` of the first pages, at most `count`."""
        end = min(self._first + count, len(self._ids))
        known = self._seqs[self._first : end].tolist()
        return known + [0] * (end - self._first - len(known))

    def peek(self, count: int) -> list[tuple[int, int]]:
        """Return the first pages, at most `count`."""
        end = min(self._first + count, len(self._ids))
        return list(zip(self._ids[self._first : end], self._locations[self._first : end], strict=True))

    def take(self, count: int) -> list[tuple[int, int]]:
        """Remove and return the first pages, at most `count`."""
        pages = self.peek(count)
        self._first = end = self._first + len(pages)
        if end * 2 > len(self._ids):  # more was taken than is left: free its memory
            del self._ids[:end]
            del self._locations[:end]
            del self._seqs[:end]
            self._first = 0
        return pages


class Unread:
    """Pages that could not be read when they were due, each with the position of its message in the fifo.

    `average_bytes` is an estimate of the length of a body.
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
        """Return (position, id, location, `Message.seq`) of the first pages, at most `count`."""
        positions, pages, seqs = self._positions[:count], self.pages.peek(count), self.pages.seqs(count)
        return [(at, *page, seq) for at, page, seq in zip(positions, pages, seqs, strict=True)]

    def take(self, count: int) -> None:
        """Remove the first `count` pages."""
        del self._positions[:count]
        self.pages.take(count)
