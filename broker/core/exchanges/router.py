"""Routing: the queues that a message reaches from an exchange, through other exchanges and alternate exchanges."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from ...amqp.field_table import FIELDS_SHIFT
from ...amqp.properties import HEADERS
from ..jobs.scheduler import STORE_SHIFT, UNLIMITED
from ..messages.binding import Destination
from ..messages.journal_port import Journal
from ..messages.message import LONG_HEADER, Message, RoutingAddress
from ..queues.deduplication import DeduplicationRecorder, Recorders, find_duplicate
from ..queues.queue import Queue
from ..queues.route_target import PAGE_COST, PER_MESSAGE_COST, SHARED, RouteTarget, Targets, records_of
from .exchange import Exchange
from .exchange_type import DESTINATIONS_SHIFT, ExchangeType, KeptMessage

EXCHANGE_COST = 3  # of an exchange on the way (`jobs.scheduler`)
DESTINATIONS = 512  # that are followed in one step
SEARCH_COST = 500  # of one step of a search, about

ENQUEUE_COST = 3_000  # of the messages that are enqueued in one step
FEW = ENQUEUE_COST // PAGE_COST  # queues in which any message may be enqueued in one step
MANY = 10_000  # queues that a route does not look at one by one; each part of them counts what it reads
RUN = 128  # messages that are enqueued together in very many queues, in steps
SHORT_HEADER_COST = LONG_HEADER >> FIELDS_SHIFT  # of a header that is not long, for a target that reads it
LONG_BYTES = 1 << 20  # of messages for several queues, of all their records: they are enqueued in steps

RouteKey = bytes | tuple[str, str]
"""The key of a cached route: the payload of basic.publish, or exchange and routing key of an internal publisher."""


NOTHING = Message(RoutingAddress("", ""), b"", 0, 0, 0, False)  # for types that route by key only


class Search:
    """The search for the queues that a message reaches, each once, in steps. The topology may change between two steps.

    targets    the queues and sinks, once `run` has returned True
    recorders  of the exchanges on the way: the caller that enqueues the message passes it to `record` afterwards
    stable     whether the targets may be cached until a binding changes: every exchange on the way routes by key only
    markers    without a message: names of headers that affect the route
    cost       of the steps so far (`jobs.scheduler`)
    stored     the message is in the journal, for exchanges on the way that keep it

    A search that `peeks` is for the targets alone: no exchange counts or keeps the message. One that `defers` leaves it
    to the caller to have it kept (`keep`): the message may have to wait, or be refused for now, and be searched for
    again. With a `first` type, this routes in place of the type of the exchange, which has it inside. Only what a
    client has `published` is relayed (`ExchangeType.relays`).

    Without a message there are no targets unless they are stable. The default exchange ("") routes to the queue named
    by each key. An alternate exchange gets the messages that its exchange cannot route. With `some_deleted`, and in
    later steps, deleted destinations are skipped. What exchanges on the way keep is stored in the journal at the end.
    """

    __slots__ = (
        *("targets", "recorders", "stable", "markers", "cost", "stored", "_kept", "_defers"),
        *("_exchange", "_exchanges", "_queues", "_keys", "_message", "_journal", "_some_deleted", "_peeks", "_first"),
        *("_published", "_steps"),
    )

    def __init__(
        self,
        exchange: Exchange,
        exchanges: Mapping[str, Exchange],
        queues: Mapping[str, Queue],
        keys: tuple[str, ...],
        message: Message | None,
        journal: Journal,
        some_deleted: bool = False,
        peeks: bool = False,
        defers: bool = False,
        first: ExchangeType | None = None,
        published: bool = False,
    ) -> None:
        self.targets: Targets = ()
        self.recorders: Recorders = ()
        self.stable = True
        self.markers: set[bytes] = set()
        self.cost = 0
        self.stored = False
        self._kept: list[KeptMessage] = []
        self._exchange = exchange
        self._exchanges = exchanges
        self._queues = queues
        self._keys = keys if len(keys) == 1 else tuple(dict.fromkeys(keys))
        self._message = message
        self._journal = journal
        self._some_deleted = some_deleted
        self._peeks = peeks
        self._defers = defers
        self._first = first
        self._published = published
        self._steps = self._search()

    def run(self, limit: int = UNLIMITED) -> bool:
        """Search, and stop where that has cost `limit`; return whether the search is complete."""
        end = self.cost + limit
        for cost in self._steps:
            self.cost += cost
            if self.cost >= end:
                self._some_deleted = True
                return False
        self.stop()
        return True

    def stop(self) -> None:
        """Search no further, and free all results but the targets, which a cycle of references would keep."""
        self._steps = iter(())

    def in_steps(self) -> Iterator[int]:
        """Search to the end, in steps; yield the cost of each."""
        complete = False
        while not complete:
            before = self.cost
            complete = self.run(SEARCH_COST)
            yield self.cost - before

    def keep(self) -> int:
        """Have exchanges on the way keep the message; return the cost."""
        if not self._kept:
            return 0
        kept, self._kept = self._kept, []
        for one in kept if self._defers else ():
            one.keep()
        cost = store_kept(self._journal, kept)
        self.stored = self.stored or cost > 0
        return cost

    def _search(self) -> Iterator[int]:
        exchanges, queues, keys, message = self._exchanges, self._queues, self._keys, self._message
        found: dict[RouteTarget, None] = {}
        recorders: list[DeduplicationRecorder] = []
        seen = {self._exchange.name}
        work = deque((self._exchange,))
        while work:
            current = work.popleft()
            if self._some_deleted and not exists(current, exchanges):
                continue
            if current.name == "":
                found.update([(queues[key], None) for key in keys if key in queues])
                yield len(keys)
                continue
            type_ = current.type
            if self._first is not None and current is self._exchange:
                type_ = self._first
            if message is None and type_.routes_by_key_unless_header:
                self.markers.add(type_.routes_by_key_unless_header)
            elif not type_.routes_by_key_only:
                self.stable = False
                if message is None:
                    return
            destinations: dict[Destination, None] = {}
            if self._published or not type_.relays:
                search = type_.peek if self._peeks else type_.search
                yield from search(keys, message or NOTHING, destinations)
            routed = False
            for count, destination in enumerate(destinations, 1):
                if not count % DESTINATIONS:
                    yield DESTINATIONS >> DESTINATIONS_SHIFT
                if isinstance(destination, RouteTarget):
                    if not self._some_deleted or not destination.deleted:
                        routed = True
                        found[destination] = None
                elif isinstance(destination, Exchange):
                    if not self._some_deleted or exists(destination, exchanges):
                        routed = True
                        if destination.name not in seen:
                            seen.add(destination.name)
                            work.append(destination)
                elif isinstance(destination, KeptMessage):
                    if not self._peeks:
                        self._kept.append(destination)
                        if not self._defers:
                            destination.keep()  # now: destinations that are bound between two steps get it by that
                elif isinstance(destination, DeduplicationRecorder):
                    recorders.append(destination)
            alternate = current.alternate if not routed else None
            if alternate is not None and alternate not in seen and alternate in exchanges:
                seen.add(alternate)
                work.append(exchanges[alternate])
            yield EXCHANGE_COST
        if self._kept and not self._defers:
            yield self.keep()
        targets = [one for one in found if not one.deleted] if self._some_deleted else found
        self.targets, self.recorders = tuple(targets), tuple(recorders)
        if recorders and self._some_deleted and (yield from find_duplicate(recorders, message or NOTHING)):
            self._peeks = True  # what has been kept
            yield from self._search()


class Route:
    """The cached route of all publishes with one address, valid until the topology changes.

    targets        the queues; None if each message must be routed by itself, or while the `search` is unfinished
    queues         the same, if messages may be enqueued at all of them in one step; otherwise None
    cost           of enqueueing one message in one step (`jobs.scheduler`); 1 if it is enqueued in steps
    at_once        the number of messages that may be enqueued in one step, or together in steps
    long_bytes     the sum of their bodies and long headers above which they are enqueued in steps
    reads_headers  some targets, unless they are very many, read the headers of each message
    read_bytes     the sum of their long headers above which they are enqueued in steps for these targets

    A message whose properties contain any of the `markers` must be routed by itself, too. `direct` messages came from
    a queue of the same name elsewhere: they go to the `targets` whatever their CC.
    """

    __slots__ = (
        *("address", "exchange", "targets", "queues", "mandatory", "markers", "direct", "cost", "at_once"),
        *("long_bytes", "reads_headers", "read_bytes"),
        *("search", "key"),
    )

    def __init__(
        self,
        address: RoutingAddress,
        exchange: Exchange,
        targets: Targets | None,
        mandatory: bool,
        markers: frozenset[bytes],
        direct: bool = False,
        search: Search | None = None,
    ) -> None:
        self.address = address
        self.exchange = exchange
        self.mandatory = mandatory
        self.markers = markers
        self.direct = direct
        self.search = search
        self.key: RouteKey | None = None  # in the cache, while the search is unfinished
        self._set_targets(targets)

    def _set_targets(self, targets: Targets | None) -> None:
        self.targets = self.queues = targets
        self.cost = 1
        self.at_once = self.long_bytes = self.read_bytes = UNLIMITED
        self.reads_headers = False
        if targets is not None and len(targets) > MANY:
            self.queues = None
            self.at_once = RUN
            return
        readers = len([target for target in targets or () if target.reads_headers])
        self.reads_headers = readers > 0
        if readers:
            self.read_bytes = (ENQUEUE_COST << FIELDS_SHIFT) // readers
            self.cost = PER_MESSAGE_COST + SHORT_HEADER_COST
            self.at_once = ENQUEUE_COST // self.cost
        if targets is not None and len(targets) > 1:
            per_message = any(target.per_message for target in targets)
            cost = len(targets) * (PER_MESSAGE_COST if per_message else 1) + readers * SHORT_HEADER_COST
            if cost > FEW:
                self.queues = None
                self.cost = 1
                self.at_once = RUN
            else:
                self.cost = cost
                self.long_bytes = LONG_BYTES // records_of(targets, True) if per_message else LONG_BYTES
                self.at_once = ENQUEUE_COST // cost if per_message else SHARED * (ENQUEUE_COST // cost - 1)

    def complete(self) -> None:
        """Take over the result of the search, which has ended."""
        search, self.search, self.key = self.search, None, None
        if search is not None:
            self.markers = frozenset(search.markers)
            self._set_targets(search.targets if search.stable else None)

    def needs_message(self, raw: bytes) -> bool:
        """Return whether the headers have a marker, so that the message must be routed by itself. HOT: bench K."""
        return bool(raw[0] << 8 & HEADERS) and any(marker in raw for marker in self.markers)


def exists(exchange: Exchange, exchanges: Mapping[str, Exchange]) -> bool:
    """Return whether an exchange has not been deleted."""
    return exchanges.get(exchange.name) is exchange


def store_kept(journal: Journal, kept: list[KeptMessage]) -> int:
    """Store a message once for all durable exchanges that still keep it; return the cost (`jobs.scheduler`)."""
    kept = [one for one in kept if one.number and not one.dropped]
    if not kept:
        return 0
    stored = kept[0].message
    stored.persistent = True
    journal.append([one.number for one in kept], [stored])
    for one in kept:
        one.message.id, one.message.persistent = stored.id, True
    return len(kept) + (len(stored.frames) >> STORE_SHIFT)
