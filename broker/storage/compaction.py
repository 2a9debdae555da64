"""Getting rid of segments: at once where nothing in them is wanted, after copying what is where that is little.

A segment can only go once a checkpoint says of all other segments what its own records say of them (that this or that
message is dead). Copies get a new id and keep their order. The old one is dead only once the copy is durable, one batch
later: whenever the machine stops, there is at least one of them, and recovery counts it once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING

from ..core.messages.ports import EXHAUSTED, FULL
from . import checkpoint, log_records
from .relocations import Moved
from .segment import OFFSET_BITS, OFFSET_MASK, Segment
from .segment_reader import RETRY_S, Shortage

if TYPE_CHECKING:
    from .journal import Journal

REFUSED_S = 600.0  # until a segment is copied from again that the disk did not give: each attempt may take seconds
SLICE_BYTES = 256 << 10  # of a segment that is copied from, in one batch
WANTED_SHARE = 4  # a segment is copied from when less than this fraction (1/4) of its messages is wanted


class Compaction:
    """`moved`: by the number of the segment that a message in memory still names, where its messages are now."""

    __slots__ = ("moved", "_journal", "_source", "_at", "_left", "_lent", "_removed")

    def __init__(self, journal: Journal) -> None:
        self.moved: dict[int, Moved] = {}
        self._journal = journal
        self._source: Segment | None = None
        self._at = 0
        self._left: dict[int, float] = {}  # by the number of a segment that could not be read: when to try it again
        self._lent = False  # a checkpoint is being made of what segments know
        self._removed: list[Segment] = []  # by the worker, in the batch that is outstanding

    def forward(self, id_: int, location: int) -> tuple[int, int]:
        """Return where a message is now; each queue that has it calls this once, to read or to settle it."""
        while (moved := self.moved.get(number := location >> OFFSET_BITS)) is not None:
            there = moved.take(location & OFFSET_MASK)
            if there is None:
                break
            if not moved.pending:
                del self.moved[number]
            id_, location = there
        return id_, location

    def where(self, id_: int, location: int) -> tuple[int, int]:
        """Where a message stands now; it will be asked for again."""
        while (moved := self.moved.get(location >> OFFSET_BITS)) is not None:
            there = moved.find(location & OFFSET_MASK)
            if there is None:
                break
            id_, location = there
        return id_, location

    def step(self) -> None:
        """Before a batch is sealed: copy a slice of a segment that is mostly dead."""
        if self._source is None:
            self._source = self._choose()
            self._at = log_records.SEGMENT_HEAD_BYTES
        if self._source is None:
            return
        try:
            self._copy(self._source)
        except Shortage:
            self._leave(self._source, RETRY_S)
        except OSError as error:
            self._journal.reader.failed(self._source, self._at, error)
            self._leave(self._source, REFUSED_S)

    def removal(self, current: Segment) -> Callable[[], None] | None:
        """What the worker does once the batch being sealed is durable: a checkpoint, then the end of dead segments."""
        journal = self._journal
        dead = [segment for segment in journal.segments.values() if segment is not current and not segment.live]
        if not dead:
            return None
        snapshot = journal.snapshot()
        self._lent = True
        disk = journal.disk
        removed = self._removed

        def remove() -> None:
            try:
                checkpoint.save(disk, snapshot.encode())
            except OSError as error:
                if error.errno in (*FULL, *EXHAUSTED):
                    return  # another time
                raise
            for segment in dead:
                with suppress(FileNotFoundError):  # nothing was written to it, or a full disk came in between
                    disk.remove(segment.name)
                removed.append(segment)
            disk.sync_folder()

        return remove

    def committed(self) -> None:
        if self._lent:
            self._journal.give_back()
            self._lent = False
        for segment in self._removed:
            self._journal.reader.forget(segment)
            self._journal.segments.pop(segment.number, None)
            self._left.pop(segment.number, None)
            if segment is self._source:
                self._source = None
        self._removed.clear()

    def _choose(self) -> Segment | None:
        journal = self._journal
        for segment in journal.segments.values():
            if (
                not journal.is_current(segment)
                and segment.live
                and segment.live * WANTED_SHARE < segment.total
                and self._may_read(segment)
            ):
                return segment
        return None

    def _may_read(self, segment: Segment) -> bool:
        """Whether it could be read the last time, or that is long ago."""
        again_s = self._left.get(segment.number)
        return again_s is None or self._journal.reader.now_s() >= again_s

    def _copy(self, source: Segment) -> None:
        """Copy what is wanted of the next slice to the end of the log."""
        journal = self._journal
        reader = journal.reader
        data = reader.read(source, self._at, min(SLICE_BYTES, source.length - self._at))
        if len(data) >= log_records.RECORD_BYTES and not log_records.whole(source.salt, data, 0):
            length = log_records.RECORD_HEAD.unpack_from(data)[2] + log_records.RECORD_BYTES
            data = reader.read(source, self._at, min(length, source.length - self._at))
        at = 0
        while end := log_records.whole(source.salt, data, at):
            start = at + log_records.RECORD_BYTES
            kind, id_ = log_records.KIND_ID.unpack_from(data, start)
            if kind == log_records.MESSAGE and not source.is_dead(id_):
                self._copy_one(source, data, at, end, id_)
            at = end
        if at:
            self._at += at
            return
        if data:
            reader.bad(source, self._at)
        self._source = None  # its end, or a damaged record: what stands behind that stays where it is
        source.total = 0  # never chosen again

    def _leave(self, source: Segment, wait_s: float) -> None:
        """Try it again from its beginning, but not soon; what was copied from it is dead by then."""
        self._source = None
        self._left[source.number] = self._journal.reader.now_s() + wait_s

    def _copy_one(self, source: Segment, data: bytes, at: int, end: int, old: int) -> None:
        journal = self._journal
        start = at + log_records.RECORD_BYTES
        _, _, order, largest, body_bytes, channel, flags, count = log_records.MESSAGE_HEAD.unpack_from(data, start)
        life_at = queues_at = start + log_records.MESSAGE_HEAD.size
        if flags & log_records.HAS_LIFE:
            queues_at = log_records.life_end(data, queues_at)
        state = data[life_at:queues_at]
        rest_at = queues_at + count * log_records.QUEUE.size
        queues = source.wanting(old) or list(Struct(f"<{count}I").unpack_from(data, queues_at))
        offset = self._at + at
        id_, location = journal.copy(order, largest, body_bytes, channel, flags, state, queues, data[rest_at:end])
        self.moved.setdefault(source.number, Moved()).add(offset, id_, location, len(queues) or 1)
        for queue in queues if source.attempts else ():
            attempts = source.uncount(queue, old)
            if attempts:
                journal.record_delivery_count(queue, id_, location, attempts)
        source.release(old)
