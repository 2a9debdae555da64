"""Commands for the status of the node: versions, configuration, event loop, cluster; a report of everything."""

import shutil
import sys
from collections.abc import Iterable

from ..call import Call, Item
from ..command import DIAGNOSTICS, NODES
from ..formats import Answer, Lines, Report, Rows
from .listeners import lines_of, listeners_of
from .memory_and_disk import KB, alarm_lines, alarms_of, divisor, the_node


def runtime(overview: Item) -> str:
    """Return the language runtime: Python for Warren, Erlang for RabbitMQ."""
    name = "Erlang" if overview.get("product_name", "RabbitMQ") == "RabbitMQ" else "Python"
    return f"{name} {overview.get('erlang_version')}"


def section(title: str, *lines: str) -> str:
    """Return a section of a text; empty lines are left out."""
    return "\n".join([title, "", *([line for line in lines if line] or ["(none)"])])


def bulleted(names: Iterable[str]) -> list[str]:
    return [f" * {name}" for name in names]


def show_status(call: Call) -> Report:
    """Raises CommandError (64)."""
    node, overview = the_node(call), call.get("overview")
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
            "virtual_host_count": len(call.get("vhosts", {"columns": "name"})),
        },
        "listeners": listeners_of(overview),
        "event_loop": node.get("event_loop"),  # RabbitMQ has none
    }
    sections = status_sections(call, value)
    if call.terminal:
        sections.insert(0, "\n".join(summary(call, value, overview.get("queue_totals", {}))))
    return Report("\n\n".join(sections), value)


def summary(call: Call, facts: Item, messages: Item) -> list[str]:
    """Return the five lines that say whether the node is well, what it does, and what it has left."""
    faults = [f"the {resource} alarm is set, so that publishers wait" for resource in facts["alarms"]]
    down = len(call.list_of("federation-links/state/down"))
    faults += [f"federation links that are down: {down} (federation_status --only-down)"] if down else []
    faults += ["it is in maintenance, and refuses clients"] if facts["is_under_maintenance"] else []
    lost = len(facts["not_restored"])
    faults += [f"objects that were not restored at the start: {lost}"] if lost else []
    storage, totals = facts["storage"], facts["totals"]
    product, memory = facts["product_name"] or "RabbitMQ", facts["memory"]["total"]["rss"]
    place = storage.get("place") or facts["data_directory"] or "in memory"
    kept = storage.get("warning") or (f"a confirmed message is on {storage['guarantee']}" if storage else "")
    ready, unacked = messages.get("messages_ready", 0), messages.get("messages_unacknowledged", 0)
    return [
        f"Is it well?  {'no: ' + '; '.join(faults) if faults else 'yes'}",
        f"Broker       {product} {facts['product_version']}, {facts['node_name']}, up {duration(facts['uptime'])}",
        f"Load         connections: {totals['connection_count']}, queues: {totals['queue_count']},"
        f" messages: {ready} ready, {unacked} unacknowledged",
        f"Room         {short_size(memory)} of {short_size(facts['vm_memory_limit'])} of memory used,"
        f" {short_size(facts['disk_free'])} of disk free, at least {short_size(facts['disk_free_limit'])} needed",
        f"Data         {place}" + (f": {kept}" if kept else ""),
    ]


def duration(seconds: int) -> str:
    """Return a duration in its two largest units."""
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size:
            parts.append(f"{seconds // size} {unit}")
            seconds %= size
    return " ".join(parts[:2]) or "0 s"


def short_size(size_bytes: int) -> str:
    """Return bytes with a decimal unit."""
    unit, by = next(((unit.upper(), by) for unit, by in reversed(KB.items()) if size_bytes >= by), ("kB", 1000))
    return f"{size_bytes / by:.1f} {unit}"


def status_sections(call: Call, facts: Item) -> list[str]:
    """Return the sections of the text. Raises CommandError (64)."""
    unit, by = divisor(call)

    def size(value: float) -> str:
        return f"{value / by:.4f} {unit}"

    product, memory, totals = facts["product_name"], facts["memory"], facts["totals"]
    return [
        section(
            "Runtime",
            f"OS PID: {facts['pid']}",
            f"OS: {facts['os']}" if facts["os"] else "",
            f"Uptime (seconds): {facts['uptime']}",
            f"Is under maintenance?: {str(facts['is_under_maintenance']).lower()}",
            f"{product} version: {facts['product_version']}" if product not in (None, "RabbitMQ") else "",
            f"RabbitMQ version: {facts['rabbitmq_version']}",
            f"Node name: {facts['node_name']}",
            f"Runtime: {facts['runtime']}",
            f"Build: {facts['build']}" if facts["build"] else "",
        ),
        "\n".join(["Plugins", "", "Enabled plugins:", "", *bulleted(facts["active_plugins"])]),
        section("Data directory", f"Node data directory: {facts['data_directory'] or '(none)'}"),
        *([storage_section(facts["storage"])] if facts["storage"] else []),
        section("Config files", *bulleted(facts["config_files"])),
        section("Log file(s)", *bulleted(facts["log_files"])),
        section("Alarms", *alarm_lines(call, facts["alarms"])),
        *([section("Not restored at the start", *bulleted(facts["not_restored"]))] if facts["not_restored"] else []),
        section("Tags"),
        section(
            "Memory",
            f"Total memory used: {size(memory['total']['rss'])}",
            f"Calculation strategy: {memory['strategy']}",
            f"Memory high watermark setting: computed to: {size(facts['vm_memory_limit'])}",
        ),
        section(
            "Free Disk Space",
            f"Low free disk space watermark: {size(facts['disk_free_limit'])}",
            f"Free disk space: {size(facts['disk_free'])}",
        ),
        section(
            "Totals",
            f"Connection count: {totals['connection_count']}",
            f"Queue count: {totals['queue_count']}",
            f"Virtual host count: {totals['virtual_host_count']}",
        ),
        section("Listeners", *lines_of(facts["listeners"])),
        *([section("Event loop", *event_loop_lines(facts["event_loop"]))] if facts["event_loop"] is not None else []),
    ]


