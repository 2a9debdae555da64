"""A segment of the log: how far it is written, and how much of it is live.

The place of a message is segment number << 32 | offset of its record.
"""

from __future__ import annotations

from .log_records import SEGMENT_HEAD_BYTES, Head

SUFFIX = ".log"
DIGITS = 9  # of the highest number, at most: 64 bits have room for a place
OFFSET_BITS = 32
WANTED_SHARE = 4  # a segment is compacted when less than one in this many of its bytes are of live messages


class Segment:
    """One segment of the log.

    first_id    the first id of the messages that are first written to it
    length      the number of bytes, including unwritten ones
    durable     the number of bytes that are durable, at least
    live        the number of messages that a queue still wants, of the `total` records of messages
    live_bytes  the bytes of their records
    complete    whether nothing is appended to it any more
    stuck       whether compaction cannot read all of it
    """

    __slots__ = ("number", "first_id", "salt", "length", "durable", "live", "live_bytes", "total", "complete", "stuck")

    def __init__(self, number: int, first_id: int, salt: int) -> None:
        self.number = number
        self.first_id = first_id
        self.salt = salt
        self.length = SEGMENT_HEAD_BYTES
        self.durable = 0
        self.live = self.live_bytes = self.total = 0
        self.complete = self.stuck = False

    @property
    def name(self) -> str:
        return name_of(self.number)

    @property
    def head(self) -> bytes:
        return Head(self.first_id, self.salt).encode()

    @property
    def mostly_dead(self) -> bool:
        """Whether it is to be compacted or, without live messages, deleted, once it is complete."""
        return not self.live or self.live_bytes * WANTED_SHARE < self.length - SEGMENT_HEAD_BYTES


def name_of(number: int) -> str:
    """Return the name of the file of a segment, by which operators know it."""
    return f"{number:08d}{SUFFIX}"


def number_of(name: str) -> int | None:
    """Return the number of the segment with this name, or None for other files."""
    stem = name.removesuffix(SUFFIX)
    number = int(stem) if stem.isdecimal() and len(stem) <= DIGITS else None
    return number if number is not None and name == name_of(number) else None
