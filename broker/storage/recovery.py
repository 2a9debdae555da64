"""From the files of a log to what is still wanted (the layout is in `records`).

All segments are read once, in order. The end of the last one may be torn, as it was being written when the machine
stopped: it is cut off. A bad record anywhere else is damage: it is reported with its place and left alone, and reading
goes on at the next sound record. Settled ids that no message has mean nothing.

A message that compaction has copied stands twice until the old segment goes: of one `order`, the highest id counts.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct

from . import checkpoint, records
from .disk import Disk
from .segments import OFFSET_BITS, Segment, number_of

_MAGIC_OCTETS = records.LENGTH.pack(records.MAGIC)


class Recovered:
    """`queues`: by queue, (id, place) in order; `body_bytes`: by queue, the sum of their bodies."""

    __slots__ = ("segments", "queues", "body_bytes", "shared", "next_id", "next_queue")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.queues: dict[int, list[tuple[int, int]]] = {}
        self.body_bytes: dict[int, int] = {}
        self.shared: dict[int, set[int]] = {}
        self.next_id = 1
        self.next_queue = 1


def recover(disk: Disk, report: list[str], known: set[int] | None = None) -> Recovered:
    """Read the log; `report` gets a line for each thing that was wrong. Raises OSError.

    Queues that are not `known` (None: all are) have been deleted.
    """
    found = Recovered()
    saved = checkpoint.load(disk, report)
    scan = _Scan(found, saved)
    disk.sync_folder()
    numbers = sorted(number for number in map(number_of, disk.names()) if number is not None)
    for number in numbers:
        segment = Segment(number, 0)
        file = segment.open(disk)
        data = file.read(0, file.size)
        last = number == numbers[-1]
        first = records.first_id(data)
        if first is None:
            if last and len(data) <= records.SEGMENT_HEAD_BYTES or last and not _next_sound(data, 0):
                report.append(f"{segment.name}: {len(data)} octets of a torn end cut off")
                segment.close()
                disk.remove(segment.name)
                disk.sync_folder()
                continue
            report.append(f"{segment.name}: its head is damaged, at offset 0")
            first = _first_id(data, found.next_id)
        segment.first_id, bitmap = saved.bitmaps.get(number, (first, b""))
        segment.restore(bitmap)
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


class _Scan:
    def __init__(self, found: Recovered, saved: checkpoint.Checkpoint) -> None:
        self._found = found
        self._saved = saved
        # By queue: order, id, place, body octets of every message, whatever became of it.
        self._entries: dict[int, list[tuple[int, int, int, int]]] = {}
        self._gone: set[int] = set()
        found.next_id = max(found.next_id, saved.next_id)

    def read(self, segment: Segment, data: bytes, report: list[str], last: bool) -> int:
        """All records of a segment; where it ends once a torn end is cut off."""
        at = records.SEGMENT_HEAD_BYTES
        while at < len(data):
            end = records.whole(data, at)
            if end:
                self._take(segment, data, at, end)
                at = end
                continue
            sound = _next_sound(data, at + 1)
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
            _, id_, order, _, body_bytes, _, _, count = records.MESSAGE_HEAD.unpack_from(data, start)
            if id_ >= found.next_id:
                found.next_id = id_ + 1
            segment.total += 1
            if not count:
                segment.mark_dead(id_)
            elif not segment.is_dead(id_):
                entry = order, id_, segment.number << OFFSET_BITS | at, body_bytes
                queues_at = start + records.MESSAGE_HEAD.size
                queue = records.QUEUE.unpack_from(data, queues_at)[0]
                self._entries.setdefault(queue, []).append(entry)
                if count > 1:
                    queues = Struct(f"<{count}I").unpack_from(data, queues_at)
                    found.shared[id_] = set(self._saved.shared.get(id_, queues))
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

    def _settle(self, queue: int, id_: int) -> None:
        wanting = self._found.shared.get(id_)
        if wanting is not None:
            wanting.discard(queue)
            if wanting:
                return
        segments = self._found.segments
        index = bisect_right(segments, id_, key=lambda segment: segment.first_id) - 1
        if index >= 0:
            segments[index].mark_dead(id_)

    def finish(self, known: set[int] | None) -> None:
        """Leave what is wanted: once for each order, only where it is not dead, and only for queues that there are."""
        found = self._found
        by_number = {segment.number: segment for segment in found.segments}
        shared = found.shared
        found.next_queue = max([0, *self._entries, *self._gone]) + 1
        counted: set[int] = set()  # of the shared ones
        while self._entries:
            queue, entries = self._entries.popitem()
            there = queue not in self._gone and (known is None or queue in known)
            entries.sort()
            wanted: list[tuple[int, int]] = []
            total = 0
            newer = -1  # the order of the entry behind
            while entries:
                order, id_, place, body_bytes = entries.pop()
                segment = by_number[place >> OFFSET_BITS]
                if order == newer or not there:
                    self._unwanted(segment, queue, id_)  # a later copy counts; or nobody is there to want it
                elif not segment.is_dead(id_) and (id_ not in shared or queue in shared[id_]):
                    wanted.append((id_, place))
                    total += body_bytes
                    if id_ not in shared:
                        segment.live += 1
                    elif id_ not in counted:
                        counted.add(id_)
                        segment.live += 1
                newer = order
            if wanted:
                wanted.reverse()
                found.queues[queue] = wanted
                found.body_bytes[queue] = total
        for id_ in [id_ for id_ in shared if id_ not in counted]:
            del shared[id_]

    def _unwanted(self, segment: Segment, queue: int, id_: int) -> None:
        wanting = self._found.shared.get(id_)
        if wanting is not None:
            wanting.discard(queue)
            if wanting:
                return
        segment.mark_dead(id_)


def _first_id(data: bytes, otherwise: int) -> int:
    """The least id that a sound record of a segment without its head can have."""
    at = _next_sound(data, 0)
    return int(records.KIND_ID.unpack_from(data, at + records.RECORD_BYTES)[1]) if at else otherwise


def _next_sound(data: bytes, at: int) -> int:
    """Where the next whole and sound record starts, 0 where there is none."""
    while True:
        at = data.find(_MAGIC_OCTETS, at)
        if at < 0:
            return 0
        if records.whole(data, at):
            return at
        at += 1
