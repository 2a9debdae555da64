"""Commands that start and stop the node, or wait for it; and those for a cluster, which has one node here."""

import sys

from ..call import Call
from ..command import CHECKS, DIAGNOSTICS, NODES, UPGRADES, send
from ..errors import UNAVAILABLE, CommandError, ExitError
from ..formats import Report

ALONE = "Target node seems to be the only one in a single node cluster, the command does not apply"
KEPT = (
    "Nothing was deleted. To keep a copy first: warrenctl backup FILE, or export_definitions FILE without the messages."
    " To delete less: purge_queue, delete_queue, delete_vhost"
)
DEPRECATED = "This command is DEPRECATED and is a no-op. It will be removed in a future version."


def await_online_nodes(call: Call) -> None:
    """Raises CommandError (65, 69) for more than one node, which could never be active together."""
    count = call.positive_argument()
    if count > 1:
        raise CommandError(UNAVAILABLE, f"One node is active, never {count}: a standby takes over from it")


def check_quorum_critical(call: Call) -> Report:
    """Confirm that no quorum is lost with the node: its quorum queues have no other replicas to wait for."""
    call.check_health("node-is-quorum-critical")
    text = "seems to be the only one in a single node cluster, the check does not apply"
    return Report(f"Node {call.node} {text}", {"message": f"Target node {text}", "result": "ok"})


def reset(call: Call) -> None:
    """Delete all definitions and messages; a person at a terminal is asked first. Raises ExitError (69)."""
    is_asked = sys.stdin is not None and sys.stdin.isatty() and not (call.flag("quiet") or call.flag("silent"))
    if is_asked and not is_confirmed(contents(call)):
        raise ExitError(UNAVAILABLE, f"Error:\n{KEPT}")
    call.post("warren/reset")


def is_confirmed(what: str) -> bool:
    print(what, "Type yes to delete all of it: ", sep="\n", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip() == "yes"
    except (OSError, UnicodeDecodeError):
        return False


def contents(call: Call) -> str:
    """Return what a reset deletes, in one sentence."""
    overview = call.get("overview")
    objects, messages = overview["object_totals"], overview["queue_totals"].get("messages", 0)
    vhosts, users = (len(call.get(path, {"columns": "name"})) for path in ("vhosts", "users"))
    counts = f"{vhosts} virtual hosts, {users} users, {objects['queues']} queues with {messages} messages"
    return f"This deletes all definitions and messages of node {call.node}: {counts}, and all policies and parameters."


# fmt: off
NODES("ping: Checks that the node answers", "Will ping {node}. Timeout: {timeout_ms} ms.",
      lambda call: "Ping succeeded", timeout_s=60.0)
# `main` waits for the answer of the node, and for its end.
NODES("await_startup: Waits for the node to start", timeout_s=300.0)
NODES("wait [--pid <pid>] [<pidfile>]: Waits for the node of a process to start", timeout_s=10.0)
NODES.local("stop [--idempotent] [<pidfile>]: "
            "Stops the node, and waits for the end of its process and of that in the pid file",
            "Stopping and halting node {node} ...", send("POST", "warren/shutdown"))
NODES.local("shutdown [--wait] [--no-wait]: Stops the node, and waits for the end of its process",
            "Shutting down RabbitMQ node {node} ...", send("POST", "warren/shutdown"))
NODES.local("stop_app: Disconnects AMQP clients and accepts none", "Stopping rabbit application on node {node} ...",
            send("PUT", "warren/application", state="stopped"))
NODES.local("start_app: Accepts AMQP clients again", "Starting node {node} ...",
            send("PUT", "warren/application", state="running"))
NODES.local("reset: Deletes all definitions and messages of a node after `stop_app`; asks first on a terminal",
            "Resetting node {node} ...", reset)
NODES.local("force_reset: Does the same as reset", "Forcefully resetting node {node} ...", reset)
UPGRADES.local("drain: Closes listeners and connections for maintenance",
               "Will put node {node} into maintenance mode. The node will no longer serve any client traffic!",
               send("PUT", "warren/listeners", state="drained"))
UPGRADES.local("revive: Opens the listeners after `drain`",
               "Will put node {node} back into regular operating mode. The node will again serve client traffic ...",
               send("PUT", "warren/listeners", state="running"))
NODES("set_cluster_name <name>: Sets the name of the cluster", "Setting cluster name to {0} ...",
      lambda call: call.put("cluster-name", {"name": call.arguments[0]}))
NODES("await_online_nodes <count>: Fails for more than one node: only one is active",
      "Will wait for at least {0} nodes to join the cluster of {node}. Timeout: {timeout_s} seconds.",
      await_online_nodes, timeout_s=300.0)
CHECKS("check_if_node_is_quorum_critical: Fails if stopping the node would lose a quorum, which it never does",
       "Checking if node {node} is critical for quorum of any queues/streams ...", check_quorum_critical)
CHECKS("check_if_new_quorum_queue_replicas_have_finished_initial_sync: Does nothing: a quorum queue has one replica",
       "Checking if node {node} runs promotable replicas of any queues ...",
       lambda call: f"Node {call.node} reported no queues with promotable replicas")
CHECKS("check_if_node_is_mirror_sync_critical: Does nothing: there are no mirrored queues", run=lambda call: DEPRECATED)
DIAGNOSTICS("node_health_check: Does nothing: use the checks above", run=lambda call: DEPRECATED)
UPGRADES("await_online_quorum_plus_one: Does nothing: no quorum is lost with the node",
         "Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams ...", lambda call: ALONE,
         timeout_s=120.0)
UPGRADES("await_online_synchronized_mirror: Does nothing: there are no mirrored queues", run=lambda call: ALONE,
         timeout_s=120.0)
UPGRADES("post_upgrade: Does nothing: there is nothing to rebalance", "Executing post upgrade tasks...",
         lambda call: ALONE)
UPGRADES("rebalance [--vhost-pattern <pattern>] [--queue-pattern <pattern>] <type>: "
         "Does nothing: there is nothing to rebalance", "Re-balancing leaders of {0} queues...")
