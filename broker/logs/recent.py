"""The last records, wherever they went, and whoever follows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .record import TIMES, Record

LIMIT = 1000  # records

Follower = Callable[[str], object]
"""Takes a line, from any thread."""


class Recent:
    """Lines are made of records when somebody asks."""

    def __init__(self) -> None:
        self.followers: list[Follower] = []
        self._records: deque[Record] = deque(maxlen=LIMIT)

    def put(self, record: Record) -> None:
        """One at a time."""
        self._records.append(record)
        if self.followers:
            line = plain(record)
            for follower in list(self.followers):
                follower(line)

    def lines(self) -> list[str]:
        return [line for record in list(self._records) for line in plain(record).split("\n")]


def plain(record: Record) -> str:
    return record.plain(TIMES["rfc3339_space"])
