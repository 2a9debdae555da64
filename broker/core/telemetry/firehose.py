"""The firehose, which publishes a copy of every message that is published or delivered in a virtual host, as in
RabbitMQ.

Copies are published to the topic exchange `amq.rabbitmq.trace` of the virtual host with the routing key
`publish.<exchange>` or `deliver.<queue>`. The body is that of the message; its properties, exchange and keys are
headers. Copies are not traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...amqp.errors import SyntaxFault
from ...amqp.field_table import Table, check, value_of
from ...amqp.properties import Properties
from ..messages.message import Address, Message, framed
from ..queues.message_log import Origin
from ..queues.route_target import RouteTarget
from ..queues.x_death import routing_keys
from ..vhost.tracer import Tracer
from .event_fields import HEADERS_LIMIT_BYTES, cut_short, fit_to_limit

if TYPE_CHECKING:
    from ..vhost.vhost import VHost

TRACE = "amq.rabbitmq.trace"


class Firehose(Tracer):
    """The firehose of one virtual host, which exists while tracing is switched on."""

    __slots__ = ("_vhost", "_node")

    def __init__(self, vhost: VHost, node: str) -> None:
        self._vhost = vhost
        self._node = node

    def published(
        self, origin: Origin, message: Message, keys: tuple[str, ...], queues: tuple[RouteTarget, ...]
    ) -> None:
        """Publish a copy of a message that was routed by these keys to these queues."""
        fields = self._fields(origin, message, keys)
        fields["routed_queues"] = [queue.name for queue in queues]
        self._emit(f"publish.{message.address.exchange}", fields, message)

    def delivered(self, origin: Origin, message: Message, queue: str, redelivered: bool) -> None:
        """Publish a copy of a message that was delivered to a consumer, or by basic.get."""
        if message.address.exchange == TRACE:
            return
        fields = self._fields(origin, message, routing_keys(message, None))
        fields["redelivered"] = int(redelivered)
        self._emit(f"deliver.{queue}", fields, message)

    def _fields(self, origin: Origin, message: Message, keys: tuple[str, ...]) -> dict[str, object]:
        return {
            "exchange_name": message.address.exchange,
            "routing_keys": list(keys),
            "properties": property_table(message.properties),
            "node": self._node,
            "vhost": self._vhost.name,
            "connection": origin.connection,
            "channel": origin.channel,
            "user": origin.user,
        }

    def _emit(self, key: str, fields: dict[str, object], message: Message) -> None:
        exchange = self._vhost.exchanges.get(TRACE)
        if exchange is None or not exchange.outgoing:
            return
        key = cut_short(key)
        headers = fit_to_limit({name: value_of(value) for name, value in fields.items()})
        copy = framed(Address(TRACE, key), Properties(headers=headers), message.body)
        self._vhost.publish(exchange, copy)


def property_table(properties: Properties) -> Table:
    """Return the properties that are set, as a field table: numbers as `I` if they fit, strings as `S`.

    Headers are unchanged; those that are too long, or nested too deep for a table in a table, are left out.
    """
    given = (
        ("content_type", properties.content_type),
        ("content_encoding", properties.content_encoding),
        ("headers", properties.headers),
        ("delivery_mode", properties.delivery_mode),
        ("priority", properties.priority),
        ("correlation_id", properties.correlation_id),
        ("reply_to", properties.reply_to),
        ("expiration", properties.expiration),
        ("message_id", properties.message_id),
        ("timestamp", as_signed(properties.timestamp)),
        ("type", properties.type),
        ("user_id", properties.user_id),
        ("app_id", properties.app_id),
        ("cluster_id", properties.cluster_id),
    )
    fields = {name: value_of(value) for name, value in given if value is not None}
    table = fit_to_limit(fields, HEADERS_LIMIT_BYTES // 2)
    try:
        check(Table.of({"properties": table}).raw)
    except SyntaxFault:
        del fields["headers"]
        return Table.of(fields)
    return table


def as_signed(timestamp: int | None) -> int | None:
    """Convert a timestamp to a signed 64-bit integer, the largest that a field table holds."""
    return timestamp if timestamp is None or timestamp < 1 << 63 else timestamp - (1 << 64)
