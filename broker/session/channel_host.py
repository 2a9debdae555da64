"""A connection as its channels and its handshake use it, and a channel as its consumers and confirms use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from mypy_extensions import mypyc_attr

from ..amqp.errors import AMQPError, InternalFault
from ..amqp.field_table import Table
from ..amqp.framing import reframe
from ..core.access.users import User
from ..core.counters.statistics import DeliveryCounters, PublishCounters
from ..core.messages.message import Message
from ..core.node.node import Node
from ..core.queues.consumers import ConsumerGroup
from ..core.queues.flow_control import Publisher
from ..core.queues.queue import Queue
from ..core.queues.route_target import EnqueueResult, RouteTarget
from ..core.queues.traffic_log import Origin
from ..core.vhost.vhost import VHost
from ..wire.frame_reader import Event
from .confirms import Confirms
from .prefetch import SharedPrefetch
from .publisher_throttle import PublisherThrottle
from .settings import Settings
from .transport import Peer, TransportPort
from .unacked import CreditConsumer, UnackedDeliveries

# States of a connection
HANDSHAKE: Final = 0
RUNNING: Final = 1
CLOSING: Final = 2
CLOSED: Final = 3
# Bytes of deliveries in one write; beyond this, consumers wait until it is done. A write that fits one segment of the
# loopback (64 KiB) reaches the client in one piece, which it can process while the next is made.
DELIVERY_LIMIT: Final = 56 << 10
# Contents from this size are written without a copy. They count a fraction, because few long writes are cheaper then.
LARGE_BYTES: Final = 1 << 14
LARGE_SHARE: Final = 8
# Bytes of all output, beyond which a client that sends requests and reads no replies is not read. Deliveries alone
# never reach it, so the acknowledgements of a slow consumer are always read.
OUTPUT_LIMIT: Final = 1 << 20


class OutputBuffer:
    """Frames that wait for the next write."""

    __slots__ = ("buffer", "writable", "limit", "_large", "_large_bytes")

    def __init__(self) -> None:
        self.buffer = bytearray()  # frames are appended here
        self.writable = True  # False while the socket's own buffer is full
        self.limit = DELIVERY_LIMIT  # bytes of deliveries: DELIVERY_LIMIT, or 0 after the last delivery
        self._large: list[bytes | bytearray] = []  # output before `buffer`, with contents too long to copy
        self._large_bytes = 0

    def add_large(self, frames: bytes) -> bytearray:
        """Append frames without copying them, and return the buffer for the frames that follow."""
        self._large += (self.buffer, frames)
        self._large_bytes += len(self.buffer) + len(frames)
        self.buffer = bytearray()
        return self.buffer

    def take(self) -> list[bytes | bytearray]:
        """Remove and return all output in order."""
        taken = self._large
        if self.buffer:
            taken.append(self.buffer)
            self.buffer = bytearray()
        self._large = []
        self._large_bytes = 0
        return taken

    def room(self) -> int:
        """Return how many bytes of deliveries may be added before consumers must wait."""
        return self.limit - len(self.buffer) - self._large_bytes // LARGE_SHARE if self.writable else 0

    def waits(self) -> bool:
        """Whether there is output."""
        return bool(self.buffer) or bool(self._large)

    @property
    def held_bytes(self) -> int:
        """The bytes of all output that no write has taken."""
        return len(self.buffer) + self._large_bytes

    def full(self) -> bool:
        """Whether the client has to read some of it before it is served again."""
        return len(self.buffer) + self._large_bytes > OUTPUT_LIMIT


class Postponed(Exception):
    """A method has to be served again, when the function is called that is passed to `wait`."""

    def __init__(self, wait: Callable[[Callable[[], None]], object]) -> None:
        super().__init__()
        self.wait = wait


@mypyc_attr(allow_interpreted_subclasses=True)
class ChannelHost(Publisher):
    """A connection as its channels use it: the client, the output, the suspension of input, and the work to charge."""

    # HOT: bench K. Without slots, more than 30 attributes make each look-up of one slower (CPython 3.11).
    __slots__ = (
        *("node", "settings", "peer", "transport", "id", "state", "connected_at_ms"),
        *("user", "login_name", "mechanism", "vhost", "vhost_name", "client_properties", "capabilities"),
        *("frame_max", "channel_max", "heartbeat_s"),
        *("output", "stalled", "owned", "confirming", "publisher_throttle"),
        *("deferred", "spent", "created", "suspended", "waits_for_room", "replies_due", "transaction_bytes"),
        *("_flushing", "_throttled"),
    )

    def __init__(self, node: Node, settings: Settings, peer: Peer, transport: TransportPort) -> None:
        self.node = node
        self.settings = settings
        self.peer = peer
        self.transport = transport
        self.id = 0  # unique while the node runs
        self.state = HANDSHAKE
        self.connected_at_ms = node.clock.now_ms()
        self.user: User | None = None  # before the login
        self.login_name = ""  # of the last login, a refused one included
        self.mechanism = ""
        self.vhost: VHost | None = None  # before connection.open and after the connection has ended
        self.vhost_name = ""  # remains after the connection has ended
        self.client_properties = Table.EMPTY
        self.capabilities: frozenset[str] = frozenset()
        self.frame_max = settings.initial_frame_max
        self.channel_max = 0
        self.heartbeat_s = 0
        self.output = OutputBuffer()
        self.stalled: list[CreditConsumer] = []
        self.owned: dict[str, Queue] = {}
        self.confirming: list[ChannelState] = []
        self.publisher_throttle = PublisherThrottle()
        self.deferred: Event | None = None  # the publish, declaration or postponed method that is handled next
        self.spent = 0  # cost of routing, and of enqueueing in several queues, that is not charged yet
        self.created = 0  # new queues, exchanges and bindings, while memory is low
        self.suspended = 0  # calls of `suspend` without `resume`: for the disk, jobs, the login
        self.waits_for_room = False  # suspended until dead letters or unfinished publishes take less memory
        self.replies_due = 0  # replies that wait for the journal
        self.transaction_bytes = 0  # of the publishes in the transactions of all channels
        self._flushing = False
        self._throttled = False  # suspended until the journal has caught up

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
    def ended(self) -> bool:
        return self.vhost is None

    def charge(self, cost: int) -> None:
        """Charge work to the connection (`jobs.scheduler`)."""
        self.spent += cost

    # Output

    def send(self, frames: bytes) -> None:
        """Append whole frames to the output."""
        self.output.buffer += frames
        if not self._flushing:
            self._flushing = True
            self.transport.flush_soon()

    def request_flush(self) -> None:
        """Make the transport take the output and call `Connection.flushed`, which resumes what waited for it."""
        if not self._flushing:
            self._flushing = True
            self.transport.flush_soon()

    def take_output(self) -> list[bytes | bytearray]:
        """Remove and return the output; later output requests another flush."""
        self._flushing = False
        return self.output.take()

    def confirm(self) -> None:
        """Send the confirms that became due since the last call."""
        for channel in self.confirming:
            channel.send_confirms()
        self.confirming.clear()

    # Suspension of input

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

    @property
    def always_read(self) -> bool:
        """Whether it is read also while queues that it publishes to are congested."""
        return False

    def throttle(self, queue: Queue) -> None:
        """Stop reading until the queue has drained or makes no progress, unless the connection is always read."""
        if queue in self.publisher_throttle.queues or self.always_read:
            return
        queue.held_publishers.hold(self)
        if self.publisher_throttle.add(queue):
            self.hold()

    def drained(self, queue: RouteTarget) -> None:
        self.publisher_throttle.queues.pop(cast("Queue", queue), None)
        if not self.publisher_throttle.queues:
            self.release()

    def leave_queues(self) -> None:
        """Let no queue hold the connection back any more."""
        for queue in self.publisher_throttle.queues:
            queue.held_publishers.forget(self)
        self.publisher_throttle.queues.clear()
        self.release()

    def hold(self) -> None:
        """Stop reading."""
        self.transport.hold()

    def release(self) -> None:
        """Read again."""
        self.transport.release()

    def disowned(self, queue: RouteTarget) -> None:
        self.owned.pop(queue.name, None)

    # The end

    def close(self, error: AMQPError) -> None:
        """Close the connection for an operator, a deleted user or virtual host, or the stop of the node."""

    def job_failed(self) -> None:
        """Close the connection with 541 after a bug has ended a job for it: the client would get no other reply."""
        self.close(InternalFault("the broker failed to serve this connection"))

    def end(self, event: str, after_s: float, fields: dict[str, object]) -> None:
        """Log `event` and begin to close.

        Close methods are still answered. The socket closes once the peer has closed it, after `after_s` seconds at the
        latest.
        """
        self.transport.report(event, "info", fields)
        self.state = CLOSING
        self.transport.close(after_s)

    def log_fields(self, ends: bool = True) -> dict[str, object]:
        """Return the fields of the connection for the log: user, names, and its duration if it ends."""
        fields: dict[str, object] = {"user": self.login_name}
        if self.client_name:
            fields["client_name"] = self.client_name
        if self.vhost is not None:
            fields["vhost"] = self.vhost.name
            if ends:
                fields["duration_s"] = (self.node.clock.now_ms() - self.connected_at_ms) // 1000
        return fields


class ChannelState(ConsumerGroup):
    """A channel as its consumers and its confirms use it: numbers, unsettled deliveries, and counters."""

    __slots__ = (
        *("connection", "number", "vhost", "user", "closing", "delivery_tag", "unacked", "shared_prefetch", "cancels"),
        *("confirms", "publishing", "delivering", "rates", "statistics", "origin"),
    )

    def __init__(self, connection: ChannelHost, number: int, shared_prefetch: SharedPrefetch) -> None:
        super().__init__()
        assert connection.vhost is not None and connection.user is not None
        self.connection = connection
        self.number = number
        self.vhost: VHost = connection.vhost
        self.user: User = connection.user
        self.closing = False  # either side has closed it
        self.delivery_tag = 0  # of the last delivery
        self.unacked = UnackedDeliveries()
        self.shared_prefetch = shared_prefetch
        self.cancels: list[bytes] | None = None  # basic.cancel frames of a queue.delete, which follow its reply
        self.confirms: Confirms | None = None
        self.publishing = PublishCounters()
        self.delivering = DeliveryCounters()
        breakdown = connection.node.detailed_rates
        self.rates = breakdown.open() if breakdown is not None else None  # if the node keeps rates of each channel
        self.statistics = self.vhost.statistics
        self.origin = Origin(connection.name, number, self.vhost.name, self.user.name)

    @property
    def pid(self) -> str:
        """Identifier in events, unique while the node runs."""
        return f"<{self.connection.node.name}.{self.connection.id}.{self.number}>"

    def send(self, frames: bytes) -> None:
        self.connection.send(frames)

    def frames_of(self, message: Message) -> bytes:
        """Return the frames of a content on the number of this channel, none of them longer than the client takes."""
        frame_max = self.connection.frame_max
        if message.channel == self.number and not message.largest_frame > frame_max > 0:
            return message.frames
        return reframe(message.frames, self.number, frame_max)

    def forget(self, consumer: CreditConsumer) -> bool:
        """Remove a consumer that its queue has removed, and return whether the channel had it."""
        raise NotImplementedError

    def remove(self, consumer: CreditConsumer) -> None:
        """Remove a consumer from the channel and from its queue."""

    def pause(self, queue: Queue) -> None:
        """Pause a queue until the channel, which is closing, has ended."""

    # Confirms

    def expect_confirms(self, confirms: Confirms, count: int, receipt: EnqueueResult) -> None:
        """Register `count` publishes to be confirmed once they are safe. HOT: bench D."""
        connection = self.connection
        self.statistics.received_confirm += count
        journal = connection.node.journal
        ticket = journal.ticket() if receipt.stored else 0
        if not receipt.refused:
            waits = confirms.published(count, ticket, journal.durable)
        else:
            waits = False
            for index in range(count):
                if index in receipt.refused:
                    confirms.refused(journal.durable)
                else:
                    waits = confirms.published(1, ticket, journal.durable) or waits
        if waits:
            journal.when_durable(ticket, self._confirm_committed)
        if self not in connection.confirming:
            connection.confirming.append(self)

    def _confirm_committed(self) -> None:
        """Confirm the publishes that the journal has made durable."""
        if self.confirms is not None and not self.connection.ended:
            self.confirms.committed(self.connection.node.journal.durable)
            self.send_confirms()

    def send_confirms(self) -> None:
        """Send the acks and nacks that are due, and count and log them."""
        confirms = self.confirms
        if confirms is not None and not self.closing:
            before, sent = confirms.confirmed, confirms.last_sent
            log = self.vhost.traffic_log
            refused = confirms.refusals() if log is not None else ()
            frame = confirms.drain_frames(self.number)
            if frame:
                if log is not None:
                    log.confirmed(self.origin, sent + 1, confirms.last_sent, refused)
                self.send(frame)
                confirmed = confirms.confirmed - before
                self.publishing.confirm += confirmed
                self.statistics.publishing.confirm += confirmed
            if confirms.due:  # very many nacks: the rest in the next turn
                clock = self.connection.node.clock
                clock.call_at(clock.now_ms(), self.send_confirms)
