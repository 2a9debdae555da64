"""The checkpoint: which messages of the log are dead, so that segments can go whose records say so of others.

    "WARRCP" | version u8 | 0 u8 | salt u32 | next id u64 | segments u32
    per segment: number u32 | first id u64 | octets u32 | bitmap
                 bytes u32 | where any message of several queues was settled by one, `sharing`
                 number u32 | per message that came back to a queue which counts that: queue u32 | id u64 | attempts u32
    crc u32 of all before

Version 2 had, behind all bitmaps, id u64 | queues u16 | queue u32 each of messages of several queues, then the attempts
of all segments; it is still read.

It is written beside the old one, synced, and renamed over it. What it says holds whatever the log says later, as a dead
message stays dead and attempts only grow; so it is never wrong to use an old one. A log has one before it has its
first segment, as it also says what salt the segments have, should the head of one be damaged.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable
from contextlib import suppress
from struct import Struct

from .disk import Disk
from .errors import StorageFault
from .segment import SegmentState
from .shared_messages import Sharing

NAME, NEW_NAME = "checkpoint", "checkpoint.new"
MAGIC, VERSION, OLD_VERSION = b"WARRCP", 3, 2

_HEAD = Struct("<6sBBIQI")
_OLD_HEAD = Struct("<6sBBIQIII")
_SEGMENT = Struct("<IQI")
_COUNT = Struct("<I")
_SHARED = Struct("<QH")
_COUNTED = Struct("<IQI")
_CRC = Struct("<I")


class Checkpoint:
    """`segments` by number. `shared`, of an old checkpoint: by id, the queues that want a message of several."""

    __slots__ = ("salt", "next_id", "segments", "shared", "attempts")

    def __init__(self, salt: int, next_id: int, segments: Iterable[SegmentState] = ()) -> None:
        self.salt = salt
        self.next_id = next_id
        self.segments = {state.number: state for state in segments}
        self.shared: dict[int, set[int]] = {}
        self.attempts: dict[tuple[int, int], int] = {}  # of all segments, where they were read

    def encode(self) -> bytes:
        """Encode, on the worker. What is long is copied and checked as a whole, not message by message."""
        out = bytearray(_HEAD.pack(MAGIC, VERSION, 0, self.salt, self.next_id, len(self.segments)))
        for state in self.segments.values():
            out += _SEGMENT.pack(state.number, state.first_id, len(state.dead))
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
    """Raises OSError; the old one stays until the new one is safe."""
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
    """The checkpoint, if there is one; one that is damaged is reported and not used. Raises StorageFault, OSError."""
    if NAME not in disk.names():
        return None
    file = disk.open(NAME, False)
    try:
        data = file.read(0, file.size)
    finally:
        file.close()
    if not data.startswith(MAGIC) or _CRC.unpack(data[-4:])[0] != crc32(data[:-4]):
        report.append(f"{NAME}: it is damaged; messages that were done with may come back")
        return None
    version = data[len(MAGIC)]
    if version == OLD_VERSION:
        return _decode_old(data)
    if version != VERSION:
        raise StorageFault(f"{NAME}: of version {version} of the log, this broker reads version {VERSION}")
    _, _, _, salt, next_id, segments = _HEAD.unpack_from(data)
    saved = Checkpoint(salt, next_id)
    at = _HEAD.size
    for _ in range(segments):
        state, at = _segment(data, at)
        (octets,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        if octets:
            state.sharing, at = Sharing.decode(data, at)
        (counted,) = _COUNT.unpack_from(data, at)
        saved.segments[state.number] = state
        at = _attempts(saved, data, at + _COUNT.size, counted)
    return saved


def _segment(data: bytes, at: int) -> tuple[SegmentState, int]:
    number, first_id, octets = _SEGMENT.unpack_from(data, at)
    at += _SEGMENT.size
    return SegmentState(number, first_id, data[at : at + octets], None, {}), at + octets


def _attempts(saved: Checkpoint, data: bytes, at: int, count: int) -> int:
    for _ in range(count):
        queue, id_, attempts = _COUNTED.unpack_from(data, at)
        at += _COUNTED.size
        saved.attempts[queue, id_] = attempts
    return at


def _decode_old(data: bytes) -> Checkpoint:
    """One of version 2."""
    _, _, _, salt, next_id, segments, shared, counted = _OLD_HEAD.unpack_from(data)
    saved = Checkpoint(salt, next_id)
    at = _OLD_HEAD.size
    for _ in range(segments):
        state, at = _segment(data, at)
        saved.segments[state.number] = state
    for _ in range(shared):
        id_, count = _SHARED.unpack_from(data, at)
        at += _SHARED.size
        saved.shared[id_] = set(Struct(f"<{count}I").unpack_from(data, at))
        at += 4 * count
    _attempts(saved, data, at, counted)
    return saved
