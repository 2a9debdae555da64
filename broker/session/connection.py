"""One AMQP connection as a state machine: bytes in, bytes out, no socket and no clock of its own.

The transport calls `receive`, and `take_output` after a call of `TransportPort.flush_soon`. Errors become frames for
the client in `closing.fail` and `closing.close_channel`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mypy_extensions import mypyc_attr
from pamqp import base, commands

from ..amqp.errors import AMQPError, ChannelFault, InternalFault, NotAllowed, UnexpectedFrame
from ..amqp.field_table import Table
from ..core.access.users import User
from ..core.jobs.scheduler import Job
from ..core.messages.ports import BEHIND
from ..core.node.node import Node
from ..core.queues.flow_control import Publisher
from ..core.queues.queue import Queue
from ..core.vhost.vhost import VHost
from ..wire import method_decoder, method_encoder
from ..wire.frame_reader import ACK, PUBLISH, Acks, Event, FrameReader, Method, Publishes
from . import alarm_blocking, closing, events, limits, revocation
from .channel import Channel
from .confirms import send_confirms
from .connection_state import CLOSED, CLOSING, HANDSHAKE, RUNNING, state_text
from .consumer import ChannelConsumer
from .flow_control import PublisherThrottle
from .handshake import Handshake
from .methods import publish
from .operations import Postponed
from .output_buffer import OutputBuffer
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
CHANGES: Final = frozenset(
    (
        CHANNEL_OPEN,
        commands.Exchange.Declare.index,
        commands.Exchange.Delete.index,
        commands.Queue.Declare.index,
        commands.Queue.Delete.index,
    )
)
AT_ONCE_COST: Final = 1_000  # of input that is handled as soon as it arrives
WOKEN: Final = 500  # consumers that waited for room in the output, woken at once
STEP_COST: Final = 500  # of a step of the job that handles the rest
# Methods that are served while replies to earlier ones wait for the journal; their own replies wait in order with them.
OVERLAPPING: Final = frozenset(
    (
        commands.Exchange.Declare.index,
        commands.Exchange.Delete.index,
        commands.Exchange.Bind.index,
        commands.Exchange.Unbind.index,
        commands.Queue.Declare.index,
        commands.Queue.Delete.index,
        commands.Queue.Bind.index,
        commands.Queue.Unbind.index,
    )
)
REPLIES_DUE_LIMIT: Final = 1000


@mypyc_attr(allow_interpreted_subclasses=True)
class Connection(Publisher):
    """Server side of one AMQP connection: handshake, channels, output, suspension and throttling.

    user        None before the login
    vhost       None before connection.open and after the connection has ended
    login_name  of the last login, a refused one included
    """

    # HOT: bench K. Without slots, more than 30 attributes make each look-up of one slower (CPython 3.11).
    __slots__ = (
        "node",
        "settings",
        "peer",
        "transport",
        "channels",
        "reader",
        "output",
        "state",
        "user",
        "login_name",
        "mechanism",
        "vhost",
        "vhost_name",
        "client_properties",
        "capabilities",
        "frame_max",
        "channel_max",
        "heartbeat_s",
        "id",
        "connected_at_ms",
        "received_bytes",
        "received_reads",
        "sent_bytes",
        "sent_writes",
        "stalled",
        "owned",
        "confirming",
        "publisher_throttle",
        "blocked",
        "blocked_by",
        "deferred",
        "spent",
        "created",
        "suspended",
        "waits_for_room",
        "replies_due",
        "interrupted",
        "_handshake",
        "_greeted",
        "trusted",
        "_flushing",
        "_left",
        "_queued",
        "_requests_ended",
        "_throttled",
        "_rejected",
        "refusal",
        "transaction_bytes",
    )

    def __init__(self, node: Node, settings: Settings, peer: Peer, transport: TransportPort) -> None:
        self.node = node
        self.settings = settings
        self.peer = peer
        self.transport = transport
        self.channels: dict[int, Channel] = {}
        self.reader = FrameReader(settings.initial_frame_max, settings.max_message_size, self.channels)
        self.output = OutputBuffer()
        self.state = HANDSHAKE
        self.user: User | None = None
        self.login_name = ""
        self.mechanism = ""
        self.vhost: VHost | None = None
        self.vhost_name = ""  # remains after the connection has ended
        self.client_properties = Table.EMPTY
        self.capabilities: frozenset[str] = frozenset()
        self.frame_max = settings.initial_frame_max
        self.channel_max = 0
        self.heartbeat_s = 0
        self.id = 0  # unique while the node runs
        self.connected_at_ms = node.clock.now_ms()
        self.received_bytes = 0
        self.received_reads = 0
        self.sent_bytes = 0
        self.sent_writes = 0
        self.stalled: list[ChannelConsumer] = []
        self.owned: dict[str, Queue] = {}
        self.confirming: list[Channel] = []
        self.publisher_throttle = PublisherThrottle()
        self.blocked = False  # by an alarm, after it has published or declared
        self.blocked_by = ""  # the resource for which a declaration waits
        self.deferred: Event | None = None  # the publish, declaration or postponed method that is handled next
        self.spent = 0  # cost of routing, and of enqueueing in several queues, that `_work` has not charged yet
        self.created = 0  # new queues, exchanges and bindings, while memory is low
        self.suspended = 0  # calls of `suspend` without `resume`: for the disk, jobs, the login
        self.waits_for_room = False  # suspended until dead letters or unfinished publishes take less memory
        self.replies_due = 0  # replies that wait for the journal
        self.interrupted = False  # input is waiting: suspended, blocked, output full, or the turn of others
        self._handshake: Handshake | None = Handshake(self)
        self._greeted = False
        self.trusted = True  # until a malformed frame
        self._flushing = False
        self._left = AT_ONCE_COST  # cost that may be spent before others have their turn
        self._queued = False  # a job handles the input
        self._requests_ended: Callable[[], None] | None = None
        self._throttled = False  # suspended until the journal has caught up
        self._rejected = False  # the last event has settled deliveries, and requeued none
        self.refusal: AMQPError | None = None  # the error of `deferred`, which failed while earlier replies were due
        self.transaction_bytes = 0  # of the publishes in the transactions of all channels

    def await_requests(self, call: Callable[[], None]) -> bool:
        """Return whether a job handles the input, at whose end `call` is called."""
        if self._queued:
            self._requests_ended = call
        return self._queued

    @property
    def name(self) -> str:
        """Name of the connection as RabbitMQ lists it: `HOST:PORT -> HOST:PORT`."""
        return str(self.peer)

    def __str__(self) -> str:
        """Identifier in events, unique while the node runs."""
        return f"<{self.node.name}.{self.id}.0>"

    @property
    def client_name(self) -> str:
        """The client's own name for the connection, or an empty text."""
        return self.client_properties.text("connection_name") or ""

    @property
    def state_text(self) -> str:
        """State of the connection as RabbitMQ lists it."""
        return self._handshake.state if self.state == HANDSHAKE and self._handshake else state_text(self)

    @property
    def held_bytes(self) -> tuple[int, int, int]:
        """The bytes of contents that are still arriving, of output, and of publishes in transactions."""
        return self.reader.held_bytes, self.output.held_bytes + self.transport.unsent_bytes(), self.transaction_bytes

    @property
    def ended(self) -> bool:
        return self.vhost is None

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
                        alarm_blocking.block(self)
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
                closing.fail(self, error)
            except Postponed as postponed:
                self.deferred = event
                self.suspend()
                postponed.wait(self.resume)
            except alarm_blocking.Blocked as blocked:
                self.deferred = event
                alarm_blocking.block(self, blocked.resource)
        if self.confirming:
            self.confirm()
        if self.node.pending:
            self._left -= scheduler.pump()

    def _handle_first(self, event: Publishes) -> None:
        """Block the connection, and handle the first publish of these if it is still taken. Raises as `_handle`."""
        alarm_blocking.block(self)
        first, rest = alarm_blocking.split(self, event)
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
            closing.fail(self, error)
        else:
            closing.close_channel(channel, error)

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
                # Before the last yield, since what is received after it is handled as it comes, or by another job.
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
            closing.await_close_ok(self, event)
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
            closing.await_channel_close_ok(channel, event)
        else:
            try:
                self._on_channel(channel, event)
            except AMQPError as error:
                if error.hard or self.replies_due:
                    raise
                closing.close_channel(channel, error)

    def _on_channel(self, channel: Channel, event: Event) -> None:
        rejected, self._rejected = self._rejected, False
        if isinstance(event, Publishes):
            publish.serve(channel, event)
            return
        if isinstance(event, Acks):
            channel.ack(event.tags, event.multiple)
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
            closing.end_channel(channel, method_encoder.method(channel.number, method_encoder.CHANNEL_CLOSE_OK))
            return
        channel.handle(event.index, method, table)
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
        limits.admit_channel(self)
        self.channels[number] = channel = Channel(self, number)
        events.channel_created(channel)
        self.send(method_encoder.method(number, method_encoder.CHANNEL_OPEN_OK, method_encoder.long_string(b"")))

    # Channel 0

    def _control(self, event: Method) -> None:
        method, table = method_decoder.decode(event.index, event.payload)
        try:
            if isinstance(method, commands.Connection.Close):
                closing.closed_by_client(self)
            elif self._handshake is not None:
                self._handshake.handle(method, table)
            else:
                self._running_method(method)
        except AMQPError as error:
            raise error.of_method(event.index) from None

    def _running_method(self, method: base.Frame) -> None:
        if isinstance(method, commands.Connection.UpdateSecret):
            revocation.renew_rights(self, partial(self._secret_updated, str(method.reason)))
        else:
            raise ChannelFault("unexpected method in connection state running")

    def _secret_updated(self, reason: str) -> None:
        self.transport.report("secret_updated", "info", {"reason": reason})
        self.send(method_encoder.method(0, method_encoder.UPDATE_SECRET_OK))

    def opened(self, vhost: VHost) -> None:
        """Complete the handshake: the connection is open in this virtual host."""
        self.vhost = vhost
        self.vhost_name = vhost.name
        self._handshake = None
        self.state = RUNNING
        self.node.open_connections += 1
        self.node.churn.connection_created += 1
        user = self.user.name if self.user is not None else ""
        self.node.census.connected(vhost.name, self.user.account if self.user is not None else "")
        self.transport.report(
            "connection_opened", "info", {"vhost": vhost.name, "user": user, "client_name": self.client_name}
        )
        self.transport.running(self.heartbeat_s)
        events.connection_created(self)

    # Output

    def send(self, frames: bytes) -> None:
        """Append whole frames to the output."""
        self.output.buffer += frames
        if not self._flushing:
            self._flushing = True
            self.transport.flush_soon()

    def request_flush(self) -> None:
        """Make the transport take the output and call `flushed`, which resumes what waited for it."""
        if not self._flushing:
            self._flushing = True
            self.transport.flush_soon()

    def take_output(self) -> list[bytes | bytearray]:
        """Remove and return the output; later output requests another flush."""
        self._flushing = False
        return self.output.take()

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

    def suspend(self) -> None:
        """Stop handling input until `resume` was called as often as this."""
        self.suspended += 1

    def suspend_for_journal(self) -> None:
        """Stop handling input until all that the journal has now is durable."""
        if not self._throttled:
            self._throttled = True
            self.suspend()
            journal = self.node.journal
            journal.when_durable(journal.ticket(), self._journal_caught_up)

    def _journal_caught_up(self) -> None:
        self._throttled = False
        self.resume()

    def resume(self) -> None:
        """Undo one `suspend`; after the last one input is handled again."""
        if self.suspended:  # 0 after a failure, which ends all suspensions
            self.suspended -= 1
        if not self.suspended:
            self.waits_for_room = False
            self.request_flush()

    def replied(self) -> None:
        """Note that a reply which waited for the journal was sent; after the last one all input is handled again."""
        if self.replies_due:  # 0 after a failure, which drops these replies
            self.replies_due -= 1
        if not self.replies_due:
            self.request_flush()

    def job_failed(self) -> None:
        """Close the connection with 541 after a bug has ended a job for it: the client would get no other reply."""
        self.close(InternalFault("the broker failed to serve this connection"))

    def throttle(self, queue: Queue) -> None:
        """Stop reading until the queue has drained or makes no progress. Connections with consumers are always read."""
        if queue in self.publisher_throttle.queues or any(channel.consumers for channel in self.channels.values()):
            return
        queue.held_publishers.hold(self)
        if self.publisher_throttle.add(queue):
            self.transport.hold()

    def drained(self, queue: Queue) -> None:
        self.publisher_throttle.queues.pop(queue, None)
        if not self.publisher_throttle.queues:
            self.transport.release()

    def disowned(self, queue: Queue) -> None:
        self.owned.pop(queue.name, None)

    def confirm(self) -> None:
        """Send the confirms that became due since the last call."""
        for channel in self.confirming:
            send_confirms(channel)
        self.confirming.clear()

    # The end

    def close(self, error: AMQPError) -> None:
        """Close the connection for an operator, a deleted user or virtual host, or the stop of the node."""
        if not self._greeted:
            self.state = CLOSED
            self.transport.close(0.0)
        elif self.state in (HANDSHAKE, RUNNING):
            closing.fail(self, error)
            self.node.pump()

    def lost(self, reason: str, level: str = "warning") -> None:
        """Release everything after the socket has closed, in any state."""
        if self.state in (HANDSHAKE, RUNNING):
            event = "connection_lost" if self._greeted else "connection_gone_before_header"
            fields = closing.log_fields(self) | {"reason": reason}
            self.transport.report(event, level if self._greeted else "debug", fields)
        self.state = CLOSED
        if self._handshake is not None:
            self._handshake.forget_login()
            self._handshake = None  # a cycle
        self.deferred = None
        self.reader = FrameReader(0, 0, ())  # a job may keep this connection for long, but not its input
        closing.release_resources(self)
        self.node.pump()

    def end(self, event: str, after_s: float, fields: dict[str, object]) -> None:
        """Log `event` and begin to close.

        Close methods are still answered. The socket closes once the peer has closed it, after `after_s` seconds at the
        latest.
        """
        self.transport.report(event, "info", fields)
        self.state = CLOSING
        self.transport.close(after_s)
