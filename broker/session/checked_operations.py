"""Operations on queues, exchanges, bindings and consumers, with permission checks.

The methods of AMQP clients (`methods/`) and the HTTP API (`management_channel`) call the same functions, so that both
agree on permissions, errors and counters. Names have no line ends; an empty one is the default exchange, in
`declare_queue` a name for the broker to generate, and for consumers and basic.get the queue declared last. `channel`
provides the caller's user and virtual host, and the connection that owns exclusive queues.
"""

from functools import partial

from ..amqp.errors import AccessRefused, NotAllowed, NotFound, NotSupported, PreconditionFailed, ResourceLocked
from ..amqp.field_table import Table
from ..core.exchanges.exchange import ALTERNATE, Exchange
from ..core.messages.message import Message
from ..core.metadata.queue_types import QUORUM
from ..core.metadata.validation import check_not_default, check_prefix
from ..core.queues.arguments import QUEUE_TYPE, check_consumer_arguments, check_size, exchange_name, integer
from ..core.queues.queue import Queue
from ..core.queues.reply_queue import REPLY_TO, reply_queue_name, unique_name
from ..core.vhost.sharding import check_not_sharded, is_sharded, least_shard, shard_name
from . import events
from .alarm_blocking import check_new_consumer
from .channel import Channel
from .channel_host import Postponed
from .consumer import ChannelConsumer

NAME_PREFIX = "x-name-prefix"
PREFIX_LIMIT = 64  # bytes


# Queues


def shard_to_read(channel: Channel, name: str) -> str:
    """Return the shard with the fewest consumers for the name of a sharded exchange, and any other name as it is.

    Raises PreconditionFailed (406) if the exchange has no shard.
    """
    return least_shard(channel.vhost, name, channel.connection.node.name)


def shard_to_declare(channel: Channel, name: str) -> str:
    """Return the first shard for the name of a sharded exchange, as RabbitMQ does, and any other name as it is."""
    return shard_name(name, channel.connection.node.name, 0) if is_sharded(channel.vhost, name) else name


def find_queue(channel: Channel, name: str) -> Queue:
    """Return a queue as a passive declaration does: any of the three rights is enough, and x-expires starts anew.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405).
    """
    channel.check_any("queue", name)
    queue = channel.vhost.owned_queue(name, channel.connection)
    queue.renew_expiry()
    return queue


def declare_queue(
    channel: Channel, name: str, *, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table
) -> Queue:
    """Create a queue, or return the existing one if it is equivalent; an empty name is replaced by a generated one.

    Raises AccessRefused (403), ResourceLocked (405), PreconditionFailed (406).
    """
    vhost, connection = channel.vhost, channel.connection
    check_prefix("queue", name)
    check_size(arguments)
    prefix = generated_prefix(arguments)
    arguments = arguments.without((NAME_PREFIX,)) if NAME_PREFIX in arguments else arguments
    if not name and arguments.text(QUEUE_TYPE) == QUORUM:
        raise PreconditionFailed("Cannot declare a server-named queue for type rabbit_quorum_queue")
    name = name or unique_name(prefix)
    channel.check("configure", "queue", name)
    if vhost.find_queue(name) is None:
        check_dead_letter_exchange(channel, name, arguments)
    queue = vhost.declare_queue(
        name,
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        arguments=arguments,
        owner=connection,
        check_new=channel.check_new,
    )
    connection.node.churn.queue_declared += 1
    queue.outbox.charge(channel.user.account)
    if exclusive:
        connection.owned[name] = queue
    return queue


def generated_prefix(arguments: Table) -> str:
    """Return the prefix of a generated name. Raises PreconditionFailed (406)."""
    if NAME_PREFIX not in arguments:
        return "amq.gen"
    prefix = arguments.text(NAME_PREFIX)
    if prefix is None or len(prefix.encode("utf-8", "surrogateescape")) > PREFIX_LIMIT:
        raise PreconditionFailed(f"invalid arg '{NAME_PREFIX}': a string of at most {PREFIX_LIMIT} bytes is needed")
    return prefix


