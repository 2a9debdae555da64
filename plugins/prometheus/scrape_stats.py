"""Statistics of scrapes: count, duration and size by endpoint."""

from __future__ import annotations

from collections.abc import Mapping

Key = tuple[str, str]
"""RabbitMQ's name of the endpoint's registry, and the content type."""


class Sum:
    __slots__ = ("count", "seconds", "size_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.size_bytes = 0


class Scrapes:
    """Sums by endpoint and content type, which are few."""

    def __init__(self) -> None:
        self._sums: dict[Key, Sum] = {}

    def count(self, registry: str, content_type: str, seconds: float, size_bytes: int) -> None:
        """Add a scrape. `size_bytes` is the size before compression."""
        own = self._sums.setdefault((registry, content_type), Sum())
        own.count += 1
        own.seconds += seconds
        own.size_bytes += size_bytes

    @property
    def sums(self) -> Mapping[Key, Sum]:
        return self._sums
