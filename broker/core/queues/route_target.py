"""The targets of a route, to which messages are published."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from mypy_extensions import mypyc_attr

from ...amqp.field_table import SEARCH_SHIFT, cost_of_skipping
from ..jobs.scheduler import STORE_SHIFT, SUSPENDED, Scheduler
from ..messages.binding import Destination
from ..messages.message import Message

if TYPE_CHECKING:
    from .deduplication import Recorders
    from .ledger import Ledger

PER_MESSAGE_COST = 3  # of a queue that looks at each message (`jobs.scheduler`)
SHARED = 16  # messages that are enqueued together in many queues cost twice as much as one
PAGE_COST = 8  # of a queue that stores the message and keeps its id, as memory is used up


class EnqueueResult:
    """The result of publishing messages together."""

    __slots__ = ("stored", "refused")

    def __init__(self, stored: bool, refused: frozenset[int] = frozenset()) -> None:
        self.stored = stored  # whether a confirm has to wait for the journal
        self.refused = refused  # indexes of the messages that a queue rejected


DURABLE: Final = EnqueueResult(True)
ACCEPTED: Final = EnqueueResult(False)


@mypyc_attr(allow_interpreted_subclasses=True)
class RouteTarget(Destination):
    """A target of a route: a queue, a reply queue, or the sink of an exchange type.

    number         of a durable queue in the journal; 0 for all others
    per_message    messages are passed to `accept`, which looks at each of them, and not to `push`
    reads_headers  `accept` reads the headers of each of them
    deleted        it takes no more messages

    Observers are not notified of `internal` targets, and statistics do not count them.
    """

    __slots__ = ("number", "per_message", "reads_headers", "deleted")
    kind: ClassVar[str] = "queue"
    internal: ClassVar[bool] = False

    def __init__(self, name: str, number: int, per_message: bool) -> None:
        super().__init__(name)
        self.number = number
        self.per_message = per_message
        self.reads_headers = False
        self.deleted = False

    def push(self, messages: list[Message], body_bytes: int, shared: bool = False, header_bytes: int = -1) -> None:
        """Add messages that are already stored; `body_bytes` is the sum of their bodies.

        `shared` messages are also added to other targets. `header_bytes` is the sum of their long headers
        (`header_bytes_of`), or -1 if unknown.
        """

    def accept(self, messages: list[Message], source: str, shared: bool, others: Targets = ()) -> EnqueueResult:
        """Store and add messages one by one, or reject them; the same for `others` with an equal `record_key`.

        `source` is that of the traffic log, empty for a client. `shared` messages are also added to other targets.
        """
        raise NotImplementedError

    def accept_in_steps(self, messages: list[Message]) -> Generator[int, None, EnqueueResult] | None:
        """Return a generator that does `accept` in steps and yields their costs, or None if one step is enough."""
        return None

    def has_room_in_steps(self, message: Message) -> Generator[int, None, bool] | None:
        """Return a generator that finds out whether the message would be rejected, or None if `has_room` is enough."""
        return None

    def count_stored(self, count: int, body_bytes: int) -> None:
        """Count persistent messages that were stored for this target, if it is a durable queue."""

    @property
    def record_key(self) -> object:
        """The key of its records in the journal: durable targets with equal keys share one record of each message."""
        return self

    @property
    def paged(self) -> bool:
        """True if new messages are stored on the disk whatever their delivery mode, because the queue is paged out."""
        return False

    @property
    def rejects_overflow(self) -> bool:
        """True if messages beyond a length limit of the queue are rejected."""
        return False

    @property
    def outbox_full(self) -> bool:
        """True if dead letters must wait, as too many messages that the queue has rejected are to be dead-lettered."""
        return False

    @property
    def must_not_reject(self) -> bool:
        """True if publishers must wait, for this or as too many messages of the node are to be dead-lettered."""
        return False

    def when_may_reject(self, fn: Callable[[], None]) -> None:
        """Call `fn` once when publishers need not wait any more."""

    def has_room(self, body_bytes: int) -> bool:
        """Return whether a message with a body of this length would not be rejected."""
        return True

    def congested(self) -> bool:
        """Return whether publishers should wait for the consumers of the queue."""
        return False


Targets = tuple[RouteTarget, ...]
"""Targets of one route, each of them once."""


def must_wait(ledger: Ledger, targets: Targets) -> bool:
    """Return whether one of the targets must not reject more messages."""
    return ledger.dead_letters.full_outboxes > 0 and any(target.must_not_reject for target in targets)


def without_full(ledger: Ledger, targets: Targets) -> Targets:
    """Return the targets without those that must not reject more messages."""
    if not ledger.dead_letters.full_outboxes:
        return targets
    return tuple([target for target in targets if not target.must_not_reject])


def await_outboxes(scheduler: Scheduler, targets: Targets) -> Iterator[int]:
    """Wait in a job, whose steps pass SUSPENDED on, until none of the targets must not reject more messages."""
    while not scheduler.finishing:
        full = next((target for target in targets if target.must_not_reject), None)
        if full is None:
            return
        full.when_may_reject(scheduler.suspend())
        yield SUSPENDED


def existing(targets: Targets) -> Targets:
    """Return those targets that have not been deleted."""
    return tuple([target for target in targets if not target.deleted])


def queues_of(targets: Targets) -> Targets:
    """Return the queues among the targets that have not been deleted, without `internal` ones."""
    return tuple([target for target in targets if not target.deleted and not target.internal])


def records_of(targets: Targets, paged: bool = False) -> int:
    """Return how many records of a message these targets have in the journal, as if all were `paged` if that is set."""
    return len({target.record_key for target in targets if paged or target.number or target.paged})


def cost_of_records(stored_bytes: int, targets: Targets) -> int:
    """Return the cost of writing messages with frames of this sum to the journal (`jobs.scheduler`)."""
    cost = stored_bytes >> STORE_SHIFT
    return cost * records_of(targets) if cost else 0


def cost_of_reading(messages: list[Message], targets: Targets) -> int:
    """Return the cost of reading a header of each message at one target, 0 if no target does (`jobs.scheduler`)."""
    cost = cost_of_headers(messages)
    return cost if cost and any(target.reads_headers for target in targets) else 0


def cost_of_headers(messages: list[Message]) -> int:
    """Return the cost of reading a header of each message (`jobs.scheduler`)."""
    sizes = [message.header_end for message in messages]
    return sum([cost_of_skipping(size) + (size >> SEARCH_SHIFT) for size in sizes])


def looks_at_each(messages: list[Message], targets: Targets) -> bool:
    """Return whether some of the targets take these messages one by one."""
    return messages[0].state is not None or any(target.per_message for target in targets)


def cost_of_each(messages: list[Message], targets: Targets) -> int:
    """Return the cost of enqueueing the messages at one of these targets, beside that of storing them."""
    if looks_at_each(messages, targets):
        return PER_MESSAGE_COST * len(messages) + cost_of_reading(messages, targets)
    return 1 + len(messages) // SHARED


def in_parts(targets: Targets, each: int, stored_bytes: int, limit: int) -> Iterator[Targets]:
    """Divide targets into parts that cost `limit` at most, but for one record of the journal (`jobs.scheduler`).

    `each` is the cost of a target beside the records, `stored_bytes` the sum of the frames of the messages. Of many
    targets those that share a record are in one part.
    """
    together = max(limit // each, 1)
    record_cost = stored_bytes >> STORE_SHIFT
    for start in range(0, len(targets), together):
        some = targets[start : start + together]
        if (each + record_cost) * len(some) <= limit:
            yield some
            continue
        alike: dict[object, list[RouteTarget]] = {}
        for target in some:
            alike.setdefault(target.record_key if target.number or target.paged else None, []).append(target)
        part: list[RouteTarget] = []
        cost = 0
        for key, sharing in alike.items():
            more = each * len(sharing) + (record_cost if key is not None else 0)
            if part and cost + more > limit:
                yield tuple(part)
                part, cost = [], 0
            part += sharing
            cost += more
        yield tuple(part)


class TargetSearch(Protocol):
    """The search for the targets of a message, in steps (`exchanges.router.Search`)."""

    targets: Targets  # complete once `run` has returned True
    recorders: Recorders  # of the exchanges on the way that drop duplicates (`deduplication.record`)
    stable: bool  # whether the targets depend on the routing keys alone
    cost: int  # of the steps so far (`jobs.scheduler`)

    def run(self, limit: int) -> bool:
        """Search, and stop where that has cost `limit`; return whether the search is complete."""

    def stop(self) -> None:
        """Search no further, and free all results but the targets."""

    def keep(self) -> int:
        """Have exchanges on the way keep the message, once it is enqueued for good; return the cost."""
