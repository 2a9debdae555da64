"""How the node is: status, alarms, listeners, what its memory is used for."""

from __future__ import annotations

import os
import platform
import ssl

from ..hosting.feature_flags import FEATURES
from ..hosting.host import PRODUCT, product_version
from ..runtime.process_memory import resident_bytes
from . import status
from .answers import Report, Rows
from .call import Call, Handler
from .log import log_places


def listeners(call: Call) -> list[dict[str, object]]:
    """All addresses that the node listens at now."""
    node = call.node.name
    return [status.listener(node, one.host, one.port, one.protocol) for one in call.host.listening()]


def list_listeners(call: Call) -> Report:
    found = listeners(call)
    text = "\n".join(status.listener_lines(found)) or "(none)"
    return Report(text, {"result": "ok", "node": call.node.name, "listeners": found})


def list_alarms(call: Call) -> Report:
    lines = status.alarm_lines(call.node.name, call.node.alarms.on())
    text = "\n".join(lines) or f"Node {call.node.name} reported no alarms, local or clusterwide"
    return Report(text, {"result": "ok", "local": lines, "global": [], "message": text})


def memory_breakdown(call: Call) -> Report:
    used, messages = resident_bytes() or 0, call.node.budget.used_bytes
    parts = {"binary": messages, "other_system": max(0, used - messages)}  # by RabbitMQ's names
    return Report(status.breakdown_text(parts, call.text("unit", "gb").lower()), {**parts, "total": used})


def show_status(call: Call) -> Report:
    value = status_of(call)
    return Report(status.status_text(value, call.text("unit", "gb").lower()), value)


def status_of(call: Call) -> dict[str, object]:
    host, node = call.host, call.node
    return {
        "node_name": node.name,
        "pid": os.getpid(),
        "os": platform.system(),
        "uptime": (node.clock.now_ms() - host.started_ms) // 1000,
        "is_under_maintenance": False,
        "rabbitmq_version": node.version,
        "product_name": PRODUCT,
        "product_version": product_version(),
        "runtime": runtime(),
        "active_plugins": host.plugins(),
        "data_directory": host.data_directory,
        "config_files": list(host.config_files),
        "log_files": log_places(call),
        "alarms": node.alarms.on(),
        "not_restored": node.not_restored(),
        "memory": {"total": {"rss": resident_bytes() or 0}, "strategy": "rss"},
        "vm_memory_limit": host.resources.memory_limit_bytes,
        "disk_free": host.resources.free_bytes(),
        "disk_free_limit": host.resources.disk_free_limit_bytes,
        "totals": {
            "connection_count": len(call.daemon.connections()),
            "queue_count": sum(len(vhost.queues) for vhost in node.vhosts.values()),
            "virtual_host_count": len(node.vhosts),
        },
        "listeners": listeners(call),
        "event_loop": host.event_loop(),
    }


def cluster_status(call: Call) -> Report:
    node = call.node
    version = {"product_name": node.product, "rabbitmq_version": node.version, "runtime": runtime()}
    value: dict[str, object] = {
        "cluster_name": node.cluster_name,
        "disk_nodes": [node.name],
        "running_nodes": [node.name],
        "versions": {node.name: version},
        "alarms": node.alarms.on(),
        "partitions": {},
        "listeners": {node.name: listeners(call)},
        "maintenance_status": {node.name: "not under maintenance"},
        "feature_flags": [{"name": name, "state": "enabled"} for name in FEATURES],
    }
    return Report(status.cluster_text(value), value)


def runtime() -> str:
    return f"Python {platform.python_version()}"


def server_version(call: Call) -> str:
    return call.node.version


def list_ciphers(call: Call) -> Rows:
    return Rows(["cipher"], ([one["name"]] for one in ssl.create_default_context().get_ciphers()))


def list_exchange_types(call: Call) -> Rows:
    """Each with the distribution that brought it, empty for what is built in."""
    return Rows(["name", "provided_by"], call.node.registry.listed())


COMMANDS: dict[str, Handler] = {
    "status": show_status,
    "cluster_status": cluster_status,
    "listeners": list_listeners,
    "alarms": list_alarms,
    "memory_breakdown": memory_breakdown,
    "server_version": server_version,
    "list_ciphers": list_ciphers,
    "list_exchange_types": list_exchange_types,
}
