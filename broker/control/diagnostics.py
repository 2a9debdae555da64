"""How the node is: status, alarms, listeners, and checks for whoever probes its health."""

from __future__ import annotations

import os
import platform
import ssl
import time
from pathlib import Path

from ..net.memory import resident_bytes
from .call import SOFTWARE, UNAVAILABLE, Call, Daemon, Handler, Refused, Report, Rows, whole

PURPOSES = {"amqp": "AMQP 0-9-1", "amqps": "AMQP 0-9-1 over TLS"}
DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
GB = 10**9
PROTOCOLS = {"amqp/ssl": "amqps", "amqp091": "amqp", "http/ssl": "https"}


def listeners(daemon: Daemon) -> list[dict[str, object]]:
    """Those that accept connections now."""
    found: list[dict[str, object]] = []
    for listener in daemon.server.listeners:
        protocol = "amqps" if listener.tls is not None else "amqp"
        for address in listener.addresses:
            host, _, port = address.rpartition(":")
            found.append({"interface": host, "port": int(port), "protocol": protocol, "purpose": PURPOSES[protocol]})
    return found


def listener_lines(call: Call) -> list[str]:
    return [
        f"Interface: {one['interface']}, port: {one['port']}, protocol: {one['protocol']}, purpose: {one['purpose']}"
        for one in listeners(call.daemon)
    ]


def list_listeners(call: Call) -> Report:
    found = [{"node": call.node.name, **one} for one in listeners(call.daemon)]
    return Report("\n".join(listener_lines(call)) or "(none)", {"listeners": found, "node": call.node.name})


def alarm_lines(call: Call) -> list[str]:
    return [f"{resource.title()} alarm on node {call.node.name}" for resource in call.node.alarms.on()]


def list_alarms(call: Call) -> Report:
    alarms = call.node.alarms.on()
    text = "\n".join(alarm_lines(call)) or f"Node {call.node.name} reported no alarms, local or clusterwide"
    return Report(text, {"local": alarms, "global": alarms, "node": call.node.name, "result": "ok"})


def check_alarms(call: Call) -> str:
    if call.node.alarms.on():
        raise Refused(SOFTWARE, "\n".join([f"Node {call.node.name} reported alarms:", *alarm_lines(call)]))
    return f"Node {call.node.name} reported no alarms"


def check_running(call: Call) -> str:
    if not call.daemon.server.listeners:
        raise Refused(SOFTWARE, f"RabbitMQ on node {call.node.name} is not running or has not fully booted yet")
    return f"RabbitMQ on node {call.node.name} is fully booted and running"


def check_port_connectivity(call: Call) -> str:
    """The command line itself connects to each; the node names them."""
    found = listeners(call.daemon)
    if not found:
        raise Refused(UNAVAILABLE, "no listener accepts connections")
    return f"Successfully connected to ports {', '.join(str(one['port']) for one in found)} on node {call.node.name}."


def check_port_listener(call: Call) -> str:
    port = whole(call.arguments[0], "the port")
    if port not in [one["port"] for one in listeners(call.daemon)]:
        raise Refused(UNAVAILABLE, f"No listener on port {port} is active on node {call.node.name}.")
    return f"A listener on port {port} is active on node {call.node.name}."


def check_protocol_listener(call: Call) -> str:
    protocol = call.arguments[0].lower()
    if PROTOCOLS.get(protocol, protocol) not in [one["protocol"] for one in listeners(call.daemon)]:
        raise Refused(UNAVAILABLE, f"No listener for protocol {protocol} is active on node {call.node.name}.")
    return f"A listener for protocol {protocol} is active on node {call.node.name}."


def check_virtual_hosts(call: Call) -> str:
    return f"All {len(call.node.vhosts)} virtual hosts on node {call.node.name} are running"


