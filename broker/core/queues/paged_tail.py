"""The part of a queue that is on the disk: the ids of its messages, which are mostly runs, in blocks."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import Union

from .lazy_deque import LazyDeque, made

BLOCK = 500  # ids


class Offsets:
    """Ids in ascending order that are no run, 4 bytes each."""

    __slots__ = ("first_id", "offsets")

    def __init__(self, first_id: int, offsets: array[int]) -> None:
        self.first_id = first_id
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets)


Block = Union[range, Offsets, "array[int]"]


class PagedTail:
    """A FIFO of pages: the id of each message, and its `Message.seq` if there is a message log."""

    __slots__ = ("_blocks", "_last", "_first", "_count", "_seqs", "_first_seq")

    def __init__(self) -> None:
        self._blocks: LazyDeque[Block] = ()  # none is empty
        self._last = array("Q")  # the ids behind them, fewer than BLOCK
        self._first = 0  # in the first block, or in the last ids
        self._count = 0
        self._seqs = array("Q")  # may be shorter than the ids: the last pages have none
        self._first_seq = 0

    def __len__(self) -> int:
        return self._count

    def append(self, id_: int, seq: int = 0) -> None:
        if seq > 0:  # else its message is that of a copy which has none, as the log ended meanwhile
            self._seqs.frombytes(bytes(8 * (self._first_seq + self._count - len(self._seqs))))
            self._seqs.append(seq)
        self._count += 1
        self._last.append(id_)
        if len(self._last) >= BLOCK:
            self._close_block()

    def restore(self, ids: array[int]) -> None:
        """Take over all of these ids, while empty."""
        self._count = len(ids)
        for at in range(0, len(ids), BLOCK):
            self._last = ids[at : at + BLOCK]
            self._close_block()

    def _close_block(self) -> None:
        """Make a block of the last ids, or join them with the block before."""
        block = block_of(self._last[self._first :] if not self._blocks else self._last)
        if not self._blocks:
            self._first = 0
        self._last = array("Q")
        self._blocks = blocks = made(self._blocks)
        before = blocks[-1] if blocks else None
        if isinstance(block, range) and isinstance(before, range) and before.stop == block.start:
            blocks[-1] = range(before.start, block.stop)
        else:
            blocks.append(block)

    def seqs(self, count: int) -> list[int]:
        """Return `Message.seq` of the first pages, at most `count`."""
        count = min(count, self._count)
        known = self._seqs[self._first_seq : self._first_seq + count].tolist()
        return known + [0] * (count - len(known))

    def peek(self, count: int) -> list[int]:
        """Return the first ids, at most `count`."""
        ids: list[int] = []
        start = self._first
        for block in chain(self._blocks, (self._last,)):
            ids += ids_in(block, start, start + count - len(ids))
            if len(ids) >= count:
                break
            start = 0
        return ids

    def take(self, count: int) -> list[int]:
        """Remove the first pages, at most `count`, and return their ids."""
        ids = self.peek(count)
        self._count -= len(ids)
        self._first += len(ids)
        if self._blocks:
            blocks = made(self._blocks)
            while blocks and self._first >= len(blocks[0]):
                self._first -= len(blocks.popleft())
        if not self._blocks and self._first * 2 > len(self._last):  # more was taken than is left: free its memory
            del self._last[: self._first]
            self._first = 0
        self._first_seq += len(ids)
        if self._first_seq * 2 > len(self._seqs):
            del self._seqs[: self._first_seq]
            self._first_seq = 0
        return ids


def block_of(ids: array[int]) -> Block:
    """Return a block of these ids, in their order, that takes as little memory as possible."""
    first_id, last_id = ids[0], ids[-1]
    if last_id - first_id == len(ids) - 1 and ids == array("Q", range(first_id, last_id + 1)):
        return range(first_id, last_id + 1)
    if min(ids) == first_id and max(ids) - first_id < 1 << 32:
        return Offsets(first_id, array("I", [id_ - first_id for id_ in ids]))
    return ids


def ids_in(block: Block, start: int, end: int) -> list[int]:
    """Return the ids from one position of a block to another."""
    if isinstance(block, Offsets):
        return [block.first_id + offset for offset in block.offsets[start:end]]
    return list(block[start:end])
