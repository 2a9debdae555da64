"""A virtual host: its exchanges, queues and bindings, and the rules by which they come and go.

Permissions are not asked here, the session does that; nor is any argument that only the wire knows.
"""

from __future__ import annotations

from collections import deque

from ..errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from ..table import Table, same, type_name
from .arguments import check_queue_arguments, differing_queue_argument, inequivalent, inequivalent_argument, plain
from .backlog import Budget
from .binding import Binding, Destination
from .exchange import ALTERNATE, Exchange, binding_key
from .exchange_type import Notice
from .message import Message
from .ports import Journal, Observer
from .queue import Numbering, Queue, VolatileQueue
from .registry import Registry
from .router import Route, route

PREDECLARED = (  # name, type, internal (spec/core.md 5.1)
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
RESERVED = "amq."


class VHost:
    """`routes` are what sessions remember here: by user, then by the octets of a publish. Each change empties them."""

    def __init__(
        self,
        name: str,
        registry: Registry,
        pending: deque[Queue],
        journal: Journal,
        numbering: Numbering,
        budget: Budget,
        observers: list[Observer],
    ) -> None:
        self.name = name
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.volatile: dict[str, VolatileQueue] = {}
        self.routes: dict[str, dict[bytes, Route]] = {}
        self._registry = registry
        self._pending = pending
        self._journal = journal
        self._numbering = numbering
        self._budget = budget
        self._observers = observers
        for exchange, type_, internal in PREDECLARED:
            self._create_exchange(exchange, type_, True, False, internal, Table.EMPTY)

    def __str__(self) -> str:
        return f"vhost '{self.name}'"

    def changed(self) -> None:
        """Forget remembered routes: the topology, or somebody's permission, is another now."""
        for routes in self.routes.values():
            routes.clear()

    # Looking up

    def exchange(self, name: str) -> Exchange:
        """Raises NotFound (404)."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in {self}")
        return exchange

    def queue(self, name: str) -> Queue:
        """Raises NotFound (404)."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in {self}")
        return queue

    def owned_queue(self, name: str, owner: object) -> Queue:
        """A queue that is not another connection's; raises NotFound (404), ResourceLocked (405)."""
        queue = self.queue(name)
        self.check_owner(queue, owner, queue.owner is not None)
        return queue

    def check_owner(self, queue: Queue, owner: object, exclusive: bool) -> None:
        """Raises ResourceLocked (405) for another connection's queue, or one that was not declared so (6.1)."""
        if queue.owner is not None and queue.owner is not owner or exclusive != (queue.owner is not None):
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked {queue}. It could be originally declared on another "
                "connection or the exclusive property value does not match that of the original declaration."
            )

    def check_type(self, type_: str) -> None:
        """Raises PreconditionFailed (406) for an exchange type that is not known."""
        self._registry.find(type_)

    def route(
        self, exchange: Exchange, keys: tuple[str, ...], message: Message | None
    ) -> tuple[tuple[Queue, ...], bool]:
        """The queues for these keys, and whether the answer may be remembered until something changes (`router`)."""
        found, stable = route(exchange, self.exchanges, self.queues, keys, message)
        if self.volatile and exchange.name == "":
            found += tuple(self.volatile[key] for key in dict.fromkeys(keys) if key in self.volatile)
        return found, stable

    # Exchanges

    def declare_exchange(
        self, name: str, type_: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        """Create it or find it the same; raises AccessRefused (403), PreconditionFailed (406)."""
        self.check_type(type_)
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        exchange = self.exchanges.get(name)
        if exchange is not None:
            self._check_same_exchange(exchange, type_, durable, auto_delete, internal, arguments)
            return exchange
        if name.startswith(RESERVED):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        for key in ALTERNATE:
            value = arguments.get(key)
            if value is not None and value[0] != "S":
                raise PreconditionFailed(
                    f"invalid type '{type_name(value)}' for arg '{key}' in exchange '{name}' in {self}"
                )
        exchange = self._create_exchange(name, type_, durable, auto_delete, internal, arguments)
        self.changed()
        for observer in self._observers:
            observer.exchange_declared(exchange)
        return exchange

    def _create_exchange(
        self, name: str, type_: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        router = self._registry.create(type_, name, arguments)
        exchange = Exchange(self.name, name, router, type_, durable, auto_delete, internal, arguments)
        self.exchanges[name] = exchange
        return exchange

    def _check_same_exchange(
        self, exchange: Exchange, type_: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        compared: tuple[tuple[str, object, object], ...] = (
            ("type", type_, exchange.type_name),
            ("durable", durable, exchange.durable),
            ("auto_delete", auto_delete, exchange.auto_delete),
            ("internal", internal, exchange.internal),
        )
        for what, received, current in compared:
            if received != current:
                raise inequivalent(what, str(exchange), plain(received), plain(current))
        if not same(arguments.get(ALTERNATE[0]), exchange.arguments.get(ALTERNATE[0])):
            raise inequivalent_argument(ALTERNATE[0], str(exchange), arguments, exchange.arguments)

    def delete_exchange(self, name: str, if_unused: bool) -> None:
        """Missing is fine; raises AccessRefused (403), PreconditionFailed (406)."""
        if name == "":
            raise AccessRefused("operation not permitted on the default exchange")
        if name.startswith(RESERVED):
            raise AccessRefused(f"deletion of system exchange '{name}' in {self} not allowed")
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.outgoing:
            raise PreconditionFailed(f"{exchange} in use")
        self._drop_exchange(exchange)

    def _drop_exchange(self, exchange: Exchange) -> None:
        """With its bindings on both sides; auto-delete sources that lose their last binding go too (5.2, 5.3).

        They go one after the other, not one within the other: a client may make a chain of them as long as it likes.
        """
        doomed = [exchange]
        while doomed:
            exchange = doomed.pop()
            if self.exchanges.pop(exchange.name, None) is None:
                continue
            self.changed()
            for key, binding in list(exchange.outgoing.items()):
                incoming_of(binding.destination).pop(key, None)
                self._tell_unbound(binding)
            exchange.outgoing.clear()
            doomed += self._drop_incoming(exchange.incoming)
            for observer in self._observers:
                observer.exchange_deleted(exchange)

    # Queues

    def declare_queue(
        self, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table, owner: object
    ) -> Queue:
        """Create it or find it the same; raises AccessRefused (403), ResourceLocked (405), PreconditionFailed (406)."""
        queue = self.queues.get(name)
        if queue is not None:
            self.check_owner(queue, owner, exclusive)
            self._check_same_queue(queue, durable and not exclusive, auto_delete, arguments)
            return queue
        check_queue_arguments(arguments, f"queue '{name}' in {self}")
        queue = Queue(
            self.name,
            name,
            durable and not exclusive,
            self._numbering.take() if durable and not exclusive else 0,
            owner if exclusive else None,
            auto_delete,
            arguments,
            self._pending,
            self._journal,
            self._budget,
        )
        self.queues[name] = queue
        self.changed()
        for observer in self._observers:
            observer.queue_declared(queue)
        return queue

    def _check_same_queue(self, queue: Queue, durable: bool, auto_delete: bool, arguments: Table) -> None:
        for what, received, current in (
            ("durable", durable, queue.durable),
            ("auto_delete", auto_delete, queue.auto_delete),
        ):
            if received != current:
                raise inequivalent(what, str(queue), plain(received), plain(current))
        key = differing_queue_argument(arguments, queue.arguments)
        if key is not None:
            raise inequivalent_argument(key, str(queue), arguments, queue.arguments)

    def delete_queue(self, queue: Queue, if_unused: bool = False, if_empty: bool = False) -> int:
        """How many messages were ready; raises PreconditionFailed (406). Its consumers are told (spec/core.md 6.5)."""
        if if_empty and queue.ready:
            raise PreconditionFailed(f"{queue} not empty")
        if if_unused and len(queue.consumers):
            raise PreconditionFailed(f"{queue} in use")
        if queue.deleted:
            return 0
        if queue.number:
            self._journal.gone(queue.number)
        ready = queue.purge()
        queue.deleted = True
        self.queues.pop(queue.name, None)
        self.volatile.pop(queue.name, None)
        self.changed()
        for exchange in self._drop_incoming(queue.incoming):
            self._drop_exchange(exchange)
        for consumer in queue.consumers.all():
            queue.consumers.remove(consumer)
            consumer.cancelled()
        if not isinstance(queue, VolatileQueue):
            for observer in self._observers:
                observer.queue_deleted(queue)
        return ready

    def consumers_changed(self, queue: Queue) -> None:
        """A consumer came or went: an auto-delete queue goes with its last one (spec/core.md 6.3)."""
        if not isinstance(queue, VolatileQueue):
            for observer in self._observers:
                observer.consumers_changed(queue)
        if queue.auto_delete and queue.had_consumer and not len(queue.consumers):
            self.delete_queue(queue)

    def open_volatile(self, name: str) -> VolatileQueue:
        """The destination of a direct reply-to consumer."""
        queue = VolatileQueue(
            self.name, name, False, 0, None, True, Table.EMPTY, self._pending, self._journal, self._budget
        )
        self.volatile[name] = queue
        self.changed()
        return queue

    # Bindings

    def bind(self, source: str, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Bind once; raises NotFound (404), AccessRefused (403), PreconditionFailed (406)."""
        if source == "":
            raise AccessRefused("operation not permitted on the default exchange")
        exchange = self.exchange(source)
        key = binding_key(source, destination, routing_key, arguments)
        if key in exchange.outgoing:
            return
        exchange.type.check(routing_key, arguments)
        binding = Binding(source, destination, routing_key, arguments)
        exchange.outgoing[key] = binding
        incoming_of(destination)[key] = binding
        self.changed()
        self._deliver(exchange.type.bound(binding))
        for observer in self._observers:
            observer.bound(self.name, binding)

    def unbind(self, source: str, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Missing is fine (spec/core.md 7); raises AccessRefused (403) for the default exchange."""
        if source == "":
            raise AccessRefused("operation not permitted on the default exchange")
        exchange = self.exchanges.get(source)
        if exchange is None:
            return
        key = binding_key(source, destination, routing_key, arguments)
        binding = exchange.outgoing.pop(key, None)
        if binding is None:
            return
        incoming_of(destination).pop(key, None)
        if self._unbound(exchange, binding):
            self._drop_exchange(exchange)

    def _drop_incoming(self, incoming: dict[bytes, Binding]) -> list[Exchange]:
        """The end of these bindings; the exchanges that must go with them."""
        doomed = []
        for key, binding in list(incoming.items()):
            exchange = self.exchanges.get(binding.source)
            if exchange is None or exchange.outgoing.pop(key, None) is None:
                continue
            if self._unbound(exchange, binding):
                doomed.append(exchange)
        incoming.clear()
        return doomed

    def _unbound(self, exchange: Exchange, binding: Binding) -> bool:
        """A binding is gone; whether its source must go with it, having been its last (spec/core.md 5.3)."""
        self.changed()
        self._deliver(exchange.type.unbound(binding))
        self._tell_unbound(binding)
        return exchange.auto_delete and not exchange.outgoing

    def _tell_unbound(self, binding: Binding) -> None:
        for observer in self._observers:
            observer.unbound(self.name, binding)

    # Messages

    def enqueue(self, messages: list[Message], body_bytes: int, persistent: bool, queues: tuple[Queue, ...]) -> bool:
        """Store messages once for all their durable queues, and give them to all of them; whether any is to be stored.

        `body_bytes` is the sum of their bodies; `persistent` says whether any of them is. HOT: bench A-M.
        """
        numbers = [queue.number for queue in queues if queue.number] if persistent else []
        if numbers:
            if any(message.id for message in messages):
                messages = [message.again() for message in messages]  # each copy has a life of its own in the journal
            self._journal.append(numbers, [message for message in messages if message.persistent])
        for queue in queues:
            queue.push(messages, body_bytes)
        return bool(numbers)

    def _deliver(self, notices: list[Notice]) -> None:
        for notice in notices:
            destination, message = notice.destination, notice.message
            queues: tuple[Queue, ...] = ()
            if isinstance(destination, Exchange):
                queues = self.route(destination, (message.address.routing_key,), message)[0]
            elif isinstance(destination, Queue) and not destination.deleted:
                queues = (destination,)
            self.enqueue([message], message.body_bytes, message.persistent, queues)


def incoming_of(destination: Destination) -> dict[bytes, Binding]:
    assert isinstance(destination, (Queue, Exchange))
    return destination.incoming
