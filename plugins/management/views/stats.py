"""Counters of objects with the rates and ranges that a request asks for."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypedDict, TypeVar

from ..framework.request import Request
from ..stats.history import Key
from ..stats.rates import Rate

T = TypeVar("T")


class Process(TypedDict, total=False):
    """The fields of an Erlang process; tools expect numbers."""

    reductions: int
    reductions_details: Rate
    garbage_collection: dict[str, int]


# Parts of views, whose types name the fields.
NO_REDUCTIONS: Any = {"reductions": 0, "reductions_details": {"rate": 0.0}}
NO_GARBAGE = dict.fromkeys(("max_heap_size", "min_bin_vheap_size", "min_heap_size", "fullsweep_after", "minor_gcs"), 0)
NO_PROCESS: Any = {**NO_REDUCTIONS, "garbage_collection": NO_GARBAGE}


def required(kind: object, *names: str) -> Callable[[T], T]:
    """Add fields of one kind to the type of a view, which always has them. No other type may extend it."""
    return partial(_add_fields, "__required_keys__", dict.fromkeys(names, kind))


def optional(kind: object, *names: str) -> Callable[[T], T]:
    """Add fields of one kind to the type of a view, which may leave them out. No other type may extend it."""
    return partial(_add_fields, "__optional_keys__", dict.fromkeys(names, kind))


def with_counters(*names: str) -> Callable[[T], T]:
    """Add the fields of these counters to the type of a view, which has them unless statistics are off."""
    counters, rates = optional(int, *names), optional(Rate, *(f"{name}_details" for name in names))
    return lambda view: rates(counters(view))


def _add_fields(keys: str, fields: Mapping[str, object], view: T) -> T:
    changed: Any = view
    changed.__annotations__ |= fields
    setattr(changed, keys, getattr(changed, keys) | fields.keys())
    return view


class RequestStats:
    """The counters of objects for one request, with the rates and ranges that it asks for."""

    __slots__ = ("enabled", "totals", "caller", "pids", "_samples", "_asked", "_now_ms")

    def __init__(self, request: Request) -> None:
        """Raises HTTPError (400)."""
        self._asked = request.ranges
        self._samples = request.state.samples
        self._now_ms = request.node.clock.now_ms()
        self.caller = request.caller  # sees the connections that the views may name
        self.pids = request.caller.is_local  # views have process ids, which RabbitMQ's API does not have
        self.enabled = not request.flag("disable_stats")  # views have statistics
        self.totals = self.enabled or request.flag("enable_queue_totals")  # views of queues have their lengths

    # What these return is a part of a view, whose type names the fields.

    def details(self, kind: str, key: Key, counters: Mapping[str, int]) -> Any:
        return self._samples.details(kind, key, counters, self._asked, self._now_ms)

    def message_stats(self, kind: str, key: Key, counters: Mapping[str, int]) -> Any:
        return self._samples.message_stats(kind, key, counters, self._asked, self._now_ms)

    def idle_since(self, kind: str, key: Key) -> Any:
        """Return `{"idle_since": ...}` if no counter has changed for longer than an interval."""
        since_ms = self._samples.last_change_ms(kind, key)
        if since_ms is None or self._now_ms - since_ms <= self._samples.interval_ms:
            return {}
        return {"idle_since": datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="milliseconds")}
