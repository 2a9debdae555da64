"""The views of the node, of its listeners and exchange types."""

import platform
from typing import Any, NotRequired, TypedDict

import msgspec

from warren.broker.core.telemetry.resource_alarms import STORE
from warren.broker.plugin import Host, Registry
from warren.broker.plugin_host.host import Listening
from warren.broker.product import PRODUCT

from ..framework.request import Request
from ..stats.counters import CHURN, OVERVIEW, churn_counters
from ..stats.history import GAUGES
from .federation_topology import INTERNAL
from .stats import with_counters

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
class NodeView(TypedDict):
    """A node, with some fields beyond RabbitMQ's."""

    name: str
    type: str
    running: bool
    being_drained: bool
    partitions: list[str]
    cluster_links: list[str]
    os_pid: str
    os: str
    fd_total: int
    sockets_total: int
    proc_total: int
    mem_limit: int
    mem_alarm: bool
    mem_calculation_strategy: str
    disk_free_limit: int
    disk_free_alarm: bool
    rates_mode: str
    uptime: int
    run_queue: int
    processors: int
    net_ticktime: int
    db_dir: str
    config_files: list[str]
    event_loop: dict[str, object]
    journal: dict[str, object]
    build: str
    storage: StorageView
    not_restored: list[str]
    log_files: list[str]
    exchange_types: list[FeatureView]
    auth_mechanisms: list[FeatureView]
    applications: list[ApplicationView]
    contexts: list[ContextView]
    enabled_plugins: list[str]
    metrics_gc_queue_length: NotRequired[dict[str, int]]
    ra_open_file_metrics: NotRequired[dict[str, int]]
    memory: NotRequired[dict[str, object]]
    binary: NotRequired[dict[str, int]]


def node_view(request: Request) -> NodeView:
    node, host, state, readings = request.node, request.host, request.state, request.state.readings
    asked, now_ms = request.ranges, node.clock.now_ms()
    alarms, version = node.alarms.on(), node.version
    gauges = dict(zip(GAUGES, readings.gauges(), strict=True))
    numbers = dict.fromkeys(ZEROS, 0) | {"gc_num": readings.gc_num, "context_switches": readings.context_switches}
    counted: Any = {
        **state.samples.details("node", OVERVIEW, gauges, asked, now_ms),
        **state.samples.details("overview", OVERVIEW, churn_counters(node.churn), asked, now_ms),
        **state.samples.details("node", OVERVIEW, numbers),
    }
    view: NodeView = {
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
        "exchange_types": exchange_type_views(node.registry),
        "auth_mechanisms": [
            FeatureView(name, text, name in host.settings.mechanisms) for name, text in MECHANISMS.items()
        ],
        "applications": [
            ApplicationView("rabbit", "RabbitMQ", version),
            ApplicationView("rabbitmq_management", "RabbitMQ Management Console", version),
            ApplicationView("warren", PRODUCT, request.state.product_version),
        ],
        "contexts": [context_view(one) for one in host.listening() if is_web(one)],
        "enabled_plugins": host.plugins(),
    }
    view |= counted
    view |= {
        "metrics_gc_queue_length": dict.fromkeys(GC_QUEUES, 0),
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
    }
    if request.flag("memory"):
        view["memory"] = memory_view(request)
    if request.flag("binary"):
        view["binary"] = {}
    return view


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
