"""A consumer of a channel: its credit, and the frames of its deliveries."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from ..amqp.field_table import Table
from ..amqp.framing import reframe
from ..core.jobs.scheduler import CONSUMER_COST
from ..core.messages.message import Message, RoutingAddress
from ..core.queues.queue import Queue
from ..wire import method_encoder
from ..wire.method_encoder import DeliverEncoder
from .channel_host import LARGE_BYTES, LARGE_SHARE, ChannelState
from .unacked import PART, CreditConsumer

DELIVERY_OVERHEAD: Final = 128  # bytes of method and header frames beside the body, about
UNLIMITED: Final = 1 << 30
ARGUMENTS_SHIFT: Final = 5  # to free what 32 bytes of arguments were decoded to costs 1


@mypyc_attr(allow_interpreted_subclasses=True)
class ChannelConsumer(CreditConsumer):
    """A consumer of a queue on an AMQP channel."""

    __slots__ = ("channel", "_encoders", "_encoded_tag")

    def __init__(
        self,
        channel: ChannelState,
        tag: str,
        queue: Queue,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
        arguments: Table,
    ) -> None:
        served = channel.shared_prefetch.next_delivery()
        super().__init__(tag, queue, channel.connection, no_ack, exclusive, priority, prefetch, arguments, served)
        self.channel = self.group = channel
        self._encoded_tag = method_encoder.short_string(tag)
        self._encoders: dict[int, tuple[bytes, DeliverEncoder]] = {}  # by length of the address: at most 512

    @property
    def account(self) -> str:
        return self.channel.user.account

    @property
    def ended(self) -> bool:
        return self.channel.closing or self.channel.connection.ended

    def finish(self) -> None:
        self.channel.pause(self.queue)
        self.channel.remove(self)

    def room(self, body_bytes: int) -> int:
        """Return how many messages with bodies and long headers of `body_bytes` it can take. HOT: bench B, D, I, L."""
        channel = self.channel
        connection = channel.connection
        free = connection.output.room()
        if free <= 0:
            if not self.stalled:
                self.stalled = True
                connection.stalled.append(self)
            return 0
        if body_bytes >= LARGE_BYTES:
            body_bytes //= LARGE_SHARE
        room = free // (body_bytes + DELIVERY_OVERHEAD) + 1
        if self.prefetch and not self.no_ack:
            room = min(room, self.prefetch - self.unacked)
        if self.shares and room > 0:
            # One at a time, so that the consumers of the channel cannot exceed their shared limit together.
            room = min(1, channel.shared_prefetch.room(self))
        return room

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        """Append deliveries to the output; positions begin at `position`, `step` apart. HOT: bench A-M."""
        channel = self.channel
        connection = channel.connection
        number = channel.number
        frame_max = connection.frame_max or UNLIMITED
        last: RoutingAddress | None = None
        queue = self.queue
        unacked = None if self.no_ack else channel.unacked.entries
        tag = channel.delivery_tag
        count = len(messages)
        output = connection.output
        out = output.buffer
        for message in messages:
            tag += 1
            if message.address is not last:
                last = message.address
                delivered = last.delivered
                prefix, encode = self._encoder(len(delivered))
                address = b"\x01" + delivered[1:] if redelivered else delivered
            out += encode(prefix, tag, address)
            if message.channel == number and message.largest_frame <= frame_max:
                frames = message.frames
            else:
                frames = reframe(message.frames, number, connection.frame_max)
            if message.body_bytes < LARGE_BYTES:
                out += frames
            else:
                out = output.add_large(frames)
            if unacked is not None:
                unacked[tag] = (queue, self, position, message)
                position += step
        channel.delivery_tag = tag
        channel.delivering.delivered(count, self.no_ack, redelivered)
        if channel.rates is not None:
            channel.rates.of(queue).delivered(count, self.no_ack, redelivered)
        if unacked is not None:
            self.unacked += count
            if len(unacked) > PART:
                channel.unacked.begin_part(tag)
        if self.shares:
            channel.shared_prefetch.on_delivered(self, count)
        connection.request_flush()
        if channel.vhost.traffic_log is not None:
            first = position - count * step if unacked is not None else position
            channel.vhost.traffic_log.delivered(
                channel.origin, self.tag, queue, messages, first, step, redelivered, self.no_ack
            )
        tracer = channel.vhost.tracer
        if tracer is not None:
            for message in messages:
                tracer.delivered(channel.origin, message, queue.name, redelivered)

    def failed(self, messages: list[Message]) -> None:
        """Drop the records of these deliveries, and close the connection at the end of the turn."""
        ids = {id(message) for message in messages}
        unacked = self.channel.unacked
        for tag in unacked.newest(len(messages)):
            delivery = unacked.get(tag)
            if delivery is not None and delivery[1] is self and id(delivery[3]) in ids:
                unacked.pop(tag)
        connection = self.channel.connection
        clock = connection.node.clock
        clock.call_at(clock.now_ms(), connection.job_failed)

    def _encoder(self, delivered_bytes: int) -> tuple[bytes, DeliverEncoder]:
        """Return the prefix and the encoder of deliveries with `RoutingAddress.delivered` of this length."""
        encoder = self._encoders.get(delivered_bytes)
        if encoder is None:
            prefix = method_encoder.deliver_prefix(self.channel.number, self._encoded_tag, delivered_bytes - 2)
            encoder = prefix, method_encoder.deliver_encoder(len(prefix), delivered_bytes)
            self._encoders[delivered_bytes] = encoder
        return encoder

    @property
    def end_cost(self) -> int:
        return CONSUMER_COST + (len(self.arguments.raw) >> ARGUMENTS_SHIFT)

    def cancelled(self) -> None:
        """Remove the consumer from its channel, with basic.cancel to clients that support it."""
        channel = self.channel
        if not channel.forget(self):
            return  # removed by its channel meanwhile
        if not self.ended and "consumer_cancel_notify" in channel.connection.capabilities:
            frame = method_encoder.method(
                channel.number, method_encoder.CANCEL, method_encoder.short_string(self.tag) + b"\x01"
            )
            if channel.cancels is not None:
                channel.cancels.append(frame)
            else:
                channel.connection.send(frame)
