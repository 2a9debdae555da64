"""A virtual host: exchanges, queues and bindings, and the rules for declaring and deleting them.

Permissions are checked by callers, in the session.
"""

from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import cast

from ...amqp.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from ...amqp.field_table import Table
from ...amqp.limits import RESERVED
from ..exchanges.built_in import decorate
from ..exchanges.exchange import Exchange, binding_key, check_exchange_arguments
from ..exchanges.exchange_context import Emission
from ..exchanges.exchange_type import ExchangeType
from ..exchanges.route_cache import RouteCache
from ..exchanges.router import Search
from ..jobs.long_routes import TARGET_BYTES
from ..jobs.scheduler import OBJECT_COST, SLICE, Job, do_at_once
from ..messages.binding import Binding, Destination
from ..messages.journal_port import ROOM
from ..messages.message import Message
from ..metadata.records import StoredVHost
from ..metadata.validation import check_not_default, check_prefix
from ..queues.arguments import (
    check_queue_arguments,
    check_queue_type,
    check_same_flags,
    differing_queue_argument,
    inequivalent_argument,
    with_queue_type,
)
from ..queues.consumers import Consumer
from ..queues.flow_control import Publisher
from ..queues.queue import Queue
from ..queues.queue_host import HostedQueue
from ..queues.reply_queue import ReplyQueue
from ..queues.route_target import PAGE_COST
from ..queues.traffic_log import DELETED
from .emissions import EmissionHost, EmissionQueue, enqueue
from .exchange_host import ExchangeHost
from .node_services import NodeServices
from .tracer import Tracer, Tracers

