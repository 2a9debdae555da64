"""The overview: node, totals and rates; other users than monitoring see those of their own virtual hosts."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping

from warren.broker.core.counters.statistics import Statistics
from warren.broker.plugin import VHost
from warren.broker.product import PRODUCT

from ...http.auth import ANY
from ...http.responses import Response, ok
from ..framework.pagination import Item
from ..framework.request import Request
from ..framework.router import Route
from ..stats.counters import OVERVIEW, Values, churn_counters, length_counters, message_counters, vhost_key
from ..stats.vhost_totals import Totals, totals_of
from ..views.node import context_view, exchange_type_views, is_web, listener_view


async def overview(request: Request) -> Response:
    """Return the overview of the broker."""
    node, host, config = request.node, request.host, request.host.config
    python = platform.python_version()
    vhosts = request.visible_vhosts()
    totals = await request.wait(totals_of(vhosts, ()))
    body: Item = {
        "management_version": node.version,
        "rates_mode": request.state.config.rates_mode,
        "sample_retention_policies": request.state.samples.retention_ages(),
        "exchange_types": exchange_type_views(node.registry),
        "product_version": request.state.product_version,
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
        **await statistics(request, vhosts, totals),
        "object_totals": object_totals(request, vhosts, totals.consumers),
        "statistics_db_event_queue": 0,
    }
    if request.caller.monitors:
        body["node"] = node.name
        body["listeners"] = [listener_view(host, one) for one in host.listening()]
        body["contexts"] = [{"node": node.name, **context_view(one)} for one in host.listening() if is_web(one)]
    return ok(body)


async def statistics(request: Request, vhosts: list[VHost], totals: Totals) -> Item:
    """Return rates and counts of the node, or the sums of the virtual hosts that the user sees."""
    samples, asked, now_ms = request.state.samples, request.ranges, request.node.clock.now_ms()
    queue_totals = length_counters(sum_lengths(totals.lengths.values()))
    churn = churn_counters(request.node.churn)
    if request.caller.monitors and not request.incoming.headers.get("x-vhost"):
        counts = Statistics()
        async for _ in request.in_slices(request.node.sum_statistics(counts)):
            pass
        message_stats = message_counters(counts.publishing, counts.delivered())
        return {
            "message_stats": samples.details("overview", OVERVIEW, message_stats, asked, now_ms),
            "churn_rates": samples.details("overview", OVERVIEW, churn, asked, now_ms),
            "queue_totals": samples.details("overview", OVERVIEW, queue_totals, asked, now_ms),
        }
    publishing: Item = {}
    lengths_of: Item = {}
    async for vhost in request.in_slices(vhosts):
        key, counts = vhost_key(vhost), vhost.statistics
        own = message_counters(counts.publishing, counts.delivered())
        add_details(publishing, samples.details("vhost", key, own, asked, now_ms))
        own = length_counters(totals.lengths[vhost.name])
        add_details(lengths_of, samples.details("vhost", key, own, asked, now_ms))
    empty = samples.details("overview", OVERVIEW, length_counters((0, 0, 0)))
    return {
        "message_stats": publishing,
        "churn_rates": samples.details("overview", OVERVIEW, churn, asked, now_ms),
        "queue_totals": (lengths_of or empty) | queue_totals,
    }


def sum_lengths(lengths: Iterable[Values]) -> Values:
    return tuple(sum(column) for column in zip((0, 0, 0), *lengths, strict=True))


def add_details(total: Item, details: Mapping[str, object]) -> None:
    """Add the counters and details of an object to the sums of objects that were sampled at the same times."""
    for name, value in details.items():
        total[name] = plus(total.get(name), value)


def plus(one: object, other: object) -> object:
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


def object_totals(request: Request, vhosts: list[VHost], consumers: int) -> Item:
    connections = request.connections()
    return {
        "consumers": consumers,
        "queues": sum(len(vhost.queues) for vhost in vhosts),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "connections": len(connections),
        "channels": sum(len(connection.channels) for connection in connections),
    }


ROUTES = (Route("GET", "/overview", ANY, overview),)
