"""All ready messages of one queue: a fifo for each priority in use, the highest priority first.

Messages that the disk did not return are read again every ten seconds; once it returns them, all of them, in slices, as
far as there is memory for them. A backlog that the system had no descriptors or memory to read is read again after a
second.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import deque
from typing import TYPE_CHECKING

from ..jobs.scheduler import COPY_SHIFT, PUMP_COST, STORE_SHIFT, Job
from ..messages.message import Message, ShedMessage, frame_bytes, read_bytes
from ..messages.message_state import NEVER
from ..messages.ports import RecoveredQueue
from .chunks import Chunk
from .dead_lettering import FEW_BYTES
from .fifo import BATCH_BYTES, LEVEL_SHIFT, UNPAGE, Fifo, ReadyTotals
from .ledger import Ledger
from .queue_journal import QueueJournal
from .queue_settings import NONE, QueueSettings
from .returned import Returned

if TYPE_CHECKING:
    from .queue import Queue

EMPTY = 8  # fifos without messages that are looked at before the next one; more of them leave `ReadyMessages.all`
MANY = 32  # messages in memory that are dropped together
FIFO_SHIFT = 1  # to look at 2 fifos costs 1 (`jobs.scheduler`)
MESSAGE_BYTES = 6 << 10  # that take as long to read as one message does by itself
REREAD_MS, EXHAUSTED_MS = 10_000, 1_000
REFUSED_LIMIT = 10_000  # unread messages that may fail again in one attempt
SLICE_BYTES = 4 << 20  # of messages that expire or are dropped at once, and of those that are read back for that


class ReadyMessages(ReadyTotals):
    """The ready messages of one queue.

    default        the fifo of messages without a priority of their own
    all            the fifos with messages, `default` and perhaps some others, the highest priority first
    reread_ms      when unread messages are read again; 0 if none are, or a job reads them

    `unread` has messages that the disk did not return, in the order in which that was tried, or is None. They belong to
    neither total. As their length is unknown, `body_bytes` is an estimate from then until all ready messages are in
    memory.
    """

    __slots__ = (
        "default",
        "all",
        "unread",
        "reread_ms",
        "_rereading",
        "_fifos",
        "_estimated",
        "_settings",
        "_queue",
        "_journal",
        "_ledger",
    )
    __deletable__ = ("_queue",)  # `break_cycles`

    def __init__(self, queue: Queue, settings: QueueSettings, journal: QueueJournal, ledger: Ledger) -> None:
        super().__init__()
        self.default = Fifo(0, self, journal, ledger)
        self.all = [self.default]
        self._fifos: dict[int, Fifo] = {}  # the other ones by level, also those that all their messages have left
        self.unread: Returned | None = None
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
        if len(self.all) == 1:
            return self.default.timed
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

    def can_be_delivered(self, body_bytes: int) -> bool:
        return self._queue.can_deliver(body_bytes)

    def has_few_resident(self, count: int) -> bool:
        if self.count <= count:
            return True
        self._charge_looks(len(self.all))
        return self.resident <= count

    @property
    def unread_count(self) -> int:
        """The number of messages that could not be read."""
        return self.unread.count if self.unread is not None else 0

    def has_few_bytes(self, limit_bytes: int) -> bool:
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
            if first.fresh or first.chunks.count or first.returned is not None:
                return first
            for index, fifo in enumerate(self.all):
                if fifo.fresh or fifo.chunks.count or fifo.returned is not None:
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
        if self.unread is None:
            self.unread = Returned(self._ledger)
        self.unread.add_row(self.unread.rows.last + 1 if self.unread.count else 0, message)

    def reread(self) -> tuple[int, int]:
        """Read some of the unread messages again; return as `read_rows`."""
        tried, requeued = self.read_rows(self.unread, UNPAGE) if self.unread is not None else (0, 0)
        if not self.unread_count:
            self.unread = None
        return tried, requeued

    def read_rows(self, rows: Returned, limit: int) -> tuple[int, int]:
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
        before = self._journal.read_cost
        read = self._journal.read_all(ids) if whole else self._journal.read(ids)
        length = MESSAGE_BYTES * len(read) + read_bytes([message for message in read if message is not None])
        length = max(length, self._journal.read_cost - before)
        self.read_bytes += length
        self._queue.host.scheduler.spent += length >> COPY_SHIFT
        return read

    def _charge_looks(self, count: int) -> None:
        """Charge looks at so many fifos to whatever has caused them."""
        self._queue.host.scheduler.spent += count >> FIFO_SHIFT

    def start_rereading(self) -> None:
        queue = self._queue
        self.reread_ms = 0
        if not self._rereading and not queue.deleted:
            self._rereading = True
            queue.host.scheduler.start(f"rereading of {queue}", self._reread_all(queue))

    def reread_later(self, wait_ms: int = REREAD_MS) -> None:
        host = self._queue.host
        when_ms = host.clock.now_ms() + wait_ms
        self.reread_ms = min(self.reread_ms or when_ms, when_ms)
        host.scheduler.pump_at(self._queue, self.reread_ms)

    def _reread_all(self, queue: Queue) -> Job:
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
            many = NONE < max_length <= self.count - MANY and fifo.returned is None
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
            removed_bytes = min(SLICE_BYTES, self._queue.outbox.room_bytes)
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
