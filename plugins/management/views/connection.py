"""The view of a connection."""

from typing import NotRequired, TypedDict

import msgspec

from warren.broker.amqp.table_json import json_of_table
from warren.broker.session.connection import Connection

from ..stats.counters import connection_key
from ..stats.history import BYTE_COUNTERS
from .stats import NO_PROCESS, Process, RequestStats, with_counters


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


class Encryption(TypedDict, total=False):
    """The fields about TLS of a connection: in lists null if it has none, otherwise empty."""

    ssl: bool
    ssl_protocol: str | None
    ssl_cipher: str | None
    ssl_hash: str | None
    ssl_key_exchange: str | None
    peer_cert_subject: str | None
    peer_cert_issuer: str | None
    peer_cert_validity: str | None


@with_counters(*BYTE_COUNTERS)
class ConnectionView(Encryption, Process):
    """A connection. The process id is only for callers at the unix socket."""

    name: str
    vhost: str
    user: str
    node: str
    user_who_performed_action: str
    protocol: str
    type: str
    auth_mechanism: str
    host: str
    port: int
    peer_host: str
    peer_port: int
    state: str
    channels: int
    channel_max: int
    frame_max: int
    timeout: int
    connected_at: int
    client_properties: dict[str, object]
    pid: NotRequired[str]
    user_provided_name: NotRequired[str]
    recv_cnt: NotRequired[int]
    send_cnt: NotRequired[int]
    send_pend: NotRequired[int]


def connection_identity(connection: Connection) -> ConnectionIdentity:
    assert connection.user is not None
    return ConnectionIdentity(connection.name, connection.vhost_name, connection.user.name, connection.node.name)


def connection_view(stats: RequestStats, connection: Connection) -> ConnectionView:
    peer, tls = connection.peer, connection.peer.encryption
    assert connection.user is not None
    item: ConnectionView = {
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
    item |= {
        "ssl": tls is not None,
        "ssl_protocol": tls.protocol if tls is not None else None,
        "ssl_cipher": tls.cipher if tls is not None else None,
        "ssl_hash": None,
        "ssl_key_exchange": None,
        "peer_cert_subject": (tls.subject or None) if tls is not None else None,
        "peer_cert_issuer": (tls.issuer or None) if tls is not None else None,
        "peer_cert_validity": (tls.validity or None) if tls is not None else None,
    }
    if stats.enabled:
        size_counters = {"recv_oct": connection.received_bytes, "send_oct": connection.sent_bytes}
        item |= stats.details("connection", connection_key(connection), size_counters)
        item |= {"recv_cnt": connection.received_reads, "send_cnt": connection.sent_writes}
        item |= {"send_pend": len(connection.output.buffer)}
        item |= NO_PROCESS
    return item
