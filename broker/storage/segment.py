"""A segment of the log: its file, how far that is written, and how much of it is live.

The place of a message is segment number << 32 | offset of its record.
"""

from __future__ import annotations

import errno

from .disk import Disk, File
from .log_records import SEGMENT_HEAD_BYTES, Head

SUFFIX = ".log"
OFFSET_BITS = 32
OFFSET_MASK = (1 << OFFSET_BITS) - 1
WANTED_SHARE = 4  # a segment is compacted when less than one in this many of its bytes are of live messages


class Segment:
    """One file of the log.

    first_id    of the messages that are first written to it, if there are any
    length      bytes, those that are still to be written included
    durable     those of them that are durable, at least
    live        messages that a queue still wants, of the `total` records of messages
    live_bytes  of their records
    complete    nothing is appended to it any more
    stuck       compaction cannot read all of it
    file        batches are appended to it; only the workers use it once they run. The loop reads by files of its own
                (`Reader`), as each object caches the size of its file
    """

    __slots__ = (
        *("number", "first_id", "salt", "length", "durable", "live", "live_bytes", "total", "complete", "stuck"),
        "file",
        "_others",
    )

    def __init__(self, number: int, first_id: int, salt: int) -> None:
        self.number = number
        self.first_id = first_id
        self.salt = salt
        self.length = SEGMENT_HEAD_BYTES
        self.durable = 0
        self.live = self.live_bytes = self.total = 0
        self.complete = self.stuck = False
        self.file: File | None = None
        self._others: dict[int, File] = {}

    @property
    def name(self) -> str:
        return f"{self.number:08d}{SUFFIX}"

    @property
    def head(self) -> bytes:
        return Head(self.first_id, self.salt).encode()

    @property
    def mostly_dead(self) -> bool:
        """Whether it is to be compacted or, without live messages, deleted, once it is complete."""
        return not self.live or self.live_bytes * WANTED_SHARE < self.length - SEGMENT_HEAD_BYTES

    def append(self, disk: Disk, start: int, data: bytes | bytearray, slot: int) -> None:
        """Write `data` at `start`, the end of the file, to be synced in this slot. Raises OSError.

        The first call creates the file.
        """
        if self.file is None:
            self.file = disk.open(self.name, True)
        if slot and slot not in self._others:  # before the write, as a file object reports no loss from before it
            self._others[slot] = disk.open(self.name, False)
        file = self.file
        if not file.size:  # in a second attempt too, if a shortage of descriptors failed the first here
            disk.sync_folder()
        if start == SEGMENT_HEAD_BYTES and not file.size:
            file.write(self.head + data)
        elif file.size == start:
            file.write(data)
        else:
            raise OSError(errno.EIO, f"the file has {file.size} bytes where {start} were written", self.name)

    def sync(self, slot: int) -> None:
        """Make durable what was appended in this slot, and before it. Raises OSError.

        Calls that run at the same time need different slots, from 0 on. Each slot has a file object of its own: the
        system reports a lost write once for each, so a sync by the same object could return as if nothing were lost.
        """
        file = self._others[slot] if slot else self.file
        assert file is not None, "it was appended to"
        file.sync()

    def open(self, disk: Disk) -> File:
        """Return the file, which exists. Raises OSError."""
        if self.file is None:
            self.file = disk.open(self.name, False)
        return self.file

    def close(self) -> None:
        files = [self.file] if self.file is not None else []
        files += self._others.values()
        self.file, self._others = None, {}  # first: even after an error no file is closed twice
        for file in files:
            file.close()


def number_of(name: str) -> int | None:
    """Return the number of the segment with this file name, or None for other files."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if name.endswith(SUFFIX) and stem.isdigit() else None
