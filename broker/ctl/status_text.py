"""The texts of status commands and health checks, in RabbitMQ's words and sections, made of plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .answers import CommandError
from .exit_status import UNAVAILABLE, USAGE

GB = 10**9
UNITS = {"bytes": 1, "kb": 10**3, "mb": 10**6, "gb": GB, "tb": 10**12}
PURPOSES = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "https": "HTTP API over TLS (HTTPS)",
    "http/prometheus": "Prometheus exporter API over HTTP",
    "https/prometheus": "Prometheus exporter API over TLS (HTTPS)",
}
SPELLINGS = {  # other spellings of protocols
    **dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"), "amqp"),
    **dict.fromkeys(("amqps", "amqp/tls"), "amqp/ssl"),
    **dict.fromkeys(("http_api", "management"), "http"),
    **dict.fromkeys(("https_api", "http/ssl", "http/tls"), "https"),
    "prometheus": "http/prometheus",
}

Facts = Mapping[str, Any]
"""The values of a status command, as its JSON has them."""

Listener = Facts
Section = tuple[str, Sequence[str]]


def listener(node: str, interface: str, port: int, protocol: str) -> dict[str, object]:
    purpose = PURPOSES.get(protocol, protocol)
    shown = f"[{interface}]" if ":" in interface else interface
    return {"node": node, "interface": shown, "port": port, "protocol": protocol, "purpose": purpose}


def listener_lines(listeners: Iterable[Listener]) -> list[str]:
    return [
        f"Interface: {one['interface']}, port: {one['port']}, protocol: {one['protocol']}, purpose: {one['purpose']}"
        for one in listeners
    ]


def alarm_lines(node: str, alarms: Iterable[str]) -> list[str]:
    """Return a line for each resource that is low (memory, disk)."""
    return [f"{resource.title()} alarm on node {node}" for resource in alarms]


def divisor(unit: str) -> int:
    """Return the number of bytes of a unit. Raises CommandError (64)."""
    if unit not in UNITS:
        text = f"unit '{unit}' is not supported. Please use one of: {', '.join(UNITS)}"
        raise CommandError(USAGE, f'"{text}"', argument=True)
    return UNITS[unit]


def sections(parts: Iterable[Section]) -> str:
    return "\n\n".join("\n".join([title, "", *(lines or ["(none)"])]) for title, lines in parts)


def bulleted(names: Iterable[str]) -> list[str]:
    return [f" * {name}" for name in names]


def storage_lines(storage: Facts) -> list[str]:
    """Return the lines about what stores messages."""
    lines = [f"Stored on: {storage['place'] or '(nothing)'}", f"A confirmed message is on: {storage['guarantee']}"]
    return [*lines, f"Warning: {storage['warning']}"] if storage["warning"] else lines


def status_text(facts: Facts, unit: str) -> str:
    """Return the text of `status`. Raises CommandError (64)."""
    by, totals = divisor(unit), facts["totals"]
    sizes = (
        facts["memory"]["total"]["rss"],
        *(facts[key] for key in ("vm_memory_limit", "disk_free_limit", "disk_free")),
    )
    used, limit, low, free = [f"{size / by:.4f} {unit}" for size in sizes]
    product = facts["product_name"]
    runtime = [
        f"OS PID: {facts['pid']}",
        *([f"OS: {facts['os']}"] if facts["os"] else []),
        f"Uptime (seconds): {facts['uptime']}",
        f"Is under maintenance?: {str(facts['is_under_maintenance']).lower()}",
        *([f"{product} version: {facts['product_version']}"] if product not in (None, "RabbitMQ") else []),
        f"RabbitMQ version: {facts['rabbitmq_version']}",
        f"Node name: {facts['node_name']}",
        f"Runtime: {facts['runtime']}",
        *([f"Build: {facts['build']}"] if facts["build"] else []),
    ]
    memory = [f"Total memory used: {used}", f"Calculation strategy: {facts['memory']['strategy']}"]
    memory.append(f"Memory high watermark setting: computed to: {limit}")
    counts = [
        f"Connection count: {totals['connection_count']}",
        f"Queue count: {totals['queue_count']}",
        f"Virtual host count: {totals['virtual_host_count']}",
    ]
    parts: list[Section] = [
        ("Runtime", runtime),
        ("Plugins", ["Enabled plugins:", "", *bulleted(facts["active_plugins"])]),
        ("Data directory", [f"Node data directory: {facts['data_directory'] or '(none)'}"]),
        *([("Storage", storage_lines(facts["storage"]))] if facts["storage"] else []),
        ("Config files", bulleted(facts["config_files"])),
        ("Log file(s)", bulleted(facts["log_files"])),
        ("Alarms", alarm_lines(facts["node_name"], facts["alarms"])),
        *([("Not restored at the start", bulleted(facts["not_restored"]))] if facts["not_restored"] else []),
        ("Tags", []),
        ("Memory", memory),
        ("Free Disk Space", [f"Low free disk space watermark: {low}", f"Free disk space: {free}"]),
        ("Totals", counts),
        ("Listeners", listener_lines(facts["listeners"])),
    ]
    if facts["event_loop"] is not None:
        parts.append(("Event loop", event_loop_lines(facts["event_loop"])))
    return sections(parts)


def event_loop_lines(facts: Facts) -> list[str]:
    """Return the longest turns, and the count, restarts and failures of each task."""
    lines = [
        f"Longest turn of the last minute or two: {facts['longest_turn_ms']} ms",
        f"Longest turn since the start: {facts['longest_turn_since_start_ms']} ms",
        f"Longest turn since the start, in processor time: {facts['longest_processor_ms']} ms",
    ]
    for task in facts["tasks"]:
        counts = f"running: {task['running']}, restarts: {task['restarts']}, failures: {task['failures']}"
        last = f", last failure: {' '.join(task['last_failure'].split())}" if task["last_failure"] else ""
        lines.append(f"Task: {task['name']}, {counts}{last}")
    return lines


def cluster_text(facts: Facts) -> str:
    (node,) = facts["disk_nodes"]
    version, lines = facts["versions"][node], listener_lines(facts["listeners"][node])
    parts: list[Section] = [
        ("Basics", [f"Cluster name: {facts['cluster_name']}"]),
        ("Disk Nodes", [node]),
        ("Running Nodes", [node]),
        ("Versions", [f"{node}: {version['product_name']} {version['rabbitmq_version']} on {version['runtime']}"]),
        ("Maintenance status", [f"Node: {node}, status: not under maintenance"]),
        ("Alarms", alarm_lines(node, facts["alarms"])),
        ("Network Partitions", []),
        ("Listeners", [f"Node: {node}, {line[0].lower()}{line[1:]}" for line in lines]),
        ("Feature flags", [f"Flag: {flag['name']}, state: {flag['state']}" for flag in facts["feature_flags"]]),
    ]
    return sections(parts)


def breakdown_text(parts: Mapping[str, int], unit: str) -> str:
    """Return the memory by purpose, the largest part first. Raises CommandError (64)."""
    by, total = divisor(unit), sum(parts.values())
    return "\n".join(
        f"{name}: {size / by:.4f} {unit} ({100 * size / total if total else 0:.2f}%)"
        for name, size in sorted(parts.items(), key=lambda each: -each[1])
    )


# Health checks: each returns its text or raises CommandError (69).


def check_alarms(node: str, alarms: Sequence[str], local: bool) -> str:
    if alarms:
        raise CommandError(UNAVAILABLE, "\n".join(alarm_lines(node, alarms)), bare=not local)
    return f"Node {node} reported no {'local alarms' if local else 'alarms, local or clusterwide'}"


def check_running(node: str, listeners: Iterable[Listener]) -> str:
    """Check that an AMQP listener is open."""
    if not any(one["protocol"].startswith("amqp") for one in listeners):
        raise CommandError(UNAVAILABLE, f"RabbitMQ on node {node} is not running or has not fully booted yet")
    return f"RabbitMQ on node {node} is fully booted and running"


def check_port(node: str, listeners: Iterable[Listener], port: int) -> str:
    ports = list(dict.fromkeys(one["port"] for one in listeners))
    if port not in ports:
        found = f"Found listeners that use the following ports: {', '.join(map(str, ports))}"
        raise CommandError(UNAVAILABLE, f"No listener for port {port} is active on node {node}. {found}", bare=True)
    return f"A listener for port {port} is running on node {node}."


def check_protocol(node: str, listeners: Iterable[Listener], protocol: str) -> str:
    name = SPELLINGS.get(protocol.lower(), protocol.lower())
    protocols = sorted({one["protocol"] for one in listeners})
    if name not in protocols:
        found = f"Found listeners for the following protocols: {', '.join(protocols)}"
        raise CommandError(UNAVAILABLE, f"No listener for protocol {protocol} is active on node {node}. {found}")
    return f"A listener for protocol {name} is running on node {node}."


def check_connected(node: str, listeners: Sequence[Listener], reached: Sequence[bool]) -> str:
    """Check that connections were accepted; `reached` has a value for each listener."""
    if not listeners:
        raise CommandError(UNAVAILABLE, f"No listener on node {node} accepts connections")
    failed = [one for one, open_ in zip(listeners, reached, strict=True) if not open_]
    if failed:
        text = f"Connection to ports of the following listeners on node {node} failed: "
        raise CommandError(UNAVAILABLE, "\n".join([text, *listener_lines(failed)]))
    ports = ", ".join(dict.fromkeys(str(one["port"]) for one in listeners))
    return f"Successfully connected to ports {ports} on node {node}."


def check_vhosts(node: str) -> str:
    return f"Node {node} reported all vhosts as running"


def not_expiring(within: int, unit: str) -> str:
    """Return the text for the case that no certificate expires within this time."""
    return f"No certificates are expiring within {within} {unit.removesuffix('s') if within == 1 else unit}."


TIME_UNITS = {"days": 1, "weeks": 7, "months": 28, "years": 365}
DEFAULT_UNIT, DEFAULT_WITHIN = "weeks", 4


def days(unit: str) -> int:
    """Return the number of days of a unit of time. Raises CommandError (64)."""
    if unit not in TIME_UNITS:
        text = f"unit '{unit}' is not supported. Please use one of: {', '.join(TIME_UNITS)}"
        raise CommandError(USAGE, f'"{text}"', argument=True)
    return TIME_UNITS[unit]
