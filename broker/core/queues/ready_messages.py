"""The ready messages of a queue: a fifo for each priority in use, the highest priority first; most queues have one.

A position numbers the messages of one fifo in the order in which they were published. Fresh messages, which were never
delivered, need no stored position: the first of `fresh` has position `head`, the next one `head` + 1, and so on. A
requeued message was delivered before all fresh ones, so requeued messages form a heap in front of them, and every
message returns to its original position.

Behind PACK_ABOVE fresh messages the others are in chunks, packed, which takes about half of the memory. They are
unpacked when the fresh ones have been delivered.

When the node's memory for messages is used up, new messages are stored in the journal and only their ids are kept:
stored chunks, which are read back once all messages before them are delivered. A requeued message whose content only
the journal has stays there until those before it are delivered.

Messages that the disk does not return are set aside and read again every ten seconds; once it returns them, all of
them, in slices, as far as there is memory for them. They return to their positions like requeued messages. A backlog
that the system had no descriptors or memory to read is read again after a second.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import deque
from typing import Final

from ..jobs.scheduler import COPY_SHIFT, PUMP_COST, STORE_SHIFT, Job
from ..messages.journal_port import RecoveredQueue
from ..messages.message import (
    LONG_HEADER,
    Message,
    SharedMessage,
    ShedMessage,
    frame_bytes,
    header_bytes_of,
    read_bytes,
    total_bytes,
)
from ..messages.message_state import NEVER
from .chunks import RUN, Chunk, ChunkList, Resident
from .dead_letter_budget import FEW_BYTES
from .ledger import Ledger
from .queue_host import HostedQueue
from .queue_journal import QueueJournal
from .queue_settings import NONE, QueueSettings
from .requeued_messages import READ_BYTES, RequeuedMessages

LEVEL_SHIFT: Final = 48  # the bits of a position above these are the priority level (`QueueSettings.level`)
BATCH_BYTES: Final = 1 << 20  # delivered at once, whatever their number: the first may be longer than the average
# Fresh messages: more than queues with consumers have (`flow_control`), or a limit of 10,000 and what one read brings
# beside it, as packing takes time.
PACK_ABOVE = 16_000
UNPACK_BELOW = 256  # fresh messages; as many as one write to a consumer has
# Messages that a queue may have in memory even when that of the node is used up, and their bytes: messages of a queue
# whose consumers keep up pass through memory.
PAGE_ABOVE, PAGE_BYTES = 4_000, 1 << 20
UNREAD_LIMIT = 10_000  # the most successive messages that are set aside at once because they cannot be read
UNPAGE = 1_000  # messages read back at once, if they have no more than READ_BYTES by their average
EMPTY = 8  # fifos without messages that are looked at before the next one; more of them leave `ReadyMessages.all`
MANY = 32  # messages in memory that are dropped together
FIFO_SHIFT = 1  # to look at 2 fifos costs 1 (`jobs.scheduler`)
MESSAGE_BYTES = 6 << 10  # that take as long to read as one message does by itself
REREAD_MS, EXHAUSTED_MS = 10_000, 1_000
REFUSED_LIMIT = 10_000  # unread messages that may fail again in one attempt
SLICE_BYTES = 4 << 20  # of messages that expire or are dropped at once, and of those that are read back for that


class Fifo:
    """The ready messages of one priority level, which it counts in the totals of its queue.

    level           of the priority (`QueueSettings.level`)
    fresh           messages in memory that were not requeued; the first has the position `head`
    chunks          the messages behind them. If `fresh` is empty, the first is in the journal alone
    requeued        requeued messages, which come before all others; None if there are none
    exhausted       messages could not be read for lack of descriptors or memory
    restored_until  messages at positions below it were recovered at the start, and count as redelivered
    timed           some messages may have a deadline
    header_bytes    the sum of the long headers of the messages in memory (`header_bytes_of`)
    seen            `head` when it was looked at for shedding last
    """

    __slots__ = (
        *("level", "fresh", "head", "chunks", "requeued", "exhausted", "restored_until", "timed", "header_bytes"),
        *("seen", "_read_head", "_read_deadline_ms", "_ready", "_journal", "_ledger"),
    )
    __deletable__ = ("_ready",)  # `ReadyMessages.break_cycles`

    def __init__(self, level: int, ready: ReadyMessages, journal: QueueJournal, ledger: Ledger) -> None:
        self.level = level
        self.fresh: deque[Message] = deque()
        self._read_head, self._read_deadline_ms = 0, NEVER  # of the first message, which was read for its deadline
        self.head = self.seen = (level << LEVEL_SHIFT) + 1
        self.chunks = ChunkList(ledger)
        self.requeued: RequeuedMessages | None = None
        self.exhausted = False
        self.restored_until = 0
        self.timed = False
        self.header_bytes = 0
        self._ready = ready
        self._journal = journal
        self._ledger = ledger

    def __len__(self) -> int:
        return len(self.fresh) + self.chunks.count + (self.requeued.count if self.requeued is not None else 0)

    @property
    def paged_count(self) -> int:
        """The number of ready messages that are in the journal alone."""
        return self.chunks.stored + (len(self.requeued.rows) if self.requeued is not None else 0)

    @property
    def resident(self) -> int:
        """The number of messages in memory."""
        return len(self) - self.paged_count

    @property
    def few_resident(self) -> bool:
        """Whether its queue may have as many messages in memory even when that of the node is used up."""
        return self._ready.has_few_resident(PAGE_ABOVE)

    @property
    def body_bytes(self) -> int:
        """The sum of the bodies, but for those of stored chunks."""
        total = total_bytes(list(self.fresh)) + self.chunks.count_bodies()
        if self.requeued is not None:
            total += self.requeued.rows_bytes + total_bytes([message for _, message, _ in self.requeued.heap])
        return total

    @property
    def tail(self) -> int:
        """The position of the next message to be pushed."""
        return self.head + len(self.fresh) + self.chunks.count

    def push(self, messages: list[Message], body_bytes: int, shared: bool = False, header_bytes: int = -1) -> None:
        """Append messages without deadlines, already stored if need be. HOT: bench A-M.

        `body_bytes` is the sum of their bodies, `header_bytes` of their long headers, or -1 if unknown. `shared`
        messages are also in other queues.
        """
        fresh, chunks = self.fresh, self.chunks
        if chunks.stored or self._ledger.exceeded and self._pages(body_bytes):
            self._page_out(messages)
        else:
            if chunks.count or len(fresh) > PACK_ABOVE:
                chunks.append(messages, shared)
            else:
                fresh.extend(messages)
            if header_bytes:
                if header_bytes < 0:
                    one = len(messages[0].frames) - body_bytes if len(messages) == 1 else LONG_HEADER + 1
                    header_bytes = header_bytes_of(messages) if one > LONG_HEADER else 0
                if header_bytes:
                    self._add_headers(header_bytes)
            if shared:
                self._ready.shared = True
                self._ledger.add_shared(len(messages))
            else:
                self._ready.own = True
                self._ledger.add(len(messages), body_bytes + header_bytes)
        ready = self._ready
        ready.count += len(messages)
        ready.body_bytes += body_bytes

    def _add_headers(self, header_bytes: int) -> None:
        """Count long headers of messages that are in memory now."""
        if header_bytes:
            self.header_bytes += header_bytes
            self._ready.long_headers = True

    def push_timed(self, messages: list[Message], body_bytes: int, shared: bool = False) -> None:
        """Append messages that may have deadlines."""
        if not self.timed:
            for message in messages:
                if message.state is not None and message.state.deadline_ms != NEVER:
                    self.timed = True
                    break
        self.push(messages, body_bytes, shared)

    def requeue(self, position: int, message: Message, redelivered: bool = True) -> None:
        """Put a message back in its original place."""
        if self.requeued is None:
            self.requeued = RequeuedMessages(self._ledger)
        self._ready.count += 1
        self._ready.body_bytes += message.body_bytes
        if isinstance(message, ShedMessage):
            self.requeued.add_row(position, message)
            self.timed = self.timed or message.timed
            return
        self.requeued.add(position, message, redelivered)
        if message.state is not None and message.state.deadline_ms != NEVER:
            self.timed = True
        header_bytes = header_bytes_of([message])
        self._add_headers(header_bytes)
        if isinstance(message, SharedMessage):
            self._ledger.add_shared(1)
        else:
            self._ready.own = True
            self._ledger.add(1, message.body_bytes + header_bytes)

    def restore(self, ids: array[int], timed: bool) -> None:
        """Take over recovered messages; `ReadyMessages.restore` counts them."""
        self.restored_until = self.head + len(ids)
        self.timed = timed
        self.chunks.store(ids, [])

    def ensure_loaded(self) -> Message | None:
        """Return the first message, which is read back if necessary, or None.

        Messages that cannot be read are set aside. Returns None if no message is left, or if the first one cannot be
        read now: very many messages could not be read, so that other queues have their turn first, or the fifo is
        `exhausted`.
        """
        if self._row_first:
            passed, self.exhausted = 0, False
            while self._row_first and passed < UNREAD_LIMIT and not self.exhausted:
                passed += self._recall()
            if self._row_first:
                return None
        if self.requeued is not None:
            return self.requeued.heap[0][1]
        if self.fresh:
            return self.fresh[0]
        if not self.chunks.count:
            return None
        average_bytes = self._ready.average_bytes
        passed, self.exhausted = 0, False
        while not self.fresh and self.chunks.count and passed < UNREAD_LIMIT and not self.exhausted:
            passed += self._page_in(average_bytes)
        self._ready.after_page_in(self, passed, passed * average_bytes)
        return self.fresh[0] if self.fresh else None

    def pop(self) -> tuple[int, Message, bool]:
        """Remove the first message, which is in memory; return (position, message, redelivered)."""
        taken = self._pop()
        if self._ready.awaits_room and self.requeued is None:
            self._ready.start_rereading()
        return taken

    def _pop(self) -> tuple[int, Message, bool]:
        if self.requeued is not None:
            position, message, redelivered = self.requeued.pop()
            if not self.requeued.count:
                self.requeued = None
        else:
            position, message = self.head, self.fresh.popleft()
            redelivered = position < self.restored_until
            self.head += 1
            if not self.fresh and self.chunks.count:
                self.fresh.extend(self.chunks.take())
        self._ready.count -= 1
        self._ready.body_bytes -= message.body_bytes
        header_bytes = header_bytes_of([message]) if self.header_bytes else 0
        self.header_bytes -= header_bytes
        if isinstance(message, SharedMessage):
            self._ledger.add_shared(-1)
        else:
            self._ledger.add(-1, -message.body_bytes - header_bytes)
        return position, message, redelivered

    def take(self, count: int, now_ms: int) -> tuple[list[Message], int]:
        """Remove fresh messages from the front; return them and the sum of their bodies.

        `requeued` must be None and the first message not due. Returns at most `count` messages; fewer if they are long
        or one of them is due. HOT: bench A-M.
        """
        fresh, ready = self.fresh, self._ready
        header_bytes = self.header_bytes
        if count == ready.count and 0 <= ready.body_bytes <= BATCH_BYTES - header_bytes and not self.timed:
            messages = list(fresh)
            fresh.clear()
            taken_bytes = ready.body_bytes
        else:
            popleft = fresh.popleft
            if self.timed:
                messages = [popleft()]  # it was not due when it was looked at
                while len(messages) < count and not due(fresh[0], now_ms):
                    messages.append(popleft())
            else:
                messages = [popleft() for _ in range(count)]
            taken_bytes = total_bytes(messages)
            if header_bytes:
                header_bytes = header_bytes_of(messages)
            while taken_bytes + header_bytes - messages[-1].body_bytes > BATCH_BYTES and len(messages) > 1:
                last = messages.pop()
                fresh.appendleft(last)
                taken_bytes -= last.body_bytes
                header_bytes -= header_bytes_of([last])
            chunks = self.chunks
            while chunks.count and len(fresh) < UNPACK_BELOW:
                unpacked = chunks.take()
                if not unpacked:
                    break
                fresh.extend(unpacked)
        taken = len(messages)
        self.head += taken
        ready.count -= taken
        ready.body_bytes -= taken_bytes
        if header_bytes:
            self.header_bytes -= header_bytes
        if not ready.shared:
            self._ledger.add(-taken, -taken_bytes - header_bytes)
        elif ready.own:
            self._ledger.remove(messages, taken_bytes + header_bytes)
        else:
            self._ledger.add_shared(-taken)
        if not ready.count:
            ready.own = False
        if ready.awaits_room:
            ready.reread_later(0)
        return messages, taken_bytes

    def remove_due(self, now_ms: int, limit: int, removed_end: int, read_end: int) -> list[Message]:
        """Remove and return due messages from the front, at most `limit`. Only the front expires, as in RabbitMQ.

        Stop where `ReadyMessages.removed_bytes` has reached `removed_end`, or `read_bytes` has reached `read_end`.
        """
        dead: list[Message] = []
        ready = self._ready
        if not NEVER < self.first_deadline_ms() <= now_ms and len(self):
            return dead
        message = self.ensure_loaded()
        while message is not None and len(dead) < limit and due(message, now_ms) and ready.read_bytes < read_end:
            dead.append(self._pop()[1])
            ready.removed_bytes += len(message.frames)
            if ready.removed_bytes >= removed_end:
                return dead
            message = self.ensure_loaded()
        if message is None and not len(self):  # otherwise the disk does not return the next one now
            self.timed = False
        return dead

    def first_deadline_ms(self) -> int:
        """Return the deadline of the first message, or NEVER.

        It is read for that if it is on the disk, and does not stay in memory if that is used up.
        """
        if self._ledger.exceeded and not self.fresh and self.requeued is None and self.chunks.count:
            if self._read_head != self.head:
                for read in self._ready.read(self.chunks.peek(1)):
                    if read is not None:
                        self._read_head, self._read_deadline_ms = self.head, deadline_of(read)
            if self._read_head == self.head:
                return self._read_deadline_ms
        message = self.ensure_loaded()
        return deadline_of(message) if message is not None else NEVER

    def resident_deadline_ms(self) -> int:
        """Return the deadline of the first message if it is in memory, otherwise NEVER."""
        message = self.first_resident
        return deadline_of(message) if message is not None else NEVER

    @property
    def _row_first(self) -> bool:
        """Whether the first message was requeued and is in the journal alone."""
        return self.requeued is not None and self.requeued.row_first

    @property
    def first_resident(self) -> Message | None:
        """The first message if it is in memory."""
        if self.requeued is not None:
            return None if self.requeued.row_first else self.requeued.heap[0][1]
        return self.fresh[0] if self.fresh else None

    @property
    def first_position(self) -> int:
        """The position of the first message, or of the next one."""
        return self.requeued.first if self.requeued is not None else self.head

    def remove_all(self) -> list[Chunk]:
        """Remove all messages at once. The ledger and the journal still count them until they are taken."""
        fresh = list(self.fresh)
        removed: list[Chunk | None] = [Resident(fresh[at : at + RUN]) for at in range(0, len(fresh), RUN)]
        removed += [self.requeued, self.chunks]
        self.head = self.tail
        self.fresh.clear()
        self.requeued, self.chunks = None, ChunkList(self._ledger)
        self.timed = self.exhausted = False
        self.header_bytes = 0
        return [chunk for chunk in removed if chunk is not None and chunk.count]

    # Paging

    def _pages(self, body_bytes: int) -> bool:
        """Return whether new messages are kept in the journal alone, because the node's memory for messages is used up.

        `body_bytes` is the sum of their bodies. Long ones are not, if they can be delivered at once.
        """
        ready = self._ready
        held_bytes = ready.body_bytes + self.header_bytes
        if not self.few_resident or held_bytes > PAGE_BYTES:
            return True
        if held_bytes + body_bytes > PAGE_BYTES and not ready.can_be_delivered(body_bytes):
            return True
        self._ledger.when_held()
        return False

    def _page_out(self, messages: list[Message]) -> None:
        """Keep the id of each message only; the journal stores those that it does not have for this queue."""
        ledger = self._ledger
        self.chunks.store(*self._store(messages))
        ledger.paged_out = True
        if ledger.exceeded:
            ledger.when_held()

    def _store(self, messages: list[Message]) -> tuple[array[int], list[int]]:
        """Store messages that the journal does not have for this queue; return the id and `Message.seq` of each."""
        return array("Q", self._journal.page_out(messages)), [max(message.seq, 0) for message in messages]

    @property
    def may_shed(self) -> bool:
        """Whether there are messages in memory that were not requeued."""
        return len(self.fresh) > 0 or self.chunks.count > self.chunks.stored

    def shed(self) -> int:
        """Keep the ids of the last messages in memory only; return the cost, or 0 if those of the queue are few."""
        if self._ready.has_few_resident(PAGE_ABOVE + RUN) and self._ready.has_few_bytes(PAGE_BYTES + BATCH_BYTES):
            return 0
        if self.chunks.count == self.chunks.stored and self.fresh:
            last = [self.fresh.pop() for _ in range(min(RUN, len(self.fresh)))]
            self.chunks.put_first(last[::-1])
        try:
            shed = self.chunks.shed(BATCH_BYTES, self._store)
        finally:
            if not self.fresh:
                self.fresh.extend(self.chunks.take())
        if self.timed and shed and self.chunks.count == self.chunks.stored and not self.fresh:
            self._read_head, self._read_deadline_ms = self.head, deadline_of(shed[0])
        header_bytes = header_bytes_of(shed)
        self.header_bytes -= header_bytes
        self._ledger.remove(shed, total_bytes(shed) + header_bytes)
        return len(shed) + (frame_bytes(shed) >> STORE_SHIFT) if shed else 0

    def _page_in(self, average_bytes: int) -> int:
        """Read the next messages, which the journal has, set aside those that fail, and return their number."""
        limit = min(UNPAGE, READ_BYTES // (average_bytes + 1) + 1)
        read = self._ready.read(self.chunks.peek(limit))
        self.exhausted = not read
        ids, seqs = self.chunks.take_ids(len(read))
        fresh: list[Message] = []
        for id_, seq, message in zip(ids, seqs, read, strict=True):
            if message is not None:
                fresh.append(self._journal.page_in(message, seq))
            else:
                redelivered = self.head < self.restored_until
                self._ready.set_aside(
                    ShedMessage(self.head, id_, seq, average_bytes, average_bytes, False, False, redelivered)
                )
                self.head += 1
        self.fresh.extend(fresh)
        header_bytes = header_bytes_of(fresh)
        self._add_headers(header_bytes)
        self._ready.own = True
        self._ledger.add(len(fresh), total_bytes(fresh) + header_bytes)
        return len(read) - len(fresh)

    def _recall(self) -> int:
        """Read the first messages of `requeued`, set aside those that fail, and return their number."""
        ready, first = self._ready, self.requeued
        assert first is not None
        ready_bytes, rows_bytes = ready.body_bytes, first.rows_bytes
        tried, requeued = ready.read_rows(first, max(UNPAGE >> 1, 1))  # these are delivered one by one
        self.exhausted = not tried
        if not first.count:
            self.requeued = None
        requeued_bytes = ready.body_bytes - ready_bytes
        ready.count -= requeued  # which were counted again
        ready.body_bytes -= requeued_bytes
        ready.after_page_in(self, tried - requeued, rows_bytes - first.rows_bytes - requeued_bytes)
        return tried - requeued


def deadline_of(message: Message) -> int:
    """Return the deadline of a message, or NEVER."""
    return message.state.deadline_ms if message.state is not None else NEVER


def due(message: Message, now_ms: int) -> bool:
    """Return whether the deadline of the message has passed, so that it must not be delivered."""
    return NEVER < deadline_of(message) <= now_ms


class ReadyMessages:
    """The ready messages of one queue, with their totals, which the fifos keep.

    default        the fifo of messages without a priority of their own
    all            the fifos with messages, `default` and perhaps some others, the highest priority first
    count          messages in all fifos, those of the backlog included
    body_bytes     the sum of their bodies
    reread_ms      when unread messages are read again; 0 if none are, or a job reads them
    awaits_room    unread messages are read again as soon as others have left memory
    long_headers   some messages have had long headers (`header_bytes_of`)
    shared         some messages have been in other queues as well
    own            some that are ready may be in no other queue
    read_bytes     of all messages that were read back, ever: `message.read_bytes`, and MESSAGE_BYTES for each; or what
                   the reads of files have cost, if that is more
    removed_bytes  of all messages that have expired or were dropped, ever: the sum of their frames

    `unread` has messages that the disk did not return, in the order in which that was tried, or is None. They belong to
    neither total. As their length is unknown, `body_bytes` is an estimate from then until all ready messages are in
    memory.
    """

    __slots__ = (
        *("default", "all", "count", "body_bytes", "read_bytes", "removed_bytes", "awaits_room", "long_headers"),
        *("shared", "own", "unread", "reread_ms", "_rereading", "_fifos", "_estimated", "_settings", "_queue"),
        *("_journal", "_ledger"),
    )
    __deletable__ = ("_queue",)  # `break_cycles`

    def __init__(self, queue: HostedQueue, settings: QueueSettings, journal: QueueJournal, ledger: Ledger) -> None:
        self.count = self.body_bytes = self.read_bytes = self.removed_bytes = 0
        self.awaits_room = self.long_headers = self.shared = self.own = False
        self.default = Fifo(0, self, journal, ledger)
        self.all = [self.default]
        self._fifos: dict[int, Fifo] = {}  # the other ones by level, also those that all their messages have left
        self.unread: RequeuedMessages | None = None
        self.reread_ms = 0
        self._rereading = False
        self._estimated = False
        self._settings = settings
        self._queue = queue
        self._journal = journal
        self._ledger = ledger

    def break_cycles(self) -> None:
        """Break the reference cycles with a deleted queue (`Queue.break_cycles`)."""
        del self._queue
        for fifo in (self.default, *self._fifos.values()):
            del fifo._ready

    @property
    def content_bytes(self) -> int:
        """The sum of all bodies, and of the long headers of messages in memory."""
        if len(self.all) == 1:
            return self.body_bytes + self.default.header_bytes
        return self.body_bytes + sum([fifo.header_bytes for fifo in self.all])

    @property
    def timed(self) -> bool:
        """True if some messages may have a deadline."""
        self._charge_looks(len(self.all))
        return any(fifo.timed for fifo in self.all)

    @property
    def paged(self) -> bool:
        """True if some messages are in the journal only; new ones then go there too, whatever their delivery mode."""
        return any(fifo.chunks.stored for fifo in self.all)

    @property
    def resident(self) -> int:
        """The number of messages in memory."""
        return self.count - sum([fifo.paged_count for fifo in self.all])

    @property
    def average_bytes(self) -> int:
        """The average length of a body."""
        return max(self.body_bytes, 0) // (self.count or 1)

    def can_be_delivered(self, body_bytes: int) -> bool:
        """Return whether a message of this length can be delivered now."""
        return self._queue.can_deliver(body_bytes)

    def has_few_resident(self, count: int) -> bool:
        """Return whether at most `count` messages are in memory."""
        if self.count <= count:
            return True
        self._charge_looks(len(self.all))
        return self.resident <= count

    @property
    def unread_count(self) -> int:
        """The number of messages that could not be read."""
        return self.unread.count if self.unread is not None else 0

    def has_few_bytes(self, limit_bytes: int) -> bool:
        """Return whether bodies and long headers in memory are at most that together; some thousands may be."""
        limit_bytes -= self.content_bytes - self.body_bytes
        return self.body_bytes <= limit_bytes or sum([fifo.body_bytes for fifo in self.all]) <= limit_bytes

    @property
    def has_room(self) -> bool:
        """Whether messages may be read into memory before consumers need them."""
        return not self._ledger.exceeded or self.default.few_resident

    def at(self, level: int) -> Fifo:
        """Return the fifo of a priority level (`QueueSettings.level`), to which the caller adds messages."""
        if not level:
            return self.default
        fifo = self._fifos.get(level)
        if fifo is None:
            fifo = self._fifos[level] = Fifo(level, self, self._journal, self._ledger)
        if not fifo.fresh and fifo not in self.all:  # with messages, it is
            insort(self.all, fifo, key=lambda fifo: -self._settings.priority(fifo.level))
        return fifo

    def restore(self, recovered: RecoveredQueue, by_priority: bool) -> None:
        """Take over recovered messages; without `by_priority` all of them get the default priority."""
        self.count += len(recovered)
        self.body_bytes += recovered.body_bytes
        by_level: dict[int, array[int]] = {}
        if by_priority and recovered.levels:
            for level, id_ in zip(recovered.levels, recovered.ids, strict=True):
                by_level.setdefault(level, array("Q")).append(id_)
        else:
            by_level[0] = recovered.ids
        for level, ids in by_level.items():
            self.at(level).restore(ids, recovered.deadlines_ms is not None)

    def first_nonempty(self) -> Fifo | None:
        """Return the fifo with the next message, which may still be in the backlog."""
        if self.count:
            first = self.all[0]
            if first.fresh or first.chunks.count or first.requeued is not None:
                return first
            for index, fifo in enumerate(self.all):
                if fifo.fresh or fifo.chunks.count or fifo.requeued is not None:
                    if index > EMPTY:  # it is looked for with each message
                        self.all = [each for each in self.all if len(each) or each is self.default]
                    return fifo
        return None

    def first_loaded(self) -> Fifo | None:
        """Return the fifo with the next message, which is read back if necessary; None if there is none.

        None also if very many messages could not be read, and others have not been tried.
        """
        fifo = self.first_nonempty()
        while fifo is not None and fifo.ensure_loaded() is None:
            if len(fifo):
                return None
            fifo = self.first_nonempty()
        return fifo

    def after_page_in(self, fifo: Fifo, unread: int, unread_bytes: int) -> None:
        """Correct the totals after a read in which `unread` messages of these bodies could not be read, about."""
        if fifo.exhausted:
            self.reread_later(EXHAUSTED_MS)
        if not unread and not self._estimated:
            return
        if unread:
            self.count -= unread
            self.body_bytes = max(self.body_bytes - unread_bytes, 0)
            self._estimated = True
            self.reread_later()
        if not self.paged:
            self.body_bytes = sum([fifo.body_bytes for fifo in self.all])
            self._estimated = False

    def set_aside(self, message: ShedMessage) -> None:
        """Keep a message that could not be read, not ready; it is to be read again."""
        if self.unread is None:
            self.unread = RequeuedMessages(self._ledger)
        self.unread.add_row(self.unread.rows.last + 1 if self.unread.count else 0, message)

    def reread(self) -> tuple[int, int]:
        """Read some of the unread messages again; return as `read_rows`."""
        tried, requeued = self.read_rows(self.unread, UNPAGE) if self.unread is not None else (0, 0)
        if not self.unread_count:
            self.unread = None
        return tried, requeued

    def read_rows(self, rows: RequeuedMessages, limit: int) -> tuple[int, int]:
        """Read some of the first of these rows, requeue those that can be read, and set the others aside.

        Return (tried, requeued). None is tried if the system has no descriptors or memory to spare.
        """
        first = rows.peek_rows(limit)
        read = self.read([message.id for message in first])
        rows.take_ids(len(read))  # not before the read, which may fail
        requeued = 0
        for each, message in zip(first, read, strict=False):
            if message is None:
                self.set_aside(each)
            else:
                message = self._journal.page_in(message, each.seq)
                self.at(each.position >> LEVEL_SHIFT).requeue(each.position, message, each.redelivered)
                requeued += 1
        return len(read), requeued

    def read_back(self, messages: list[ShedMessage]) -> list[Message | None]:
        """Return messages that are not ready with their contents; None, or fewer, for those not read now."""
        read = self.read([message.id for message in messages], whole=True)
        return [
            self._journal.page_in(message, shed.seq) if message is not None else None
            for shed, message in zip(messages, read, strict=False)
        ]

    def read(self, ids: list[int], whole: bool = False) -> list[Message | None]:
        """Read as `Journal.read`, or all if `whole`; charge the cost to the present request.

        `Scheduler.spent` and `read_bytes` count it.
        """
        before = self._journal.read_cost
        read = self._journal.read_all(ids) if whole else self._journal.read(ids)
        length = MESSAGE_BYTES * len(read) + read_bytes([message for message in read if message is not None])
        length = max(length, self._journal.read_cost - before)
        self.read_bytes += length
        self._queue.host.scheduler.spent += length >> COPY_SHIFT
        return read

    def _charge_looks(self, count: int) -> None:
        """Charge looks at this number of fifos to the present request."""
        self._queue.host.scheduler.spent += count >> FIFO_SHIFT

    def start_rereading(self) -> None:
        """Read unread messages again, as there is room in memory."""
        queue = self._queue
        self.reread_ms = 0
        if not self._rereading and not queue.deleted:
            self._rereading = True
            queue.host.scheduler.start(f"rereading of {queue}", self._reread_all(queue))

    def reread_later(self, wait_ms: int = REREAD_MS) -> None:
        """Read unread messages again after this time, or at an earlier time that is already set."""
        host = self._queue.host
        when_ms = host.clock.now_ms() + wait_ms
        self.reread_ms = min(self.reread_ms or when_ms, when_ms)
        host.scheduler.pump_at(self._queue, self.reread_ms)

    def _reread_all(self, queue: HostedQueue) -> Job:
        """Try each unread message once. Those that fail stay unread."""
        wait_ms = REREAD_MS
        self.awaits_room = False
        try:
            queue.schedule_pump()  # its backlog may be readable now
            yield PUMP_COST
            left, refused = self.unread_count, 0
            while left > 0 and self.unread_count and refused < REFUSED_LIMIT:
                if not self.has_room:
                    self.awaits_room = True
                    break
                before = self.read_bytes
                tried, requeued = self.reread()
                if not tried:
                    wait_ms = EXHAUSTED_MS
                    break
                left -= tried
                refused += tried - requeued
                queue.schedule_pump()
                yield PUMP_COST + (self.read_bytes - before >> STORE_SHIFT)
        finally:
            self._rereading = False
            if self.unread_count and not queue.deleted:
                self.reread_later(wait_ms)

    def remove_due(self, fifos: list[Fifo], now_ms: int, limit: int) -> tuple[list[Message], int]:
        """Remove due messages from the front of each of these fifos, at most `limit`, up to `_slice_ends`.

        Return them, and how many more may be removed soon.
        """
        read_end, removed_end = self._slice_ends()
        dead: list[Message] = []
        self._charge_looks(len(fifos))
        for fifo in fifos:
            if fifo.timed and self.removed_bytes < removed_end and self.read_bytes < read_end:
                dead += fifo.remove_due(now_ms, limit - len(dead), removed_end, read_end)
        if dead and self.awaits_room:
            self.reread_later(0)
        return dead, limit - len(dead) if self.read_bytes < read_end and self.removed_bytes < removed_end else 0

    def drop_excess(self, max_length: int, max_bytes: int, limit: int) -> tuple[list[Message], int]:
        """Remove messages from the front that exceed these limits (NONE for no limit); return as `remove_due`."""
        dropped: list[Message] = []
        read_end, removed_end = self._slice_ends()
        while (
            len(dropped) < limit
            and (NONE < max_length < self.count or NONE < max_bytes < self.body_bytes)
            and self.read_bytes < read_end
            and self.removed_bytes < removed_end
        ):
            fifo = self.first_loaded()
            if fifo is None:
                break
            many = NONE < max_length <= self.count - MANY and fifo.requeued is None
            if many and removed_end - self.removed_bytes > BATCH_BYTES:
                excess = min(self.count - max_length, limit - len(dropped), len(fifo.fresh))
                messages = fifo.take(excess, 0)[0]
                self.removed_bytes += frame_bytes(messages)
                dropped += messages
            else:
                message = fifo.pop()[1]
                self.removed_bytes += len(message.frames)
                dropped.append(message)
        return dropped, limit - len(dropped) if self.read_bytes < read_end and self.removed_bytes < removed_end else 0

    def _slice_ends(self) -> tuple[int, int]:
        """Return where `read_bytes` and `removed_bytes` may be after one step, but for the last message."""
        removed_bytes = SLICE_BYTES
        if self._ledger.dead_letters.total > FEW_BYTES:  # many dead letters wait
            removed_bytes = min(SLICE_BYTES, self._queue.dead_letter_room_bytes)
        return self.read_bytes + SLICE_BYTES, self.removed_bytes + removed_bytes

    def next_deadline_ms(self) -> int:
        """Return the earliest deadline of the first messages, or NEVER; now, if very many have to be read back.

        One that could not be read for a shortage is not tried before EXHAUSTED_MS.
        """
        self._charge_looks(len(self.all))
        earliest_ms, read_end = NEVER, self.read_bytes + SLICE_BYTES
        for fifo in self.all:
            if self.read_bytes >= read_end:
                return self._queue.host.clock.now_ms()
            deadline_ms = fifo.first_deadline_ms() if fifo.timed else NEVER
            if deadline_ms != NEVER and fifo.exhausted:
                deadline_ms = max(deadline_ms, self._queue.host.clock.now_ms() + EXHAUSTED_MS)
            if deadline_ms != NEVER and (earliest_ms == NEVER or deadline_ms < earliest_ms):
                earliest_ms = deadline_ms
        return earliest_ms

    def remove_all(self) -> deque[Chunk]:
        """Remove all messages at once. The ledger and the journal still count them until they are taken."""
        self.count = 0
        self.body_bytes = 0
        self._estimated = self.awaits_room = False
        removed = deque([chunk for fifo in self.all for chunk in fifo.remove_all()])
        if self.unread is not None:
            removed.append(self.unread)
        self.all, self.unread = [self.default], None
        return removed
