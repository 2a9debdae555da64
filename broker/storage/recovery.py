"""From the files of a log to what is still wanted (the layout is in `records`).

All segments are read once, in order. The end of the last one may be torn, as it was being written when the machine
stopped: it is cut off. A bad record anywhere else is damage: it is reported with its place and left alone, and reading
goes on at the next sound record. Settled ids that no message has mean nothing.

A message that compaction has copied stands twice until the old segment goes: of one `order`, the highest id counts,
with the most attempts that any of them has.

What to check records with, the salt, stands in the head of each segment, and in the checkpoint for those whose head is
damaged.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby, repeat
from operator import itemgetter
from struct import Struct

from ..core.messages.ports import RecoveredQueue
from . import checkpoint, log_records
from .checkpoint import Checkpoint
from .disk import Disk, File
from .errors import StorageFault
from .segment import OFFSET_BITS, Segment, number_of

_Entry = tuple[int, int, int, int, int]  # order, id, place, bytes of the body, mark

CHUNK_BYTES = 4 << 20  # of a segment that are in memory at once, where no record is longer

_MAGIC_OCTETS = log_records.LENGTH.pack(log_records.MAGIC)
_LEVEL, _DEADLINE = 0xFF, 8  # of a mark: the bits of the priority, and those below the deadline


class Recovered:
    """The state of the journal that was read from its files.

    salt          what records are checked with
    checkpointed  whether there was a checkpoint that could be used
    segments      in ascending order
    queues        by number, the messages that are not settled
    counted       by queue and id, how often the message has returned to the queue, if ever
    next_id       greater than the id of any message
    next_queue    greater than the number of any queue
    """

    __slots__ = (
        "salt",
        "checkpointed",
        "segments",
        "queues",
        "counted",
        "next_id",
        "next_queue",
    )

    def __init__(self, salt: int, checkpointed: bool) -> None:
        self.salt = salt
        self.checkpointed = checkpointed
        self.segments: list[Segment] = []
        self.queues: dict[int, RecoveredQueue] = {}
        self.counted: dict[tuple[int, int], int] = {}
        self.next_id = 1
        self.next_queue = 1


def recover(disk: Disk, report: list[str], known: set[int] | None = None) -> Recovered:
    """Read the log; `report` gets a line for each thing that was wrong. Raises OSError, StorageFault.

    Queues that are not `known` (None: all are) have been deleted.
    """
    disk.sync_folder()
    saved = checkpoint.load(disk, report)
    numbers = sorted(number for number in map(number_of, disk.names()) if number is not None)
    salt = _salt(disk, numbers, saved)
    found = Recovered(salt, saved is not None)
    saved = saved or Checkpoint(salt, 1)
    scan = _Scan(found, saved)
    for number in numbers:
        segment = Segment(number, 0, salt)
        file = segment.open(disk)
        last = number == numbers[-1]
        head = log_records.head_of(file.read(0, log_records.SEGMENT_HEAD_BYTES))
        if head is None:
            data = file.read(0, file.size)
            if last and len(data) <= log_records.SEGMENT_HEAD_BYTES or last and not _next_sound(salt, data, 0):
                report.append(f"{segment.name}: {len(data)} octets of a torn end cut off")
                segment.close()
                disk.remove(segment.name)
                disk.sync_folder()
                continue
            report.append(f"{segment.name}: its head is damaged, at offset 0")
            head = log_records.Head(_first_id(salt, data, found.next_id), salt)
        segment.salt = head.salt
        segment.first_id = head.first_id
        if (state := saved.segments.get(number)) is not None:
            segment.restore(state)
        found.next_id = max(found.next_id, segment.first_id)  # also when all before it is damaged or gone
        found.segments.append(segment)
        end = scan.read(segment, file, report, last)
        if end < file.size:
            file.truncate(end)
        file.sync()  # a killed process may have left octets that are read here and would not survive a power cut
        segment.length = end
        segment.close()
    scan.finish(known)
    return found


def _salt(disk: Disk, numbers: list[int], saved: Checkpoint | None) -> int:
    """What segments without a sound head were written with, and new ones will be. Raises StorageFault, OSError.

    All heads are looked at before anything is changed: one may be of a version that is not ours.
    """
    salt = saved.salt if saved is not None else None
    unread = ""
    for number in numbers:
        segment = Segment(number, 0, 0)
        file = segment.open(disk)
        data = file.read(0, log_records.SEGMENT_HEAD_BYTES)
        head = log_records.head_of(data)
        if other := log_records.other_version(data):
            raise StorageFault(
                f"{segment.name}: of version {other} of the log, this broker reads version {log_records.VERSION}"
            )
        if head is None and file.size > log_records.SEGMENT_HEAD_BYTES:
            unread = segment.name
        elif head is not None and salt is None:
            salt = head.salt
        segment.close()
    if salt is None and unread:
        raise StorageFault(f"{unread}: its head is damaged, and {checkpoint.NAME}, which could stand in for it, is too")
    return salt if salt is not None else disk.salt()


class _Strand:
    """Messages of one queue in ascending order. What they all have not takes no room: 20 bytes each, most often."""

    __slots__ = ("last", "ids", "locations", "bodies", "orders", "marks")

    def __init__(self) -> None:
        self.last = 0
        self.ids = array("Q")
        self.locations = array("Q")
        self.bodies = array("I")
        self.orders: array[int] | None = None  # where any is not the id
        self.marks: array[int] | None = None  # where any is not 0

    def add(self, order: int, id_: int, location: int, body_bytes: int, mark: int) -> None:
        self.last = order
        if self.orders is not None:
            self.orders.append(order)
        elif order != id_:
            self.orders = self.ids[:]
            self.orders.append(order)
        if self.marks is not None:
            self.marks.append(mark)
        elif mark:
            self.marks = array("Q", bytes(8 * len(self.ids)))
            self.marks.append(mark)
        self.ids.append(id_)
        self.locations.append(location)
        self.bodies.append(body_bytes)

    def __iter__(self) -> Iterator[_Entry]:
        orders = self.orders if self.orders is not None else self.ids
        marks = self.marks if self.marks is not None else repeat(0, len(self.ids))
        return zip(orders, self.ids, self.locations, self.bodies, marks, strict=True)


class _Entries:
    """Messages of one queue as the log has them. Copies that compaction made are of an order that others have passed:
    they begin a strand of their own, so that no order has to be sorted."""

    __slots__ = ("_strands",)

    def __init__(self) -> None:
        self._strands = [_Strand()]

    def add(self, order: int, id_: int, location: int, body_bytes: int, mark: int) -> None:
        strand = self._strands[0]
        if strand.last >= order:
            for strand in self._strands:
                if strand.last < order:
                    break
            else:
                strand = _Strand()
                self._strands.append(strand)
        strand.add(order, id_, location, body_bytes, mark)

    @property
    def single(self) -> _Strand | None:
        """The strand of all, where no message has a copy; None where some may."""
        return self._strands[0] if len(self._strands) == 1 else None

    def in_order(self) -> Iterator[Iterable[_Entry]]:
        """The copies of each message by id, the messages by order."""
        if len(self._strands) == 1:
            return zip(self._strands[0], strict=False)
        return map(itemgetter(1), groupby(merge(*self._strands), itemgetter(0)))


class _Scan:
    def __init__(self, found: Recovered, saved: Checkpoint) -> None:
        self._found = found
        self._saved = saved
        self._entries: dict[int, _Entries] = {}  # by queue, every message, whatever became of it
        self._counted = saved.attempts
        self._segments: dict[int, Segment] = {}
        self._gone: set[int] = set()
        self._run = self._run_end = 0  # ids of the messages read last, without a gap: the first, and the one after
        found.next_id = max(found.next_id, saved.next_id)

    def read(self, segment: Segment, file: File, report: list[str], last: bool) -> int:
        """All records of a segment; where it ends once a torn end is cut off."""
        self._segments[segment.number] = segment
        base, at, data = log_records.SEGMENT_HEAD_BYTES, 0, b""
        while base + at < file.size:
            end = log_records.whole(segment.salt, data, at)
            if end:
                self._take(segment, base, data, at, end)
                at = end
                continue
            if base + len(data) < file.size and not log_records.complete(data, at):
                octets = 0
                if at + log_records.RECORD_BYTES <= len(data):
                    octets = log_records.RECORD_HEAD.unpack_from(data, at)[2] + log_records.RECORD_BYTES
                base, at, data = base + at, 0, file.read(base + at, max(octets, CHUNK_BYTES))
                continue
            base, at, data = base + at, 0, file.read(base + at, file.size)
            sound = _next_sound(segment.salt, data, 1)
            if not sound and last:
                report.append(f"{segment.name}: {len(data)} bytes of a torn end cut off at offset {base}")
                return base
            report.append(f"{segment.name}: a damaged record at offset {base} is left out")
            at = sound or len(data)
        return file.size

    def _take(self, segment: Segment, base: int, data: bytes, at: int, end: int) -> None:
        found = self._found
        start = at + log_records.RECORD_BYTES
        if data[start] == log_records.MESSAGE:
            _, id_, order, _, body_bytes, _, flags, count = log_records.MESSAGE_HEAD.unpack_from(data, start)
            if id_ >= found.next_id:
                found.next_id = id_ + 1
            if id_ != self._run_end:
                self._run = id_
            self._run_end = id_ + 1
            segment.total += 1
            if not count:
                segment.mark_dead(id_)
            elif segment.untouched or not segment.is_dead(id_):
                queues_at = start + log_records.MESSAGE_HEAD.size
                mark = 0
                if flags & log_records.HAS_LIFE:
                    level, _, _, deadline_ms = log_records.LIFE.unpack_from(data, queues_at)
                    mark = level | deadline_ms << _DEADLINE
                    queues_at = log_records.life_end(data, queues_at)
                location = segment.number << OFFSET_BITS | base + at
                queue = log_records.QUEUE.unpack_from(data, queues_at)[0]
                entries = self._entries.get(queue) or self._new_entries(queue)
                entries.add(order, id_, location, body_bytes, mark)
                if count > 1:
                    queues = Struct(f"<{count}I").unpack_from(data, queues_at)
                    if segment.wanting(id_) is None:
                        self._share(segment, id_, queues)
                    for queue in queues[1:]:
                        entries = self._entries.get(queue) or self._new_entries(queue)
                        entries.add(order, id_, location, body_bytes, mark)
            return
        kind, id_ = log_records.KIND_ID.unpack_from(data, start)
        found.next_id = max(found.next_id, id_)
        queue = log_records.QUEUE.unpack_from(data, start + log_records.KIND_ID.size)[0]
        if kind == log_records.GONE:
            self._gone.add(queue)
        elif kind == log_records.SETTLED:
            at = start + log_records.SETTLED_HEAD.size
            self._settle(queue, Struct(f"<{(end - at) // 8}Q").unpack_from(data, at))
        elif kind == log_records.MOVED:
            first = log_records.MOVED_HEAD.unpack_from(data, start)[3]
            at = start + log_records.MOVED_HEAD.size
            if first == id_ or self._run <= first and self._run_end == id_:  # all copies are there
                self._settle(queue, Struct(f"<{(end - at) // 8}Q").unpack_from(data, at))
        elif kind == log_records.COUNTED:
            _, _, _, counted, attempts = log_records.COUNTED_BODY.unpack_from(data, start)
            self._counted[queue, counted] = max(attempts, self._counted.get((queue, counted), 0))

    def _new_entries(self, queue: int) -> _Entries:
        entries = self._entries[queue] = _Entries()
        return entries

    def _share(self, segment: Segment, id_: int, queues: tuple[int, ...]) -> None:
        """A message of several queues, of which an old checkpoint may say that only some want it."""
        segment.share(id_, 1, queues)
        wanting = self._saved.shared.get(id_)
        for queue in queues if wanting is not None else ():
            if wanting is not None and queue not in wanting:
                self._unwanted(segment, queue, id_)

    def _settle(self, queue: int, ids: Iterable[int]) -> None:
        segment, first, end = None, 0, 0  # those next to each other are most often of one segment
        for id_ in ids:
            if not first <= id_ < end:
                segment, first, end = self._segment_of(id_)
            if segment is not None:
                self._unwanted(segment, queue, id_)

    def _segment_of(self, id_: int) -> tuple[Segment | None, int, int]:
        """The segment that has this id, the first of its ids, and the first of the next one's."""
        segments = self._found.segments
        index = bisect_right(segments, id_, key=lambda segment: segment.first_id)
        end = segments[index].first_id if index < len(segments) else 1 << 64
        return (segments[index - 1], segments[index - 1].first_id, end) if index else (None, 0, 0)

    def finish(self, known: set[int] | None) -> None:
        """Leave what is wanted: once for each order, only where it is not dead, and only for queues that there are."""
        found = self._found
        found.next_queue = max([0, *self._entries, *self._gone]) + 1
        counted: dict[int, bytearray] = {}  # by segment, a bit for each shared message that is wanted
        while self._entries:
            queue, entries = self._entries.popitem()
            self._finish_queue(queue, entries, queue not in self._gone and (known is None or queue in known), counted)
        for (queue, id_), attempts in found.counted.items():
            segment = self._segment_of(id_)[0]
            assert segment is not None, "it was found"
            segment.count(queue, id_, attempts)
        found.counted.clear()

    def _finish_queue(self, queue: int, entries: _Entries, there: bool, counted: dict[int, bytearray]) -> None:
        found = self._found
        strand = entries.single
        if there and strand is not None and self._finish_strand(queue, strand):
            return
        wanted = RecoveredQueue()
        levels, deadlines = bytearray(), array("Q")
        total = marks = 0
        for copies in entries.in_order():
            *older, (_, id_, location, body_bytes, mark) = copies
            segment = self._segments[location >> OFFSET_BITS]
            kept = (
                there
                and not segment.is_dead(id_)
                and (segment.sharing is None or segment.sharing.wants(id_ - segment.first_id, queue))
            )
            if kept:
                wanted.append(id_, location)
                levels.append(mark & _LEVEL)
                if mark >> _DEADLINE or deadlines:
                    deadlines.frombytes(bytes(8 * (len(wanted) - 1 - len(deadlines))))
                    deadlines.append(mark >> _DEADLINE)
                marks |= mark
                total += body_bytes
                if segment.sharing is None or _mark(counted.setdefault(segment.number, bytearray()), id_, segment):
                    segment.live += 1
                if self._counted:
                    self._carry(queue, id_, id_)
            elif not there:
                self._unwanted(segment, queue, id_)
            for _, old, old_location, _, _ in older:
                if kept and self._counted:
                    self._carry(queue, old, id_)
                self._unwanted(self._segments[old_location >> OFFSET_BITS], queue, old)
        wanted.body_bytes = total
        if marks & _LEVEL:
            wanted.levels = bytes(levels)
        if marks >> _DEADLINE:
            wanted.deadlines_ms = deadlines
        if len(wanted):
            found.queues[queue] = wanted

    def _finish_strand(self, queue: int, strand: _Strand) -> bool:
        """Leave what is wanted where that is only a matter of which messages are dead; False where it is not."""
        if strand.marks is not None or self._counted:
            return False
        counts = Counter(location >> OFFSET_BITS for location in strand.locations)
        if any(self._segments[number].sharing is not None for number in counts):
            return False
        wanted, total = RecoveredQueue(), 0
        if all(self._segments[number].untouched for number in counts):
            wanted.ids, wanted.locations, total = strand.ids, strand.locations, sum(strand.bodies)
        else:
            counts.clear()
            number, is_dead = -1, Segment.is_dead
            for id_, location, body_bytes in zip(strand.ids, strand.locations, strand.bodies, strict=True):
                if location >> OFFSET_BITS != number:
                    number = location >> OFFSET_BITS
                    segment = self._segments[number]
                if not is_dead(segment, id_):
                    wanted.append(id_, location)
                    total += body_bytes
                    counts[number] += 1
        for number, count in counts.items():
            self._segments[number].live += count
        if len(wanted):
            wanted.body_bytes = total
            self._found.queues[queue] = wanted
        return True

    def _carry(self, queue: int, id_: int, newest: int) -> None:
        """What was counted for this copy of a message holds for the newest one."""
        attempts = self._counted.get((queue, id_), 0)
        if attempts > self._found.counted.get((queue, newest), 0):
            self._found.counted[queue, newest] = attempts

    def _unwanted(self, segment: Segment, queue: int, id_: int) -> None:
        if segment.sharing is None or segment.sharing.settle(id_ - segment.first_id, queue):
            segment.mark_dead(id_)


def _mark(bits: bytearray, id_: int, segment: Segment) -> bool:
    """False where it was marked already."""
    index = id_ - segment.first_id
    at, bit = index >> 3, 1 << (index & 7)
    if at >= len(bits):
        bits.extend(bytes(at + 64 - len(bits)))
    if bits[at] & bit:
        return False
    bits[at] |= bit
    return True


def _first_id(salt: int, data: bytes, otherwise: int) -> int:
    """The least id that a sound record of a segment without its head can have."""
    at = _next_sound(salt, data, 0)
    return int(log_records.KIND_ID.unpack_from(data, at + log_records.RECORD_BYTES)[1]) if at else otherwise


def _next_sound(salt: int, data: bytes, at: int) -> int:
    """Where the next whole and sound record starts, 0 where there is none."""
    while True:
        at = data.find(_MAGIC_OCTETS, at)
        if at < 0:
            return 0
        if log_records.whole(salt, data, at):
            return at
        at += 1
