"""Methods of consumers: basic.qos, consume, cancel and get; also channel.flow and access.request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pamqp import base, commands

from ...amqp.errors import AccessRefused, NotAllowed, NotFound, NotSupported, PreconditionFailed, ResourceLocked
from ...amqp.field_table import Table
from ...amqp.framing import reframe
from ...core.messages.message import Message
from ...core.metadata.queue_types import QUORUM
from ...core.queues.arguments import check_size, integer
from ...core.queues.queue import Queue
from ...wire import method_encoder
from .. import events
from ..consumer import ChannelConsumer
from ..names import REPLY_TO, unique_name

if TYPE_CHECKING:
    from ..channel import Channel


class Postponed(Exception):
    """A method has to be served again once its queue is no longer paused."""

    def __init__(self, queue: Queue) -> None:
        super().__init__(str(queue))
        self.queue = queue


def flow(channel: Channel, method: commands.Channel.Flow, arguments: Table) -> None:
    """Serve channel.flow. Raises NotSupported (540) for a request to stop deliveries, as RabbitMQ does."""
    if not method.active:
        raise NotSupported("active=false")
    channel.send(method_encoder.method(channel.number, method_encoder.CHANNEL_FLOW_OK, b"\x01"))


def access_request(channel: Channel, method: base.Frame, arguments: Table) -> None:
    """Serve access.request of AMQP 0-8, which is always granted."""
    channel.send(method_encoder.method(channel.number, method_encoder.REQUEST_OK, method_encoder.short(1)))


def qos(channel: Channel, method: commands.Basic.Qos, arguments: Table) -> None:
    """Serve basic.qos. Raises NotSupported (540) for a limit in bytes."""
    if method.prefetch_size:
        raise NotSupported(f"prefetch_size!=0 ({method.prefetch_size})")
    count = method.prefetch_count or 0
    if method.global_:
        channel.set_shared_prefetch(count)
    else:
        channel.prefetch = count
        channel.set_shared_prefetch(0)
    channel.send(method_encoder.method(channel.number, method_encoder.QOS_OK))


def consume(channel: Channel, method: commands.Basic.Consume, arguments: Table) -> None:
    """Serve basic.consume.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406), NotAllowed (530).
    """
    check_size(arguments)
    reply = method.queue == REPLY_TO
    queue = None if reply else consumable_queue(channel, method)
    tag = method.consumer_tag or unique_name("amq.ctag")
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    limit = channel.connection.settings.consumer_max_per_channel
    if limit is not None and len(channel.consumers) >= limit:
        raise NotAllowed(f"reached maximum ({limit}) of consumers per channel")
    no_ack, exclusive = bool(method.no_ack), bool(method.exclusive)
    argument = arguments.get("x-priority")
    where = str(queue) if queue is not None else f"queue '{REPLY_TO}' in {channel.vhost}"
    priority = integer("x-priority", argument, where) if argument is not None else 0
    if queue is None:  # last, as a reply queue without a consumer would never be deleted
        queue = open_reply_queue(channel, no_ack)
    if queue.consumers.exclusive or exclusive and (len(queue.consumers) or queue.settings.single_active_consumer):
        raise AccessRefused(f"{queue} in exclusive use")
    alone = queue.settings.type == QUORUM  # the shared limit is a limit of each consumer there
    prefetch = channel.shared_prefetch.limit if alone and channel.shared_prefetch.limit else channel.prefetch
    consumer = ChannelConsumer(channel, tag, queue, no_ack, exclusive, priority, prefetch, arguments)
    consumer.shares = channel.shared_prefetch.limit > 0 and not alone
    channel.consumers[tag] = consumer
    if not method.nowait:
        channel.send(method_encoder.method(channel.number, method_encoder.CONSUME_OK, method_encoder.short_string(tag)))
    consumer.waiting = queue.ready > 0
    queue.add_consumer(consumer)
    events.consumer_created(consumer)
    channel.vhost.consumers_changed(queue)
    if consumer.waiting:
        channel.connection.transport.call_next_turn(partial(begin, consumer))


def consumable_queue(channel: Channel, method: commands.Basic.Consume) -> Queue:
    """Return the queue to consume from; first remove consumers of ended channels that could exclude this one.

    Raises the errors of `readable_queue`.
    """
    queue = readable_queue(channel, method.queue)
    if method.exclusive or queue.consumers.exclusive or queue.settings.single_active_consumer:
        queue.finish_ended()
        return readable_queue(channel, method.queue)  # it may have been deleted with its last consumer
    return queue


def begin(consumer: ChannelConsumer) -> None:
    """Start the deliveries of a queue that had messages, in a later write than consume-ok.

    Some clients wait for the socket before they read their own buffer: they would not notice a delivery that came with
    consume-ok.
    """
    if consumer.channel.consumers.get(consumer.tag) is consumer:
        consumer.queue.wake(consumer)
        consumer.channel.connection.node.pump()


def open_reply_queue(channel: Channel, no_ack: bool) -> Queue:
    """Open the direct reply-to queue of the channel. It exists as long as its consumer; nobody can guess its name."""
    if not no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_queue is not None:
        raise PreconditionFailed("reply consumer already set")
    channel.reply_queue = channel.vhost.open_volatile(unique_name(REPLY_TO, "."))
    return channel.reply_queue


def cancel(channel: Channel, method: commands.Basic.Cancel, arguments: Table) -> None:
    """Serve basic.cancel. Unsettled deliveries stay with the channel; an unknown tag is no error."""
    tag = method.consumer_tag or ""
    consumer = channel.consumers.get(tag)
    if consumer is not None:
        channel.remove(consumer)
    if not method.nowait:
        channel.send(method_encoder.method(channel.number, method_encoder.CANCEL_OK, method_encoder.short_string(tag)))


def get(channel: Channel, method: commands.Basic.Get, arguments: Table) -> None:
    """Serve basic.get.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), and Postponed while the queue is paused.
    """
    queue = readable_queue(channel, method.queue)
    if queue.paused:
        raise Postponed(queue)
    delivery = fetch(channel, queue, bool(method.no_ack))
    if delivery is None:
        channel.send(method_encoder.method(channel.number, method_encoder.GET_EMPTY, method_encoder.short_string("")))
        return
    tag, message, redelivered = delivery
    frames = message.frames
    frame_max = channel.connection.frame_max
    if message.channel != channel.number or message.largest_frame > frame_max > 0:
        frames = reframe(frames, channel.number, frame_max)
    channel.send(method_encoder.get_ok(channel.number, tag, redelivered, message.address.encoded, queue.ready) + frames)


def fetch(channel: Channel, queue: Queue, no_ack: bool) -> tuple[int, Message, bool] | None:
    """Take the next message of a queue as a delivery of this channel; return its tag, message and redelivered flag.

    None if the queue is empty. Raises ResourceLocked (405).
    """
    if queue.settings.single_active_consumer and queue.settings.type == QUORUM:
        raise ResourceLocked(
            f"cannot obtain access to locked {queue}. basic.get operations are not supported by quorum queues with "
            "single active consumer"
        )
    entry = queue.get(no_ack)
    if entry is None:
        channel.delivering.found_nothing()
        if channel.rates is not None:
            channel.rates.of(queue).found_nothing()
        return None
    position, message, redelivered = entry
    channel.delivering.got(no_ack, redelivered)
    if channel.rates is not None:
        channel.rates.of(queue).got(no_ack, redelivered)
    channel.delivery_tag += 1
    if not no_ack:
        channel.unacked.add(channel.delivery_tag, (queue, None, position, message))
    if channel.vhost.message_log is not None:
        channel.vhost.message_log.delivered(channel.origin, "", queue, [message], position, 1, redelivered, no_ack)
    if channel.vhost.firehose is not None:
        channel.vhost.firehose.delivered(channel.origin, message, queue.name, redelivered)
    return channel.delivery_tag, message, redelivered


def readable_queue(channel: Channel, argument: str | None) -> Queue:
    """Return the queue to consume or get from. Reply queues are not found.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405).
    """
    name = channel.queue_name(argument)
    if name.startswith(REPLY_TO):
        raise NotFound(f"no queue '{name}' in {channel.vhost}")
    channel.check("read", "queue", name)
    return channel.vhost.owned_queue(name, channel.connection)
