"""Metrics of connections. The label of a connection's process is `channel`, as in RabbitMQ."""

from collections.abc import Iterable

from warren.broker.session.connection import Connection

from .families import Family, PerObjectGroup, Texts, Values, text
from .scope import Scope

LABELS = ("channel", "connection")


def all_connections(scope: Scope) -> Iterable[Connection]:
    return scope.connections


def texts(connection: Connection) -> Texts:
    return text(str(connection)), text(connection.name)


def byte_counts(connection: Connection) -> Values:
    return connection.received_bytes, connection.sent_bytes, 0


def closed_byte_counts(scope: Scope) -> Values:
    of = scope.node.closed
    return of.received_bytes, of.sent_bytes, 0


def packets(connection: Connection) -> Values:
    return connection.received_reads, connection.sent_writes, len(connection.output.buffer), len(connection.channels)


def closed_packet_counts(scope: Scope) -> Values:
    of = scope.node.closed
    return of.received_reads, of.sent_writes, 0, 0


GROUPS = (
    PerObjectGroup(
        "connection_coarse_metrics",
        (
            Family("connection_incoming_bytes_total", "counter", "Bytes received"),
            Family("connection_outgoing_bytes_total", "counter", "Bytes sent"),
            Family("connection_process_reductions_total", "counter", "0: there are no Erlang processes here"),
        ),
        all_connections,
        byte_counts,
        LABELS,
        texts,
        deleted=closed_byte_counts,
    ),
    PerObjectGroup(
        "connection_metrics",
        (
            Family("connection_incoming_packets_total", "counter", "Reads of a socket"),
            Family("connection_outgoing_packets_total", "counter", "Writes to a socket"),
            Family("connection_pending_packets", "gauge", "Bytes that wait to be sent"),
            Family("connection_channels", "gauge", "Channels of a connection"),
        ),
        all_connections,
        packets,
        LABELS,
        texts,
        deleted=closed_packet_counts,
    ),
)
