"""The segments of the log: which files there are, how far they are written, and what in them is still wanted.

A place is where a message stands: segment number << 32 | offset of its record. In memory a segment knows of each of its
messages only whether it is dead, one bit by its id, and how many are not; and more of those of several queues, and of
those that came back to queues which count that.

A checkpoint is made on the worker, of what the loop goes on changing. So it borrows: `lend` gives what a segment knows,
and the first change while that is lent is made in a copy.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from .disk import Disk, File
from .log_records import SEGMENT_HEAD_BYTES, Head
from .shared_messages import Sharing

SUFFIX = ".log"
OFFSET_BITS = 32
OFFSET_MASK = (1 << OFFSET_BITS) - 1


class SegmentState:
    """The state of one segment in a checkpoint; `dead` is one bit for each message, from the first id on."""

    __slots__ = ("number", "first_id", "dead", "sharing", "attempts")

    def __init__(
        self,
        number: int,
        first_id: int,
        dead: bytes | bytearray,
        sharing: Sharing | None,
        attempts: dict[tuple[int, int], int],
    ) -> None:
        self.number = number
        self.first_id = first_id
        self.dead = dead
        self.sharing = sharing
        self.attempts = attempts


class Segment:
    """`length` counts what is still to be written; `live` are the messages that are still wanted, of `total`.

    `file` is what batches are appended to. Once the worker runs it is the worker's alone: the loop reads by files of
    its own (`Reader`), as two threads that open the same file may each take a stale size for the true one.
    `sharing` is None where each message is of one queue; `attempts` are by queue and id.
    """

    __slots__ = (
        "number",
        "first_id",
        "salt",
        "length",
        "live",
        "total",
        "file",
        "sharing",
        "attempts",
        "_dead",
        "_lent",
    )

    def __init__(self, number: int, first_id: int, salt: int) -> None:
        self.number = number
        self.first_id = first_id
        self.salt = salt
        self.length = SEGMENT_HEAD_BYTES
        self.live = 0
        self.total = 0
        self.file: File | None = None
        self.sharing: Sharing | None = None
        self.attempts: dict[tuple[int, int], int] = {}
        self._dead = bytearray()
        self._lent = False

    @property
    def name(self) -> str:
        return f"{self.number:08d}{SUFFIX}"

    @property
    def head(self) -> bytes:
        return Head(self.first_id, self.salt).encode()

    def release(self, id_: int) -> None:
        """This message is wanted no more. To say it twice is as good as once."""
        if not self.is_dead(id_):
            self.mark_dead(id_)
            self.live -= 1

    def settle(self, queue: int, id_: int) -> None:
        """This queue wants the message no more. HOT: bench D."""
        if self.attempts and (queue, id_) in self.attempts:
            self._own()
            del self.attempts[queue, id_]
        if self.sharing is not None:
            self._own()
            if not self.sharing.settle(id_ - self.first_id, queue):
                return
        index = id_ - self.first_id
        at = index >> 3
        if at >= len(self._dead) or not self._dead[at] & 1 << (index & 7):
            self.mark_dead(id_)
            self.live -= 1

    def share(self, id_: int, count: int, queues: Sequence[int]) -> None:
        """The messages from this id on went to several queues."""
        self._own()
        if self.sharing is None:
            self.sharing = Sharing()
        self.sharing.add(id_ - self.first_id, count, queues)

    def wanting(self, id_: int) -> list[int] | None:
        """The queues that want a message which went to several; None for any other."""
        return self.sharing.wanting(id_ - self.first_id) if self.sharing is not None else None

    def count(self, queue: int, id_: int, attempts: int) -> None:
        """The message came back to this queue so often."""
        self._own()
        self.attempts[queue, id_] = attempts

    def uncount(self, queue: int, id_: int) -> int:
        """Forget how often; it is returned."""
        self._own()
        return self.attempts.pop((queue, id_), 0)

    def lend(self) -> SegmentState:
        """Lend the present state, which stays as it is until `give_back`."""
        self._lent = True
        return SegmentState(self.number, self.first_id, self._dead, self.sharing, self.attempts)

    def give_back(self) -> None:
        self._lent = False

    def _own(self) -> None:
        """Before a change: leave what is lent to whoever has it."""
        if self._lent:
            self._lent = False
            self._dead = self._dead[:]
            self.attempts = dict(self.attempts)
            if self.sharing is not None:
                self.sharing = self.sharing.copy()

    def mark_dead(self, id_: int) -> None:
        if self._lent:
            self._own()
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
    def untouched(self) -> bool:
        """Whether nothing in it is known to be dead, and each message is of one queue."""
        return not self._dead and self.sharing is None

    def restore(self, state: SegmentState) -> None:
        self.first_id = state.first_id
        self._dead = bytearray(state.dead)
        self.sharing = state.sharing

    def append(self, disk: Disk, start: int, data: bytes) -> None:
        """Write this at `start`, the end of the file, which is created where it begins the segment. Raises OSError."""
        if self.file is None:
            self.file = disk.open(self.name, True)
        file = self.file
        if not file.size:  # also where a shortage of descriptors kept the first attempt from this
            disk.sync_folder()
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
        file, self.file = self.file, None  # whatever comes of it: no file is closed twice
        if file is not None:
            file.close()


def number_of(name: str) -> int | None:
    """The number of the segment with this file name; None for other files."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if name.endswith(SUFFIX) and stem.isdigit() else None
