"""The checkpoint: which messages of the log are dead, so that segments can go whose records say so of others.

    "WARRCP" | version u8 | 0 u8 | salt u32 | next id u64 | segments u32 | shared u32 | counted u32
    per segment: number u32 | first id u64 | octets u32 | bitmap
    per message of several queues that only some still want: id u64 | queues u16 | queue u32 each
    per message that came back to a queue which counts that: queue u32 | id u64 | attempts u32
    crc u32 of all before

It is written beside the old one, synced, and renamed over it. What it says holds whatever the log says later, as a dead
message stays dead and attempts only grow; so it is never wrong to use an old one. A log has one before it has its
first segment, as it also says what salt the segments have, should the head of one be damaged.
"""

from __future__ import annotations

from binascii import crc32
from contextlib import suppress
from struct import Struct

from .disk import Disk
from .faults import StorageFault

NAME, NEW_NAME = "checkpoint", "checkpoint.new"
MAGIC, VERSION = b"WARRCP", 2

_HEAD = Struct("<6sBBIQIII")
_SEGMENT = Struct("<IQI")
_SHARED = Struct("<QH")
_COUNTED = Struct("<IQI")
_CRC = Struct("<I")


class Checkpoint:
    """`bitmaps`: by segment number, its first id and one bit for each message; `shared` by message id; `counted`: the
    attempts by queue and message id."""

    __slots__ = ("salt", "next_id", "bitmaps", "shared", "counted")

    def __init__(
        self,
        salt: int,
        next_id: int,
        bitmaps: dict[int, tuple[int, bytes]],
        shared: dict[int, set[int]],
        counted: dict[tuple[int, int], int],
    ) -> None:
        self.salt = salt
        self.next_id = next_id
        self.bitmaps = bitmaps
        self.shared = shared
        self.counted = counted

    def encode(self) -> bytes:
        counts = len(self.bitmaps), len(self.shared), len(self.counted)
        out = bytearray(_HEAD.pack(MAGIC, VERSION, 0, self.salt, self.next_id, *counts))
        for number, (first_id, bitmap) in self.bitmaps.items():
            out += _SEGMENT.pack(number, first_id, len(bitmap)) + bitmap
        for id_, queues in self.shared.items():
            out += _SHARED.pack(id_, len(queues)) + Struct(f"<{len(queues)}I").pack(*sorted(queues))
        for (queue, id_), attempts in self.counted.items():
            out += _COUNTED.pack(queue, id_, attempts)
        return bytes(out) + _CRC.pack(crc32(out))


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
    if (version := data[len(MAGIC)]) != VERSION:
        raise StorageFault(f"{NAME}: of version {version} of the log, this broker reads version {VERSION}")
    _, _, _, salt, next_id, segments, shared, counted = _HEAD.unpack_from(data)
    saved = Checkpoint(salt, next_id, {}, {}, {})
    at = _HEAD.size
    for _ in range(segments):
        number, first_id, octets = _SEGMENT.unpack_from(data, at)
        at += _SEGMENT.size
        saved.bitmaps[number] = first_id, data[at : at + octets]
        at += octets
    for _ in range(shared):
        id_, count = _SHARED.unpack_from(data, at)
        at += _SHARED.size
        saved.shared[id_] = set(Struct(f"<{count}I").unpack_from(data, at))
        at += 4 * count
    for _ in range(counted):
        queue, id_, attempts = _COUNTED.unpack_from(data, at)
        at += _COUNTED.size
        saved.counted[queue, id_] = attempts
    return saved
