"""Commands that list the objects of virtual hosts, connections and channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ..answers import CommandError, Rows, no_vhost
from ..api_client import NotFound
from ..columns import Columns, select_columns
from ..exit_status import USAGE
from .call import Call, Handler, Item


def field(*names: str) -> Callable[[Item], Any]:
    """Return a function that reads the value at a path of keys, or None."""

    def read(item: Item) -> Any:
        value: Any = item
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    return read


def columns(*names: str, **others: Callable[[Item], Any]) -> Columns[Item]:
    """Return columns with the API's names, and others."""
    return {name: field(name) for name in names} | others


def table_of(name: str) -> Callable[[Item], Any]:
    """Return a function that reads a JSON object; RabbitMQ writes an empty one as a list."""
    return lambda item: item.get(name) or {}


def pid(name: str) -> str:
    """Return the name as one word; it replaces the Erlang pid, which the API does not have."""
    return quote(name, safe=":.->")


def owner_name(queue: Item) -> str | None:
    return pid(queue["owner_pid_details"]["name"]) if queue.get("owner_pid_details") else None


def channel_pid(consumer: Item) -> object:
    return consumer["channel_pid"] if "channel_pid" in consumer else pid(consumer["channel_details"]["name"])


QUEUE: Columns[Item] = columns(
    *("name", "durable", "auto_delete", "policy", "operator_policy", "exclusive", "exclusive_consumer_tag"),
    *("messages", "messages_ready", "messages_unacknowledged", "messages_ready_ram", "messages_unacknowledged_ram"),
    *("messages_ram", "messages_persistent", "message_bytes", "message_bytes_ready", "message_bytes_unacknowledged"),
    *("message_bytes_ram", "message_bytes_persistent", "head_message_timestamp", "disk_reads", "disk_writes"),
    *("consumers", "consumer_utilisation", "consumer_capacity", "memory", "state", "type", "leader", "members"),
    *("online", "replicated", "guarantee"),
    arguments=table_of("arguments"),
    effective_policy_definition=table_of("effective_policy_definition"),
    pid=lambda queue: f"<{queue['vhost']}.{queue['name']}>".replace(" ", "_"),
    owner_pid=lambda queue: queue.get("owner_pid") or owner_name(queue),
    exclusive_consumer_pid=field("exclusive_consumer_pid"),
)
EXCHANGE: Columns[Item] = columns(
    *("name", "type", "durable", "auto_delete", "internal", "policy"), arguments=table_of("arguments")
)
BINDING: Columns[Item] = {
    "source_name": field("source"),
    "source_kind": lambda binding: "exchange",
    "destination_name": field("destination"),
    "destination_kind": field("destination_type"),
    "routing_key": field("routing_key"),
    "arguments": table_of("arguments"),
}
CONNECTION: Columns[Item] = columns(
    *("name", "port", "host", "peer_port", "peer_host", "ssl", "ssl_protocol", "ssl_cipher", "peer_cert_subject"),
    *("peer_cert_issuer", "peer_cert_validity", "state", "channels", "auth_mechanism", "user", "vhost", "timeout"),
    *("frame_max", "channel_max", "user_provided_name", "recv_oct", "recv_cnt", "send_oct", "send_cnt", "send_pend"),
    "connected_at",
    pid=lambda connection: connection.get("pid") or pid(connection["name"]),
    protocol=lambda connection: "{0,9,1}" if connection.get("protocol") == "AMQP 0-9-1" else connection.get("protocol"),
    client_properties=table_of("client_properties"),
)
CHANNEL: Columns[Item] = columns(
    *("name", "number", "user", "vhost", "transactional", "confirm", "consumer_count", "messages_unacknowledged"),
    *("messages_uncommitted", "acks_uncommitted", "messages_unconfirmed", "prefetch_count", "global_prefetch_count"),
    pid=lambda channel: channel.get("pid") or pid(channel["name"]),
    connection=lambda channel: channel.get("connection_pid") or pid(channel["connection_details"]["name"]),
)
CONSUMER: Columns[Item] = columns(
    *("consumer_tag", "ack_required", "prefetch_count", "active", "activity_status", "exclusive"),
    queue_name=field("queue", "name"),
    channel_pid=lambda consumer: channel_pid(consumer),
    arguments=table_of("arguments"),
)
CONSUMERS = ("queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments")
UNACKED: Columns[Item] = columns(
    "delivery_tag",
    "consumer_tag",
    channel=lambda message: pid(message["channel_details"]["name"]),
    user=field("channel_details", "user"),
    age=lambda message: message.get("age", ""),
    exchange=field("exchange"),
    routing_key=field("routing_key"),
    payload_bytes=field("payload_bytes"),
)
FEATURE: Columns[Item] = columns("name", "state", "stability", "provided_by", "desc", "doc_url")
DEPRECATED: Columns[Item] = columns("name", "deprecation_phase", "provided_by", "desc", "doc_url")