def check_dead_letter_exchange(channel: Channel, name: str, arguments: Table) -> None:
    """Check the rights to read the queue and to write to its dead-letter exchange.

    Raises AccessRefused (403), PreconditionFailed (406).
    """
    value = arguments.get("x-dead-letter-exchange")
    if value is None:
        return
    exchange_name("x-dead-letter-exchange", value, f"queue '{name}' in {channel.vhost}")
    channel.check("read", "queue", name)
    channel.check("write", "exchange", arguments.text("x-dead-letter-exchange") or "")


def check_reply_queue(channel: Channel, name: str) -> None:
    """Check that a declared name of direct reply-to exists: the pseudo-queue always, a reply queue with its consumer.

    Raises NotFound (404).
    """
    if name != REPLY_TO and name not in channel.vhost.reply_queues:
        raise NotFound(f"no queue '{name}' in {channel.vhost}")


def delete_queue(channel: Channel, name: str, *, if_unused: bool, if_empty: bool) -> int:
    """Delete a queue and return how many ready messages it had; 0 for a queue that does not exist.

    Raises AccessRefused (403), ResourceLocked (405), PreconditionFailed (406), NotSupported (540).
    """
    vhost = channel.vhost
    if name.startswith(REPLY_TO):
        return 0
    check_not_sharded(vhost, "delete", name)
    channel.check("configure", "queue", name)
    if vhost.find_queue(name) is None:
        return 0
    queue = vhost.owned_queue(name, channel.connection)
    if queue.settings.type == QUORUM and (if_unused or if_empty):
        flag = "if-unused" if if_unused else "if-empty"
        raise NotSupported(
            f"cannot delete {queue}. queue.delete operations with {flag} flag set are not supported by quorum queues"
        )
    return vhost.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)


def purge_queue(channel: Channel, name: str, *, wait: bool) -> int:
    """Drop the ready messages of a queue and return how many there were.

    With `wait` the connection is suspended until the purge of a durable queue is recorded in the journal.
    Raises AccessRefused (403), NotFound (404), ResourceLocked (405).
    """
    check_not_sharded(channel.vhost, "purge", name)
    channel.check("read", "queue", name)
    queue = channel.vhost.owned_queue(name, channel.connection)
    if not wait:
        return queue.purge()
    finished = channel.begin_job() if queue.durable else lambda: None
    return queue.purge(finished=finished, failed=channel.connection.job_failed)


# Exchanges


def find_exchange(channel: Channel, name: str) -> Exchange:
    """Return an exchange as a passive declaration does: any of the three rights is enough.

    Raises AccessRefused (403), NotFound (404).
    """
    check_not_default(name)
    channel.check_any("exchange", name)
    return channel.vhost.exchange(name)


def declare_exchange(
    channel: Channel, name: str, type_: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table
) -> Exchange:
    """Create an exchange, or return the existing one if it is equivalent.

    Raises AccessRefused (403), PreconditionFailed (406), the latter also for an unknown type.
    """
    vhost = channel.vhost
    check_size(arguments)
    vhost.check_type(type_)
    check_not_default(name)
    channel.check("configure", "exchange", name)
    if name not in vhost.exchanges:
        check_alternate_exchange(channel, name, arguments)
    actor = channel.connection.node.events.actor
    flags = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
    return vhost.declare_exchange(name, type_, **flags, arguments=arguments, user=actor, check_new=channel.check_new)


def check_alternate_exchange(channel: Channel, name: str, arguments: Table) -> None:
    """Check the rights to read the exchange and to write to its alternate exchange. Raises AccessRefused (403)."""
    for key in ALTERNATE:
        alternate = arguments.text(key)
        if alternate is not None:
            channel.check("read", "exchange", name)
            channel.check("write", "exchange", alternate)


