"""Commands that list objects, act on them, and operate the node."""

from __future__ import annotations

from ...standard_streams import is_output
from ..command import LISTING, Command
from ..request import Request
from .users_and_access import V, close_all_banner

COLUMNS = f"{LISTING} [<column>, ...]"
QUEUES_WAIT_S = 60.0
STARTUP_WAIT_S, WAIT_S = 300.0, 10.0
IMPORTING = "Importing definitions in JSON from the standard input ..."


def federation_banner(request: Request) -> str:
    which = " which are down" if request.options.get("only-down") else ""
    return f"Listing federation links{which} on node {request.node}..."


def import_banner(request: Request) -> str:
    files = [file for file in request.arguments if file != "-"]
    return f'Importing definitions in JSON from a file at "{files[0]}" ...' if files else IMPORTING


def delete_queue_banner(request: Request) -> str:
    conditions = [f"if queue is {word}" for word in ("empty", "unused") if request.options.get(f"if-{word}")]
    condition = f"{' and '.join(conditions)} " if conditions else ""
    return f"Deleting queue '{request.arguments[0]}' on vhost '{request.vhost_name}' {condition}..."


def move_banner(request: Request) -> str:
    queue, destination = request.arguments
    kind = "exchange" if request.options.get("to-exchange") else "queue"
    return f"Moving messages of queue '{queue}' to {kind} '{destination}' in vhost '{request.vhost_name}' ..."


def memory_banner(request: Request) -> str:
    first, *rest = request.arguments
    return f"Setting memory threshold on {request.node} to {f'{rest[0]} bytes' if rest else first} ..."


def disk_banner(request: Request) -> str:
    first, *rest = request.arguments
    limit = f"{rest[0]} times the total RAM" if rest else f"{first} bytes"
    return f"Setting disk free limit on {request.node} to {limit} ..."


def feature_banner(request: Request) -> str:
    (name,) = request.arguments
    return "Enabling all feature flags ..." if name == "all" else f'Enabling feature flag "{name}" ...'


def deprecated_banner(request: Request) -> str:
    return f"Listing deprecated features{' in use' if request.options.get('used') else ''} ..."


def export_banner(request: Request) -> str:
    """Return "" for the standard output, which gets only the definitions."""
    (file,) = request.arguments
    return "" if is_output(file) else f'Exporting definitions in JSON to a file at "{file}" ...'


LISTS = [
    Command(f"list_bindings {V} {COLUMNS}", "Lists all bindings in a vhost", "Listing bindings for vhost {vhost}..."),
    Command(f"list_channels {COLUMNS}", "Lists all channels in the node", "Listing channels ..."),
    Command(f"list_ciphers {LISTING}", "Lists cipher suites for TLS", "Listing supported ciphers ..."),
    Command(f"list_connections {COLUMNS}", "Lists AMQP 0-9-1 connections", "Listing connections ..."),
    Command(
        f"list_consumers {V} {COLUMNS}", "Lists all consumers in a vhost", "Listing consumers in vhost {vhost} ..."
    ),
    Command(f"list_exchanges {V} {COLUMNS}", "Lists exchanges", "Listing exchanges for vhost {vhost} ..."),
    Command(
        f"list_queues {V} [--online] [--offline] [--local] {COLUMNS}",
        "Lists queues and their properties",
        "Timeout: {timeout} seconds ...\nListing queues for vhost {vhost} ...",
        timeout_s=QUEUES_WAIT_S,
    ),
    Command(
        f"list_unacked_messages {V} [--limit <limit>] {LISTING} <queue>",
        "Lists the oldest unacknowledged messages of a queue, with consumer and age in seconds",
        "Listing unacknowledged messages of queue '{0}' in vhost '{vhost}' ...",
    ),
    Command(
        f"list_unresponsive_queues {V} [--local] [--queue-timeout <milliseconds>] {COLUMNS}",
        "Lists queues that do not respond",
        "Listing unresponsive queues for vhost {vhost} ...",
    ),
]

ACTIONS = [
    Command(
        f"close_all_connections {V} [--limit <limit>] [--per-connection-delay <milliseconds>] [--global] <explanation>",
        "Closes the connections to a virtual host, or all",
        close_all_banner,
    ),
    Command(
        "close_all_user_connections <username> <explanation>",
        "Closes all connections of a user",
        "Closing connections of user {0}, reason: {1}...",
    ),
    Command(
        "close_connection <connection_pid> <explanation>",
        "Closes a connection",
        "Closing connection {0}, reason: {1}...",
    ),
    Command(
        f"delete_queue {V} [--if-empty] [--if-unused] <queue>",
        "Deletes a queue",
        delete_queue_banner,
    ),
    Command(
        f"move_messages {V} [--count <count>] [--to-exchange] [--routing-key <routing-key>] <queue> <destination>",
        "Moves ready messages to another queue or to an exchange",
        move_banner,
    ),
    Command(
        f"purge_queue {V} <queue>", "Removes all messages of a queue", "Purging queue '{0}' in vhost '{vhost}' ..."
    ),
]

