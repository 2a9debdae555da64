"""The state of the node: status, alarms, listeners, health checks, memory."""

from __future__ import annotations

import socket
import ssl
import time

from .. import status_text as status
from ..answers import CommandError, Report, Rows, bad_argument
from ..api_client import APIError
from ..exit_status import DATA, UNAVAILABLE
from ..request import integer
from .call import Call, Handler, Item

CONNECT_WAIT_S = 10.0
DAY_S = 86_400
ALL_INTERFACES = {"::": "localhost", "0.0.0.0": "127.0.0.1"}
SUITE_MAP = ("cipher", "mac", "prf", "key_exchange")
ALARMS = {"memory": "mem_alarm", "disk": "disk_free_alarm"}


def ping(call: Call) -> str:
    return "Ping succeeded"


def await_startup(call: Call) -> None:
    """Do nothing: a node that answers has started."""


def the_node(call: Call) -> Item:
    found: Item = call.api.get("nodes", call.node)
    return found


def alarms(call: Call) -> list[str]:
    node = the_node(call)
    return alarms_of(node)


def alarms_of(node: Item) -> list[str]:
    """Return the resources of a node whose alarm is set; RabbitMQ's nodes have no field `storage`."""
    store = ["store"] if node.get("storage", {}).get("alarm") else []
    return [resource for resource, key in ALARMS.items() if node.get(key)] + store


def listeners(call: Call) -> list[dict[str, object]]:
    return listeners_of(call, call.api.get("overview"))


def listeners_of(call: Call, overview: Item) -> list[dict[str, object]]:
    """Raises CommandError (69) if the user may not see the listeners."""
    if "listeners" not in overview:
        raise CommandError(UNAVAILABLE, "access refused: Not monitor user")
    return [
        status.listener(str(one["node"]), str(one["ip_address"]), int(one["port"]), str(one["protocol"]))
        for one in overview["listeners"]
    ]


def list_listeners(call: Call) -> Report:
    found = listeners(call)
    text = "\n".join(status.listener_lines(found)) or "(none)"
    return Report(text, {"result": "ok", "node": call.node, "listeners": found})


def list_alarms(call: Call) -> Report:
    lines = status.alarm_lines(call.node, alarms(call))
    text = "\n".join(lines) or f"Node {call.node} reported no alarms, local or clusterwide"
    return Report(text, {"result": "ok", "local": lines, "global": [], "message": text})


def check_alarms(call: Call) -> str:
    return status.check_alarms(call.node, alarms(call), call.command == "check_local_alarms")


def check_running(call: Call) -> str:
    return status.check_running(call.node, listeners(call))


def check_port_listener(call: Call) -> str:
    return status.check_port(call.node, listeners(call), integer(call.arguments[0]))


def check_protocol_listener(call: Call) -> str:
    return status.check_protocol(call.node, listeners(call), call.arguments[0])


def check_port_connectivity(call: Call) -> str:
    """Connect to each listener at --address, else at its own if the node is local, else at the host of the URL."""
    found = listeners(call)
    address = call.text("address", "" if call.is_local else call.api.host)
    hosts = [address or local_host(str(one["interface"])) for one in found]
    reached = [connects(host, one["port"]) for host, one in zip(hosts, found, strict=True)]
    return status.check_connected(call.node, found, reached)


def local_host(interface: str) -> str:
    """Return the address by which an interface of this machine is reached."""
    host = interface.strip("[]")
    return ALL_INTERFACES.get(host, host)


def connects(host: str, port: object) -> bool:
    try:
        socket.create_connection((host, int(str(port))), CONNECT_WAIT_S).close()
    except OSError:
        return False
    return True


def check_virtual_hosts(call: Call) -> str:
    run_check(call, "virtual-hosts")
    return status.check_vhosts(call.node)


def check_certificate_expiration(call: Call) -> str:
    unit, within = call.text("unit", status.DEFAULT_UNIT), call.integer("within", status.DEFAULT_WITHIN)
    until_s = time.time() + within * status.days(unit) * DAY_S
    try:
        call.api.get("health", "checks", "certificate-expiration", str(within), unit)
    except APIError as error:
        lines = expiring_lines(error.answer, until_s)
        if error.status != 503:
            raise
        head = f"Certificates on node {call.node} are about to expire:"
        raise CommandError(UNAVAILABLE, "\n".join([head, *lines]) if lines else error.reason) from None
    return status.not_expiring(within, unit)


