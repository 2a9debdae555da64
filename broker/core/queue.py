"""A queue: ready messages in publish order, what is out with consumers, and the hand-over between the two.

A position numbers the messages of one queue in the order in which they were published. Fresh messages, never delivered
before, need no number of their own: the one at the front of `fresh` has position `head`, and so on. A message that
comes back was delivered before all that are still fresh, so those that came back form a heap in front of them, and
every message returns to its original place (spec/core.md 9.5, 9.9).
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from ..table import Table
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


class Queue(Destination):
    """`owner` is the connection that has it exclusively, or None. A `dirty` queue stands in line to be pumped."""

    __slots__ = (
        "vhost",
        "durable",
        "owner",
        "auto_delete",
        "arguments",
        "incoming",
        "consumers",
        "fresh",
        "head",
        "returned",
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
    )
    kind = "queue"

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        owner: object,
        auto_delete: bool,
        arguments: Table,
        pending: deque[Queue],
        journal: Journal,
    ) -> None:
        super().__init__(name)
        self.vhost = vhost
        self.durable = durable
        self.owner = owner
        self.auto_delete = auto_delete
        self.arguments = arguments
        self.incoming: dict[bytes, Binding] = {}
        self.consumers = Consumers()
        self.fresh: deque[Message] = deque()
        self.head = 1
        self.returned: list[tuple[int, Message]] = []
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

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    @property
    def ready(self) -> int:
        """How many messages wait to be delivered."""
        return len(self.fresh) + len(self.returned)

    # What comes in

    def push(self, messages: list[Message], body_bytes: int) -> None:
        """Take messages at the tail; `body_bytes` is the sum of their bodies. HOT: bench A-M."""
        if self.durable:
            position = self.head + len(self.fresh)
            for message in messages:
                if message.persistent:
                    self._journal.append(self.name, position, message)
                position += 1
        self.fresh.extend(messages)
        self.ready_bytes += body_bytes
        self.published += len(messages)
        if not self.dirty:
            self.dirty = True
            self._pending.append(self)

    def requeue(self, position: int, message: Message) -> None:
        """A delivered message comes back to its original place, to be delivered as redelivered."""
        self.unacked -= 1
        if self.deleted:
            return
        heappush(self.returned, (position, message))
        self.ready_bytes += message.body_bytes
        self.mark()

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
            (len(self.fresh) < RELEASE_BELOW and self.ready_bytes < RELEASE_BELOW_BYTES) or not len(self.consumers)
        ):
            self.release()

    def _deliver(self) -> None:
        consumers = self.consumers
        while self.returned or self.fresh:
            count = len(self.fresh)
            # When something has come back it goes first, one by one: it is rare, and has a position of its own.
            wanted = 1 if self.returned else count
            takers, room = consumers.take_turn(wanted, self.ready_bytes // (count + len(self.returned)))
            if not takers:
                return
            if self.returned:
                position, message = heappop(self.returned)
                self.ready_bytes -= message.body_bytes
                self.delivered_bytes += message.body_bytes
                self._hand(takers[0], [message], position, 1, True)
                continue
            position = self.head
            messages = self._take(min(count, room * len(takers)))
            taken = len(messages)
            step = len(takers)
            if step == 1:
                self._hand(takers[0], messages, position, 1, False)
                continue
            consumers.rotate(takers, taken)
            if len({id(taker.line) for taker in takers}) == step:
                for index, taker in enumerate(takers[:taken]):
                    self._hand(taker, messages[index::step], position + index, step, False)
            else:
                for index, message in enumerate(messages):
                    self._hand(takers[index % step], [message], position + index, 1, False)

    def _take(self, count: int) -> list[Message]:
        """Remove fresh messages from the front: that many, or fewer where they are long. Nothing has come back."""
        fresh = self.fresh
        if count == len(fresh) and self.ready_bytes <= BATCH_BYTES:
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
        self.delivered_bytes += taken_bytes
        return messages

    def _hand(self, consumer: Consumer, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        count = len(messages)
        self.delivered += count
        if redelivered:
            self.redelivered += count
        if not consumer.no_ack:
            self.unacked += count
        elif self.durable:
            for index, message in enumerate(messages):
                if message.persistent:
                    self._journal.settle(self.name, position + index * step)
        consumer.deliver(messages, position, step, redelivered)

    def get(self, no_ack: bool) -> tuple[int, Message, bool] | None:
        """The next message as (position, message, redelivered) for basic.get, or None when nothing is ready."""
        if self.returned:
            position, message = heappop(self.returned)
            redelivered = True
        elif self.fresh:
            position, message, redelivered = self.head, self.fresh.popleft(), False
            self.head += 1
        else:
            return None
        self.ready_bytes -= message.body_bytes
        self.delivered += 1
        self.redelivered += redelivered
        if not no_ack:
            self.unacked += 1
        elif self.durable and message.persistent:
            self._journal.settle(self.name, position)
        return position, message, redelivered

    # What ends

    def settle(self, position: int, message: Message) -> None:
        """A delivered message is acknowledged. HOT: bench B, D, I, L."""
        self.unacked -= 1
        self.acked += 1
        if self.durable and message.persistent and not self.deleted:
            self._journal.settle(self.name, position)

    def reject(self, position: int, message: Message) -> None:
        """A delivered message is refused for good."""
        self.unacked -= 1
        if self.durable and message.persistent and not self.deleted:
            self._journal.settle(self.name, position)

    def purge(self) -> int:
        """Drop what is ready, not what is out (spec/core.md 6.6); how many there were."""
        count = self.ready
        if self.durable:
            for position, message in enumerate(self.fresh, self.head):
                if message.persistent:
                    self._journal.settle(self.name, position)
            for position, message in self.returned:
                if message.persistent:
                    self._journal.settle(self.name, position)
        self.head += len(self.fresh)
        self.fresh.clear()
        self.returned.clear()
        self.ready_bytes = 0
        self.release()
        return count

    # Consumers

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.add(consumer)
        self.had_consumer = True
        self.mark()

    def wake(self, consumer: Consumer) -> None:
        """The consumer has room again."""
        self.consumers.wake(consumer)
        if self.fresh or self.returned:
            self.mark()

    # Publishers

    def congested(self) -> bool:
        """Whether a publisher should wait for the consumers that are there. A queue without any just grows."""
        return (len(self.fresh) > HOLD_ABOVE or self.ready_bytes > HOLD_ABOVE_BYTES) and len(self.consumers) > 0

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


class VolatileQueue(Queue):
    """A direct reply-to consumer as a destination (spec/core.md 12): no bindings, nothing kept beyond its consumer.

    What its consumer does not read piles up here to a limit; the newest replies beyond it are dropped, as the promise
    of direct reply-to is at most once.
    """

    __slots__ = ()
    LIMIT = 10_000  # messages

    def push(self, messages: list[Message], body_bytes: int) -> None:
        free = self.LIMIT - len(self.fresh)
        if len(messages) > free:
            messages = messages[: max(free, 0)]
            body_bytes = sum(message.body_bytes for message in messages)
        super().push(messages, body_bytes)