PREDECLARED = (  # name, type, internal
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
EVENT = "amq.rabbitmq.event"  # a topic exchange of the default virtual host
BINDING_COST = 6  # cost of deleting one binding (`jobs.scheduler`)
FREED_SHIFT = 2  # to free 4 arguments of a binding, or values of a cache, costs 1
ARGUMENTS_SHIFT = 3  # an observer of a deleted binding decodes and encodes 8 bytes of its arguments in a microsecond
EMISSION_COST = 12  # of the emission of an exchange type for it, until it is enqueued
BINDINGS = 100  # bindings deleted in one step
STEP_COST = BINDING_COST * BINDINGS
CANCEL_COST = 1_000  # of the consumers that are cancelled in one step
AT_ONCE_COST = 2 * STEP_COST  # of objects that are deleted together with a queue or exchange; the rest is a job
CheckNew = Callable[[int, bool], None]
"""A function of the bytes of a new object's arguments, and whether it is stored.

It is called before the object is created, once nothing else refuses it, and may raise NotNow.
"""


def allow_new(size: int, stored: bool) -> None: ...


class VHost(EmissionHost):
    """A virtual host: exchanges, queues, bindings, and the routes cached for publishers.

    exchanges       by name
    queues          by name
    reply_queues    the queues of direct reply-to, by name
    routes          cached routes by user and RouteKey, cleared by each change of topology or permissions
    firehose        the firehose while tracing is switched on, or None
    tracer          receives all messages: the firehose and live traces, or None
    unbinding_jobs  jobs that delete the many bindings of a deleted queue or exchange, and auto-delete exchanges that
                    lose their last binding, by its kind and name
    """

    def __init__(self, name: str, services: NodeServices, system_exchanges: Iterable[str] = ()) -> None:
        """`system_exchanges` are topic exchanges that are predeclared in this virtual host only."""
        super().__init__(name, services.clock, services.journal, services.ledger, services.scheduler)
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.reply_queues: dict[str, ReplyQueue] = {}
        self.routes: dict[str, RouteCache] = {}
        self.firehose: Tracer | None = None
        self.tracer: Tracer | None = None
        self._tracers: list[Tracer] = []
        self.unbinding_jobs: dict[tuple[str, str], Job] = {}
        self._unbound_calls: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self._registry = services.registry
        self._numbering = services.numbering
        self._observers = services.observers
        self._policies = services.policies
        self._limits = services.limits
        self._replication = services.replication
        self.metadata = StoredVHost(name)
        for exchange, type_, internal in (*PREDECLARED, *[(name, "topic", True) for name in system_exchanges]):
            router = decorate(self._registry.create(type_, exchange, Table.EMPTY))
            self._add_exchange(Exchange(name, exchange, router, type_, durable=True, internal=internal))

    def __str__(self) -> str:
        return f"vhost '{self.name}'"

    def routes_of(self, account: str) -> RouteCache:
        """Return the route cache that all channels of a user share. Its routes have passed permission checks."""
        routes = self.routes.get(account)
        if routes is None:
            routes = self.routes[account] = RouteCache(self.ledger.addresses)
        return routes

    def clear_route_cache(self) -> None:
        """Drop all cached routes, after a change of topology or permissions."""
        self.topology += 1
        self.waiting.on_changed()
        for routes in self.routes.values():
            routes.clear()

    def add_tracer(self, tracer: Tracer) -> None:
        """Report all messages to this tracer as well."""
        self._set_tracers([*self._tracers, tracer])

    def remove_tracer(self, tracer: Tracer) -> None:
        """Report no more messages to this tracer."""
        self._set_tracers([one for one in self._tracers if one is not tracer])

    def _set_tracers(self, tracers: list[Tracer]) -> None:
        self._tracers = tracers
        self.tracer = Tracers(tracers) if len(tracers) > 1 else tracers[0] if tracers else None
        self.clear_route_cache()  # cached routes depend on whether each message is read

    # Looking up

    def exchange(self, name: str) -> Exchange:
        """Return the exchange with this name. Raises NotFound (404)."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in {self}")
        return exchange

    def queue(self, name: str) -> Queue:
        """Return the queue with this name. Raises NotFound (404)."""
        queue = self.find_queue(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in {self}")
        return queue

    def find_queue(self, name: str) -> Queue | None:
        """Return the queue with this name, or None.

        A queue whose exclusive owner has closed is deleted now, as is an auto-delete queue whose consumers have ended.
        """
        queue = self.queues.get(name)
        if queue is None:
            return None
        if isinstance(queue.owner, Publisher) and queue.owner.ended or queue.auto_delete and queue.consumers.all_ended:
            self.delete_queue(queue)
        return None if queue.deleted else queue

    def owned_queue(self, name: str, owner: object) -> Queue:
        """Return the queue, if it is not exclusive to another owner. Raises NotFound (404), ResourceLocked (405)."""
        queue = self.queue(name)
        self.check_owner(queue, owner, queue.owner is not None)
        return queue

    def check_owner(self, queue: Queue, owner: object, exclusive: bool) -> None:
        """Raise ResourceLocked (405) if the queue is exclusive to another owner, or its exclusive flag differs."""
        if queue.owner is not None and queue.owner is not owner or exclusive != (queue.owner is not None):
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked {queue}. It could be originally declared on another "
                "connection or the exclusive property value does not match that of the original declaration."
            )

    def check_type(self, type_: str) -> None:
        """Raise PreconditionFailed (406) for an unknown exchange type."""
        self._registry.find(type_)

    def search(
        self,
        exchange: Exchange,
        keys: tuple[str, ...],
        message: Message | None,
        peeks: bool = False,
        defers: bool = False,
        first: ExchangeType | None = None,
        published: bool = False,
    ) -> Search:
        queues: Mapping[str, Queue] = self.queues
        if self.reply_queues and exchange.name == "":
            queues = ChainMap[str, Queue](self.queues, cast("dict[str, Queue]", self.reply_queues))
        some_deleted = bool(self.unbinding_jobs)
        exchanges, journal = self.exchanges, self.journal
        return Search(
            exchange, exchanges, queues, keys, message, journal, some_deleted, peeks, defers, first, published
        )

    # Exchanges

    def declare_exchange(
        self,
        name: str,
        type_: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table = Table.EMPTY,
        number: int | None = None,
        user: str = "",
        check_new: CheckNew = allow_new,
    ) -> Exchange:
        """Create the exchange, or return the existing one if it is equivalent.

        `number` restores an exchange: its id in the journal, or 0 if it stores no messages. `user` declares it. Raises
        AccessRefused (403), PreconditionFailed (406).
        """
        self.check_type(type_)
        check_not_default(name)
        exchange = self.exchanges.get(name)
        if exchange is not None:
            exchange.check_same(type_, arguments, durable=durable, auto_delete=auto_delete, internal=internal)
            return exchange
        check_prefix("exchange", name)
        check_exchange_arguments(arguments, f"exchange '{name}' in {self}")
        self._limits.check_exchange(self.name, name)
        self._finish_unbinding(Exchange.kind, name)
        router = decorate(self._registry.create(type_, name, arguments))
        check_new(len(arguments.raw), durable)
        flags = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
        exchange = Exchange(self.name, name, router, type_, **flags, arguments=arguments)
        self._add_exchange(exchange, number)
        exchange.declared_by = user
        self._policies.apply(exchange)
        self.clear_route_cache()
        for observer in self._observers:
            observer.exchange_declared(exchange)
        return exchange

    def _add_exchange(self, exchange: Exchange, number: int | None = None) -> None:
        if exchange.durable and exchange.type.persists_messages:
            exchange.number = self._numbering.take() if number is None else number
        exchange.type.on_created(ExchangeHost(self, exchange))
        self.exchanges[exchange.name] = exchange

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete the exchange, if it exists. Raises AccessRefused (403), PreconditionFailed (406) if it is in use."""
        check_not_default(name)
        if name.startswith(RESERVED):
            raise AccessRefused(f"deletion of system exchange '{name}' in {self} not allowed")
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.outgoing:
            raise PreconditionFailed(f"{exchange} in use")
        self._drop_exchange(exchange)

    def _drop_exchange(self, exchange: Exchange) -> None:
        """Delete an exchange that exists and its bindings, and what `_delete_rest` deletes."""
        unused: deque[Exchange] = deque()
        steps = self._remove_exchange(exchange, unused)
        limit = self._at_once_cost(exchange)
        _, cost = do_at_once(steps, limit - 1) if limit else (True, 0)
        for observer in self._observers:
            observer.exchange_deleted(exchange)
        self._delete_rest(exchange, steps, unused, cost)

    def _remove_exchange(self, exchange: Exchange, unused: deque[Exchange]) -> Job:
        """Remove an exchange, and return the job that deletes its bindings (`_unbind_in_steps`)."""
        del self.exchanges[exchange.name]
        self.clear_route_cache()
        if exchange.number:
            self.journal.queue_deleted(exchange.number)
        exchange.type.on_deleted()
        return self._unbind_in_steps(exchange, unused)

    def _delete_rest(self, target: Queue | Exchange, steps: Job, unused: deque[Exchange], cost: int = 0) -> None:
        """Delete the bindings of a deleted queue or exchange, and auto-delete exchanges that lose their last binding.

        The first ones are deleted at once, unless `steps` had that `cost` already; the rest in a job.
        """
        key = target.kind, target.name
        limit = self._at_once_cost(target)
        job = self.unbinding_jobs[key] = self._delete_in_steps(key, steps, unused)
        more, spent = do_at_once(job, limit - cost - 1) if cost < limit else (True, 0)
        self.scheduler.charge(cost + spent)
        if more:
            # Emissions of its exchange, which the job advances, append messages. A deletion that does not must go on
            # while the disk is full.
            self.scheduler.start(f"bindings of {target}", job, appends=target in self.emitting)

    def _at_once_cost(self, target: Queue | Exchange) -> int:
        """Return the cost of the objects that are deleted at once together with a queue or exchange.

        After very many deletions in this turn it is what a few short bindings cost, or 0.
        """
        if self.scheduler.has_time:
            return AT_ONCE_COST
        outgoing = target.outgoing if isinstance(target, Exchange) else {}
        bindings = list(islice(chain(target.incoming.values(), outgoing.values()), OBJECT_COST // BINDING_COST))
        return 1 if 0 < sum([unbinding_cost(binding) for binding in bindings]) < OBJECT_COST - BINDING_COST else 0

    def _delete_in_steps(self, key: tuple[str, str], steps: Job, unused: deque[Exchange]) -> Job:
        """The job of `_delete_rest`. A loop in place of recursion: clients can build chains of any length."""
        job, keys = self.unbinding_jobs[key], [key]
        try:
            yield from steps
            while unused:
                exchange = unused.popleft()
                if not self.has(exchange) or exchange.outgoing:
                    continue  # it has been deleted, or bound again
                keys.append((exchange.kind, exchange.name))
                self.unbinding_jobs[keys[-1]] = job
                yield from self._remove_exchange(exchange, unused)
                for observer in self._observers:
                    observer.exchange_deleted(exchange)
                self._unbound_all(keys.pop())
                yield OBJECT_COST
        finally:  # nobody waits for a job that has failed
            while keys:
                self._unbound_all(keys.pop())

    def _unbind_in_steps(self, target: Queue | Exchange, unused: deque[Exchange]) -> Job:
        """Delete the bindings of a deleted queue or exchange.

        Auto-delete exchanges that lose their last binding are added to `unused`.
        """
        if isinstance(target, Exchange):
            yield from self._drop_outgoing(target)
            while (emissions := self.emitting.get(target)) is not None:
                yield emissions.advance()  # they may be in what the type releases
            cost = 0
            for values in target.type.release():
                cost += BINDING_COST + (values >> FREED_SHIFT)
                if cost >= STEP_COST:
                    yield cost
                    cost = 0
        yield from self._drop_incoming(incoming_of(target), unused)

    def _drop_outgoing(self, exchange: Exchange) -> Job:
        """Delete the bindings whose source is this deleted exchange."""
        cost = 0
        for key in list(exchange.outgoing):
            binding = exchange.outgoing.pop(key)
            incoming_of(binding.destination).pop(key, None)
            for observer in self._observers:
                observer.binding_removed(self.name, binding)
            cost += unbinding_cost(binding)
            if cost >= STEP_COST:
                yield cost
                cost = 0
        yield cost

    def _unbound_all(self, key: tuple[str, str]) -> None:
        self.unbinding_jobs.pop(key, None)
        self.clear_route_cache()
        for call in self._unbound_calls.pop(key, ()):
            call()

    def when_unbound(self, kind: str, name: str, call: Callable[[], None]) -> None:
        """Call `call` once all bindings are deleted of the object of this name in `unbinding_jobs`."""
        self._unbound_calls.setdefault((kind, name), []).append(call)

    def _finish_unbinding(self, kind: str, name: str) -> None:
        """Finish deleting the bindings of a deleted object of this name, as observers know bindings by names."""
        job = self.unbinding_jobs.get((kind, name))
        if job is not None:
            self.scheduler.finish(job)

    # Queues

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table = Table.EMPTY,
        owner: object = None,
        number: int = 0,
        as_is: bool = False,
        check_new: CheckNew = allow_new,
    ) -> Queue:
        """Create the queue, or return the existing one if it is equivalent.

        `number` restores a queue: its id in the journal. A restored queue, and one that is declared `as_is`, gets no
        default type, is exempt from limits and needs no replication. Raises AccessRefused (403), ResourceLocked (405),
        PreconditionFailed (406).
        """
        as_is = as_is or number > 0
        if not as_is and durable and not exclusive and not auto_delete:
            arguments = with_queue_type(arguments, self.metadata.default_queue_type)
        queue = self.find_queue(name)
        if queue is not None:
            self.check_owner(queue, owner, exclusive)
            self._check_same_queue(queue, durable and not exclusive, auto_delete, arguments)
            queue.renew_expiry()
            return queue
        where = f"queue '{name}' in {self}"
        check_queue_arguments(arguments, where)
        check_queue_type(arguments, where, durable=durable, exclusive=exclusive, auto_delete=auto_delete)
        if not as_is:
            self._replication.check(arguments, where)
            self._limits.check_queue(self.name, len(self.queues), name)
            self._policies.check_queue_name(self.name, name)
        check_new(len(arguments.raw), durable and not exclusive)
        self._finish_unbinding(Queue.kind, name)
        if durable and not exclusive:
            number = number or self._numbering.take()
        owner = owner if exclusive else None
        queue = Queue(self, name, number=number, owner=owner, auto_delete=auto_delete, arguments=arguments)
        self.queues[name] = queue
        self._policies.apply(queue)
        self.clear_route_cache()
        for observer in self._observers:
            observer.queue_declared(queue)
        return queue

    def _check_same_queue(self, queue: Queue, durable: bool, auto_delete: bool, arguments: Table) -> None:
        flags = (("durable", durable, queue.durable), ("auto_delete", auto_delete, queue.auto_delete))
        check_same_flags(str(queue), flags)
        key = differing_queue_argument(arguments, queue.arguments)
        if key is not None:
            raise inequivalent_argument(key, str(queue), arguments, queue.arguments)

    def delete_queue(self, queue: Queue, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete the queue and cancel its consumers. Return the number of ready messages.

        Raises PreconditionFailed (406) with `if_unused` if it is in use, with `if_empty` if it is not empty.
        """
        queue.catch_up()
        if if_empty and queue.stored:
            raise PreconditionFailed(f"{queue} not empty")
        if if_unused and len(queue.consumers) and not queue.consumers.all_ended:
            raise PreconditionFailed(f"{queue} in use")
        if queue.deleted:
            return 0
        queue.journal.forget()
        ready = queue.purge(DELETED)
        queue.on_deleted()
        self.queues.pop(queue.name, None)
        self.reply_queues.pop(queue.name, None)
        if isinstance(queue.owner, Publisher):
            queue.owner.disowned(queue)
        if isinstance(queue, ReplyQueue):
            queue.forget_routes()
        else:
            self.clear_route_cache()
        if queue.incoming:
            unused: deque[Exchange] = deque()
            self._delete_rest(queue, self._unbind_in_steps(queue, unused), unused)
        self._cancel(queue)
        if queue.deduplication is not None:
            freed = queue.deduplication.release()
            self.scheduler.start(f"duplicates of {queue}", (values >> FREED_SHIFT for values in freed))
        if not queue.internal:
            for observer in self._observers:
                observer.queue_deleted(queue)
        queue.break_cycles()
        return ready

    def _cancel(self, queue: Queue) -> None:
        """Cancel the consumers of a deleted queue: the first ones at once, the rest in a job."""
        consumers = queue.consumers.remove_all()
        consumers.reverse()
        steps = cancel_in_steps(consumers)
        next(steps, None)
        if consumers:
            self.scheduler.start(f"consumers of {queue}", steps)

    def consumers_changed(self, queue: Queue) -> None:
        """Notify observers of an added or removed consumer. An auto-delete queue is deleted with its last one."""
        if not queue.internal:
            for observer in self._observers:
                observer.consumers_changed(queue)
        if queue.auto_delete and queue.had_consumer and not len(queue.consumers):
            self.delete_queue(queue)

    def open_reply_queue(self, name: str) -> ReplyQueue:
        """Create the reply queue of a direct reply-to consumer. No route is cached for its name, which is random."""
        queue = ReplyQueue(self, name, auto_delete=True)
        self.reply_queues[name] = queue
        return queue

    def has(self, target: Destination) -> bool:
        there: Mapping[str, Destination] = self.queues if isinstance(target, Queue) else self.exchanges
        return there.get(target.name) is target

    def drop_all(self) -> Job:
        """Delete all queues and exchanges of a deleted virtual host, predeclared ones too."""
        self.dropped = True
        queues = [*self.queues.values(), *self.reply_queues.values()]
        queues.reverse()
        while queues:  # each is freed in its step, not all of them with the list
            self.delete_queue(queues.pop())
            yield OBJECT_COST
        exchanges = list(self.exchanges.values())
        exchanges.reverse()
        while exchanges:
            exchange = exchanges.pop()
            if self.has(exchange):
                self._drop_exchange(exchange)
            yield OBJECT_COST
        while self.unbinding_jobs:
            yield from next(iter(self.unbinding_jobs.values()))

    # Bindings

    def bind(
        self, source: str, destination: Destination, routing_key: str, arguments: Table, check_new: CheckNew = allow_new
    ) -> None:
        """Create the binding, unless it exists.

        Raises NotFound (404), AccessRefused (403), PreconditionFailed (406).
        """
        check_not_default(source)
        if (bound := self._add_binding(source, destination, routing_key, arguments, check_new)) is not None:
            binding, emissions = bound
            self.emit(self.exchanges[source], emissions)
            for observer in self._observers:
                observer.binding_added(self.name, binding)

    def restore_binding(self, source: str, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Add a stored binding at the start: emissions are discarded and observers not notified. Raises AMQPError."""
        self._add_binding(source, destination, routing_key, arguments)

    def _add_binding(
        self, source: str, destination: Destination, routing_key: str, arguments: Table, check_new: CheckNew = allow_new
    ) -> tuple[Binding, Iterable[Emission]] | None:
        """Return the new binding and the emissions of the exchange type, or None if the binding exists already."""
        exchange = self.exchange(source)
        key = binding_key(source, destination, routing_key, arguments)
        if key in exchange.outgoing:
            return None
        exchange.type.validate_binding(routing_key, arguments, destination_type(destination))
        check_new(len(arguments.raw), exchange.durable and is_durable(destination))
        binding = Binding(source, destination, routing_key, arguments)
        exchange.outgoing[key] = binding
        incoming_of(destination)[key] = binding
        self.clear_route_cache()
        return binding, exchange.type.on_bind(binding)

    def has_binding(self, source: str, kind: str, name: str, routing_key: str, arguments: Table) -> bool:
        """Return whether a queue or an exchange (`kind`) of this name is bound to the source like this."""
        exchange = self.exchanges.get(source)
        destination: Destination | None = self.queues.get(name) if kind == Queue.kind else self.exchanges.get(name)
        if exchange is None or destination is None:
            return False
        return binding_key(source, destination, routing_key, arguments) in exchange.outgoing

    def unbind(self, source: str, destination: Destination, routing_key: str, arguments: Table) -> None:
        """Delete the binding, if it exists. Raises AccessRefused (403) for the default exchange."""
        check_not_default(source)
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

    def _drop_incoming(self, incoming: dict[bytes, Binding], unused: deque[Exchange]) -> Job:
        """Delete these bindings; auto-delete exchanges that lose their last binding are added to `unused`."""
        cost = 0
        for key in list(incoming):
            binding = incoming.pop(key, None)
            exchange = self.exchanges.get(binding.source) if binding is not None else None
            if binding is None or exchange is None or exchange.outgoing.pop(key, None) is None:
                continue
            if self._unbound(exchange, binding):
                unused.append(exchange)
            cost += unbinding_cost(binding)
            emissions = self.emitting.get(exchange)
            if emissions is not None:
                cost += EMISSION_COST
                while emissions.full:
                    yield emissions.advance()
            if cost >= STEP_COST:
                yield cost
                cost = 0
        yield cost

    def _unbound(self, exchange: Exchange, binding: Binding) -> bool:
        """Notify observers of a deleted binding. Return whether its auto-delete source has no binding left."""
        self.clear_route_cache()
        self.emit(exchange, exchange.type.on_unbind(binding))
        for observer in self._observers:
            observer.binding_removed(self.name, binding)
        return exchange.auto_delete and not exchange.outgoing

    def publish(self, exchange: Exchange, message: Message) -> bool:
        """Route and enqueue a message of the broker itself at once; in slices if there are many queues, or no room.

        Return False if it is dropped, as too many of the exchange wait.
        """
        emissions = self.emitting.get(exchange)
        if emissions is None and self.journal.room() == ROOM:
            search = self.search(exchange, (message.address.routing_key,), message, defers=True)
            if search.run(SLICE) and PAGE_COST * len(search.targets) <= SLICE:
                search.keep()
                enqueue(self, search.targets, [message], recorders=search.recorders)
                return True
        elif emissions is not None and emissions.full:
            return False
        self.emit(exchange, [Emission([exchange], [message])], len(message.frames))
        return True

    def emissions_of(self, exchange: str) -> EmissionQueue | None:
        """Return the emissions of the exchange that wait to be enqueued, or None."""
        found = self.exchanges.get(exchange)
        return self.emitting.get(found) if found is not None else None

    # For dead letters and expiry of queues (`QueueHost`)

    def has_exchange(self, name: str) -> bool:
        return name in self.exchanges

    @property
    def route_bytes(self) -> int:
        return TARGET_BYTES * (len(self.queues) + len(self.reply_queues) + len(self.exchanges))

    def search_from(self, exchange: str, keys: tuple[str, ...], message: Message) -> Search:
        return self.search(self.exchanges[exchange], keys, message, defers=True)

    def delete_expired(self, queue: HostedQueue) -> None:
        self.delete_queue(cast("Queue", queue))


def cancel_in_steps(consumers: list[Consumer]) -> Job:
    """Notify consumers of their cancellation, from the end of the list."""
    while consumers:
        cost = 0
        while consumers and cost < CANCEL_COST:
            consumer = consumers.pop()
            cost += consumer.end_cost
            consumer.cancelled()
        yield cost


def incoming_of(destination: Destination) -> dict[bytes, Binding]:
    assert isinstance(destination, (Queue, Exchange))
    return destination.incoming


def is_durable(destination: Destination) -> bool:
    assert isinstance(destination, (Queue, Exchange))
    return destination.durable


def destination_type(destination: Destination) -> str:
    """Return the type of a destination, for exchange types: "exchange", or the type of the queue."""
    return destination.settings.type if isinstance(destination, Queue) else destination.kind


def unbinding_cost(binding: Binding) -> int:
    """Return the cost of deleting a binding (`jobs.scheduler`)."""
    return BINDING_COST + (len(binding.arguments.raw) >> ARGUMENTS_SHIFT)
