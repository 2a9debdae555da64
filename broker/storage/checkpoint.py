"""The checkpoint: which messages of the log are dead, so that segments can go whose records say so of others.

    "WARRCP" | version u8 | 0 u8 | next id u64 | segments u32 | shared u32
    per segment: number u32 | first id u64 | octets u32 | bitmap
    per message of several queues that only some still want: id u64 | queues u16 | queue u32 each
    crc u32 of all before

It is written beside the old one, synced, and renamed over it. What it says holds whatever the log says later, as a dead
message stays dead; so it is never wrong to use an old one.
"""

from __future__ import annotations

from binascii import crc32
from struct import Struct

from .disk import Disk

NAME, NEW_NAME = "checkpoint", "checkpoint.new"
MAGIC, VERSION = b"WARRCP", 1

_HEAD = Struct("<6sBBQII")
_SEGMENT = Struct("<IQI")
_SHARED = Struct("<QH")
_CRC = Struct("<I")


class Checkpoint:
    """`bitmaps`: by segment number, its first id and one bit for each message; `shared` by message id."""

    __slots__ = ("next_id", "bitmaps", "shared")

    def __init__(self, next_id: int, bitmaps: dict[int, tuple[int, bytes]], shared: dict[int, set[int]]) -> None:
        self.next_id = next_id
        self.bitmaps = bitmaps
        self.shared = shared

    def encode(self) -> bytes:
        out = bytearray(_HEAD.pack(MAGIC, VERSION, 0, self.next_id, len(self.bitmaps), len(self.shared)))
        for number, (first_id, bitmap) in self.bitmaps.items():
            out += _SEGMENT.pack(number, first_id, len(bitmap)) + bitmap
        for id_, queues in self.shared.items():
            out += _SHARED.pack(id_, len(queues)) + Struct(f"<{len(queues)}I").pack(*sorted(queues))
        return bytes(out) + _CRC.pack(crc32(out))


def save(disk: Disk, encoded: bytes) -> None:
    """Raises OSError; the old one stays until the new one is safe."""
    if NEW_NAME in disk.names():
        disk.remove(NEW_NAME)
    file = disk.open(NEW_NAME, True)
    try:
        file.write(encoded)
        file.sync()
    finally:
        file.close()
    disk.rename(NEW_NAME, NAME)
    disk.sync_folder()


def load(disk: Disk, report: list[str]) -> Checkpoint:
    """The checkpoint, an empty one where there is none; one that is damaged is reported and not used."""
    nothing = Checkpoint(1, {}, {})
    if NAME not in disk.names():
        return nothing
    file = disk.open(NAME, False)
    try:
        data = file.read(0, file.size)
    finally:
        file.close()
    if len(data) < _HEAD.size + _CRC.size or _CRC.unpack(data[-4:])[0] != crc32(data[:-4]):
        report.append(f"{NAME}: it is damaged; messages that were done with may come back")
        return nothing
    magic, version, _, next_id, segments, shared = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        report.append(f"{NAME}: of a version that is not known; messages that were done with may come back")
        return nothing
    saved = Checkpoint(next_id, {}, {})
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
    return saved