def storage_section(storage: Item) -> str:
    place, warning = f"Stored on: {storage['place'] or '(nothing)'}", storage["warning"]
    guarantee = f"A confirmed message is on: {storage['guarantee']}"
    return section("Storage", place, guarantee, f"Warning: {warning}" if warning else "")


def event_loop_lines(facts: Item) -> list[str]:
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


def show_changes(call: Call) -> Answer:
    changes = call.get("warren/config/changes")
    if not changes:
        return Report("The node runs with its configuration as it is now.", [])
    names = ["key", "running", "configured", "needs"]
    return Rows(names, [[change[name] or "(not shown)" for name in names] for change in changes])


def show_top(call: Call) -> Lines | None:
    """Show the screen on a terminal, or return its lines once for any other reader. Raises CommandError (64, 69)."""
    from .. import top

    interval_s = call.integer("interval", 2, least=1)
    if sys.stdin.isatty() and sys.stdout.isatty():
        top.watch(call, interval_s)
        return None
    return Lines(iter(top.printed(call, shutil.get_terminal_size((160, 0)).columns)))


def cluster_status(call: Call) -> Report:
    node, overview = call.node, call.get("overview")
    version, language = overview["rabbitmq_version"], runtime(overview)
    flags = call.get("feature-flags")
    alarms, listeners = alarms_of(the_node(call)), listeners_of(overview)
    value: Item = {
        "cluster_name": overview["cluster_name"],
        "disk_nodes": [node],
        "running_nodes": [node],
        "versions": {node: {"product_name": "RabbitMQ", "rabbitmq_version": version, "runtime": language}},
        "alarms": alarms,
        "partitions": {},
        "listeners": {node: listeners},
        "maintenance_status": {node: "not under maintenance"},
        "feature_flags": [{"name": flag["name"], "state": flag["state"]} for flag in flags],
    }
    parts = [
        section("Basics", f"Cluster name: {value['cluster_name']}"),
        section("Disk Nodes", node),
        section("Running Nodes", node),
        section("Versions", f"{node}: RabbitMQ {version} on {language}"),
        section("Maintenance status", f"Node: {node}, status: not under maintenance"),
        section("Alarms", *alarm_lines(call, alarms)),
        section("Network Partitions"),
        section("Listeners", *(f"Node: {node}, i{line[1:]}" for line in lines_of(listeners))),
        section("Feature flags", *(f"Flag: {flag['name']}, state: {flag['state']}" for flag in value["feature_flags"])),
    ]
    return Report("\n\n".join(parts), value)


# The command lines whose results `report` prints, for support and bug reports. list_parameters is left out, as URIs of
# upstreams contain passwords.
REPORT = (
    "status",
    "cluster_status",
    "environment",
    "list_connections pid name port peer_port host peer_host ssl state channels auth_mechanism user vhost timeout"
    " frame_max channel_max client_properties recv_oct recv_cnt send_oct send_cnt send_pend connected_at",
    "list_channels pid connection name number user vhost transactional confirm consumer_count messages_unacknowledged"
    " messages_uncommitted acks_uncommitted messages_unconfirmed prefetch_count global_prefetch_count",
)
REPORT_OF_VHOST = (
    "list_queues name type durable auto_delete exclusive arguments policy operator_policy messages messages_ready"
    " messages_unacknowledged messages_persistent message_bytes consumers state",
    "list_exchanges name type durable auto_delete internal arguments policy",
    "list_bindings",
    "list_permissions",
    "list_policies",
)


def report_lines(vhosts: list[str]) -> list[list[str]]:
    """Return the command lines of a report."""
    of_vhosts = [[*line.split(), "--vhost", vhost] for vhost in vhosts for line in REPORT_OF_VHOST]
    return [line.split() for line in REPORT] + of_vhosts


# fmt: off
NODES("version: Displays the version of this command")
NODES("report: Displays all that helps to find a fault", "Reporting server status of node {node} ...")
NODES("environment: Displays the configuration, without secrets", "Application environment of node {node} ...",
      lambda call: str(call.get("config/effective")).rstrip("\n"))
NODES("top [--interval <seconds>]: Shows the busiest queues, connections and federation links, until a key ends it",
      run=show_top)
NODES("diff: Compares the running configuration with the files: what needs a reload or a restart",
      "Keys of node {node} whose configured value is not the running one ...", show_changes)
DIAGNOSTICS("server_version: Displays the version that clients see", "Asking node {node} for its RabbitMQ version...",
            lambda call: str(call.get("overview")["rabbitmq_version"]))
DIAGNOSTICS("erlang_version [--details] [--offline]: Displays the version of the runtime",
            "Asking node {node} for the version of its runtime...", lambda call: runtime(call.get("overview")))
NODES("status [--unit <unit>]: Displays status of the node", "Status of node {node} ...", show_status)
NODES("cluster_status: Displays all nodes and their alarms", "Cluster status of node {node} ...", cluster_status)