def expiring_lines(answer: object, until_s: float) -> list[str]:
    """Return a line for each certificate that expires before `until_s`; an answer without file names has none."""
    listeners = answer.get("expired", []) if isinstance(answer, dict) else []
    return [
        f"{one['interface']}:{one['port']} ({one['protocol']}): {one[file]} expires on {expiry}"
        for one in listeners
        for file in ("certfile", "cacertfile")
        for expiry in one.get(f"{file}_expires_on", ())
        if ssl.cert_time_to_seconds(expiry) < until_s
    ]


def check_quorum_critical(call: Call) -> Report:
    """Confirm that no quorum is lost with the node: its quorum queues have no other replicas to wait for."""
    run_check(call, "node-is-quorum-critical")
    text = "seems to be the only one in a single node cluster, the check does not apply"
    return Report(f"Node {call.node} {text}", {"message": f"Target node {text}", "result": "ok"})


def await_nodes(call: Call) -> None:
    """Raises CommandError (65, 69) for more than one node, which could never be active together."""
    count = integer(call.arguments[0])
    if count > 1:
        raise CommandError(UNAVAILABLE, f"One node is active, never {count}: a standby takes over from it")


def check_replicas(call: Call) -> str:
    """Confirm that no replica is added: see `check_quorum_critical`."""
    return f"Node {call.node} reported no queues with promotable replicas"


def nothing(call: Call) -> None:
    """Do nothing: what the command asks for is so at any time."""


def reset_auth_attempts(call: Call) -> None:
    call.api.delete("auth", "attempts", call.node)


def await_quorum(call: Call) -> str:
    """Do nothing: see `check_quorum_critical`."""
    return "Target node seems to be the only one in a single node cluster, the command does not apply"


def deprecated_no_op(call: Call) -> str:
    """Do nothing, as RabbitMQ's command of this name."""
    return "This command is DEPRECATED and is a no-op. It will be removed in a future version."


def is_running(call: Call) -> Report:
    """Raises CommandError (69) if the application is stopped."""
    check_running(call)
    text = f"RabbitMQ on node {call.node} is fully booted and running"
    return Report(text, {"message": text, "result": True})


def is_booting(call: Call) -> Report:
    """Deny it: a node that answers has started."""
    text = (
        f"RabbitMQ on node {call.node} is fully booted (check with is_running), stopped or has not started booting yet"
    )
    return Report(text, {"message": text, "result": False})


def check_deprecated_features(call: Call) -> str:
    """Raises CommandError (69) if a deprecated feature is in use."""
    used = call.api.get("deprecated-features", "used")
    if used:
        names = ", ".join(str(one["name"]) for one in used)
        raise CommandError(UNAVAILABLE, f"Cluster reported deprecated features in use: {names}")
    return "Cluster reported no deprecated features in use"


def auth_attempts(call: Call) -> Rows:
    path = ("auth", "attempts", call.node, *(["source"] if call.flag("by-source") else []))
    columns = ["protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded"]
    return Rows(columns, [[one.get(column) for column in columns] for one in call.api.get(*path)])


def quorum_status(call: Call) -> Rows:
    """Raises CommandError (65, 69)."""
    queue = call.find("queues", call.vhost_name, call.arguments[0])
    if queue is None:
        raise CommandError(DATA, "Object (queue, stream, exchange, etc) was not found", bare=True)
    if queue["type"] != "quorum":
        raise CommandError(UNAVAILABLE, f"Cannot get quorum status of a {queue['type']} queue")
    columns = ["Node Name", "Raft State", "Membership", "Replicated", "Guarantee"]
    return Rows(columns, [[call.node, "leader", "voter", queue.get("replicated"), queue.get("guarantee")]])


def tls_versions(call: Call) -> str:
    """List the versions of TLS that listeners accept."""
    return "tlsv1.3\ntlsv1.2"


def cipher_suites(call: Call) -> str:
    """List the cipher suites of this installation. Raises CommandError (65) for an unknown format."""
    context = ssl.create_default_context()
    if call.flag("all"):
        context.set_ciphers("ALL")
    form = call.text("format", "openssl")
    if form == "openssl":
        return "\n".join(str(one["name"]) for one in context.get_ciphers())
    if form not in ("erlang", "map"):
        raise bad_argument("Format should be either openssl, erlang or map")
    suites = [suite_of(dict(one)) for one in context.get_ciphers()]
    if form == "map":
        terms = ["#{" + ",".join(f"{name} => {suite[name]}" for name in SUITE_MAP) + "}" for suite in suites]
    else:
        terms = ["{" + ",".join(suite.values()) + "}" for suite in suites]
    return "\n".join(["[", "\n,".join(terms), "]"])


