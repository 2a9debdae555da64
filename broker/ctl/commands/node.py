"""Commands that start and stop the node, or wait for it."""

from ..command import NODES, UPGRADES, send

# fmt: off
NODES("ping: Checks that the node answers", "Will ping {node}. Timeout: {timeout_ms} ms.",
      lambda call: "Ping succeeded", timeout_s=60.0)
# `main` waits for the answer of the node, and for its end.
NODES("await_startup: Waits for the node to start", timeout_s=300.0)
NODES("wait [--pid <pid>] [<pidfile>]: Waits for the node of a process to start", timeout_s=10.0)
NODES.local("stop [--idempotent] [<pidfile>]: "
            "Stops the node and waits for that, and for the end of the process in the pid file",
            "Stopping and halting node {node} ...", send("POST", "warren/shutdown"))
NODES.local("shutdown [--wait] [--no-wait]: Stops the node and waits for that",
            "Shutting down RabbitMQ node {node} ...", send("POST", "warren/shutdown"))
NODES.local("stop_app: Disconnects AMQP clients and accepts none", "Stopping rabbit application on node {node} ...",
            send("PUT", "warren/application", state="stopped"))
NODES.local("start_app: Accepts AMQP clients again", "Starting node {node} ...",
            send("PUT", "warren/application", state="running"))
NODES.local("reset: Returns a stopped node to its virgin state", "Resetting node {node} ...",
            send("POST", "warren/reset"))
NODES.local("force_reset: Does the same as reset", "Forcefully resetting node {node} ...", send("POST", "warren/reset"))
UPGRADES.local("drain: Closes listeners and connections for maintenance",
               "Will put node {node} into maintenance mode. The node will no longer serve any client traffic!",
               send("PUT", "warren/listeners", state="drained"))
UPGRADES.local("revive: Opens the listeners after `drain`",
               "Will put node {node} back into regular operating mode. The node will again serve client traffic ...",
               send("PUT", "warren/listeners", state="running"))
