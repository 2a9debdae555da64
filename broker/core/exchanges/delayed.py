"""Exchanges that delay messages, as RabbitMQ's delayed message exchange plugin does.

A message with the header `x-delay` is held for that many milliseconds. Meanwhile it is stored in the journal, with
one integer of 56 bytes in memory: deadline and turn. The deadline is stored in the message's state, so that a restart
knows it without reading messages.

A due message waits while none of its queues may reject more (`RouteTarget.must_not_reject`), and so do those of the
exchange that are due later, which keeps their order.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from ...amqp import properties
from ...amqp.field_table import INTEGERS, Table
from ..jobs.long_routes import Place
from ..jobs.scheduler import SUSPENDED, Job
from ..messages.binding import Destination
from ..messages.clock import Timer
from ..messages.message import Message, frame_bytes
from ..messages.message_state import NEVER, NO_TTL, MessageState
from ..queues.route_target import ACCEPTED, DURABLE, EnqueueResult, Targets, queues_of
from ..queues.x_death import routing_keys
from .exchange_context import ExchangeContext, LookSteps, RecoveredMessages, TryLater
from .exchange_type import ExchangeDecorator, ExchangeType, Sink

HEADER = "x-delay"
LONGEST_MS = (1 << 32) - 1  # as in RabbitMQ's plugin; a message with a longer delay is not delayed
SLICE, SLICE_BYTES = 200, 1 << 20  # messages read at once, and about how many bytes of frames
STEP_COST = 500  # of messages released in one step
BEGIN_COST, RELEASE_COST = 60, 10  # of messages released together, with a timer and a job, and of each of them
READ_SHIFT = 9  # to read and copy 512 bytes costs 1
DROP_SLICE, DROP_COST = 200, 3  # messages of a deleted exchange dropped in one step, and the cost of each
RETRY_MS = 10_000  # the wait after a due message could not be read or released
ROOM_MS = 1_000  # between two looks whether one of its queues has room
LAST_BYTES = 1 << 10  # of properties that each exchange keeps, which no limit counts
LOOKS = 100  # queues that are looked at, of those of the first message; all of them after RETRY_MS, or 1 ms for each
AGAIN_SHIFT = 6  # a waiting message is read and routed again, too: after RETRY_MS, or 1 ms for each 64 bytes and queue
HEAD_BYTES = 4 << 10  # of properties and keys of a waiting message that each exchange keeps, which no limit counts
DEADLINE_SHIFT = 64
TURN = (1 << DEADLINE_SHIFT) - 1
RESIDENT = 1 << DEADLINE_SHIFT - 1  # in the turn of a message in memory; ids are less


class Delay(Sink):
    """The sink that holds delayed messages, and runs the job `release` with each when it is due.

    Messages with the same deadline are released in the order of their turns. A turn is the id of a message, as ids
    ascend in the order of storing. If the journal stores nothing there are no ids: turns are counted here, from
    RESIDENT on, and `_resident` has the messages by turn.
    """

    __slots__ = (
        *("_heap", "_resident", "_turn", "_timer", "_when_ms", "_release", "_look_at", "_releasing", "_at_once"),
        *("_awaited", "_look_ms", "_again_ms", "_head", "_last_properties", "_last_delay_ms"),
    )

    def __init__(
        self, context: ExchangeContext, release: Callable[[Message], Job], look: Callable[[Message], LookSteps]
    ) -> None:
        super().__init__(context)
        self.reads_headers = True
        self._heap: list[int] = []
        self._resident: dict[int, Message] = {}
        self._turn = RESIDENT
        self._timer: Timer | None = None
        self._when_ms = 0
        self._release = release
        self._look_at = look
        self._releasing = False  # a job releases due messages
        self._at_once = 1  # messages to read next
        self._awaited: Targets = ()  # of the first message: it waits until one of them has room
        self._look_ms = 0  # when all of its queues are looked at, which may be others by then
        self._again_ms = 0  # when it is read and routed again
        self._head: Message | None = None  # the message without its body, if that tells its queues
        self._last_properties = b""  # the properties that were read last, and their delay
        self._last_delay_ms = 0

    def __len__(self) -> int:
        return len(self._heap)

    def delay_ms_of(self, message: Message) -> int:
        """Return the delay of a message in milliseconds, 0 without one."""
        raw = message.property_bytes
        if raw != self._last_properties:
            self._last_delay_ms = delay_ms(raw)
            self._last_properties = raw if len(raw) <= LAST_BYTES else b""
        return self._last_delay_ms

    def handle(self, messages: list[Message]) -> EnqueueResult:
        now_ms = self.context.clock.now_ms()
        stored = False
        for message in messages:
            due_ms = now_ms + self.delay_ms_of(message)
            copy = message.copy_for_queue()
            copy.state = MessageState(NO_TTL, due_ms, 0, 0, message.dead_lettered, message.bcc_keys)
            self.context.store([copy], copy.persistent)
            stored = stored or (copy.persistent and self.context.number > 0)
            turn = copy.id
            if not turn:
                self._turn = turn = self._turn + 1
                self._resident[turn] = copy
            heappush(self._heap, due_ms << DEADLINE_SHIFT | turn)
        self._expect()
        return DURABLE if stored else ACCEPTED

    def hold_again(self, stored: RecoveredMessages) -> None:
        """Take over recovered messages that have a deadline."""
        self._heap += [due_ms << DEADLINE_SHIFT | id_ for due_ms, id_ in stored if due_ms != NEVER]
        heapify(self._heap)
        self._expect()

    def on_deleted(self) -> None:
        """Drop all held messages of the deleted exchange."""
        self.deleted = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._resident.clear()
        self._awaited, self._head = (), None
        self.context.start(self._drop(), appends=False)

    def _drop(self) -> Job:
        """Drop the messages in slices. After a crash recovery drops the rest: the deletion is in the journal."""
        durable = self.context.number > 0
        while self._heap:
            count = min(DROP_SLICE, len(self._heap))
            for _ in range(count):
                turn = self._heap.pop() & TURN
                if turn < RESIDENT:
                    self.context.drop(turn, durable)
            yield DROP_COST * count

    def _expect(self) -> None:
        """Set the timer to the earliest deadline, or to the next look at the queues for which the first one waits."""
        if not self._heap or self._releasing:
            return
        when_ms = self._heap[0] >> DEADLINE_SHIFT
        if self._awaited:
            when_ms = max(when_ms, self.context.clock.now_ms() + ROOM_MS)
        if self._timer is not None:
            if self._when_ms <= when_ms:
                return
            self._timer.cancel()
        self._when_ms = when_ms
        self._timer = self.context.call_at(when_ms, self._due)

    def _due(self) -> None:
        self._timer = None
        now_ms = self.context.clock.now_ms()
        waits = self._awaited and now_ms < self._again_ms and not self.context.has_room(self._awaited)
        if waits and now_ms < self._look_ms:
            self._expect()
            return
        self._releasing = True
        self.context.start(self._look() if waits else self._release_due())

    def _look(self) -> Job:
        """Look at all queues of the first message, which may be others now; release it if one of them has room."""
        room = False
        try:
            self._look_ms = self.context.clock.now_ms() + RETRY_MS
            assert self._head is not None, "else it is released"
            queues, room = yield from self._look_at(self._head)
            if not self.deleted:
                self._awaited = queues[:LOOKS]
                self._look_ms = self.context.clock.now_ms() + max(RETRY_MS, len(queues))
        finally:
            self._releasing = False
            if not self.deleted and not room:
                self._expect()
        if room and not self.deleted:
            self._releasing = True
            yield from self._release_due()

    def _release_due(self) -> Job:
        """Release the messages that are due by now, slice by slice, up to one that has to wait."""
        self._awaited, self._head = (), None
        try:
            end = self.context.clock.now_ms() + 1 << DEADLINE_SHIFT
            while not self.deleted and not self._awaited and self._heap and self._heap[0] < end:
                entries: list[int] = []
                while self._heap and self._heap[0] < end and len(entries) < self._at_once:
                    entries.append(heappop(self._heap))
                yield from self._release_some(entries)
        finally:
            self._releasing = False
            if self.deleted:
                self.context.start(self._drop(), appends=False)
            else:
                self._expect()

    def _release_some(self, entries: list[int]) -> Job:
        """Release these messages, or none after the one during whose release the exchange was deleted.

        A message that cannot be read, or whose release raises, is tried again after RETRY_MS. Messages after the one
        that raised are released in the next slice. One for which there is no room waits, and so do all after it.
        """
        later, done, cost = [], 0, BEGIN_COST
        place: Place | None = None
        try:
            if not self._resident:
                place = yield from self.context.begin_reading()
            later, done = entries, len(entries)
            messages = self._read(entries, place)
            later, done = [], 0
            for entry, message in zip(entries, messages, strict=True):
                if self.deleted:
                    break
                done += 1
                later.append(entry)
                if message is None:
                    continue
                cost += RELEASE_COST + (len(message.frames) >> READ_SHIFT)
                try:
                    for step in self._release(message):
                        if step == SUSPENDED:
                            yield SUSPENDED
                            continue
                        cost += step
                        if cost >= STEP_COST:
                            yield cost
                            cost = 0
                except TryLater as error:
                    self._await(message, error)
                    later.pop()
                    done -= 1
                    break
                later.pop()
                if message.id:  # atomic: after a crash, it or its copies exist
                    self.context.drop_moved(message.id, message.persistent)
                else:
                    self._resident.pop(entry & TURN, None)
        finally:
            if place is not None:
                self.context.end_reading(place)
            retry_ms = self.context.clock.now_ms() + RETRY_MS
            for entry in later:
                heappush(self._heap, retry_ms << DEADLINE_SHIFT | entry & TURN)
            for entry in entries[done:]:
                heappush(self._heap, entry)
        yield cost

    def _await(self, message: Message, error: TryLater) -> None:
        """Wait for one of the queues of a message, and read it alone then."""
        if not self.deleted:
            queues = queues_of(error.targets)
            self._awaited = queues[:LOOKS]
            now_ms, wait_ms = self.context.clock.now_ms(), max(RETRY_MS, len(queues))
            self._look_ms = self._again_ms = now_ms + max(wait_ms, len(message.frames) >> AGAIN_SHIFT)
            self._head = head_of(message)
            if self._head is not None:
                self._look_ms = now_ms + wait_ms
        self._at_once = 1

    def _read(self, entries: list[int], place: Place | None) -> list[Message | None]:
        """Read messages in the order of the entries, but from the disk in its own order; None for unreadable ones."""
        if self._resident:
            self._at_once = SLICE
            return [self._resident[entry & TURN] for entry in entries]
        ids = [entry & TURN for entry in entries]
        stored = sorted(ids)
        read = dict(zip(stored, self.context.read(stored), strict=True))
        read_bytes = frame_bytes([message for message in read.values() if message is not None])
        if place is not None:
            self.context.has_read(place, read_bytes)
        fitting = len(read) * SLICE_BYTES // read_bytes if read_bytes > SLICE_BYTES else 2 * len(read)
        self._at_once = min(max(fitting, 1), SLICE)
        return [read[id_] for id_ in ids]


class DelayedExchange(ExchangeDecorator):
    """An exchange type that holds messages with a delay until they are due; then `inner` routes them."""

    __slots__ = ("_context", "_delay")

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._context: ExchangeContext | None = None
        self._delay: Delay | None = None

    @property
    def persists_messages(self) -> bool:
        return True

    @property
    def undelayed(self) -> ExchangeType:
        return self.inner

    @property
    def messages_delayed(self) -> int:
        """The number of held messages."""
        return len(self._delay) if self._delay is not None else 0

    def on_created(self, context: ExchangeContext) -> None:
        self._context = context
        self._delay = Delay(context, self._release, self._look)
        super().on_created(context)

    def restore(self, stored: RecoveredMessages) -> None:
        assert self._delay is not None, "on_created has been called"
        self._delay.hold_again(stored)
        super().restore(stored)

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        assert self._delay is not None, "on_created has been called"
        delayed = self._delay.delay_ms_of(message) > 0
        yield message.headers.read_cost
        if delayed:
            found[self._delay] = None
        else:
            yield from super().search(keys, message, found)

    def peek(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        assert self._delay is not None, "on_created has been called"
        if self._delay.delay_ms_of(message) > 0:
            found[self._delay] = None
        else:
            yield from self.inner.peek(keys, message, found)

    def on_deleted(self) -> None:
        if self._delay is not None:
            self._delay.on_deleted()
        super().on_deleted()

    def _release(self, message: Message) -> Job:
        """Route a due message as a part of a job."""
        assert self._context is not None, "on_created has been called"
        keys = routing_keys(message, None)
        headers = message.headers
        message = with_negated_delay(message)
        yield headers.read_cost
        yield from self._context.forward(keys, message)

    def _look(self, message: Message) -> LookSteps:
        """Return the queues of a due message, whose body is not needed, and whether one of them has room."""
        assert self._context is not None, "on_created has been called"
        keys = routing_keys(message, None)
        message = with_negated_delay(message)
        yield message.headers.read_cost
        return (yield from self._context.look(keys, message))


def head_of(message: Message) -> Message | None:
    """Return the message without its body, or None if its properties and keys are long."""
    end = message.header_end + 1
    if end + sum([len(key) for key in message.bcc_keys]) > HEAD_BYTES:
        return None
    head = Message(message.address, message.frames[:end], 0, 0, 0, message.persistent)
    head.state = message.state
    return head


def delay_ms(raw: bytes) -> int:
    """Return the delay in the header of these properties, a number or decimal text, in milliseconds; 0 if none."""
    if HEADER.encode() not in raw:
        return 0  # the usual case, found without decoding
    value = (properties.headers(raw) or Table.EMPTY).get(HEADER)
    number = 0
    if value is not None and value[0] in INTEGERS and isinstance(value[1], int):
        number = value[1]
    elif value is not None and value[0] == "S" and isinstance(value[1], bytes) and value[1].isdigit():
        number = int(value[1][:11])
    return number if 0 < number <= LONGEST_MS else 0


def with_negated_delay(message: Message) -> Message:
    """Return a copy of a due message with the header negated, as in RabbitMQ's plugin: it is not delayed again."""
    raw = message.property_bytes
    headers = properties.headers(raw) or Table.EMPTY
    value = headers.get(HEADER)
    if value is not None and value[0] == "S" and isinstance(value[1], bytes):
        value = ("S", b"-" + value[1])
    elif value is not None and isinstance(value[1], int):
        value = (value[0] if value[0] in "bsIl" else "l", -value[1])
    assert value is not None, "only messages with a delay are held"
    changed = properties.replace(raw, properties.HEADERS, headers.with_items([(HEADER, value)]))
    copy = Message(message.address, message.frames_with(changed), 0, message.body_bytes, 0, message.persistent)
    copy.state = message.state
    return copy.as_republished()
