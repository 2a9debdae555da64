"""Commands for queues: their messages, unacknowledged deliveries and consumers."""

from ..call import Call, Item
from ..command import COLUMNS, DIAGNOSTICS, LISTING, MONITORING, OPERATIONS, V, columns, field, table_of
from ..errors import UNAVAILABLE, USAGE, APIError, CommandError, missing, no_object
from ..formats import Answer, Rows
from .connections_and_channels import pid_in

EMPTY_MOVES = 50  # successive requests of a move for which the queue has no message: some seconds

QUEUE = columns(
    "name durable auto_delete policy operator_policy exclusive exclusive_consumer_tag"
    " messages messages_ready messages_unacknowledged messages_ready_ram messages_unacknowledged_ram"
    " messages_ram messages_persistent message_bytes message_bytes_ready message_bytes_unacknowledged"
    " message_bytes_ram message_bytes_persistent head_message_timestamp disk_reads disk_writes"
    " consumers consumer_utilisation consumer_capacity memory state type leader members online replicated guarantee",
    arguments=table_of("arguments"),
    effective_policy_definition=table_of("effective_policy_definition"),
    pid=lambda queue: f"<{queue['vhost']}.{queue['name']}>".replace(" ", "_"),
    owner_pid=lambda queue: queue.get("owner_pid") or pid_in(queue.get("owner_pid_details")),
    exclusive_consumer_pid=field("exclusive_consumer_pid"),
)
UNACKED = columns(
    "delivery_tag consumer_tag",
    channel=lambda message: pid_in(message["channel_details"]),
    user=field("channel_details", "user"),
    age=lambda message: message.get("age", ""),
    exchange=field("exchange"),
    routing_key=field("routing_key"),
    payload_bytes=field("payload_bytes"),
)
CONSUMER = columns(
    "consumer_tag ack_required prefetch_count active activity_status exclusive",
    queue_name=field("queue", "name"),
    channel_pid=lambda consumer: consumer.get("channel_pid") or pid_in(consumer["channel_details"]),
    arguments=table_of("arguments"),
)


def list_queues(call: Call) -> list[Item]:
    queues = call.list_in_vhost("queues/{vhost}")
    if call.flag("offline"):
        return [queue for queue in queues if queue.get("state") in ("down", "stopped", "crashed")]
    return queues


def list_unresponsive_queues(call: Call) -> list[Item]:
    """Return an empty list: queues share the event loop that answers this request. Raises CommandError (65)."""
    call.check_vhost()
    call.integer("queue-timeout", 0)
    return []


def list_unacked_messages(call: Call) -> Answer:
    """Raises CommandError (64, 65) for an unknown queue or virtual host, APIError for a limit that the API refuses."""
    call.check_vhost()
    limit = call.text("limit")
    with missing(CommandError(USAGE, "Queue not found")):
        return call.get("warren/queues/{vhost}/{0}/unacked", {"limit": limit} if limit else {})


def queue_path(call: Call) -> str:
    """Return the path of the queue; the unix socket's also deletes and purges exclusive queues of other connections."""
    return "warren/queues/{vhost}/{0}" if call.api.is_local else "queues/{vhost}/{0}"


def purge_queue(call: Call) -> None:
    with missing(no_object()):
        call.delete(queue_path(call) + "/contents")


def delete_banner(call: Call) -> str:
    conditions = [f"if queue is {word}" for word in ("empty", "unused") if call.flag(f"if-{word}")]
    condition = f"{' and '.join(conditions)} " if conditions else ""
    return f"Deleting queue '{call.arguments[0]}' on vhost '{call.vhost_name}' {condition}..."


def delete_queue(call: Call) -> str:
    queue = find_queue(call)
    conditions = {option: "true" for option in ("if-empty", "if-unused") if call.flag(option)}
    try:
        deleted = call.delete(queue_path(call), conditions)
    except APIError as error:
        if error.status != 400:
            raise
        state = "in use" if "in use" in error.reason else "not empty"
        text = f"Queue '{call.arguments[0]}' in vhost '{call.vhost_name}' is {state}"
        raise CommandError(UNAVAILABLE, text) from None
    ready = deleted["messages_ready"] if isinstance(deleted, dict) else queue.get("messages_ready", 0)
    return f"Queue was successfully deleted with {ready} ready messages"


