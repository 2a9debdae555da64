"""Commands for a cluster, which has one node here: its name, quorum and replicas."""

from ..call import Call
from ..command import CHECKS, DIAGNOSTICS, NODES, UPGRADES
from ..errors import UNAVAILABLE, CommandError
from ..formats import Report

ALONE = "Target node seems to be the only one in a single node cluster, the command does not apply"
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


# fmt: off
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
