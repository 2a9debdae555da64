"""Methods of consumers: basic.qos, consume, cancel and get; also channel.flow and access.request.

Decode the arguments, call the operation, reply.
"""

from functools import partial

from pamqp import base, commands

from ...amqp.errors import NotSupported, Unreadable
from ...amqp.field_table import Table
from ...wire import method_encoder
from ..channel import Channel
from ..channel_host import Postponed
from ..checked_operations import (
    add_consumer,
    cancel_consumer,
    get_message,
    readable_queue,
    set_prefetch,
    start_deliveries,
)

UNREADABLE_RETRY_MS, UNREADABLE_MS = 100, 10_000  # between two attempts to get a message; of all of them


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
    set_prefetch(channel, method.prefetch_count or 0, shared=bool(method.global_))
    channel.send(method_encoder.method(channel.number, method_encoder.QOS_OK))


def consume(channel: Channel, method: commands.Basic.Consume, arguments: Table) -> None:
    """Serve basic.consume.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406), NotAllowed (530).
    """
    consumer = add_consumer(
        channel,
        method.queue,
        method.consumer_tag or "",
        no_ack=bool(method.no_ack),
        exclusive=bool(method.exclusive),
        arguments=arguments,
    )
    if not method.nowait:
        tag = method_encoder.short_string(consumer.tag)
        channel.send(method_encoder.method(channel.number, method_encoder.CONSUME_OK, tag))
    start_deliveries(channel, consumer)


def cancel(channel: Channel, method: commands.Basic.Cancel, arguments: Table) -> None:
    """Serve basic.cancel. Unsettled deliveries stay with the channel; an unknown tag is no error."""
    tag = method.consumer_tag or ""
    cancel_consumer(channel, tag)
    if not method.nowait:
        ok = method_encoder.method(channel.number, method_encoder.CANCEL_OK, method_encoder.short_string(tag))
        channel.send_after_job(ok)


def get(channel: Channel, method: commands.Basic.Get, arguments: Table) -> None:
    """Serve basic.get.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), Unreadable (506) for messages that the queue
    cannot return for UNREADABLE_MS, and Postponed until then and while the queue is paused.
    """
    queue = readable_queue(channel, method.queue)
    if queue.paused:
        raise Postponed(queue.when_resumed)
    channel.await_tracing()
    try:
        delivery = get_message(channel, queue, bool(method.no_ack))
    except Unreadable:
        clock = channel.connection.node.clock
        now_ms = clock.now_ms()
        channel.get_until_ms = channel.get_until_ms or now_ms + UNREADABLE_MS
        if now_ms < channel.get_until_ms:
            raise Postponed(partial(clock.call_at, now_ms + UNREADABLE_RETRY_MS)) from None
        channel.get_until_ms = 0
        raise
    channel.get_until_ms = 0
    if delivery is None:
        channel.send(method_encoder.method(channel.number, method_encoder.GET_EMPTY, method_encoder.short_string("")))
        return
    tag, message, redelivered = delivery
    ok = method_encoder.get_ok(channel.number, tag, redelivered, message.address.encoded, queue.ready)
    channel.send(ok + channel.frames_of(message))
