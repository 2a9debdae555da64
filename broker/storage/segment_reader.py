"""Reads segments for the loop, by files of its own: none is shared with the worker, which writes.

A read for which the system has no descriptor or memory to spare is a Shortage, which says nothing of the disk: whoever
asked waits, and asks again. All else is a failure of the disk. A segment in which a block cannot be read is read record
by record from then on, so that all others are served. After FAILURES records it is left alone for RETRY_S: a dying disk
takes its time for each failure, and the loop waits with it.
"""

from __future__ import annotations

import errno
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from ..core.messages.ports import EXHAUSTED
from .disk import Disk, File
from .log_records import RECORD_BYTES, RECORD_HEAD
from .segment import OFFSET_BITS, Segment

READ_BYTES = 256 << 10  # read at once from a backlog that lies on the disk
FILES = 64  # open at once: a backlog may be of more segments than a process may open
FAILURES = 16
RETRY_S = 10.0
PLACES = 10_000  # that were logged and are not logged again; beyond these, faults are only counted


class Shortage(Exception):
    """The system has no descriptor or memory to spare now."""


class Reader:
    """`errors` counts reads that the disk refused, `damaged` records whose checksum was wrong.

    `log` gets a line for each place, the first time that it cannot be read, and one for a shortage now and then.
    """

    __slots__ = ("errors", "damaged", "log", "_disk", "now_s", "_files", "_failures", "_locations", "_short_s")

    def __init__(self, disk: Disk, log: Callable[[str], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self.errors = 0
        self.damaged = 0
        self.log = log
        self._disk = disk
        self.now_s = now_s
        self._files: OrderedDict[int, File] = OrderedDict()
        self._failures: dict[int, tuple[int, float]] = {}  # by segment: how many, and when the last one was
        self._locations: set[int] = set()
        self._short_s: float | None = None  # when a shortage was logged last

    def read(self, segment: Segment, offset: int, octets: int) -> bytes:
        """Raises OSError, Shortage."""
        try:
            return self._read(segment, offset, octets)
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            now_s = self.now_s()
            if self._short_s is None or now_s - self._short_s >= RETRY_S:
                self._short_s = now_s
                self.log(f"{segment.name}: not read for now, to be tried again: {error.strerror}")
            raise Shortage from error

    def _read(self, segment: Segment, offset: int, octets: int) -> bytes:
        file = self._files.get(segment.number)
        if file is None:
            file = self._files[segment.number] = self._disk.open(segment.name, False)
            if len(self._files) > FILES:
                close(self._files.popitem(last=False)[1])
        else:
            self._files.move_to_end(segment.number)
        return file.read(offset, octets)

    def record(self, segment: Segment, offset: int, end: int) -> bytes:
        """Return the record that starts there, and what follows it up to `end` as far as one read goes.

        Raises OSError, Shortage.
        """
        failures, last_s = self._failures.get(segment.number, (0, 0.0))
        if failures and self.now_s() - last_s >= RETRY_S:
            del self._failures[segment.number]
            failures = 0
        if failures > FAILURES:
            raise OSError(errno.EIO, f"{segment.name} is not read again yet")
        data = b""
        if not failures:
            try:
                data = self.read(segment, offset, min(READ_BYTES, end - offset))
            except OSError:
                self._failures[segment.number] = 1, self.now_s()  # it need not be this record that is bad
        try:
            if not data:
                data = self.read(segment, offset, min(RECORD_BYTES, end - offset))
            length = RECORD_HEAD.unpack_from(data)[2] + RECORD_BYTES if len(data) >= RECORD_BYTES else 0
            if length > len(data):
                data = self.read(segment, offset, min(length, end - offset))
        except OSError as error:
            self.failed(segment, offset, error)
            self._failures[segment.number] = failures + 2, self.now_s()
            raise
        return data

    def failed(self, segment: Segment, offset: int, error: OSError) -> None:
        """The disk has refused to read there."""
        self.errors += 1
        self._log(segment, offset, f"cannot be read: {error.strerror or error}")

    def bad(self, segment: Segment, offset: int) -> None:
        """The bytes at a place are not the record that was written."""
        self.damaged += 1
        self._log(segment, offset, "is damaged")

    def _log(self, segment: Segment, offset: int, fault: str) -> None:
        location = segment.number << OFFSET_BITS | offset
        if location not in self._locations and len(self._locations) < PLACES:
            self._locations.add(location)
            self.log(f"{segment.name}: the record at offset {offset} {fault}")

    def forget(self, segment: Segment) -> None:
        """It is removed, or will not be read for long."""
        file = self._files.pop(segment.number, None)
        if file is not None:
            close(file)
        self._failures.pop(segment.number, None)

    def close(self) -> None:
        for file in self._files.values():
            close(file)
        self._files.clear()


def close(file: File) -> None:
    """Close a file that was only read: whether that fails makes no difference."""
    with suppress(OSError):
        file.close()
