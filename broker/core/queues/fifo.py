"""The ready messages of one queue and one priority, oldest first. A queue without priorities has one fifo.

A position numbers the messages of one fifo in the order in which they were published. Fresh messages, which were never
delivered, need no stored position: the first of `fresh` has position `head`, the next one `head` + 1, and so on. A
requeued message was delivered before all fresh ones, so requeued messages form a heap in front of them, and every
message returns to its original position.

Behind PACK_ABOVE fresh messages the others are packed, which takes about half of the memory. They are unpacked when
the fresh ones have been delivered.

When the node's memory for messages is used up, new messages are stored in the journal and only their ids are kept:
the backlog, which follows the fresh and the packed messages and is read back once these are delivered. Messages that
the disk does not return are set aside and read again later; they return to their positions like requeued messages. A
requeued message whose content only the journal has stays there until those before it are delivered.
"""

from __future__ import annotations

from array import array
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from ..messages.message import VALUES, Message, ShedMessage, header_bytes_of, shed_message, total_bytes
from ..messages.message_state import NEVER
from .ledger import Ledger
from .packed_tail import PackedTail
from .paged_tail import PagedTail
from .queue_journal import QueueJournal
from .sorted_rows import SortedRows

if TYPE_CHECKING:
    from .ready_messages import ReadyMessages

LEVEL_SHIFT: Final = 48  # the bits of a position above these are the priority level (`QueueSettings.level`)
BATCH_BYTES: Final = 1 << 20  # delivered at once, whatever their number: the first may be longer than the average
PACK_ABOVE = 10_000  # fresh messages; more than queues with consumers have (`flow_control`), as packing takes time
UNPACK_BELOW = 256  # fresh messages; as many as one write to a consumer has
# Messages that a fifo may have in memory even when that of the node is used up, and bytes of its queue: messages of a
# queue whose consumers keep up pass through memory.
PAGE_ABOVE, PAGE_BYTES = 4_000, 1 << 20
UNREAD_LIMIT = 10_000  # the most successive messages that are set aside at once because they cannot be read
UNPAGE, UNPAGE_BYTES = 1_000, 4 << 20  # messages read back at once, and bytes estimated from their average


class Removed:
    """All messages that were removed from one fifo: `fresh`, `packed`, `returned` and `backlog` as in the fifo.

    `apart` has those of `away` and `unread`.
    """

    __slots__ = ("fresh", "packed", "returned", "backlog", "apart")

    def __init__(
        self,
        fresh: deque[Message],
        packed: PackedTail,
        returned: list[tuple[int, Message, bool]],
        backlog: PagedTail,
        apart: list[SortedRows],
    ) -> None:
        self.fresh = fresh
        self.packed = packed
        self.returned = returned
        self.backlog = backlog
        self.apart = apart


