"""queue.* of a channel (spec/core.md 6, 7, 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pamqp import commands

from ...amqp.errors import AccessRefused, NotFound, NotSupported, PreconditionFailed
from ...amqp.field_table import Table
from ...core.queues.arguments import QUEUE_TYPE, check_size, exchange_name
from ...core.queues.queue import Queue
from ...core.queues.queue_settings import QUORUM
from ...wire import method_encoder
from .basic import unique
from .exchange import stripped
from .publish import REPLY_TO

if TYPE_CHECKING:
    from ..channel import Channel

RESERVED = "amq."
NAME_PREFIX = "x-name-prefix"
PREFIX_LIMIT = 64  # octets


def declare(channel: Channel, method: commands.Queue.Declare, arguments: Table) -> None:
    """Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406)."""
    name = stripped(method.queue)
    if name.startswith(REPLY_TO):
        declare_reply(channel, name, bool(method.nowait))
        return
    queue = passive(channel, name) if method.passive else active(channel, name, method, arguments)
    channel.last_queue = queue.name
    if not method.nowait:
        declare_ok(channel, queue.name, queue.ready, len(queue.consumers), queue.durable and not method.passive)


def passive(channel: Channel, name: str) -> Queue:
    channel.check_any("queue", name)
    queue = channel.vhost.owned_queue(name, channel.connection)
    queue.lease.renew()
    return queue


def active(channel: Channel, name: str, method: commands.Queue.Declare, arguments: Table) -> Queue:
    vhost, connection = channel.vhost, channel.connection
    if name.startswith(RESERVED):
        raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
    check_size(arguments)
    prefix = generated_prefix(arguments)
    arguments = arguments.without((NAME_PREFIX,)) if NAME_PREFIX in arguments else arguments
    if not name and arguments.text(QUEUE_TYPE) == QUORUM:
        raise PreconditionFailed("Cannot declare a server-named queue for type rabbit_quorum_queue")
    name = name or unique(prefix)
    channel.check("configure", "queue", name)
    if vhost.find_queue(name) is None:
        check_dead_letter_exchange(channel, name, arguments)
    exclusive = bool(method.exclusive)
    queue = vhost.declare_queue(name, bool(method.durable), exclusive, bool(method.auto_delete), arguments, connection)
    connection.node.churn.queue_declared += 1
    if exclusive:
        connection.owned[name] = queue
    return queue


def generated_prefix(arguments: Table) -> str:
    """What a name begins with that the broker makes up; raises PreconditionFailed (406)."""
    if NAME_PREFIX not in arguments:
        return "amq.gen"
    prefix = arguments.text(NAME_PREFIX)
    if prefix is None or len(prefix.encode("utf-8", "surrogateescape")) > PREFIX_LIMIT:
        raise PreconditionFailed(f"invalid arg '{NAME_PREFIX}': a string of at most {PREFIX_LIMIT} octets is needed")
    return prefix


def check_dead_letter_exchange(channel: Channel, name: str, arguments: Table) -> None:
    """Whoever declares it must be able to read the queue and to write there (spec/core.md 20.1)."""
    value = arguments.get("x-dead-letter-exchange")
    if value is None:
        return
    exchange_name("x-dead-letter-exchange", value, f"queue '{name}' in {channel.vhost}")
    channel.check("read", "queue", name)
    channel.check("write", "exchange", arguments.text("x-dead-letter-exchange") or "")


def declare_reply(channel: Channel, name: str, nowait: bool) -> None:
    """Whether somebody waits for replies under this name; the bare one asks for this channel. Raises NotFound (404)."""
    known = channel.reply_queue is not None if name == REPLY_TO else name in channel.vhost.volatile
    if not known:
        raise NotFound(f"no queue '{name}' in {channel.vhost}")
    if not nowait:
        declare_ok(channel, name, 0, 1, False)


def declare_ok(channel: Channel, name: str, ready: int, consumers: int, stored: bool) -> None:
    """Reply when what may have been stored is durable, and at once to what only looks something up."""
    arguments = method_encoder.short_string(name) + method_encoder.long(ready) + method_encoder.long(consumers)
    send = channel.send_when_durable if stored else channel.send
    send(method_encoder.method(channel.number, method_encoder.QUEUE_DECLARE_OK, arguments))


def bind(channel: Channel, method: commands.Queue.Bind, arguments: Table) -> None:
    """Raises AccessRefused (403), NotFound (404), ResourceLocked (405), PreconditionFailed (406)."""
    check_size(arguments)
    name, exchange, key = ends(channel, method.queue, method.exchange, method.routing_key)
    vhost = channel.vhost
    vhost.exchange(exchange)
    vhost.bind(exchange, vhost.owned_queue(name, channel.connection), key, arguments)
    if not method.nowait:
        channel.send_when_durable(method_encoder.method(channel.number, method_encoder.QUEUE_BIND_OK))


def unbind(channel: Channel, method: commands.Queue.Unbind, arguments: Table) -> None:
    """Raises AccessRefused (403), ResourceLocked (405); what is not there needs no unbinding."""
    name, exchange, key = ends(channel, method.queue, method.exchange, method.routing_key)
    if channel.vhost.find_queue(name) is not None:
        channel.vhost.unbind(exchange, channel.vhost.owned_queue(name, channel.connection), key, arguments)
    channel.send_when_durable(method_encoder.method(channel.number, method_encoder.QUEUE_UNBIND_OK))


def ends(channel: Channel, queue: str | None, exchange: str | None, key: str | None) -> tuple[str, str, str]:
    """Queue, exchange and key of a binding, expanded, with the permissions asked; raises AccessRefused (403)."""
    given = stripped(queue)
    name, source = channel.queue_name(given), stripped(exchange)
    routing_key = key or ""
    if not given and not routing_key:
        routing_key = name
    if name.startswith(REPLY_TO):
        raise AccessRefused("cannot bind or unbind to a volatile (direct reply-to) queue")
    channel.check("write", "queue", name)
    channel.check("read", "exchange", source)
    channel.check_topic("read", source, routing_key)
    if not source:
        raise AccessRefused("operation not permitted on the default exchange")
    return name, source, routing_key


def purge(channel: Channel, method: commands.Queue.Purge, arguments: Table) -> None:
    """Raises AccessRefused (403), NotFound (404), ResourceLocked (405)."""
    name = channel.queue_name(stripped(method.queue))
    channel.check("read", "queue", name)
    queue = channel.vhost.owned_queue(name, channel.connection)
    if method.nowait:
        queue.purge()
    else:
        finished = channel.begin_job() if queue.durable else lambda: None
        count = queue.purge(finished=finished, failed=channel.connection.job_failed)
        channel.send_when_durable(
            method_encoder.method(channel.number, method_encoder.QUEUE_PURGE_OK, method_encoder.long(count))
        )


def delete(channel: Channel, method: commands.Queue.Delete, arguments: Table) -> None:
    """Raises AccessRefused (403), ResourceLocked (405), PreconditionFailed (406); a missing queue had no messages."""
    name = channel.queue_name(stripped(method.queue))
    vhost = channel.vhost
    count = 0
    if not name.startswith(REPLY_TO):
        channel.check("configure", "queue", name)
        if vhost.find_queue(name) is not None:
            queue = vhost.owned_queue(name, channel.connection)
            if queue.rules.type == QUORUM and (method.if_unused or method.if_empty):
                flag = "if-unused" if method.if_unused else "if-empty"
                raise NotSupported(
                    f"cannot delete {queue}. queue.delete operations with {flag} flag set are not "
                    "supported by quorum queues"
                )
            count = vhost.delete_queue(queue, bool(method.if_unused), bool(method.if_empty))
    if not method.nowait:
        channel.send_when_durable(
            method_encoder.method(channel.number, method_encoder.QUEUE_DELETE_OK, method_encoder.long(count))
        )
