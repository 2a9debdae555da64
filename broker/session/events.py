"""Events of sessions for the event exchange: logins, connections, channels and consumers.

In place of RabbitMQ's process identifiers they have names that no other open connection or channel has.
"""

import ipaddress

from ..core.telemetry.event_exchange import Events
from ..core.telemetry.event_fields import format_arguments
from .channel_host import ChannelHost, ChannelState
from .transport import Encryption, Peer
from .unacked import CreditConsumer

PROTOCOL = "{0,9,1}"
NO_ENCRYPTION = Encryption("", "")


def logged_in(connection: ChannelHost, error: str = "") -> None:
    """Emit the event of a login over AMQP, or of its refusal for a reason."""
    peer = connection.peer
    client = {"name": connection.login_name, "connection_type": "network", "connection_name": connection.name}
    session = {"protocol": PROTOCOL, "auth_mechanism": connection.mechanism, "ssl": peer.encryption is not None}
    emit_login(connection.node.events, client, peer, session, error)


def http_login(events: Events, name: str, peer: Peer, error: str = "") -> None:
    """Emit the event of a login by an HTTP request, or of its refusal for a reason."""
    emit_login(events, {"name": name, "connection_type": "http"}, peer, {}, error)


def emit_login(events: Events, client: dict[str, str], peer: Peer, session: dict[str, object], error: str) -> None:
    """Emit the event of a login, or of its refusal if there is an `error`, with these fields and the peer's."""
    if not events.has_receivers:
        return
    addresses = {"host": host(peer.local_host), "peer_host": host(peer.host), "peer_port": peer.port}
    fields: dict[str, object] = {**client, **addresses, **session}
    if error:
        fields["error"] = error
    events.emit(f"user.authentication.{'failure' if error else 'success'}", fields)


def connection_created(connection: ChannelHost) -> None:
    events = connection.node.events
    if not events.has_receivers:
        return
    peer, user, vhost = connection.peer, connection.user, connection.vhost
    assert user is not None and vhost is not None
    encryption = peer.encryption or NO_ENCRYPTION
    fields: dict[str, object] = {
        "type": "network",
        "pid": str(connection),
        "name": connection.name,
        "node": connection.node.name,
        "port": peer.local_port,
        "peer_port": peer.port,
        "host": host(peer.local_host),
        "peer_host": host(peer.host),
        "ssl": peer.encryption is not None,
        "ssl_protocol": encryption.protocol,
        "ssl_cipher": encryption.cipher,
        "peer_cert_subject": encryption.subject,
        "peer_cert_issuer": encryption.issuer,
        "peer_cert_validity": encryption.validity,
        "auth_mechanism": connection.mechanism,
        "protocol": PROTOCOL,
        "user": user.name,
        "vhost": vhost.name,
        "timeout": connection.heartbeat_s,
        "frame_max": connection.frame_max,
        "channel_max": connection.channel_max,
        "client_properties": format_arguments(connection.client_properties),
        "connected_at": connection.connected_at_ms,
        "user_who_performed_action": user.name,
    }
    if connection.client_name:
        fields["user_provided_name"] = connection.client_name
    events.emit("connection.created", fields)


def connection_closed(connection: ChannelHost) -> None:
    events = connection.node.events
    if events.has_receivers:
        fields: dict[str, object] = {
            "pid": str(connection),
            "name": connection.name,
            "node": connection.node.name,
            "client_properties": format_arguments(connection.client_properties),
            "user_who_performed_action": connection.login_name,
        }
        events.emit("connection.closed", fields)


def channel_created(channel: ChannelState) -> None:
    connection = channel.connection
    if connection.node.events.has_receivers:
        fields: dict[str, object] = {
            "pid": channel.pid,
            "name": f"{connection.name} ({channel.number})",
            "connection": str(connection),
            "number": channel.number,
            "user": channel.user.name,
            "vhost": channel.vhost.name,
            "user_who_performed_action": channel.user.name,
        }
        connection.node.events.emit("channel.created", fields)


def channel_closed(channel: ChannelState) -> None:
    events = channel.connection.node.events
    if events.has_receivers:
        events.emit("channel.closed", {"pid": channel.pid, "user_who_performed_action": channel.user.name})


def consumer_created(channel: ChannelState, consumer: CreditConsumer) -> None:
    if channel.connection.node.events.has_receivers and not consumer.queue.internal:
        settings: dict[str, object] = {
            "exclusive": consumer.exclusive,
            "ack_required": not consumer.no_ack,
            "prefetch_count": consumer.prefetch,
            "arguments": format_arguments(consumer.arguments),
        }
        emit_consumer("consumer.created", channel, consumer, settings)


def consumer_deleted(channel: ChannelState, consumer: CreditConsumer) -> None:
    if channel.connection.node.events.has_receivers and not consumer.queue.internal:
        emit_consumer("consumer.deleted", channel, consumer, {})


def emit_consumer(name: str, channel: ChannelState, consumer: CreditConsumer, settings: dict[str, object]) -> None:
    place = {"queue": consumer.queue.name, "vhost": channel.vhost.name, "channel": channel.pid}
    fields = {"consumer_tag": consumer.tag, **place, **settings, "user_who_performed_action": channel.user.name}
    channel.connection.node.events.emit(name, fields)


def host(address: str) -> str:
    """Format an address as the Erlang term that RabbitMQ shows, such as `{127,0,0,1}`."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    size = 1 if parsed.version == 4 else 2
    packed = parsed.packed
    parts = [str(int.from_bytes(packed[at : at + size], "big")) for at in range(0, len(packed), size)]
    return "{" + ",".join(parts) + "}"