class Fifo:
    """The ready messages of one priority level, which it counts in the totals of its `ReadyMessages`.

    level           of the priority (`QueueSettings.level`)
    fresh           messages in memory that were not requeued; the first has the position `head`
    packed          messages behind `fresh`; none if `fresh` is empty
    returned        requeued messages: a heap of (position, message, redelivered)
    backlog         messages behind `fresh` and `packed` that are in the journal alone
    away            requeued messages that are in the journal alone: `ShedMessage.values` by position; None if there are
                    none. `away_bytes` is the sum of their bodies
    unread          likewise, messages that could not be read and are not ready, in the order in which that was tried
    exhausted       messages could not be read for lack of descriptors or memory
    restored_until  messages at positions below it were recovered at the start, and count as redelivered
    timed           some messages may have a deadline
    header_bytes    the sum of the long headers of the messages in memory (`header_bytes_of`)
    """

    __slots__ = (
        "level",
        "fresh",
        "head",
        "packed",
        "returned",
        "backlog",
        "away",
        "away_bytes",
        "unread",
        "exhausted",
        "restored_until",
        "timed",
        "header_bytes",
        "_ready",
        "_journal",
        "_ledger",
    )
    __deletable__ = ("_ready",)  # `ReadyMessages.break_cycles`

    def __init__(self, level: int, ready: ReadyMessages, journal: QueueJournal, ledger: Ledger) -> None:
        self.level = level
        self.fresh: deque[Message] = deque()
        self.head = (level << LEVEL_SHIFT) + 1
        self.packed = PackedTail(ledger)
        self.returned: list[tuple[int, Message, bool]] = []
        self.backlog = PagedTail()
        self.away: SortedRows | None = None
        self.away_bytes = 0
        self.unread: SortedRows | None = None
        self.exhausted = False
        self.restored_until = 0
        self.timed = False
        self.header_bytes = 0
        self._ready = ready
        self._journal = journal
        self._ledger = ledger

    def __len__(self) -> int:
        return self.resident + self.paged_count

    @property
    def paged_count(self) -> int:
        """The number of ready messages that are in the journal alone."""
        return len(self.backlog) + (len(self.away) if self.away is not None else 0)

    @property
    def tail(self) -> int:
        """The position of the next message to be pushed."""
        return self.head + len(self.fresh) + self.packed.count + len(self.backlog)

    def push(self, messages: list[Message], body_bytes: int, shared: bool = False, header_bytes: int = -1) -> None:
        """Append messages without deadlines, already stored if need be. HOT: bench A-M.

        `body_bytes` is the sum of their bodies, `header_bytes` of their long headers, or -1 if unknown. `shared`
        messages are also in other queues.
        """
        fresh, packed = self.fresh, self.packed
        if len(self.backlog) or self._ledger.exceeded and self._pages():
            self._page_out(messages)
        else:
            if packed.count or len(fresh) > PACK_ABOVE:
                packed.append(messages, shared)
            else:
                fresh.extend(messages)
            if header_bytes:
                if header_bytes < 0:
                    header_bytes = header_bytes_of(messages)
                self._add_headers(header_bytes)
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
        heappush(self.returned, (position, message, redelivered))
        if message.state is not None and message.state.deadline_ms != NEVER:
            self.timed = True
        self._ready.count += 1
        self._ready.body_bytes += message.body_bytes
        header_bytes = header_bytes_of([message])
        self._add_headers(header_bytes)
        self._ledger.add(1, message.body_bytes + header_bytes)

    def requeue_shed(self, message: ShedMessage) -> None:
        """Put a message whose content only the journal has back in its original place."""
        if self.away is None:
            self.away = SortedRows(VALUES)
        self.away.add(message.position, message.values())
        self.away_bytes += message.body_bytes
        self._ledger.shed(1)
        self.timed = self.timed or message.timed
        self._ready.count += 1
        self._ready.body_bytes += message.body_bytes

    def restore(self, ids: array[int], timed: bool) -> None:
        """Take over recovered messages; `ReadyMessages.restore` counts them."""
        self.restored_until = self.head + len(ids)
        self.timed = timed
        self.backlog.restore(ids)

    def ensure_loaded(self) -> Message | None:
        """Return the first message, which is read back if necessary, or None.

        Messages that cannot be read are set aside. Returns None if no message is left, or if the first one cannot be
        read now: very many messages could not be read, so that other queues have their turn first, or the fifo is
        `exhausted`.
        """
        if self.away is not None:
            passed = 0
            self.exhausted = False
            while self.away_first and passed < UNREAD_LIMIT and not self.exhausted:
                passed += self._recall()
            if self.away_first:
                return None
        if self.returned:
            return self.returned[0][1]
        if self.fresh:
            return self.fresh[0]
        if not len(self.backlog):
            return None
        average_bytes = self._ready.average_bytes
        passed = 0
        self.exhausted = False
        while not self.fresh and len(self.backlog) and passed < UNREAD_LIMIT and not self.exhausted:
            passed += self._page_in(average_bytes)
        self._ready.after_page_in(self, passed, passed * average_bytes)
        return self.fresh[0] if self.fresh else None

    def pop(self) -> tuple[int, Message, bool]:
        """Remove the first message, which is in memory; return (position, message, redelivered)."""
        taken = self._pop()
        if self._ready.awaits_room and not self.returned:
            self._ready.start_rereading()
        return taken

    def _pop(self) -> tuple[int, Message, bool]:
        if self.returned:
            position, message, redelivered = heappop(self.returned)
        else:
            position, message = self.head, self.fresh.popleft()
            redelivered = position < self.restored_until
            self.head += 1
            if not self.fresh and self.packed.count:
                self.fresh.extend(self.packed.take())
        self._ready.count -= 1
        self._ready.body_bytes -= message.body_bytes
        header_bytes = header_bytes_of([message]) if self.header_bytes else 0
        self.header_bytes -= header_bytes
        self._ledger.add(-1, -message.body_bytes - header_bytes)
        return position, message, redelivered

    def take(self, count: int, now_ms: int) -> tuple[list[Message], int]:
        """Remove fresh messages from the front; return them and the sum of their bodies.

        `returned` must be empty and the first message not due. Returns at most `count` messages; fewer if they are long
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
                messages = []
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
            packed = self.packed
            while packed.count and len(fresh) < UNPACK_BELOW:
                fresh.extend(packed.take())
        taken = len(messages)
        self.head += taken
        ready.count -= taken
        ready.body_bytes -= taken_bytes
        if header_bytes:
            self.header_bytes -= header_bytes
        self._ledger.add(-taken, -taken_bytes - header_bytes)
        return messages, taken_bytes

    def remove_due(self, now_ms: int, limit: int, removed_end: int, read_end: int) -> list[Message]:
        """Remove and return due messages from the front, at most `limit`. Only the front expires, as in RabbitMQ.

        Stop where `ReadyMessages.removed_bytes` has reached `removed_end`, or `read_bytes` has reached `read_end`.
        """
        dead: list[Message] = []
        ready = self._ready
        message = self.ensure_loaded()
        while message is not None and len(dead) < limit and due(message, now_ms) and ready.read_bytes < read_end:
            dead.append(self._pop()[1])
            ready.removed_bytes += len(message.frames)
            if ready.removed_bytes >= removed_end:
                return dead
            message = self.ensure_loaded()
        if message is None and not len(self):  # else the disk does not return the next one now
            self.timed = False
        return dead

    def deadline_ms(self) -> int:
        """Return the deadline of the first message if it is in memory, else NEVER."""
        message = self.first_resident
        return message.state.deadline_ms if message is not None and message.state is not None else NEVER

    @property
    def away_first(self) -> bool:
        """Whether the first message is one of `away`."""
        return self.away is not None and (not self.returned or self.away.first < self.returned[0][0])

    @property
    def first_resident(self) -> Message | None:
        """The first message if it is in memory."""
        if self.away_first:
            return None
        return self.returned[0][1] if self.returned else self.fresh[0] if self.fresh else None

    @property
    def first_position(self) -> int:
        """The position of the first message, or of the next one."""
        first = min(self.returned[0][0], self.head) if self.returned else self.head
        return min(self.away.first, first) if self.away is not None else first

    def remove_all(self) -> Removed:
        """Remove all messages at once. The ledger and the journal still count them until `release`."""
        apart = [rows for rows in (self.away, self.unread) if rows is not None]
        removed = Removed(self.fresh, self.packed, self.returned, self.backlog, apart)
        self._ledger.shed(-sum(map(len, apart)))
        self.away = self.unread = None
        self.away_bytes = 0
        self.head = self.tail
        self.fresh, self.packed, self.returned, self.backlog = deque(), PackedTail(self._ledger), [], PagedTail()
        self.timed = False
        self.header_bytes = 0
        return removed

    # Paging

    def _pages(self) -> bool:
        """Return whether new messages are kept in the journal alone, as the node's memory for messages is used up."""
        ready = self._ready
        return len(self.fresh) + self.packed.count > PAGE_ABOVE or ready.body_bytes + self.header_bytes > PAGE_BYTES

    def _page_out(self, messages: list[Message]) -> None:
        """Keep the id of each message only; the journal stores those that it does not have for this queue."""
        for page in self._journal.page_out(messages):
            self.backlog.append(page.id, page.seq)

    def _page_in(self, average_bytes: int) -> int:
        """Read the next messages of the backlog, set aside those that cannot be read, and return their number."""
        read = self._journal.read(self.backlog.peek(slice_of(average_bytes)))
        self.exhausted = not read
        self._ready.charge_read(read)
        seqs = self.backlog.seqs(len(read))
        fresh: list[Message] = []
        for id_, seq, message in zip(self.backlog.take(len(read)), seqs, read, strict=True):
            if message is not None:
                fresh.append(self._resident(message, seq))
            else:
                redelivered = self.head < self.restored_until
                self.set_aside(
                    ShedMessage(self.head, id_, seq, average_bytes, average_bytes, False, False, redelivered)
                )
                self.head += 1
        self.fresh.extend(fresh)
        header_bytes = header_bytes_of(fresh)
        self._add_headers(header_bytes)
        self._ledger.add(len(fresh), total_bytes(fresh) + header_bytes)
        return len(read) - len(fresh)

    @property
    def used(self) -> bool:
        """Whether it has messages, be they unread."""
        return bool(self.fresh or self.returned) or self.paged_count > 0 or self.unread is not None

    @property
    def unread_count(self) -> int:
        """The number of messages that could not be read."""
        return len(self.unread) if self.unread is not None else 0

    @property
    def has_room(self) -> bool:
        """True if messages may be read into memory before consumers need them."""
        return not self._ledger.exceeded or self.resident <= PAGE_ABOVE

    @property
    def resident(self) -> int:
        """The number of messages in memory."""
        return len(self.fresh) + self.packed.count + len(self.returned)

    @property
    def resident_bytes(self) -> int:
        """The sum of their bodies."""
        returned = total_bytes([message for _, message, _ in self.returned])
        return returned + total_bytes(list(self.fresh)) + self.packed.body_bytes

    def reread(self) -> tuple[int, int]:
        """Read some of the unread messages again and requeue those that can be read; return (tried, requeued).

        None is tried if there are none, or if the system has no descriptors or memory to spare.
        """
        if self.unread is None:
            return 0, 0
        first = first_shed(self.unread, UNPAGE)
        read = self._read(first)
        self.unread.take(len(read))  # not before the read, which may fail
        self._ledger.shed(-len(read))
        requeued = self._requeue_read(first, read)
        if self.unread is not None and not len(self.unread):
            self.unread = None
        return len(read), requeued

    def _recall(self) -> int:
        """Read the first messages of `away`, set aside those that cannot be read, and return their number."""
        assert self.away is not None
        first = first_shed(self.away, max(UNPAGE >> 1, 1))  # these are delivered one by one
        if self.returned:  # no more than have to come before those that are in memory
            first = [message for message in first if message.position < self.returned[0][0]]
        read = self._read(first)
        self.exhausted = not read
        self.away.take(len(read))
        self._ledger.shed(-len(read))
        if not len(self.away):
            self.away = None
        body_bytes = total_bytes(list(first[: len(read)]))
        unread_bytes = sum([shed.body_bytes for shed, each in zip(first, read, strict=False) if each is None])
        self.away_bytes -= body_bytes
        requeued = self._requeue_read(first, read)
        self._ready.count -= requeued  # which has counted them again
        self._ready.body_bytes -= body_bytes - unread_bytes
        self._ready.after_page_in(self, len(read) - requeued, unread_bytes)
        return len(read) - requeued

    def _read(self, shed: list[ShedMessage]) -> list[Message | None]:
        """Read messages, as far as `Journal.read` does."""
        read = self._journal.read([message.id for message in shed])
        self._ready.charge_read(read)
        return read

    def _requeue_read(self, shed: list[ShedMessage], read: list[Message | None]) -> int:
        """Requeue messages that were read, set the others aside, and return the number of the first."""
        requeued = 0
        for each, message in zip(shed, read, strict=False):
            if message is None:
                self.set_aside(each)
            else:
                self.requeue(each.position, self._resident(message, each.seq), each.redelivered)
                requeued += 1
        return requeued

    def read_back(self, messages: list[ShedMessage]) -> list[Message | None]:
        """Return messages that are not in the fifo with their contents; None, or fewer, for those not read now."""
        read = self._journal.read_all([message.id for message in messages])
        self._ready.charge_read(read)
        return [
            self._resident(message, shed.seq) if message is not None else None
            for shed, message in zip(messages, read, strict=False)
        ]

    def set_aside(self, message: ShedMessage) -> None:
        """Keep a message that could not be read, not ready; it is to be read again."""
        if self.unread is None:
            self.unread = SortedRows(VALUES)
        self.unread.add(self.unread.last + 1 if len(self.unread) else 0, message.values())
        self._ledger.shed(1)

    def _resident(self, message: Message, seq: int) -> Message:
        """Return a message that was read back with the state and headers that it had before it was paged out."""
        message.seq = seq
        self._journal.page_in(message)
        return message.with_delivery_count(message.state) if message.state and message.state.attempts else message


def slice_of(average_bytes: int) -> int:
    """Return the number of messages to read at once, for bodies of about this length."""
    return min(UNPAGE, UNPAGE_BYTES // (average_bytes + 1) + 1)


def first_shed(rows: SortedRows, count: int) -> list[ShedMessage]:
    """Return the first messages of these rows, at most `count`: as many as are to be read at once."""
    first: list[ShedMessage] = []
    left_bytes = UNPAGE_BYTES
    for _, values, _ in rows.peek(count):
        first.append(shed_message(*values))
        left_bytes -= first[-1].content_bytes
        if left_bytes < 0:
            break
    return first


def due(message: Message, now_ms: int) -> bool:
    """Return whether the deadline of the message has passed, so that it must not be delivered."""
    state = message.state
    return state is not None and NEVER < state.deadline_ms <= now_ms
