"""The names of the files that a stream has processed, as ranges: the files of a boot and a table are numbered."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable

NAME = re.compile(r"(?P<boot>part-.+)-(?P<first>\d{6,})(?:_(?P<last>\d{6,}))?\.parquet")


class FileNames:
    """A set of names of files of one table.

    A file of a compaction, which is named after the first and the last file that it was made of, is in the set if all
    files between these are. Its name alone does not tell whether it has all of them, so to add it adds no other name.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._ranges: dict[str, list[list[int]]] = {}  # first and last number, by boot
        self._others: set[str] = set()
        self.add(names)

    def __contains__(self, name: str) -> bool:
        if self.lists(name):
            return True
        numbered = parse(name)
        if numbered is None:
            return False
        boot, first, last = numbered
        ranges = self._ranges.get(boot, [])
        place = bisect_right(ranges, first, key=lambda each: each[0]) - 1
        return place >= 0 and last <= ranges[place][1]

    def lists(self, name: str) -> bool:
        """Whether the name itself is kept, as no range has it."""
        return name in self._others

    def add(self, names: Iterable[str]) -> None:
        numbers: dict[str, set[int]] = {}
        for name in names:
            numbered = parse(name)
            if numbered is None or numbered[1] != numbered[2]:
                self._others.add(name)
            else:
                numbers.setdefault(numbered[0], set()).add(numbered[1])
        for boot, more in numbers.items():
            self._ranges[boot] = joined([*self._ranges.get(boot, []), *[[number, number] for number in more]])

    def update(self, other: FileNames) -> None:
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
    def read(text: str) -> FileNames:
        """Return the set that `text` has made, or one of an earlier version, with a name in each line."""
        if not text.startswith("{"):
            return FileNames(text.split("\n"))
        stored = json.loads(text)
        names = FileNames(stored["names"])
        names._ranges = stored["ranges"]
        return names


def parse(name: str) -> tuple[str, int, int] | None:
    """Return boot, first and last number of a file, or None if it is not named as the export names files."""
    named = NAME.fullmatch(name)
    if named is None:
        return None
    first = int(named["first"])
    last = int(named["last"] or first)
    ends = f"{first:06}" if named["last"] is None else f"{first:06}_{last:06}"
    return (named["boot"], first, last) if name == f"{named['boot']}-{ends}.parquet" and first <= last else None


def joined(ranges: list[list[int]]) -> list[list[int]]:
    """Return ranges in order, those that touch or overlap as one."""
    result: list[list[int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1][1] = max(last, result[-1][1])
        else:
            result.append([first, last])
    return result
