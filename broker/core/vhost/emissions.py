"""Emissions: messages that exchange types make themselves, enqueued in slices.

A type may emit a notice to 5,000 listeners, or 60,000 stored messages to one queue, so each exchange has a queue of its
emissions, which a job enqueues in order. A step of the job may end between two destinations of the same message.
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from itertools import chain, groupby

from ..exchanges.exchange import Exchange
from ..exchanges.exchange_context import Emission, EnqueueSteps, RoomSteps
from ..exchanges.exchange_type import ExchangeType
from ..exchanges.router import Search
from ..jobs.scheduler import COPY_SHIFT, SLICE, STORE_SHIFT, Scheduler
from ..messages.binding import Destination
from ..messages.clock import Clock
from ..messages.journal_port import Journal
from ..messages.message import Message, frame_bytes, total_bytes
from ..queues.deduplication import Recorders, record
from ..queues.ledger import Ledger
from ..queues.queue_host import QueueHost
from ..queues.route_target import (
    ACCEPTED,
    PAGE_COST,
    PER_MESSAGE_COST,
    EnqueueResult,
    RouteTarget,
    Targets,
    cost_of_headers,
    existing,
    in_parts,
    records_of,
    without_full,
)
from ..queues.traffic_log import MADE, MOVED

MAKE_COST = 5  # of a message that the type has just made
STORED_COST = 2  # of a durable queue
LOOKS, LOOK_SHIFT = 1_000, 3  # targets that are looked at in one step; to look at 8 of them costs 1
LIMIT_BYTES = 16 << 20  # of the emissions of one exchange that wait; binding waits until there are fewer
ENTRY_BYTES, REFERENCE_BYTES = 1_000, 8  # of waiting emissions, and of each destination and message in them


class EmissionHost(QueueHost):
    """A virtual host that routes, as the types of its exchanges and their emissions use it.

    emitting  the emissions that wait to be enqueued, by exchange, which may have been deleted
    dropped   the virtual host has been deleted: nothing more is emitted
    """

    def __init__(self, name: str, clock: Clock, journal: Journal, ledger: Ledger, scheduler: Scheduler) -> None:
        super().__init__(name, clock, journal, ledger, scheduler)
        self.emitting: dict[Exchange, EmissionQueue] = {}
        self.dropped = False

    def emit(self, exchange: Exchange, emissions: Iterable[Emission], content_bytes: int = 0) -> None:
        """Enqueue the emissions of the type of an exchange in slices, after all earlier ones.

        `content_bytes` is the memory of frames that nothing else keeps.
        """
        rest = iter(emissions)
        first = next(rest, None)
        if first is None or self.dropped:
            return
        queue = self.emitting.get(exchange)
        if queue is not None:
            queue.add(first, rest, content_bytes)
        else:
            queue = EmissionQueue(self, exchange)
            queue.add(first, rest, content_bytes)
            queue.start()

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
        """Begin the search for the targets of a message with these keys (`router.Search`)."""
        raise NotImplementedError

    def has(self, target: Destination) -> bool:
        """Return whether the queue or exchange exists, and has not been deleted."""
        raise NotImplementedError


class EmissionQueue:
    """The emissions of one exchange that wait to be enqueued, in order, and the job that enqueues them.

    It is in `EmissionHost.emitting` as long as something waits.
    """

    __slots__ = ("_vhost", "_exchange", "_waiting", "_bytes", "_call", "_job")

    def __init__(self, vhost: EmissionHost, exchange: Exchange) -> None:
        self._vhost = vhost
        self._exchange = exchange
        self._waiting: deque[tuple[Iterable[Emission], int, Callable[[], None]]] = deque()
        self._bytes = 0
        self._call: Callable[[], None] = nothing  # follows the emissions that are being enqueued
        self._job = self._run()

    @property
    def full(self) -> bool:
        """True if the type should emit no more for now."""
        return self._bytes >= LIMIT_BYTES

    def add(self, first: Emission, rest: Iterator[Emission], content_bytes: int) -> None:
        """Add emissions. Each of the rest is taken from the iterator when the one before is enqueued."""
        size = content_bytes + ENTRY_BYTES + REFERENCE_BYTES * (len(first.destinations) + len(first.messages))
        self._bytes += size
        self._waiting.append((chain((first,), rest), size, nothing))

    def when_enqueued(self, call: Callable[[], None]) -> None:
        """Call `call` once all that waits now is enqueued."""
        self._waiting.append(((), 0, call))

    def start(self) -> None:
        """Start the job."""
        self._vhost.emitting[self._exchange] = self
        self._job = self._run()
        self._vhost.scheduler.start(f"emissions of {self._exchange}", self._job, self._failed, appends=True)

    def advance(self) -> int:
        """Run a step of the job for a caller that waits for it, and return its cost."""
        return next(self._job, 0)

    def _run(self) -> Generator[int, None, None]:
        while self._waiting:
            emissions, size, self._call = self._waiting.popleft()
            for emission in emissions:
                steps = deliver_in_slices(self._vhost, emission.destinations, emission.messages)
                if emission.at_once:
                    yield sum(steps)
                else:
                    yield from steps
                yield MAKE_COST * len(emission.messages)  # about that of the next emission
            self._bytes -= size
            self._call()
        del self._vhost.emitting[self._exchange]

    def _failed(self) -> None:
        """Go on with the next emissions after a bug in the type."""
        self._call()
        self.start()


def nothing() -> None:
    pass


def deliver_in_slices(
    vhost: EmissionHost, destinations: Collection[Destination], messages: Collection[Message]
) -> EnqueueSteps:
    """Enqueue messages, in order, at each destination that still exists; exchanges route each by its routing key.

    The messages remain the caller's: queues change only copies of them.
    """
    messages = list(messages)
    if not messages:
        return ACCEPTED
    result = yield from enqueue_in_slices(vhost, targets_of(destinations), messages)
    for destination in destinations:
        if isinstance(destination, Exchange):
            for index, message in enumerate(messages):
                if not vhost.has(destination):
                    break
                search = vhost.search(destination, (message.address.routing_key,), message)
                yield from search.in_steps()
                copy, recorders = message.copy_for_queue(), search.recorders
                more = yield from enqueue_in_slices(vhost, search.targets, [copy], recorders=recorders)
                result = merge(result, more, index)
    return result


def enqueue_in_slices(
    vhost: EmissionHost,
    targets: Targets,
    messages: list[Message],
    source: str = MADE,
    limit: int = SLICE,
    recorders: Recorders = (),
    before: EnqueueResult | None = None,
) -> EnqueueSteps:
    """Enqueue messages, in order, at each of the targets, in steps whose cost is about `limit` at most.

    Targets that are deleted meanwhile are skipped. The messages remain the caller's. With recorders there is one, which
    they get if all targets have taken it, also those that have the result `before`.
    """
    result, taken = before or ACCEPTED, before is not None
    step_cost = 0
    per_message = reads = stores = False
    at_once: list[RouteTarget] = []
    for target in targets:
        if target.internal and (steps := target.accept_in_steps(messages)) is not None:
            result, taken = merge(result, (yield from steps), 0), True
            continue
        at_once.append(target)
        per_message = per_message or target.per_message
        reads = reads or target.reads_headers
        stores = stores or target.number > 0
        if not len(at_once) % LOOKS:
            yield LOOKS >> LOOK_SHIFT
    targets = tuple(at_once)
    count = len(targets)
    readers = count if per_message and reads else 0
    least = STORED_COST if stores else 1
    at = 0
    while count and at < len(messages):
        weight = PAGE_COST if vhost.ledger.exceeded else PER_MESSAGE_COST if per_message else least
        exceeded = vhost.ledger.exceeded
        copies = count if exceeded else records_of(targets[:SLICE]) or 1  # of the frames
        shift = STORE_SHIFT if stores or vhost.ledger.exceeded else COPY_SHIFT
        some = messages[at : at + max(limit // (weight * count), 1)]
        size = frame_bytes(some)
        while (cost := cost_of(some, size, weight * count, copies, shift, readers)) > 2 * limit and len(some) > 1:
            some = some[: max(len(some) * limit // cost, 1)]
            size = frame_bytes(some)
        first, at = at, at + len(some)
        each = cost_of(some, size, weight, int(exceeded), shift, min(readers, 1))
        if count > 1:
            some = vhost.ledger.share(some)
        for part in in_parts(targets, each, size, max(limit, cost) if len(some) > 1 else limit):
            if step_cost:
                yield step_cost
            if there := existing(part):
                result, taken = merge(result, enqueue(vhost, there, some, source), first), True
            step_cost = max(cost * len(part) // count, 1)
    if taken and not result.refused:
        for cost in record(recorders, messages[0]):
            yield step_cost + cost
            step_cost = 0
    yield step_cost
    return result


def merge(result: EnqueueResult, more: EnqueueResult, first: int) -> EnqueueResult:
    """Return the result of all messages, of which `more` is about those from the index `first` on."""
    if not more.refused:
        return result if result.stored or not more.stored else EnqueueResult(True, result.refused)
    refused = result.refused | {first + index for index in more.refused}
    return EnqueueResult(result.stored or more.stored, refused)


def cost_of(messages: list[Message], size: int, each: int, copies: int, shift: int, readers: int) -> int:
    """Return the cost of messages, `each` beside the copies of their frames, of which 2 ** `shift` bytes cost 1.

    `size` is the sum of the lengths of their frames. `readers` is the number of targets that read their headers.
    """
    cost = each * len(messages) + copies * (size >> shift)
    return cost + readers * cost_of_headers(messages) if readers else cost


def targets_of(destinations: Collection[Destination]) -> Targets:
    """Return the queues and sinks among the destinations."""
    return tuple([one for one in destinations if isinstance(one, RouteTarget)])


def deliver(vhost: EmissionHost, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueResult:
    """Enqueue messages as `deliver_in_slices`, but at once."""
    steps = deliver_in_slices(vhost, destinations, messages)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: EnqueueResult = end.value
            return result


def have_room(vhost: EmissionHost, destinations: Collection[Destination], message: Message) -> RoomSteps:
    """Return whether `deliver` of this message would be refused by no queue, in steps."""
    targets = targets_of(destinations)
    for destination in (None, *destinations):
        if isinstance(destination, Exchange) and vhost.has(destination):
            search = vhost.search(destination, (message.address.routing_key,), message, peeks=True)
            yield from search.in_steps()
            targets = search.targets
        for at in range(0, len(targets), LOOKS):
            if not all(target.has_room(message.body_bytes) for target in existing(targets[at : at + LOOKS])):
                return False
            yield LOOKS >> LOOK_SHIFT
        targets = ()
    return True


def enqueue(
    vhost: EmissionHost, targets: Targets, messages: list[Message], source: str = MADE, recorders: Recorders = ()
) -> EnqueueResult:
    """Enqueue messages at those targets that exist, and copies where a queue would change them.

    With recorders there is one message, which they get if all targets have taken it.

    Queues that must not reject more messages refuse them, and they are not dead-lettered: who has them cannot wait, and
    others must not wait for such a queue. Only a move has asked all of them before.
    """
    there = existing(targets)
    targets = without_full(vhost.ledger, there) if source != MOVED else there
    result = ACCEPTED if len(targets) == len(there) else EnqueueResult(False, frozenset(range(len(messages))))
    if not targets:
        return result
    plain = all(message.state is None for message in messages)
    if not plain or any(target.per_message for target in targets):
        messages = [message.copy_for_queue() for message in messages]
    at = 0
    runs = [messages] if plain else [list(run) for _, run in groupby(messages, lambda one: one.state is None)]
    for run in runs:
        persistent = True in [message.persistent for message in run]
        result = merge(result, vhost.enqueue(run, total_bytes(run), persistent, targets, source), at)
        at += len(run)
    if not result.refused:
        for _ in record(recorders, messages[0]):
            pass
    return result
