"""A segment of the log: its file, how far that is written, and which of its messages are live.

The place of a message is segment number << 32 | offset of its record. In memory a segment has one bit for each of its
messages, set if the message is dead, and the number of live ones; and more for messages of several queues or with a
delivery count.

The worker encodes a checkpoint while the loop goes on. `lend` therefore returns the state of the segment itself, and
the first change while it is lent copies it.
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
WANTED_SHARE = 4  # a segment is compacted when fewer than one in this many of its messages are live


class SegmentState:
    """The state of one segment in a checkpoint.

    dead    one bit for each message, from the first id on
    length  bytes that are durable at least
    live    messages that a queue still wants
    """

    __slots__ = ("number", "first_id", "dead", "sharing", "attempts", "length", "live")

    def __init__(
        self,
        number: int,
        first_id: int,
        dead: bytes | bytearray,
        sharing: Sharing | None,
        attempts: dict[tuple[int, int], int],
        length: int = 0,
        live: int = 0,
    ) -> None:
        self.number = number
        self.first_id = first_id
        self.dead = dead
        self.sharing = sharing
        self.attempts = attempts
        self.length = length
        self.live = live


class Segment:
    """One file of the log.

    length    bytes, those that are still to be written included
    durable   those of them that are durable, at least
    live      messages that a queue still wants, of `total`
    file      batches are appended to it; only the workers use it once they run. The loop reads by files of its own
              (`Reader`), as each object caches the size of its file
    sharing   the queues of messages that went to several; None if there are none
    attempts  delivery counts by queue and id
    """

    __slots__ = (
        "number",
        "first_id",
        "salt",
        "length",
        "durable",
        "live",
        "total",
        "file",
        "_others",
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
        self.durable = 0
        self.live = 0
        self.total = 0
        self.file: File | None = None
        self._others: dict[int, File] = {}
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

    @property
    def mostly_dead(self) -> bool:
        """Whether it is to be compacted or, without live messages, deleted, once it is not the current one."""
        return not self.live or self.live * WANTED_SHARE < self.total

    def release(self, id_: int) -> None:
        """Mark a message as dead, whichever queues want it. Repeated calls are harmless."""
        if not self.is_dead(id_):
            self.mark_dead(id_)
            self.live -= 1

    def settle(self, queue: int, id_: int) -> None:
        """Note that a queue wants a message no more. HOT: bench D."""
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

    def settle_many(self, queue: int, ids: list[int]) -> None:
        """Note that a queue wants these messages no more, ids of this segment. HOT: bench D."""
        if self.sharing is not None or self.attempts:
            for id_ in ids:
                self.settle(queue, id_)
            return
        self._own()
        dead = self._dead
        first, highest = ids[0] - self.first_id, max(ids) - self.first_id
        if highest >> 3 >= len(dead):
            dead.extend(bytes((highest >> 3) + 64 - len(dead)))
        count = len(ids)
        if count > 1 and ids == list(range(ids[0], ids[0] + count)):  # mostly: all bits of a range at once
            at, end = first >> 3, (first + count + 7) >> 3
            bits = int.from_bytes(dead[at:end], "little")
            settled = ((1 << count) - 1) << (first & 7)
            self.live -= (settled & ~bits).bit_count()
            dead[at:end] = (bits | settled).to_bytes(end - at, "little")
            return
        for id_ in ids:
            index = id_ - self.first_id
            if not dead[index >> 3] & 1 << (index & 7):
                dead[index >> 3] |= 1 << (index & 7)
                self.live -= 1

    def share(self, id_: int, count: int, queues: Sequence[int]) -> None:
        """Note that `count` messages from this id on went to these queues."""
        self._own()
        if self.sharing is None:
            self.sharing = Sharing()
        self.sharing.add(id_ - self.first_id, count, queues)

    def wanting(self, id_: int) -> list[int] | None:
        """Return the queues that still want a message of several queues, or None for any other message."""
        return self.sharing.wanting(id_ - self.first_id) if self.sharing is not None else None

    def count(self, queue: int, id_: int, attempts: int) -> None:
        """Set how often the message has returned to this queue."""
        self._own()
        self.attempts[queue, id_] = attempts

    def take_count(self, queue: int, id_: int) -> int:
        """Remove and return the delivery count of a message in a queue."""
        self._own()
        return self.attempts.pop((queue, id_), 0)

    def lend(self) -> SegmentState:
        """Return the present state, which does not change until `give_back`."""
        self._lent = True
        state = self.number, self.first_id, self._dead, self.sharing, self.attempts
        return SegmentState(*state, self.durable, self.live)

    def give_back(self) -> None:
        self._lent = False

    def _own(self) -> None:
        """Copy the state before a change if it is lent."""
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
        """Whether no message is known to be dead, and each is of one queue."""
        return not self._dead and self.sharing is None

    def restore(self, state: SegmentState) -> None:
        """Take over the state of this segment from a checkpoint."""
        self._dead = bytearray(state.dead)
        self.sharing = state.sharing

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
