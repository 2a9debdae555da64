"""All ready messages of one queue: one line for each priority that was used, the highest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..messages.message import Message, total_bytes
from ..messages.message_state import NEVER
from ..messages.ports import Pages, RecoveredQueue
from .fifo import LEVEL_SHIFT, Fifo, Removed
from .memory_budget import MemoryBudget
from .queue_journal import QueueJournal
from .queue_settings import NONE, QueueSettings
from .reread import EXHAUSTED_MS

if TYPE_CHECKING:
    from .queue import Queue


class ReadyMessages:
    """`default` is the line of messages without a priority of their own.

    `count` is how many there are in all, `body_bytes` the sum of their bodies. Those that could not be read belong to
    neither; as nobody knows how long they are, the sum is an estimate from then until all that are ready are in memory.
    `awaits_room` says that some of those are read again as soon as others have left memory.
    """

    __slots__ = (
        "default",
        "all",
        "count",
        "body_bytes",
        "awaits_room",
        "_estimated",
        "_rules",
        "_queue",
        "_journal",
        "_budget",
    )

    def __init__(self, queue: Queue, rules: QueueSettings, journal: QueueJournal, budget: MemoryBudget) -> None:
        self.default = Fifo(0, journal, budget)
        self.all = [self.default]
        self.count = 0
        self.body_bytes = 0
        self.awaits_room = False
        self._estimated = False
        self._rules = rules
        self._queue = queue
        self._journal = journal
        self._budget = budget

    @property
    def average_bytes(self) -> int:
        """Of a body."""
        return max(self.body_bytes, 0) // (self.count or 1)

    @property
    def timed(self) -> bool:
        """Whether any of them may have a deadline."""
        if len(self.all) == 1:
            return self.default.timed
        return any(line.timed for line in self.all)

    @property
    def paged(self) -> bool:
        """Whether some of them are in the journal alone, and so is what comes, whatever its delivery mode."""
        return any(len(line.backlog) for line in self.all)

    def at(self, level: int) -> Fifo:
        """The line of that level (`QueueSettings.level`)."""
        if not level:
            return self.default
        for line in self.all:
            if line.level == level:
                return line
        line = Fifo(level, self._journal, self._budget)
        self.all.append(line)
        self.all.sort(key=lambda line: -self._rules.priority(line.level))
        return line

    def push(self, level: int, messages: list[Message], body_bytes: int) -> None:
        """At the tail of that level; any of them may have a deadline."""
        line = self.at(level)
        line.push(messages, body_bytes)
        line.timed = line.timed or any(
            message.life is not None and message.life.deadline_ms != NEVER for message in messages
        )
        self.count += len(messages)
        self.body_bytes += body_bytes

    def back(self, position: int, message: Message) -> None:
        """To its original place."""
        self.at(position >> LEVEL_SHIFT).back(position, message)
        self.count += 1
        self.body_bytes += message.body_bytes

    def restore(self, recovered: RecoveredQueue, by_priority: bool) -> None:
        """Take over recovered messages; without `by_priority` all of them get the default priority."""
        self.count += len(recovered)
        self.body_bytes += recovered.body_bytes
        by_level: dict[int, Pages] = {}
        if by_priority and recovered.levels:
            for level, page in zip(recovered.levels, recovered, strict=True):
                by_level.setdefault(level, Pages()).append(*page)
        else:
            by_level[0] = recovered
        for level, pages in by_level.items():
            self.at(level).restore(pages, recovered.deadlines_ms is not None)

    def first(self) -> Fifo | None:
        """The line with what is to go next; it may still have to be read back."""
        if self.count:
            for line in self.all:
                if line.fresh or line.returned or len(line.backlog):
                    return line
        return None

    def front(self) -> Fifo | None:
        """Likewise, read back; None also where very many cannot be read, and some are still to be tried."""
        line = self.first()
        while line is not None and self.read_back(line) is None:
            if len(line.backlog):
                return None
            line = self.first()
        return line

    def read_back(self, line: Fifo) -> Message | None:
        """The next of this line; what cannot be read is not ready any more."""
        if line.fresh or line.returned:
            return line.next
        there = len(line)
        average_bytes = self.average_bytes
        message = line.front(average_bytes)
        self._was_read(line, there - len(line), average_bytes)
        return message

    def _was_read(self, line: Fifo, unread: int, average_bytes: int) -> None:
        """So many more of this line could not be read, of which each was about that long."""
        if line.exhausted:
            self._queue.home.rereading.add(self._queue, EXHAUSTED_MS)
        if not unread and not self._estimated:
            return
        if unread:
            self.count -= unread
            self.body_bytes = max(self.body_bytes - unread * average_bytes, 0)
            self._estimated = True
            self._queue.home.rereading.add(self._queue)
        if not any(len(line.backlog) for line in self.all):
            self.body_bytes = sum(message.body_bytes for message in self.resident())
            self._estimated = False

    @property
    def unread_count(self) -> int:
        """Messages that could not be read."""
        return sum(line.unread_count for line in self.all)

    def reread(self, line: Fifo) -> tuple[int, int]:
        """Try again a slice of what could not be read of this line: how many were tried, and how many are ready now."""
        tried, back = line.reread()
        self.count += len(back)
        self.body_bytes += total_bytes(back)
        return tried, len(back)

    def pop(self, line: Fifo) -> tuple[int, Message, bool]:
        """The one at the front of this line, which is in memory, as (position, message, redelivered)."""
        taken = line.pop()
        self.count -= 1
        self.body_bytes -= taken[1].body_bytes
        if self.awaits_room and not line.returned:
            self._queue.home.rereading.start(self._queue)
        return taken

    def expired(self, now_ms: int, limit: int) -> list[Message]:
        """Remove what is due from the front of each line, so many at the most."""
        dead: list[Message] = []
        for line in self.all:
            if line.timed:
                there, average_bytes = len(line), self.average_bytes
                expired = line.expired(now_ms, average_bytes, limit - len(dead))
                self.count -= len(expired)
                self.body_bytes -= total_bytes(expired)
                self._was_read(line, there - len(line) - len(expired), average_bytes)
                dead += expired
        return dead

    def surplus(self, max_length: int, max_bytes: int, limit: int) -> list[Message]:
        """Remove from the front what exceeds these, each NONE for no limit; so many at the most."""
        dropped: list[Message] = []
        while len(dropped) < limit and (NONE < max_length < self.count or NONE < max_bytes < self.body_bytes):
            line = self.front()
            if line is None:
                break
            dropped.append(self.pop(line)[1])
        return dropped

    def resident(self) -> list[Message]:
        """Those that are in memory."""
        there: list[Message] = []
        for line in self.all:
            there += [message for _, message, _ in line.returned]
            there += line.fresh
        return there

    def next_deadline_ms(self) -> int:
        """When the next of them is due, NEVER where none is."""
        earliest_ms = NEVER
        for line in self.all:
            if line.timed and self.read_back(line) is not None:
                deadline_ms = line.deadline_ms()
                if deadline_ms != NEVER and (earliest_ms == NEVER or deadline_ms < earliest_ms):
                    earliest_ms = deadline_ms
        return earliest_ms

    def remove_all(self) -> list[Removed]:
        """Take out all, at once however many they are. The budget and the journal still count them (`release`)."""
        self.count = 0
        self.body_bytes = 0
        self._estimated = self.awaits_room = False
        return [line.remove_all() for line in self.all]
