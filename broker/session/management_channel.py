"""A channel without a client, for the requests of an operator in a virtual host.

It calls the operations that also serve the methods of clients, so both agree on permissions, errors and counters.
"""

from dataclasses import dataclass

from ..amqp.errors import AMQPError, Invalid, NotNow, Unreadable
from ..amqp.field_table import Table
from ..amqp.framing import content_frames
from ..amqp.limits import SHORT_STRING
from ..amqp.names import strip_line_ends
from ..amqp.properties import Properties
from ..core.access.users import User
from ..core.messages.message import Message
from ..core.metadata.validation import check_text
from ..core.node.node import Node
from ..core.queues.queue import Queue
from ..core.queues.route_target import must_wait
from ..core.vhost.vhost import CheckNew, VHost, allow_new
from . import checked_operations
from .confirms import Confirms
from .internal_connection import InternalConnection, Report
from .methods import acknowledge
from .methods import publish as publishing
from .methods.special_properties import apply_special_properties
from .move_messages import Move
from .settings import Settings
from .transport import Peer
from .unacked import Settlement


@dataclass(slots=True, eq=False)
class PublishOutcome:
    """The result of a publish: whether it reached a queue, and whether a queue did not take it."""

    routed: bool
    refused: bool


@dataclass(slots=True, eq=False)
class FetchedMessage:
    """A message taken from a queue, with the number of ready messages after it."""

    message: Message
    redelivered: bool
    left: int


