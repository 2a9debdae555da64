"""The state of the service between scrapes, with their count, duration and size by endpoint."""

from dataclasses import dataclass

from warren.broker.config import Prometheus
from warren.broker.plugin import Host

from ..management.stats.process_stats import Readings

Key = tuple[str, str]
"""RabbitMQ's name of the endpoint's registry, and the content type."""


@dataclass(slots=True)
class Sum:
    count: int = 0
    seconds: float = 0.0
    size_bytes: int = 0


class Scrapes:
    """Sums by endpoint and content type, which are few."""

    def __init__(self) -> None:
        self.sums: dict[Key, Sum] = {}

    def count(self, registry: str, content_type: str, seconds: float, size_bytes: int) -> None:
        """Add a scrape. `size_bytes` is the size before compression."""
        own = self.sums.setdefault((registry, content_type), Sum())
        own.count += 1
        own.seconds += seconds
        own.size_bytes += size_bytes


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
