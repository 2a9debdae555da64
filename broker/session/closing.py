"""Closing of channels and connections: the close handshakes, and the release of what they held."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pamqp import commands

from ..amqp.errors import AMQPError, ConnectionForced, FrameError, LoginRefused
from ..core.jobs.scheduler import OBJECT_COST, Job, do_at_once
from ..core.vhost.vhost import VHost
from ..wire import method_encoder
from ..wire.frame_reader import Event, Method
from . import events
from .connection_state import CLOSED, CLOSING, RUNNING
from .handshake import REFUSAL_DELAY_S

if TYPE_CHECKING:
    from .channel import Channel
    from .connection import Connection

CLOSE_WAIT_S = 30.0  # for the peer to close the socket after close-ok


def fail(connection: Connection, error: AMQPError) -> None:
    """Close the connection with an error.

    Only clients with the capability `authentication_failure_close` are sent a refused login.
    """
    connection.trusted = not isinstance(error, FrameError)
    if connection.state == CLOSING:
        return
    fields = log_fields(connection)
    fields |= {"state": connection.state_text, "code": error.code, "reason": error.reply_text}
    connection.confirm()
    release_resources(connection)
    # Nothing may hold the input back any more: connection.close-ok has to be read.
    connection.deferred = connection.refusal = None
    connection.blocked, connection.suspended, connection.replies_due = False, 0, 0
    if isinstance(error, LoginRefused):
        if "authentication_failure_close" in connection.capabilities:
            connection.send(method_encoder.close(0, error.code, error.reply_text, 0, 0))
        user = connection.login_name
        fields["reason"] = f"{connection.mechanism} login refused: user '{user}' - invalid credentials"
        connection.transport.report("login_refused", "error", fields)
        connection.state = CLOSING
        connection.transport.close(REFUSAL_DELAY_S)
        return
    connection.send(method_encoder.close(0, error.code, error.reply_text, error.class_id, error.method_id))
    fields["operation"] = operation(error)
    wanted = isinstance(error, ConnectionForced)  # by an operator or the stop of the node
    connection.transport.report("connection_closing", "warning" if wanted else "error", fields)
    connection.state = CLOSING
    connection.transport.close(wait_s(connection) if connection.trusted else REFUSAL_DELAY_S)


def closed_by_client(connection: Connection) -> None:
    """Serve the client's connection.close."""
    fields = log_fields(connection)
    connection.confirm()
    connection.state = CLOSING

    def cleared() -> None:
        if connection.state != CLOSED:
            connection.send(method_encoder.method(0, method_encoder.CONNECTION_CLOSE_OK))
            connection.end("connection_closed", wait_s(connection), {"by": "client", **fields})

    release_resources(connection, cleared)


def await_close_ok(connection: Connection, event: Event) -> None:
    """Discard input after the broker's connection.close, except for close and close-ok."""
    if isinstance(event, Method) and not event.channel:
        if event.index == method_encoder.CONNECTION_CLOSE:
            connection.send(method_encoder.method(0, method_encoder.CONNECTION_CLOSE_OK))
        elif event.index == method_encoder.CONNECTION_CLOSE_OK:
            connection.state = CLOSED
            connection.transport.close(0.0)


def close_channel(channel: Channel, error: AMQPError) -> None:
    """Close the channel with an error. Its deliveries are requeued before the client gets channel.close."""
    connection = channel.connection
    connection.confirm()  # the publishes before the error
    close_frame = method_encoder.close(channel.number, error.code, error.reply_text, error.class_id, error.method_id)
    end_channel(channel, close_frame)
    fields = {"channel": channel.number, "reason": error.reply_text, "operation": operation(error)}
    connection.transport.report("channel_closing", "error", log_fields(connection, False) | fields)


def end_channel(channel: Channel, last_frame: bytes) -> None:
    """End a channel, as a job if it has many deliveries; `last_frame` is sent once all are requeued."""
    connection = channel.connection
    rest = channel.end_in_steps()
    more, spent = do_at_once(rest)
    connection.spent += spent
    if not more:
        connection.send(last_frame)
        return
    connection.suspend()

    def steps() -> Job:
        yield from rest
        if connection.state == RUNNING:
            connection.send(last_frame)
            connection.resume()

    name = f"end of channel {channel.number} of connection {connection.name}"
    connection.node.scheduler.start(name, steps(), connection.job_failed)


