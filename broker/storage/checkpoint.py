"""The checkpoint: the file that says which messages of the log are dead.

With it a segment can be deleted although its records are what says that messages of other segments are dead.

    "WARRCP" | version u8 | 0 u8 | salt u32 | next id u64 | segments u32
    per segment: number u32 | first id u64 | length u64 | live u32 | bytes u32 | bitmap of the dead messages
                 bytes u32 | `sharing`, if a message of several queues was settled by one of them
                 count u32 | per message with a delivery count: queue u32 | id u64 | attempts u32
    crc u32 of everything before it

The length is in bytes of the file, as far as it was durable when the checkpoint was saved: a segment with live messages
that is shorter, or missing, has lost some.

A new checkpoint is written beside the old one, synced, and renamed over it. An old checkpoint is never wrong, because a
dead message stays dead and attempts only grow. The first checkpoint is written before the first segment: it has the
salt of the segments, in case the head of one is damaged.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable
from contextlib import suppress
from struct import Struct

from .disk import Disk, contents
from .errors import StorageFault
from .segment import SegmentState
from .shared_messages import Sharing

NAME, NEW_NAME = "checkpoint", "checkpoint.new"
MAGIC, VERSION = b"WARRCP", 4

_HEAD = Struct("<6sBBIQI")
_SEGMENT = Struct("<IQQI")
_COUNT = Struct("<I")
_COUNTED = Struct("<IQI")
_CRC = Struct("<I")


class Checkpoint:
    """The contents of a checkpoint.

    segments  by number
    attempts  delivery counts by queue and id, of all segments
    """

    __slots__ = ("salt", "next_id", "segments", "attempts")

    def __init__(self, salt: int, next_id: int, segments: Iterable[SegmentState] = ()) -> None:
        self.salt = salt
        self.next_id = next_id
        self.segments = {state.number: state for state in segments}
        self.attempts: dict[tuple[int, int], int] = {}  # filled by `load` only

    def encode(self) -> bytes:
        """Return the bytes of the file. Runs on the worker, and does nothing message by message."""
        out = bytearray(_HEAD.pack(MAGIC, VERSION, 0, self.salt, self.next_id, len(self.segments)))
        for state in self.segments.values():
            out += _SEGMENT.pack(state.number, state.first_id, state.length, state.live)
            out += _COUNT.pack(len(state.dead))
            out += state.dead
            sharing = state.sharing.encode() if state.sharing is not None and state.sharing.touched else b""
            out += _COUNT.pack(len(sharing))
            out += sharing
            out += _COUNT.pack(len(state.attempts))
            for (queue, id_), attempts in state.attempts.items():
                out += _COUNTED.pack(queue, id_, attempts)
        out += _CRC.pack(crc32(out))
        return bytes(out)


def save(disk: Disk, encoded: bytes) -> None:
    """Replace the checkpoint; the old one stays until the new one is synced. Raises OSError."""
    with suppress(FileNotFoundError):
        disk.remove(NEW_NAME)
    file = disk.open(NEW_NAME, True)
    try:
        file.write(encoded)
        file.sync()
    finally:
        file.close()
    disk.rename(NEW_NAME, NAME)
    disk.sync_folder()


def load(disk: Disk, report: list[str]) -> Checkpoint | None:
    """Return the checkpoint or None. A damaged one is reported and not used. Raises StorageFault, OSError."""
    if NAME not in disk.names():
        return None
    data = contents(disk, NAME)
    if not data.startswith(MAGIC) or _CRC.unpack(data[-4:])[0] != crc32(data[:-4]):
        report.append(f"{NAME}: it is damaged; messages that were settled may come back")
        return None
    version = data[len(MAGIC)]
    if version != VERSION:
        raise StorageFault(f"{NAME}: of version {version} of the log, this broker reads version {VERSION}")
    _, _, _, salt, next_id, segments = _HEAD.unpack_from(data)
    saved = Checkpoint(salt, next_id)
    at = _HEAD.size
    for _ in range(segments):
        state, at = _segment(data, at)
        (sharing_bytes,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        if sharing_bytes:
            state.sharing, at = Sharing.decode(data, at)
        (count,) = _COUNT.unpack_from(data, at)
        saved.segments[state.number] = state
        at = _attempts(saved, data, at + _COUNT.size, count)
    return saved


def _segment(data: bytes, at: int) -> tuple[SegmentState, int]:
    number, first_id, length, live = _SEGMENT.unpack_from(data, at)
    at += _SEGMENT.size
    (bitmap_bytes,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    return SegmentState(number, first_id, data[at : at + bitmap_bytes], None, {}, length, live), at + bitmap_bytes


def _attempts(saved: Checkpoint, data: bytes, at: int, count: int) -> int:
    for _ in range(count):
        queue, id_, attempts = _COUNTED.unpack_from(data, at)
        at += _COUNTED.size
        saved.attempts[queue, id_] = attempts
    return at
