"""Commands of rabbitmq-diagnostics and rabbitmq-plugins."""

from __future__ import annotations

from ..command import LISTING, Command
from ..request import Request
from .users_and_access import V

UPGRADE_WAIT_S = 120.0
LIST_SHORT = {"enabled": "-E", "implicitly-enabled": "-e", "minimal": "-m", "verbose": "-v"}


def check_port_banner(request: Request) -> str:
    (port,) = request.arguments
    return f"Asking node {request.node} if there's an active listener on port {port} ..."


def connectivity_banner(request: Request) -> str:
    address = request.text("address", "")
    using = f" using {address} for node IP address" if address else ""
    return f"Testing TCP connections to all active listeners on node {request.node}{using} ..."


def ciphers_banner(request: Request) -> str:
    named = {"erlang": "Erlang term", "map": "map"}.get(request.text("format", ""), "OpenSSL")
    return f"Listing available cipher suites in {named} format"


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
        "check_port_connectivity [--address <address>]",
        "Fails if a listener accepts no connections",
        connectivity_banner,
    ),
    Command(
        "check_if_any_deprecated_features_are_used",
        "Fails if a deprecated feature is used",
        "Checking if any deprecated features are used ...",
    ),
    Command("check_if_node_is_mirror_sync_critical", "Does nothing: there are no mirrored queues"),
    Command(
        "check_if_node_is_quorum_critical",
        "Fails if stopping the node would lose a quorum, which it never does",
        "Checking if node {node} is critical for quorum of any queues/streams ...",
    ),
    Command(
        "check_if_new_quorum_queue_replicas_have_finished_initial_sync",
        "Does nothing: a quorum queue has one replica",
        "Checking if node {node} runs promotable replicas of any queues ...",
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
    Command("cipher_suites [--format <format>] [--all]", "Lists cipher suites for TLS", ciphers_banner),
    Command(
        "erlang_version [--details] [--offline]",
        "Displays the version of the runtime",
        "Asking node {node} for the version of its runtime...",
    ),
    Command("is_booting", "Says whether the node is starting", "Asking node {node} for its boot status ..."),
    Command("is_running", "Fails if AMQP clients cannot connect", "Asking node {node} for its status ..."),
    Command(
        f"list_node_auth_attempt_stats [--by-source] {LISTING}",
        "Counts logins by protocol",
        'Listing authentication\n attempts for node "{node}" ...',
    ),
    Command("node_health_check", "Does nothing: use the checks above"),
    Command(
        f"quorum_status {V} {LISTING} <queue>",
        "Displays the replica of a quorum queue, and what has its confirmed messages",
        "Status of quorum queue {0} on node {node} ...",
    ),
    Command("tls_versions", "Lists versions of TLS", "Listing all TLS versions supported by the runtime..."),
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
        "reset_node_auth_attempt_metrics",
        "Counts logins from 0 again",
        "Reset auth attempt metrics on node {node} ...",
    ),
    Command(
        "server_version", "Displays the version that clients see", "Asking node {node} for its RabbitMQ version..."
    ),
]

UPGRADE = [
    Command(
        "await_online_quorum_plus_one",
        "Does nothing: no quorum is lost with the node",
        "Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams ...",
        timeout_s=UPGRADE_WAIT_S,
    ),
    Command("await_online_synchronized_mirror", "Does nothing: there are no mirrored queues", timeout_s=UPGRADE_WAIT_S),
    Command(
        "drain",
        "Closes listeners and connections for maintenance",
        "Will put node {node} into maintenance mode. The node will no longer serve any client traffic!",
    ),
    Command(
        "rebalance [--vhost-pattern <pattern>] [--queue-pattern <pattern>] <type>",
        "Does nothing: there is nothing to rebalance",
        "Re-balancing leaders of {0} queues...",
    ),
    Command("post_upgrade", "Does nothing: there is nothing to rebalance", "Executing post upgrade tasks..."),
    Command(
        "revive",
        "Opens the listeners after `drain`",
        "Will put node {node} back into regular operating mode. The node will again serve client traffic ...",
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

GROUPS: dict[str, list[Command]] = {
    "Health checks": CHECKS,
    "Diagnostics": DIAGNOSTICS,
    "Upgrades": UPGRADE,
    "Plugins": PLUGINS,
}
