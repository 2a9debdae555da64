"""The journal: the messages of all durable queues and their settlements, in one log with group commit.

The event loop fills a buffer. `seal` hands it to a worker thread as a Batch: `Batch.write` writes it, after the batch
before, `Batch.sync` makes it durable, and `committed` notifies the loop; meanwhile the next batch fills. Several
batches may be outstanding (`Disk.in_flight`), so one is written and synced while the sync of another runs. There is no
timer: a batch is what arrived while all were outstanding. The threads share no data: a batch owns its bytes, and only
workers write files.

Settlements are collected by queue and written once per batch. The index knows the place of each message by its id.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from ..core.messages import journal_port as port
from ..core.messages.journal_port import BEHIND, DISK_FULL, ROOM, ids_by_queue
from ..core.messages.message import NO_ADDRESS, Message, read_bytes
from ..core.messages.message_state import MessageState
from . import log_records
from .backup import Backup
from .checkpoint import Checkpoint, SegmentState
from .compaction import Compaction
from .disk import Disk
from .index import Index, new_block
from .recovery import Names, recover
from .segment import Segment
from .segment_reader import READ_BYTES, Reader, Shortage

if TYPE_CHECKING:
    from ..core.metadata.records import Change
    from .metadata import Metadata

SEGMENT_BYTES = 64 << 20
EARLY_BYTES = 1 << 20  # on a full disk, a segment ends at this length if it is mostly dead, or after growing by as much
GAP_BYTES = 16 << 10  # between two records that are read together from a far store
NEAR = 3  # messages after one that is read: if they are within READ_BYTES, these are read at once
READ_LIMIT = 2 << 20  # bytes of frames that one read returns, but for the last message
STORE_LIMIT = 4 << 20  # bytes that one read takes from files, but for the last message, reads counted by `read_cost`
BUFFER_LIMIT = 4 << 20  # bytes buffered while a batch is written; beyond this, publishers and jobs wait for the disk
COUNTS = 2_000  # of deliveries, in one batch: 2 ms
CHANGE_BYTES = 4 << 10  # of these, that a change of metadata counts, so that there are at most a thousand
NO_BATCH = bytes(log_records.BATCH_BYTES)  # in the place of the record that begins a batch, until that is sealed
# The last deleted queues, for which settlements are no longer recorded. Those for older ones are, which is harmless.
DELETED_QUEUES_LIMIT = 10_000


@dataclass(slots=True, eq=False)
class Batch(port.Batch):
    """Records and changes of metadata that are written and synced together.

    `write` and `sync` run on a worker, and may be called again after a full disk. `data` is the journal's buffer, which
    does not change any more; `logged` is its number in the log. `syncs` is False for a batch of nothing but changes of
    metadata, which need not survive a power cut yet; `syncs_log` is False if the records need not survive one. The
    worker sets `written`, which any thread may read, and calls `after` at the end.
    """

    number: int
    logged: int
    segment: Segment
    start: int
    data: bytearray
    syncs: bool
    syncs_log: bool
    changes: list[Change]
    disk: Disk
    metadata: Metadata
    slot: int
    written: bool = False
    moment: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def write(self) -> None:
        """Write the records, on a full disk to the reserve: later settlements may free segments."""
        try:
            write_with_reserve(self.disk, self._write)
        except MemoryError as error:  # of Python, or of SQLite
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from error

    def _write(self) -> None:
        if self.changes:
            self.metadata.apply(self.changes)
            self.changes = []
        if self.syncs and self.metadata.unsynced:
            self.metadata.sync()  # first, so that the log refers to no queue that metadata lacks
        if self.data and not self.written:
            segment = self.segment
            if self.start == log_records.SEGMENT_HEAD_BYTES and not segment.durable:  # the first batch of the segment
                self.disk.append(segment.number, 0, segment.head + self.data, self.slot)
            else:
                self.disk.append(segment.number, self.start, self.data, self.slot)
            self.written = True
        if self.moment is not None:
            self.moment()
            self.moment = None

    def sync(self) -> None:
        if self.data and self.syncs_log:
            self.disk.sync(self.slot)
        else:
            self.disk.commit()
        if self.after is not None:
            self.after()


class Journal(port.Journal):
    """A segmented write-ahead log for the messages of all durable queues.

    Call `recover` once before anything else.
    """

    def __init__(self, disk: Disk, metadata: Metadata, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.durable = 0  # the number of the last durable batch
        self.report: list[str] = []  # a line for each damage that `recover` found
        self.reader = Reader(disk, self.report.append)
        self.next_queue = 1  # greater than any queue number in the log, after `recover`
        self.index = Index()  # the index of the messages, by id
        self.next_id = self._first_id = 1  # the id of the next message
        self._copied = 0  # by compaction
        self.disk = disk
        self.read_cost = disk.read_cost
        self.in_flight = disk.in_flight
        self._metadata = metadata
        self._segment_bytes = segment_bytes
        self._salt = 0
        self._next_segment = 1
        self._current = self._new_segment()  # until `recover`
        self._block = new_block(1, 1)  # of the messages that are first written to the current segment
        self._buffer = bytearray(NO_BATCH)
        self._logged = self._logged_durable = 0  # the number in the log of the last batch, and of the last durable one
        self._vouched = 0  # the number of the last batch that is durable according to a later one
        self._vouch_due = False
        self._start = self._current.length  # offset of the buffer in the segment
        self._full_from = self._start  # length of the segment when the disk was found full, or of a new one
        self._filling = 1
        self._outstanding: list[Batch] = []  # in the order of their numbers
        self._committed: set[int] = set()  # outstanding batches that were synced before an earlier one
        self._settled = ids_by_queue()  # an array, as ints in a list take 40 bytes each
        self._moved = ids_by_queue()  # the same of messages that this batch stores anew for other queues
        self._counted: dict[tuple[int, int], int] = {}  # delivery counts by queue and id
        self._batch_first_id = 1  # the id of the first message that the buffer may have
        self._entered: port.Commit | None = None
        self._commits: list[port.Commit] = []  # those that are open, of several batches
        self._last_commit = 0
        self._deleted_queues: dict[int, None] = {}
        self._deletion_bytes = 0  # of the buffer: records of deleted queues
        self._changes: list[Change] = []
        self._unsynced = False
        self._sync_due = False
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._compaction = Compaction(
            disk,
            self.index,
            self.reader,
            self._append_copy,
            self.snapshot,
            self.give_back,
            lambda data: write_with_reserve(disk, partial(disk.save_checkpoint, data)),
            self.unwritten_bytes,
        )

    @property
    def segments(self) -> dict[int, Segment]:
        """The segments by number; the last one is being filled."""
        return self.index.segments

    @property
    def written_messages(self) -> int:
        return self.next_id - self._first_id + self._copied

    @property
    def read_errors(self) -> int:
        return self.reader.errors

    @property
    def damaged_records(self) -> int:
        return self.reader.damaged

    def recover(
        self, known: set[int] | None = None, highest: int | None = None, names: Names = dict
    ) -> dict[int, port.RecoveredQueue]:
        """Read the log and return the messages of each queue; those of queues that are not in `known` are dead.

        `highest` is the highest number that the metadata has ever had; `names` returns the names of queues by number,
        for lines about damage. A power cut after this loses none of the messages. Raises StorageFault, OSError.
        """
        self._metadata.sync()
        recovered = recover(self.disk, self.report, known, highest, names)
        self._salt = recovered.salt
        self.index = self._compaction.index = recovered.index
        self.next_id = self._first_id = self._batch_first_id = recovered.next_id
        self.next_queue = recovered.next_queue
        self._logged = self._logged_durable = self._vouched = recovered.batch
        self._last_commit = recovered.commit
        damage = len(recovered.missing) + sum(len(each.bad) for each in recovered.reports.values())
        self.recovery = port.Recovery(recovered.salt, recovered.batch, recovered.settling, damage)
        last = recovered.segments[-1] if recovered.segments else None
        for segment in recovered.segments[:-1]:
            self.index.complete(segment)
        self._next_segment = recovered.next_segment
        self._current = last if last is not None else self._new_segment()
        self._next_segment = max(self._next_segment, self._current.number + 1)
        self.segments[self._current.number] = self._current
        self._block = self.index.last_block(self._current.number) or new_block(self._current.number, self.next_id)
        self._start = self._full_from = self._current.length
        # Ids of a segment have no gaps, so a log that has lost its end, or part of it, goes on in the next one.
        gap = last is not None and not recovered.goes_on
        if self._start >= self._segment_bytes or gap:
            self._roll(self._new_segment())
        if not recovered.checkpointed:
            self.disk.save_checkpoint(self.snapshot().encode())
        elif self.report or recovered.dropped:
            # Without it, damage at the end of the log would pass for torn at the next start, and later damage might
            # bring back the messages of a commit without an end.
            with suppress(OSError):  # a full disk, perhaps
                self.disk.save_checkpoint(self.snapshot().encode())
        self.give_back()
        return recovered.queues

    # Records

    def append(self, queues: list[int], messages: list[Message]) -> None:
        """Append each message once, for all these queues. HOT: bench D."""
        segment, block, buffer, count = self._current, self._block, self._buffer, len(messages)
        part = block.parts[0]
        before = len(buffer)
        try:
            log_records.append_messages(
                buffer, self._start, segment.salt, self.next_id, queues, messages, part.offsets, part.sizes
            )
        except MemoryError:  # what follows half a record would be unreadable
            del buffer[before:], part.offsets[block.count :], part.sizes[block.count :]
            raise
        if not block.count:
            block.first_id = part.first_id = self.next_id
            self.index.add(block)
        if len(queues) > 1:
            part.share(self.next_id - block.first_id, count, queues)
        self.next_id += count
        block.count += count
        segment.live += count
        segment.total += count
        segment.live_bytes += len(buffer) - before

    def hold(self, id_: int) -> bool:
        return self.index.hold(id_)

    def settle(self, queue: int, id_: int) -> None:
        if self.index.let_go(id_):
            return
        if queue and queue not in self._deleted_queues:
            self._settled[queue].append(id_)
        self.index.settle(queue, id_)

    def settle_many(self, queue: int, messages: list[Message]) -> None:
        """Settle messages, in one step if they are of one part. HOT: bench D."""
        ids = [message.id for message in messages]
        if queue and queue not in self._deleted_queues:
            self._settled[queue].fromlist(ids)
        self.index.settle_many(queue, ids)

    def settle_moved(self, queue: int, id_: int) -> None:
        if queue and queue not in self._deleted_queues:
            self._moved[queue].append(id_)
        self.index.settle(queue, id_)

    def record_delivery_count(self, queue: int, id_: int, attempts: int) -> None:
        """Record how often the message has returned to the queue, at most once in a batch."""
        block = self.index.find(id_)
        if block is not None:
            block.record_attempts(queue, id_, attempts)
        self._counted[queue, id_] = attempts

    def queue_deleted(self, queue: int) -> None:
        """Record the deletion of a queue, which settles all its messages."""
        self._deleted_queues[queue] = None
        if len(self._deleted_queues) > DELETED_QUEUES_LIMIT:
            del self._deleted_queues[next(iter(self._deleted_queues))]
        self._settled.pop(queue, None)
        self._moved.pop(queue, None)
        record = log_records.encode_queue_deleted(self._current.salt, self.next_id, queue)
        self._deletion_bytes += len(record)
        self._buffer += record

    def enter(self, commit: port.Commit | None) -> port.Commit | None:
        before = self._entered
        if before is not None:
            if before.settles:
                self._settled, before.settled = before.settled, self._settled
            elif self.next_id > before.next_id:
                stored = before.stored
                if len(stored) > before.logged and stored[-1] == before.next_id:
                    stored[-1] = self.next_id
                else:
                    stored += (before.next_id, self.next_id)
        self._entered = None
        if commit is not None and not commit.ended:
            self._entered = commit
            commit.next_id = self.next_id
            if commit.settles:
                self._settled, commit.settled = commit.settled, self._settled
        return before

    def begin_settling(self, commit: port.Commit) -> None:
        self.enter(None)
        commit.settles = True
        self.enter(commit)

    def keep_open(self, commit: port.Commit) -> None:
        if not commit.ended:
            self._last_commit += 1
            commit.number = self._last_commit
            self._commits.append(commit)

    def end(self, commit: port.Commit) -> None:
        if self._entered is commit:
            self.enter(None)
        commit.ended = True
        if commit.number:
            self._commits.remove(commit)
        if commit.recorded:
            self._record(commit)
            self._buffer += log_records.encode_commit_end(self._current.salt, self.next_id, commit.number)
            return
        for queue, ids in commit.settled.items():  # the whole commit is in this batch
            self._settled[queue].extend(ids)

    def _record(self, commit: port.Commit) -> None:
        """Record the messages that an open commit has stored and settled in this batch."""
        salt, next_id, number = self._current.salt, self.next_id, commit.number
        stored = commit.stored[commit.logged :]
        if stored or commit.settled:
            commit.recorded = True
        if stored:
            self._buffer += log_records.encode_commit_stored(salt, next_id, number, stored)
            commit.logged = len(commit.stored)
        for queue, ids in commit.settled.items():
            self._buffer += log_records.encode_commit_settled(salt, next_id, number, queue, ids)
        commit.settled = ids_by_queue()

    @property
    def _settling(self) -> bool:
        """Whether the index has settlements of an open commit, which no checkpoint and no copy may have."""
        return any(commit.settles for commit in self._commits)

    def change(self, change: Change) -> None:
        self._changes.append(change)

    def room(self) -> int:
        if self.alarm:
            return DISK_FULL
        return BEHIND if len(self._buffer) + CHANGE_BYTES * len(self._changes) > BUFFER_LIMIT else ROOM

    @property
    def _buffers(self) -> bool:
        """Whether the buffer has records."""
        return len(self._buffer) > log_records.BATCH_BYTES

    def unwritten_bytes(self) -> int:
        buffered = len(self._buffer) if self._buffers else 0
        return buffered + sum([len(batch.data) for batch in self._outstanding if not batch.written])

    def ticket(self) -> int:
        if self._buffers or self._settled or self._moved or self._counted or self._changes:
            return self._filling
        return self._outstanding[-1].number if self._outstanding else self.durable

    def position(self) -> port.Position:
        pending = self._buffers or self._settled or self._moved or any(commit.settled for commit in self._commits)
        return port.Position(self._logged_durable, self._logged + bool(pending))

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        self._waiting.append((ticket, fn))

    # For compaction

    def _append_copy(
        self,
        id_: int,
        largest: int,
        body_bytes: int,
        channel: int,
        flags: int,
        state: bytes,
        queues: list[int],
        content: memoryview,
    ) -> None:
        """Append a copy of a message, with address and frames as `content`, whose place counts from now on."""
        segment = self._current
        offset = self._start + len(self._buffer)
        addressed = state + Struct(f"<{len(queues)}I").pack(*queues)
        flags |= log_records.COPIED
        record = log_records.encode_message(
            segment.salt, id_, largest, body_bytes, channel, flags, len(queues), addressed, content
        )
        self._buffer += record
        self._copied += 1
        segment.total += 1
        self.index.copied(id_, segment.number, offset, len(record))

    def snapshot(self) -> Checkpoint:
        """Return a checkpoint that the worker may encode: its contents do not change until `give_back`."""
        segments = [
            SegmentState(each.number, each.first_id, each.durable, each.live) for each in self.segments.values()
        ]
        commits = {commit.number: commit.stored[:] for commit in self._commits}
        return Checkpoint(self._salt, self.next_id, segments, [block.lend() for block in self.index], commits)

    def give_back(self) -> None:
        """End the loan of the last snapshot."""
        for block in self.index:
            block.give_back()

    # Group commit

    def seal(self) -> Batch | None:
        """Return the buffer as a batch, or None if it is empty or too many are outstanding.

        A segment is begun when the one before is durable, so that a power cut tears only the end of the log.
        """
        outstanding = self._outstanding
        if len(outstanding) >= self.in_flight or outstanding and outstanding[-1].segment is not self._current:
            return None
        backup = self._compaction.backup
        if backup is not None and self.full and self._compaction.holds_dead():
            self._end_backup(backup, "the disk is full, and the segments of the backup could not be deleted")
        begins = backup is not None and backup.waits and not self._compaction.checkpoint_batch
        compacts = self.index.sparse and not self._settling
        if compacts:
            self._compaction.step()
        for commit in self._commits:
            self._record(commit)
        ends_early = self.full and self._ends_early()
        waits = (self._buffers or self._settled or self._moved or self._changes) or (
            self._counted or self._sync_due or ends_early
        )
        if not (waits or self._vouch_due or begins):
            return None
        salt, next_id = self._current.salt, self.next_id
        if self._counted:
            for _ in range(min(len(self._counted), COUNTS)):
                (counting, id_), attempts = self._counted.popitem()
                self._buffer += log_records.encode_delivery_count(salt, next_id, counting, id_, attempts)
        for queue, ids in self._settled.items():
            self._buffer += log_records.encode_settled(salt, next_id, queue, ids)
        for queue, ids in self._moved.items():
            self._buffer += log_records.encode_settled(salt, next_id, queue, ids, log_records.MOVED)
        if ends_early and not self._buffers:  # a sync needs an appended record
            self._buffer += log_records.encode_settled(salt, next_id, 0, [])
        segment, buffer = self._current, bytearray(NO_BATCH)
        data, logged = bytearray(), self._logged
        if self._buffers or self._vouch_due:
            data, logged = self._buffer, logged + 1
            data[: log_records.BATCH_BYTES] = log_records.encode_batch(
                salt, self._batch_first_id, logged, self._logged_durable, len(data)
            )
        last = ends_early or segment.length + len(data) >= self._segment_bytes
        sync = self._sync_due or bool(waits and data)
        # Recovery drops the messages of a queue that the metadata, which is synced first, does not have.
        syncs_log = len(data) - log_records.BATCH_BYTES > self._deletion_bytes or last
        following = self._new_segment() if last else None
        slot = self._filling % self.in_flight
        batch = Batch(
            self._filling, logged, segment, self._start, data, sync, syncs_log, self._changes, self.disk,
            self._metadata, slot,
        )  # fmt: skip
        # A batch without data does not sync the log: copies in an earlier batch may not be durable when it ends.
        if compacts and (data or not outstanding):
            batch.after = self._compaction.removal(self._filling)
            batch.syncs_log = syncs_log or batch.after is not None
        # After a MemoryError before this line, the buffer still has all records.
        if data:
            self._buffer = buffer
            self._logged = logged
            self._batch_first_id = next_id
            self._vouched = self._logged_durable
            self._vouch_due = False
        self.written_bytes += len(data)
        outstanding.append(batch)
        self.segments[segment.number] = segment
        self._filling += 1
        self._deletion_bytes = 0
        self._sync_due = False
        self._unsynced = not sync and (self._unsynced or bool(self._changes))
        self._settled.clear()
        self._moved.clear()
        self._changes = []  # not the list of the batch, even if it is empty: a worker reads that
        segment.length += len(data)
        if begins and backup is not None:
            backup.waits = False
            batch.moment = partial(backup.take, self._lengths())
            self.when_durable(batch.number, backup.begun)
        self._start = segment.length
        if not self.full:
            self._full_from = self._start
        if following is not None:
            self._roll(following)
        return batch

    def _ends_early(self) -> bool:
        """Whether the current segment ends because the disk is full: its file can be deleted sooner.

        It may have few live messages, or many settlements and delivery counts since the disk is full.
        """
        current = self._current
        return current.length >= EARLY_BYTES and (
            current.mostly_dead or current.length - self._full_from >= EARLY_BYTES
        )

    def unvouched(self) -> bool:
        return self._vouched < self._logged_durable

    def vouch(self) -> None:
        self._vouch_due = self.unvouched()

    def unsynced(self) -> bool:
        return self._unsynced

    def sync(self) -> None:
        removes = self._compaction.undone or self.full and len(self._compaction.dead()) > 0
        self._sync_due = self._unsynced or removes

    def committed(self, number: int) -> None:
        """Note that the batch is durable, and call the waiting functions once all earlier batches are durable too."""
        self._committed.add(number)
        while self._outstanding and self._outstanding[0].number in self._committed:
            batch = self._outstanding.pop(0)
            self.durable = batch.number
            if batch.data and batch.syncs_log:  # with those before it that were only written
                self._logged_durable = batch.logged
                batch.segment.durable = batch.start + len(batch.data)
            self._committed.remove(self.durable)
            if self.durable == self._compaction.checkpoint_batch:
                self._compaction.removed()
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.durable:
            waiting.popleft()[1]()

    # Backup

    @property
    def backing_up(self) -> bool:
        return self._compaction.backup is not None

    def backup(self, begun: Callable[[], None]) -> Backup | None:
        assert not self.backing_up, "one at a time"
        self._compaction.backup = Backup(self.disk, self._metadata, begun, self._end_backup)
        return self._compaction.backup

    def _lengths(self) -> dict[int, int]:
        """Return the lengths of the segments by number, but for those that may not exist."""
        segments, deleting = self.segments, self._compaction.deleting
        lengths = {number: each.length for number, each in segments.items() if number not in deleting}
        if self._current.length <= log_records.SEGMENT_HEAD_BYTES:
            lengths.pop(self._current.number, None)
        return lengths

    def _end_backup(self, backup: Backup, reason: str) -> None:
        """End a backup, for this reason if it is not whole."""
        backup.lost = backup.lost or reason
        if self._compaction.backup is backup:
            self._compaction.backup = None
            self._sync_due = True  # so that a batch deletes what is dead

    def close(self) -> None:
        """Save a checkpoint, for a faster start, and close the disk. No batch may be outstanding."""
        try:
            if not self._settling:
                self.disk.save_checkpoint(self.snapshot().encode())
        except MemoryError:
            pass  # without a checkpoint the next start is only slower
        except OSError as error:
            if error.errno not in (*port.FULL, *port.EXHAUSTED):  # likewise
                raise
        self.disk.close()

    def _roll(self, following: Segment) -> None:
        self._next_segment = following.number + 1
        self.index.complete(self._current)
        self._current = following
        self._block = new_block(self._current.number, self.next_id)
        self.segments[self._current.number] = self._current
        self._start = self._full_from = self._current.length

    def _new_segment(self) -> Segment:
        """Return a new segment, with a number that none had before, so that no old checkpoint concerns it."""
        return Segment(self._next_segment, self.next_id, self._salt)

    # Reading back

    def read(self, ids: Sequence[int], queue: int = 0) -> list[Message | None]:
        messages: list[Message | None] = []
        segment: Segment | None = None  # which has `data` from the offset `base` on
        data, base = b"", 0
        left_bytes, store_bytes, address = READ_LIMIT, STORE_LIMIT, NO_ADDRESS
        for index, id_ in enumerate(ids):
            block = self.index.find(id_)
            part, position = block.locate(id_) if block is not None else (None, 0)
            message = None
            try:
                if part is None or (of := self.segments.get(part.number)) is None:
                    raise OSError(errno.ENOENT, "no record of it is left")
                offset = part.offsets[position]
                if segment is not of:
                    segment, data, base = of, b"", offset
                at = offset - base
                message = log_records.parse_message(segment.salt, data, at, address) if at >= 0 else None
                if message is None:
                    if at < 0 or not log_records.is_complete(data, at):
                        count = part.sizes[position]
                        if self.disk.read_ahead:
                            limit_bytes = min(self.disk.read_ahead, left_bytes + GAP_BYTES)
                            count = max(count, self._wanted_bytes(ids, index, part.number, offset, limit_bytes))
                        elif self._has_near(list(islice(ids, index + 1, index + 1 + NEAR)), part.number, offset):
                            count = max(count, READ_BYTES)
                        data, base = self._read_record(segment, offset, count, queue), offset
                        store_bytes -= len(data) + self.disk.read_cost
                        message = log_records.parse_message(segment.salt, data, 0, address)
                    if message is None:
                        self.reader.report_damage(segment, offset, queue)
            except Shortage:
                break
            except OSError:
                segment = None
            if message is not None:
                if message.address is not address:
                    address = message.address
                    address.count(self.addresses)
                if block is not None and block.attempts:
                    attempts = block.attempts.get((queue, id_), 0)
                    if attempts:
                        message.state = message.state or MessageState()
                        message.state.attempts = attempts
                self.read_messages += 1
            elif messages and messages[-1] is not None:
                break
            messages.append(message)
            if message is not None:
                left_bytes -= len(message.frames) if message.state is None else read_bytes([message])
                if left_bytes <= 0 or store_bytes <= 0:
                    break
        return messages

    def _has_near(self, ids: Sequence[int], number: int, offset: int) -> bool:
        """Return whether the last of these messages follows soon after this offset of a segment."""
        part, at = self.index.locate(ids[-1]) if ids else (None, 0)
        return part is not None and part.number == number and offset < part.offsets[at] < offset + READ_BYTES

    def _wanted_bytes(self, ids: Sequence[int], first: int, number: int, offset: int, limit_bytes: int) -> int:
        """Return how many bytes from `offset` on have successive messages of `ids`, from the index `first` on."""
        end = offset
        for id_ in islice(ids, first, None):
            if end - offset >= limit_bytes:
                break
            part, at = self.index.locate(id_)
            if part is None or part.number != number or not end <= part.offsets[at] <= end + GAP_BYTES:
                break
            end = part.offsets[at] + part.sizes[at]
        return min(end - offset, limit_bytes)

    def _read_record(self, segment: Segment, offset: int, count: int, queue: int) -> bytes:
        """Return at least the record at `offset`, from the buffers or as `count` bytes of the file.

        Raises OSError, Shortage.
        """
        if segment is self._current and offset >= self._start:
            return _piece(self._buffer, offset - self._start)
        end = segment.length
        for batch in reversed(self._outstanding):
            if segment is batch.segment:
                if offset >= batch.start:
                    return _piece(batch.data, offset - batch.start)
                end = batch.start  # the worker is writing what follows
        data = self.reader.record(segment, offset, end, count, queue)
        self.reads += 1
        self.read_bytes += len(data)
        return data


def write_with_reserve(disk: Disk, write: Callable[[], None]) -> None:
    """Call `write`, and again after a part of the reserve is spent, as long as the disk is full. Raises OSError."""
    while True:
        try:
            write()
            return
        except OSError as error:
            if error.errno not in port.FULL or not disk.spend_reserve():
                raise


def _piece(data: bytes | bytearray, at: int) -> bytes:
    """Return at least the whole record at `at`."""
    length = log_records.RECORD_HEAD.unpack_from(data, at)[2] + log_records.RECORD_BYTES
    return bytes(data[at : at + max(length, READ_BYTES)])
