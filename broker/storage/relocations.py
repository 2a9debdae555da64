"""New places of the messages of one segment that compaction has moved, by their old places: 24 bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left


class Moved:
    """`pending` is how many times it will still be asked: once by each queue that had the message."""

    __slots__ = ("pending", "_offsets", "_ids", "_locations", "_holders")

    def __init__(self) -> None:
        self.pending = 0
        self._offsets = array("I")  # ascending, as segments are copied from front to end
        self._ids = array("Q")
        self._locations = array("Q")
        self._holders = array("I")

    def add(self, offset: int, id_: int, location: int, holders: int) -> None:
        self._offsets.append(offset)
        self._ids.append(id_)
        self._locations.append(location)
        self._holders.append(holders)
        self.pending += holders

    def find(self, offset: int) -> tuple[int, int] | None:
        """Its new id and place."""
        index = bisect_left(self._offsets, offset)
        if index == len(self._offsets) or self._offsets[index] != offset:
            return None
        return self._ids[index], self._locations[index]

    def take(self, offset: int) -> tuple[int, int] | None:
        """Likewise; the one who asks does not ask again."""
        index = bisect_left(self._offsets, offset)
        if index == len(self._offsets) or self._offsets[index] != offset:
            return None
        if self._holders[index]:
            self._holders[index] -= 1
            self.pending -= 1
        return self._ids[index], self._locations[index]