def delete_exchange(channel: Channel, name: str, *, if_unused: bool) -> None:
    """Delete an exchange, if it exists. Raises AccessRefused (403), PreconditionFailed (406)."""
    if name:
        channel.check("configure", "exchange", name)
    channel.vhost.delete_exchange(name, if_unused=if_unused)


# Bindings


def bind(channel: Channel, kind: str, source: str, destination: str, routing_key: str, arguments: Table) -> None:
    """Bind a queue or an exchange (`kind`) to a source exchange.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406).
    """
    check_size(arguments)
    vhost = channel.vhost
    if kind == Queue.kind:
        check_not_sharded(vhost, "bind", destination)
    check_binding(channel, kind, source, destination, routing_key)
    vhost.exchange(source)
    queue = kind == Queue.kind
    end = vhost.owned_queue(destination, channel.connection) if queue else vhost.exchange(destination)
    vhost.bind(source, end, routing_key, arguments, channel.check_new)


def unbind(channel: Channel, kind: str, source: str, destination: str, routing_key: str, arguments: Table) -> None:
    """Remove a binding, if it exists. Raises AccessRefused (403), ResourceLocked (405)."""
    vhost = channel.vhost
    if kind == Queue.kind:
        check_not_sharded(vhost, "unbind", destination)
    check_binding(channel, kind, source, destination, routing_key)
    end: Queue | Exchange | None = vhost.exchanges.get(destination) if kind == Exchange.kind else None
    if kind == Queue.kind and vhost.find_queue(destination) is not None:
        end = vhost.owned_queue(destination, channel.connection)
    if end is not None:
        vhost.unbind(source, end, routing_key, arguments)


def check_binding(channel: Channel, kind: str, source: str, destination: str, routing_key: str) -> None:
    """Check the rights to bind or unbind a queue or an exchange. Raises AccessRefused (403)."""
    if kind == Exchange.kind:
        check_not_default(destination)
        check_not_default(source)
    elif destination.startswith(REPLY_TO):
        raise AccessRefused("cannot bind or unbind to a volatile (direct reply-to) queue")
    channel.check("write", kind, destination)
    channel.check("read", "exchange", source)
    channel.check_topic("read", source, routing_key)
    check_not_default(source)


# Consumers and basic.get


def set_prefetch(channel: Channel, count: int, *, shared: bool) -> None:
    """Set the prefetch limit, 0 for none: of each new consumer, or `shared` by all consumers of the channel."""
    if not shared:
        channel.prefetch, count = count, 0
    channel.set_shared_prefetch(count)


def add_consumer(
    channel: Channel, queue_name: str | None, tag: str, *, no_ack: bool, exclusive: bool, arguments: Table
) -> ChannelConsumer:
    """Add a consumer to a queue; an empty tag is replaced by a generated one.

    A queue that has messages delivers them to it after `start_deliveries`, which the caller calls after its reply.
    It may have to wait while memory is low. Raises AccessRefused (403), NotFound (404), ResourceLocked (405),
    PreconditionFailed (406), NotAllowed (530), and Postponed.
    """
    check_size(arguments)
    name = channel.queue_name(shard_to_read(channel, queue_name or ""))
    queue = None if name == REPLY_TO else consumable_queue(channel, name, exclusive)
    tag = tag or unique_name("amq.ctag")
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    limit = channel.connection.settings.consumer_max_per_channel
    if limit is not None and len(channel.consumers) >= limit:
        raise NotAllowed(f"reached maximum ({limit}) of consumers per channel")
    argument = arguments.get("x-priority")
    where = str(queue) if queue is not None else f"queue '{REPLY_TO}' in {channel.vhost}"
    priority = integer("x-priority", argument, where) if argument is not None else 0
    if queue is not None:
        check_consumer_arguments(arguments, where, queue.settings.type)
        if queue.consumers.exclusive or exclusive and (len(queue.consumers) or queue.settings.single_active_consumer):
            raise AccessRefused(f"{queue} in exclusive use")
    check_new_consumer(channel.connection, len(tag) + len(arguments.raw))
    if queue is None:  # last, because a reply queue without a consumer would never be deleted
        queue = open_reply_queue(channel, no_ack)
    alone = queue.settings.type == QUORUM  # the shared limit is a limit of each consumer there
    prefetch = channel.shared_prefetch.limit if alone and channel.shared_prefetch.limit else channel.prefetch
    consumer = ChannelConsumer(channel, tag, queue, no_ack, exclusive, priority, prefetch, arguments)
    consumer.shares = channel.shared_prefetch.limit > 0 and not alone
    channel.consumers[tag] = consumer
    consumer.waiting = queue.ready > 0
    queue.add_consumer(consumer)
    events.consumer_created(channel, consumer)
    channel.vhost.consumers_changed(queue)
    return consumer


