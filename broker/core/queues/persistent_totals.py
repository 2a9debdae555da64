"""What the journal keeps for one queue, of the messages that are ready or out."""

from __future__ import annotations


class PersistentTotals:
    """How many messages, and the sum of their bodies.

    After a purge while messages of both delivery modes are out it may be too much, by no more than were out then.
    """

    __slots__ = ("count", "body_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.body_bytes = 0

    def add(self, count: int, body_bytes: int) -> None:
        self.count += count
        self.body_bytes += body_bytes

    def remove(self, count: int, body_bytes: int) -> None:
        self.count -= count
        self.body_bytes -= body_bytes

    def limit(self, count: int, body_bytes: int) -> None:
        """The ready ones are gone; so many are out."""
        self.count = min(self.count, count)
        self.body_bytes = min(self.body_bytes, body_bytes)
