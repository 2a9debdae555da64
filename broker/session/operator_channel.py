"""A channel without a client, for what an operator does in a virtual host by HTTP, with the checks of any channel.

It calls the operations that serve a client's methods too, so both agree on permissions, refusals and counters.
"""

from __future__ import annotations

from ..amqp.errors import Invalid
from ..amqp.field_table import Table
from ..amqp.framing import content_frames
from ..amqp.limits import SHORT_STRING
from ..amqp.properties import Properties
from ..core.access.users import User
from ..core.messages.message import Message
from ..core.node.node import Node
from ..core.queues.queue import Queue
from ..core.vhost.vhost import VHost
from . import operations
from .confirms import Confirms
from .internal_connection import InternalConnection, InternalTransport, Report
from .methods import acknowledge, basic
from .methods import publish as publishing
from .names import strip_line_ends
from .settings import Settings
from .transport import Peer
from .unacked import Settlement


class PublishOutcome:
    """What became of a publish. One that no queue was to have is not `routed`; `refused` is one that a queue did not
    take."""

    __slots__ = ("routed", "refused")

    def __init__(self, routed: bool, refused: bool) -> None:
        self.routed = routed
        self.refused = refused


class FetchedMessage:
    """A message taken from a queue, which had `left` more."""

    __slots__ = ("message", "redelivered", "left")

    def __init__(self, message: Message, redelivered: bool, left: int) -> None:
        self.message = message
        self.redelivered = redelivered
        self.left = left


class OperatorChannel:
    """Of one user in one virtual host, until `close`. `peer` is where the request came from.

    All of it raises the AMQPErrors that a client would be told; Invalid for what no client could say.
    """

    def __init__(
        self,
        node: Node,
        settings: Settings,
        user: User,
        vhost: VHost,
        peer: Peer,
        report: Report,
    ) -> None:
        self._connection = InternalConnection(node, settings, peer, InternalTransport(report), user, vhost)
        self._channel = self._connection.channel

    def close(self) -> None:
        """What was taken and not settled goes back."""
        self._connection.end_channel()
        self._connection.node.pump()

    # What there is

    def declare_queue(
        self, name: str, *, durable: bool = False, auto_delete: bool = False, arguments: Table = Table.EMPTY
    ) -> Queue:
        """Create a queue that is not exclusive, or find the same one."""
        name = strip_line_ends(short("the name of a queue", name))
        return operations.declare_queue(
            self._channel, name, durable=durable, exclusive=False, auto_delete=auto_delete, arguments=arguments
        )

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> None:
        """Delete a queue, if it exists."""
        operations.delete_queue(self._channel, self._queue_name(name), if_unused=if_unused, if_empty=if_empty)

    def purge(self, name: str) -> None:
        """Drop the ready messages of a queue."""
        operations.purge_queue(self._channel, self._queue_name(name), wait=False)

    def declare_exchange(
        self,
        name: str,
        type_: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table = Table.EMPTY,
    ) -> None:
        """Create an exchange, or find the same one."""
        name = strip_line_ends(short("the name of an exchange", name))
        operations.declare_exchange(
            self._channel,
            name,
            type_,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange, if it exists."""
        operations.delete_exchange(self._channel, strip_line_ends(name), if_unused=if_unused)

    def bind(self, source: str, kind: str, destination: str, routing_key: str, arguments: Table) -> None:
        """Bind a queue or an exchange (`kind`: "queue" or "exchange") to a source exchange."""
        short("a routing key", routing_key)
        source = strip_line_ends(source)
        if kind == "queue":
            operations.bind_queue(self._channel, source, self._queue_name(destination), routing_key, arguments)
        else:
            operations.bind_exchange(self._channel, source, strip_line_ends(destination), routing_key, arguments)

    def unbind(self, source: str, kind: str, destination: str, routing_key: str, arguments: Table) -> None:
        """Remove a binding, if it exists."""
        source = strip_line_ends(source)
        if kind == "queue":
            operations.unbind_queue(self._channel, source, self._queue_name(destination), routing_key, arguments)
        else:
            operations.unbind_exchange(self._channel, source, strip_line_ends(destination), routing_key, arguments)

    def _queue_name(self, name: str) -> str:
        """Raises NotFound (404) for an empty name."""
        return self._channel.queue_name(strip_line_ends(name))

    # Messages

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> PublishOutcome:
        """Mandatory. What is stored is safe with the next batch of the journal.

        Raises Invalid while an alarm is on, as a client would have to wait, and for properties that fit no frame.
        """
        channel, connection = self._channel, self._connection
        alarm = connection.node.alarms.reason
        if alarm:
            raise Invalid(f"nothing can be published now: the broker is {alarm}")
        short("an exchange", exchange)
        short("a routing key", routing_key)
        raw = properties.encode()
        if fault := connection.settings.properties_fault(len(raw)):
            raise Invalid(fault)
        if len(body) > connection.settings.max_message_size:
            raise publishing.body_too_long(channel, len(body))
        route = publishing.find_route(channel, exchange, routing_key, mandatory=True)
        channel.confirms = channel.confirms or Confirms()
        unroutable = channel.publishing.return_unroutable
        publishing.publish(channel, route, [content_frames(channel.number, raw, body)], alike=True)
        refused = channel.confirms.has_refusals
        connection.confirm()
        connection.take_output()
        connection.node.pump()
        return PublishOutcome(channel.publishing.return_unroutable == unroutable, refused)

    def get(self, name: str, count: int, no_ack: bool) -> list[FetchedMessage]:
        """At most so many messages; unless `no_ack`, they are out until `give_back`, `reject` or `close`."""
        channel = self._channel
        queue = basic.readable_queue(channel, name)
        taken = []
        for _ in range(count):
            found = basic.fetch(channel, queue, no_ack)
            if found is None:
                break
            taken.append(FetchedMessage(found[1], found[2], queue.ready))
        return taken

    def give_back(self, failed: bool) -> None:
        """All that is out goes to the head of its queue; one that `failed` counts as an attempt."""
        settlement = Settlement.RETURN if failed else Settlement.NACK
        acknowledge.settle(self._channel, self._channel.unacked.tags(), settlement)

    def reject(self) -> None:
        """All that is out is dropped, or dead-lettered."""
        acknowledge.settle(self._channel, self._channel.unacked.tags(), Settlement.REJECT)


def short(what: str, text: str) -> str:
    """Raises Invalid for what fits no short string."""
    if len(text.encode("utf-8", "surrogateescape")) > SHORT_STRING:
        raise Invalid(f"{what} has at most {SHORT_STRING} octets")
    return text
