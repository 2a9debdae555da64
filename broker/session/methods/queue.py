"""Methods of the queue class: decode the arguments, call the operation, reply."""

from pamqp import commands

from ...amqp.field_table import Table
from ...core.exchanges.exchange import Exchange
from ...core.queues.queue import Queue
from ...core.queues.reply_queue import REPLY_TO
from ...wire import method_encoder
from .. import checked_operations
from ..channel import Channel


def declare(channel: Channel, method: commands.Queue.Declare, arguments: Table) -> None:
    """Serve queue.declare.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406), and Postponed while
    bindings of a deleted queue of this name are being deleted, and while messages are being requeued in the queue.
    """
    name = checked_operations.shard_to_declare(channel, method.queue)
    if name.startswith(REPLY_TO):
        checked_operations.check_reply_queue(channel, name)
        channel.last_queue = name
        if not method.nowait:
            channel.send_change_ok(declare_ok(channel, name, 0, 1), stored=False)
        return
    if not method.nowait:
        channel.await_requeues(name)
    if method.passive:
        queue = checked_operations.find_queue(channel, name)
    else:
        channel.await_unbinding(Queue.kind, name)
        queue = checked_operations.declare_queue(
            channel,
            name,
            durable=bool(method.durable),
            exclusive=bool(method.exclusive),
            auto_delete=bool(method.auto_delete),
            arguments=arguments,
        )
    channel.last_queue = queue.name
    if not method.nowait:
        # A passive declaration changes nothing that would have to be durable first.
        stored = queue.durable and not method.passive
        queue.catch_up()
        channel.send_change_ok(declare_ok(channel, queue.name, queue.stored, len(queue.consumers)), stored)


def declare_ok(channel: Channel, name: str, ready: int, consumers: int) -> bytes:
    """Encode queue.declare-ok."""
    arguments = method_encoder.short_string(name) + method_encoder.long(ready) + method_encoder.long(consumers)
    return method_encoder.method(channel.number, method_encoder.QUEUE_DECLARE_OK, arguments)


def bind(channel: Channel, method: commands.Queue.Bind, arguments: Table) -> None:
    """Serve queue.bind. What the exchange's type emits is enqueued before bind-ok.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406), and Postponed.
    """
    name, key = expand_names(channel, method.queue, method.routing_key)
    source = method.exchange
    channel.admit_emissions(source)
    checked_operations.bind(channel, Queue.kind, source, name, key, arguments)
    channel.await_emissions(source)
    if not method.nowait:
        channel.send_change_ok(method_encoder.method(channel.number, method_encoder.QUEUE_BIND_OK))


def unbind(channel: Channel, method: commands.Queue.Unbind, arguments: Table) -> None:
    """Serve queue.unbind. Raises AccessRefused (403), NotFound (404), ResourceLocked (405)."""
    name, key = expand_names(channel, method.queue, method.routing_key)
    source = method.exchange
    channel.admit_emissions(source)
    checked_operations.unbind(channel, Queue.kind, source, name, key, arguments)
    channel.await_emissions(source)
    channel.await_deletion(Exchange.kind, source)
    channel.send_change_ok(method_encoder.method(channel.number, method_encoder.QUEUE_UNBIND_OK))


def expand_names(channel: Channel, queue: str, key: str | None) -> tuple[str, str]:
    """Return the queue name and routing key of a binding. Raises NotFound (404).

    An empty queue name means the queue declared last; then an empty key means the name of that queue.
    """
    name = channel.queue_name(queue)
    return name, key or ("" if queue else name)


def purge(channel: Channel, method: commands.Queue.Purge, arguments: Table) -> None:
    """Serve queue.purge.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), and Postponed while messages are being requeued.
    """
    name = channel.queue_name(method.queue)
    channel.await_requeues(name)
    count = checked_operations.purge_queue(channel, name, wait=not method.nowait)
    if not method.nowait:
        channel.send_when_durable(
            method_encoder.method(channel.number, method_encoder.QUEUE_PURGE_OK, method_encoder.long(count))
        )


def delete(channel: Channel, method: commands.Queue.Delete, arguments: Table) -> None:
    """Serve queue.delete. Consumers of this channel are cancelled after delete-ok, in the same write, as in RabbitMQ.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406), NotSupported (540), and
    Postponed while messages are being requeued.
    """
    name = channel.queue_name(method.queue)
    channel.await_requeues(name)
    cancels: list[bytes] = []
    channel.cancels = cancels
    try:
        count = checked_operations.delete_queue(
            channel, name, if_unused=bool(method.if_unused), if_empty=bool(method.if_empty)
        )
    finally:
        channel.cancels = None
    channel.await_deletion(Queue.kind, name)
    if not method.nowait:
        ok = method_encoder.method(channel.number, method_encoder.QUEUE_DELETE_OK, method_encoder.long(count))
        channel.send_change_ok(b"".join([ok, *cancels]))
    elif cancels:
        channel.send(b"".join(cancels))
