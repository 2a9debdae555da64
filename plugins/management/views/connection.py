"""The view of a connection."""

from __future__ import annotations

from warren.broker.amqp.table_json import json_of_table
from warren.broker.session.connection import Connection

from ..framework.pagination import Item
from ..stats.counters import connection_key
from .stats import NO_PROCESS, StatsView


def connection_identity(connection: Connection) -> Item:
    """The fields that identify a connection."""
    assert connection.user is not None
    return {
        "name": connection.name,
        "vhost": connection.vhost_name,  # also set for a connection that closed after the list was begun
        "user": connection.user.name,
        "node": connection.node.name,
    }


def connection_view(stats: StatsView, connection: Connection) -> Item:
    """The fields of a connection."""
    peer = connection.peer
    item = connection_identity(connection) | {
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
    item |= encryption_fields(connection)
    if stats.enabled:
        size_counters = {"recv_oct": connection.received_bytes, "send_oct": connection.sent_bytes}
        item |= stats.details("connection", connection_key(connection), size_counters)
        item |= {"recv_cnt": connection.received_reads, "send_cnt": connection.sent_writes}
        item |= {"send_pend": len(connection.output.buffer), **NO_PROCESS}
    return item


def encryption_fields(connection: Connection) -> Item:
    """The fields about TLS; null for a plain connection in lists."""
    tls = connection.peer.encryption
    return {
        "ssl": tls is not None,
        "ssl_protocol": tls.protocol if tls is not None else None,
        "ssl_cipher": tls.cipher if tls is not None else None,
        "ssl_hash": None,
        "ssl_key_exchange": None,
        "peer_cert_subject": (tls.subject or None) if tls is not None else None,
        "peer_cert_issuer": (tls.issuer or None) if tls is not None else None,
        "peer_cert_validity": (tls.validity or None) if tls is not None else None,
    }
