"""How a node is, told in the words and sections of RabbitMQ's tools. Made of plain values: it knows no node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .answers import UNAVAILABLE, USAGE, Refused

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
SPELLINGS = {  # of protocols, that people write
    **dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"), "amqp"),
    **dict.fromkeys(("amqps", "amqp/tls"), "amqp/ssl"),
    **dict.fromkeys(("http_api", "management"), "http"),
    **dict.fromkeys(("https_api", "http/ssl", "http/tls"), "https"),
    "prometheus": "http/prometheus",
}

Facts = Mapping[str, Any]
"""What is told to a machine."""

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
    """`alarms` are resources that are low: memory, disk."""
    return [f"{resource.title()} alarm on node {node}" for resource in alarms]


def divisor(unit: str) -> int:
    """Of a unit of sizes. Raises Refused (64)."""
    if unit not in UNITS:
        text = f"unit '{unit}' is not supported. Please use one of: {', '.join(UNITS)}"
        raise Refused(USAGE, f'"{text}"', argument=True)
    return UNITS[unit]


def sections(parts: Iterable[Section]) -> str:
    return "\n\n".join("\n".join([title, "", *(lines or ["(none)"])]) for title, lines in parts)


def bulleted(names: Iterable[str]) -> list[str]:
    return [f" * {name}" for name in names]


def status_text(facts: Facts, unit: str) -> str:
    """Raises Refused (64)."""
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
    """The longest turns, and each task with its count, restarts and failures."""
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
    """What memory is used for, the largest part first. Raises Refused (64)."""
    by, total = divisor(unit), sum(parts.values())
    return "\n".join(
        f"{name}: {size / by:.4f} {unit} ({100 * size / total if total else 0:.2f}%)"
        for name, size in sorted(parts.items(), key=lambda each: -each[1])
    )


# Checks: what they say, or Refused (69)


def check_alarms(node: str, alarms: Sequence[str], local: bool) -> str:
    if alarms:
        raise Refused(UNAVAILABLE, "\n".join(alarm_lines(node, alarms)), bare=not local)
    return f"Node {node} reported no {'local alarms' if local else 'alarms, local or clusterwide'}"


def check_running(node: str, listeners: Iterable[Listener]) -> str:
    """Whether clients can connect."""
    if not any(one["protocol"].startswith("amqp") for one in listeners):
        raise Refused(UNAVAILABLE, f"RabbitMQ on node {node} is not running or has not fully booted yet")
    return f"RabbitMQ on node {node} is fully booted and running"


def check_port(node: str, listeners: Iterable[Listener], port: int) -> str:
    ports = list(dict.fromkeys(one["port"] for one in listeners))
    if port not in ports:
        found = f"Found listeners that use the following ports: {', '.join(map(str, ports))}"
        raise Refused(UNAVAILABLE, f"No listener for port {port} is active on node {node}. {found}", bare=True)
    return f"A listener for port {port} is running on node {node}."


def check_protocol(node: str, listeners: Iterable[Listener], protocol: str) -> str:
    name = SPELLINGS.get(protocol.lower(), protocol.lower())
    protocols = sorted({one["protocol"] for one in listeners})
    if name not in protocols:
        found = f"Found listeners for the following protocols: {', '.join(protocols)}"
        raise Refused(UNAVAILABLE, f"No listener for protocol {protocol} is active on node {node}. {found}")
    return f"A listener for protocol {name} is running on node {node}."


def check_connected(node: str, listeners: Sequence[Listener], reached: Sequence[bool]) -> str:
    """`reached` says of each listener whether it was connected to."""
    if not listeners:
        raise Refused(UNAVAILABLE, f"No listener on node {node} accepts connections")
    failed = [one for one, open_ in zip(listeners, reached, strict=True) if not open_]
    if failed:
        text = f"Connection to ports of the following listeners on node {node} failed: "
        raise Refused(UNAVAILABLE, "\n".join([text, *listener_lines(failed)]))
    ports = ", ".join(dict.fromkeys(str(one["port"]) for one in listeners))
    return f"Successfully connected to ports {ports} on node {node}."


def check_vhosts(node: str) -> str:
    return f"Node {node} reported all vhosts as running"


def not_expiring(within: int, unit: str) -> str:
    """That no certificate ends within so many weeks."""
    return f"No certificates are expiring within {within} {unit.removesuffix('s') if within == 1 else unit}."


TIME_UNITS = {"days": 1, "weeks": 7, "months": 28, "years": 365}
DEFAULT_UNIT, DEFAULT_WITHIN = "weeks", 4


def days(unit: str) -> int:
    """In a unit of time. Raises Refused (64)."""
    if unit not in TIME_UNITS:
        text = f"unit '{unit}' is not supported. Please use one of: {', '.join(TIME_UNITS)}"
        raise Refused(USAGE, f'"{text}"', argument=True)
    return TIME_UNITS[unit]
