"""Moving messages: ready messages of a queue are published again, to another queue or to an exchange.

As with dead letters, the copies and the settlement of the originals are in one batch of the journal, of which a power
cut may keep any part, but never loses both. Messages keep their order, properties and bodies; a time to live starts
anew, and so does the count of delivery attempts. A message that is refused or not routed stays at its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ..amqp.errors import AccessRefused, AMQPError, NotNow, OperatorError
from ..amqp.properties import HEADERS, replace
from ..core.exchanges.exchange_type import DESTINATIONS_SHIFT
from ..core.exchanges.router import Search
from ..core.jobs.scheduler import COPY_SHIFT, Job
from ..core.messages.journal_port import BEHIND
from ..core.messages.message import DELIVERY_COUNT, Message, RoutingAddress, frame_bytes, total_bytes
from ..core.messages.message_state import NEVER
from ..core.queues.deduplication import Recorders, record
from ..core.queues.queue import Queue
from ..core.queues.ready_messages import LEVEL_SHIFT
from ..core.queues.route_target import PER_MESSAGE_COST, Targets, cost_of_reading, cost_of_records, must_wait
from ..core.queues.traffic_log import MOVED
from ..core.queues.x_death import routing_keys
from ..core.vhost.emissions import enqueue_in_slices
from .methods.publish import STILL_DEAD_LETTERING, STILL_PUBLISHING, are_few

if TYPE_CHECKING:
    from .channel import Channel

# Messages moved in one step, bytes of their bodies, and cost of their routes and queues: a few milliseconds
SLICE, SLICE_BYTES, SLICE_COST = 100, 1 << 20, 2_000

FULL = "the destination refuses more messages: it is full"

Taken = tuple[int, Message, bool]
"""A message taken from the queue: position, message, whether it counts as redelivered."""


@dataclass(slots=True, eq=False)
class MoveStep:
    """The result of one step. `problem` says why the move cannot continue; empty if it can. `unfinished` is True while
    a job moves one message that has a long route, or very many targets."""

    moved: int = 0
    problem: str = ""
    unfinished: bool = False


@dataclass(slots=True, eq=False)
class Run:
    """Successive messages with the same targets and address, which are published together."""

    targets: Targets
    recorders: Recorders
    searches: list[Search] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    copies: list[Message] = field(default_factory=list)

    @property
    def is_single(self) -> bool:
        """True if a target may refuse messages, so that nothing may be published behind one."""
        return bool(self.recorders) or any(
            not isinstance(target, Queue) or target.rejects_overflow for target in self.targets
        )

    def takes(self, search: Search, copy: Message) -> bool:
        """Return whether a message may be published with those before."""
        first = self.copies[0]
        return (
            search.targets == self.targets
            and search.recorders == self.recorders
            and copy.address is first.address
            and (copy.state is None) == (first.state is None)
            and not self.is_single
        )


class Move:
    """A move from a queue to an exchange, with this routing key or, if it is None, with each message's own keys.

    Raises AccessRefused (403), NotFound (404).
    """

    def __init__(self, channel: Channel, queue: Queue, exchange: str, routing_key: str | None) -> None:
        channel.check("write", "exchange", exchange)
        self._exchange = channel.vhost.exchange(exchange)
        if self._exchange.internal:
            raise AccessRefused(f"cannot publish to internal {self._exchange}")
        self._channel = channel
        self._queue = queue
        self._routing_key = routing_key
        self._address = RoutingAddress(exchange, routing_key or "")
        self._run: Run | None = None
        self._long: MoveStep | None = None  # the result of the job that moves one message
        self._held_bytes = 0  # by that job
        self._moved = False  # whether an earlier step has moved a message
        self._cost = 0  # of the routes of this step, and of enqueueing in several queues (`jobs.scheduler`)

    def step(self, limit: int) -> MoveStep:
        """Move at most `limit` messages and SLICE, fewer if they are long; none while the journal is behind.

        Raises AccessRefused (403) if the user may not read the queue or write the exchange any more, or may not write a
        topic, the configured one or that of a message; otherwise NotNow during an alarm, and for a message that takes
        a job while the user's unfinished publishes take very much memory.
        Once this move has moved messages, either is the `problem` of the result: their number must not be lost.
        """
        if self._long is not None:
            result = self._long
            if not result.unfinished:
                self._long = None
                self._moved = self._moved or result.moved > 0
            return result
        result = MoveStep()
        try:
            self._check()
        except (AccessRefused, NotNow) as error:
            self._refuse(error, result)
            return result
        if self._queue.host.journal.room() == BEHIND:
            return result
        taken_bytes = count = 0
        ready = self._queue.ready_messages
        read_end = ready.read_bytes + SLICE_BYTES
        try:
            self._cost = 0
            while (
                count < min(limit, SLICE)
                and taken_bytes < SLICE_BYTES
                and ready.read_bytes < read_end
                and self._cost < SLICE_COST
                and not result.problem
                and not result.unfinished
            ):
                taken = self._take()
                if taken is None:
                    break
                count += 1
                taken_bytes += taken[1].body_bytes
                self._add(taken, result)
                if self._run is not None and self._run.recorders:
                    self._publish(result)  # before the search for the next one, which may be a duplicate of it
            self._publish(result)
        except (AccessRefused, NotNow) as error:
            self._publish(result)
            self._refuse(error, result)
        finally:
            self._put_back()
            self._queue.schedule_pump()
        self._moved = self._moved or result.moved > 0
        return result

    def _check(self) -> None:
        """Raise AccessRefused (403) if the user may not move messages like this, NotNow during an alarm."""
        self._channel.check("read", "queue", self._queue.name)
        self._channel.check("write", "exchange", self._exchange.name)
        if self._routing_key is not None:
            self._channel.check_topic("write", self._exchange.name, self._routing_key)
        alarm = self._channel.connection.node.alarms.reason
        if alarm:
            raise NotNow(f"nothing can be moved now: the broker is {alarm}")

    def _refuse(self, error: AMQPError | OperatorError, result: MoveStep) -> None:
        """Raise the error, or make it the problem of the result if messages are moved already."""
        if not self._moved and not result.moved:
            raise error
        result.problem = error.text

    def _take(self) -> Taken | None:
        """Take the next message that has not expired, or None."""
        queue = self._queue
        if queue.deleted or queue.paused:
            return None
        fifo = queue.ready_messages.first_loaded()
        if fifo is None or fifo.timed and NEVER < fifo.resident_deadline_ms() <= queue.host.clock.now_ms():
            return None  # the pump drops the expired ones first
        return fifo.pop()

    def _add(self, taken: Taken, result: MoveStep) -> None:
        """Add a message to the run, or publish the run and begin another."""
        of_job = False
        try:
            copy, search = self._begin_route(taken[1])
            complete = search.run(SLICE_COST)
            header_cost = cost_of_reading([copy], search.targets) * len(search.targets)
            if not complete or not are_few(search.targets, copy, self._queue.host.ledger) or header_cost > SLICE_COST:
                if self._channel.unfinished.full:
                    raise NotNow(STILL_PUBLISHING)
                self._publish(result)
                of_job = not result.problem
                if of_job:
                    self._move_in_steps(taken, copy, search, result)
                return
            targets = search.targets
            self._cost += search.cost + header_cost + PER_MESSAGE_COST * len(search.targets)
            self._cost += cost_of_records(len(copy.frames), search.targets)
            if self._run is not None and not self._run.takes(search, copy):
                self._publish(result)
            if not result.problem:
                result.problem = self._problem(copy, targets)
            if result.problem:
                return
            if self._run is None:
                self._run = Run(targets, search.recorders)
            self._run.searches.append(search)
            self._run.taken.append(taken)
            self._run.copies.append(copy)
        finally:
            if not of_job and (self._run is None or self._run.taken[-1] is not taken):
                self._restore(taken)

    def _begin_route(self, message: Message) -> tuple[Message, Search]:
        """Return the copy of a message and the search for its targets. Raises AccessRefused (403) for a topic."""
        keys = routing_keys(message, self._routing_key)
        self._channel.check_topic("write", self._exchange.name, *keys)
        copy = self._copy(message)
        return copy, self._channel.vhost.search(self._exchange, keys, copy, defers=True)

    def _move_in_steps(self, taken: Taken, copy: Message, search: Search, result: MoveStep) -> None:
        """Have a job move one message, which stays in the journal until all its copies are durable."""
        host = self._queue.host
        result.unfinished = True
        message = taken[1]
        self._held_bytes = frame_bytes([message] if copy.frames is message.frames else [message, copy])
        self._channel.unfinished.begin(self._held_bytes)
        job = self._long_move(taken, copy, search, result)
        failed = partial(self._end, taken, "a bug, which the log describes", result)
        host.scheduler.start(f"move from {self._queue}", job, failed, appends=True)
        self._long = result if result.unfinished else None

    def _long_move(self, taken: Taken, copy: Message, search: Search, result: MoveStep) -> Job:
        yield from search.in_steps()
        yield len(search.targets) >> DESTINATIONS_SHIFT
        targets = search.targets
        problem = self._problem(copy, targets)
        if not problem and not all(target.has_room(copy.body_bytes) for target in targets):
            problem = FULL
        if not problem and must_wait(self._channel.vhost.ledger, targets):
            problem = STILL_DEAD_LETTERING
        if problem:
            self._end(taken, problem, result)
            return
        yield search.keep()
        vhost = self._channel.vhost
        if (yield from enqueue_in_slices(vhost, targets, [copy], MOVED, recorders=search.recorders)).refused:
            self._end(taken, FULL, result)
            return

        def stored() -> None:
            queue, message = self._queue, taken[1]
            queue.host.left(queue, [message], MOVED)
            queue.release([message])
            result.moved += 1
            self._end_job(result)

        ticket = vhost.journal.ticket()
        if ticket <= vhost.journal.durable:
            stored()
        else:
            vhost.journal.when_durable(ticket, stored)

    def _end(self, taken: Taken, problem: str, result: MoveStep) -> None:
        """End the job without having moved its message."""
        result.problem = problem
        self._end_job(result)
        if self._queue.deleted:
            self._queue.release([taken[1]])
        else:
            self._restore(taken)
            self._queue.schedule_pump()

    def _end_job(self, result: MoveStep) -> None:
        result.unfinished = False
        self._channel.unfinished.end(self._held_bytes)

    def _problem(self, copy: Message, targets: Targets) -> str:
        """Return why the message cannot be published, or an empty text."""
        where = f"{self._exchange} with routing key '{copy.address.routing_key}'"
        if not targets:
            return f"no binding of {where} matches"
        return f"{where} leads back to the queue" if self._queue in targets else ""

    def _copy(self, message: Message) -> Message:
        """Return the message as if it were published now."""
        key = message.address.routing_key if self._routing_key is None else self._routing_key
        if self._address.routing_key != key:
            self._address = RoutingAddress(self._exchange.name, key)
        if message.state is not None and message.state.attempts:
            self._cost += message.counting_cost + (len(message.frames) >> COPY_SHIFT)
            headers = message.headers.without((DELIVERY_COUNT,))
            message = message.with_properties(replace(message.property_bytes, HEADERS, headers))
        copy = message.as_republished()
        copy.address = self._address
        return copy

    def _publish(self, result: MoveStep) -> None:
        """Publish the run, and settle its originals in the same batch of the journal."""
        run = self._run
        if run is None:
            return
        queue, host = self._queue, self._queue.host
        messages = [message for _, message, _ in run.taken]
        persistent = any(copy.persistent for copy in run.copies)
        # A single message goes to all targets or to none, or each attempt would leave more copies of it.
        room = not run.is_single or all(target.has_room(run.copies[0].body_bytes) for target in run.targets)
        if not room or host.enqueue(run.copies, total_bytes(run.copies), persistent, run.targets, MOVED).refused:
            self._put_back()
            result.problem = FULL
            return
        self._run = None
        self._cost += sum([search.keep() for search in run.searches])
        self._cost += sum(record(run.recorders, run.copies[0]))
        host.left(queue, messages, MOVED)
        if queue.number:
            queue.journal.settle(messages, moved=True)
        result.moved += len(messages)

    def _put_back(self) -> None:
        """Return the messages of the run to their places."""
        run, self._run = self._run, None
        if run is not None:
            for taken in reversed(run.taken):
                self._restore(taken)

    def _restore(self, taken: Taken) -> None:
        position, message, redelivered = taken
        self._queue.ready_messages.at(position >> LEVEL_SHIFT).requeue(position, message, redelivered)