def consumable_queue(channel: Channel, name: str, exclusive: bool) -> Queue:
    """Return the queue to consume from, without consumers of ended channels that would exclude this one.

    If the single active consumer has ended, its successor becomes active. Raises the errors of `readable_queue`, and
    Postponed while several ended consumers would exclude this one.
    """
    queue = readable_queue(channel, name)
    consumers = queue.consumers
    excluded = exclusive or consumers.exclusive
    if not (consumers.all_ended if excluded else consumers.active_ended):
        return queue
    consumers.first().finish()
    if excluded and len(consumers):
        raise Postponed(queue.when_resumed)  # at the end of its channel
    return readable_queue(channel, name)  # it may have been deleted with its last consumer


def start_deliveries(channel: Channel, consumer: ChannelConsumer) -> None:
    """Start the deliveries to a new consumer of a queue that had messages, in a later write than consume-ok.

    Some clients wait for the socket before they read their own buffer: they would not notice a delivery that came with
    consume-ok.
    """
    if consumer.waiting:
        channel.connection.transport.call_next_turn(partial(wake_consumer, channel, consumer))


def wake_consumer(channel: Channel, consumer: ChannelConsumer) -> None:
    """Deliver to a consumer, unless it has been cancelled."""
    if channel.consumers.get(consumer.tag) is consumer:
        consumer.queue.wake(consumer)
        channel.connection.node.scheduler.pump_for_many()


def open_reply_queue(channel: Channel, no_ack: bool) -> Queue:
    """Open the direct reply-to queue of the channel. It exists as long as its consumer; nobody can guess its name."""
    if not no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_queue is not None:
        raise PreconditionFailed("reply consumer already set")
    channel.reply_queue = channel.vhost.open_reply_queue(reply_queue_name())
    return channel.reply_queue


def cancel_consumer(channel: Channel, tag: str) -> None:
    """Cancel a consumer, if it exists. Its unsettled deliveries stay with the channel.

    The connection is suspended until all is deleted with an auto-delete queue.
    """
    consumer = channel.consumers.get(tag)
    if consumer is not None:
        channel.remove(consumer)
        channel.await_deletion(Queue.kind, consumer.queue.name)


def get_message(channel: Channel, queue: Queue, no_ack: bool) -> tuple[int, Message, bool] | None:
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
    if channel.vhost.traffic_log is not None:
        channel.vhost.traffic_log.delivered(channel.origin, "", queue, [message], position, 1, redelivered, no_ack)
    if channel.vhost.tracer is not None:
        channel.vhost.tracer.delivered(channel.origin, message, queue.name, redelivered)
    return channel.delivery_tag, message, redelivered


def readable_queue(channel: Channel, name: str | None) -> Queue:
    """Return the queue to consume or get from, for the name of a sharded exchange a shard. Reply queues are not found.

    Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406).
    """
    name = channel.queue_name(shard_to_read(channel, name or ""))
    if name.startswith(REPLY_TO):
        raise NotFound(f"no queue '{name}' in {channel.vhost}")
    channel.check("read", "queue", name)
    return channel.vhost.owned_queue(name, channel.connection)
