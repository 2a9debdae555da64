"""Disk: the port of the log to its storage: segments by number, and the checkpoint that is their index.

A segment only grows at its end. Appended bytes survive a killed process once `append` or, on a store that gathers them,
`commit` has returned, and a power cut once `sync` has. The other calls end when their effect survives both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..core.messages.journal_port import IN_FLIGHT
from .metadata import Metadata, RowsOfMoment

RESERVE_BYTES = 16 << 20  # more than a journal has buffered when the disk is found full (`journal.BUFFER_LIMIT`)


@dataclass(slots=True)
class Moment:
    """The contents of a store at one moment, for one thread to read. Its segments may have become longer since."""

    lengths: dict[int, int]  # of the segments by number, which are not dropped before the end of the backup
    checkpoint: bytes
    metadata: RowsOfMoment
    log: Disk  # another one for the same segments
    close: Callable[[], None]  # closes both


class Disk:
    """The store of one log. Calls may raise OSError. `read` and `forget` are calls of the loop, once it runs."""

    in_flight = IN_FLIGHT  # the number of batches of a journal that may be written or synced at a time
    tears = False  # whether an interrupted append may leave a part of itself
    read_ahead = 0  # the most bytes of successive messages in one read, or 0 for the default (`segment_reader`)
    read_cost = 16 << 10  # the bytes whose transfer takes as long as a read of nothing

    def segments(self) -> dict[int, int]:
        """Return the bytes of all segments, by their numbers, in ascending order."""
        raise NotImplementedError

    def read(self, number: int, offset: int, count: int) -> bytes:
        """Return the bytes at `offset` of a segment: fewer than `count` at its end."""
        raise NotImplementedError

    def append(self, number: int, start: int, data: bytes | bytearray, slot: int) -> None:
        """Append all of it at `start`, the end of the segment, or nothing if that fails; at 0 the segment is created.

        It is to be synced in this slot. Earlier segments must be synced.
        """
        raise NotImplementedError

    def sync(self, slot: int) -> None:
        """Make the appends of this slot and all earlier ones durable. A failure is final, unless it is a shortage.

        Calls that run at the same time need different slots, from 0 on.
        """
        raise NotImplementedError

    def commit(self) -> None:
        """Make appended bytes survive a killed process, if `append` alone does not."""

    def keep(self, lengths: dict[int, int]) -> None:
        """Make all segments durable with these lengths by number, after a start; a longer one has a torn end."""

    def drop(self, numbers: Iterable[int]) -> list[int]:
        """Delete segments, and return those that cannot be deleted now, for another time."""
        raise NotImplementedError

    def forget(self, number: int) -> None:
        """Note that a segment was dropped, and is not read any more."""

    def load_checkpoint(self) -> bytes | None:
        """Return the checkpoint that was saved last, or None."""
        raise NotImplementedError

    def save_checkpoint(self, data: bytes) -> None:
        """Replace the checkpoint. After an interruption the disk has the old or the new one."""
        raise NotImplementedError

    def moment(self, lengths: dict[int, int], metadata: Metadata) -> Callable[[], Moment]:
        """Return the function that opens what the store has now, between two batches; another thread may call it.

        `lengths` are those of the segments that have been written, by number. Raises OSError, StorageFault. So does
        the function.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open. Calls after this open it again."""

    def free_bytes(self) -> int:
        """Return the free space without the reserve, whether that is spent or not."""
        raise NotImplementedError

    def reserve(self) -> None:
        """Allocate space for the writes that free a full disk, if there is room and none is reserved."""

    def spend_reserve(self) -> bool:
        """Free a part of the reserved space; return False if none is left. Any thread may call this."""
        return False

    def salt(self) -> int:
        """Return 32 bits that nobody can guess, for a new log."""
        raise NotImplementedError