def suite_of(cipher: Item) -> dict[str, str]:
    """Return a cipher suite in Erlang's words."""
    exchange, login = str(cipher["kea"]).removeprefix("kx-"), str(cipher["auth"]).removeprefix("auth-")
    hashed = str(cipher["name"]).rpartition("SHA")[2]
    return {
        "key_exchange": exchange if exchange in ("any", login) else f"{exchange}_{login}",
        "cipher": str(cipher["symmetric"]).replace("-", "_").replace("/", "_"),
        "mac": "aead" if cipher["aead"] else str(cipher["digest"]).replace("sha1", "sha"),
        "prf": f"sha{hashed}" if cipher["aead"] and hashed.isdecimal() else "default_prf",
    }


def run_check(call: Call, *check: str) -> None:
    """Raises CommandError (69) if the health check fails."""
    try:
        call.api.get("health", "checks", *check)
    except APIError as error:
        if error.status != 503:
            raise
        raise CommandError(UNAVAILABLE, error.reason) from None


def memory_breakdown(call: Call) -> Report:
    memory = call.api.get("nodes", call.node, "memory")["memory"]
    parts = {name: size for name, size in memory.items() if isinstance(size, int) and size}
    return Report(status.breakdown_text(parts, call.text("unit", "gb").lower()), memory)


def list_ciphers(call: Call) -> Rows:
    """List the ciphers of this installation."""
    return Rows(["cipher"], [[one["name"]] for one in ssl.create_default_context().get_ciphers()])


def server_version(call: Call) -> str:
    return str(call.api.get("overview")["rabbitmq_version"])


def environment(call: Call) -> str:
    return str(call.api.get("config", "effective")).rstrip("\n")


def runtime(overview: Item) -> str:
    """Return the language runtime: Python for Warren, Erlang for RabbitMQ."""
    name = "Erlang" if overview.get("product_name", "RabbitMQ") == "RabbitMQ" else "Python"
    return f"{name} {overview.get('erlang_version')}"


def erlang_version(call: Call) -> str:
    return runtime(call.api.get("overview"))


def show_status(call: Call) -> Report:
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
        "build": node.get("build", ""),  # RabbitMQ has none
        "active_plugins": node.get("enabled_plugins", []),
        "data_directory": node.get("db_dir", ""),
        "storage": node.get("storage", {}),  # RabbitMQ has none
        "config_files": node.get("config_files", []),
        "log_files": node.get("log_files", []),
        "alarms": alarms_of(node),
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
        "event_loop": node.get("event_loop"),  # RabbitMQ has none
    }
    return Report(status.status_text(value, call.text("unit", "gb").lower()), value)


def cluster_status(call: Call) -> Report:
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
    "await_online_nodes": await_nodes,
    "await_online_quorum_plus_one": await_quorum,
    "await_online_synchronized_mirror": await_quorum,
    "await_startup": await_startup,
    "check_alarms": check_alarms,
    "check_if_any_deprecated_features_are_used": check_deprecated_features,
    "check_if_node_is_mirror_sync_critical": deprecated_no_op,
    "check_if_node_is_quorum_critical": check_quorum_critical,
    "check_if_new_quorum_queue_replicas_have_finished_initial_sync": check_replicas,
    "check_certificate_expiration": check_certificate_expiration,
    "check_local_alarms": check_alarms,
    "check_port_connectivity": check_port_connectivity,
    "check_port_listener": check_port_listener,
    "check_protocol_listener": check_protocol_listener,
    "check_running": check_running,
    "check_virtual_hosts": check_virtual_hosts,
    "cipher_suites": cipher_suites,
    "cluster_status": cluster_status,
    "environment": environment,
    "erlang_version": erlang_version,
    "force_gc": nothing,
    "is_booting": is_booting,
    "is_running": is_running,
    "list_ciphers": list_ciphers,
    "list_node_auth_attempt_stats": auth_attempts,
    "listeners": list_listeners,
    "memory_breakdown": memory_breakdown,
    "node_health_check": deprecated_no_op,
    "ping": ping,
    "post_upgrade": await_quorum,
    "rebalance": nothing,
    "reconcile_vhosts": nothing,
    "reset_node_auth_attempt_metrics": reset_auth_attempts,
    "quorum_status": quorum_status,
    "server_version": server_version,
    "status": show_status,
    "tls_versions": tls_versions,
    "wait": await_startup,
}
