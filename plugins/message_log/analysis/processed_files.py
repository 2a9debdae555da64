"""The names of the files that a stream has processed, as ranges: the files of a boot and a table are numbered."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable

from ..file_format.schema import parse_name


class ProcessedFiles:
    """A set of names of files of one table.

    The file of a compaction is named after its first and last original file, and is in the set if all files between
    these are. It may lack some of them, so adding its name adds no other name.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._ranges: dict[str, list[list[int]]] = {}  # first and last number, by boot
        self._others: set[str] = set()
        self.add(names)

    def __contains__(self, name: str) -> bool:
        if self.lists(name):
            return True
        numbered = parse_name(name)
        if numbered is None:
            return False
        boot, first, last = numbered
        ranges = self._ranges.get(boot, [])
        place = bisect_right(ranges, first, key=lambda each: each[0]) - 1
        return place >= 0 and last <= ranges[place][1]

    def lists(self, name: str) -> bool:
        """Whether the name is kept by itself, outside of all ranges."""
        return name in self._others

    def add(self, names: Iterable[str]) -> None:
        numbers: dict[str, set[int]] = {}
        for name in names:
            numbered = parse_name(name)
            if numbered is None or numbered[1] != numbered[2]:
                self._others.add(name)
            else:
                numbers.setdefault(numbered[0], set()).add(numbered[1])
        for boot, more in numbers.items():
            self._ranges[boot] = joined([*self._ranges.get(boot, []), *[[number, number] for number in more]])

    def update(self, other: ProcessedFiles) -> None:
        """Add all names of another set."""
        for boot, ranges in other._ranges.items():
            self._ranges[boot] = joined([*self._ranges.get(boot, []), *ranges])
        self._others |= other._others

    def __len__(self) -> int:
        """The number of ranges and of names that are in none: the size of `text`."""
        return sum(map(len, self._ranges.values())) + len(self._others)

    def text(self) -> str:
        """Return the set as a text, without the names that ranges have."""
        others, self._others = self._others, set()
        self._others = {name for name in others if name not in self}
        return json.dumps({"ranges": self._ranges, "names": sorted(self._others)})

    @staticmethod
    def read(text: str) -> ProcessedFiles:
        """Return the set from the result of `text`."""
        stored = json.loads(text)
        names = ProcessedFiles(stored["names"])
        names._ranges = stored["ranges"]
        return names


def joined(ranges: list[list[int]]) -> list[list[int]]:
    """Return ranges in order; adjacent and overlapping ones are joined."""
    result: list[list[int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1][1] = max(last, result[-1][1])
        else:
            result.append([first, last])
    return result