FEDERATION = [
    Command(
        f"federation_status [--only-down] {COLUMNS}",
        "Displays the state of federation links",
        federation_banner,
        format="maps",
    ),
    Command(
        "restart_federation_link <link_id>",
        "Restarts a federation link",
        "Restarting federation link {0} on node {node}",
    ),
]

DEFINITIONS = [
    Command(
        "export_definitions [--format <format>] <file>",
        "Exports definitions to a file, - being the standard output",
        export_banner,
    ),
    Command(
        "import_definitions [--format <format>] [--skip-if-unchanged] [--leave-out] [<file>]",
        "Imports definitions from a file or the standard input",
        import_banner,
    ),
]

NODE = [
    Command(
        "await_online_nodes <count>",
        "Fails for more than one node: only one is active",
        "Will wait for at least {0} nodes to join the cluster of {node}. Timeout: {timeout_s} seconds.",
        timeout_s=STARTUP_WAIT_S,
    ),
    Command("await_startup", "Waits for the node to start", timeout_s=STARTUP_WAIT_S),
    Command("cluster_status", "Displays all nodes and their alarms", "Cluster status of node {node} ..."),
    Command("enable_feature_flag [--opt-in] [--experimental] <feature_flag>", "Enables a feature flag", feature_banner),
    Command("environment", "Displays the configuration, without secrets", "Application environment of node {node} ..."),
    Command("eval <expression>", "Evaluates one of a few known expressions"),
    Command(f"list_deprecated_features [--used] {COLUMNS}", "Lists deprecated features", deprecated_banner),
    Command(f"list_exchange_types {LISTING}", "Lists exchange types", "Listing exchange types ..."),
    Command(f"list_feature_flags {COLUMNS}", "Lists feature flags", "Listing feature flags ..."),
    Command(
        "force_gc",
        "Does nothing: memory is freed as soon as it is not used",
        "Will ask all processes on node {node} to schedule a full sweep GC",
    ),
    Command("force_reset", "Does the same as reset", "Forcefully resetting node {node} ..."),
    Command("ping", "Checks that the node answers", "Will ping {node}. Timeout: {timeout_ms} ms.", timeout_s=60.0),
    Command(
        "reconcile_vhosts",
        "Does nothing: virtual hosts run as long as the node",
        "Will try to initiate virtual host reconciliation on all reachable cluster nodes...",
    ),
    Command("report", "Displays all that helps to find a fault", "Reporting server status of node {node} ..."),
    Command("reset", "Returns a stopped node to its virgin state", "Resetting node {node} ..."),
    Command(
        "resume_listeners",
        "Resumes client connection listeners",
        "Will resume client connection listeners on node {node}. The node will now accept client connections",
    ),
    Command("rotate_logs", "Opens log files anew", "Rotating logs for node {node} ..."),
    Command("set_cluster_name <name>", "Sets the name of the cluster", "Setting cluster name to {0} ..."),
    Command("set_disk_free_limit <disk_limit> [<fraction>]", "Sets the disk_free_limit setting", disk_banner),
    Command("set_log_level <log_level>", "Sets the level of the log", 'Setting log level to "{0}" ...'),
    Command(
        "set_vm_memory_high_watermark <fraction> [<bytes>]", "Sets the vm_memory_high_watermark setting", memory_banner
    ),
    Command(
        "shutdown [--wait] [--no-wait]", "Stops the node and waits for that", "Shutting down RabbitMQ node {node} ..."
    ),
    Command("start_app", "Accepts AMQP clients again", "Starting node {node} ..."),
    Command("status [--unit <unit>]", "Displays status of the node", "Status of node {node} ..."),
    Command(
        "stop [--idempotent] [<pidfile>]",
        "Stops the node and waits for that, and for the end of the process in the pid file",
        "Stopping and halting node {node} ...",
    ),
    Command("stop_app", "Disconnects AMQP clients and accepts none", "Stopping rabbit application on node {node} ..."),
    Command(
        "suspend_listeners",
        "Suspends client connection listeners",
        "Will suspend client connection listeners on node {node}. The node will no longer accept client connections!",
    ),
    Command("version", "Displays the version of this command"),
    Command("wait [--pid <pid>] [<pidfile>]", "Waits for the node of a process to start", timeout_s=WAIT_S),
]

GROUPS: dict[str, list[Command]] = {
    "Monitoring, observability": LISTS,
    "Operations": ACTIONS,
    "Federation": FEDERATION,
    "Definitions": DEFINITIONS,
    "Nodes": NODE,
}
