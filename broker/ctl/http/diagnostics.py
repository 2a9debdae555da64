"""How the node is, as far as the API tells: its operating system, and what becomes of its log, it does not."""

from __future__ import annotations

import socket

from ...control import status
from ...control.answers import UNAVAILABLE, Refused, Report
from ...control.question import whole
from .client import Refusal
from .request import Handler, HTTPCall, Item

CONNECT_WAIT_S = 10.0
ALARMS = {"memory": "mem_alarm", "disk": "disk_free_alarm"}


def ping(call: HTTPCall) -> str:
    return "Ping succeeded"


def await_startup(call: HTTPCall) -> None:
    """Who answers has started."""


def the_node(call: HTTPCall) -> Item:
    found: Item = call.api.get("nodes", call.node)
    return found


def alarms(call: HTTPCall) -> list[str]:
    node = the_node(call)
    return [resource for resource, key in ALARMS.items() if node.get(key)]


def listeners(call: HTTPCall) -> list[dict[str, object]]:
    return listeners_of(call, call.api.get("overview"))


def listeners_of(call: HTTPCall, overview: Item) -> list[dict[str, object]]:
    """Raises Refused (69) where the user may not see them."""
    if "listeners" not in overview:
        raise Refused(UNAVAILABLE, "access refused: Not monitor user")
    return [
        status.listener(str(one["node"]), str(one["ip_address"]), int(one["port"]), str(one["protocol"]))
        for one in overview["listeners"]
    ]


def list_listeners(call: HTTPCall) -> Report:
    found = listeners(call)
    text = "\n".join(status.listener_lines(found)) or "(none)"
    return Report(text, {"result": "ok", "node": call.node, "listeners": found})


def list_alarms(call: HTTPCall) -> Report:
    lines = status.alarm_lines(call.node, alarms(call))
    text = "\n".join(lines) or f"Node {call.node} reported no alarms, local or clusterwide"
    return Report(text, {"result": "ok", "local": lines, "global": [], "message": text})


def check_alarms(call: HTTPCall) -> str:
    return status.check_alarms(call.node, alarms(call), call.command == "check_local_alarms")


def check_running(call: HTTPCall) -> str:
    return status.check_running(call.node, listeners(call))


def check_port_listener(call: HTTPCall) -> str:
    return status.check_port(call.node, listeners(call), whole(call.arguments[0]))


def check_protocol_listener(call: HTTPCall) -> str:
    return status.check_protocol(call.node, listeners(call), call.arguments[0])


def check_port_connectivity(call: HTTPCall) -> str:
    """From here, at the host of the URL."""
    found = listeners(call)
    return status.check_connected(call.node, found, [connects(call.api.host, one["port"]) for one in found])


def connects(host: str, port: object) -> bool:
    try:
        socket.create_connection((host, int(str(port))), CONNECT_WAIT_S).close()
    except OSError:
        return False
    return True


def check_virtual_hosts(call: HTTPCall) -> str:
    checked(call, "virtual-hosts")
    return status.check_vhosts(call.node)


def check_certificate_expiration(call: HTTPCall) -> str:
    unit, within = call.text("unit", status.DEFAULT_UNIT), call.whole("within", status.DEFAULT_WITHIN)
    status.days(unit)
    checked(call, "certificate-expiration", str(within), unit)
    return status.not_expiring(within, unit)


def checked(call: HTTPCall, *check: str) -> None:
    """Raises Refused (69)."""
    try:
        call.api.get("health", "checks", *check)
    except Refusal as error:
        if error.status != 503:
            raise
        raise Refused(UNAVAILABLE, error.reason) from None


def memory_breakdown(call: HTTPCall) -> Report:
    memory = call.api.get("nodes", call.node, "memory")["memory"]
    parts = {name: size for name, size in memory.items() if isinstance(size, int) and size}
    return Report(status.breakdown_text(parts, call.text("unit", "gb").lower()), memory)


def log_location(call: HTTPCall) -> Report:
    places = the_node(call).get("log_files", [])
    shown = places if call.flag("all") else places[:1]
    return Report("\n".join(shown), {"logs": shown})


def server_version(call: HTTPCall) -> str:
    return str(call.api.get("overview")["rabbitmq_version"])


def environment(call: HTTPCall) -> str:
    return str(call.api.get("config", "effective")).rstrip("\n")


def runtime(overview: Item) -> str:
    """Python with Warren, Erlang with RabbitMQ."""
    name = "Erlang" if overview.get("product_name", "RabbitMQ") == "RabbitMQ" else "Python"
    return f"{name} {overview.get('erlang_version')}"


def show_status(call: HTTPCall) -> Report:
    node, overview = the_node(call), call.api.get("overview")
    totals = overview["object_totals"]
    value: Item = {
        "node_name": call.node,
        "pid": int(node["os_pid"]),
        "os": node.get("os", ""),
        "uptime": int(node["uptime"]) // 1000,
        "is_under_maintenance": bool(node.get("being_drained")),
        "rabbitmq_version": overview["rabbitmq_version"],
        "product_name": overview.get("product_name"),
        "product_version": overview.get("product_version"),
        "runtime": runtime(overview),
        "active_plugins": node.get("enabled_plugins", []),
        "data_directory": node.get("db_dir", ""),
        "config_files": node.get("config_files", []),
        "log_files": node.get("log_files", []),
        "alarms": [resource for resource, key in ALARMS.items() if node.get(key)],
        "not_restored": node.get("not_restored", []),
        "memory": {"total": {"rss": node["mem_used"]}, "strategy": node.get("mem_calculation_strategy", "rss")},
        "vm_memory_limit": node["mem_limit"],
        "disk_free": node["disk_free"],
        "disk_free_limit": node["disk_free_limit"],
        "totals": {
            "connection_count": totals["connections"],
            "queue_count": totals["queues"],
            "virtual_host_count": len(call.api.get("vhosts", columns="name")),
        },
        "listeners": listeners_of(call, overview),
        "event_loop": node.get("event_loop"),  # None of a RabbitMQ, which has none
    }
    return Report(status.status_text(value, call.text("unit", "gb").lower()), value)


def cluster_status(call: HTTPCall) -> Report:
    overview = call.api.get("overview")
    version = {
        "product_name": "RabbitMQ",
        "rabbitmq_version": overview["rabbitmq_version"],
        "runtime": runtime(overview),
    }
    flags = call.api.get("feature-flags")
    value: Item = {
        "cluster_name": overview["cluster_name"],
        "disk_nodes": [call.node],
        "running_nodes": [call.node],
        "versions": {call.node: version},
        "alarms": alarms(call),
        "partitions": {},
        "listeners": {call.node: listeners_of(call, overview)},
        "maintenance_status": {call.node: "not under maintenance"},
        "feature_flags": [{"name": flag["name"], "state": flag["state"]} for flag in flags],
    }
    return Report(status.cluster_text(value), value)


COMMANDS: dict[str, Handler] = {
    "alarms": list_alarms,
    "await_startup": await_startup,
    "check_alarms": check_alarms,
    "check_certificate_expiration": check_certificate_expiration,
    "check_local_alarms": check_alarms,
    "check_port_connectivity": check_port_connectivity,
    "check_port_listener": check_port_listener,
    "check_protocol_listener": check_protocol_listener,
    "check_running": check_running,
    "check_virtual_hosts": check_virtual_hosts,
    "cluster_status": cluster_status,
    "environment": environment,
    "listeners": list_listeners,
    "log_location": log_location,
    "memory_breakdown": memory_breakdown,
    "ping": ping,
    "server_version": server_version,
    "status": show_status,
    "wait": await_startup,
}
