"""exchange.* of a channel (spec/core.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pamqp import commands

from ...amqp.errors import AccessRefused
from ...amqp.field_table import Table
from ...core.exchanges.exchange import ALTERNATE
from ...core.queues.arguments import check_size
from ...wire import method_encoder

if TYPE_CHECKING:
    from ..channel import Channel


def declare(channel: Channel, method: commands.Exchange.Declare, arguments: Table) -> None:
    """Raises AccessRefused (403), NotFound (404), PreconditionFailed (406)."""
    name = stripped(method.exchange)
    vhost = channel.vhost
    if method.passive:
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        channel.check_any("exchange", name)
        vhost.exchange(name)
    else:
        check_size(arguments)
        type_ = method.exchange_type or ""
        vhost.check_type(type_)
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        channel.check("configure", "exchange", name)
        if name not in vhost.exchanges:
            check_alternate(channel, name, arguments)
        vhost.declare_exchange(
            name, type_, bool(method.durable), bool(method.auto_delete), bool(method.internal), arguments
        )
    if not method.nowait:
        stored = not method.passive and vhost.exchange(name).durable
        send = channel.send_when_durable if stored else channel.send
        send(method_encoder.method(channel.number, method_encoder.EXCHANGE_DECLARE_OK))


def check_alternate(channel: Channel, name: str, arguments: Table) -> None:
    """An alternate exchange is written to by whoever may write here, and reads what is published here."""
    for key in ALTERNATE:
        alternate = arguments.text(key)
        if alternate is not None:
            channel.check("read", "exchange", name)
            channel.check("write", "exchange", alternate)


def delete(channel: Channel, method: commands.Exchange.Delete, arguments: Table) -> None:
    """Raises AccessRefused (403), PreconditionFailed (406)."""
    name = stripped(method.exchange)
    if name:
        channel.check("configure", "exchange", name)
    channel.vhost.delete_exchange(name, bool(method.if_unused))
    if not method.nowait:
        channel.send_when_durable(method_encoder.method(channel.number, method_encoder.EXCHANGE_DELETE_OK))


def bind(channel: Channel, method: commands.Exchange.Bind, arguments: Table) -> None:
    """Raises AccessRefused (403), NotFound (404), PreconditionFailed (406)."""
    check_size(arguments)
    destination, source = ends(channel, method.destination, method.source, method.routing_key or "")
    vhost = channel.vhost
    vhost.exchange(source)
    vhost.bind(source, vhost.exchange(destination), method.routing_key or "", arguments)
    if not method.nowait:
        channel.send_when_durable(method_encoder.method(channel.number, method_encoder.EXCHANGE_BIND_OK))


def unbind(channel: Channel, method: commands.Exchange.Unbind, arguments: Table) -> None:
    """Raises AccessRefused (403); what is not there needs no unbinding."""
    destination, source = ends(channel, method.destination, method.source, method.routing_key or "")
    exchange = channel.vhost.exchanges.get(destination)
    if exchange is not None:
        channel.vhost.unbind(source, exchange, method.routing_key or "", arguments)
    if not method.nowait:
        channel.send_when_durable(method_encoder.method(channel.number, method_encoder.EXCHANGE_UNBIND_OK))


def ends(channel: Channel, destination: str | None, source: str | None, key: str) -> tuple[str, str]:
    """Both names, neither of them the default exchange, with the permissions asked; raises AccessRefused (403)."""
    to, of = stripped(destination), stripped(source)
    if not to or not of:
        raise AccessRefused("operation not permitted on the default exchange")
    channel.check("write", "exchange", to)
    channel.check("read", "exchange", of)
    channel.check_topic("read", of, key)
    return to, of


def stripped(name: str | None) -> str:
    """Line ends are no part of a name (spec/core.md 5.1)."""
    return (name or "").replace("\r", "").replace("\n", "")
