"""Commands of rabbitmq-diagnostics and rabbitmq-plugins."""

from __future__ import annotations

from ..command import Command
from ..request import Request

LIST_SHORT = {"enabled": "-E", "implicitly-enabled": "-e", "minimal": "-m", "verbose": "-v"}


def check_port_banner(request: Request) -> str:
    (port,) = request.arguments
    return f"Asking node {request.node} if there's an active listener on port {port} ..."


def tail_banner(request: Request) -> str:
    return f"Last {request.text('number', '50')} log lines on node {request.node} ..."


def stream_banner(request: Request) -> str:
    duration = request.text("duration", "infinity")
    seconds = "" if duration == "infinity" else f" for {duration} seconds"
    return f"Streaming logs from node {request.node}{seconds} ..."


def list_banner(request: Request) -> str:
    pattern = request.arguments[0] if request.arguments else ".*"
    return f'Listing plugins with pattern "{pattern}" ...'


def switch_banner(request: Request) -> str:
    doing = "Disabling" if request.command == "disable" else "Enabling"
    return "\n".join([f"{doing} plugins on node {request.node}:", *request.arguments])


def enabled_banner(request: Request) -> str:
    names = request.arguments
    which = f"plugin {names[0]} is" if len(names) == 1 else f"plugins {', '.join(names)} are"
    return f"Asking node {request.node} if {which} enabled..."


CHECKS = [
    Command("check_alarms", "Fails if there are alarms", "Asking node {node} to report any local resource alarms ..."),
    Command(
        "check_certificate_expiration [--within <within>] [--unit <unit>]",
        "Fails if certificates are about to expire",
        "Checking certificate expiration on node {node} ...",
    ),
    Command(
        "check_local_alarms", "Fails if there are alarms", "Asking node {node} to report any local resource alarms ..."
    ),
    Command(
        "check_port_connectivity",
        "Fails if a listener accepts no connections",
        "Testing TCP connections to all active listeners on node {node} ...",
    ),
    Command("check_port_listener <port>", "Fails if no listener uses the port", check_port_banner),
    Command(
        "check_protocol_listener <protocol>",
        "Fails if no listener has the protocol",
        "Asking node {node} if there's an active listener for protocol {0} ...",
    ),
    Command(
        "check_running", "Fails if AMQP clients cannot connect", "Checking if RabbitMQ is running on node {node} ..."
    ),
    Command(
        "check_virtual_hosts",
        "Fails if a virtual host is down",
        "Checking if all vhosts are running on node {node} ...",
    ),
]

DIAGNOSTICS = [
    Command("alarms", "Lists resource alarms", "Asking node {node} to report any known resource alarms ..."),
    Command(
        "consume_event_stream [--duration <seconds>] [--pattern <pattern>]",
        "Streams events of the node, as JSON",
    ),
    Command("listeners", "Lists active listeners", "Asking node {node} to report its protocol listeners ..."),
    Command("log_location [--all]", "Says where the log is", "Log file location(s) on node {node} ..."),
    Command("log_tail [--number <number>]", "Prints the last lines of the log", tail_banner),
    Command("log_tail_stream [--duration <seconds>]", "Streams the log", stream_banner),
    Command(
        "memory_breakdown [--unit <unit>]",
        "Displays memory by use",
        "Reporting memory breakdown on node {node}...",
    ),
    Command(
        "server_version", "Displays the version that clients see", "Asking node {node} for its RabbitMQ version..."
    ),
]

PLUGINS = [
    Command(
        "disable [--all] [--offline] [--online] [<plugin>...]",
        "Does nothing: plugins stay enabled",
        switch_banner,
    ),
    Command(
        "enable [--all] [--offline] [--online] [<plugin>...]",
        "Fails if plugins are not enabled",
        switch_banner,
    ),
    Command("is_enabled [--offline] [--online] <plugin>...", "Fails if plugins are not enabled", enabled_banner),
    Command(
        "list [--verbose] [--minimal] [--enabled] [--implicitly-enabled] [<pattern>]",
        "Lists plugins by RabbitMQ's names",
        list_banner,
        short=LIST_SHORT,
    ),
    Command("set [--offline] [--online] <plugin>...", "Fails if plugins are not enabled", switch_banner),
]

GROUPS: dict[str, list[Command]] = {"Health checks": CHECKS, "Diagnostics": DIAGNOSTICS, "Plugins": PLUGINS}
