"""The checkpoint: the file of a log that has the state of its segments, and which messages are dead.

With it a segment can be deleted although its records say which messages of other segments are dead.

    "WARRCP" | version u8 | 0 u8 | salt u32 | next id u64 | segments u32 | blocks u32 | commits u32
    per segment: number u32 | first id u64 | length u64 | live u32
    per block: first id u64 | ids u64 | parts u32 | the parts
               count u32 | per message with a delivery count: queue u32 | id u64 | attempts u32
    per part: number of its segment u32 | copies u8 | messages u32 | ids of copies, u64 each
              bytes u32 | bitmap of the dead records
              bytes u32 | `sharing`, if a message of several queues was settled by one of them
    per open commit: number u64 | ids u32 | the ids of COMMIT_STORED (`log_records`), u64 each
    crc u32 of everything before it

The length is the number of bytes of the segment that were durable when the checkpoint was saved: a segment with live
messages that is shorter, or missing, has lost some. A checkpoint has all blocks with live messages, so the messages of
other blocks, whose segments were deleted, are dead.

An old checkpoint is never wrong, because a dead message stays dead and attempts only grow. The first one is saved
before the first segment: it has the salt of the segments, in case the head of one is damaged.

A log that `warren copy` or `warren restore` has begun to write has a mark of UNFINISHED in place of its checkpoint.
"""

from __future__ import annotations

from array import array
from binascii import crc32
from bisect import bisect_left
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from .disk import Disk
from .errors import StorageFault
from .shared_messages import LentSharing, Sharing, little

NAME = "checkpoint"
COPYING, RESTORING = b"warren copy\n", b"warren restore\n"
UNFINISHED = (COPYING, RESTORING)
MAGIC, VERSION = b"WARRCP", 6

_HEAD = Struct("<6sBBIQIII")
_SEGMENT = Struct("<IQQI")
_BLOCK = Struct("<QQI")
_PART = Struct("<IBI")
_COMMIT = Struct("<QI")
_COUNT = Struct("<I")
_COUNTED = Struct("<IQI")
_CRC = Struct("<I")


class SegmentState(NamedTuple):
    """The state of one segment."""

    number: int
    first_id: int
    length: int  # the number of bytes that are durable, at least
    live: int  # the number of messages that a queue still wants


class PartState(NamedTuple):
    """The state of one part of a block (`index`)."""

    number: int  # the number of its segment
    ids: array[int] | None  # the ids of copies, or None for the messages that were first written to the segment
    size: int  # the number of messages
    dead: bytes | bytearray  # one bit for each record
    sharing: Sharing | LentSharing | None  # of messages in several queues; None if no queue has settled one of them

    def has_live(self, id_: int, first_id: int) -> bool:
        """Whether the part has this message of the block with this first id, and it was live."""
        at = id_ - first_id if self.ids is None else bisect_left(self.ids, id_)
        if at >= self.size or self.ids is not None and self.ids[at] != id_:
            return False
        return at >> 3 >= len(self.dead) or not self.dead[at >> 3] & 1 << (at & 7)


class BlockState(NamedTuple):
    """The state of one block: the range of its ids, its parts, and delivery counts by queue and id."""

    first_id: int
    size: int
    parts: list[PartState]
    attempts: dict[tuple[int, int], int]


