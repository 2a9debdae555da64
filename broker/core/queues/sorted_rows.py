"""A sorted table of very many rows of integers, each with one object: 8 bytes in memory for each of these."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

BLOCK = 500  # rows; a change moves at most twice as many

Row = tuple[int, tuple[int, ...], object]
"""Key, values, object."""


class Block:
    """Successive rows: `values` has `width` values for each of the `keys`."""

    __slots__ = ("keys", "values", "objects", "width")

    def __init__(self, width: int) -> None:
        self.keys = array("Q")
        self.values = array("Q")
        self.objects: list[object] = []
        self.width = width

    def insert(self, at: int, key: int, values: tuple[int, ...], of: object) -> None:
        self.keys.insert(at, key)
        self.values[at * self.width : at * self.width] = array("Q", values)
        self.objects.insert(at, of)

    def row(self, at: int) -> Row:
        return self.keys[at], tuple(self.values[at * self.width : (at + 1) * self.width]), self.objects[at]

    def cut(self, start: int, end: int) -> Block:
        """Remove rows and return them."""
        cut = Block(self.width)
        first, last = start * self.width, end * self.width
        cut.keys, cut.values, cut.objects = self.keys[start:end], self.values[first:last], self.objects[start:end]
        del self.keys[start:end], self.values[first:last], self.objects[start:end]
        return cut

    def append(self, other: Block) -> None:
        self.keys += other.keys
        self.values += other.values
        self.objects += other.objects


class SortedRows:
    """Rows in ascending order of their keys, no two of which are equal, in blocks."""

    __slots__ = ("_width", "_blocks", "_firsts", "_count")

    def __init__(self, width: int) -> None:
        """Each row has this number of values beside its key."""
        self._width = width
        self._blocks: list[Block] = []  # none is empty
        self._firsts: list[int] = []  # the first key of each
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        """Yield all rows; none may come or go meanwhile."""
        for block in self._blocks:
            for at in range(len(block.keys)):
                yield block.row(at)

    def matching(self, matches: Callable[[object], bool], examined: int) -> Iterator[Row]:
        """Yield those of so many of the first rows whose objects match; none may come or go meanwhile."""
        for block in self._blocks:
            for at, of in enumerate(block.objects[:examined]):
                if matches(of):
                    yield block.row(at)
            examined -= len(block.keys)
            if examined <= 0:
                return

    @property
    def first(self) -> int:
        """The lowest key; there must be one."""
        return self._firsts[0]

    @property
    def last(self) -> int:
        """The highest key; there must be one."""
        return self._blocks[-1].keys[-1]

    def some_keys(self, first: int) -> Sequence[int]:
        """Return the lowest keys from this one on, as many as are in one block, or none if there are none."""
        index = max(bisect_right(self._firsts, first) - 1, 0)
        for block in self._blocks[index : index + 2]:
            if block.keys[-1] >= first:
                return block.keys[bisect_left(block.keys, first) :]
        return ()

    def objects(self) -> Iterator[list[object]]:
        """Yield the objects of all rows in parts."""
        for block in self._blocks:
            yield block.objects

    def add(self, key: int, values: tuple[int, ...], of: object = None) -> None:
        blocks, firsts = self._blocks, self._firsts
        self._count += 1
        index = bisect_right(firsts, key) - 1
        if index == len(blocks) - 1 and (not blocks or len(blocks[-1].keys) >= BLOCK and key > blocks[-1].keys[-1]):
            blocks.append(Block(self._width))
            firsts.append(key)
            index += 1
        index = max(index, 0)
        block = blocks[index]
        block.insert(bisect_left(block.keys, key), key, values, of)
        firsts[index] = block.keys[0]
        if len(block.keys) > 2 * BLOCK:
            blocks.insert(index + 1, block.cut(BLOCK, len(block.keys)))
            firsts.insert(index + 1, blocks[index + 1].keys[0])

    def get(self, key: int) -> Row | None:
        """Return the row with this key, or None."""
        index, at = self._find(key)
        return self._blocks[index].row(at) if index >= 0 else None

    def pop(self, key: int) -> Row | None:
        """Remove the row with this key and return it, or None."""
        index, at = self._find(key)
        if index < 0:
            return None
        block = self._blocks[index]
        row = block.row(at)
        block.cut(at, at + 1)
        self._count -= 1
        self._shrunk(index)
        return row

    def peek(self, count: int) -> list[Row]:
        """Return the first rows, at most `count`."""
        rows: list[Row] = []
        for block in self._blocks:
            rows += [block.row(at) for at in range(min(count - len(rows), len(block.keys)))]
            if len(rows) == count:
                break
        return rows

    def take(self, count: int) -> list[Row]:
        """Remove the first rows, at most `count`, and return them."""
        rows = self.peek(count)
        if rows:
            self.cut(rows[-1][0])
        return rows

    def cut(self, key: int) -> SortedRows:
        """Remove the rows up to this key, and return them."""
        before = SortedRows(self._width)
        index = bisect_right(self._firsts, key)
        before._blocks, before._firsts = self._blocks[:index], self._firsts[:index]
        del self._blocks[:index], self._firsts[:index]
        if index:
            last = before._blocks[-1]
            at = bisect_right(last.keys, key)
            if at < len(last.keys):
                self._blocks.insert(0, last.cut(at, len(last.keys)))
                self._firsts.insert(0, self._blocks[0].keys[0])
        before._count = sum([len(block.keys) for block in before._blocks])
        self._count -= before._count
        return before

    def _find(self, key: int) -> tuple[int, int]:
        """Return the index of the block and of the row with this key, or -1."""
        index = bisect_right(self._firsts, key) - 1
        if index >= 0:
            keys = self._blocks[index].keys
            at = bisect_left(keys, key)
            if at < len(keys) and keys[at] == key:
                return index, at
        return -1, 0

    def _shrunk(self, index: int) -> None:
        """Drop a block that is empty now, or join a short one with the next one."""
        blocks, firsts = self._blocks, self._firsts
        keys = blocks[index].keys
        if not keys:
            del blocks[index], firsts[index]
            return
        firsts[index] = keys[0]
        if len(keys) < BLOCK >> 2 and index + 1 < len(blocks) and len(keys) + len(blocks[index + 1].keys) <= BLOCK:
            blocks[index].append(blocks[index + 1])
            del blocks[index + 1], firsts[index + 1]
