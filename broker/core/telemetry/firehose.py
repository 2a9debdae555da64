"""The firehose, which publishes a copy of every message that is published or delivered in a virtual host, as in
RabbitMQ.

Copies are published to the topic exchange `amq.rabbitmq.trace` of the virtual host with the routing key
`publish.<exchange>` or `deliver.<queue>`. The body is that of the message; its properties, exchange and keys are
headers, but of very many queues the first names only. Copies are not traced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...amqp.errors import SyntaxFault
from ...amqp.field_table import Table, check, value_of
from ...amqp.properties import Properties
from ..exchanges.exchange import Exchange
from ..jobs.scheduler import COPY_SHIFT, Job
from ..messages.journal_port import DISK_FULL, ROOM
from ..messages.message import Message, RoutingAddress, framed
from ..queues.route_target import Targets
from ..queues.traffic_log import Origin
from ..queues.x_death import routing_keys
from ..vhost.emissions import deliver_in_slices
from ..vhost.tracer import Tracer
from .event_fields import HEADERS_LIMIT_BYTES, cut_short, encode_text, fit_to_limit

if TYPE_CHECKING:
    from ..vhost.vhost import VHost

Copy = Callable[[], Message]

TRACE = "amq.rabbitmq.trace"
POINTER_BYTES = 8
VALUE_BYTES = 5  # of a long string beside its text


LIMIT_BYTES = 16 << 20  # of messages that wait to be copied
ENTRY_BYTES = 1_000  # of one of them beside its body and its queues
COPY_COST = 60  # of a copy (`jobs.scheduler`)
QUEUES_BYTES = 16 << 10  # of the names in `routed_queues`
KEYS = 1_000  # of whose last copies it is known whether they were stored
RISKED_BYTES = 1 << 20


class Firehose(Tracer):
    """The firehose of one virtual host, which exists while tracing is switched on.

    Messages wait to be copied by a job. While too many wait, publishes and deliveries are held (`QueueHost.held`).
    Copies that would be stored, as the last one with their key was, are dropped while the disk is full: it is
    deliveries that get space back. So are those whose last one is not known, once RISKED_BYTES of these were stored.
    """

    __slots__ = ("_vhost", "_node", "_waiting", "_waiting_bytes", "_copying", "_stored", "_risked_bytes", "_drops")

    def __init__(self, vhost: VHost, node: str) -> None:
        self._vhost = vhost
        self._node = node
        self._waiting: deque[tuple[str, Copy, int]] = deque()
        self._waiting_bytes = 0
        self._copying = False
        self._stored: dict[str, bool] = {}  # whether the last copy was stored, by routing key
        self._risked_bytes = 0  # of copies that were stored since the journal has no room
        self._drops = False  # some were dropped since the disk is full

    def published(self, origin: Origin, message: Message, keys: tuple[str, ...], queues: Targets) -> None:
        """Copy a message that was routed by these keys to these queues."""

        key = f"publish.{message.address.exchange}"

        def copy() -> Message:
            fields = self._fields(origin, message, keys)
            fields["routed_queues"] = first_names(queues)
            return trace_message(key, fields, message)

        self._add(key, copy, len(message.frames) + POINTER_BYTES * len(queues))

    def delivered(self, origin: Origin, message: Message, queue: str, redelivered: bool) -> None:
        """Copy a message that was delivered to a consumer, or by basic.get."""
        if message.address.exchange == TRACE:
            return

        key = f"deliver.{queue}"

        def copy() -> Message:
            fields = self._fields(origin, message, routing_keys(message, None))
            fields["redelivered"] = int(redelivered)
            return trace_message(key, fields, message)

        self._add(key, copy, len(message.frames))

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

    def _add(self, key: str, copy: Copy, size_bytes: int) -> None:
        exchange = self._vhost.exchanges.get(TRACE)
        if exchange is None or not exchange.outgoing:
            return
        size_bytes += ENTRY_BYTES
        self._waiting.append((key, copy, size_bytes))
        self._waiting_bytes += size_bytes
        self._vhost.held = self._waiting_bytes >= LIMIT_BYTES
        if not self._copying:
            self._copying = True
            self._vhost.scheduler.start(f"firehose of {self._vhost}", self._publish(exchange), self._stop)

    def _publish(self, exchange: Exchange) -> Job:
        """Copy and publish the waiting messages, in order; wait for the journal only where copies are stored."""
        vhost, stored, journal = self._vhost, self._stored, self._vhost.journal
        while self._waiting:
            if journal.room() == ROOM:
                self._risked_bytes = 0
            stores = stored.get(self._waiting[0][0], self._risked_bytes >= RISKED_BYTES)
            if stores:
                yield from vhost.scheduler.caught_up()
            key, copy, size_bytes = self._waiting.popleft()
            self._waiting_bytes -= size_bytes
            self._vhost.held = self._waiting_bytes >= LIMIT_BYTES
            full = journal.room() == DISK_FULL
            if full and stores:
                if not self._drops:
                    vhost.scheduler.report("system_messages_dropped", "warning", {"exchange": exchange.name})
                self._drops = True
                yield 1
                continue
            self._drops = self._drops and full
            message = copy()
            yield COPY_COST + (len(message.property_bytes) + message.body_bytes >> COPY_SHIFT)
            result = yield from deliver_in_slices(vhost, [exchange], [message])
            stored.pop(key, None)
            stored[key] = result.stored or vhost.ledger.exceeded
            if stored[key] and journal.room() != ROOM:
                self._risked_bytes += size_bytes
            if len(stored) > KEYS:
                del stored[next(iter(stored))]
        self._stop()

    def _stop(self) -> None:
        self._copying = False


def trace_message(key: str, fields: dict[str, object], message: Message) -> Message:
    """Return the copy of a message that is published with this routing key and these headers."""
    headers = fit_to_limit({name: value_of(value) for name, value in fields.items()})
    return framed(RoutingAddress(TRACE, cut_short(key)), Properties(headers=headers), message.body)


def first_names(queues: Targets) -> list[str]:
    """Return the names of the queues, of the first ones if all together exceed QUEUES_BYTES."""
    names: list[str] = []
    left_bytes = QUEUES_BYTES
    for queue in queues:
        left_bytes -= len(encode_text(queue.name)) + VALUE_BYTES
        if left_bytes < 0:
            break
        names.append(queue.name)
    return names


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
