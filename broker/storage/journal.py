"""The journal: every durable queue's messages and what became of them, in one log with group commit.

The loop fills a buffer. `seal` hands what has gathered to one worker as a Batch, `Batch.commit` makes it durable there,
`committed` tells the loop; meanwhile the next batch gathers. There is no timer: a batch is what arrived while the one
before was being written. No two threads ever touch the same thing: a batch owns its octets, and files are only written
by the worker.

What is settled is gathered by queue and written once per batch. Where a message stands is remembered in the message
itself (`id`, `place`), so the journal holds one bit for each message, and more only for those of several queues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from ..core import ports
from ..core.message import Address, Message
from . import checkpoint, records
from .checkpoint import Checkpoint
from .compaction import Compaction
from .disk import Disk
from .recovery import recover
from .segments import OFFSET_BITS, OFFSET_MASK, Segment

if TYPE_CHECKING:
    from ..core.definitions import Change
    from .metadata import Metadata

SEGMENT_BYTES = 64 << 20
BUFFER_LIMIT = 16 << 20  # octets that may gather while a batch is written; then publishers wait for the disk
READ_BYTES = 256 << 10  # read at once from a backlog that lies on the disk


class Batch(ports.Batch):
    """What is written and synced together. `commit` runs on the worker, and may be called again after a full disk."""

    __slots__ = ("number", "segment", "start", "data", "_changes", "_disk", "_metadata", "_after")

    def __init__(
        self,
        number: int,
        segment: Segment,
        start: int,
        data: bytes,
        changes: list[Change],
        disk: Disk,
        metadata: Metadata,
        after: Callable[[], None] | None,
    ) -> None:
        self.number = number
        self.segment = segment
        self.start = start
        self.data = data
        self._changes = changes
        self._disk = disk
        self._metadata = metadata
        self._after = after

    def commit(self) -> None:
        """Raises OSError. After ENOSPC or EDQUOT nothing was written and it may be tried again; all else is final."""
        if self._changes:
            self._metadata.apply(self._changes)
            self._changes = []
        if self.data:
            file = self.segment.open(self._disk)
            if not file.size:
                file.write(records.segment_head(self.segment.first_id) + self.data)
            elif file.size == self.start:
                file.write(self.data)
            file.sync()
        if self._after is not None:
            self._after()


class Journal(ports.Journal):
    """`recover` first, once. `report` is what it found to be wrong, a line each."""

    def __init__(self, disk: Disk, metadata: Metadata, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.durable = 0
        self.report: list[str] = []
        self.recovered_bytes: dict[int, int] = {}  # by queue, the sum of the bodies that `recover` found
        self.next_queue = 1  # greater than the number of any queue that `recover` found a trace of
        self.segments: dict[int, Segment] = {}
        self.shared: dict[int, set[int]] = {}  # of messages with several queues, those that still want them
        self.next_id = 1
        self.disk = disk
        self._metadata = metadata
        self._segment_bytes = segment_bytes
        self._current = Segment(1, 1)
        self._buffer = bytearray()
        self._start = self._current.length  # where the buffer will stand in the segment
        self._filling = 1
        self._outstanding: Batch | None = None
        self._settled: dict[int, list[int]] = {}
        self._gone: set[int] = set()
        self._changes: list[Change] = []
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._compaction = Compaction(self)

    def recover(self, known: set[int] | None = None) -> dict[int, list[tuple[int, int]]]:
        """By queue, id and place of each message that is still wanted, in order; `known` are the queues there are."""
        found = recover(self.disk, self.report, known)
        self.segments = {segment.number: segment for segment in found.segments}
        self.shared = found.shared
        self.next_id = found.next_id
        self.recovered_bytes = found.body_bytes
        self.next_queue = found.next_queue
        last = found.segments[-1] if found.segments else None
        self._current = last if last is not None else Segment(1, self.next_id)
        self.segments[self._current.number] = self._current
        self._start = self._current.length
        if self._start >= self._segment_bytes:
            self._roll()
        return found.queues

    # What is to be made durable

    def append(self, queues: list[int], messages: list[Message]) -> None:
        """Store each message once, for all these queues. HOT: bench D."""
        segment = self._current
        place = segment.number << OFFSET_BITS
        buffer = self._buffer
        start = self._start
        count = len(queues)
        numbers = Struct(f"<{count}I").pack(*queues)
        id_ = self.next_id
        for message in messages:
            message.id = id_
            message.place = place | (start + len(buffer))
            buffer += records.message(
                id_,
                id_,
                message.largest_frame,
                message.body_bytes,
                message.channel,
                message.persistent,
                count,
                numbers + message.address.encoded,
                message.frames,
            )
            if count > 1:
                self.shared[id_] = set(queues)
            id_ += 1
        self.next_id = id_
        segment.live += len(messages)
        segment.total += len(messages)

    def settle(self, queue: int, id_: int, place: int) -> None:
        """HOT: bench D."""
        if self._compaction.moved:
            id_, place = self._compaction.forward(id_, place)
        if queue and queue not in self._gone:
            ids = self._settled.get(queue)
            if ids is None:
                self._settled[queue] = [id_]
            else:
                ids.append(id_)
        if self.shared:
            wanting = self.shared.get(id_)
            if wanting is not None:
                wanting.discard(queue)
                if wanting:
                    return
                del self.shared[id_]
        self.segments[place >> OFFSET_BITS].bury(id_)

    def gone(self, queue: int) -> None:
        """The queue was deleted: what it has is settled without a word for each."""
        self._gone.add(queue)
        self._settled.pop(queue, None)
        self._buffer += records.gone(self.next_id, queue)

    def change(self, change: Change) -> None:
        self._changes.append(change)

    def behind(self) -> bool:
        return len(self._buffer) > BUFFER_LIMIT

    def ticket(self) -> int:
        if self._buffer or self._settled or self._changes:
            return self._filling
        return self._outstanding.number if self._outstanding is not None else self.durable

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        self._waiting.append((ticket, fn))

    # For compaction

    def copy(
        self,
        order: int,
        largest: int,
        body_bytes: int,
        channel: int,
        persistent: bool,
        queues: list[int],
        content: bytes,
    ) -> tuple[int, int]:
        """Store a message again, with address and frames as `content`; its new id and place."""
        segment = self._current
        id_, place = self.next_id, segment.number << OFFSET_BITS | (self._start + len(self._buffer))
        numbers = Struct(f"<{len(queues)}I").pack(*queues)
        self._buffer += records.message(
            id_, order, largest, body_bytes, channel, persistent, len(queues), numbers, content
        )
        if len(queues) > 1:
            self.shared[id_] = set(queues)
        self.next_id += 1
        segment.live += 1
        segment.total += 1
        return id_, place

    def snapshot(self) -> Checkpoint:
        bitmaps = {segment.number: (segment.first_id, segment.bitmap) for segment in self.segments.values()}
        return Checkpoint(self.next_id, bitmaps, self.shared)

    def is_current(self, segment: Segment) -> bool:
        return segment is self._current

    # Group commit

    def seal(self) -> Batch | None:
        """What has gathered, unless a batch is outstanding or there is nothing."""
        if self._outstanding is not None:
            return None
        self._compaction.step()
        if not (self._buffer or self._settled or self._changes):
            return None
        for queue, ids in self._settled.items():
            self._buffer += records.settled(self.next_id, queue, ids)
        data = bytes(self._buffer)
        segment = self._current
        self._outstanding = Batch(
            self._filling,
            segment,
            self._start,
            data,
            self._changes,
            self.disk,
            self._metadata,
            self._compaction.removal(segment),
        )
        self.segments[segment.number] = segment
        self._filling += 1
        self._buffer = bytearray()
        self._settled = {}
        self._changes = []
        segment.length += len(data)
        self._start = segment.length
        if self._start >= self._segment_bytes:
            self._roll()
        return self._outstanding

    def committed(self, number: int) -> None:
        """The batch is durable."""
        self._outstanding = None
        self.durable = number
        self._compaction.committed()
        waiting = self._waiting
        while waiting and waiting[0][0] <= number:
            waiting.popleft()[1]()

    def close(self) -> None:
        """A checkpoint, so that the next start knows what is dead. Nothing is outstanding, nothing follows."""
        try:
            checkpoint.save(self.disk, self.snapshot().encode())
        except OSError as error:
            if error.errno not in ports.FULL:  # without it, the next start only has more to read
                raise
        for segment in self.segments.values():
            segment.close()

    def _roll(self) -> None:
        self._current = Segment(self._current.number + 1, self.next_id)
        self.segments[self._current.number] = self._current
        self._start = self._current.length

    # Reading back

    def read(self, pages: list[tuple[int, int]]) -> list[Message]:
        """The messages with these ids and places, in this order. One damaged since is reported and left out."""
        messages: list[Message] = []
        data, segment_number, base = b"", -1, 0
        for id_, place in pages:
            if self._compaction.moved:
                id_, place = self._compaction.forward(id_, place)
            number, offset = place >> OFFSET_BITS, place & OFFSET_MASK
            at = offset - base
            if number != segment_number or at < 0 or not whole_record(data, at):
                data, segment_number, base = self._octets(number, offset), number, offset
                at = 0
            message = parsed(data, at)
            if message is None:
                self.report.append(f"{self.segments[number].name}: a damaged record at offset {offset} is left out")
                continue
            message.id, message.place = id_, place
            messages.append(message)
        return messages

    def _octets(self, number: int, offset: int) -> bytes:
        """What stands there, at least one whole record; not all of it need have been written yet."""
        segment = self.segments[number]
        batch = self._outstanding
        if segment is self._current and offset >= self._start:
            return bytes(self._buffer[offset - self._start :])
        if batch is not None and segment is batch.segment and offset >= batch.start:
            return batch.data[offset - batch.start :]
        file = segment.open(self.disk)
        data = file.read(offset, READ_BYTES)
        length = records.RECORD_HEAD.unpack_from(data)[2] + records.RECORD_BYTES
        return data if length <= len(data) else file.read(offset, length)


def whole_record(data: bytes, at: int) -> bool:
    """Whether all of the record that starts there is in these octets."""
    if at + records.RECORD_BYTES > len(data):
        return False
    return int(at + records.RECORD_BYTES + records.RECORD_HEAD.unpack_from(data, at)[2]) <= len(data)


def parsed(data: bytes, at: int) -> Message | None:
    """The message of the record that starts there, None where it has been damaged since it was written."""
    end = records.whole(data, at)
    if not end:
        return None
    start = at + records.RECORD_BYTES
    _, _, _, largest, body_bytes, channel, persistent, queues = records.MESSAGE_HEAD.unpack_from(data, start)
    exchange_at = start + records.MESSAGE_HEAD.size + queues * records.QUEUE.size
    key_at = exchange_at + 1 + data[exchange_at]
    frames_at = key_at + 1 + data[key_at]
    address = Address(
        data[exchange_at + 1 : key_at].decode("utf-8", "surrogateescape"),
        data[key_at + 1 : frames_at].decode("utf-8", "surrogateescape"),
    )
    return Message(address, data[frames_at:end], channel, body_bytes, largest, persistent == 1)
