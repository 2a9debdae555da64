"""The views of the node, of its listeners and exchange types."""

from __future__ import annotations

import platform

from warren.broker.core.telemetry.resource_alarms import STORE
from warren.broker.hosting.host import Listening
from warren.broker.plugin import Host, Registry
from warren.broker.product import PRODUCT

from ..framework.pagination import Item
from ..framework.request import Request
from ..stats.counters import OVERVIEW, churn_counters
from ..stats.history import GAUGES
from .federation_topology import INTERNAL

MECHANISMS = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "SASL EXTERNAL authentication mechanism",
    "ANONYMOUS": "SASL ANONYMOUS authentication mechanism",
}
# Counters of RabbitMQ's parts that this broker does not have.
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
DESCRIPTIONS = {"http": "RabbitMQ Management", "https": "RabbitMQ Management"}
DESCRIPTIONS |= {"http/prometheus": "RabbitMQ Prometheus", "https/prometheus": "RabbitMQ Prometheus"}


def node_view(request: Request) -> Item:
    """The fields of the node."""
    node, host, state, readings = request.node, request.host, request.state, request.state.readings
    asked, now_ms = request.ranges, node.clock.now_ms()
    alarms = node.alarms.on()
    gauges = dict(zip(GAUGES, readings.gauges(), strict=True))
    more: Item = {}
    if request.flag("memory"):
        more["memory"] = memory_view(request)
    if request.flag("binary"):
        more["binary"] = {}
    return {
        "name": node.name,
        "type": "disc",
        "running": True,
        "being_drained": host.control.is_drained,
        "partitions": [],
        "cluster_links": [],
        "os_pid": str(readings.pid),
        "os": platform.system(),  # beyond RabbitMQ's fields; RabbitMQ has it only in `rabbitmqctl status`
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
        "event_loop": host.event_loop(),  # beyond RabbitMQ's fields, as the five below
        "journal": node.commits.status(),
        "build": host.build,
        "storage": storage_view(request),
        "not_restored": node.not_restored(),
        "log_files": host.control.log.locations(),
        **node_parts(request),
        **state.samples.details("node", OVERVIEW, gauges, asked, now_ms),
        **state.samples.details("overview", OVERVIEW, churn_counters(node.churn), asked, now_ms),
        **state.samples.details("node", OVERVIEW, dict.fromkeys(ZEROS, 0)),
        **state.samples.details("node", OVERVIEW, {"gc_num": readings.gc_num}),
        **state.samples.details("node", OVERVIEW, {"context_switches": readings.context_switches}),
        "metrics_gc_queue_length": dict.fromkeys(GC_QUEUES, 0),
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
        **more,
    }


def storage_view(request: Request) -> Item:
    """The fields about what stores messages, and whether it cannot at present."""
    status = request.host.storage()
    return {
        "kind": status.kind,
        "guarantee": status.guarantee,
        "replicated": status.replicated,
        "warning": status.warning,
        "place": status.place,
        "alarm": STORE in request.node.alarms.on(),
    }


def node_parts(request: Request) -> Item:
    """The fields about plugins, exchange types, listeners and applications."""
    node, host = request.node, request.host
    return {
        "exchange_types": exchange_type_views(node.registry),
        "auth_mechanisms": [
            {"name": name, "description": text, "enabled": name in host.settings.mechanisms}
            for name, text in MECHANISMS.items()
        ],
        "applications": [
            {"name": "rabbit", "description": "RabbitMQ", "version": node.version},
            {"name": "rabbitmq_management", "description": "RabbitMQ Management Console", "version": node.version},
            {"name": "warren", "description": PRODUCT, "version": request.state.product_version},
        ],
        "contexts": [context_view(one) for one in host.listening() if is_web(one)],
        "enabled_plugins": host.plugins(),
    }


def memory_view(request: Request) -> Item:
    """The fields about the memory of the process, in bytes."""
    total = request.state.readings.mem_used
    return {**memory_by_use(request), "strategy": "rss", "total": {"erlang": total, "rss": total, "allocated": total}}


def memory_by_use(request: Request) -> dict[str, int]:
    """The bytes of memory by their use."""
    return request.state.readings.memory_by_use(request.state.samples.used_bytes)


def exchange_type_views(registry: Registry) -> list[Item]:
    """The exchange types of the node."""
    return [
        {"name": name, "description": registry.find(name).description or distribution, "enabled": True}
        | {"provided_by": distribution}
        | ({"internal_purpose": "federation"} if name == INTERNAL else {})
        for name, distribution in registry.distributions()
    ]


def is_web(listening: Listening) -> bool:
    """True if the listener is a web server."""
    return listening.protocol in DESCRIPTIONS


def listener_view(host: Host, listening: Listening) -> Item:
    """The fields of a listener."""
    options: Item = {"ip": listening.host, "port": listening.port, "protocol": listening.protocol}
    if not is_web(listening):
        config = host.config
        options = {"backlog": config.tcp_backlog, "nodelay": config.tcp_nodelay, "exit_on_close": False}
    return {
        "node": host.node.name,
        "protocol": listening.protocol,
        "ip_address": listening.host,
        "port": listening.port,
        "socket_opts": options,
    }


def context_view(listening: Listening) -> Item:
    """The fields of a web server, in RabbitMQ a context."""
    return {
        "description": DESCRIPTIONS[listening.protocol],
        "path": "/",
        "ip": listening.host,
        "port": str(listening.port),
        "ssl_opts": [],
    }
