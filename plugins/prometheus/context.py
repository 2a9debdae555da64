"""What the service keeps from one scrape to the next."""

from __future__ import annotations

from warren.broker.config import Prometheus
from warren.broker.plugin import Host

from ..management.stats.process_stats import Readings
from .scrape_stats import Scrapes


class State:
    """`readings` are of the process."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.config: Prometheus = host.config.prometheus
        self.readings = Readings(host)
        self.scrapes = Scrapes()

    @property
    def path(self) -> str:
        """Of the metrics; empty where they are at the root."""
        path = self.config.path.strip("/")
        return f"/{path}" if path else ""

    @property
    def shared_path(self) -> str:
        """The same on the port of the HTTP API; empty where there is no room for them."""
        return self.host.config.management.path_prefix.rstrip("/") + self.path if self.path else ""
