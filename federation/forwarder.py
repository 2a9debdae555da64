"""The forwarder: publishes the deliveries of one upstream channel locally, in order, and acknowledges them upstream.

A delivery is acknowledged when it is safe in the local broker. While it cannot be published (an alarm, queues under
back-pressure, a queue that refuses it), it waits unacknowledged with all deliveries after it. The prefetch limits how
many the upstream sends meanwhile; without a prefetch, or if the messages are large, the socket is paused.

A delivery whose publish takes several turns of the loop is `unfinished`: later ones wait until it is published.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.broker.plugin import AMQPError, Content, InternalPublisher, Node, Properties, Queue

from .hop_headers import MALFORMED
from .link_status import BLOCKED, FLOWING, LinkStatus

if TYPE_CHECKING:
    from warren.broker.session.internal_publisher import PublishResult

    from .upstream.delivery_parser import Delivery
    from .upstream.transport import UpstreamTransport

WAITING_BYTES = 16 << 20  # of waiting messages; above this the socket is paused
DELIVERY_BYTES = 500  # approximate memory of a delivery without its properties and body
SLICE = 500  # waiting messages published in one turn of the loop, at most
LONG_BYTES, LONG_SLICE_BYTES = 512, 1 << 15  # of long properties: of one message, and of those published in one turn
RETRY_S, RETRY_MOST_S = 0.1, 5.0  # first and longest delay before a refused message is tried again
LAG_S = 1.0  # between two measurements of the age of a message

ABOVE_ALL = 1 << 64  # delivery tags

NO_ACK, ON_PUBLISH = "no-ack", "on-publish"
REFUSED = "a queue of this broker refuses messages"

# Returns the properties to publish a message with, or None to drop it.
Prepare = Callable[["Delivery"], bytes | None]


@dataclass(eq=False, repr=False)
class Forwarder:
    """The forwarder of the deliveries of one channel.

    `routing_key` is None if each message keeps its own. `lost` is called with the reason when the local exchange or
    queue is deleted. `refused` is called for each prepared message that was not published and will be prepared again;
    with it, a message that `prepare` drops may be a repeat, and is acknowledged once its first copy is safe.
    """

    _node: Node
    _publisher: InternalPublisher
    _transport: UpstreamTransport
    _status: LinkStatus
    _ack_mode: str
    _exchange: str
    _routing_key: str | None
    _prepare: Prepare
    _lost: Callable[[str], None]
    _undo: Callable[[Delivery], None] | None = None

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = 0
        self._waiting: deque[Delivery] = deque()
        self._waiting_bytes = 0
        self._unfinished: Delivery | None = None
        self._slice = SLICE  # waiting messages to publish in the next turn; fewer after a turn that had no time for all
        self._paused = False  # whether this forwarder paused the socket
        self._refused = ""  # why the first waiting message was refused
        self._retry_s = RETRY_S
        self._timer: asyncio.TimerHandle | None = None
        self._resuming = False
        self._closed = False
        self._holding = False
        self._published = 0  # the tag of the last delivery that is published or dropped
        self._tickets: deque[tuple[int, int, int]] = deque()  # journal ticket, its last delivery tag, count
        self._acked = 0
        self._rejected: set[int] = set()  # tags after `_acked` that are settled already
        self._measured_s = 0.0
        # The queue that takes all deliveries as they are, in place of publishing them.
        self.drain_into: Queue | None = None
        # Whether the local queue is deleted; a publish to the default exchange would only be unroutable.
        self.target_deleted: Callable[[], bool] = lambda: False
        # Called with one reason after this broker rejected messages.
        self.rejected: Callable[[str], None] = lambda reason: None
        # Called when the link is no longer blocked.
        self.free: Callable[[], None] = lambda: self._status.flow(FLOWING, "")
        self._publisher.on_finished = self._finished
        self._publisher.on_release = self.resume
        self._node.alarms.add_hook(self._alarm_changed)

    def close(self) -> None:
        """Stop forwarding. The upstream requeues unacknowledged deliveries when the channel is closed."""
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
        if self._unfinished is not None:
            self._forget([self._unfinished])
        self._node.alarms.remove_hook(self._alarm_changed)
        if self._timer is not None:
            self._timer.cancel()
        self._publisher.close()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # In

    def take(self, deliveries: list[Delivery]) -> None:
        """Publish deliveries of one channel, or keep them waiting."""
        if self._closed:
            return
        self._channel = deliveries[0].channel
        if not self._waiting and not self._block_reason():
            self._forward(deliveries)
        else:
            self._wait(deliveries)

    def _block_reason(self) -> str:
        """Return the reason why nothing can be published now, or an empty string."""
        if self._node.alarms.reason:
            return f"this broker is {self._node.alarms.reason}"
        if self._refused:
            return self._refused
        return "queues of this broker do not keep up" if self._publisher.held else ""

    def _wait(self, deliveries: list[Delivery]) -> None:
        self._waiting.extend(deliveries)
        self._waiting_bytes += memory_bytes(deliveries)
        self._status.flow(BLOCKED, self._block_reason() or self._status.reason)
        if not self._paused and (self._ack_mode == NO_ACK or self._waiting_bytes > WAITING_BYTES):
            self._paused = True
            self._transport.hold()

    def _alarm_changed(self, resource: str, on: bool) -> None:
        if on:
            self._status.flow(BLOCKED, self._block_reason())
        else:
            self.resume()

    def resume(self) -> None:
        """Publish waiting deliveries, unless the link is still blocked."""
        if not self._resuming and not self._closed and not self._block_reason():
            self._resuming = True
            self._loop.call_soon(self._publish_waiting)

    def retry_soon(self) -> None:
        """Publish refused deliveries at once: the queue has room again."""
        if self._timer is not None and not self._closed:
            self._timer.cancel()
            self._retry()

    def _retry(self) -> None:
        self._timer = None
        self._refused = ""
        self.resume()

    def _publish_waiting(self) -> None:
        self._resuming = False
        if self._closed or self._block_reason():
            return
        waiting = self._waiting
        # After a refusal, try a single message first.
        count = min(len(waiting), 1 if self._retry_s > RETRY_S else self._slice)
        deliveries = [waiting.popleft() for _ in range(count)]
        self._waiting_bytes -= memory_bytes(deliveries)
        if deliveries:
            self._forward(deliveries)
        if waiting:
            self.resume()
            return
        self.free()
        if self._paused:
            self._paused = False
            self._transport.release()

    # Out

    def _forward(self, deliveries: list[Delivery]) -> None:
        """Publish deliveries. HOT: the federation bench."""
        if self.target_deleted():
            self._give_up("the queue that the link publishes to is deleted")
            return
        at, count, long_bytes = 0, len(deliveries), 0
        prepare = self._prepare
        while at < count:
            going, contents = [], []
            while at < count and long_bytes < LONG_SLICE_BYTES:
                delivery = deliveries[at]
                at += 1
                if len(delivery.properties) > LONG_BYTES:
                    long_bytes += len(delivery.properties)
                properties = prepare(delivery)
                if properties is not None:
                    going.append(delivery)
                    contents.append((properties, delivery.body_bytes, delivery.body_frames))
            last = deliveries[at - 1].tag
            left: list[Delivery] | None = []
            if going:
                left = self._publish(going, contents, last)
            else:
                self._settle(last, self._repeat_ticket(), 0)
            if left is None:
                return
            if left or self._unfinished is not None or at < count and long_bytes >= LONG_SLICE_BYTES:
                self._return(left + deliveries[at:])
                break
        self._acknowledge()
        self._measure_lag(deliveries[-1])

    def _return(self, deliveries: list[Delivery]) -> None:
        """Put deliveries that are not published yet before the waiting ones."""
        self._waiting.extendleft(reversed(deliveries))
        self._waiting_bytes += memory_bytes(deliveries)
        self.resume()

    def _send(self, going: list[Delivery], contents: list[Content]) -> PublishResult:
        """Publish the contents of deliveries. Raises AMQPError."""
        queue = self.drain_into
        if queue is None and self._routing_key is not None:
            return self._publisher.publish(self._exchange, self._routing_key, contents)
        first = going[0]
        if queue is None:
            key = first.routing_key
            if all(delivery.routing_key == key for delivery in going):
                return self._publisher.publish(self._exchange, text_of(key), contents)
            keys = [text_of(delivery.routing_key) for delivery in going]
            return self._publisher.publish_each(self._exchange, keys, contents)
        address = first.exchange, first.routing_key
        if all((delivery.exchange, delivery.routing_key) == address for delivery in going):
            return self._publisher.put(queue, text_of(first.exchange), text_of(first.routing_key), contents)
        addresses = [(text_of(delivery.exchange), text_of(delivery.routing_key)) for delivery in going]
        return self._publisher.put_each(queue, addresses, contents)

    def _publish(self, going: list[Delivery], contents: list[Content], last: int) -> list[Delivery] | None:
        """Publish. Returns the deliveries to publish later, or None if the local exchange is deleted."""
        try:
            result = self._send(going, contents)
        except AMQPError as error:
            self._forget(going)
            self._give_up(error.reply_text)
            return None
        return self._process(result, going, last)

    def _process(self, result: PublishResult, going: list[Delivery], last: int) -> list[Delivery]:
        """Settle the deliveries that are published, and return those to publish later."""
        if result.invalid:
            self._reject({going[index].tag: reason for index, reason in result.invalid.items()})
        forwarded = result.count - len(result.refused) - len(result.invalid)
        self._status.forwarded += forwarded
        ticket = max(result.ticket, self._repeat_ticket())
        later = result.count
        if result.unfinished:
            self._unfinished = going[later]
            later += 1
        pending = [going[index] for index in sorted(result.refused)] + going[later:]
        if result.count and not result.refused:
            self._retry_s = RETRY_S
        self._slice = min(2 * result.count + 1 if result.count < len(going) else 2 * self._slice, SLICE)
        first = self._first_pending(pending)
        if first > last:
            self._settle(last, ticket, forwarded)
            return []
        self._settle(first - 1, ticket, forwarded, ends=False)
        self._published = max(self._published, last)  # the pending ones are published before any later delivery
        self._forget(pending)
        if result.refused:
            self._retry_later(len(result.refused), result.problem or REFUSED)
        return pending

    def _first_pending(self, pending: list[Delivery]) -> int:
        """Return the lowest tag of these deliveries, the unfinished one and the waiting ones, or ABOVE_ALL."""
        tags = [some[0].tag for some in (pending, self._waiting) if some]
        if self._unfinished is not None:
            tags.append(self._unfinished.tag)
        return min(tags, default=ABOVE_ALL)

    def _retry_later(self, count: int, reason: str) -> None:
        """Block the link for some time after a queue has refused deliveries."""
        self._status.nacked += count
        self._refused = reason
        self._timer = self._loop.call_later(self._retry_s, self._retry)
        self._retry_s = min(2 * self._retry_s, RETRY_MOST_S)
        self._status.flow(BLOCKED, self._block_reason())

    def _finished(self) -> None:
        """Settle the delivery that was unfinished, or let it wait if a queue refused it."""
        delivery, self._unfinished = self._unfinished, None
        assert delivery is not None, "a closed publisher finishes nothing"
        try:
            result = self._publisher.finish()
        except AMQPError as error:
            self._forget([delivery])
            self._give_up(error.reply_text)
            return
        if self.target_deleted():
            self._give_up("the queue that the link publishes to is deleted")
            return
        self._return(self._process(result, [delivery], delivery.tag))
        self._acknowledge()

    def _reject(self, reasons: dict[int, str]) -> None:
        """Reject deliveries that are invalid as publishes: the upstream drops or dead-letters them."""
        self._status.dropped_invalid += len(reasons)
        if self._ack_mode != NO_ACK:
            for tag in reasons:
                self._rejected.add(tag)
                self._transport.nack(self._channel, tag, False)
        self.rejected(next(iter(reasons.values())))

    def _give_up(self, reason: str) -> None:
        """Stop forwarding after a message that cannot be published: later acknowledgements would include it."""
        self._acknowledge()
        self.close()
        self._lost(reason)

    def _repeat_ticket(self) -> int:
        """Return the journal ticket that makes the first copies of dropped repeats durable, or 0."""
        return 0 if self._undo is None else self._node.journal.ticket()

    def _forget(self, deliveries: list[Delivery]) -> None:
        """Undo the preparation of deliveries that were not published and will be tried again."""
        if self._undo is not None:
            for delivery in deliveries:
                self._undo(delivery)

    # Acknowledging

    def _settle(self, tag: int, ticket: int, count: int, ends: bool = True) -> None:
        """Note that all deliveries up to `tag` are published or dropped, and are safe once `ticket` is durable.

        `ends` is False if refused deliveries still wait.
        """
        tag = max(tag, self._published) if ends and not self._waiting else tag
        self._published = max(self._published, tag)
        if self._ack_mode == ON_PUBLISH:
            ticket = 0
        tickets = self._tickets
        if tickets and (ticket <= tickets[-1][0]):
            ticket, _, before = tickets.pop()
            tickets.append((ticket, tag, before + count))
            return
        tickets.append((ticket, tag, count))
        if ticket > self._node.journal.durable:
            self._node.journal.when_durable(ticket, self._acknowledge)

    def hold(self, holding: bool) -> None:
        """Start or stop withholding acknowledgements, so that the upstream delivers no more than the prefetch."""
        if holding != self._holding:
            self._holding = holding
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge the deliveries that are now safe."""
        if self._holding:
            return
        durable = self._node.journal.durable
        tickets = self._tickets
        tag = 0
        while tickets and tickets[0][0] <= durable:
            _, tag, count = tickets.popleft()
            self._status.confirmed += count
        self._status.unconfirmed = self._status.forwarded - self._status.confirmed
        if tag > self._acked and not self._closed:
            last, self._acked = self._acked, tag
            if self._rejected:
                tag = self._last_unsettled(tag)
            if self._ack_mode != NO_ACK and tag > last:
                self._transport.ack(self._channel, tag, True)

    def _last_unsettled(self, tag: int) -> int:
        """Return the last tag up to `tag` that was not rejected, and forget the rejected ones up to `tag`."""
        settled = {one for one in self._rejected if one <= tag}
        self._rejected -= settled
        while tag in settled:
            tag -= 1
        return tag

    def _measure_lag(self, delivery: Delivery) -> None:
        now_s = self._loop.time()
        if now_s - self._measured_s >= LAG_S:
            self._measured_s = now_s
            try:
                timestamp_s = Properties.decode(delivery.properties).timestamp
            except MALFORMED:
                return
            if timestamp_s is not None:
                self._status.lag_ms = max(0, self._node.clock.now_ms() - timestamp_s * 1000)


def memory_bytes(deliveries: list[Delivery]) -> int:
    """Estimate the memory that deliveries take, in bytes."""
    return sum([DELIVERY_BYTES + len(one.properties) + one.body_bytes for one in deliveries])


def text_of(name: bytes) -> str:
    """Return the text of a short string, which need not be UTF-8."""
    return name.decode("utf-8", "surrogateescape")
