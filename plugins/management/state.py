"""What the service keeps from one request to the next."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from broker.plugin import Host, Management

from .counters import KINDS
from .readings import Readings
from .samples import Samples, retention_of

DISTRIBUTION = "warrenmq"


@cache
def product_version() -> str:
    """Of the distribution, whatever version the broker passes for."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0.0.0"


class State:
    """`samples` are of all objects, `readings` of the process. Raises ValueError for retention that cannot be."""

    def __init__(self, host: Host) -> None:
        self.config: Management = host.config.management
        off = self.config.disable_stats or self.config.disable_metrics_collector
        mode = "none" if off else self.config.rates_mode
        retention = retention_of(self.config.sample_retention_policies)
        self.samples = Samples(KINDS, host.config.collect_statistics_interval_ms, retention, mode)
        self.readings = Readings(host)

    @property
    def product_version(self) -> str:
        return product_version()
