"""Counters, rates and ranges as a request asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from ..framework.request import Request
from ..stats.history import Key

# Of Erlang processes; tools expect numbers.
NO_REDUCTIONS: Mapping[str, object] = {"reductions": 0, "reductions_details": {"rate": 0.0}}
NO_GARBAGE = dict.fromkeys(("max_heap_size", "min_bin_vheap_size", "min_heap_size", "fullsweep_after", "minor_gcs"), 0)
NO_PROCESS: Mapping[str, object] = {**NO_REDUCTIONS, "garbage_collection": NO_GARBAGE}


class StatsView:
    """The counters of objects for one request, with the rates and ranges that it asks for.

    enabled  False with `disable_stats`: views have no statistics
    totals   views of queues have their lengths
    caller   sees the connections that the views may name
    pids     the caller is local and gets process ids, which RabbitMQ's API does not have
    """

    __slots__ = ("enabled", "totals", "caller", "pids", "_samples", "_asked", "_now_ms")

    def __init__(self, request: Request) -> None:
        """Raises HTTPError (400)."""
        self._asked = request.ranges
        self._samples = request.state.samples
        self._now_ms = request.node.clock.now_ms()
        self.caller = request.caller
        self.pids = request.caller.is_local
        self.enabled = not request.flag("disable_stats")
        self.totals = self.enabled or request.flag("enable_queue_totals")

    def details(self, kind: str, key: Key, counters: Mapping[str, int]) -> dict[str, object]:
        return self._samples.details(kind, key, counters, self._asked, self._now_ms)

    def message_stats(self, kind: str, key: Key, counters: Mapping[str, int]) -> dict[str, object]:
        return self._samples.message_stats(kind, key, counters, self._asked, self._now_ms)

    def idle_since(self, kind: str, key: Key) -> dict[str, object]:
        """Return `{"idle_since": ...}` if no counter has changed for longer than an interval."""
        since_ms = self._samples.last_change_ms(kind, key)
        if since_ms is None or self._now_ms - since_ms <= self._samples.interval_ms:
            return {}
        return {"idle_since": datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="milliseconds")}
