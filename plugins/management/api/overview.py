"""The overview: node, totals and rates. Users without the tag monitoring see the figures of their virtual hosts."""

import platform
from functools import partial
from typing import Any, NotRequired, TypedDict

import msgspec

from warren.broker.core.counters.statistics import Statistics
from warren.broker.plugin import VHost
from warren.broker.product import PRODUCT, product_version

from ...http.auth import ANY
from ...http.responses import Response, ok
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import CHURN, OVERVIEW, message_counters, named, vhost_key
from ..stats.history import LENGTHS
from ..stats.rates import Counted
from ..views import node as node_views
from ..views.stats import required
from .vhosts import Totals, totals_of


class ObjectTotals(msgspec.Struct):
    consumers: int
    queues: int
    exchanges: int
    connections: int
    channels: int


@required(str, "management_version", "rates_mode", "product_version", "product_name", "rabbitmq_version")
@required(str, "cluster_name", "erlang_version", "erlang_full_version", "release_series_support_status")
@required(str, "default_queue_type")
@required(dict[str, str], "cluster_tags", "node_tags")
@required(bool, "disable_stats", "enable_queue_totals", "is_op_policy_updating_enabled")
@required(Counted, "message_stats", "churn_rates", "queue_totals")
class OverviewView(TypedDict):
    """The node with totals and rates; node, listeners and contexts are only for monitoring users."""

    sample_retention_policies: dict[str, list[int]]
    exchange_types: list[node_views.FeatureView]
    object_totals: ObjectTotals
    statistics_db_event_queue: int
    node: NotRequired[str]
    listeners: NotRequired[list[node_views.ListenerView]]
    contexts: NotRequired[list[node_views.ContextView]]


@route("GET", ANY, "/overview")
async def overview(request: Request) -> Response[OverviewView]:
    """Return the overview of the broker."""
    node, host, config = request.node, request.host, request.host.config
    python = platform.python_version()
    vhosts = request.visible_vhosts()
    totals = await request.wait(totals_of(vhosts, ()))
    message_stats, churn, queue_totals = await statistics(request, vhosts, totals)
    body: Any = {
        "management_version": node.version,
        "rates_mode": request.state.config.rates_mode,
        "sample_retention_policies": request.state.samples.retention_ages(),
        "exchange_types": node_views.exchange_type_views(node.registry),
        "product_version": product_version(),
        "product_name": PRODUCT,
        "rabbitmq_version": node.version,
        "cluster_name": node.cluster_name,
        "cluster_tags": dict(config.cluster_tags),
        "node_tags": dict(config.node_tags),
        "erlang_version": python,
        "erlang_full_version": f"{platform.python_implementation()} {python} ({platform.platform()})",
        "release_series_support_status": "supported",
        "disable_stats": request.state.config.disable_stats,
        "default_queue_type": node.default_queue_type or "classic",
        "enable_queue_totals": request.state.config.enable_queue_totals,
        "is_op_policy_updating_enabled": True,
        "message_stats": message_stats,
        "churn_rates": churn,
        "queue_totals": queue_totals,
        "object_totals": object_totals(request, vhosts, totals.consumers),
        "statistics_db_event_queue": 0,
    }
    if request.caller.monitors:
        body["node"] = node.name
        body["listeners"] = [node_views.listener_view(host, one) for one in host.listening()]
        web = filter(node_views.is_web, host.listening())
        body["contexts"] = [{"node": node.name, **node_views.context_view(one)} for one in web]
    return ok(body)


async def statistics(request: Request, vhosts: list[VHost], totals: Totals) -> tuple[Counted, Counted, Counted]:
    """Return messages, churn and queue totals of the node, or the sums of the virtual hosts that the user sees."""
    samples, asked, now_ms = request.state.samples, request.ranges, request.node.clock.now_ms()
    sums = tuple(sum(column) for column in zip((0, 0, 0), *totals.lengths.values(), strict=True))
    queue_totals = named(LENGTHS, sums)
    of_node = partial(samples.details, "overview", OVERVIEW, asked=asked, now_ms=now_ms)
    churn = of_node(named(CHURN, request.node.churn.values()))
    if request.caller.monitors and not request.incoming.headers.get("x-vhost"):
        counts = Statistics()
        async for _ in request.in_slices(request.node.sum_statistics(counts)):
            pass
        return of_node(message_counters(counts.publishing, counts.delivered())), churn, of_node(queue_totals)
    publishing: Counted = {}
    lengths_of: Counted = {}
    async for vhost in request.in_slices(vhosts):
        key, counts = vhost_key(vhost), vhost.statistics
        own = message_counters(counts.publishing, counts.delivered())
        add_details(publishing, samples.details("vhost", key, own, asked, now_ms))
        own = named(LENGTHS, totals.lengths[vhost.name])
        add_details(lengths_of, samples.details("vhost", key, own, asked, now_ms))
    empty = samples.details("overview", OVERVIEW, named(LENGTHS, (0, 0, 0)))
    return publishing, churn, {**(lengths_of or empty), **queue_totals}


def add_details(total: Counted, details: Counted) -> None:
    """Add the counters and details of an object to the sums of objects that were sampled at the same times."""
    for name, value in details.items():
        total[name] = plus(total.get(name), value)


def plus(one: Any, other: Any) -> Any:
    """Add numbers, samples element by element, and details field by field."""
    if one is None:
        return other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one + other
    if isinstance(one, list) and isinstance(other, list):
        longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
        values = {sample["timestamp"]: sample["sample"] for sample in shorter}
        return [{**sample, "sample": sample["sample"] + values.get(sample["timestamp"], 0)} for sample in longer]
    assert isinstance(one, dict) and isinstance(other, dict)
    return {name: plus(one.get(name), value) for name, value in other.items()}


def object_totals(request: Request, vhosts: list[VHost], consumers: int) -> ObjectTotals:
    connections = request.connections()
    queues, exchanges = sum(len(vhost.queues) for vhost in vhosts), sum(len(vhost.exchanges) for vhost in vhosts)
    channels = sum(len(connection.channels) for connection in connections)
    return ObjectTotals(consumers, queues, exchanges, len(connections), channels)
