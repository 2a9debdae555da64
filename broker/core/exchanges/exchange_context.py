"""The services of a virtual host that an exchange type uses: time, jobs, delivery, and stored messages."""

from array import array
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ..jobs.long_routes import Place
from ..jobs.scheduler import Job
from ..messages.binding import Destination
from ..messages.clock import Clock, Timer
from ..messages.journal_port import RecoveredQueue
from ..messages.message import Message
from ..messages.message_state import NEVER
from ..queues.route_target import EnqueueResult, Targets

EnqueueSteps = Generator[int, None, EnqueueResult]
"""A part of a job that enqueues messages: it yields the cost of each step, and returns the result."""

LookSteps = Generator[int, None, tuple[Targets, bool]]
"""A part of a job that looks for room: it yields the cost of each step, and returns the queues and `has_room`."""

RoomSteps = Generator[int, None, bool]
"""A part of a job that looks at targets: it yields the cost of each step, and returns whether all have room."""


@dataclass(slots=True, eq=False)
class Emission:
    """Messages that an exchange type wants enqueued, in this order, at each of these destinations.

    With `at_once` they are enqueued in one step, so nothing is published before all are enqueued: they must be few.
    """

    destinations: Collection[Destination]
    messages: Collection[Message]
    at_once: bool = False


class TryLater(Exception):
    """An error: a message cannot be enqueued now, because none of the queues to which it was routed may reject more.

    `targets` are these queues, and sinks.
    """

    def __init__(self, targets: Targets) -> None:
        super().__init__()
        self.targets = targets


class ExchangeContext(Protocol):
    """The services of a virtual host for the type of one exchange: time, timers, delivery, and storage in the journal.

    Every exchange has its own context, which `ExchangeType.on_created` receives. `durable` is the flag of the exchange.
    `number` identifies the exchange's stored messages in the journal; 0 if none of them survive a restart.
    """

    clock: Clock
    durable: bool
    number: int

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        """Call `fn` when `clock.now_ms()` reaches `when_ms`, then deliver the messages that it has enqueued."""

    def start(self, job: Job, appends: bool = True) -> None:
        """Run a generator in turns of the loop, and to its end before the broker stops. Each step yields its cost.

        A cost of 1 is about a microsecond; a step should cost 500 at most (`jobs.scheduler`). It waits while the disk
        is full, unless it `appends` nothing.
        """

    def emit(self, emissions: Iterable[Emission]) -> None:
        """Enqueue emissions in slices, after all that the type has emitted before.

        The first emission is taken from the iterable now, and each of the others when the one before is enqueued.
        """

    @property
    def emitting(self) -> bool:
        """True while emissions of the type wait to be enqueued."""

    def deliver(self, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueResult:
        """Enqueue these messages at once, in order, at each destination; exchanges route each by its routing key.

        For sinks, whose messages are confirmed by the result. Deleted queues are skipped. The messages remain the
        caller's, which may deliver them again.
        """

    def deliver_in_steps(self, destinations: Collection[Destination], messages: Collection[Message]) -> EnqueueSteps:
        """Enqueue messages as `deliver`, but in steps: a part of a job. Others may publish between two steps."""

    def destinations_have_room(self, destinations: Collection[Destination], message: Message) -> RoomSteps:
        """Return whether `deliver` of this message would be refused by no queue, in steps."""

    def forward(self, keys: tuple[str, ...], message: Message) -> Job:
        """Route a message that the type had stored, as if it were published now: a part of a job (`start`).

        The type `ExchangeType.undelayed` routes it first. Raises TryLater if its queues have no room (`has_room`). The
        job must pass on SUSPENDED at once: a long route may wait for others (`jobs.long_routes`).
        """

    def look(self, keys: tuple[str, ...], message: Message) -> LookSteps:
        """Return the queues to which `forward` would route a message, whose body is not needed, and `has_room`."""

    def has_room(self, targets: Targets) -> bool:
        """Return whether a message may be enqueued: not if all of the queues must not reject more messages."""

    # Storage: only for a type whose `persists_messages` is true.

    def store(self, messages: list[Message], durable: bool) -> None:
        """Append messages to the journal, which sets the `id` of each, in ascending order.

        Only messages stored as `durable` by a durable exchange survive a restart, whatever their delivery mode. The
        messages must be the type's own copies, not stored before. `id` is 0 if nothing is stored.
        """

    def begin_reading(self) -> Generator[int, None, Place]:
        """Wait in a job until the messages that others have read take less memory; pass the result to `end_reading`."""

    def has_read(self, place: Place, read_bytes: int) -> None:
        """Note how many bytes of messages were read, in the same step."""

    def end_reading(self, place: Place) -> None:
        """Note that the messages which were read since `begin_reading` are no longer held."""

    def read(self, ids: list[int]) -> list[Message | None]:
        """Read stored messages, in this order; None for one that cannot be read now."""

    def drop(self, id_: int, durable: bool) -> None:
        """Delete a stored message. The type of a deleted exchange deletes all its messages."""

    def drop_moved(self, id_: int, durable: bool) -> None:
        """Delete a message whose copies have been enqueued, atomically with the copies of this turn.

        After a power cut, either the message or its copies exist, if one step has made all of these.
        """


class RecoveredMessages:
    """The messages that an exchange type had stored when the broker stopped, in that order.

    `deadlines_ms` has the deadline in the `MessageState` of each, NEVER for none. Messages with and without a deadline
    are stored by different exchange types. `shared` has the messages that were read for other exchanges, by id.
    """

    __slots__ = ("ids", "deadlines_ms", "_shared")

    def __init__(self, recovered: RecoveredQueue, shared: dict[int, Message]) -> None:
        deadlines_ms = recovered.deadlines_ms
        self.ids = recovered.ids
        self.deadlines_ms = deadlines_ms if deadlines_ms is not None else array("Q", bytes(8 * len(recovered)))
        self._shared = shared

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield (deadline, id) of each message."""
        return zip(self.deadlines_ms, self.ids, strict=True)

    def read(self, context: ExchangeContext) -> list[Message]:
        """Return the messages without a deadline that can be read. Exchanges that keep the same one share it."""
        ids = [id_ for due_ms, id_ in self if due_ms == NEVER]
        unread = [id_ for id_ in ids if id_ not in self._shared]
        read = zip(unread, context.read(unread), strict=True)
        self._shared.update({id_: message for id_, message in read if message is not None})
        return [self._shared[id_] for id_ in ids if id_ in self._shared]
