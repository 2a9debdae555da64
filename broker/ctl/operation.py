"""Commands that list what runs, act on it, and look after the node."""

from __future__ import annotations

from .administration import V, close_all_banner
from .command import LISTING, Command, Request

COLUMNS = f"{LISTING} [<column>, ...]"
QUEUES_WAIT_S = 60.0


def export_banner(request: Request) -> str:
    """Nothing but the definitions goes to the standard output."""
    (file,) = request.arguments
    return "" if file == "-" else f'Exporting definitions in JSON to a file at "{file}" ...'


LISTS = [
    Command(f"list_bindings {V} {COLUMNS}", "Lists all bindings in a vhost", "Listing bindings for vhost {vhost}..."),
    Command(f"list_channels {COLUMNS}", "Lists all channels in the node", "Listing channels ..."),
    Command(f"list_ciphers {LISTING}", "Lists cipher suites for TLS", "Listing ciphers ..."),
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
        f"list_unresponsive_queues {V} [--local] {COLUMNS}",
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
        'Closing connections of user "{0}", reason: {1}...',
    ),
    Command(
        "close_connection <connection_pid> <explanation>",
        "Closes a connection",
        "Closing connection {0}, reason: {1}...",
    ),
    Command(
        f"delete_queue {V} [--if-empty] [--if-unused] <queue>",
        "Deletes a queue",
        "Deleting queue '{0}' on vhost '{vhost}' ...",
    ),
    Command(
        f"purge_queue {V} <queue>", "Removes all messages of a queue", "Purging queue '{0}' in vhost '{vhost}' ..."
    ),
]

FEDERATION = [
    Command(
        "federation_status [--only-down]",
        "Displays the state of federation links",
        "Listing federation links on node {node}...",
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
        "import_definitions [--format <format>] [--skip-if-unchanged] [<file>]",
        "Imports definitions from a file or the standard input",
        "Importing definitions in JSON ...",
    ),
]

NODE = [
    Command("await_startup", "Waits for the node to start", "Waiting for the node to start ..."),
    Command("cluster_status", "Displays all nodes, and what they are low on", "Cluster status of node {node} ..."),
    Command("enable_feature_flag <feature_flag>", "Enables a feature flag", 'Enabling feature flag "{0}" ...'),
    Command("environment", "Displays the configuration, without secrets", "Application environment of node {node} ..."),
    Command("eval <expression>", "Evaluates one of a few known expressions"),
    Command(f"list_deprecated_features {LISTING}", "Lists deprecated features", "Listing deprecated features ..."),
    Command(f"list_feature_flags {LISTING}", "Lists feature flags", "Listing feature flags ..."),
    Command("ping", "Checks that the node answers", "Will ping {node}. Timeout: {timeout_ms} ms.", timeout_s=60.0),
    Command("reset", "Returns a stopped node to its virgin state", "Resetting node {node} ..."),
    Command("resume_listeners", "Resumes client connection listeners", "Will resume client connection listeners ..."),
    Command("rotate_logs", "Opens log files anew", "Rotating logs for node {node} ..."),
    Command("set_cluster_name <name>", "Sets the name of the cluster", "Setting cluster name to {0} ..."),
    Command("set_disk_free_limit <disk_limit> [<fraction>]", "Sets the disk_free_limit setting", ""),
    Command("set_log_level <log_level>", "Sets the level of the log", 'Setting log level to "{0}" ...'),
    Command("set_vm_memory_high_watermark <fraction> [<bytes>]", "Sets the vm_memory_high_watermark setting", ""),
    Command("shutdown [--wait]", "Stops the node and waits for that", "Shutting down RabbitMQ node {node} ..."),
    Command("start_app", "Accepts AMQP clients again", "Starting node {node} ..."),
    Command("status [--unit <unit>]", "Displays status of the node", "Status of node {node} ..."),
    Command("stop", "Stops the node and waits for that", "Stopping and halting node {node} ..."),
    Command("stop_app", "Disconnects AMQP clients and accepts none", "Stopping rabbit application on node {node} ..."),
    Command(
        "suspend_listeners", "Suspends client connection listeners", "Will suspend client connection listeners ..."
    ),
    Command("version", "Displays the version of this command"),
    Command("wait [--pid <pid>] [<pidfile>]", "Waits for the node to start", ""),
]

DIAGNOSTICS = [
    Command("alarms", "Lists resource alarms", "Listing alarms on node {node} ..."),
    Command("check_alarms", "Fails if there are alarms", "Asking node {node} to report any resource alarms ..."),
    Command(
        "check_certificate_expiration [--within <within>] [--unit <unit>]",
        "Fails if certificates are about to expire",
        "Checking if any certificates are expiring on node {node} ...",
    ),
    Command("check_local_alarms", "Fails if there are alarms", "Asking node {node} to report any local alarms ..."),
    Command(
        "check_port_connectivity",
        "Fails if no listener accepts connections",
        "Testing TCP connections on node {node} ...",
    ),
    Command(
        "check_port_listener <port>",
        "Fails if nobody listens on the port",
        "Asking node {node} if there's an active listener on port {0} ...",
    ),
    Command(
        "check_protocol_listener <protocol>",
        "Fails if nobody listens for the protocol",
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
    Command("listeners", "Lists active listeners", "Asking node {node} to report its protocol listeners ..."),
    Command("log_location", "Says where the log is", "Asking node {node} where its log is ..."),
    Command("memory_breakdown", "Says what memory is used for", "Reporting memory breakdown on node {node}..."),
    Command(
        "server_version", "Displays the version that clients see", "Asking node {node} for its RabbitMQ version..."
    ),
]

GROUPS: dict[str, list[Command]] = {
    "Monitoring, observability": LISTS,
    "Operations": ACTIONS,
    "Federation": FEDERATION,
    "Definitions": DEFINITIONS,
    "Nodes": NODE,
    "Diagnostics": DIAGNOSTICS,
}
