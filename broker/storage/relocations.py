"""The new places of messages that compaction has moved out of a segment: 24 bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left


class Relocations:
    """New ids and places by old offset.

    pending  calls of `take` that are still to come: one for each message and queue
    """

    __slots__ = ("pending", "_offsets", "_ids", "_locations", "_holders")

    def __init__(self) -> None:
        self.pending = 0
        self._offsets = array("I")  # ascending, because segments are copied from front to end
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
        """Return the new id and place, or None for a message that was not moved."""
        index = bisect_left(self._offsets, offset)
        if index == len(self._offsets) or self._offsets[index] != offset:
            return None
        return self._ids[index], self._locations[index]

    def take(self, offset: int) -> tuple[int, int] | None:
        """Return the same as `find`, to a queue that does not ask again."""
        index = bisect_left(self._offsets, offset)
        if index == len(self._offsets) or self._offsets[index] != offset:
            return None
        if self._holders[index]:
            self._holders[index] -= 1
            self.pending -= 1
        return self._ids[index], self._locations[index]
