"""The state of the management service between requests."""

import asyncio
from collections.abc import Iterator

from warren.broker.config import Management
from warren.broker.core.telemetry.detailed_rates import DetailedRates
from warren.broker.plugin import Host

from ..stats import detailed_rates, federation_links
from ..stats.counters import KINDS
from ..stats.history import Sample, Samples, retention_of
from ..stats.process_stats import Readings
from ..stats.watermarks import Watermarks
from .unread import UnreadQuota

UNREAD_BYTES = 256 << 20
SOURCE_UNREAD_BYTES = 64 << 20


class ManagementState:
    """Configuration, counter samples and process readings. Raises ValueError for an invalid retention policy."""

    def __init__(self, host: Host, sampling: bool = True) -> None:
        """`sampling` is off for the unix socket's own state, used while the service is stopped."""
        self.config: Management = host.config.management
        off = not sampling or self.config.disable_stats or self.config.disable_metrics_collector
        mode = "none" if off else self.config.rates_mode
        retention = retention_of(self.config.sample_retention_policies)
        self.samples = Samples(KINDS, host.config.collect_statistics_interval_ms, retention, mode)
        self.watermarks = Watermarks()
        self.readings = Readings(host)
        self.searches = asyncio.Lock()  # held while a pattern of a request is searched for
        self.bodies = asyncio.Lock()  # held for a turn of the loop by each long body
        self.unread = UnreadQuota(UNREAD_BYTES, SOURCE_UNREAD_BYTES)  # responses that clients have not read, by source
        self._host = host
        if mode == "detailed":
            host.node.detailed_rates = breakdown = DetailedRates(host.node.vhosts)
            host.node.observers.add(breakdown)

    def more_samples(self) -> Iterator[Sample]:
        """Yield the samples of optional objects: federation links and detailed rates."""
        yield from federation_links.samples(self._host)
        yield from detailed_rates.samples(self._host)
