"""Recovery: reads a log and returns its live messages (`log_records` has the format).

All segments are read once, in order. The last batches of the last one may be torn, because they were being written when
the machine stopped: the log is cut off before the first of them, unless its disk appends all or nothing. A bad record
anywhere else is damage: it is reported with its offset and skipped, and reading continues at the next sound record.
Settled ids without a message are ignored.

Each record of a segment has the next id, the first one that of the head. A sound record with any other id was moved, or
another one has overwritten its neighbour: this is damage, too. A message that is in the log twice counts once.

A message that compaction has copied is in the log twice until the old segment is deleted: the last copy counts. If the
segment is deleted, the checkpoint has the block of the message; a copy without a block is that of a dead message.

The salt that seeds the checksums is in the head of each segment, and in the checkpoint in case a head is damaged.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby, pairwise, repeat
from operator import itemgetter
from struct import Struct
from struct import error as StructError

from ..core.messages.journal_port import RecoveredQueue
from ..core.metadata.records import Definitions
from . import checkpoint, log_records
from .checkpoint import Checkpoint
from .damage import Damage
from .disk import Disk
from .errors import StorageFault
from .index import Block, Index, Part, new_block
from .segment import Segment, name_of
from .shared_messages import little

Names = Callable[[], Mapping[int, str]]
_Entry = tuple[int, int, int]  # id, bytes of the body, mark

# Raised by decoding lengths and numbers that another program has written with a valid checksum
IMPOSSIBLE = (StructError, IndexError, ValueError, OverflowError)

CHUNK_BYTES = 4 << 20  # of a segment in memory at once, unless a record is longer
# The ids of a segment are at most one for each `MESSAGE_BYTES` of its file, or of SPAN_BYTES: memory is in proportion.
SPAN_BYTES = 64 << 20

_LEVEL, _DEADLINE = 0xFF, 8  # a mark: bits of the priority, and the shift of the deadline


@dataclass(slots=True)
class SegmentReport:
    """The records of a segment: the number of sound ones, the offsets of bad ones, and the bytes of a torn end."""

    sound: int = 0
    bad: list[int] = field(default_factory=list)
    torn_bytes: int = 0
    batches: tuple[int, int] | None = None  # the numbers of the first and the last batch, or None
    end: int = 0  # the end of the last batch according to its own record, or 0
    durable: int = 0  # the highest number of a batch that was durable according to one of its batches


@dataclass(slots=True)
class Recovered:
    """The state of the journal as read from its disk."""

    salt: int  # the seed of the checksums
    checkpointed: bool  # whether there was a usable checkpoint
    missing: list[str] = field(default_factory=list)  # losses of the log or the metadata, beside damaged records
    segments: list[Segment] = field(default_factory=list)  # the segments in ascending order
    index: Index = field(default_factory=Index)  # the index of their messages
    reports: dict[str, SegmentReport] = field(default_factory=dict)  # the report of each segment, by name
    batch: int = 0  # the number of the last batch
    settling: int = 0  # the number of the last batch that settled messages
    next_segment: int = 1  # greater than the number of any segment, including deleted ones
    queues: dict[int, RecoveredQueue] = field(default_factory=dict)  # unsettled messages, by number of the queue
    next_id: int = 1  # greater than the id of any message
    goes_on: bool = True  # the last segment has the records up to `next_id`, so that further ones may follow there
    next_queue: int = 1  # greater than the number of any queue
    commit: int = 0  # not less than the number of any commit
    dropped: int = 0  # the number of messages of commits without an end


def recover(
    disk: Disk,
    report: list[str],
    known: set[int] | None = None,
    highest: int | None = None,
    names: Names = dict,
) -> Recovered:
    """Read the log; `report` gets a line for each damage. Raises OSError, StorageFault.

    Queues that are not in `known` are deleted; with None no queue is. But if such a queue is above `highest`, the
    highest number that the metadata has ever had, the metadata is older than the log. `names` returns the names of
    queues by number, for lines of the report.
    """
    try:
        return _recover(disk, report, known, highest, names)
    except IMPOSSIBLE as error:
        raise StorageFault(f"log: values that no broker writes, with a valid checksum: {error!r}") from error


def _recover(disk: Disk, report: list[str], known: set[int] | None, highest: int | None, names: Names) -> Recovered:
    sizes = disk.segments()
    numbers = list(sizes)
    saved = _load_checkpoint(disk, numbers, report)
    heads = _heads(disk, numbers)
    salt = _salt(disk, sizes, heads, saved)
    recovered = Recovered(salt, saved is not None)
    recovered.missing += report  # what is wrong with the checkpoint
    saved = saved or Checkpoint(salt, 1)
    ends, end_id = {}, 1 << 64
    for number in reversed(numbers):
        ends[number] = end_id
        head = heads[number]
        end_id = head.first_id if head is not None else end_id
    scan = _Scan(disk, sizes, recovered, saved)
    cut: dict[int, int] = {}  # the bytes of a segment that is cut off as a whole
    for number, size in sizes.items():
        segment = Segment(number, 0, salt)
        torn = disk.tears and number == numbers[-1]  # its end may be
        found = recovered.reports[segment.name] = SegmentReport()
        state = saved.segments.get(number)
        head = heads[number]
        if head is None:
            durable_bytes = state.length if state is not None else 0
            if torn and scan.whole_end(segment, durable_bytes) <= log_records.SEGMENT_HEAD_BYTES:
                if size:
                    found.torn_bytes = size
                    report.append(f"{segment.name}: {size} bytes of a torn end cut off")
                cut[number] = size
                disk.drop([number])
                disk.forget(number)
                recovered.index.remove(segment)
                continue
            found.bad.append(0)
            report.append(f"{segment.name}: its head is damaged, at offset 0")
            first_id = _first_id(disk, segment, size, recovered.next_id) if state is None else state.first_id
            head = log_records.Head(first_id, salt)
        segment.salt = head.salt
        segment.first_id = head.first_id
        # The head counts even if all segments before are damaged or deleted.
        recovered.next_id = max(recovered.next_id, segment.first_id)
        recovered.segments.append(segment)
        recovered.index.segments[number] = segment
        end = scan.whole_end(segment, state.length if state is not None else 0) if torn else size
        following = heads.get(number + 1)
        next_id = following.first_id if following is not None else saved.next_id if number == numbers[-1] else 0
        scan.read(segment, end, report, ends[number], next_id)
        if end < size:
            found.torn_bytes = size - end
            report.append(f"{segment.name}: {found.torn_bytes} bytes of a torn end cut off at offset {end}")
        segment.length = segment.durable = end
    disk.keep({segment.number: segment.length for segment in recovered.segments})
    losses = [*_losses(recovered.segments, saved, cut), *_gaps(recovered, saved)]
    report += losses
    recovered.missing += losses
    scan.finish(known, highest, report, names)
    recovered.goes_on = scan.next_id == recovered.next_id
    begun = {number for number, state in saved.segments.items() if state.length}  # the others have never had a file
    recovered.next_segment = max([1, *saved.segments, *[number + 1 for number in {*recovered.index.segments} | begun]])
    if max(recovered.next_id >> 32, recovered.next_queue) >> 31:
        raise ValueError(f"next id {recovered.next_id}, next queue {recovered.next_queue}")
    unknown = scan.of_unknown_queues()
    report += unknown
    recovered.missing += unknown
    return recovered


def check_definitions(disk: Disk, definitions: Definitions) -> None:
    """Raise StorageFault if the log has records, and the definitions that they belong to are lost."""
    if not definitions.empty or disk.load_checkpoint() in checkpoint.UNFINISHED:  # `check_finished` refuses that
        return
    if max(disk.segments().values(), default=0) > log_records.SEGMENT_HEAD_BYTES:
        raise StorageFault(
            "meta.sqlite is missing or empty, and the log has messages: restore the file, and meta.sqlite-wal if there"
            " was one, from a backup; or move the log away to begin without its messages"
        )


def check_log(disk: Disk, numbers: Sized) -> None:
    """Raise StorageFault if there are durable queues or exchanges with these numbers, and the log is lost.

    A broker saves the first checkpoint before it creates any of them.
    """
    if numbers and not disk.segments() and disk.load_checkpoint() is None:
        raise StorageFault(
            f"the log is lost: it is empty, and {len(numbers)} durable queues or exchanges were created with it: mount"
            f" its folder, or restore it from a backup; or create an empty file {name_of(1)} in it to begin"
            " without its messages"
        )


def _losses(segments: list[Segment], saved: Checkpoint, cut: dict[int, int]) -> list[str]:
    """Return lines for segments of the checkpoint that are missing or shorter, as in an incomplete copy."""
    losses = []
    by_number = {segment.number: segment for segment in segments}
    for number, state in saved.segments.items():
        segment = by_number.get(number)
        if segment is None and state.live:
            losses.append(f"{name_of(number)}: it is missing, with {state.live} messages")
        elif segment is not None and segment.first_id == state.first_id and segment.length < state.length:
            losses.append(f"{segment.name}: the last {state.length - segment.length} bytes are missing")
        elif segment is None and cut.get(number, state.length) < state.length:
            losses.append(f"{name_of(number)}: the last {state.length - cut[number]} bytes are missing")
    return losses


def _gaps(recovered: Recovered, saved: Checkpoint) -> list[str]:
    """Return lines for segments or ends of segments that are missing by the numbers of segments and batches.

    A segment is deleted after a checkpoint, so none is missing after the last one of the checkpoint.
    """
    gaps = []
    known = expected = max([0, *saved.segments])
    for number in [segment.number for segment in recovered.segments if segment.number >= known] if known else []:
        if number == expected + 1:
            gaps.append(f"{name_of(expected)}: it is missing")
        elif number > expected:
            gaps.append(f"{name_of(expected)} to {name_of(number - 1)}: they are missing")
        expected = number + 1
    last = 0  # batch so far
    for segment, following in pairwise(recovered.segments):
        found, next_found = recovered.reports[segment.name], recovered.reports[following.name]
        last = found.batches[1] if found.batches is not None else last
        if next_found.batches is None or segment.number + 1 != following.number or found.bad or next_found.bad:
            continue
        state = saved.segments.get(segment.number)
        # Copies have ids of other segments.
        copied = state is not None and state.live > 0 and next_found.durable >= next_found.batches[0] - 1
        began = copied or segment.first_id < following.first_id and next_found.durable > 0
        if found.batches is None and began:
            gaps.append(f"{segment.name}: all its batches are missing")
        elif 0 < last < next_found.batches[0] - 1:
            gaps.append(f"{segment.name}: its last batches are missing, after number {last}")
        elif found.end > segment.length and next_found.durable >= last:
            gaps.append(f"{segment.name}: the end of its last batch is missing, number {last}")
    return gaps


def _load_checkpoint(disk: Disk, numbers: list[int], report: list[str]) -> Checkpoint | None:
    """Return the checkpoint, or None, which is damage if the log has segments."""
    saved = checkpoint.load(disk, report)
    if numbers and saved is None and not report:
        report.append(f"{checkpoint.NAME}: it is missing; messages may be too, or come back though they were settled")
    return saved


def _heads(disk: Disk, numbers: list[int]) -> dict[int, log_records.Head | None]:
    """Return the heads of all segments, None for a damaged one. Raises StorageFault, OSError.

    All heads are read before anything is changed: one may be of another version, or of a file of another log.
    """
    heads: dict[int, log_records.Head | None] = {}
    before, first_id = "", 0
    for number in numbers:
        name, data = name_of(number), disk.read(number, 0, log_records.SEGMENT_HEAD_BYTES)
        if other := log_records.unknown_version(data):
            raise StorageFault(
                f"{name}: of version {other} of the log, this broker reads version {log_records.VERSION}"
            )
        head = heads[number] = log_records.parse_head(data)
        if head is not None:
            if head.first_id < first_id:
                raise StorageFault(
                    f"{name}: its messages are older than those of {before}: files of the log were renamed or copied"
                    " over others; restore them from a backup"
                )
            before, first_id = name, head.first_id
    return heads


def _salt(
    disk: Disk, sizes: dict[int, int], heads: dict[int, log_records.Head | None], saved: Checkpoint | None
) -> int:
    """Return the salt of the log, for segments without a sound head and for new ones. Raises StorageFault."""
    if saved is not None:
        return saved.salt
    for head in heads.values():
        if head is not None:
            return head.salt
    for number, size in sizes.items():
        if size > log_records.SEGMENT_HEAD_BYTES:
            raise StorageFault(
                f"{name_of(number)}: its head is damaged, and {checkpoint.NAME}, which also has the salt, is too"
            )
    return disk.salt()


def _records(disk: Disk, segment: Segment, size: int) -> Iterator[tuple[int, bytes, int, int]]:
    """Yield the records in the first `size` bytes of a segment.

    Each is its offset, bytes that have it, and its start and end in them. After a bad record follows the next sound
    one; the end of a bad record is where that starts, or the end of the bytes if there is none, times -1.
    """
    base, at, data = log_records.SEGMENT_HEAD_BYTES, 0, b""
    while base + at < size:
        end = log_records.record_end(segment.salt, data, at)
        if end:
            yield base + at, data, at, end
            at = end
            continue
        if base + len(data) < size and not log_records.is_complete(data, at):
            length = 0
            if at + log_records.RECORD_BYTES <= len(data):
                length = log_records.RECORD_HEAD.unpack_from(data, at)[2] + log_records.RECORD_BYTES
            count = min(max(length, CHUNK_BYTES), size - base - at)
            base, at, data = base + at, 0, disk.read(segment.number, base + at, count)
            if len(data) < count:
                size = base + len(data)  # it has become shorter
            continue
        if base + len(data) < size:
            base, at, data = base + at, 0, disk.read(segment.number, base + at, size - base - at)
            size = base + len(data)
        following = log_records.next_record(segment.salt, data, at + 1) or len(data)
        yield base + at, data, at, -following
        at = following


class _SortedRun:
    """Messages of one queue in ascending order: 12 bytes each, and 8 more once one of them has a mark."""

    __slots__ = ("last", "ids", "bodies", "marks")

    def __init__(self) -> None:
        self.last = 0
        self.ids = array("Q")
        self.bodies = array("I")
        self.marks: array[int] | None = None  # None if all are 0

    def add(self, id_: int, body_bytes: int, mark: int) -> None:
        self.last = id_
        if self.marks is not None:
            self.marks.append(mark)
        elif mark:
            self.marks = array("Q", bytes(8 * len(self.ids)))
            self.marks.append(mark)
        self.ids.append(id_)
        self.bodies.append(body_bytes)

    def __iter__(self) -> Iterator[_Entry]:
        marks = self.marks if self.marks is not None else repeat(0, len(self.ids))
        return zip(self.ids, self.bodies, marks, strict=True)


class _Entries:
    """Messages of one queue in the order of the log, in sorted runs.

    A copy that compaction made has a lower id than the messages before it and begins a new run: nothing is sorted.
    """

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs = [_SortedRun()]

    def add(self, id_: int, body_bytes: int, mark: int) -> None:
        run = self._runs[0]
        if run.last >= id_:
            for run in self._runs:
                if run.last < id_:
                    break
            else:
                run = _SortedRun()
                self._runs.append(run)
        run.add(id_, body_bytes, mark)

    @property
    def single(self) -> _SortedRun | None:
        """The only run, if no message has a copy; None if some may have one."""
        return self._runs[0] if len(self._runs) == 1 else None

    def in_order(self) -> Iterator[_Entry]:
        """Yield each message once, by id."""
        if len(self._runs) == 1:
            return iter(self._runs[0])
        return (next(copies) for _, copies in groupby(merge(*self._runs), itemgetter(0)))


@dataclass(slots=True)
class _Commit:
    """A commit whose end was not read yet."""

    stored: list[tuple[int, int]] = field(default_factory=list)  # runs of ids: the first, and that after the last
    settled: list[tuple[int, int, array[int]]] = field(default_factory=list)  # queue, id of the record, ids
    damaged: bool = False  # whether a record after its first one is damaged, perhaps its end


class _Scan:
    """The pass over all segments, whose results are added to `recovered`."""

    def __init__(self, disk: Disk, sizes: dict[int, int], recovered: Recovered, saved: Checkpoint) -> None:
        """`sizes` are those of the existing segments: blocks of others are only in the checkpoint."""
        self._disk = disk
        self._sizes = sizes
        self._recovered = recovered
        self._saved = saved
        self._index = recovered.index
        self._entries: dict[int, _Entries] = {}  # by queue, all its messages, settled ones included
        self._counted = saved.attempts
        self._deleted_queues: set[int] = set()
        self.next_id = 0  # of the record that follows
        self._whole = False  # the batch is, so far
        self._commits: dict[int, _Commit] = {}  # by number
        self._block = Block(0)  # of the messages that were first written to the segment that is read
        self._saved_blocks: dict[int, Block] = {}  # the same by segment, from the checkpoint
        self._end_id = 0  # above the ids that the segment may have
        self._damage = Damage()
        self._resumed_at = 0  # offset of the first sound record after a damaged one
        self._misplaced = self._misplaced_at = 0  # records of this segment without the next id; offset of the first
        self._unknown_queues = self._dropped = 0  # queues that the metadata should know, and their live messages
        self._saved_ids = sorted(saved.blocks)
        recovered.next_id = max(recovered.next_id, saved.next_id)
        for number, ids in saved.commits.items():
            self._commit(number).stored += _pairs(ids)
        for first_id, state in saved.blocks.items():
            block = Block(first_id, state.size)
            for part_state in state.parts:
                if part_state.number in sizes:
                    part = Part(part_state.number, first_id)
                    part.restore(part_state)
                    block.parts.append(part)
                    if part.ids is None:
                        if part_state.size > self._most_ids(part.number):
                            raise ValueError(f"segment {part.number} has {part_state.size} messages")
                        part.extend(part_state.size)  # the last ones may be damaged, and have copies
                        self._saved_blocks[part.number] = block
            if block.parts:
                self._index.add(block)

    def _most_ids(self, number: int) -> int:
        """Return how many messages may have been written first to a segment, by its present length or the saved one."""
        saved = self._saved.segments.get(number)
        longest = max(self._sizes[number], saved.length if saved is not None else 0, SPAN_BYTES)
        return longest // log_records.MESSAGE_BYTES

    def whole_end(self, segment: Segment, durable_bytes: int) -> int:
        """Return the end of the last segment without the batches that a power cut has torn.

        A bad record is damage, and no torn end, if it was durable according to a later batch or the checkpoint.
        """
        number, at, end = self._recovered.batch, 0, log_records.SEGMENT_HEAD_BYTES  # of the present batch
        size = self._sizes[segment.number]
        torn: list[tuple[int, int]] = []  # number of a batch that is bad, and where to cut
        bad_at = 0
        for offset, data, start, sound in _records(self._disk, segment, size):
            if sound < 0:
                bad_at = offset
                if offset >= durable_bytes:
                    torn.append((number, at) if offset < end else (number + 1, offset))
            elif data[start + log_records.RECORD_BYTES] == log_records.BATCH:
                before = number
                body = start + log_records.RECORD_BYTES
                _, _, number, durable, count = log_records.BATCH_BODY.unpack_from(data, body)
                if number > before + 1 and bad_at >= max(at, durable_bytes, 1):
                    torn.append((number - 1, bad_at))  # the bad part has more batches than the present one
                torn = [each for each in torn if each[0] > durable]
                at, end = offset, offset + count
        if end > size > durable_bytes and at:
            torn.append((number, at))
        return min([where for _, where in torn], default=size)

    def read(self, segment: Segment, size: int, report: list[str], end_id: int, next_id: int) -> None:
        """Read all records of the first `size` bytes of a segment, whose ids are below `end_id`.

        `next_id` is the id after those of the segment, or less if that is not known.
        """
        self._end_id = min(end_id, segment.first_id + self._most_ids(segment.number))
        block = self._saved_blocks.get(segment.number)
        if block is None or block.first_id != segment.first_id:  # that of a segment which has not been durable
            block = new_block(segment.number, segment.first_id)
        self._block = block
        self.next_id = segment.first_id
        self._resumed_at = self._misplaced = 0
        found = self._recovered.reports[segment.name]
        for offset, data, at, end in _records(self._disk, segment, size):
            if end > 0:
                found.sound += 1
                self._take(segment, offset, data, at, end)
                continue
            self._resumed_at = offset - end - at
            self._damage.add(len(report), self.next_id, data, at, -end, self._end_id)
            self._whole = False
            for commit in self._commits.values():
                commit.damaged = True
            found.bad.append(offset)
            report.append(f"{segment.name}: a damaged record at offset {offset} is skipped")
        self._damage.end(self.next_id, next_id)
        if self._misplaced:
            records = f"{self._misplaced} records are" if self._misplaced > 1 else "a record is"
            line = f"{segment.name}: {records} out of order from offset {self._misplaced_at} on; others may be missing"
            report.append(line)
            self._recovered.missing.append(line)

    def _take(self, segment: Segment, offset: int, data: bytes, at: int, end: int) -> None:
        recovered = self._recovered
        start = at + log_records.RECORD_BYTES
        if data[start] == log_records.MESSAGE:
            _, id_, _, body_bytes, _, flags, count = log_records.MESSAGE_HEAD.unpack_from(data, start)
            copied = flags & log_records.COPIED
            if copied:
                part, position = self._take_copy(segment, offset, id_, end - at)
                if part is None:
                    return
            else:
                follows = id_ == self.next_id and id_ < self._end_id
                if not follows and not self._is_possible(segment, offset, id_, id_ + 1):
                    return
                self.next_id = id_ + 1
                if id_ >= recovered.next_id:
                    recovered.next_id = id_ + 1
                part, position = self._take_first(offset, id_, end - at)
            segment.total += 1
            if not count:
                part.mark_dead(position)
            elif not part.is_dead(position):
                queues_at = start + log_records.MESSAGE_HEAD.size
                mark = 0
                if flags & log_records.HAS_STATE:
                    level, _, _, deadline_ms = log_records.STATE.unpack_from(data, queues_at)
                    mark = level | deadline_ms << _DEADLINE
                    queues_at = log_records.state_end(data, queues_at)
                queue = log_records.QUEUE.unpack_from(data, queues_at)[0]
                entries = self._entries.get(queue) or self._new_entries(queue)
                entries.add(id_, body_bytes, mark)
                if count > 1 or copied:  # it may have been one of several queues, of which it has those left
                    queues = Struct(f"<{count}I").unpack_from(data, queues_at)
                    if part.wanting(position) is None:
                        part.share(position, 1, queues)
                    for queue in queues[1:]:
                        entries = self._entries.get(queue) or self._new_entries(queue)
                        entries.add(id_, body_bytes, mark)
            return
        kind, id_ = log_records.KIND_ID.unpack_from(data, start)
        if id_ != self.next_id and not self._is_possible(segment, offset, id_, id_):
            return
        recovered.next_id = max(recovered.next_id, id_)
        if kind == log_records.BATCH:
            _, _, number, durable, batch_bytes = log_records.BATCH_BODY.unpack_from(data, start)
            recovered.batch = max(recovered.batch, number)
            found = recovered.reports[segment.name]
            found.batches = found.batches[0] if found.batches is not None else number, number
            found.end, found.durable = offset + batch_bytes, max(found.durable, durable)
            self._whole = True
            return
        if kind >= log_records.COMMIT_STORED:
            self._take_commit(kind, id_, data, start, end)
            return
        queue = log_records.QUEUE.unpack_from(data, start + log_records.KIND_ID.size)[0]
        if kind == log_records.QUEUE_DELETED:
            recovered.settling = recovered.batch
            self._deleted_queues.add(queue)
        elif kind == log_records.SETTLED or kind == log_records.MOVED and self._whole:
            at = start + log_records.SETTLED_HEAD.size
            if at < end:
                recovered.settling = recovered.batch
            self._settle(queue, id_, Struct(f"<{(end - at) // 8}Q").unpack_from(data, at))
        elif kind == log_records.DELIVERY_COUNT:
            _, _, _, counted, attempts = log_records.DELIVERY_COUNT_BODY.unpack_from(data, start)
            self._counted[queue, counted] = max(attempts, self._counted.get((queue, counted), 0))

    def _take_commit(self, kind: int, id_: int, data: bytes, start: int, end: int) -> None:
        """Note a part of a commit, or its end, after which its settlements count."""
        number = log_records.COMMIT_HEAD.unpack_from(data, start)[2]
        self._recovered.commit = max(self._recovered.commit, number)
        if kind == log_records.COMMIT_STORED:
            at = start + log_records.COMMIT_HEAD.size
            for first_id, end_id in _pairs(Struct(f"<{(end - at) // 8}Q").unpack_from(data, at)):
                if end_id > id_:
                    raise ValueError(f"commit {number} has message {end_id - 1} before it is stored")
                if end_id > self._saved.next_id:  # otherwise its commit has ended, or the checkpoint has it
                    self._commit(number).stored.append((first_id, end_id))
        elif kind == log_records.COMMIT_SETTLED:
            at = start + log_records.COMMIT_SETTLED_HEAD.size
            queue = log_records.COMMIT_SETTLED_HEAD.unpack_from(data, start)[3]
            self._commit(number).settled.append((queue, id_, little(array("Q", data[at:end]))))
        elif kind == log_records.COMMIT_END:
            self._recovered.settling = self._recovered.batch
            for settled in self._commit(number).settled:
                self._settle(*settled)
            del self._commits[number]

    def _commit(self, number: int) -> _Commit:
        self._recovered.commit = max(self._recovered.commit, number)
        return self._commits.setdefault(number, _Commit())

    def _drop_unfinished(self) -> None:
        """Drop the messages of commits without an end, unless the end may be in a lost part of the log."""
        for commit in self._commits.values():
            if commit.damaged or self._recovered.missing or not commit.stored:
                continue
            lowest, highest = min(first for first, _ in commit.stored), max(end for _, end in commit.stored)
            blocks = [each for each in self._index if lowest < each.end_id and each.first_id < highest]
            parts = [part for block in blocks for part in block.parts]
            for part in parts:
                for first_id, end_id in commit.stored:
                    self._drop(part, first_id, end_id)

    def _drop(self, part: Part, first_id: int, end_id: int) -> None:
        """Drop the live messages of a part from one id to another."""
        if part.ids is None:
            start, end = max(first_id - part.first_id, 0), min(end_id - part.first_id, len(part.offsets))
        else:
            start, end = bisect_left(part.ids, first_id), bisect_left(part.ids, end_id)
        for at in range(start, end):
            if part.offsets[at] and not part.is_dead(at):
                part.mark_dead(at)
                self._recovered.dropped += 1

    def _take_first(self, offset: int, id_: int, size: int) -> tuple[Part, int]:
        """Note the record of a message that was first written to this segment, unless it was found before.

        Return its part and position.
        """
        block = self._block
        part, position = block.parts[0], id_ - block.first_id
        if not block.count:
            self._index.add(block)
        if position == len(part.offsets):
            part.add(id_, offset, size)
        else:
            part.extend(position + 1)
            if not part.offsets[position]:
                part.offsets[position], part.sizes[position] = offset, size
        block.count = max(block.count, position + 1)
        return part, position

    def _take_copy(self, segment: Segment, offset: int, id_: int, size: int) -> tuple[Part | None, int]:
        """Note the copy of a message of an earlier segment, which counts if that is live; return its part and position.

        Without a checkpoint, blocks of deleted segments are made anew.
        """
        if id_ >= segment.first_id:
            self._is_possible(segment, offset, 0, 0)
            return None, 0
        block = self._index.find(id_)
        if block is None:
            if self._was_settled(id_):
                return None, 0
            block = self._index.missing(id_, segment.first_id)
        there = [(part, at) for part in block.parts if (at := part.position(id_)) >= 0]
        for part, at in there:
            if part.number == segment.number and not part.offsets[at]:  # the checkpoint has it
                part.offsets[at], part.sizes[at] = offset, size
                settled = part.is_dead(at)
                break
        else:
            settled = block.locate(id_)[0] is None and self._was_settled(id_)
            part = block.copies_in(segment.number, id_)
            at = part.add(id_, offset, size)
            self._index.note(segment.number, block)
            if settled:
                part.mark_dead(at)
        for other, position in there:
            if other is not part and not settled:
                other.mark_dead(position)
        return part, at

    def _was_settled(self, id_: int) -> bool:
        """Whether a message was dead according to the checkpoint."""
        if not self._recovered.checkpointed or id_ >= self._saved.next_id:
            return False
        at = bisect_right(self._saved_ids, id_) - 1
        state = self._saved.blocks[self._saved_ids[at]] if at >= 0 else None
        if state is None or id_ >= state.first_id + state.size:
            return True  # the checkpoint has all blocks with live messages
        return not any(part.has_live(id_, state.first_id) for part in state.parts)

    def _is_missing(self, id_: int) -> bool:
        """Whether a message that was not settled, as far as is known, has no record."""
        block = self._index.find(id_)
        parts = block.parts if block is not None else []
        there = [(part, at) for part in parts if (at := part.position(id_)) >= 0]
        if not there:
            return not self._was_settled(id_)
        live = [part.offsets[at] for part, at in there if not part.is_dead(at)]
        return bool(live) and not any(live)

    def _is_possible(self, segment: Segment, offset: int, id_: int, end_id: int) -> bool:
        """Note that a record does not have the next id, and return whether it may be of this segment.

        `end_id` is the id of the record after it.
        """
        possible = segment.first_id <= id_ and end_id <= self._end_id
        self._whole = False
        if not possible or id_ < self.next_id or offset != self._resumed_at:  # no damaged record explains it
            self._misplaced_at = self._misplaced_at if self._misplaced else offset
            self._misplaced += 1
        if possible:
            self._damage.end(self.next_id, id_)
            self.next_id = id_
        return possible

    def _new_entries(self, queue: int) -> _Entries:
        entries = self._entries[queue] = _Entries()
        return entries

    def _settle(self, queue: int, next_id: int, ids: Sequence[int]) -> None:
        if max(ids, default=0) >= next_id:
            raise ValueError(f"message {max(ids)} is settled before message {next_id}")
        find = self._index.find
        for id_ in ids:
            block = find(id_)
            if block is not None:
                unwanted(block, queue, id_)
        if self._damage.parts:
            self._damage.settle(queue, ids)

    def finish(self, known: set[int] | None, highest: int | None, report: list[str], names: Names) -> None:
        """Collect the live messages of each existing queue, and count those of each segment (`recover`)."""
        recovered = self._recovered
        self._drop_unfinished()

        def exists(queue: int) -> bool:
            return queue not in self._deleted_queues and (known is None or queue in known)

        if self._damage.parts:
            highest_seen = max([highest or 0, *self._entries, *self._deleted_queues, *(known or ())])
            self._damage.describe(report, self._is_missing, exists, highest_seen + 1, names())
        recovered.next_queue = max([0, *self._entries, *self._deleted_queues]) + 1
        while self._entries:
            queue, entries = self._entries.popitem()
            dropped = self._finish_queue(queue, entries, exists(queue))
            if dropped and highest is not None and queue > highest and queue not in self._deleted_queues:
                self._dropped += dropped
                self._unknown_queues += 1
        for (queue, id_), attempts in self._counted.items():
            block = self._index.find(id_)
            if block is not None and wants(block, queue, id_):
                block.record_attempts(queue, id_, attempts)
        for block in list(self._index):
            self._count(block)

    def of_unknown_queues(self) -> list[str]:
        """Return a line for messages of queues that the metadata has never had, although it is stored first."""
        if not self._dropped:
            return []
        return [
            f"the metadata is older than the log, which has {self._dropped} messages of {self._unknown_queues} queues"
            " or exchanges that it does not know: restore the metadata that belongs to the log before a broker starts,"
            " which drops them"
        ]

    def _finish_queue(self, queue: int, entries: _Entries, exists: bool) -> int:
        """Collect the live messages of a queue; if it does not exist, drop them, and return their number."""
        recovered, find = self._recovered, self._index.find
        run = entries.single
        if exists and run is not None and self._finish_single_run(queue, run):
            return 0
        wanted = RecoveredQueue()
        levels, deadlines = bytearray(), array("Q")
        total = marks = dropped = 0
        for id_, body_bytes, mark in entries.in_order():
            block = find(id_)
            if block is None:
                raise ValueError(f"message {id_} is in no block")
            if not exists:
                dropped += wants(block, queue, id_)
                unwanted(block, queue, id_)
            elif wants(block, queue, id_):
                wanted.append(id_)
                levels.append(mark & _LEVEL)
                if mark >> _DEADLINE or deadlines:
                    deadlines.frombytes(bytes(8 * (len(wanted) - 1 - len(deadlines))))
                    deadlines.append(mark >> _DEADLINE)
                marks |= mark
                total += body_bytes
        wanted.body_bytes = total
        if marks & _LEVEL:
            wanted.levels = bytes(levels)
        if marks >> _DEADLINE:
            wanted.deadlines_ms = deadlines
        if len(wanted):
            recovered.queues[queue] = wanted
        return dropped

    def _finish_single_run(self, queue: int, run: _SortedRun) -> bool:
        """Collect the live messages of a queue without copies; False if they have marks or several queues."""
        if run.marks is not None:
            return False
        blocks: list[Block] = []
        at = 0
        while at < len(run.ids):
            block = self._index.find(run.ids[at])
            if block is None:
                raise ValueError(f"message {run.ids[at]} is in no block")
            blocks.append(block)
            at = bisect_left(run.ids, block.end_id, at)
        if any(len(block.parts) > 1 or block.parts[0].ids or block.parts[0].sharing for block in blocks):
            return False
        wanted, total = RecoveredQueue(), 0
        if all(block.parts[0].untouched for block in blocks):
            wanted.ids, total = run.ids, sum(run.bodies)
        else:
            following = iter(blocks)
            block = next(following)
            for id_, body_bytes in zip(run.ids, run.bodies, strict=True):
                if id_ >= block.end_id:
                    block = next(following)
                if not block.parts[0].is_dead(id_ - block.first_id):
                    wanted.append(id_)
                    total += body_bytes
        if len(wanted):
            wanted.body_bytes = total
            self._recovered.queues[queue] = wanted
        return True

    def _count(self, block: Block) -> None:
        """Count the live messages of a block in their segments. A message without a record is dead."""
        for part in block.parts:
            if part.untouched and part.is_complete:
                segment = self._index.segments[part.number]
                segment.live += len(part.offsets)
                segment.live_bytes += sum(part.sizes)
                continue
            for position in array("I", part.live_positions()):
                if part.offsets[position]:
                    self._index.enter(part, position)
                else:
                    part.mark_dead(position)


def _pairs(ids: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(ids[::2], ids[1::2], strict=True))


def unwanted(block: Block, queue: int, id_: int) -> None:
    """Note that a queue no longer wants a message, before live messages are counted; this concerns no later copies."""
    part, at = block.locate(id_)
    if part is not None and (part.sharing is None or part.sharing.settle(at, queue)):
        part.mark_dead(at)


def wants(block: Block, queue: int, id_: int) -> bool:
    """Whether a queue still wants a message that was routed to it."""
    part, at = block.locate(id_)
    return part is not None and (part.sharing is None or part.sharing.wants(at, queue))


def _first_id(disk: Disk, segment: Segment, size: int, otherwise: int) -> int:
    """Return the id of the first sound record that is no copy in a segment without a head, or `otherwise`."""
    salt, data = segment.salt, disk.read(segment.number, 0, size)
    at = log_records.next_record(salt, data, 0)
    while at:
        start = at + log_records.RECORD_BYTES
        kind, id_ = log_records.KIND_ID.unpack_from(data, start)
        if kind != log_records.MESSAGE or not log_records.MESSAGE_HEAD.unpack_from(data, start)[5] & log_records.COPIED:
            return int(id_)
        at = log_records.next_record(salt, data, at + 1)
    return otherwise