class ManagementChannel(InternalConnection):
    """A channel of one user in one virtual host, until `close`. `peer` is the source of the request.

    Its methods raise the AMQPErrors that a client would get, and Invalid for arguments that no client could send.
    `check_new` is called before a new object is created that nothing else refuses; it may raise NotNow.
    """

    __slots__ = ("_check_new", "_returned", "_refused", "_full")

    def __init__(
        self,
        node: Node,
        settings: Settings,
        user: User,
        vhost: VHost,
        peer: Peer,
        report: Report,
        check_new: CheckNew = allow_new,
    ) -> None:
        super().__init__(node, settings, peer, report, user, vhost)
        self._check_new = self._channel.object_check = check_new
        self._channel.on_full = self._note_full
        self._returned = 0  # messages, before the last publish
        self._refused = False  # the last publish
        self._full = False  # a queue of the last publish, which is not published

    def _note_full(self) -> None:
        self._full = True

    def close(self, error: AMQPError | None = None) -> None:
        """Close the channel, and requeue unsettled messages."""
        super().close()
        self.node.pump()

    def check_read(self, queue: Queue) -> None:
        """Check the user's right to read the messages of a queue. Raises AccessRefused (403), ResourceLocked (405)."""
        self._channel.check("read", "queue", queue.name)
        self._channel.vhost.check_owner(queue, self, queue.owner is not None)

    # Queues, exchanges and bindings

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Table = Table.EMPTY,
        check_new: CheckNew | None = None,
    ) -> Queue:
        """Create a queue that is not exclusive, or return the existing one if it is equivalent."""
        name = strip_line_ends(short("the name of a queue", name))
        self._channel.object_check = check_new or self._check_new
        name = checked_operations.shard_to_declare(self._channel, name)
        return checked_operations.declare_queue(
            self._channel, name, durable=durable, exclusive=False, auto_delete=auto_delete, arguments=arguments
        )

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> None:
        """Delete a queue, if it exists."""
        checked_operations.delete_queue(self._channel, name, if_unused=if_unused, if_empty=if_empty)

    def purge(self, name: str) -> None:
        """Drop the ready messages of a queue."""
        checked_operations.purge_queue(self._channel, name, wait=False)

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
        """Create an exchange, unless an equivalent one exists."""
        name = strip_line_ends(short("the name of an exchange", name))
        checked_operations.declare_exchange(
            self._channel, name, type_, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
        )

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange, if it exists."""
        checked_operations.delete_exchange(self._channel, name, if_unused=if_unused)

    def bind(self, source: str, kind: str, destination: str, routing_key: str, arguments: Table) -> None:
        """Bind a queue or an exchange (`kind`: "queue" or "exchange") to a source exchange."""
        short("a routing key", routing_key)
        name = strip_line_ends(destination)
        name = self._channel.queue_name(name) if kind == Queue.kind else name
        checked_operations.bind(self._channel, kind, strip_line_ends(source), name, routing_key, arguments)

    def unbind(self, source: str, kind: str, destination: str, routing_key: str, arguments: Table) -> None:
        """Remove a binding, if it exists."""
        checked_operations.unbind(self._channel, kind, source, destination, routing_key, arguments)

    # Messages

    def publish(
        self, exchange: str, routing_key: str, properties: Properties, body: bytes, in_slices: bool = False
    ) -> PublishOutcome:
        """Publish with the mandatory flag. A persistent message is safe with the next batch of the journal.

        With `in_slices` this may take several turns of the loop: the outcome is known when the channel is not `busy`.
        Raises NotNow where a client would wait: during an alarm, and for queues that have rejected too many messages.
        Raises Invalid for properties that fit no frame.
        """
        channel = self._channel
        short("an exchange", exchange)
        short("a routing key", routing_key)
        raw = properties.encode()
        if fault := self.settings.properties_fault(len(raw)):
            raise Invalid(fault)
        if len(body) > self.settings.max_message_size:
            raise publishing.body_too_long(channel, len(body))
        route = publishing.find_route(channel, exchange, routing_key, mandatory=True)
        content = content_frames(channel.number, raw, body)
        if self.node.alarms.reason:  # last: what is refused for ever is not refused for now
            channel.checked.check(raw)
            if channel.checked.special:
                apply_special_properties(channel, Message(route.address, content, 0, len(body), 0, False))
            self.check_alarms()
        if channel.unfinished.full and not publishing.count_short(channel, [route], [content]):
            raise NotNow(publishing.STILL_PUBLISHING)
        if must_wait(channel.vhost.ledger, route.targets or ()):
            raise NotNow(publishing.STILL_DEAD_LETTERING)
        channel.confirms = channel.confirms or Confirms()
        self._returned = channel.publishing.return_unroutable
        self._refused = self._full = False
        publishing.publish(channel, route, [content], alike=True, in_slices=in_slices)
        return self.outcome()

    def check_alarms(self, size: int = 0, stored: bool = False) -> None:
        """Raises NotNow during an alarm, in which nothing can be published, whatever new object is for it."""
        alarm = self.node.alarms.reason
        if alarm:
            raise NotNow(f"nothing can be published now: the broker is {alarm}")

    @property
    def busy(self) -> bool:
        """True while the last publish is under way."""
        return self.suspended > 0

    def outcome(self) -> PublishOutcome:
        """Return the outcome of the last publish. Raises NotNow if it would have to wait for a full queue."""
        channel = self._channel
        self._refused = self._refused or (channel.confirms is not None and channel.confirms.has_refusals)
        self.confirm()
        self.node.pump()
        if self._full:
            raise NotNow(publishing.STILL_DEAD_LETTERING)
        return PublishOutcome(channel.publishing.return_unroutable == self._returned, self._refused)

    def get(self, name: str, count: int, *, no_ack: bool) -> list[FetchedMessage]:
        """Take at most `count` messages; without `no_ack` they are unsettled until `give_back`, `reject` or `close`.

        Raises Unreadable (506) if there are messages, and the first cannot be returned now.
        """
        channel = self._channel
        queue = checked_operations.readable_queue(channel, name)
        messages: list[FetchedMessage] = []
        for _ in range(count):
            try:
                delivery = checked_operations.get_message(channel, queue, no_ack)
            except Unreadable:
                if not messages:
                    raise
                break  # those that were taken are returned
            if delivery is None:
                break
            _, message, redelivered = delivery
            messages.append(FetchedMessage(message, redelivered, queue.ready))
        return messages

    def move(self, name: str, exchange: str, routing_key: str | None) -> Move:
        """Begin to move messages of a queue to an exchange, with their own routing keys if none is given."""
        short("a routing key", routing_key or "")
        queue = checked_operations.readable_queue(self._channel, name)
        return Move(self._channel, queue, exchange, routing_key)

    def give_back(self, failed: bool) -> None:
        """Requeue all unsettled messages; with `failed` this counts as a failed attempt of each."""
        settlement = Settlement.RETURN if failed else Settlement.NACK
        acknowledge.settle(self._channel, acknowledge.tags_up_to(self._channel, 0), settlement)

    def reject(self) -> None:
        """Drop or dead-letter all unsettled messages."""
        acknowledge.settle(self._channel, acknowledge.tags_up_to(self._channel, 0), Settlement.REJECT)


def short(what: str, text: str) -> str:
    """Return the text, which must fit a short string of UTF-8. Raises Invalid."""
    check_text(what, text, SHORT_STRING)
    return text
