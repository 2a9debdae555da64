"""What scrapes themselves cost: how many there were of which endpoint, how long they took, how long they were."""

from __future__ import annotations

from collections.abc import Mapping

Key = tuple[str, str]
"""The registry, as RabbitMQ calls what an endpoint shows, and the content type."""


class Sum:
    __slots__ = ("count", "seconds", "size_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.size_bytes = 0


class Scrapes:
    """Only what we ourselves answer is a key, so there are few."""

    def __init__(self) -> None:
        self._sums: dict[Key, Sum] = {}

    def count(self, registry: str, content_type: str, seconds: float, size_bytes: int) -> None:
        """One more. `size_bytes` are those before compression."""
        own = self._sums.setdefault((registry, content_type), Sum())
        own.count += 1
        own.seconds += seconds
        own.size_bytes += size_bytes

    @property
    def sums(self) -> Mapping[Key, Sum]:
        return self._sums
