"""The state of the service between scrapes."""

from __future__ import annotations

from warren.broker.config import Prometheus
from warren.broker.plugin import Host

from ..management.stats.process_stats import Readings
from .scrape_stats import Scrapes


class State:
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
