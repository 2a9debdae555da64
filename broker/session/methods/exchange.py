"""Methods of the exchange class: decode the arguments, call the operation, reply."""

from pamqp import commands

from ...amqp.field_table import Table
from ...core.exchanges.exchange import Exchange
from ...wire import method_encoder
from .. import checked_operations
from ..channel import Channel


def declare(channel: Channel, method: commands.Exchange.Declare, arguments: Table) -> None:
    """Serve exchange.declare. Raises AccessRefused (403), NotFound (404), PreconditionFailed (406), Postponed."""
    name = method.exchange
    if method.passive:
        checked_operations.find_exchange(channel, name)
        stored = False
    else:
        channel.await_unbinding(Exchange.kind, name)
        exchange = checked_operations.declare_exchange(
            channel,
            name,
            method.exchange_type or "",
            durable=bool(method.durable),
            auto_delete=bool(method.auto_delete),
            internal=bool(method.internal),
            arguments=arguments,
        )
        stored = exchange.durable
    if not method.nowait:
        channel.send_change_ok(method_encoder.method(channel.number, method_encoder.EXCHANGE_DECLARE_OK), stored)


def delete(channel: Channel, method: commands.Exchange.Delete, arguments: Table) -> None:
    """Serve exchange.delete. Raises AccessRefused (403), PreconditionFailed (406)."""
    name = method.exchange
    checked_operations.delete_exchange(channel, name, if_unused=bool(method.if_unused))
    channel.await_deletion(Exchange.kind, name)
    if not method.nowait:
        channel.send_change_ok(method_encoder.method(channel.number, method_encoder.EXCHANGE_DELETE_OK))


def bind(channel: Channel, method: commands.Exchange.Bind, arguments: Table) -> None:
    """Serve exchange.bind. Raises AccessRefused (403), NotFound (404), PreconditionFailed (406)."""
    source, destination = method.source, method.destination
    channel.admit_emissions(source)
    checked_operations.bind(channel, Exchange.kind, source, destination, method.routing_key or "", arguments)
    channel.await_emissions(source)
    if not method.nowait:
        channel.send_change_ok(method_encoder.method(channel.number, method_encoder.EXCHANGE_BIND_OK))


def unbind(channel: Channel, method: commands.Exchange.Unbind, arguments: Table) -> None:
    """Serve exchange.unbind. Raises AccessRefused (403)."""
    source, destination = method.source, method.destination
    channel.admit_emissions(source)
    checked_operations.unbind(channel, Exchange.kind, source, destination, method.routing_key or "", arguments)
    channel.await_emissions(source)
    channel.await_deletion(Exchange.kind, source)
    if not method.nowait:
        channel.send_change_ok(method_encoder.method(channel.number, method_encoder.EXCHANGE_UNBIND_OK))
