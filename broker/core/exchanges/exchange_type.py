"""The interface of an exchange type, which built-in types and plugins implement.

A type keeps routing state and routes messages; it has no queues and enqueues nothing by itself. `on_bind`
and `on_unbind` return emissions, which the broker enqueues. A type that keeps or changes messages routes them to a
Sink.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import ClassVar, Final, NamedTuple, Self

from ...amqp.errors import PreconditionFailed
from ...amqp.field_table import Table
from ...amqp.limits import SHORT_STRING
from ..messages.binding import Binding, Destination
from ..messages.message import Message
from ..queues.route_target import EnqueueResult, RouteTarget, Targets
from .exchange_context import Emission, EnqueueSteps, ExchangeContext, RecoveredMessages

STEP_COST: Final = 200  # of a step of a search, about
DESTINATIONS, DESTINATIONS_SHIFT = 2_000, 2  # that are added in one step; to add 4 of them costs 1


class UpstreamExchange(NamedTuple):
    """The exchange of another broker from which a federation link receives messages."""

    cluster_name: str
    vhost: str
    exchange: str


class ExchangeType:
    """The routing state of one exchange: the base class of every exchange type.

    An object is created for each exchange with the exchange's name and arguments, and raises PreconditionFailed (406)
    for arguments that it does not accept. Then `compose` and `on_created` are called, once each; `on_created` is not if
    a definition is only validated. All methods run on the broker's thread and must not block.
    """

    __slots__ = ("name", "arguments")

    routes_by_key_only: bool = True
    """Whether `route` depends on routing keys and bindings alone. The broker then caches routes until a binding in the
    virtual host changes, and the type costs nothing per message. It may be set for each object by `__init__`."""

    routes_by_key_unless_header: bytes = b""
    """A header name, for a type that is not `routes_by_key_only`: routes of messages whose properties do not contain it
    depend on keys and bindings alone, and are cached. Empty: no route is cached."""

    description: ClassVar[str] = ""
    """One line for operators, shown beside the type's name. Empty: the name of the distribution."""

    upstream_binding: ClassVar[tuple[str, Table] | None] = None
    """Routing key and arguments with which federation links bind to the upstream exchange, if that has the same type,
    instead of copying the local bindings. Messages received that way are passed to `on_federated`. None: links copy the
    bindings, and messages are routed as usual."""

    fixed_arguments: ClassVar[tuple[str, ...]] = ()
    """Arguments that a repeated declaration must give the same value, or be refused (406)."""

    def __init__(self, name: str, arguments: Table) -> None:
        self.name = name
        self.arguments = arguments

    # Life cycle

    def compose(self, registry: Registry) -> None:
        """Create the types that this one delegates to, if any, with `registry.create`."""

    def on_created(self, context: ExchangeContext) -> None:
        """The exchange is being created. `context` gives access to its virtual host, and may be kept."""

    def restore(self, stored: RecoveredMessages) -> None:
        """Take over the messages stored before a restart. The bindings have been restored already."""

    def on_deleted(self) -> None:
        """The exchange has been deleted, with its bindings: `on_unbind` is not called for them."""

    def release(self) -> Iterator[int]:
        """Free the state of very many bindings in short steps, after `on_deleted`. A generator.

        It yields how many values each step has freed, such as the arguments of one binding.
        """
        return iter(())

    # Declaration and bindings

    @property
    def equivalence_arguments(self) -> tuple[str, ...]:
        """The arguments that must have the same value in a repeated declaration."""
        return self.fixed_arguments

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        """Raise PreconditionFailed (406) for a binding that this type does not accept, before it is created.

        `destination_type` is "exchange", or the type of the queue: "classic", "quorum".
        """

    def on_bind(self, binding: Binding) -> Iterable[Emission]:
        """A binding has been created, or restored at the start; then the emissions are not iterated over.

        The first emission is taken from the iterable at once, each of the others when the one before is enqueued, which
        may be some turns of the loop later. So a generator need not have all of its messages in memory.
        """
        raise NotImplementedError

    def on_unbind(self, binding: Binding) -> Iterable[Emission]:
        """A binding has been deleted. It is the object that was passed to `on_bind`."""
        raise NotImplementedError

    # Messages

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        """Return the destinations of a message by its routing key and its CC and BCC keys, each of which is there once.

        Destinations may repeat; the router removes duplicates. A type that is not `routes_by_key_only` is asked exactly
        once for each message, before the message is enqueued anywhere.
        """
        found: dict[Destination, None] = {}
        for _ in self.search(keys, message, found):
            pass
        return list(found)

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        """Add the destinations of a message to `found`: `route` in short steps, for a type that may need milliseconds.

        A generator; it yields the cost of each step in microseconds. Bindings may change between two steps. A type
        defines `route` or `search`.
        """
        destinations = self.route(keys, message)
        yield (yield from add_all(destinations, found, self.route_cost + len(keys)))

    def peek(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        """Add the destinations as `search` does, to know them and nothing more: it counts and keeps nothing.

        A due message that waits for its queues is looked at again and again like this, without its body.
        """
        return self.search(keys, message, found)

    @property
    def route_cost(self) -> int:
        """The processor time of the last `route` in microseconds, for a type that may need more than some.

        Publishes of one connection that take milliseconds together are routed in several turns of the loop.
        """
        return 0

    @property
    def relays(self) -> bool:
        """True if the type makes messages of its own out of those that clients publish, and takes no others.

        Of dead letters, moved messages, the broker's own messages and those of other relays it is not asked: the
        messages that relays make of one publish would double with each relay on their way.
        """
        return False

    @property
    def persists_messages(self) -> bool:
        """True if the type stores messages through its context. Those of a durable exchange survive a restart."""
        return False

    @property
    def undelayed(self) -> ExchangeType:
        """The type that routes what this one has delayed: the type itself, or the one to which it delegates."""
        return self

    # Federation

    def on_federated(self, message: Message, upstream: UpstreamExchange) -> EnqueueResult | EnqueueSteps:
        """Process a message that a federation link with `upstream_binding` received from this upstream exchange.

        The type enqueues the resulting messages through its context: now, or in the steps that it returns
        (`ExchangeContext.deliver_in_steps`). The link acknowledges the message after them. Raises AMQPError for
        malformed properties.
        """
        raise NotImplementedError

    def on_upstream_detached(self, upstream: UpstreamExchange) -> None:
        """The federation link to this upstream exchange is down.

        Also called once before the first message of a link, so that state from before a restart is discarded.
        """


class Registry:
    """The exchange types by name, each with its distribution, which is empty for built-in types."""

    __slots__ = ("_types", "_distributions")

    def __init__(self) -> None:
        self._types: dict[str, type[ExchangeType]] = {}
        self._distributions: dict[str, str] = {}

    def register(self, name: str, type_: type[ExchangeType], distribution: str = "") -> None:
        """Add a type under its name for clients. Raises ValueError if the name is empty, too long or taken."""
        if not name or len(name.encode("utf-8", "surrogateescape")) > SHORT_STRING:
            raise ValueError(f"the name of an exchange type has 1 to {SHORT_STRING} octets")
        if name in self._types:
            raise ValueError(f"the name is taken, {self._distributions[name] or 'it is built in'}")
        self._types[name] = type_
        self._distributions[name] = distribution

    def find(self, type_name: str) -> type[ExchangeType]:
        """Return the type with this name. Raises PreconditionFailed (406) if there is none."""
        found = self._types.get(type_name)
        if found is None:
            raise PreconditionFailed(
                f"unknown exchange type '{type_name}'" if type_name else "invalid exchange type ''"
            )
        return found

    def create(self, type_name: str, name: str, arguments: Table) -> ExchangeType:
        """Create the type object of a new exchange.

        Raises PreconditionFailed (406) if the type is unknown or refuses the arguments.
        """
        made = self.find(type_name)(name, arguments)
        made.compose(self)
        return made

    def names(self) -> list[str]:
        """Return the known type names, sorted."""
        return sorted(self._types)

    def distributions(self) -> list[tuple[str, str]]:
        """Return name and distribution of each type, sorted."""
        return sorted(self._distributions.items())


def add_all(destinations: list[Destination], found: dict[Destination, None], cost: int) -> Generator[int, None, int]:
    """Add destinations, of which there may be very many, to those found, in steps.

    `cost` is that of the search since its last step. Yields it with that of the destinations whenever it has reached
    STEP_COST, and returns the rest.
    """
    for at in range(0, len(destinations), DESTINATIONS):
        some = destinations[at : at + DESTINATIONS]
        found.update(dict.fromkeys(some))
        cost += len(some) >> DESTINATIONS_SHIFT
        if cost >= STEP_COST:
            yield cost
            cost = 0
    return cost


class ExchangeDecorator(ExchangeType):
    """An exchange type that delegates to `inner`, which `compose` or `around` sets."""

    __slots__ = ("inner",)

    routes_by_key_only = False  # a decorator acts on each message

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self.inner: ExchangeType

    @classmethod
    def around(cls, inner: ExchangeType) -> Self:
        """Return a decorator of a type that is composed already."""
        made = cls(inner.name, inner.arguments)
        made.inner = inner
        return made

    @property
    def equivalence_arguments(self) -> tuple[str, ...]:
        return (*self.fixed_arguments, *self.inner.equivalence_arguments)

    @property
    def route_cost(self) -> int:
        return self.inner.route_cost

    @property
    def relays(self) -> bool:
        return self.inner.relays

    @property
    def persists_messages(self) -> bool:
        return self.inner.persists_messages

    @property
    def undelayed(self) -> ExchangeType:
        return self.inner.undelayed

    def compose(self, registry: Registry) -> None:
        raise NotImplementedError

    def on_created(self, context: ExchangeContext) -> None:
        self.inner.on_created(context)

    def restore(self, stored: RecoveredMessages) -> None:
        self.inner.restore(stored)

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        self.inner.validate_binding(routing_key, arguments, destination_type)

    def on_bind(self, binding: Binding) -> Iterable[Emission]:
        return self.inner.on_bind(binding)

    def on_unbind(self, binding: Binding) -> Iterable[Emission]:
        return self.inner.on_unbind(binding)

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        return self.inner.search(keys, message, found)

    def peek(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        return self.inner.peek(keys, message, found)

    def on_deleted(self) -> None:
        self.inner.on_deleted()

    def release(self) -> Iterator[int]:
        return self.inner.release()


class Accepted(RouteTarget):
    """A `sink` that has taken a message in steps, with the result."""

    __slots__ = ("sink", "_result")
    internal: ClassVar[bool] = True

    def __init__(self, sink: RouteTarget, result: EnqueueResult) -> None:
        super().__init__("", 0, True)
        self.sink = sink
        self._result = result

    def accept(self, messages: list[Message], source: str, shared: bool, others: Targets = ()) -> EnqueueResult:
        return self._result


class Sink(RouteTarget):
    """A route target of one exchange type, which gets messages in place of a queue. Subclasses define `handle`.

    A message that is routed to a sink counts as routed, and is confirmed when the result of `handle` is stored.
    """

    __slots__ = ("context",)
    internal: ClassVar[bool] = True

    def __init__(self, context: ExchangeContext) -> None:
        super().__init__("", 0, True)
        self.context = context
        self.reads_headers = True

    def accept(self, messages: list[Message], source: str, shared: bool, others: Targets = ()) -> EnqueueResult:
        return self.handle(messages)

    def handle(self, messages: list[Message]) -> EnqueueResult:
        """Process messages that were published together; return whether they are stored, and which are rejected."""
        raise NotImplementedError


class KeptMessage(Destination):
    """A message that an exchange keeps, and adds to the destinations. That of a durable exchange is stored.

    With `on_kept` the exchange keeps it when that is called with it: not if the message has to wait, or is refused for
    now, and will be routed again.
    """

    __slots__ = ("number", "message", "dropped", "_on_kept")

    def __init__(self, number: int, message: Message, on_kept: Callable[[KeptMessage], None] | None = None) -> None:
        super().__init__("")
        self._on_kept = on_kept
        self.number = number  # of the exchange in the journal, or 0
        self.message = message  # a copy of its own
        self.dropped = False  # whether the exchange has dropped it, which may be before it is stored

    def keep(self) -> None:
        """Have the exchange keep it."""
        if self._on_kept is not None:
            self._on_kept(self)