def of_vhost(call: Call, what: str) -> list[Item]:
    """Return the objects of a virtual host. Raises CommandError (65) if it does not exist."""
    try:
        found: list[Item] = call.api.get(what, call.vhost_name)
    except NotFound:
        raise no_vhost(call.vhost_name) from None
    return found


def list_queues(call: Call) -> Rows:
    queues = of_vhost(call, "queues")
    if call.flag("offline"):
        queues = [queue for queue in queues if queue.get("state") in ("down", "stopped", "crashed")]
    return select_columns(QUEUE, call.arguments, ("name", "messages"), queues)


def list_exchanges(call: Call) -> Rows:
    return select_columns(EXCHANGE, call.arguments, ("name", "type"), of_vhost(call, "exchanges"))


def list_bindings(call: Call) -> Rows:
    return select_columns(BINDING, call.arguments, tuple(BINDING), of_vhost(call, "bindings"))


def list_consumers(call: Call) -> Rows:
    return select_columns(CONSUMER, call.arguments, CONSUMERS, of_vhost(call, "consumers"))


def list_connections(call: Call) -> Rows:
    default = ("user", "peer_host", "peer_port", "state")
    return select_columns(CONNECTION, call.arguments, default, connections(call))


def connections(call: Call) -> list[Item]:
    """Return the connections of clients, without those inside the node."""
    return [one for one in call.api.get("connections") if one.get("type") != "direct"]


def list_channels(call: Call) -> Rows:
    default = ("pid", "user", "consumer_count", "messages_unacknowledged")
    return select_columns(CHANNEL, call.arguments, default, call.api.get("channels"))


def list_feature_flags(call: Call) -> Rows:
    return select_columns(FEATURE, call.arguments, ("name", "state"), call.api.get("feature-flags"))


def list_deprecated_features(call: Call) -> Rows:
    path = ("deprecated-features", *(["used"] if call.flag("used") else []))
    return select_columns(DEPRECATED, call.arguments, tuple(DEPRECATED)[:4], call.api.get(*path))


def list_exchange_types(call: Call) -> Rows:
    """List exchange types; Warren's unix socket also returns the distribution that each comes from."""
    types = sorted(call.api.get("overview")["exchange_types"], key=lambda one: str(one["name"]))
    columns = ["name", "provided_by"] if call.is_local else ["name"]
    return Rows(columns, ([type_[column] for column in columns] for type_ in types))


def list_unacked_messages(call: Call) -> Rows:
    """Raises CommandError (64, 65) for an unknown queue or virtual host, APIError for a limit that the API refuses."""
    call.vhost()
    path = ("warren", "queues", call.vhost_name, call.arguments[0], "unacked")
    try:
        found = call.api.get(*path, **({"limit": call.text("limit")} if call.text("limit") else {}))
    except NotFound:
        raise CommandError(USAGE, "Queue not found") from None
    return select_columns(UNACKED, [], tuple(UNACKED), found)


def list_unresponsive_queues(call: Call) -> Rows:
    """Return an empty list: queues share the event loop that answers this request. Raises CommandError (65)."""
    call.vhost()
    call.integer("queue-timeout", 0)
    return select_columns(QUEUE, call.arguments, ("name",), [])


COMMANDS: dict[str, Handler] = {
    "list_bindings": list_bindings,
    "list_channels": list_channels,
    "list_connections": list_connections,
    "list_consumers": list_consumers,
    "list_deprecated_features": list_deprecated_features,
    "list_exchange_types": list_exchange_types,
    "list_exchanges": list_exchanges,
    "list_feature_flags": list_feature_flags,
    "list_queues": list_queues,
    "list_unacked_messages": list_unacked_messages,
    "list_unresponsive_queues": list_unresponsive_queues,
}
