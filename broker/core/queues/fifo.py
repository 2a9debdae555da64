"""The ready messages of one queue that have one priority, oldest first. A queue without priorities is one line.

A position numbers the messages of one line in the order in which they were published. Fresh messages, never delivered
before, need no number of their own: the one at the front of `fresh` has position `head`, and so on. A message that
comes back was delivered before all that are still fresh, so those that came back form a heap in front of them, and
every message returns to its original place (spec/core.md 9.5, 9.9).

When the node's memory for messages is spent, what comes is stored and only its place remembered: the backlog, behind
all that is fresh, read back when that has been delivered. Messages of it that the disk did not give are read later, and
come back to their places as those do that were delivered.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from ..messages.message import Message
from ..messages.message_state import NEVER
from ..messages.ports import Pages
from .memory_budget import MemoryBudget
from .paged_tail import PagedTail, Unread
from .queue_journal import QueueJournal

LEVEL_SHIFT = 48  # a position's bits above it are the level (`Rules.level`)
BATCH_BYTES = 1 << 20  # handed over at once, however many messages: those in front may be longer than the average
PAGE_ABOVE = 4_000  # messages that a line may have in memory even when the node's budget is spent
UNREAD_LIMIT = 10_000  # messages that are set aside at once, one after the other, because they cannot be read
UNPAGE, UNPAGE_BYTES = 1_000, 4 << 20  # messages that are read back at once, and octets by their average


class Removed:
    """All that one line had: `fresh`, `returned` and `backlog` as the line has them."""

    __slots__ = ("fresh", "returned", "backlog")

    def __init__(self, fresh: deque[Message], returned: list[tuple[int, Message, bool]], backlog: PagedTail) -> None:
        self.fresh = fresh
        self.returned = returned
        self.backlog = backlog


class Fifo:
    """`number` is what the journal knows the queue by, 0 where it is not durable.

    `returned` is a heap of (position, message, redelivered). `unread` are those that the disk did not give: they are
    not ready, and come back to their places when it does. `exhausted` says that the backlog could not be read because
    the system had no descriptor or memory to spare: it stays as it is.
    `timed` says that some of them may have a deadline. Positions below `restored_until` were there before a restart,
    and count as delivered before.
    """

    __slots__ = (
        "level",
        "fresh",
        "head",
        "returned",
        "backlog",
        "unread",
        "exhausted",
        "restored_until",
        "timed",
        "_journal",
        "_budget",
    )

    def __init__(self, level: int, journal: QueueJournal, budget: MemoryBudget) -> None:
        self.level = level
        self.fresh: deque[Message] = deque()
        self.head = (level << LEVEL_SHIFT) + 1
        self.returned: list[tuple[int, Message, bool]] = []
        self.backlog = PagedTail()
        self.unread: Unread | None = None
        self.exhausted = False
        self.restored_until = 0
        self.timed = False
        self._journal = journal
        self._budget = budget

    def __len__(self) -> int:
        return len(self.fresh) + len(self.returned) + len(self.backlog)

    @property
    def tail(self) -> int:
        """The position of the next message to be pushed."""
        return self.head + len(self.fresh) + len(self.backlog)

    def push(self, messages: list[Message], body_bytes: int) -> None:
        """At the tail, already stored if they are to be; `body_bytes` is the sum of their bodies. HOT: bench A-M."""
        if len(self.backlog) or (self._budget.exceeded and len(self.fresh) > PAGE_ABOVE):
            self._page(messages)
        else:
            self.fresh.extend(messages)
            self._budget.add(len(messages), body_bytes)

    def back(self, position: int, message: Message, redelivered: bool = True) -> None:
        """Put a message back in its original place."""
        heappush(self.returned, (position, message, redelivered))
        if message.life is not None and message.life.deadline_ms != NEVER:
            self.timed = True
        self._budget.add(1, message.body_bytes)

    def restore(self, pages: Pages, timed: bool) -> None:
        """What a stop of the broker left: the journal has it. Nobody knows what of it had been delivered."""
        self.restored_until = self.head + len(pages)
        self.timed = timed
        self.backlog.restore(pages)

    def front(self, average_bytes: int) -> Message | None:
        """Return the next to go, read back if need be; a body takes about that many bytes.

        None also where so many cannot be read that others are to have their turn first, and where the line is
        `exhausted`.
        """
        if self.returned:
            return self.returned[0][1]
        passed = 0
        self.exhausted = False
        while not self.fresh and len(self.backlog) and passed < UNREAD_LIMIT and not self.exhausted:
            passed += self._unpage(average_bytes)
        return self.fresh[0] if self.fresh else None

    @property
    def next(self) -> Message:
        """The one at the front. It must be in memory, as after `front`."""
        return self.returned[0][1] if self.returned else self.fresh[0]

    def pop(self) -> tuple[int, Message, bool]:
        """Take it as (position, message, redelivered)."""
        if self.returned:
            position, message, again = heappop(self.returned)
        else:
            position, message = self.head, self.fresh.popleft()
            again = position < self.restored_until
            self.head += 1
        self._budget.add(-1, -message.body_bytes)
        return position, message, again

    def take(self, count: int, all_bytes: int, now_ms: int) -> tuple[list[Message], int]:
        """Fresh messages from the front, and the sum of their bodies. Nothing has come back, and the first is alive.

        That many, or fewer: where they are long, and in front of one that is due. `all_bytes` is the sum where the
        count is all there are, and -1 where it is not. HOT: bench A-M.
        """
        fresh = self.fresh
        if 0 <= all_bytes <= BATCH_BYTES and not self.timed:
            messages = list(fresh)
            fresh.clear()
            taken_bytes = all_bytes
        else:
            messages = []
            taken_bytes = 0
            while len(messages) < count and taken_bytes <= BATCH_BYTES:
                if self.timed and due(fresh[0], now_ms):
                    break
                message = fresh.popleft()
                taken_bytes += message.body_bytes
                messages.append(message)
        self.head += len(messages)
        self._budget.add(-len(messages), -taken_bytes)
        return messages, taken_bytes

    def expired(self, now_ms: int, average_bytes: int, limit: int) -> list[Message]:
        """Remove from the front what is due, so many at the most. Only the front expires (spec/core.md 14)."""
        dead: list[Message] = []
        message = self.front(average_bytes)
        while message is not None and len(dead) < limit and due(message, now_ms):
            dead.append(self.pop()[1])
            message = self.front(average_bytes)
        if message is None and not self.backlog:  # else it is one that the disk does not give now
            self.timed = False
        return dead

    def deadline_ms(self) -> int:
        """Of the one at the front, if it is in memory."""
        message = self.returned[0][1] if self.returned else self.fresh[0] if self.fresh else None
        return message.life.deadline_ms if message is not None and message.life is not None else NEVER

    def remove_all(self) -> Removed:
        """Take out all, at once however many they are. The budget and the journal still count them (`release`)."""
        if self.unread is not None:
            self.backlog.extend(self.unread.pages)
            self.unread = None
        removed = Removed(self.fresh, self.returned, self.backlog)
        self.head = self.tail
        self.fresh, self.returned, self.backlog = deque(), [], PagedTail()
        self.timed = False
        return removed

    def _page(self, messages: list[Message]) -> None:
        """Keep of each message only where it stands; the journal gets what it has not for this queue already."""
        for page in self._journal.page_out(messages):
            self.backlog.append(page.id, page.place, page.seq)

    def _unpage(self, average_bytes: int) -> int:
        """Read the next of the backlog; how many in front of them the disk did not give, which are set aside."""
        read = self._journal.read(self.backlog.peek(slice_of(average_bytes)))
        self.exhausted = not read
        seqs = self.backlog.seqs(len(read))
        fresh: list[Message] = []
        for page, seq, message in zip(self.backlog.take(len(read)), seqs, read, strict=True):
            if message is not None:
                fresh.append(self._resident(message, seq))
            else:
                if self.unread is None:
                    self.unread = Unread()
                self.unread.append(self.head, *page, seq)
                self.unread.average_bytes = average_bytes
                self.head += 1
        self.fresh.extend(fresh)
        self._budget.add(len(fresh), sum(message.body_bytes for message in fresh))
        return len(read) - len(fresh)

    @property
    def unread_count(self) -> int:
        return len(self.unread) if self.unread is not None else 0

    @property
    def has_room(self) -> bool:
        """Whether more may be read into memory than is asked for."""
        return not self._budget.exceeded or len(self.fresh) + len(self.returned) <= PAGE_ABOVE

    def reread(self) -> tuple[int, list[Message]]:
        """Try again a slice of those that could not be read: how many were tried, and which are in their places now.

        None is tried where there is none, or the system has no descriptor or memory to spare.
        """
        if self.unread is None:
            return 0, []
        entries = self.unread.peek(slice_of(self.unread.average_bytes))
        read = self._journal.read_all([(id_, place) for _, id_, place, _ in entries])
        self.unread.take(len(read))  # not before the read, which may fail
        messages: list[Message] = []
        for (position, id_, place, seq), message in zip(entries, read, strict=False):
            if message is None:
                self.unread.append(position, id_, place, seq)
            else:
                messages.append(self._resident(message, seq))
                self.back(position, messages[-1], position < self.restored_until)
        if not len(self.unread):
            self.unread = None
        return len(read), messages

    def _resident(self, message: Message, seq: int) -> Message:
        """One that was read, as it was before it was paged out."""
        message.seq = seq
        self._journal.page_in(message)
        return message.counted(message.life) if message.life and message.life.attempts else message


def slice_of(average_bytes: int) -> int:
    """How many messages with bodies of about that size are read at once."""
    return min(UNPAGE, UNPAGE_BYTES // (average_bytes + 1) + 1)


def due(message: Message, now_ms: int) -> bool:
    """Whether it must not be delivered any more."""
    life = message.life
    return life is not None and NEVER < life.deadline_ms <= now_ms
