"""Commands for connections and channels of clients."""

import time
from contextlib import suppress
from urllib.parse import quote

from ..call import Call, Item
from ..command import COLUMNS, MONITORING, OPERATIONS, V, columns, get, table_of
from ..errors import NotFound


def pid(name: str) -> str:
    """Return the name as one word; it replaces the Erlang pid, which the API does not have."""
    return quote(name, safe=":.->")


def pid_in(details: Item | None) -> str | None:
    """Return the pid of a connection or channel from the details of it in another object."""
    return pid(details["name"]) if details else None


CONNECTION = columns(
    "name port host peer_port peer_host ssl ssl_protocol ssl_cipher peer_cert_subject"
    " peer_cert_issuer peer_cert_validity state channels auth_mechanism user vhost timeout"
    " frame_max channel_max user_provided_name recv_oct recv_cnt send_oct send_cnt send_pend connected_at",
    pid=lambda connection: connection.get("pid") or pid(connection["name"]),
    protocol=lambda connection: "{0,9,1}" if connection.get("protocol") == "AMQP 0-9-1" else connection.get("protocol"),
    client_properties=table_of("client_properties"),
)
CHANNEL = columns(
    "name number user vhost transactional confirm consumer_count messages_unacknowledged"
    " messages_uncommitted acks_uncommitted messages_unconfirmed prefetch_count global_prefetch_count",
    pid=lambda channel: channel.get("pid") or pid(channel["name"]),
    connection=lambda channel: channel.get("connection_pid") or pid_in(channel["connection_details"]),
)


def connections(call: Call) -> list[Item]:
    """Return the connections of clients, without those inside the node."""
    return [one for one in call.get("connections") if one.get("type") != "direct"]


def close(call: Call, found: list[Item], delay_ms: int = 0) -> None:
    """Close the connections, except those that are closed already; the last argument is the reason."""
    reason = call.arguments[-1].replace("\r", " ").replace("\n", " ")
    header = reason.encode("utf-8", "surrogateescape").decode("latin-1")
    for one in found:
        with suppress(NotFound):
            call.delete("connections/{name}", headers={"X-Reason": header}, name=one["name"])
        time.sleep(delay_ms / 1000)


def close_connection(call: Call) -> None:
    """Close a connection; an unknown pid is no error, as in RabbitMQ."""
    wanted = call.arguments[0]
    close(call, [one for one in connections(call) if wanted in (one["name"], one.get("pid"), pid(one["name"]))])


def close_all_banner(call: Call) -> str:
    everywhere = f" to node {call.node} (across all vhosts)"
    where = everywhere if call.flag("global") else f" in vhost {call.vhost_name}"
    return f"Closing all connections{where}, reason: {call.arguments[0]}..."


def close_all_connections(call: Call) -> str:
    """Raises CommandError (64, 65)."""
    if not call.flag("global"):
        call.check_vhost()
    limit, delay_ms = call.integer("limit", 0), call.integer("per-connection-delay", 0)
    found = [one for one in connections(call) if call.flag("global") or one.get("vhost") == call.vhost_name]
    found = found[: limit or None]
    close(call, found, delay_ms)
    return f"Closed {len(found)} connections"


# fmt: off
MONITORING(f"list_connections {COLUMNS}: Lists AMQP 0-9-1 connections", "Listing connections ...", connections,
           columns=CONNECTION, default="user peer_host peer_port state")
MONITORING(f"list_channels {COLUMNS}: Lists all channels in the node", "Listing channels ...", get("channels"),
           columns=CHANNEL, default="pid user consumer_count messages_unacknowledged")
OPERATIONS("close_connection <connection_pid> <explanation>: Closes a connection",
           "Closing connection {0}, reason: {1}...", close_connection)
OPERATIONS("close_all_user_connections <username> <explanation>: Closes all connections of a user",
           "Closing connections of user {0}, reason: {1}...",
           lambda call: close(call, [one for one in connections(call) if one.get("user") == call.arguments[0]]))
OPERATIONS(f"close_all_connections {V} [--limit <limit>] [--per-connection-delay <milliseconds>] [--global] "
           "<explanation>: Closes the connections to a virtual host, or all",
           close_all_banner, close_all_connections)
