"""The views of the node, of its listeners and exchange types."""

import os
import platform
from typing import Any, NotRequired, TypedDict, cast

import msgspec

from warren.broker.core.telemetry.resource_alarms import STORE
from warren.broker.plugin import Host, Registry
from warren.broker.plugin_host.host import Listening
from warren.broker.product import PRODUCT, product_version

from ..framework.request import Request
from ..stats.counters import CHURN, OVERVIEW, named
from ..stats.history import GAUGES
from ..stats.process_stats import PROC_LIMIT
from .federation_topology import INTERNAL
from .stats import optional, required, with_counters

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


class FeatureView(msgspec.Struct):
    """An exchange type, or a mechanism of authentication."""

    name: str
    description: str
    enabled: bool
    provided_by: str | msgspec.UnsetType = msgspec.UNSET
    internal_purpose: str | msgspec.UnsetType = msgspec.UNSET


class ApplicationView(msgspec.Struct):
    name: str
    description: str
    version: str


class ListenerView(msgspec.Struct):
    node: str
    protocol: str
    ip_address: str
    port: int
    socket_opts: dict[str, object]


class ContextView(TypedDict):
    """A web server, in RabbitMQ a context; in the overview with its node."""

    node: NotRequired[str]
    description: str
    path: str
    ip: str
    port: str
    ssl_opts: list[str]


class StorageView(msgspec.Struct):
    """The store of messages; its alarm is set while it cannot store messages."""

    kind: str
    guarantee: str
    replicated: bool
    warning: str
    place: str
    alarm: bool


@with_counters(*GAUGES, *CHURN, *ZEROS, "gc_num", "context_switches")
@required(str, "name", "type", "os_pid", "os", "mem_calculation_strategy", "rates_mode", "db_dir", "build")
@required(bool, "running", "being_drained", "mem_alarm", "disk_free_alarm")
@required(int, "fd_total", "sockets_total", "proc_total", "mem_limit", "disk_free_limit", "uptime", "run_queue")
@required(int, "processors", "net_ticktime")
@required(list[str], "partitions", "cluster_links", "config_files", "not_restored", "log_files", "enabled_plugins")
@required(list[FeatureView], "exchange_types", "auth_mechanisms")
@required(dict[str, object], "event_loop", "journal")
@optional(dict[str, int], "metrics_gc_queue_length", "ra_open_file_metrics", "binary")
class NodeView(TypedDict):
    """A node, with some fields beyond RabbitMQ's."""

    storage: StorageView
    applications: list[ApplicationView]
    contexts: list[ContextView]
    memory: NotRequired[dict[str, object]]


def node_view(request: Request) -> NodeView:
    node, host, state, readings = request.node, request.host, request.state, request.state.readings
    asked, now_ms = request.ranges, node.clock.now_ms()
    alarms, version = node.alarms.on(), node.version
    gauges = named(GAUGES, readings.gauges())
    numbers = dict.fromkeys(ZEROS, 0) | {"gc_num": readings.gc_num, "context_switches": readings.context_switches}
    counted = {
        **state.samples.details("node", OVERVIEW, gauges, asked, now_ms),
        **state.samples.details("overview", OVERVIEW, named(CHURN, node.churn.values()), asked, now_ms),
        **state.samples.details("node", OVERVIEW, numbers),
    }
    item: Any = {
        "name": node.name,
        "type": "disc",
        "running": True,
        "being_drained": host.control.is_drained,
        "partitions": [],
        "cluster_links": [],
        "os_pid": str(os.getpid()),
        "os": platform.system(),  # beyond RabbitMQ's fields; RabbitMQ has it only in `rabbitmqctl status`
        "fd_total": readings.fd_total,
        "sockets_total": readings.sockets_total,
        "proc_total": PROC_LIMIT,
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
        "exchange_types": exchange_type_views(node.registry),
        "auth_mechanisms": [
            FeatureView(name, text, name in host.settings.mechanisms) for name, text in MECHANISMS.items()
        ],
        "applications": [
            ApplicationView("rabbit", "RabbitMQ", version),
            ApplicationView("rabbitmq_management", "RabbitMQ Management Console", version),
            ApplicationView("warren", PRODUCT, product_version()),
        ],
        "contexts": [context_view(one) for one in host.listening() if is_web(one)],
        "enabled_plugins": host.plugins(),
    }
    item |= counted
    item["metrics_gc_queue_length"] = dict.fromkeys(GC_QUEUES, 0)
    item["ra_open_file_metrics"] = {"ra_log_wal": 0, "ra_log_segment_writer": 0}
    if request.flag("memory"):
        item["memory"] = memory_view(request)
    if request.flag("binary"):
        item["binary"] = {}
    return cast(NodeView, item)


def storage_view(request: Request) -> StorageView:
    now, alarm = request.host.storage(), STORE in request.node.alarms.on()
    return StorageView(now.kind, now.guarantee, now.replicated, now.warning, now.place, alarm)


def memory_view(request: Request) -> dict[str, object]:
    """The fields about the memory of the process, in bytes."""
    total = request.state.readings.mem_used
    return {**memory_by_use(request), "strategy": "rss", "total": {"erlang": total, "rss": total, "allocated": total}}


def memory_by_use(request: Request) -> dict[str, int]:
    """The bytes of memory by their use."""
    return request.state.readings.memory_by_use(request.state.samples.used_bytes)


def exchange_type_views(registry: Registry) -> list[FeatureView]:
    """The exchange types of the node."""
    views = []
    for name, distribution in registry.distributions():
        purpose = "federation" if name == INTERNAL else msgspec.UNSET
        description = registry.find(name).description or distribution
        views.append(FeatureView(name, description, True, distribution, purpose))
    return views


def is_web(listening: Listening) -> bool:
    """True if the listener is a web server."""
    return listening.protocol in DESCRIPTIONS


def listener_view(host: Host, listening: Listening) -> ListenerView:
    options: dict[str, object] = {"ip": listening.host, "port": listening.port, "protocol": listening.protocol}
    if not is_web(listening):
        config = host.config
        options = {"backlog": config.tcp_backlog, "nodelay": config.tcp_nodelay, "exit_on_close": False}
    return ListenerView(host.node.name, listening.protocol, listening.host, listening.port, options)


def context_view(listening: Listening) -> ContextView:
    return {
        "description": DESCRIPTIONS[listening.protocol],
        "path": "/",
        "ip": listening.host,
        "port": str(listening.port),
        "ssl_opts": [],
    }
