"""The node, of which there is one; RabbitMQ has clusters of them."""

from __future__ import annotations

import platform
from pathlib import Path

from warren.broker.plugin import PRODUCT, Host

from ..auth import MONITOR
from ..pagination import Item, Listing
from ..request import Request
from ..responses import Response, found, missing
from ..router import Route
from ..stats.counters import OVERVIEW, churn_counters
from ..stats.history import GAUGES
from .overview import context, exchange_types, is_web

MECHANISMS = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "SASL EXTERNAL authentication mechanism",
    "ANONYMOUS": "SASL ANONYMOUS authentication mechanism",
}
# What RabbitMQ counts and this broker has no part for.
ZEROS = (
    *("gc_bytes_reclaimed", "io_read_count", "io_read_bytes", "io_read_avg_time", "io_write_count", "io_write_bytes"),
    *("io_write_avg_time", "io_sync_count", "io_sync_avg_time", "io_seek_count", "io_seek_avg_time"),
    *("io_reopen_count", "io_file_handle_open_attempt_count", "io_file_handle_open_attempt_avg_time"),
    *("mnesia_ram_tx_count", "mnesia_disk_tx_count", "msg_store_read_count", "msg_store_write_count"),
    *("queue_index_read_count", "queue_index_write_count"),
)
GC_QUEUES = (
    *("connection_closed", "channel_closed", "consumer_deleted", "exchange_deleted", "queue_deleted", "vhost_deleted"),
    *("node_node_deleted", "channel_consumer_deleted"),
)


def list_nodes(request: Request) -> Listing[Host]:
    """All nodes of the cluster."""
    return Listing([request.host], lambda host: described(request))


def get_node(request: Request) -> Response:
    """One node; with `memory=true` what its memory is used for."""
    return found(described(known(request)))


def get_memory(request: Request) -> Response:
    """What the memory of a node is used for, in octets."""
    return found({"memory": memory(known(request))})


def get_relative_memory(request: Request) -> Response:
    """What the memory of a node is used for, in percent."""
    used = used_bytes(known(request))
    total = max(sum(used.values()), 1)
    return found({"memory": {"total": 100, **{name: -(-100 * each // total) for name, each in used.items()}}})


def known(request: Request) -> Request:
    """Raises Refusal (404) for another node than this one."""
    if request.path["node"] != request.node.name:
        raise missing()
    return request


def described(request: Request) -> Item:
    node, host, state, readings = request.node, request.host, request.state, request.state.readings
    asked, now_ms = request.ranges, node.clock.now_ms()
    alarms = node.alarms.on()
    gauges = dict(zip(GAUGES, readings.gauges(), strict=True))
    more: Item = {}
    if request.flag("memory"):
        more["memory"] = memory(request)
    if request.flag("binary"):
        more["binary"] = {}
    return {
        "name": node.name,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "partitions": [],
        "cluster_links": [],
        "os_pid": str(readings.pid),
        "os": platform.system(),  # beyond RabbitMQ's fields, which has it in `rabbitmqctl status` alone
        "fd_total": readings.fd_total,
        "sockets_total": readings.sockets_total,
        "proc_total": readings.proc_total,
        "mem_limit": host.resources.memory_limit_bytes,
        "mem_alarm": "memory" in alarms,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": host.resources.disk_free_limit_bytes,
        "disk_free_alarm": "disk" in alarms,
        "rates_mode": state.config.rates_mode,
        "uptime": readings.uptime_ms,
        "run_queue": 0,
        "processors": readings.processors,
        "net_ticktime": 60,
        "db_dir": host.data_directory,
        "config_files": host.config_files,
        "event_loop": host.event_loop(),  # beyond RabbitMQ's fields, too
        "not_restored": node.not_restored(),
        "log_files": [str(Path(host.config.log.dir, host.config.log.file))] if host.config.log.file else ["<stderr>"],
        **parts(request),
        **state.samples.details("node", OVERVIEW, gauges, asked, now_ms),
        **state.samples.details("overview", OVERVIEW, churn_counters(node.churn), asked, now_ms),
        **state.samples.details("node", OVERVIEW, dict.fromkeys(ZEROS, 0)),
        **state.samples.details("node", OVERVIEW, {"gc_num": readings.gc_num}),
        **state.samples.details("node", OVERVIEW, {"context_switches": readings.context_switches}),
        "metrics_gc_queue_length": dict.fromkeys(GC_QUEUES, 0),
        **more,
    }


def parts(request: Request) -> Item:
    """What the node is made of."""
    node, host = request.node, request.host
    return {
        "exchange_types": exchange_types(node.registry),
        "auth_mechanisms": [
            {"name": name, "description": text, "enabled": name in host.settings.mechanisms}
            for name, text in MECHANISMS.items()
        ],
        "applications": [
            {"name": "rabbit", "description": "RabbitMQ", "version": node.version},
            {"name": "rabbitmq_management", "description": "RabbitMQ Management Console", "version": node.version},
            {"name": "warren", "description": PRODUCT, "version": request.state.product_version},
        ],
        "contexts": [context(one) for one in host.listening() if is_web(one)],
        "enabled_plugins": host.plugins(),
    }


def memory(request: Request) -> Item:
    total = request.state.readings.mem_used
    return {**used_bytes(request), "strategy": "rss", "total": {"erlang": total, "rss": total, "allocated": total}}


def used_bytes(request: Request) -> dict[str, int]:
    return request.state.readings.memory_by_use(request.state.samples.used_bytes)


ROUTES = (
    Route("GET", "/nodes", MONITOR, list_nodes),
    Route("GET", "/nodes/{node}", MONITOR, get_node),
    Route("GET", "/nodes/{node}/memory", MONITOR, get_memory),
    Route("GET", "/nodes/{node}/memory/relative", MONITOR, get_relative_memory),
)
