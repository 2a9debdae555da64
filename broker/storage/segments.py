"""The segments of the log: which files there are, how far they are written, and what in them is still wanted.

A place is where a message stands: segment number << 32 | offset of its record. In memory a segment knows of each of its
messages only whether it is dead, one bit by its id, and how many are not.
"""

from __future__ import annotations

import errno

from .disk import Disk, File
from .records import SEGMENT_HEAD_BYTES, Head

SUFFIX = ".log"
OFFSET_BITS = 32
OFFSET_MASK = (1 << OFFSET_BITS) - 1


class Segment:
    """`length` counts what is still to be written; `live` are the messages that are still wanted, of `total`.

    `file` is what batches are appended to. Once the worker runs it is the worker's alone: the loop reads by files of
    its own (`Reader`), as two threads that open the same file may each take a stale size for the true one.
    """

    __slots__ = ("number", "first_id", "salt", "length", "live", "total", "file", "_dead")

    def __init__(self, number: int, first_id: int, salt: int) -> None:
        self.number = number
        self.first_id = first_id
        self.salt = salt
        self.length = SEGMENT_HEAD_BYTES
        self.live = 0
        self.total = 0
        self.file: File | None = None
        self._dead = bytearray()

    @property
    def name(self) -> str:
        return f"{self.number:08d}{SUFFIX}"

    @property
    def head(self) -> bytes:
        return Head(self.first_id, self.salt).encode()

    def bury(self, id_: int) -> None:
        """This message is wanted no more. To say it twice is as good as once."""
        if not self.is_dead(id_):
            self.mark_dead(id_)
            self.live -= 1

    def mark_dead(self, id_: int) -> None:
        index = id_ - self.first_id
        at = index >> 3
        if at >= len(self._dead):
            self._dead.extend(bytes(at + 64 - len(self._dead)))
        self._dead[at] |= 1 << (index & 7)

    def is_dead(self, id_: int) -> bool:
        index = id_ - self.first_id
        at = index >> 3
        return at < len(self._dead) and bool(self._dead[at] & 1 << (index & 7))

    @property
    def bitmap(self) -> bytes:
        """One bit for each message, from the first id on; what is missing at the end is 0."""
        return bytes(self._dead)

    def restore(self, bitmap: bytes) -> None:
        self._dead = bytearray(bitmap)

    def append(self, disk: Disk, start: int, data: bytes) -> None:
        """Write this at `start`, the end of the file, which is created where it begins the segment. Raises OSError."""
        if self.file is None:
            self.file = disk.open(self.name, True)
            disk.sync_folder()
        file = self.file
        if start == SEGMENT_HEAD_BYTES and not file.size:
            file.write(self.head + data)
        elif file.size == start:
            file.write(data)
        else:
            raise OSError(errno.EIO, f"the file has {file.size} bytes where {start} were written", self.name)

    def open(self, disk: Disk) -> File:
        """The file, which is there. Raises OSError."""
        if self.file is None:
            self.file = disk.open(self.name, False)
        return self.file

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def number_of(name: str) -> int | None:
    """The number of the segment with this file name; None for other files."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if name.endswith(SUFFIX) and stem.isdigit() else None