def check_certificate_expiration(call: Call) -> str:
    unit = call.text("unit", "weeks")
    if unit not in DAYS:
        raise Refused(SOFTWARE, f"unit should be one of {', '.join(DAYS)}, actually was {unit}")
    until = time.time() + call.whole("within", 4) * DAYS[unit] * 86_400
    bad = [
        f"{listener.addresses}: {path} expires {expiry}"
        for listener in call.daemon.server.listeners
        if listener.tls is not None
        for path in (listener.tls.options.certfile, listener.tls.options.cacertfile)
        if path
        for expiry in expiries(Path(path))
        if ssl.cert_time_to_seconds(expiry) < until
    ]
    if bad:
        raise Refused(SOFTWARE, "\n".join(["Certificates are about to expire, or have:", *bad]))
    return "No certificates are expiring within the time given."


def expiries(path: Path) -> list[str]:
    """Of all certificates in a file, as OpenSSL writes times. Raises Refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise Refused(SOFTWARE, f"{path}: {error}") from None
    return [str(one["notAfter"]) for one in context.get_ca_certs()]


def memory_breakdown(call: Call) -> Report:
    used, messages = resident_bytes() or 0, call.node.budget.used_bytes
    parts = {"messages": messages, "other": max(0, used - messages)}
    lines = [
        f"{name}: {size / GB:.4f} gb ({100 * size / used if used else 0:.2f}%)"
        for name, size in sorted(parts.items(), key=lambda part: -part[1])
    ]
    return Report("\n".join(lines), {**parts, "total": used})


def log_location(call: Call) -> Report:
    places = log_places(call)
    return Report("\n".join(places), {"logs": places})


def log_places(call: Call) -> list[str]:
    log = call.daemon.log
    return ([str(Path(log.dir) / log.file)] if log.file else []) + (["<stderr>"] if log.console else [])


def status(call: Call) -> Report:
    value = status_of(call)
    return Report(told(call, value), value)


def status_of(call: Call) -> dict[str, object]:
    daemon, node = call.daemon, call.node
    return {
        "node_name": node.name,
        "pid": os.getpid(),
        "os": platform.system(),
        "uptime": (node.clock.now_ms() - daemon.started_ms) // 1000,
        "is_under_maintenance": False,
        "rabbitmq_version": node.version,
        "product_name": node.product,
        "product_version": node.version,
        "runtime": f"Python {platform.python_version()}",
        "active_plugins": sorted({name for _, name in node.registry.listed() if name}),
        "data_directory": "" if daemon.config.memory else str(Path(daemon.config.data_dir).absolute()),
        "log_files": log_places(call),
        "alarms": node.alarms.on(),
        "memory": {"total": {"rss": resident_bytes() or 0}, "strategy": "rss"},
        "vm_memory_limit": daemon.resources.memory_limit_bytes,
        "disk_free": daemon.resources.free_bytes(),
        "disk_free_limit": daemon.resources.disk_free_limit_bytes,
        "totals": {
            "connection_count": len(daemon.connections()),
            "queue_count": sum(len(vhost.queues) for vhost in node.vhosts.values()),
            "virtual_host_count": len(node.vhosts),
        },
        "listeners": [{"node": node.name, **one} for one in listeners(daemon)],
    }


def told(call: Call, value: dict[str, object]) -> str:
    """In the sections of RabbitMQ's."""
    unit = call.text("unit", "gb").lower()
    sizes = {"bytes": 1, "kb": 10**3, "mb": 10**6, "gb": GB, "tb": 10**12}
    if unit not in sizes:
        raise Refused(UNAVAILABLE, f"unit should be one of {', '.join(sizes)}, actually was {unit}")
    totals = value["totals"]
    assert isinstance(totals, dict)
    sections: list[tuple[str, list[str]]] = [
        (
            "Runtime",
            [
                f"OS PID: {value['pid']}",
                f"OS: {value['os']}",
                f"Uptime (seconds): {value['uptime']}",
                "Is under maintenance?: false",
                f"RabbitMQ version: {value['rabbitmq_version']}",
                f"Node name: {value['node_name']}",
                f"Runtime: {value['runtime']}",
            ],
        ),
        ("Plugins", ["Enabled plugins:", "", *[f" * {name}" for name in call.node.registry.names()]]),
        ("Data directory", [f"Node data directory: {value['data_directory'] or '(none)'}"]),
        ("Config files", [f" * {name}" for name in call.daemon.config_files]),
        ("Log file(s)", [f" * {name}" for name in log_places(call)]),
        ("Alarms", alarm_lines(call)),
        ("Tags", []),
        *room(call, sizes[unit], unit),
        (
            "Totals",
            [
                f"Connection count: {totals['connection_count']}",
                f"Queue count: {totals['queue_count']}",
                f"Virtual host count: {totals['virtual_host_count']}",
            ],
        ),
        ("Listeners", listener_lines(call)),
    ]
    return "\n\n".join("\n".join([title, "", *(lines or ["(none)"])]) for title, lines in sections)


