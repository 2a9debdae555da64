"""What the service keeps from one scrape to the next."""

from __future__ import annotations

from broker.plugin import Host, Latencies, Prometheus

from ..management.readings import Readings
from .scrapes import Scrapes


class State:
    """`readings` are of the process, `lag` is that of the loop."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.config: Prometheus = host.config.prometheus
        self.readings = Readings(host)
        self.lag = Latencies()
        self.scrapes = Scrapes()
