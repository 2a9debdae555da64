"""A channel without a client: what an operator does in a virtual host by another door, with the checks of any channel.

What it is asked for is done by the functions that serve a client's methods, so that both doors agree in who may do
what, what is refused, and what is counted. Replies go nowhere; what an operator wants to know is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pamqp import commands

from ..amqp.errors import Invalid
from ..amqp.field_table import Table
from ..amqp.properties import Properties
from ..core.access.users import User
from ..core.messages.message import Message, content_frames
from ..core.node.node import Node
from ..core.queues.queue import Queue
from ..core.vhost.vhost import VHost
from ..wire.frame_reader import Publishes
from . import events
from .channel import Channel
from .confirms import Confirms
from .connection import Connection
from .connection_state import RUNNING
from .methods import acknowledge, basic
from .methods import exchange as exchanges
from .methods import publish as publishing
from .methods import queue as queues
from .settings import Settings
from .transport import Peer, TransportPort

SHORT = 255  # octets of a short string, which names and keys are on the wire
NUMBER = 1  # of the channel
TICKET = b"\x00\x3c\x00\x28\x00\x00"  # ids of basic.publish, and the ticket
MANDATORY = b"\x01\xce"  # the flags, and the end of the frame

Report = Callable[[str, str, dict[str, object]], None]


class NullTransport(TransportPort):
    """What is sent is forgotten, and there is nobody to wait for."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def flush_soon(self) -> None: ...

    def running(self, heartbeat_s: int) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def close(self, after_s: float) -> None: ...

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        self._report(event, level, fields)


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
        connection = Connection(node, settings, peer, NullTransport(report))
        connection.user, connection.login_name, connection.vhost = user, user.name, vhost
        connection.state = RUNNING
        self._connection = connection
        self._channel = Channel(connection, NUMBER)
        events.channel_created(self._channel)

    def close(self) -> None:
        """What was taken and not settled goes back."""
        self._channel.end()
        for queue in self._connection.holding.queues:
            queue.publishers.forget(self._connection)
        self._connection.node.pump()

    # What there is

    def declare_queue(self, name: str, durable: bool, auto_delete: bool, arguments: Table) -> Queue:
        """Make it, or find it the same."""
        method = commands.Queue.Declare()
        method.durable, method.auto_delete, method.exclusive = durable, auto_delete, False
        return queues.active(self._channel, exchanges.stripped(short("the name of a queue", name)), method, arguments)

    def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> None:
        """None there is fine."""
        method = commands.Queue.Delete()
        method.queue, method.if_unused, method.if_empty, method.nowait = name, if_unused, if_empty, True
        queues.delete(self._channel, method, Table.EMPTY)

    def purge(self, name: str) -> None:
        method = commands.Queue.Purge()
        method.queue, method.nowait = name, True
        queues.purge(self._channel, method, Table.EMPTY)

    def declare_exchange(
        self, name: str, type_: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        """Make it, or find it the same."""
        method = commands.Exchange.Declare()
        method.exchange, method.exchange_type = short("the name of an exchange", name), type_
        method.durable, method.auto_delete, method.internal = durable, auto_delete, internal
        method.passive, method.nowait = False, True
        exchanges.declare(self._channel, method, arguments)

    def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        """None there is fine."""
        method = commands.Exchange.Delete()
        method.exchange, method.if_unused, method.nowait = name, if_unused, True
        exchanges.delete(self._channel, method, Table.EMPTY)

    def bind(self, source: str, kind: str, destination: str, routing_key: str, arguments: Table) -> None:
        """`kind` is what the destination is: queue or exchange."""
        short("a routing key", routing_key)
        if kind == "queue":
            queues.bind(self._channel, between(commands.Queue.Bind(), source, destination, routing_key), arguments)
        else:
            exchanges.bind(
                self._channel, between(commands.Exchange.Bind(), source, destination, routing_key), arguments
            )

    def unbind(self, source: str, kind: str, destination: str, routing_key: str, arguments: Table) -> None:
        """None there is fine."""
        if kind == "queue":
            queues.unbind(self._channel, between(commands.Queue.Unbind(), source, destination, routing_key), arguments)
        else:
            method = between(commands.Exchange.Unbind(), source, destination, routing_key)
            exchanges.unbind(self._channel, method, arguments)

    # Messages

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> PublishOutcome:
        """Mandatory. What is stored is safe with the next batch of the journal.

        Raises Invalid while an alarm is on, as a client would have to wait, and for properties that fit no frame.
        """
        channel, connection = self._channel, self._connection
        alarm = connection.node.alarms.reason
        if alarm:
            raise Invalid(f"nothing can be published now: the broker is {alarm}")
        method = TICKET + encoded("an exchange", exchange) + encoded("a routing key", routing_key) + MANDATORY
        raw = properties.encode()
        if fault := connection.settings.properties_fault(len(raw)):
            raise Invalid(fault)
        contents = [content_frames(NUMBER, raw, body)]
        if len(body) > connection.settings.max_message_size:
            publishing.publish(channel, Publishes(NUMBER, method, [], True, too_long=len(body)))
        channel.confirms = channel.confirms or Confirms()
        unroutable = channel.publishing.return_unroutable
        publishing.publish(channel, Publishes(NUMBER, method, contents, True))
        refused = channel.confirms.refusing
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
        acknowledge.refuse(
            self._channel, list(self._channel.unacked), acknowledge.RETURNED if failed else acknowledge.NACKED
        )

    def reject(self) -> None:
        """All that is out is dropped, or dead-lettered."""
        acknowledge.refuse(self._channel, list(self._channel.unacked), acknowledge.REJECTED)


def between(method: Any, source: str, destination: str, routing_key: str) -> Any:
    """The method of a binding, filled in; one of a queue has other names for its ends than one of an exchange."""
    method.queue = method.destination = destination
    method.exchange = method.source = source
    method.routing_key, method.nowait = routing_key, True
    return method


def short(what: str, text: str) -> str:
    """Raises Invalid for what fits no short string."""
    if len(text.encode("utf-8", "surrogateescape")) > SHORT:
        raise Invalid(f"{what} has at most {SHORT} octets")
    return text


def encoded(what: str, text: str) -> bytes:
    octets = short(what, text).encode("utf-8", "surrogateescape")
    return bytes((len(octets),)) + octets
