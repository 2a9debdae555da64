"""The view of a connection."""

from typing import Any, NotRequired, TypedDict, cast

import msgspec

from warren.broker.amqp.table_json import json_of_table
from warren.broker.session.connection import Connection

from ..stats.counters import connection_key
from ..stats.history import BYTE_COUNTERS
from .stats import NO_PROCESS, Process, RequestStats, optional, required, with_counters

# Fields that are null without TLS.
OF_TLS = (
    *("ssl_protocol", "ssl_cipher", "ssl_hash", "ssl_key_exchange"),
    *("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"),
)


class PeerView(TypedDict):
    """The name of a connection and the address of its client; a link within the broker has none."""

    name: str
    peer_host: str
    peer_port: int | str


class ConnectionIdentity(msgspec.Struct):
    """A connection in the list of its user."""

    name: str
    vhost: str
    user: str
    node: str


@with_counters(*BYTE_COUNTERS)
@required(str, "name", "vhost", "user", "node", "user_who_performed_action", "protocol", "type", "auth_mechanism")
@required(str, "host", "peer_host", "state")
@required(int, "port", "peer_port", "channels", "channel_max", "frame_max", "timeout", "connected_at")
@optional(str, "pid", "user_provided_name")
@optional(int, "recv_cnt", "send_cnt", "send_pend")
@optional(str | None, *OF_TLS)
class ConnectionView(Process):
    """A connection. The process id is only for callers at the unix socket.

    The fields about TLS are null in lists and otherwise empty if it has none.
    """

    client_properties: dict[str, object]
    ssl: NotRequired[bool]


def connection_identity(connection: Connection) -> ConnectionIdentity:
    assert connection.user is not None
    return ConnectionIdentity(connection.name, connection.vhost_name, connection.user.name, connection.node.name)


def connection_view(stats: RequestStats, connection: Connection) -> ConnectionView:
    peer, tls = connection.peer, connection.peer.encryption
    assert connection.user is not None
    item: Any = {
        "name": connection.name,
        "vhost": connection.vhost_name,  # also set for a connection that closed after the list was begun
        "user": connection.user.name,
        "node": connection.node.name,
        "user_who_performed_action": connection.login_name,
        "protocol": "AMQP 0-9-1",
        "type": "network",
        "auth_mechanism": connection.mechanism,
        "host": peer.local_host,
        "port": peer.local_port,
        "peer_host": peer.host,
        "peer_port": peer.port,
        "state": connection.state_text,
        "channels": len(connection.channels),
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "timeout": connection.heartbeat_s,
        "connected_at": connection.connected_at_ms,
        "client_properties": json_of_table(connection.client_properties),
    }
    if stats.pids:
        item["pid"] = str(connection)
    if connection.client_name:
        item["user_provided_name"] = connection.client_name
    item |= {"ssl": tls is not None, **dict.fromkeys(OF_TLS)}
    if tls is not None:
        item |= {"ssl_protocol": tls.protocol, "ssl_cipher": tls.cipher, "peer_cert_subject": tls.subject or None}
        item |= {"peer_cert_issuer": tls.issuer or None, "peer_cert_validity": tls.validity or None}
    if stats.enabled:
        size_counters = {"recv_oct": connection.received_bytes, "send_oct": connection.sent_bytes}
        item |= stats.details("connection", connection_key(connection), size_counters)
        item |= {"recv_cnt": connection.received_reads, "send_cnt": connection.sent_writes}
        item |= {"send_pend": len(connection.output.buffer)}
        item |= NO_PROCESS
    return cast(ConnectionView, item)
