"""Lists of who is connected: connections, channels, consumers."""

from __future__ import annotations

from ..amqp.table_json import json_of_table
from ..core.queues.consumers import Consumer, is_active
from ..session.channel import Channel
from ..session.connection import Connection
from ..session.consumer import ChannelConsumer
from ..session.events import pid
from ..session.transport import Encryption
from .answers import Rows
from .call import Call, Daemon, Handler
from .columns import Columns, listed

NO_ENCRYPTION = Encryption("", "")


def encryption(connection: Connection) -> Encryption:
    return connection.peer.encryption or NO_ENCRYPTION


def user_of(connection: Connection) -> str:
    return connection.user.name if connection.user is not None else ""


def vhost_of(connection: Connection) -> str:
    return connection.vhost.name if connection.vhost is not None else ""


CONNECTION: Columns[Connection] = {
    "pid": str,
    "name": lambda connection: connection.name,
    "port": lambda connection: connection.peer.local_port,
    "host": lambda connection: connection.peer.local_host,
    "peer_port": lambda connection: connection.peer.port,
    "peer_host": lambda connection: connection.peer.host,
    "ssl": lambda connection: connection.peer.encryption is not None,
    "ssl_protocol": lambda connection: encryption(connection).protocol,
    "ssl_cipher": lambda connection: encryption(connection).cipher,
    "peer_cert_subject": lambda connection: encryption(connection).subject,
    "peer_cert_issuer": lambda connection: encryption(connection).issuer,
    "peer_cert_validity": lambda connection: encryption(connection).validity,
    "state": lambda connection: connection.state_text,
    "channels": lambda connection: len(connection.channels),
    "protocol": lambda connection: "{0,9,1}",
    "auth_mechanism": lambda connection: connection.mechanism,
    "user": user_of,
    "vhost": vhost_of,
    "timeout": lambda connection: connection.heartbeat_s,
    "frame_max": lambda connection: connection.frame_max,
    "channel_max": lambda connection: connection.channel_max,
    "client_properties": lambda connection: json_of_table(connection.client_properties),
    "user_provided_name": lambda connection: connection.client_name,
    "recv_oct": lambda connection: connection.received_bytes,
    "recv_cnt": lambda connection: connection.received_reads,
    "send_oct": lambda connection: connection.sent_bytes,
    "send_cnt": lambda connection: connection.sent_writes,
    "send_pend": lambda connection: len(connection.output.buffer),
    "connected_at": lambda connection: connection.connected_at_ms,
}


def list_connections(call: Call) -> Rows:
    return listed(CONNECTION, call.arguments, ("user", "peer_host", "peer_port", "state"), call.daemon.connections())


CHANNEL: Columns[Channel] = {
    "pid": pid,
    "connection": lambda channel: str(channel.connection),
    "name": lambda channel: f"{channel.connection.name} ({channel.number})",
    "number": lambda channel: channel.number,
    "user": lambda channel: channel.user.name,
    "vhost": lambda channel: channel.vhost.name,
    "transactional": lambda channel: channel.transaction is not None,
    "confirm": lambda channel: channel.confirms is not None,
    "consumer_count": lambda channel: len(channel.consumers),
    "messages_unacknowledged": lambda channel: len(channel.unacked),
    "messages_uncommitted": lambda channel: len(channel.transaction.publishes) if channel.transaction else 0,
    "acks_uncommitted": lambda channel: len(channel.transaction.settlements) if channel.transaction else 0,
    "messages_unconfirmed": lambda channel: (
        channel.confirms.next - 1 - channel.confirms.told if channel.confirms else 0
    ),
    "prefetch_count": lambda channel: channel.prefetch,
    "global_prefetch_count": lambda channel: channel.shared_prefetch.limit,
}


def channels(daemon: Daemon) -> list[Channel]:
    return [channel for connection in daemon.connections() for channel in connection.channels.values()]


def list_channels(call: Call) -> Rows:
    default = ("pid", "user", "consumer_count", "messages_unacknowledged")
    return listed(CHANNEL, call.arguments, default, channels(call.daemon))


CONSUMER: Columns[Consumer] = {
    "queue_name": lambda consumer: consumer.queue.name,
    "channel_pid": lambda consumer: pid(consumer.channel) if isinstance(consumer, ChannelConsumer) else "",
    "consumer_tag": lambda consumer: consumer.tag,
    "ack_required": lambda consumer: not consumer.no_ack,
    "prefetch_count": lambda consumer: consumer.prefetch if isinstance(consumer, ChannelConsumer) else 0,
    "active": is_active,
    "activity_status": lambda consumer: consumer.queue.consumers.activity_status(consumer),
    "exclusive": lambda consumer: consumer.exclusive,
    "arguments": lambda consumer: json_of_table(consumer.arguments) if isinstance(consumer, ChannelConsumer) else {},
}
CONSUMERS = ("queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments")


def list_consumers(call: Call) -> Rows:
    """Of a virtual host that there is not, none."""
    vhost = call.node.vhosts.get(call.vhost_name)
    queues = vhost.queues.values() if vhost is not None else ()
    found = [one for queue in queues for one in queue.consumers.all()]
    return listed(CONSUMER, call.arguments, CONSUMERS, found)


COMMANDS: dict[str, Handler] = {
    "list_connections": list_connections,
    "list_channels": list_channels,
    "list_consumers": list_consumers,
}
