"""The state of the service between scrapes, with their count, duration and size by endpoint."""

from __future__ import annotations

from collections.abc import Mapping

from warren.broker.config import Prometheus
from warren.broker.plugin import Host

from ..management.stats.process_stats import Readings

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


class MetricsState:
    """Configuration, scrape statistics and the readings of the process."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.config: Prometheus = host.config.prometheus
        self.readings = Readings(host)
        self.scrapes = Scrapes()

    @property
    def path(self) -> str:
        """The path of the metrics; empty at the root."""
        path = self.config.path.strip("/")
        return f"/{path}" if path else ""

    @property
    def shared_path(self) -> str:
        """The path of the metrics on the port of the HTTP API; empty if it would be the root."""
        return self.host.config.management.path_prefix.rstrip("/") + self.path if self.path else ""
