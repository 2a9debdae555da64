"""One AMQP connection as a state machine: bytes in, bytes out, no socket and no clock of its own.

The transport calls `receive`, and `take_output` after a call of `TransportPort.flush_soon`. Errors become frames for
the client in `Connection._fail` and `Channel.close`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mypy_extensions import mypyc_attr
from pamqp import commands

from ..amqp.errors import (
    AMQPError,
    ChannelFault,
    ConnectionForced,
    FrameError,
    LoginRefused,
    NotAllowed,
    UnexpectedFrame,
)
from ..core.jobs.scheduler import OBJECT_COST, Job
from ..core.messages.journal_port import BEHIND
from ..core.node.node import Node
from ..core.queues.queue import Queue
from ..core.telemetry.resource_alarms import DISK, MEMORY
from ..core.vhost.vhost import VHost
from ..wire import method_decoder, method_encoder
from ..wire.frame_reader import ACK, PUBLISH, Acks, Event, FrameReader, Method, Publishes
from . import alarm_blocking, connection_limits, events, revocation
from .channel import Channel, operation
from .channel_host import CLOSED, CLOSING, HANDSHAKE, RUNNING, ChannelHost, Postponed
from .handshake import REFUSAL_DELAY_S, Handshake
from .methods import acknowledge, handlers, publish
from .settings import Settings
from .transport import Peer, TransportPort

CHANNEL_OPEN: Final = commands.Channel.Open.index
# Costs in the scheduler's units: of a method, of one that may create or delete an object, of a run of publishes or
# acknowledgements beside its messages, and of a publish in a run with different methods.
METHOD_COST: Final = 50
PAYLOAD_SHIFT: Final = 1  # 2 bytes of a method cost 1, at worst: as conditions of a headers exchange
CHANGE_COST: Final = 150
RUN_COST: Final = 5
MIXED_COST: Final = 3
DECLARATIONS: Final = frozenset(
    method.index for kind in (commands.Exchange, commands.Queue) for method in (kind.Declare, kind.Delete)
)
CHANGES: Final = DECLARATIONS | {CHANNEL_OPEN}
AT_ONCE_COST: Final = 1_000  # of input that is handled as soon as it arrives
WOKEN: Final = 500  # consumers that waited for room in the output, woken at once
STEP_COST: Final = 500  # of a step of the job that handles the rest
# Methods that are served while replies to earlier ones wait for the journal; their own replies wait in order with them.
OVERLAPPING: Final = DECLARATIONS | {
    method.index for kind in (commands.Exchange, commands.Queue) for method in (kind.Bind, kind.Unbind)
}
REPLIES_DUE_LIMIT: Final = 1000
CLOSE_WAIT_S: Final = 30.0  # for the peer to close the socket after close-ok


@mypyc_attr(allow_interpreted_subclasses=True)
class Connection(ChannelHost):
    """Server side of one AMQP connection: input, handshake, channels, alarms, and its end."""

    __slots__ = (
        *("channels", "reader", "received_bytes", "received_reads", "sent_bytes", "sent_writes"),
        *("blocked", "blocked_by", "interrupted", "trusted", "refusal"),
        *("_handshake", "_greeted", "_left", "_queued", "_requests_ended", "_rejected"),
    )

    def __init__(self, node: Node, settings: Settings, peer: Peer, transport: TransportPort) -> None:
        super().__init__(node, settings, peer, transport)
        self.channels: dict[int, Channel] = {}
        self.reader = FrameReader(settings.initial_frame_max, settings.max_message_size, self.channels)
        self.received_bytes = 0
        self.received_reads = 0
        self.sent_bytes = 0
        self.sent_writes = 0
        self.blocked = False  # by an alarm, after it has published or declared
        self.blocked_by = ""  # the resource for which a declaration waits
        self.interrupted = False  # input is waiting: suspended, blocked, output full, or the turn of others
        self.trusted = True  # until a malformed frame
        self.refusal: AMQPError | None = None  # the error of `deferred`, which failed while earlier replies were due
        self._handshake: Handshake | None = Handshake(self, self.reader, self._opened)
        self._greeted = False
        self._left = AT_ONCE_COST  # cost that may be spent before others have their turn
        self._queued = False  # a job handles the input
        self._requests_ended: Callable[[], None] | None = None
        self._rejected = False  # the last event has settled deliveries, and requeued none

    def await_requests(self, call: Callable[[], None]) -> bool:
        """Return whether a job handles the input, at whose end `call` is called."""
        if self._queued:
            self._requests_ended = call
        return self._queued

    @property
    def state_text(self) -> str:
        """State of the connection as RabbitMQ lists it.

        During an alarm a connection is `blocked` once it has published, and `blocking` before. `flow` means that it is
        not read until a queue drains.
        """
        if self.state == HANDSHAKE and self._handshake is not None:
            return self._handshake.state
        if self.state == CLOSED:
            return "closed"
        if self.state == CLOSING:
            return "closing"
        if self.node.alarms.reason:
            return "blocked" if self.blocked else "blocking"
        return "flow" if self.publisher_throttle.queues else "running"

    @property
    def held_bytes(self) -> tuple[int, int, int]:
        """The bytes of contents that are still arriving, of output, and of publishes in transactions."""
        return self.reader.held_bytes, self.output.held_bytes + self.transport.unsent_bytes(), self.transaction_bytes

    @property
    def holds_what_others_need(self) -> bool:
        """True if it has deliveries, consumers or exclusive queues."""
        return len(self.owned) > 0 or any(channel.has_deliveries for channel in self.channels.values())

    # Input

    def receive(self, data: bytes) -> None:
        """Handle received bytes. HOT: bench A-M."""
        self.received_bytes += len(data)
        self.received_reads += 1
        if self.state == CLOSED or not self.trusted:
            return
        self.reader.feed(data)
        if not self._queued:
            self._left = AT_ONCE_COST
            if self._greeted or self._greet():
                self._work()

    def _work(self) -> None:
        """Handle the buffered input until it is used up, the output is full, or this turn's share of work is done."""
        self.interrupted = False
        scheduler = self.node.scheduler
        charged = scheduler.spent
        while self.state != CLOSED and self.trusted:
            spent = self.spent + scheduler.spent - charged
            if spent:
                self._left -= spent
                self.spent = 0
                charged = scheduler.spent
            if self.suspended or self.blocked:
                self.interrupted = True
                break
            if self.output.full():
                self.interrupted = True
                self.request_flush()
                break
            if self._left <= 0:
                self.interrupted = True
                self._work_in_turns()
                break
            event: Event | None = None
            try:
                event, self.deferred = self.deferred or self.reader.next(), None
                if event is None:
                    if self.node.alarms.reason and self.state == RUNNING and self.reader.in_content():
                        self._block()
                    break
                if self.replies_due and (self.refusal is not None or not self._overlaps(event)):
                    self._wait_for_replies(event)
                    break
                if self.refusal is not None:
                    self._refuse(event, self.refusal)
                    continue
                if isinstance(event, Method):
                    self._left -= METHOD_COST if event.index not in CHANGES else self._change_cost()
                    self._left -= len(event.payload) >> PAYLOAD_SHIFT
                elif isinstance(event, Publishes):
                    self._left -= RUN_COST + MIXED_COST * (len(event.methods) - 1)
                else:
                    self._left -= RUN_COST
                if self.node.alarms.reason and isinstance(event, Publishes):
                    self._handle_first(event)
                else:
                    self._handle(event)
            except AMQPError as error:
                if self.replies_due and event is not None:
                    self.refusal = error  # the replies before it are sent first
                    self._wait_for_replies(event)
                    break
                self._fail(error)
            except Postponed as postponed:
                self.deferred = event
                self.suspend()
                postponed.wait(self.resume)
            except alarm_blocking.Blocked as blocked:
                self.deferred = event
                self._block(blocked.resource)
        if self.confirming:
            self.confirm()
        if self.node.pending:
            self._left -= scheduler.pump()

    def _handle_first(self, event: Publishes) -> None:
        """Block the connection, and handle the first publish of these if it is still taken. Raises as `_handle`."""
        self._block()
        first, rest = alarm_blocking.split(event, DISK in self.node.alarms.on())
        if first is not None:
            self._handle(first)
        self.deferred = rest if self.deferred is None else event  # if the first one was postponed

    def _change_cost(self) -> int:
        return CHANGE_COST + (self.node.policies.cost(self.vhost) if self.vhost is not None else 0)

    def _overlaps(self, event: Event) -> bool:
        """Return whether an event is handled while replies wait for the journal."""
        return isinstance(event, Method) and event.index in OVERLAPPING and self.replies_due < REPLIES_DUE_LIMIT

    def _refuse(self, event: Event, error: AMQPError) -> None:
        """Send the error of an event that failed while replies to earlier ones were due."""
        self.refusal = None
        channel = self.channels.get(event.channel)
        if error.hard or channel is None:
            self._fail(error)
        else:
            channel.close(error)

    def _wait_for_replies(self, event: Event) -> None:
        self.deferred = event
        self.interrupted = True

    def _work_in_turns(self) -> None:
        """Start a job for the rest of the input. Connections with very much input share each turn of the loop."""
        if not self._queued:
            self._queued = True
            self.node.scheduler.start(f"requests of connection {self.name}", self._requests(), self.job_failed)

    def _requests(self) -> Job:
        """Handle the input as a job, until it is used up or waits for something else."""
        more = True
        try:
            while more:
                self._left = STEP_COST
                self._work()
                # Before the last yield, because input after it is handled when it is received, or by another job.
                self._queued = more = self._left <= 0 and self.interrupted
                yield STEP_COST - self._left
        finally:
            if more:
                self._queued = False
            ended, self._requests_ended = self._requests_ended, None
            if ended is not None:
                ended()
        self.request_flush()  # so that the transport checks whether to read on

    def _greet(self) -> bool:
        header = self.reader.take(8)
        if header is None or self._handshake is None:
            return False
        self._greeted = True
        self.transport.report("connection_accepted", "info", {})
        return self._handshake.protocol_header(header)

    def _handle(self, event: Event) -> None:
        if self.state == CLOSING:
            self._await_close_ok(event)
            return
        number = event.channel
        if self.state == HANDSHAKE and number:
            raise UnexpectedFrame("a channel's frame before connection.open-ok")
        if not number:
            if not isinstance(event, Method):
                raise ChannelFault("unexpected method in connection state running", 60, 80)
            self._control(event)
            return
        channel = self.channels.get(number)
        if channel is None:
            self._first_method(number, event)
        elif channel.closing:
            self._await_channel_close_ok(channel, event)
        else:
            try:
                self._on_channel(channel, event)
            except AMQPError as error:
                if error.hard or self.replies_due:
                    raise
                channel.close(error)

    def _on_channel(self, channel: Channel, event: Event) -> None:
        rejected, self._rejected = self._rejected, False
        if isinstance(event, Publishes):
            publish.serve(channel, event)
            return
        if isinstance(event, Acks):
            acknowledge.serve(channel, event)
            return
        # Earlier publishes are confirmed before the reply to a method, and delivered before the method reads a queue.
        if self.confirming:
            self.confirm()
        if event.index == CHANNEL_OPEN:
            raise ChannelFault("second 'channel.open' seen", 20, 10)
        method, table = method_decoder.decode(event.index, event.payload)
        self._rejected = isinstance(method, (commands.Basic.Reject, commands.Basic.Nack)) and not method.requeue
        if self.node.pending and not (rejected and self._rejected):  # dead letters of many are published together
            self.node.pump()
        if isinstance(method, commands.Channel.Close):
            del self.channels[channel.number]
            channel.end_and_send(method_encoder.method(channel.number, method_encoder.CHANNEL_CLOSE_OK))
            return
        handlers.handle(channel, event.index, method, table)
        # No reply waits for the journal.
        if event.index in OVERLAPPING and getattr(method, "nowait", False) and self.node.journal.room() == BEHIND:
            self.suspend_for_journal()

    def _first_method(self, number: int, event: Event) -> None:
        if not isinstance(event, Method) or event.index != CHANNEL_OPEN:
            index = event.index if isinstance(event, Method) else ACK if isinstance(event, Acks) else PUBLISH
            if index == method_encoder.CHANNEL_CLOSE_OK:
                return  # late, for a channel that both sides closed
            raise ChannelFault("expected 'channel.open'", index >> 16, index & 0xFFFF)
        method_decoder.decode(event.index, event.payload)
        if self.channel_max and len(self.channels) >= self.channel_max:
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated channel_max "
                f"({self.channel_max})",
                20,
                10,
            )
        connection_limits.admit_channel(self)
        self.channels[number] = Channel(self, number)
        self.send(method_encoder.method(number, method_encoder.CHANNEL_OPEN_OK, method_encoder.long_string(b"")))

    # Channel 0

    def _control(self, event: Method) -> None:
        method, table = method_decoder.decode(event.index, event.payload)
        try:
            if isinstance(method, commands.Connection.Close):
                self._closed_by_client()
            elif self._handshake is not None:
                self._handshake.handle(method, table)
            elif isinstance(method, commands.Connection.UpdateSecret):
                revocation.renew_rights(self, self.channels.values(), partial(self._secret_updated, str(method.reason)))
            else:
                raise ChannelFault("unexpected method in connection state running")
        except AMQPError as error:
            raise error.of_method(event.index) from None

    def _secret_updated(self, reason: str) -> None:
        self.transport.report("secret_updated", "info", {"reason": reason})
        self.send(method_encoder.method(0, method_encoder.UPDATE_SECRET_OK))

    def _opened(self, vhost: VHost) -> None:
        """Complete the handshake: the connection is open in this virtual host."""
        self.vhost = vhost
        self.vhost_name = vhost.name
        self._handshake = None
        self.state = RUNNING
        self.node.open_connections += 1
        self.node.churn.connection_created += 1
        user = self.user.name if self.user is not None else ""
        self.node.connection_counts.connected(vhost.name, self.user.account if self.user is not None else "")
        self.transport.report(
            "connection_opened", "info", {"vhost": vhost.name, "user": user, "client_name": self.client_name}
        )
        self.transport.running(self.heartbeat_s)
        events.connection_created(self)

    # Output

    def not_writable(self) -> None:
        """Go on with requests, although the socket takes no output now: the acknowledgements of a slow consumer."""
        self._flushing = False
        if self.interrupted and not self._queued and not self.output.full():
            self._work()

    def flushed(self) -> None:
        """Serve consumers and requests that waited for room in the output, which the socket has taken."""
        if self.stalled:
            some = self.stalled[:WOKEN]
            del self.stalled[:WOKEN]
            if self.stalled:
                for channel in self.channels.values():
                    channel.note_freed()
            for consumer in some:
                consumer.stalled = False
                consumer.queue.wake(consumer)
            self.node.pump()
            if self.stalled:
                self.request_flush()
        if self.interrupted and not self._queued:
            self._work()

    @property
    def always_read(self) -> bool:
        return any(channel.consumers for channel in self.channels.values())

    # Alarms

    def _block(self, resource: str = "") -> None:
        """Handle no more input, with connection.blocked to clients that support it.

        It is handled again after the alarm of this resource, or without one after the last alarm.
        """
        self.blocked = self.interrupted = True
        self.blocked_by = resource
        if "connection.blocked" in self.capabilities:
            reason = method_encoder.short_string(self.node.alarms.reason)
            self.send(method_encoder.method(0, method_encoder.CONNECTION_BLOCKED, reason))

    def unblock(self) -> None:
        """Handle input again, if the alarms for which it waits have ended."""
        on = self.node.alarms.on()
        if MEMORY not in on:
            self.created = 0
        if self.blocked and (not on or self.blocked_by and self.blocked_by not in on):
            self.blocked = False
            notice = b""
            if "connection.blocked" in self.capabilities:
                notice = method_encoder.method(0, method_encoder.CONNECTION_UNBLOCKED)
            self.send(notice)  # even if empty: this requests a flush, after which the input is handled again

    # The end

    def close(self, error: AMQPError) -> None:
        if not self._greeted:
            self.state = CLOSED
            self.transport.close(0.0)
        elif self.state in (HANDSHAKE, RUNNING):
            self._fail(error)
            self.node.pump()

    def lost(self, reason: str, level: str = "warning") -> None:
        """Release everything after the socket has closed, in any state."""
        if self.state in (HANDSHAKE, RUNNING):
            event = "connection_lost" if self._greeted else "connection_gone_before_header"
            fields = self.log_fields() | {"reason": reason}
            self.transport.report(event, level if self._greeted else "debug", fields)
        self.state = CLOSED
        if self._handshake is not None:
            self._handshake.forget_login()
            self._handshake = None  # a cycle
        self.deferred = None
        self.reader = FrameReader(0, 0, ())  # a job may keep this connection for long, but not its input
        self._release_resources()
        self.node.pump()

    def _fail(self, error: AMQPError) -> None:
        """Close the connection with an error.

        Only clients with the capability `authentication_failure_close` are sent a refused login.
        """
        self.trusted = not isinstance(error, FrameError)
        if self.state == CLOSING:
            return
        fields = self.log_fields()
        fields |= {"state": self.state_text, "code": error.code, "reason": error.reply_text}
        self.confirm()
        self._release_resources()
        # Nothing may hold the input back any more: connection.close-ok has to be read.
        self.deferred = self.refusal = None
        self.blocked, self.suspended, self.replies_due = False, 0, 0
        if isinstance(error, LoginRefused):
            if "authentication_failure_close" in self.capabilities:
                self.send(method_encoder.close(0, error.code, error.reply_text, 0, 0))
            fields["reason"] = f"{self.mechanism} login refused: user '{self.login_name}' - invalid credentials"
            self.transport.report("login_refused", "error", fields)
            self.state = CLOSING
            self.transport.close(REFUSAL_DELAY_S)
            return
        self.send(method_encoder.close(0, error.code, error.reply_text, error.class_id, error.method_id))
        fields["operation"] = operation(error)
        wanted = isinstance(error, ConnectionForced)  # by an operator or the stop of the node
        self.transport.report("connection_closing", "warning" if wanted else "error", fields)
        self.state = CLOSING
        self.transport.close(self._wait_s() if self.trusted else REFUSAL_DELAY_S)

    def _closed_by_client(self) -> None:
        """Serve the client's connection.close."""
        fields = self.log_fields()
        self.confirm()
        self.state = CLOSING

        def cleared() -> None:
            if self.state != CLOSED:
                self.send(method_encoder.method(0, method_encoder.CONNECTION_CLOSE_OK))
                self.end("connection_closed", self._wait_s(), {"by": "client", **fields})

        self._release_resources(cleared)

    def _wait_s(self) -> float:
        """Return how many seconds the peer has to close the socket."""
        return min(self.heartbeat_s or CLOSE_WAIT_S, CLOSE_WAIT_S)

    def _await_close_ok(self, event: Event) -> None:
        """Discard input after the broker's connection.close, except for close and close-ok."""
        if isinstance(event, Method) and not event.channel:
            if event.index == method_encoder.CONNECTION_CLOSE:
                self.send(method_encoder.method(0, method_encoder.CONNECTION_CLOSE_OK))
            elif event.index == method_encoder.CONNECTION_CLOSE_OK:
                self.state = CLOSED
                self.transport.close(0.0)

    def _await_channel_close_ok(self, channel: Channel, event: Event) -> None:
        """Discard input after the broker's channel.close, except for close and close-ok."""
        if not isinstance(event, Method):
            return
        if event.index == method_encoder.CHANNEL_CLOSE:
            self.send(method_encoder.method(channel.number, method_encoder.CHANNEL_CLOSE_OK))
        elif event.index == method_encoder.CHANNEL_CLOSE_OK:
            del self.channels[channel.number]

    def _release_resources(self, cleared: Callable[[], None] = lambda: None) -> None:
        """Release all that the connection holds: end its channels, delete its exclusive queues, then call `cleared`.

        Deliveries to it stop at once, the rest is a job. A second call has no effect.
        """
        node, account = self.node, self.user.account if self.user is not None else ""
        channels = [channel for channel in self.channels.values() if not channel.closing]
        for channel in channels:
            channel.leave()
        self.output.limit = 0
        self.channels.clear()
        self.confirming.clear()
        self.stalled.clear()
        self.leave_queues()
        if self.vhost is None:
            cleared()
        else:
            node.open_connections -= 1
            node.churn.connection_closed += 1
            for statistics in (self.vhost.statistics, node.closed):
                statistics.received_bytes += self.received_bytes
                statistics.sent_bytes += self.sent_bytes
                statistics.received_reads += self.received_reads
                statistics.sent_writes += self.sent_writes
            node.connection_counts.disconnected(self.vhost.name, account)
            node.unfinished_of(account).forget(self.resume)
            vhost, self.vhost = self.vhost, None
            last: list[Callable[[], None]] = [cleared, partial(events.connection_closed, self)]
            self._release_rest(vhost, channels.copy(), channels, last)

    def _release_rest(
        self, vhost: VHost, unpaused: list[Channel], channels: list[Channel], last: list[Callable[[], None]]
    ) -> None:
        """Start the job that releases the rest. If a bug ends it, a new job does what is left."""
        job = release_in_steps(vhost, self.owned, unpaused, channels, last)
        failed = partial(self._release_rest, vhost, unpaused, channels, last)
        self.node.scheduler.start(f"end of connection {self.name}", job, failed)


def release_in_steps(
    vhost: VHost,
    owned: dict[str, Queue],
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
    while owned:
        vhost.delete_queue(owned.popitem()[1])
        yield OBJECT_COST
    while last:
        last.pop()()