def await_channel_close_ok(channel: Channel, event: Event) -> None:
    """Discard input after the broker's channel.close, except for close and close-ok."""
    if not isinstance(event, Method):
        return
    if event.index == method_encoder.CHANNEL_CLOSE:
        channel.connection.send(method_encoder.method(channel.number, method_encoder.CHANNEL_CLOSE_OK))
    elif event.index == method_encoder.CHANNEL_CLOSE_OK:
        del channel.connection.channels[channel.number]


def log_fields(connection: Connection, ends: bool = True) -> dict[str, object]:
    """Return the fields of a connection for the log: user, names, and its duration if it ends."""
    fields: dict[str, object] = {"user": connection.login_name}
    if connection.client_name:
        fields["client_name"] = connection.client_name
    if connection.vhost is not None:
        fields["vhost"] = connection.vhost.name
        if ends:
            fields["duration_s"] = (connection.node.clock.now_ms() - connection.connected_at_ms) // 1000
    return fields


def operation(error: AMQPError) -> str:
    """Return the method that caused an error, as `queue.declare`; `none` if there is no such method."""
    method = commands.INDEX_MAPPING.get(error.class_id << 16 | error.method_id)
    return method.__qualname__.lower() if method is not None else "none"


def release_resources(connection: Connection, cleared: Callable[[], None] = lambda: None) -> None:
    """Release what a connection holds: end its channels, delete its exclusive queues, then call `cleared`.

    Deliveries to it stop at once, the rest is a job. A second call has no effect.
    """
    channels = [channel for channel in connection.channels.values() if not channel.closing]
    for channel in channels:
        channel.leave()
    connection.output.limit = 0
    connection.channels.clear()
    connection.confirming.clear()
    connection.stalled.clear()
    for queue in connection.publisher_throttle.queues:
        queue.held_publishers.forget(connection)
    connection.publisher_throttle.queues.clear()
    connection.transport.release()
    if connection.vhost is None:
        cleared()
    else:
        connection.node.open_connections -= 1
        connection.node.churn.connection_closed += 1
        for statistics in (connection.vhost.statistics, connection.node.closed):
            statistics.received_bytes += connection.received_bytes
            statistics.sent_bytes += connection.sent_bytes
            statistics.received_reads += connection.received_reads
            statistics.sent_writes += connection.sent_writes
        account = connection.user.account if connection.user is not None else ""
        connection.node.census.disconnected(connection.vhost.name, account)
        connection.node.unfinished_of(account).forget(connection.resume)
        vhost, connection.vhost = connection.vhost, None
        last: list[Callable[[], None]] = [cleared, partial(events.connection_closed, connection)]
        release_rest(connection, vhost, channels.copy(), channels, last)


def release_rest(
    connection: Connection,
    vhost: VHost,
    unpaused: list[Channel],
    channels: list[Channel],
    last: list[Callable[[], None]],
) -> None:
    """Start the job that releases the rest. If a bug ends it, a new job does what is left."""
    job = release_in_steps(connection, vhost, unpaused, channels, last)
    failed = partial(release_rest, connection, vhost, unpaused, channels, last)
    connection.node.scheduler.start(f"end of connection {connection.name}", job, failed)


def release_in_steps(
    connection: Connection,
    vhost: VHost,
    unpaused: list[Channel],
    channels: list[Channel],
    last: list[Callable[[], None]],
) -> Job:
    """Pause the queues of channels, end channels, delete exclusive queues, then call `last` from its end.

    All queues are paused first, so that no client sees the deliveries of only some channels requeued. Each is removed
    from its list first, so that a failed one is not tried again.
    """
    while unpaused:
        yield from unpaused.pop().pause_in_steps()
    while channels:
        yield from channels.pop(0).end_in_steps()
    while connection.owned:
        vhost.delete_queue(connection.owned.popitem()[1])
        yield OBJECT_COST
    while last:
        last.pop()()


def wait_s(connection: Connection) -> float:
    """Return how many seconds the peer has to close the socket."""
    return min(connection.heartbeat_s or CLOSE_WAIT_S, CLOSE_WAIT_S)
