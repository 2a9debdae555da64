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
from struct import Struct

from . import checkpoint, records
from .checkpoint import Checkpoint
from .disk import Disk
from .faults import StorageFault
from .segments import OFFSET_BITS, Segment, number_of

_Entry = tuple[int, int, int, int, int]

_MAGIC_OCTETS = records.LENGTH.pack(records.MAGIC)
_LEVEL, _DEADLINE = 0xFF, 8  # of a mark: the bits of the priority, and those below the deadline


class Recovered:
    """`queues`: by queue, (id, place) in order; `body_bytes`: by queue, the sum of their bodies.

    `levels` and `deadlines`: by queue, the priority and the deadline of each message in the same order, where any has
    one; `counted`: by queue and id, the attempts where a queue counted any.
    `checkpointed` says whether there was a checkpoint that could be used.
    """

    __slots__ = (
        "salt",
        "checkpointed",
        "segments",
        "queues",
        "body_bytes",
        "levels",
        "deadlines",
        "counted",
        "next_id",
        "next_queue",
    )

    def __init__(self, salt: int, checkpointed: bool) -> None:
        self.salt = salt
        self.checkpointed = checkpointed
        self.segments: list[Segment] = []
        self.queues: dict[int, list[tuple[int, int]]] = {}
        self.body_bytes: dict[int, int] = {}
        self.levels: dict[int, bytes] = {}
        self.deadlines: dict[int, array[int]] = {}
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
        data = file.read(0, file.size)
        last = number == numbers[-1]
        head = records.head_of(data)
        if head is None:
            if last and len(data) <= records.SEGMENT_HEAD_BYTES or last and not _next_sound(salt, data, 0):
                report.append(f"{segment.name}: {len(data)} octets of a torn end cut off")
                segment.close()
                disk.remove(segment.name)
                disk.sync_folder()
                continue
            report.append(f"{segment.name}: its head is damaged, at offset 0")
            head = records.Head(_first_id(salt, data, found.next_id), salt)
        segment.salt = head.salt
        segment.first_id = head.first_id
        if (state := saved.segments.get(number)) is not None:
            segment.restore(state)
        found.next_id = max(found.next_id, segment.first_id)  # also when all before it is damaged or gone
        found.segments.append(segment)
        end = scan.read(segment, data, report, last)
        if end < len(data):
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
        data = file.read(0, records.SEGMENT_HEAD_BYTES)
        head = records.head_of(data)
        if other := records.other_version(data):
            raise StorageFault(
                f"{segment.name}: of version {other} of the log, this broker reads version {records.VERSION}"
            )
        if head is None and file.size > records.SEGMENT_HEAD_BYTES:
            unread = segment.name
        elif head is not None and salt is None:
            salt = head.salt
        segment.close()
    if salt is None and unread:
        raise StorageFault(f"{unread}: its head is damaged, and {checkpoint.NAME}, which could stand in for it, is too")
    return salt if salt is not None else disk.salt()


