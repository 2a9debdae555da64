"""Blocking of connections by resource alarms: a connection is served until it publishes.

It blocks at the content header. A message without a body is complete then and is taken, unless the disk is full, as
very many connections could spend what is left of it with long headers; any other waits, with all input after it, until
every alarm has cleared. While memory is low, a declaration or binding of something new waits as well once a connection
has created CREATE_LIMIT objects, because they stay in memory. That many let a worker declare what it needs before it
consumes, which frees more than they take. While the disk is full, those with long arguments wait, and all that would be
stored once STORED_LIMIT objects of the virtual host were. What exists already can be declared and bound without limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pamqp import commands

from ..amqp.errors import AMQPError
from ..core.exchanges.exchange import Exchange
from ..core.queues.queue import Queue
from ..core.telemetry.resource_alarms import DISK, MEMORY
from ..wire import method_decoder, method_encoder
from ..wire.frame_reader import Method, MixedPublishes, Publishes
from .names import REPLY_TO

if TYPE_CHECKING:
    from .connection import Connection

BODY_SIZE = slice(11, 19)  # the size of the body in a header frame
CREATE_LIMIT = 100  # new queues, exchanges and bindings of one connection while memory is low: a few 100 KB
MAKING = frozenset(
    (
        commands.Queue.Declare.index,
        commands.Queue.Bind.index,
        commands.Exchange.Declare.index,
        commands.Exchange.Bind.index,
    )
)


def creates_too_much(connection: Connection, event: Method) -> bool:
    """Whether a method would create something that the disk is too full for, or, while memory is low, more than
    CREATE_LIMIT objects on one connection.
    """
    alarms = connection.node.alarms
    on = alarms.on()
    if not (MEMORY in on or DISK in on):
        return False
    vhost = created_in(connection, event)
    if vhost is None:
        return False
    if alarms.refuses_new(len(event.payload), vhost):
        return True
    if MEMORY not in on:
        return False
    connection.created += 1
    return connection.created > CREATE_LIMIT


def created_in(connection: Connection, event: Method) -> str | None:
    """Return the virtual host in which a method would create a queue, exchange or binding that does not exist.

    It is empty if that does not outlive a restart, and None for any other method.
    """
    vhost, channel = connection.vhost, connection.channels.get(event.channel)
    if event.index not in MAKING or vhost is None or channel is None or channel.closing:
        return None
    try:
        method, arguments = method_decoder.decode(event.index, event.payload)
    except AMQPError:
        return None  # the error is reported when the method is handled
    if isinstance(method, commands.Queue.Declare):
        name = method.queue or ""
        new = not method.passive and not name.startswith(REPLY_TO) and name not in vhost.queues
        stored = bool(method.durable) and not method.exclusive
    elif isinstance(method, commands.Exchange.Declare):
        new = not method.passive and (method.exchange or "") not in vhost.exchanges
        stored = bool(method.durable)
    else:
        end: Exchange | Queue | None
        if isinstance(method, commands.Queue.Bind):
            kind, name = "queue", method.queue or channel.last_queue
            source, key = method.exchange or "", method.routing_key or (name if not method.queue else "")
            end = vhost.queues.get(name)
        else:
            assert isinstance(method, commands.Exchange.Bind)
            kind, name = "exchange", method.destination or ""
            source, key = method.source or "", method.routing_key or ""
            end = vhost.exchanges.get(name)
        exchange = vhost.exchanges.get(source)
        if exchange is None or end is None:
            return None
        new = not vhost.has_binding(source, kind, name, key, arguments)
        stored = exchange.durable and end.durable
    return None if not new else vhost.name if stored else ""


def admit_first(connection: Connection, publishes: Publishes | MixedPublishes) -> Publishes | None:
    """Block the connection during an alarm, and return the part of these publishes that is still taken, or None."""
    block(connection)
    contents = publishes.contents
    if not contents or any(contents[0][BODY_SIZE]) or DISK in connection.node.alarms.on():
        connection.deferred = publishes
        return None
    channel = publishes.channel
    if isinstance(publishes, MixedPublishes):
        methods = publishes.methods
        connection.deferred = MixedPublishes(channel, methods[1:], contents[1:])
        return Publishes(channel, methods[0], contents[:1], True)
    if len(contents) > 1:
        connection.deferred = Publishes(channel, publishes.method, contents[1:], publishes.alike)
    return Publishes(channel, publishes.method, contents[:1], True)


def block(connection: Connection) -> None:
    """Stop serving the connection, with connection.blocked to clients that support it."""
    connection.blocked = connection.interrupted = True
    if "connection.blocked" in connection.capabilities:
        reason = method_encoder.short_string(connection.node.alarms.reason)
        connection.send(method_encoder.method(0, method_encoder.CONNECTION_BLOCKED, reason))


def is_taken(connection: Connection, event: Method) -> bool:
    """Whether the disk is not too full for a declaration that waits for memory, or for the disk."""
    vhost = created_in(connection, event)
    return vhost is None or not connection.node.alarms.refuses_new(len(event.payload), vhost)


def unblock(connection: Connection) -> None:
    """Serve the connection again after the last alarm, or after the alarm that a declaration waited for."""
    alarms = connection.node.alarms
    if MEMORY in alarms.on():
        return
    connection.created = 0
    deferred = connection.deferred
    takes = isinstance(deferred, Method) and is_taken(connection, deferred)
    if connection.blocked and (takes or not alarms.reason):
        connection.blocked = False
        notice = b""
        if "connection.blocked" in connection.capabilities:
            notice = method_encoder.method(0, method_encoder.CONNECTION_UNBLOCKED)
        connection.send(notice)  # even if empty: this requests a flush, after which the input is handled again
