"""A queue: ready messages in publish order, what is out with consumers, and the hand-over between the two.

A position numbers the messages of one queue in the order in which they were published. Fresh messages, never delivered
before, need no number of their own: the one at the front of `fresh` has position `head`, and so on. A message that
comes back was delivered before all that are still fresh, so those that came back form a heap in front of them, and
every message returns to its original place (spec/core.md 9.5, 9.9).

When the node's memory for messages is spent, what comes is stored and only its place remembered: the backlog, behind
all that is fresh, read back when that has been delivered.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from ..table import Table
from .backlog import Backlog, Budget
from .binding import Binding, Destination
from .consumers import Consumers
from .message import Message
from .ports import Consumer, Journal, Publisher

# While a queue has consumers that drain it, publishers are held back above the first mark until it falls to the second,
# in messages and in octets: enough to keep a consumer busy for some milliseconds, little enough to bound memory, to
# stay in the processor's cache, and to be short of a latency that anybody sees.
HOLD_ABOVE, HOLD_ABOVE_BYTES = 8_000, 4 << 20
BATCH_BYTES = 1 << 20  # handed over at once, however many messages: those in front may be longer than the average
RELEASE_BELOW, RELEASE_BELOW_BYTES = 2_000, 1 << 20


PAGE_ABOVE = 4_000  # messages that a queue may have in memory even when the node's budget is spent
UNPAGE, UNPAGE_BYTES = 1_000, 4 << 20  # messages that are read back at once, and octets by their average


class Queue(Destination):
    """`number` is what the journal knows it by, 0 where it is not durable.

    `owner` is the connection that has it exclusively, or None. A `dirty` queue stands in line to be pumped.
    """

    __slots__ = (
        "vhost",
        "durable",
        "number",
        "owner",
        "auto_delete",
        "arguments",
        "incoming",
        "consumers",
        "fresh",
        "backlog",
        "head",
        "returned",
        "restored_until",
        "ready_bytes",
        "unacked",
        "had_consumer",
        "deleted",
        "dirty",
        "published",
        "delivered",
        "delivered_bytes",
        "acked",
        "redelivered",
        "held",
        "_pending",
        "_journal",
        "_budget",
    )
    kind = "queue"

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        number: int,
        owner: object,
        auto_delete: bool,
        arguments: Table,
        pending: deque[Queue],
        journal: Journal,
        budget: Budget,
    ) -> None:
        super().__init__(name)
        self.vhost = vhost
        self.durable = durable
        self.number = number
        self.owner = owner
        self.auto_delete = auto_delete
        self.arguments = arguments
        self.incoming: dict[bytes, Binding] = {}
        self.consumers = Consumers()
        self.fresh: deque[Message] = deque()
        self.backlog = Backlog()
        self.head = 1
        self.returned: list[tuple[int, Message]] = []
        self.restored_until = 0  # positions below it were there before a restart, and count as delivered before
        self.ready_bytes = 0
        self.unacked = 0
        self.had_consumer = False
        self.deleted = False
        self.dirty = False
        self.published = 0
        self.delivered = 0
        self.delivered_bytes = 0
        self.acked = 0
        self.redelivered = 0
        self.held: list[Publisher] = []
        self._pending = pending
        self._journal = journal
        self._budget = budget

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    @property
    def ready(self) -> int:
        """How many messages wait to be delivered."""
        return len(self.fresh) + len(self.returned) + len(self.backlog)

    # What comes in

    def push(self, messages: list[Message], body_bytes: int) -> None:
        """Take messages at the tail, already stored if they are to be; `body_bytes` is the sum of their bodies.

        HOT: bench A-M.
        """
        if len(self.backlog) or (self._budget.spent and len(self.fresh) > PAGE_ABOVE):
            self._page(messages)
        else:
            self.fresh.extend(messages)
            self._budget.add(len(messages), body_bytes)
        self.ready_bytes += body_bytes
        self.published += len(messages)
        if not self.dirty:
            self.dirty = True
            self._pending.append(self)

    def requeue(self, position: int, message: Message) -> None:
        """A delivered message comes back to its original place, to be delivered as redelivered."""
        self.unacked -= 1
        if self.deleted:
            self._done(message)
            return
        heappush(self.returned, (position, message))
        self.ready_bytes += message.body_bytes
        self._budget.add(1, message.body_bytes)
        self.mark()

    def restore(self, pages: list[tuple[int, int]], body_bytes: int) -> None:
        """What a stop of the broker left: the journal has it. Nobody knows what of it had been delivered."""
        self.restored_until = self.head + len(pages)
        for id_, place in pages:
            self.backlog.append(id_, place)
        self.ready_bytes += body_bytes

    def _page(self, messages: list[Message]) -> None:
        """Keep of each message only where it stands; the journal gets what it has not for this queue already."""
        pages = [message if self.number and message.persistent else message.again() for message in messages]
        loose = [page for page in pages if not page.id]
        if loose:
            self._journal.append([], loose)
        for page in pages:
            self.backlog.append(page.id, page.place)

    def _unpage(self) -> None:
        """Read the next of the backlog."""
        count = min(UNPAGE, UNPAGE_BYTES // (self.ready_bytes // self.ready + 1) + 1)
        messages = self._journal.read(self.backlog.take(count))
        for message in messages:
            if not (self.number and message.persistent):
                self._journal.settle(0, message.id, message.place)
                message.id = message.place = 0
        self.fresh.extend(messages)
        self._budget.add(len(messages), sum(message.body_bytes for message in messages))

    def mark(self) -> None:
        """Have the node pump this queue soon: something may be deliverable."""
        if not self.dirty:
            self.dirty = True
            self._pending.append(self)

    # What goes out

    def pump(self) -> None:
        """Hand ready messages to consumers until either run out. HOT: bench A-M."""
        self.dirty = False
        self._deliver()
        if self.held and (
            (self.ready < RELEASE_BELOW and self.ready_bytes < RELEASE_BELOW_BYTES) or not len(self.consumers)
        ):
            self.release()

    def _deliver(self) -> None:
        consumers = self.consumers
        while self.returned or self.fresh or len(self.backlog):
            if not self.fresh and len(self.backlog):
                if not self.consumers.any_ready():
                    return
                self._unpage()
            count = len(self.fresh)
            # When something has come back it goes first, one by one: it is rare, and has a position of its own.
            wanted = 1 if self.returned else count
            takers, room = consumers.take_turn(wanted, self.ready_bytes // max(self.ready, 1))
            if not takers:
                return
            if self.returned:
                position, message = heappop(self.returned)
                self.ready_bytes -= message.body_bytes
                self._budget.add(-1, -message.body_bytes)
                self.delivered_bytes += message.body_bytes
                self._hand(takers[0], [message], position, 1, True)
                continue
            position = self.head
            again = position < self.restored_until
            if again:
                count = min(count, self.restored_until - position)
            messages = self._take(min(count, room * len(takers)))
            taken = len(messages)
            step = len(takers)
            if step == 1:
                self._hand(takers[0], messages, position, 1, again)
                continue
            consumers.rotate(takers, taken)
            if len({id(taker.line) for taker in takers}) == step:
                for index, taker in enumerate(takers[:taken]):
                    self._hand(taker, messages[index::step], position + index, step, again)
            else:
                for index, message in enumerate(messages):
                    self._hand(takers[index % step], [message], position + index, 1, again)

    def _take(self, count: int) -> list[Message]:
        """Remove fresh messages from the front: that many, or fewer where they are long. Nothing has come back."""
        fresh = self.fresh
        if count == self.ready and self.ready_bytes <= BATCH_BYTES:
            messages = list(fresh)
            fresh.clear()
            taken_bytes = self.ready_bytes
        else:
            messages = []
            taken_bytes = 0
            while len(messages) < count and taken_bytes <= BATCH_BYTES:
                message = fresh.popleft()
                taken_bytes += message.body_bytes
                messages.append(message)
        self.head += len(messages)
        self.ready_bytes -= taken_bytes
        self._budget.add(-len(messages), -taken_bytes)
        self.delivered_bytes += taken_bytes
        return messages

    def _hand(self, consumer: Consumer, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        count = len(messages)
        self.delivered += count
        if redelivered:
            self.redelivered += count
        if not consumer.no_ack:
            self.unacked += count
        elif self.number:
            for message in messages:
                self._done(message)
        consumer.deliver(messages, position, step, redelivered)

    def get(self, no_ack: bool) -> tuple[int, Message, bool] | None:
        """The next message as (position, message, redelivered) for basic.get, or None when nothing is ready."""
        if not self.returned and not self.fresh and len(self.backlog):
            self._unpage()
        if self.returned:
            position, message = heappop(self.returned)
            redelivered = True
        elif self.fresh:
            position, message, redelivered = self.head, self.fresh.popleft(), self.head < self.restored_until
            self.head += 1
        else:
            return None
        self.ready_bytes -= message.body_bytes
        self._budget.add(-1, -message.body_bytes)
        self.delivered += 1
        self.redelivered += redelivered
        if not no_ack:
            self.unacked += 1
        else:
            self._done(message)
        return position, message, redelivered

    # What ends

    def settle(self, position: int, message: Message) -> None:
        """A delivered message is acknowledged. HOT: bench B, D, I, L."""
        self.unacked -= 1
        self.acked += 1
        if self.number and message.persistent:
            self._journal.settle(self.number, message.id, message.place)

    def reject(self, position: int, message: Message) -> None:
        """A delivered message is refused for good."""
        self.unacked -= 1
        self._done(message)

    def _done(self, message: Message) -> None:
        """The journal need not keep it for this queue."""
        if self.number and message.persistent:
            self._journal.settle(self.number, message.id, message.place)

    def purge(self) -> int:
        """Drop what is ready, not what is out (spec/core.md 6.6); how many there were."""
        count = self.ready
        if self.number:
            for message in self.fresh:
                self._done(message)
            for _, message in self.returned:
                self._done(message)
        self._budget.add(-len(self.fresh) - len(self.returned), -self._resident_bytes())
        self.head += len(self.fresh) + len(self.backlog)
        for id_, place in self.backlog.take(len(self.backlog)):
            self._journal.settle(self.number, id_, place)
        self.fresh.clear()
        self.returned.clear()
        self.ready_bytes = 0
        self.release()
        return count

    def _resident_bytes(self) -> int:
        return sum(message.body_bytes for message in self.fresh) + sum(
            message.body_bytes for _, message in self.returned
        )

    # Consumers

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.add(consumer)
        self.had_consumer = True
        self.mark()

    def wake(self, consumer: Consumer) -> None:
        """The consumer has room again."""
        self.consumers.wake(consumer)
        if self.ready:
            self.mark()

    # Publishers

    def congested(self) -> bool:
        """Whether a publisher should wait for the consumers that are there. A queue without any just grows."""
        return (self.ready > HOLD_ABOVE or self.ready_bytes > HOLD_ABOVE_BYTES) and len(self.consumers) > 0

    def hold(self, publisher: Publisher) -> None:
        """Tell this one when the queue has drained."""
        if publisher not in self.held:
            self.held.append(publisher)

    def forget(self, publisher: Publisher) -> None:
        """This one has gone."""
        if publisher in self.held:
            self.held.remove(publisher)

    def release(self) -> None:
        held = self.held
        self.held = []
        for publisher in held:
            publisher.drained(self)


class Numbering:
    """Gives durable queues the numbers that the journal knows them by, and none of them twice."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 1

    def take(self) -> int:
        self.next += 1
        return self.next - 1


class VolatileQueue(Queue):
    """A direct reply-to consumer as a destination (spec/core.md 12): no bindings, nothing kept beyond its consumer.

    What its consumer does not read piles up here to a limit; the newest replies beyond it are dropped, as the promise
    of direct reply-to is at most once.
    """

    __slots__ = ()
    LIMIT = 10_000  # messages

    def push(self, messages: list[Message], body_bytes: int) -> None:
        free = self.LIMIT - self.ready
        if len(messages) > free:
            messages = messages[: max(free, 0)]
            body_bytes = sum(message.body_bytes for message in messages)
        super().push(messages, body_bytes)