class _Scan:
    def __init__(self, found: Recovered, saved: Checkpoint) -> None:
        self._found = found
        self._saved = saved
        # By queue: order, id, place, body octets, mark, of every message, whatever became of it.
        self._entries: dict[int, list[_Entry]] = {}
        self._counted = saved.attempts
        self._segments: dict[int, Segment] = {}
        self._gone: set[int] = set()
        found.next_id = max(found.next_id, saved.next_id)

    def read(self, segment: Segment, data: bytes, report: list[str], last: bool) -> int:
        """All records of a segment; where it ends once a torn end is cut off."""
        self._segments[segment.number] = segment
        at = records.SEGMENT_HEAD_BYTES
        while at < len(data):
            end = records.whole(segment.salt, data, at)
            if end:
                self._take(segment, data, at, end)
                at = end
                continue
            sound = _next_sound(segment.salt, data, at + 1)
            if not sound and last:
                report.append(f"{segment.name}: {len(data) - at} octets of a torn end cut off at offset {at}")
                return at
            report.append(f"{segment.name}: a damaged record at offset {at} is left out")
            at = sound or len(data)
        return len(data)

    def _take(self, segment: Segment, data: bytes, at: int, end: int) -> None:
        found = self._found
        start = at + records.RECORD_BYTES
        if data[start] == records.MESSAGE:
            _, id_, order, _, body_bytes, _, flags, count = records.MESSAGE_HEAD.unpack_from(data, start)
            if id_ >= found.next_id:
                found.next_id = id_ + 1
            segment.total += 1
            if not count:
                segment.mark_dead(id_)
            elif not segment.is_dead(id_):
                queues_at = start + records.MESSAGE_HEAD.size
                mark = 0
                if flags & records.HAS_LIFE:
                    level, _, _, deadline_ms = records.LIFE.unpack_from(data, queues_at)
                    mark = level | deadline_ms << _DEADLINE
                    queues_at = records.life_end(data, queues_at)
                entry = order, id_, segment.number << OFFSET_BITS | at, body_bytes, mark
                queue = records.QUEUE.unpack_from(data, queues_at)[0]
                self._entries.setdefault(queue, []).append(entry)
                if count > 1:
                    queues = Struct(f"<{count}I").unpack_from(data, queues_at)
                    if segment.wanting(id_) is None:
                        self._share(segment, id_, queues)
                    for queue in queues[1:]:
                        self._entries.setdefault(queue, []).append(entry)
            return
        kind, id_ = records.KIND_ID.unpack_from(data, start)
        found.next_id = max(found.next_id, id_)
        queue = records.QUEUE.unpack_from(data, start + records.KIND_ID.size)[0]
        if kind == records.GONE:
            self._gone.add(queue)
        elif kind == records.SETTLED:
            at = start + records.SETTLED_HEAD.size
            for settled in Struct(f"<{(end - at) // 8}Q").unpack_from(data, at):
                self._settle(queue, settled)
        elif kind == records.COUNTED:
            _, _, _, counted, attempts = records.COUNTED_BODY.unpack_from(data, start)
            self._counted[queue, counted] = max(attempts, self._counted.get((queue, counted), 0))

    def _share(self, segment: Segment, id_: int, queues: tuple[int, ...]) -> None:
        """A message of several queues, of which an old checkpoint may say that only some want it."""
        segment.share(id_, 1, queues)
        wanting = self._saved.shared.get(id_)
        for queue in queues if wanting is not None else ():
            if wanting is not None and queue not in wanting:
                self._unwanted(segment, queue, id_)

    def _settle(self, queue: int, id_: int) -> None:
        segment = self._segment_of(id_)
        if segment is not None:
            self._unwanted(segment, queue, id_)

    def _segment_of(self, id_: int) -> Segment | None:
        segments = self._found.segments
        index = bisect_right(segments, id_, key=lambda segment: segment.first_id) - 1
        return segments[index] if index >= 0 else None

    def finish(self, known: set[int] | None) -> None:
        """Leave what is wanted: once for each order, only where it is not dead, and only for queues that there are."""
        found = self._found
        found.next_queue = max([0, *self._entries, *self._gone]) + 1
        counted: dict[int, bytearray] = {}  # by segment, a bit for each shared message that is wanted
        while self._entries:
            queue, entries = self._entries.popitem()
            entries.sort()
            self._finish_queue(queue, entries, queue not in self._gone and (known is None or queue in known), counted)
        for (queue, id_), attempts in found.counted.items():
            segment = self._segment_of(id_)
            assert segment is not None, "it was found"
            segment.count(queue, id_, attempts)
        found.counted.clear()

    def _finish_queue(self, queue: int, entries: list[_Entry], there: bool, counted: dict[int, bytearray]) -> None:
        """`entries` in order, to be used up."""
        found = self._found
        wanted: list[tuple[int, int]] = []
        levels = bytearray()
        deadlines = array("Q")
        total = marks = 0
        newer = -1  # the order of the entry behind
        kept = 0  # the id of its copy that counts, if it is wanted
        while entries:
            order, id_, place, body_bytes, mark = entries.pop()
            segment = self._segments[place >> OFFSET_BITS]
            if order != newer:
                kept = 0
            if order == newer or not there:
                if kept and self._counted:
                    self._carry(queue, id_, kept)
                self._unwanted(segment, queue, id_)  # a later copy counts; or nobody is there to want it
            elif not segment.is_dead(id_) and (
                segment.sharing is None or segment.sharing.wants(id_ - segment.first_id, queue)
            ):
                kept = id_
                wanted.append((id_, place))
                levels.append(mark & _LEVEL)
                deadlines.append(mark >> _DEADLINE)
                marks |= mark
                total += body_bytes
                if segment.sharing is None or _mark(counted.setdefault(segment.number, bytearray()), id_, segment):
                    segment.live += 1
                if self._counted:
                    self._carry(queue, id_, id_)
            newer = order
        if wanted:
            wanted.reverse()
            found.queues[queue] = wanted
            found.body_bytes[queue] = total
        if marks & _LEVEL:
            levels.reverse()
            found.levels[queue] = bytes(levels)
        if marks >> _DEADLINE:
            deadlines.reverse()
            found.deadlines[queue] = deadlines

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
    return int(records.KIND_ID.unpack_from(data, at + records.RECORD_BYTES)[1]) if at else otherwise


def _next_sound(salt: int, data: bytes, at: int) -> int:
    """Where the next whole and sound record starts, 0 where there is none."""
    while True:
        at = data.find(_MAGIC_OCTETS, at)
        if at < 0:
            return 0
        if records.whole(salt, data, at):
            return at
        at += 1