class Checkpoint:
    """The contents of a checkpoint."""

    def __init__(
        self,
        salt: int,
        next_id: int,
        segments: Iterable[SegmentState] = (),
        blocks: Iterable[BlockState] = (),
        commits: dict[int, list[int]] | None = None,
    ) -> None:
        self.salt = salt
        self.next_id = next_id
        self.segments = {state.number: state for state in segments}  # by number
        self.blocks = {state.first_id: state for state in blocks}  # by their first ids
        self.commits = commits or {}  # by number, the ids that each open commit has stored, as in `ports.Commit`
        self.attempts: dict[tuple[int, int], int] = {}  # delivery counts of all blocks; filled by `load` only

    def encode(self) -> bytes:
        """Return the bytes to be saved. Runs on the worker, and does nothing message by message."""
        segments, blocks, commits = self.segments.values(), self.blocks.values(), self.commits
        counts = len(segments), len(blocks), len(commits)
        out = bytearray(_HEAD.pack(MAGIC, VERSION, 0, self.salt, self.next_id, *counts))
        for segment in segments:
            out += _SEGMENT.pack(segment.number, segment.first_id, segment.length, segment.live)
        for block in blocks:
            out += _BLOCK.pack(block.first_id, block.size, len(block.parts))
            for part in block.parts:
                out += _PART.pack(part.number, part.ids is not None, part.size)
                out += little(part.ids[: part.size]).tobytes() if part.ids is not None else b""
                out += _COUNT.pack(len(part.dead))
                out += part.dead
                sharing = part.sharing.encode() if part.sharing is not None else b""
                out += _COUNT.pack(len(sharing))
                out += sharing
            out += _COUNT.pack(len(block.attempts))
            for (queue, id_), attempts in block.attempts.items():
                out += _COUNTED.pack(queue, id_, attempts)
        for number, ids in commits.items():
            out += _COMMIT.pack(number, len(ids))
            out += little(array("Q", ids)).tobytes()
        out += _CRC.pack(crc32(out))
        return bytes(out)


def load(disk: Disk, report: list[str]) -> Checkpoint | None:
    """Return the checkpoint or None. A damaged one is reported and not used. Raises StorageFault, OSError."""
    data = disk.load_checkpoint()
    if data is None:
        return None
    check_finished(data)
    if not data.startswith(MAGIC) or _CRC.unpack(data[-4:])[0] != crc32(data[:-4]):
        report.append(f"{NAME}: it is damaged; messages that were settled may come back")
        return None
    version = data[len(MAGIC)]
    if version != VERSION:
        raise StorageFault(f"{NAME}: of version {version} of the log, this broker reads version {VERSION}")
    _, _, _, salt, next_id, segments, blocks, commits = _HEAD.unpack_from(data)
    saved = Checkpoint(salt, next_id)
    at = _HEAD.size
    for _ in range(segments):
        segment = SegmentState(*_SEGMENT.unpack_from(data, at))
        saved.segments[segment.number] = segment
        at += _SEGMENT.size
    for _ in range(blocks):
        at = _load_block(saved, data, at)
    for _ in range(commits):
        number, count = _COMMIT.unpack_from(data, at)
        at += _COMMIT.size
        saved.commits[number] = little(array("Q", data[at : at + 8 * count])).tolist()
        at += 8 * count
    return saved


def check_finished(data: bytes | None) -> None:
    """Raise StorageFault for the checkpoint of a log that a command has not written to its end."""
    if data == COPYING:
        raise StorageFault(
            "`warren copy` into this store was interrupted, and it is incomplete: delete the folder or the schema,"
            " and copy again"
        )
    if data == RESTORING:
        raise StorageFault(
            "`warren restore` into this store is under way, or was interrupted, and it is incomplete: restore again"
        )


def _load_block(saved: Checkpoint, data: bytes, at: int) -> int:
    """Add the block at `at`, and return its end."""
    first_id, count, parts = _BLOCK.unpack_from(data, at)
    at += _BLOCK.size
    block = saved.blocks[first_id] = BlockState(first_id, count, [], {})
    for _ in range(parts):
        number, copies, messages = _PART.unpack_from(data, at)
        at += _PART.size
        ids: array[int] | None = None
        if copies:
            ids = array("Q", data[at : at + 8 * messages])
            at += 8 * messages
            ids = little(ids)
        dead, at = _piece(data, at)
        encoded, at = _piece(data, at)
        sharing = Sharing.decode(encoded, 0)[0] if encoded else None
        block.parts.append(PartState(number, ids, messages, dead, sharing))
    (counted,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    for _ in range(counted):
        queue, id_, attempts = _COUNTED.unpack_from(data, at)
        at += _COUNTED.size
        saved.attempts[queue, id_] = attempts
    return at


def _piece(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the bytes of the length at `at`, and their end."""
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    return data[at : at + count], at + count
