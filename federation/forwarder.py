"""Messages of one upstream channel on their way into this broker, in order (spec/federation.md 7).

Each is published here, and acknowledged upstream when that is safe. While it cannot be published (an alarm, queues
that do not keep up, a queue that refuses) it waits here, unacknowledged, with all that came after it: the upstream
sends no more than the prefetch, and where there is none, or messages are large, the socket is read no further.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from warren.broker.plugin import AMQPError, InternalPublisher, Node, Properties

from .hop_headers import MALFORMED
from .link_status import BLOCKED, FLOWING, Status

if TYPE_CHECKING:
    from .upstream.delivery_parser import Delivery
    from .upstream.transport import UpstreamTransport

WAITING_BYTES = 16 << 20  # of messages that wait here; beyond it the socket is not read
DELIVERY_BYTES = 500  # of one beside its properties and its body, about
SLICE = 500  # messages that have waited, published in one go
RETRY_S, RETRY_MOST_S = 0.1, 5.0  # for a message that a queue refuses
LAG_S = 1.0  # how often the age of a message is looked at

NO_ACK, ON_PUBLISH = "no-ack", "on-publish"

# What is to be published of a message: its properties; None where it is to go no further.
Prepare = Callable[["Delivery"], bytes | None]


class Forwarding:
    """`routing_key` is None where each message keeps its own. `lost` is told when the exchange here is gone; `refused`,
    of each message that was prepared and not taken, and will be prepared again. Where it is given, what `prepare` drops
    may be a repeat, and is acknowledged when what it repeats is safe."""

    def __init__(
        self,
        node: Node,
        inflow: InternalPublisher,
        line: UpstreamTransport,
        status: Status,
        ack_mode: str,
        exchange: str,
        routing_key: str | None,
        prepare: Prepare,
        lost: Callable[[str], None],
        refused: Callable[[Delivery], None] | None = None,
    ) -> None:
        self._node = node
        self._inflow = inflow
        self._line = line
        self._status = status
        self._ack_mode = ack_mode
        self._exchange = exchange
        self._routing_key = routing_key
        self._prepare = prepare
        self._lost = lost
        self._undo = refused
        self._loop = asyncio.get_running_loop()
        self._channel = 0
        self._waiting: deque[Delivery] = deque()
        self._waiting_bytes = 0
        self._paused = False  # the socket, by us
        self._refused = False  # the first of those that wait, by a queue here
        self._retry_s = RETRY_S
        self._timer: asyncio.TimerHandle | None = None
        self._resuming = False
        self._closed = False
        self._holding = False
        self._taken = 0  # the last delivery that needs nothing any more but to be safe
        self._tickets: deque[tuple[int, int, int]] = deque()  # of the journal; the last delivery of it; how many
        self._acked = 0
        self._rejected: set[int] = set()  # deliveries behind `_acked` that are settled already
        self._looked_s = 0.0
        # Told by who knows: to the default exchange, a queue that is no more looks like any other unroutable message.
        self.gone: Callable[[], bool] = lambda: False
        # Of messages that this broker does not take, with the reason for one of them.
        self.rejected: Callable[[str], None] = lambda reason: None
        # There is nothing in the way any more.
        self.free: Callable[[], None] = lambda: status.flow(FLOWING, "")
        inflow.on_release = self.resume
        node.alarms.hooks.append(self._alarm_changed)

    def close(self) -> None:
        """What is not acknowledged goes back upstream with its channel."""
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
        self._node.alarms.hooks.remove(self._alarm_changed)
        if self._timer is not None:
            self._timer.cancel()
        self._inflow.close()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # In

    def take(self, deliveries: list[Delivery]) -> None:
        """All of one channel."""
        if self._closed:
            return
        self._channel = deliveries[0].channel
        if not self._waiting and not self.obstacle():
            self._forward(deliveries)
        else:
            self._wait(deliveries)

    def obstacle(self) -> str:
        """Why nothing can be published now."""
        if self._node.alarms.reason:
            return f"this broker is {self._node.alarms.reason}"
        if self._refused:
            return "a queue of this broker refuses messages"
        return "queues of this broker do not keep up" if self._inflow.held else ""

    def _wait(self, deliveries: list[Delivery]) -> None:
        self._waiting.extend(deliveries)
        self._waiting_bytes += octets(deliveries)
        self._status.flow(BLOCKED, self.obstacle() or self._status.reason)
        if not self._paused and (self._ack_mode == NO_ACK or self._waiting_bytes > WAITING_BYTES):
            self._paused = True
            self._line.pause()

    def _alarm_changed(self, resource: str, on: bool) -> None:
        if on:
            self._status.flow(BLOCKED, self.obstacle())
        else:
            self.resume()

    def resume(self) -> None:
        """Something that stood in the way may be gone."""
        if not self._resuming and not self._closed and not self.obstacle():
            self._resuming = True
            self._loop.call_soon(self._go_on)

    def _retry(self) -> None:
        self._timer = None
        self._refused = False
        self.resume()

    def _go_on(self) -> None:
        self._resuming = False
        if self._closed or self.obstacle():
            return
        waiting = self._waiting
        # Of what was refused, the first alone finds out whether it is still.
        count = min(len(waiting), 1 if self._retry_s > RETRY_S else SLICE)
        deliveries = [waiting.popleft() for _ in range(count)]
        self._waiting_bytes -= octets(deliveries)
        if deliveries:
            self._forward(deliveries)
        if waiting:
            self.resume()
            return
        self.free()
        if self._paused:
            self._paused = False
            self._line.resume()

    # Out

    def _forward(self, deliveries: list[Delivery]) -> None:
        """HOT: the federation bench."""
        if self.gone():
            self._give_up("what the link publishes to is gone")
            return
        at, count = 0, len(deliveries)
        prepare, each_by_its_key = self._prepare, self._routing_key is None
        while at < count:
            key = deliveries[at].routing_key
            going, contents = [], []
            while at < count:
                delivery = deliveries[at]
                if each_by_its_key and delivery.routing_key != key:
                    break
                at += 1
                properties = prepare(delivery)
                if properties is not None:
                    going.append(delivery)
                    contents.append((properties, delivery.body_bytes, delivery.body_frames))
            last = deliveries[at - 1].tag
            if not going:
                self._done(last, self._repeats(), 0)
                continue
            refused = self._publish(key, going, contents, last)
            if refused is None:
                return
            if refused:
                refused += deliveries[at:]
                self._waiting.extendleft(reversed(refused))
                self._waiting_bytes += octets(refused)
                break
        self._acknowledge()
        self._look_at_age(deliveries[-1])

    def _publish(
        self, key: bytes, going: list[Delivery], contents: list[tuple[bytes, int, bytes]], last: int
    ) -> list[Delivery] | None:
        """Those that a queue refused, which are to be tried again; None where there is nothing to publish to."""
        name = key.decode("utf-8", "surrogateescape") if self._routing_key is None else self._routing_key
        try:
            taken = self._inflow.publish(self._exchange, name, contents)
        except AMQPError as error:
            self._forget(going)
            self._give_up(error.reply_text)
            return None
        if taken.invalid:
            self._reject({going[index].tag: reason for index, reason in taken.invalid.items()})
        forwarded = len(going) - len(taken.refused) - len(taken.invalid)
        self._status.forwarded += forwarded
        if not taken.refused:
            self._retry_s = RETRY_S
            self._done(last, max(taken.ticket, self._repeats()), forwarded)
            return []
        refused = [going[index] for index in sorted(taken.refused)]
        self._forget(refused)
        self._done(refused[0].tag - 1, max(taken.ticket, self._repeats()), forwarded, ends=False)
        self._taken = max(self._taken, last)  # but for those that are to be tried again, which come first
        self._status.nacked += len(refused)
        self._refused = True
        self._timer = self._loop.call_later(self._retry_s, self._retry)
        self._retry_s = min(2 * self._retry_s, RETRY_MOST_S)
        self._status.flow(BLOCKED, self.obstacle())
        return refused

    def _reject(self, reasons: dict[int, str]) -> None:
        """Give deliveries back that no client could have published here: the upstream drops or dead-letters them."""
        self._status.dropped_invalid += len(reasons)
        if self._ack_mode != NO_ACK:
            for tag in reasons:
                self._rejected.add(tag)
                self._line.nack(self._channel, tag, False)
        self.rejected(next(iter(reasons.values())))

    def _give_up(self, reason: str) -> None:
        """Take nothing that comes behind what could not be published: its acknowledgement would be for that as well."""
        self._acknowledge()
        self.close()
        self._lost(reason)

    def _repeats(self) -> int:
        """The batch of the journal that has the first copies of what was dropped as a repeat, if any was."""
        return 0 if self._undo is None else self._node.journal.ticket()

    def _forget(self, deliveries: list[Delivery]) -> None:
        """They were not taken, and come again."""
        if self._undo is not None:
            for delivery in deliveries:
                self._undo(delivery)

    # Acknowledging

    def _done(self, tag: int, ticket: int, count: int, ends: bool = True) -> None:
        """All up to this delivery are published or dropped; the batch of the journal that they wait for. Unless it
        `ends` what was refused, some before it still wait."""
        tag = max(tag, self._taken) if ends and not self._waiting else tag
        self._taken = max(self._taken, tag)
        if self._ack_mode == ON_PUBLISH:
            ticket = 0
        tickets = self._tickets
        if tickets and (ticket <= tickets[-1][0]):
            ticket, _, before = tickets.pop()
            tickets.append((ticket, tag, before + count))
            return
        tickets.append((ticket, tag, count))
        if ticket > self._node.journal.durable:
            self._inflow.when_durable(ticket, self._acknowledge)

    def hold(self, holding: bool) -> None:
        """Acknowledge nothing for a while, so that the upstream sends no more than it was allowed."""
        if holding != self._holding:
            self._holding = holding
            self._acknowledge()

    def _acknowledge(self) -> None:
        """What has become safe."""
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
                self._line.ack(self._channel, tag, True)

    def _last_unsettled(self, tag: int) -> int:
        """The last delivery up to this one that was not rejected; those up to it that were are forgotten."""
        settled = {one for one in self._rejected if one <= tag}
        self._rejected -= settled
        while tag in settled:
            tag -= 1
        return tag

    def _look_at_age(self, delivery: Delivery) -> None:
        now_s = self._loop.time()
        if now_s - self._looked_s >= LAG_S:
            self._looked_s = now_s
            try:
                timestamp_s = Properties.decode(delivery.properties).timestamp
            except MALFORMED:
                return
            if timestamp_s is not None:
                self._status.lag_ms = max(0, self._node.clock.now_ms() - timestamp_s * 1000)


def octets(deliveries: list[Delivery]) -> int:
    """What they take of memory, about."""
    return sum([DELIVERY_BYTES + len(one.properties) + one.body_bytes for one in deliveries])