def room(call: Call, divisor: int, unit: str) -> list[tuple[str, list[str]]]:
    """The sections on memory and disk."""
    resources = call.daemon.resources
    sizes = (
        *(resident_bytes() or 0, resources.memory_limit_bytes),
        *(resources.disk_free_limit_bytes, resources.free_bytes()),
    )
    used, limit, low, free = [f"{size / divisor:.4f} {unit}" for size in sizes]
    memory = [f"Total memory used: {used}", "Calculation strategy: rss"]
    memory.append(f"Memory high watermark setting: computed to: {limit}")
    return [
        ("Memory", memory),
        ("Free Disk Space", [f"Low free disk space watermark: {low}", f"Free disk space: {free}"]),
    ]


def cluster_status(call: Call) -> Report:
    node = call.node
    value = {
        "cluster_name": node.cluster_name,
        "disk_nodes": [node.name],
        "running_nodes": [node.name],
        "versions": {node.name: {"rabbitmq_version": node.version}},
        "alarms": node.alarms.on(),
        "partitions": {},
        "listeners": {node.name: listeners(call.daemon)},
        "maintenance_status": {node.name: "not under maintenance"},
        "feature_flags": [],
    }
    sections: list[tuple[str, list[str]]] = [
        ("Basics", [f"Cluster name: {node.cluster_name}"]),
        ("Disk Nodes", [node.name]),
        ("Running Nodes", [node.name]),
        ("Versions", [f"{node.name}: {node.product} {node.version} on Python {platform.python_version()}"]),
        ("Maintenance status", [f"Node: {node.name}, status: not under maintenance"]),
        ("Alarms", alarm_lines(call)),
        ("Network Partitions", []),
        ("Listeners", [f"Node: {node.name}, {line[0].lower()}{line[1:]}" for line in listener_lines(call)]),
        ("Feature flags", []),
    ]
    return Report("\n\n".join("\n".join([title, "", *(lines or ["(none)"])]) for title, lines in sections), value)


def server_version(call: Call) -> str:
    return call.node.version


def list_ciphers(call: Call) -> Rows:
    return Rows(["cipher"], ([one["name"]] for one in ssl.create_default_context().get_ciphers()))


COMMANDS: dict[str, Handler] = {
    "status": status,
    "cluster_status": cluster_status,
    "listeners": list_listeners,
    "alarms": list_alarms,
    "check_alarms": check_alarms,
    "check_local_alarms": check_alarms,
    "check_running": check_running,
    "check_port_connectivity": check_port_connectivity,
    "check_port_listener": check_port_listener,
    "check_protocol_listener": check_protocol_listener,
    "check_virtual_hosts": check_virtual_hosts,
    "check_certificate_expiration": check_certificate_expiration,
    "memory_breakdown": memory_breakdown,
    "log_location": log_location,
    "server_version": server_version,
    "list_ciphers": list_ciphers,
}
