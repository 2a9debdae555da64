"""How channels and connections end, and what is still heard after the goodbyes (spec/core.md 1.10, 3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pamqp import commands

from ..amqp.errors import AMQPError, ConnectionForced, FrameError, LoginRefused
from ..core.jobs.scheduler import OBJECT_COST, TURN_COST, Job
from ..core.vhost.vhost import VHost
from ..wire import method_encoder
from ..wire.frame_reader import Event, Method
from . import events
from .connection_state import CLOSED, CLOSING, RUNNING
from .handshake import REFUSAL_DELAY_S

if TYPE_CHECKING:
    from .channel import Channel
    from .connection import Connection

CLOSE_WAIT_S = 30.0  # how long a peer has to close after the goodbyes


def fail(connection: Connection, error: AMQPError) -> None:
    """connection.close; or the end alone, where a login failed and the client did not ask to be told."""
    connection.trusted = not isinstance(error, FrameError)
    if connection.state == CLOSING:
        return
    fields = described(connection)
    fields |= {"state": connection.state_text, "code": error.code, "reason": error.reply_text}
    connection.confirm()
    clear(connection)
    # What held the input back does so no more: the goodbye is to be heard.
    connection.deferred, connection.blocked, connection.waits = None, False, 0
    if isinstance(error, LoginRefused):
        if "authentication_failure_close" in connection.capabilities:
            connection.send(method_encoder.close(0, error.code, error.reply_text, 0, 0))
        user = connection.login_name
        fields["reason"] = f"{connection.mechanism} login refused: user '{user}' - invalid credentials"
        connection.link.report("login_refused", "error", fields)
        connection.state = CLOSING
        connection.link.close(REFUSAL_DELAY_S)
        return
    connection.send(method_encoder.close(0, error.code, error.reply_text, error.class_id, error.method_id))
    fields["operation"] = operation(error)
    wanted = isinstance(error, ConnectionForced)  # by an operator, or by the end of the node
    connection.link.report("connection_closing", "warning" if wanted else "error", fields)
    connection.state = CLOSING
    connection.link.close(wait_s(connection) if connection.trusted else REFUSAL_DELAY_S)


def closed_by_client(connection: Connection) -> None:
    """Its connection.close."""
    fields = described(connection)
    connection.confirm()
    connection.state = CLOSING

    def cleared() -> None:
        if connection.state != CLOSED:
            connection.send(method_encoder.method(0, method_encoder.CONNECTION_CLOSE_OK))
            connection.end("connection_closed", wait_s(connection), {"by": "client", **fields})

    clear(connection, cleared)


def await_close_ok(connection: Connection, event: Event) -> None:
    """After our connection.close all is discarded but the end of it."""
    if isinstance(event, Method) and not event.channel:
        if event.index == method_encoder.CONNECTION_CLOSE:
            connection.send(method_encoder.method(0, method_encoder.CONNECTION_CLOSE_OK))
        elif event.index == method_encoder.CONNECTION_CLOSE_OK:
            connection.state = CLOSED
            connection.link.close(0.0)


def close_channel(channel: Channel, error: AMQPError) -> None:
    """channel.close; what the channel held goes back before the client can see it."""
    connection = channel.connection
    connection.confirm()  # what was published before the error has been taken care of
    goodbye = method_encoder.close(channel.number, error.code, error.reply_text, error.class_id, error.method_id)
    if channel.end_cost <= TURN_COST:
        channel.end()
        connection.send(goodbye)
    else:
        end_channel(channel, goodbye)
    fields = {"channel": channel.number, "reason": error.reply_text, "operation": operation(error)}
    connection.link.report("channel_closing", "error", described(connection, False) | fields)


def end_channel(channel: Channel, goodbye: bytes) -> None:
    """End a channel that has very much: `goodbye` follows once all that was out is back in its queues."""
    connection = channel.connection
    connection.wait()
    channel.closing = True

    def steps() -> Job:
        yield from channel.end_in_steps()
        if connection.state == RUNNING:
            connection.send(goodbye)
            connection.go_on()

    name = f"end of channel {channel.number} of connection {connection.name}"
    connection.node.scheduler.start(name, steps(), connection.job_failed)


def await_channel_close_ok(channel: Channel, event: Event) -> None:
    """After our channel.close, likewise."""
    if not isinstance(event, Method):
        return
    if event.index == method_encoder.CHANNEL_CLOSE:
        channel.connection.send(method_encoder.method(channel.number, method_encoder.CHANNEL_CLOSE_OK))
    elif event.index == method_encoder.CHANNEL_CLOSE_OK:
        del channel.connection.channels[channel.number]


def described(connection: Connection, ends: bool = True) -> dict[str, object]:
    """What the log says of a connection: whose it is, and where it ends for how long it was open."""
    fields: dict[str, object] = {"user": connection.login_name}
    if connection.client_name:
        fields["client_name"] = connection.client_name
    if connection.vhost is not None:
        fields["vhost"] = connection.vhost.name
        if ends:
            fields["duration_s"] = (connection.node.clock.now_ms() - connection.connected_at_ms) // 1000
    return fields


def operation(error: AMQPError) -> str:
    """What caused it, as `queue.declare`; `none` where it was no method."""
    method = commands.INDEX_MAPPING.get(error.class_id << 16 | error.method_id)
    return method.__qualname__.lower() if method is not None else "none"


def clear(connection: Connection, cleared: Callable[[], None] = lambda: None) -> None:
    """Channels end, exclusive queues go: nothing is delivered any more, and all else follows in slices, then `cleared`.

    To do so again does nothing more.
    """
    channels = [channel for channel in connection.channels.values() if not channel.closing]
    for channel in channels:
        channel.leave()
    connection.output.limit = 0
    connection.channels.clear()
    connection.confirming.clear()
    connection.stalled.clear()
    for queue in connection.holding.queues:
        queue.publishers.forget(connection)
    connection.holding.queues.clear()
    connection.link.release()
    if connection.vhost is None:
        cleared()
    else:
        connection.node.open_connections -= 1
        connection.node.churn.connection_closed += 1
        statistics = connection.vhost.statistics
        statistics.received_bytes += connection.received_bytes
        statistics.sent_bytes += connection.sent_bytes
        statistics.received_reads += connection.received_reads
        statistics.sent_writes += connection.sent_writes
        connection.node.census.disconnected(connection.vhost.name, connection.user.account if connection.user else "")
        vhost, connection.vhost = connection.vhost, None
        end_rest(connection, vhost, channels, [cleared, partial(events.connection_closed, connection)])


def end_rest(connection: Connection, vhost: VHost, channels: list[Channel], last: list[Callable[[], None]]) -> None:
    """Start the job that ends what a connection had. Where a part of it fails, by a bug, a new job does the rest."""
    job = end_all(connection, vhost, channels, last)
    failed = partial(end_rest, connection, vhost, channels, last)
    connection.node.scheduler.start(f"end of connection {connection.name}", job, failed)


def end_all(connection: Connection, vhost: VHost, channels: list[Channel], last: list[Callable[[], None]]) -> Job:
    """Channels, exclusive queues and then `last`, from its end: each is taken off its list before it is dealt with."""
    while channels:
        yield from channels.pop(0).end_in_steps()
    while connection.owned:
        vhost.delete_queue(connection.owned.popitem()[1])
        yield OBJECT_COST
    while last:
        last.pop()()


def wait_s(connection: Connection) -> float:
    """How long the peer has to close the socket."""
    return min(connection.heartbeat_s or CLOSE_WAIT_S, CLOSE_WAIT_S)
