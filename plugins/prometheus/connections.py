"""Metrics of connections. The label of a connection's process is `channel`, as in RabbitMQ."""

from collections.abc import Iterable

from warren.broker.session.connection import Connection

from .families import PerObjectGroup, Texts, Values, counters, gauges, text
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


BYTES = counters(
    connection_incoming_bytes="Bytes received",
    connection_outgoing_bytes="Bytes sent",
    connection_process_reductions="0: there are no Erlang processes here",
)
PACKETS = (
    *counters(connection_incoming_packets="Reads of a socket", connection_outgoing_packets="Writes to a socket"),
    *gauges(connection_pending_packets="Bytes that wait to be sent", connection_channels="Channels of a connection"),
)
GROUPS = (
    PerObjectGroup(
        "connection_coarse_metrics", BYTES, all_connections, byte_counts, LABELS, texts, deleted=closed_byte_counts
    ),
    PerObjectGroup(
        "connection_metrics", PACKETS, all_connections, packets, LABELS, texts, deleted=closed_packet_counts
    ),
)
