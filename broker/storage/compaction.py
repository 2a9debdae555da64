"""Compaction: deletes segments without live messages, and copies the live ones out of segments that have few.

A segment is deleted only after a checkpoint, because its records may say that messages of other segments are dead. A
copy keeps the id of the message, and the index has its new place. The segment with the original is deleted only once
the copy is durable: whenever the machine stops, the log has at least one of them, and recovery counts the message once.

A copy needs space before it frees any, and all later batches wait for its batch. So a slice is copied only if
COPY_FREE_BYTES of the disk stay free. A segment with a live record of more than LONG_BYTES stays until that is dead:
the copy would free little, and take long.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct

from ..core.messages.journal_port import EXHAUSTED, FULL
from . import log_records
from .backup import Backup
from .checkpoint import Checkpoint
from .disk import RESERVE_BYTES, Disk
from .index import Index
from .segment import OFFSET_BITS, Segment
from .segment_reader import RETRY_S, Reader, Shortage

REFUSED_S = 600.0  # wait after a read error in a segment: each further attempt may take seconds
SLICE_BYTES = 256 << 10  # read of a segment for each batch
COPY_FREE_BYTES = 2 * RESERVE_BYTES  # that a copy leaves free
LONG_BYTES = 8 << 20  # of a record that is copied, an eighth of a segment: in 10 ms


Append = Callable[[int, int, int, int, int, bytes, list[int], memoryview], None]
"""Appends a message: id, largest frame, bytes of the body, channel, flags, state, queues, and the content."""


@dataclass(eq=False, repr=False)
class Compaction:
    """The compaction of one journal.

    `append` appends a copy of a live message to the log. `snapshot` returns a checkpoint of the log, whose contents do
    not change until `give_back`; `save` saves it, encoded, and raises OSError. `unwritten_bytes` returns how many bytes
    of the log are not written yet.
    """

    _disk: Disk
    index: Index  # the index of the journal, which recovery replaces
    _reader: Reader
    _append: Append
    _snapshot: Callable[[], Checkpoint]
    _give_back: Callable[[], None]
    _save: Callable[[bytes], None]
    _unwritten_bytes: Callable[[], int]

    def __post_init__(self) -> None:
        self.backup: Backup | None = None  # under way, which holds segments
        self.undone = False  # whether dead segments could not be deleted: without a checkpoint, or in use by others
        self.checkpoint_batch = 0  # the batch whose worker writes a checkpoint and deletes segments, or 0
        self._source: Segment | None = None
        self._at = 0
        self._retry_at_s: dict[int, float] = {}  # by the number of a segment that could not be read or copied
        self._long: dict[int, int] = {}  # by the number of a segment, the id of a live message that is not copied
        self._removed: list[Segment] = []  # by the worker, after that batch
        self.deleting: set[int] = set()  # segments that may be deleted already, as an error has interrupted that
        self._used: dict[int, float] = {}  # by the number of a dead segment that others use: when to try again

    def step(self) -> None:
        """Copy a slice of a segment that is mostly dead; called before a batch is sealed."""
        if self._source is None:
            self._source = self._choose()
            self._at = log_records.SEGMENT_HEAD_BYTES
        if self._source is None:
            return
        try:
            self._copy(self._source)
        except (Shortage, MemoryError):
            self._leave(self._source, RETRY_S)
        except OSError as error:
            self._reader.report_failure(self._source, self._at, error)
            self._leave(self._source, REFUSED_S)

    def removal(self, number: int) -> Callable[[], None] | None:
        """Return the function with which the worker deletes dead segments after the sealed batch, or None."""
        if self.checkpoint_batch:
            return None
        dead = self.dead()
        if not dead:
            return None
        try:
            snapshot = self._snapshot()
        except MemoryError:
            self._give_back()
            self.undone = True
            return None
        self.checkpoint_batch = number
        disk, reader, save = self._disk, self._reader, self._save
        removed, used = self._removed, self._used

        def remove() -> None:
            self.undone = False
            try:
                save(snapshot.encode())
            except (OSError, MemoryError) as error:
                if isinstance(error, OSError) and error.errno not in (*FULL, *EXHAUSTED):
                    raise
                self.undone = True
                return  # tried again with a later batch
            numbers = [segment.number for segment in dead]
            self.deleting.update(numbers)
            kept = disk.drop(numbers)
            self.deleting.difference_update(numbers)
            again_s = reader.now_s() + RETRY_S
            for segment in dead:
                if segment.number in kept:
                    used[segment.number] = again_s
                else:
                    used.pop(segment.number, None)
                    removed.append(segment)
            self.undone = bool(used)

        return remove

    def dead(self) -> list[Segment]:
        """Return the complete segments without live messages that are not held, nor known to be used by others."""
        now_s, used, held = self._reader.now_s(), self._used, self.held
        dead = [segment for segment in self.index.sparse.values() if not segment.live and segment.number > held]
        return [segment for segment in dead if used.get(segment.number, now_s) <= now_s]

    @property
    def held(self) -> int:
        """Segments up to this number stay."""
        return self.backup.held if self.backup is not None else 0

    def holds_dead(self) -> bool:
        """Whether a segment could be deleted if none was held."""
        return any(not segment.live and segment.number <= self.held for segment in self.index.sparse.values())

    def removed(self) -> None:
        """Note that the worker has written the checkpoint, and forget the segments that it has deleted."""
        self._give_back()
        self.checkpoint_batch = 0
        for segment in self._removed:
            self._reader.forget(segment)
            self.index.remove(segment)
            self._retry_at_s.pop(segment.number, None)
            self._long.pop(segment.number, None)
            if segment is self._source:
                self._source = None
        self._removed.clear()

    def _fits(self, count: int) -> bool:
        """Whether the disk has room for a copy of `count` bytes, after all unwritten bytes."""
        with suppress(OSError):
            return self._disk.free_bytes() >= COPY_FREE_BYTES + self._unwritten_bytes() + count
        return False

    def _choose(self) -> Segment | None:
        sparse = self.index.sparse
        for segment in list(sparse.values()):
            if not segment.mostly_dead:
                del sparse[segment.number]
            elif segment.live and not segment.stuck and self._may_copy(segment):
                return segment
        return None

    def _may_copy(self, segment: Segment) -> bool:
        """Whether a copy would free the segment, it has no long live message, and its wait after a failure is over."""
        if segment.number <= self.held:
            return False
        long = self._long.get(segment.number)
        if long is not None and self.index.place(long) >> OFFSET_BITS == segment.number:
            return False
        again_s = self._retry_at_s.get(segment.number)
        return again_s is None or self._reader.now_s() >= again_s

    def _copy(self, source: Segment) -> None:
        """Copy the live messages of the next slice to the end of the log, if they fit the disk."""
        reader = self._reader
        left_bytes = source.length - self._at
        data = reader.read(source, self._at, min(SLICE_BYTES, left_bytes))
        end = log_records.claimed_end(data)
        if len(data) < end <= left_bytes:
            kind, id_ = log_records.KIND_ID.unpack_from(data, log_records.RECORD_BYTES)
            if kind != log_records.MESSAGE or not self._is_live(source, id_, self._at):
                self._at += end
                return
            if end > LONG_BYTES:
                self._long[source.number] = id_
                self._source = None
                return
            if not self._fits(end):
                self._leave(source, RETRY_S)
                return
            data = reader.read(source, self._at, end)
        records: list[tuple[int, int, int]] = []
        at = live_bytes = 0
        while end := log_records.record_end(source.salt, data, at):
            kind, id_ = log_records.KIND_ID.unpack_from(data, at + log_records.RECORD_BYTES)
            if kind == log_records.MESSAGE and self._is_live(source, id_, self._at + at):
                records.append((at, end, id_))
                live_bytes += end - at
            at = end
        if records and not self._fits(live_bytes):
            self._leave(source, RETRY_S)
            return
        for record in records:
            self._copy_one(data, *record)
        if at:
            self._at += at
            return
        if data:
            reader.report_damage(source, self._at)
        self._source = None  # at its end, or at a damaged record: messages after that are not moved
        source.stuck = source.live > 0

    def _is_live(self, source: Segment, id_: int, offset: int) -> bool:
        return self.index.place(id_) == source.number << OFFSET_BITS | offset

    def _leave(self, source: Segment, wait_s: float) -> None:
        """Stop, and start again at the beginning of the segment after the wait; copied messages are dead then."""
        self._source = None
        self._retry_at_s[source.number] = self._reader.now_s() + wait_s

    def _copy_one(self, data: bytes, at: int, end: int, id_: int) -> None:
        part, position = self.index.locate(id_)
        assert part is not None, "it is live"
        start = at + log_records.RECORD_BYTES
        _, _, largest, body_bytes, channel, flags, count = log_records.MESSAGE_HEAD.unpack_from(data, start)
        state_at = queues_at = start + log_records.MESSAGE_HEAD.size
        if flags & log_records.HAS_STATE:
            queues_at = log_records.state_end(data, queues_at)
        state = data[state_at:queues_at]
        rest_at = queues_at + count * log_records.QUEUE.size
        queues = part.wanting(position) or list(Struct(f"<{count}I").unpack_from(data, queues_at))
        self._append(id_, largest, body_bytes, channel, flags, state, queues, memoryview(data)[rest_at:end])