def find_queue(call: Call) -> Item:
    """Return the queue of the first argument. Raises CommandError (64)."""
    queue = call.find("queues/{vhost}/{0}")
    if queue is None:
        raise CommandError(USAGE, "Queue not found")
    return queue


def move_banner(call: Call) -> str:
    queue, destination = call.arguments
    kind = "exchange" if call.flag("to-exchange") else "queue"
    return f"Moving messages of queue '{queue}' to {kind} '{destination}' in vhost '{call.vhost_name}' ..."


def move_messages(call: Call) -> str:
    """Move messages by requests of a tenth of a second each. Raises CommandError (64, 69)."""
    queue = find_queue(call)
    destination = call.arguments[1]
    kind = "exchange" if call.flag("to-exchange") else "queue"
    name = destination or ("amq.default" if kind == "exchange" else "")  # how paths name the exchange ""
    if call.find("{kind}s/{vhost}/{name}", kind=kind, name=name) is None:  # an empty queue asks the broker for no move
        raise CommandError(USAGE, f"Destination {kind} not found")
    target = {kind: destination}
    if kind == "exchange" and "routing-key" in call.options:
        target["routing_key"] = call.text("routing-key")
    ready: int = queue.get("messages_ready", 0)
    wanted = min(call.integer("count", ready), ready)
    moved = empty = 0
    problem = ""
    while moved < wanted and not problem and empty < EMPTY_MOVES:
        body = {"destination": target, "count": wanted - moved}
        try:
            answer = call.post("warren/queues/{vhost}/{0}/move", body)
        except APIError as error:
            if not moved:
                raise
            problem = error.reason
            break
        moved, problem = moved + answer["moved"], answer["problem"]
        empty = 0 if answer["moved"] else empty + 1
        if not answer["messages_ready"]:
            break
    if problem:
        raise CommandError(UNAVAILABLE, f"Moved {moved} messages, then: {problem}")
    return f"Moved {moved} messages"


def quorum_status(call: Call) -> Rows:
    """Raises CommandError (65, 69)."""
    queue = call.find("queues/{vhost}/{0}")
    if queue is None:
        raise no_object()
    if queue["type"] != "quorum":
        raise CommandError(UNAVAILABLE, f"Cannot get quorum status of a {queue['type']} queue")
    columns = ["Node Name", "Raft State", "Membership", "Replicated", "Guarantee"]
    return Rows(columns, [[call.node, "leader", "voter", queue.get("replicated"), queue.get("guarantee")]])


# fmt: off
MONITORING(f"list_queues {V} [--online] [--offline] [--local] {COLUMNS}: Lists queues and their properties",
           "Timeout: {timeout} seconds ...\nListing queues for vhost {vhost} ...", list_queues, columns=QUEUE,
           default="name messages", timeout_s=60.0)
MONITORING.local(f"list_unresponsive_queues {V} [--local] [--queue-timeout <milliseconds>] {COLUMNS}: "
                 "Lists queues that do not respond", "Listing unresponsive queues for vhost {vhost} ...",
                 list_unresponsive_queues, columns=QUEUE, default="name")
MONITORING(f"list_unacked_messages {V} [--limit <limit>] {LISTING} <queue>: "
           "Lists the oldest unacknowledged messages of a queue, with consumer and age in seconds",
           "Listing unacknowledged messages of queue '{0}' in vhost '{vhost}' ...", list_unacked_messages,
           columns=UNACKED)
MONITORING(f"list_consumers {V} {COLUMNS}: Lists all consumers in a vhost", "Listing consumers in vhost {vhost} ...",
           lambda call: call.list_in_vhost("consumers/{vhost}"), columns=CONSUMER,
           default="queue_name channel_pid consumer_tag ack_required prefetch_count active arguments")
OPERATIONS(f"purge_queue {V} <queue>: Removes all messages of a queue", "Purging queue '{0}' in vhost '{vhost}' ...",
           purge_queue)
OPERATIONS(f"delete_queue {V} [--if-empty] [--if-unused] <queue>: Deletes a queue", delete_banner, delete_queue)
OPERATIONS(f"move_messages {V} [--count <count>] [--to-exchange] [--routing-key <routing-key>] <queue> <destination>: "
           "Moves ready messages to another queue or to an exchange", move_banner, move_messages)
DIAGNOSTICS(f"quorum_status {V} {LISTING} <queue>: "
            "Displays the replica of a quorum queue, and what has its confirmed messages",
            "Status of quorum queue {0} on node {node} ...", quorum_status)
