"""The reader of segments for the event loop.

A read fails with Shortage when the system has no descriptor or memory left: the disk is sound, and the caller tries
again later. Any other error is a failure of the disk. After one, the segment is read record by record, so that only
the bad records are lost. After FAILURES it is not read for RETRY_S, because the loop would wait long for each error of
a failing disk.
"""

import errno
import time
from collections.abc import Callable

from ..core.messages.journal_port import EXHAUSTED
from .disk import Disk
from .log_records import RECORD_BYTES, RECORD_HEAD
from .segment import OFFSET_BITS, Segment

READ_BYTES = 256 << 10  # read at once from a backlog on the disk
FAILURES = 16
RETRY_S = 10.0
PLACES = 10_000  # bad records that are logged, once each; faults beyond these are only counted

ADVICE = "check the disk, and restore a backup if the message cannot be read later"


class Shortage(Exception):
    """The system has no descriptor or memory left for a read."""


class Reader:
    """The reads of segments, and their faults."""

    def __init__(self, disk: Disk, log: Callable[[str], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self.errors = 0  # reads that the disk refused
        self.damaged = 0  # records with a wrong checksum, each time they were read
        self.log = log  # called with a line for each bad record, once, and at most every RETRY_S for a shortage
        self.name_of: Callable[[int], str] = lambda queue: ""  # the name of a queue by its number, or an empty text
        self._disk = disk
        self.now_s = now_s
        self._failures: dict[int, tuple[int, float]] = {}  # by segment: their count and the time of the last one
        self._names: dict[int, str] = {}  # of queues in the log, by number
        self._locations: set[int] = set()  # of bad records that were logged
        self._shortage_logged_s: float | None = None
        self._short_until_s = 0.0

    def read(self, segment: Segment, offset: int, count: int) -> bytes:
        """Return up to `count` bytes at `offset`. Raises OSError, Shortage."""
        try:
            return self._disk.read(segment.number, offset, count)
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            now_s = self.now_s()
            if self._shortage_logged_s is None or now_s - self._shortage_logged_s >= RETRY_S:
                self._shortage_logged_s = now_s
                self.log(f"{segment.name}: not read for now, to be tried again: {error.strerror}")
            raise Shortage from error

    def record(self, segment: Segment, offset: int, end: int, count: int = READ_BYTES, queue: int = 0) -> bytes:
        """Return at least the record at `offset`: `count` bytes, or less at `end`. Raises OSError, Shortage.

        It has a message of the queue with this number; 0 is unknown.

        After a failed read of more than READ_BYTES, no more than these are read at once for RETRY_S: a slow store may
        need longer for an answer than the time limit of a read.
        """
        failures, last_s = self._failures.get(segment.number, (0, 0.0))
        if failures and self.now_s() - last_s >= RETRY_S:
            del self._failures[segment.number]
            failures = 0
        if failures > FAILURES:
            raise OSError(errno.EIO, f"{segment.name} is not read again yet")
        data = b""
        if not failures:
            if count > READ_BYTES and self.now_s() < self._short_until_s:
                count = READ_BYTES
            try:
                data = self.read(segment, offset, min(count, end - offset))
            except Shortage:
                if count > READ_BYTES:
                    self._short_until_s = self.now_s() + RETRY_S
                raise
            except OSError:
                self._failures[segment.number] = 1, self.now_s()  # this record need not be the bad one
        try:
            if not data:
                data = self.read(segment, offset, min(RECORD_BYTES, end - offset))
            length = RECORD_HEAD.unpack_from(data)[2] + RECORD_BYTES if len(data) >= RECORD_BYTES else 0
            if length > len(data):
                data = self.read(segment, offset, min(length, end - offset))
        except OSError as error:
            self.report_failure(segment, offset, error, queue)
            self._failures[segment.number] = failures + 2, self.now_s()
            raise
        return data

    def report_failure(self, segment: Segment, offset: int, error: OSError, queue: int = 0) -> None:
        """Count and log a read that the disk refused."""
        self.errors += 1
        self._log(segment, offset, f"cannot be read: {error.strerror or error}", queue)

    def report_damage(self, segment: Segment, offset: int, queue: int = 0) -> None:
        """Count and log a record with a wrong checksum."""
        self.damaged += 1
        self._log(segment, offset, "is damaged", queue)

    def _log(self, segment: Segment, offset: int, fault: str, queue: int) -> None:
        location = segment.number << OFFSET_BITS | offset
        if location not in self._locations and len(self._locations) < PLACES:
            self._locations.add(location)
            if queue not in self._names:
                self._names[queue] = self.name_of(queue) if queue else ""
            owner = self._names[queue]
            of = f"; it has a message of {owner}, which stays there unread: {ADVICE}" if owner else ""
            self.log(f"{segment.name}: the record at offset {offset} {fault}{of}")

    def forget(self, segment: Segment) -> None:
        """Note that a segment was deleted."""
        self._disk.forget(segment.number)
        self._failures.pop(segment.number, None)
