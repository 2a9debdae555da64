"""Sampling: the choice of messages to record if not all are.

Up to TOGETHER consecutive messages of a batch are chosen at a time, so that most batches have none and cost nothing.
The number of skipped messages between two choices is random, so that clients that publish in turn are not chosen always
or never.
"""

from random import Random

TOGETHER = 128  # the maximum of consecutive messages that are recorded

Run = tuple[int, int]
"""Consecutive messages of a batch: the index of the first, and their number."""


class Sampling:
    """The choice of one in `one_in` messages."""

    __slots__ = ("one_in", "_skip", "_random")

    def __init__(self, one_in: int) -> None:
        self.one_in = one_in
        self._random = Random(one_in)  # each boot chooses in the same way
        self._skip = self._skipped(1) if one_in > 1 else 0

    def _skipped(self, recorded: int) -> int:
        """Return the number of messages to skip after some recorded ones: `one_in` - 1 for each, on average."""
        return round(2 * self._random.random() * recorded * (self.one_in - 1))

    def runs(self, count: int) -> list[Run]:
        """Return which of the next `count` messages are recorded. HOT: the export, load A."""
        skip = self._skip
        if skip >= count:
            self._skip = skip - count
            return []
        runs = []
        while skip < count:
            length = min(TOGETHER, count - skip)
            runs.append((skip, length))
            skip += length + self._skipped(length)
        self._skip = skip - count
        return runs
