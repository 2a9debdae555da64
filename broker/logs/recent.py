"""The last records of the log in memory, and the followers of new ones."""

from collections import deque
from collections.abc import Callable

from .record import TIMES, Record

LIMIT = 1000  # records

Follower = Callable[[str], object]
"""A function that takes a line, in any thread."""


class Recent:
    """The last LIMIT records; lines are made of them when they are read."""

    def __init__(self) -> None:
        self.followers: list[Follower] = []
        self._records: deque[Record] = deque(maxlen=LIMIT)

    def put(self, record: Record) -> None:
        """Add a record and pass its line to the followers. Not for several threads at once."""
        self._records.append(record)
        if self.followers:
            line = plain(record)
            for follower in list(self.followers):
                follower(line)

    def lines(self) -> list[str]:
        return [line for record in list(self._records) for line in plain(record).split("\n")]


def plain(record: Record) -> str:
    return record.plain(TIMES["rfc3339_space"])
