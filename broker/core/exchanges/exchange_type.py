"""The face of an exchange type: what a built-in type and a plugin both implement.

A type decides where a message goes; it holds no queue and delivers nothing. `bound` and `unbound` return notices, which
the core delivers for it. A type that must keep messages, or change them on their way, routes to a Sink of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination
from ..messages.message import Message

if TYPE_CHECKING:
    from ..queues.enqueue import EnqueueResult
    from ..vhost.exchange_host import ExchangeHost
    from .recovered import RecoveredMessages
    from .registry import Registry
    from .sink import Sink


class Emission:
    """Messages that an exchange type wants delivered to each of these destinations, in this order."""

    __slots__ = ("destinations", "messages")

    def __init__(self, destinations: Collection[Destination], messages: Collection[Message]) -> None:
        self.destinations = destinations
        self.messages = messages


class ExchangeType:
    """One exchange's routing state. Raises PreconditionFailed (406) for arguments or bindings it cannot accept.

    It is made, composed, and attached; a definition that is only checked is never attached.
    """

    __slots__ = ("name", "arguments")

    by_key: bool = True  # the route is a function of keys and bindings alone, so the router may remember it
    # The name of a header: of a type that is not `by_key`, the route is one all the same where properties are without
    # these octets. Empty: it never is.
    by_key_without: bytes = b""
    description: ClassVar[str] = ""  # one line for operators, shown beside the name; empty: the distribution's name
    records: ClassVar[bool] = False  # whether it has a `recorder`
    # The key and arguments by which links of federation are to listen at the exchange upstream, where that is of this
    # type too, in place of what is bound here with that key; `brought` gets what they hear. None: they do neither.
    listening: ClassVar[tuple[str, Table] | None] = None
    fixed_arguments: ClassVar[tuple[str, ...]] = ()  # what another declaration must give the same, or be refused (406)

    def __init__(self, name: str, arguments: Table) -> None:
        self.name = name
        self.arguments = arguments

    def compose(self, registry: Registry) -> None:
        """Take other types into service, by `Registry.create`, where this one is made of such."""

    def attach(self, host: ExchangeHost) -> None:
        """The exchange is about to exist: `host` is what its virtual host does for it."""

    @property
    def compared(self) -> tuple[str, ...]:
        """The arguments in which another declaration has to agree."""
        return self.fixed_arguments

    @property
    def recorder(self) -> Sink | None:
        """A sink that a message reaches after all queues of its route, where these took it; None if it needs none."""
        return None

    @property
    def stores(self) -> bool:
        """Whether it ever asks its host to store messages: those of a durable exchange are there after a restart."""
        return False

    def restore(self, stored: RecoveredMessages) -> None:
        """What was stored when the broker stopped; the bindings are there again already."""

    def check(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        """Refuse a binding that this type cannot hold, with 406, before it exists.

        `destination_type` is `exchange`, or the type of the queue: `classic`, `quorum`.
        """

    def bound(self, binding: Binding) -> Iterable[Emission]:
        """A binding that did not exist before has been made. At a restart nobody asks for the notices."""
        raise NotImplementedError

    def unbound(self, binding: Binding) -> Iterable[Emission]:
        """A binding is gone: the very object that `bound` was told of."""
        raise NotImplementedError

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        """The destinations for the routing key and the CC and BCC keys; repeats are allowed, the router drops them.

        Of a type that is not `by_key` it is asked once for each message, before that is queued anywhere.
        """
        raise NotImplementedError

    def brought(self, message: Message) -> EnqueueResult:
        """A link that listens has brought it from the exchange upstream, which it is from for certain. What is made of
        it is for the type to deliver, by its host. Raises AMQPError where the properties are malformed."""
        raise NotImplementedError

    def parted(self, cluster_name: str, vhost: str, exchange: str) -> None:
        """Nothing is brought from that exchange any more. It is said of one from which nothing was ever brought, too,
        before the first comes: all of that is news, and nothing that was known before a restart."""

    def deleted(self) -> None:
        """The exchange is gone, and its bindings with it, of which `unbound` is not told."""

    def release(self) -> Iterator[None]:
        """Free what is kept for very many bindings in short steps, after `deleted`."""
        return iter(())
