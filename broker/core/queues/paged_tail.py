"""The part of a queue that is on the disk: the id of each message, 8 bytes in memory."""

from __future__ import annotations

from array import array


class PagedTail:
    """A FIFO of pages: the id of each message, and its `Message.seq` if there is a message log."""

    __slots__ = ("_ids", "_seqs", "_first")

    def __init__(self) -> None:
        self._ids = array("Q")
        self._seqs = array("Q")  # may be shorter than the ids: the last pages have none
        self._first = 0

    def __len__(self) -> int:
        return len(self._ids) - self._first

    def append(self, id_: int, seq: int = 0) -> None:
        if seq > 0:  # else its message is that of a copy which has none, as the log ended meanwhile
            self._seqs.frombytes(bytes(8 * (len(self._ids) - len(self._seqs))))
            self._seqs.append(seq)
        self._ids.append(id_)

    def restore(self, ids: array[int]) -> None:
        """Take over all of these ids, while empty."""
        self._ids = ids

    def seqs(self, count: int) -> list[int]:
        """Return `Message.seq` of the first pages, at most `count`."""
        end = min(self._first + count, len(self._ids))
        known = self._seqs[self._first : end].tolist()
        return known + [0] * (end - self._first - len(known))

    def peek(self, count: int) -> list[int]:
        """Return the first ids, at most `count`."""
        return self._ids[self._first : self._first + count].tolist()

    def take(self, count: int) -> list[int]:
        """Remove the first pages, at most `count`, and return their ids."""
        ids = self.peek(count)
        self._first = end = self._first + len(ids)
        if end * 2 > len(self._ids):  # more was taken than is left: free its memory
            del self._ids[:end]
            del self._seqs[:end]
            self._first = 0
        return ids
