"""A sorted list of very many entries that come and go one by one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any, Final

Entry = tuple[Any, ...]
BLOCK: Final = 500  # entries; also the blocks of very many are few enough to move


class SortedEntries:
    """Entries in order, no two of them equal, in blocks: a change searches, and moves the entries of one block."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: list[list[Entry]] = []  # none of them is empty

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def first(self) -> Entry:
        return self._blocks[0][0]

    def add(self, entry: Entry) -> None:
        blocks = self._blocks
        if not blocks:
            blocks.append([entry])
            return
        index = self._block_of(entry) if len(blocks) > 1 else 0
        block = blocks[index]
        insort(block, entry)
        if len(block) > BLOCK:
            half = BLOCK // 2
            blocks.insert(index + 1, block[half:])
            del block[half:]

    def pop_first(self) -> Entry:
        """Remove the first entry, and return it."""
        return self._pop(0, 0)

    def pop_from(self, start: Entry) -> Entry:
        """Remove the first entry that is not less than this, perhaps itself, and return it; there must be one."""
        blocks = self._blocks
        index = self._block_of(start) if len(blocks) > 1 else 0
        at = bisect_left(blocks[index], start)
        return self._pop(index, at) if at < len(blocks[index]) else self._pop(index + 1, 0)

    def _block_of(self, entry: Entry) -> int:
        """Return the index of the last block that does not begin after an entry, or of the first one."""
        return max(bisect_right(self._blocks, [entry]) - 1, 0)

    def _pop(self, index: int, at: int) -> Entry:
        block = self._blocks[index]
        entry = block.pop(at)
        if not block:
            del self._blocks[index]
        return entry
