"""The records of the log, as octets. All numbers are little-endian.

    segment:  head | record | record | ...
    head:     "WARREN" | version u8 | 0 u8 | first id u64 | crc u32 of all before            (20 octets)
    record:   magic u32 | crc u32 | length u32 | kind u8 | id u64 | payload
              length counts from kind on; crc is CRC-32 of all behind it: length, kind, id and payload

    kind          payload
    MESSAGE  1    order u64 | largest frame u32 | body octets u64 | channel u16 | persistent u8 |
                  queues u32 | queue u32 each | address | frames
    SETTLED  2    queue u32 | ids of messages, u64 each
    GONE     3    queue u32

Only messages have ids of their own, ascending through the whole log; other records carry the id that the next message
will have. A message is stored once, with the queues that it went to; with no queue it is a page of the backlog that a
restart forgets. `order` is the id it had first: compaction copies messages that are still wanted to the end of the log,
and a queue stands in the order of these. `address` is exchange and routing key as two short strings; frames are as in
`core.message`. A queue is a number that metadata gave it and never gives again, so what is left of a deleted queue
means nothing.

To change any of this, raise VERSION, and teach `recovery` to read the version before: segments are never rewritten in
place, so a log holds both for a while.
"""

from __future__ import annotations

from binascii import crc32
from struct import Struct

MAGIC = 0x4E525701
SEGMENT_MAGIC = b"WARREN"
VERSION = 1

MESSAGE, SETTLED, GONE = 1, 2, 3

SEGMENT_HEAD = Struct("<6sBBQ")
CRC = Struct("<I")
SEGMENT_HEAD_BYTES = SEGMENT_HEAD.size + CRC.size
RECORD_HEAD = Struct("<III")
RECORD_BYTES = RECORD_HEAD.size  # what stands before what `length` counts
MAGIC_CRC = Struct("<II")
COUNTED_AT = MAGIC_CRC.size  # where that starts which the crc is of
KIND_ID = Struct("<BQ")
MESSAGE_HEAD = Struct("<BQQIQHBI")
QUEUE = Struct("<I")
SETTLED_HEAD = Struct("<BQI")
LENGTH = Struct("<I")
LARGEST_RECORD = 600 << 20  # octets: the largest message there can be, with its frames' overhead


def sealed(body: bytes) -> bytes:
    """A record around kind, id and payload."""
    counted = LENGTH.pack(len(body)) + body
    return MAGIC_CRC.pack(MAGIC, crc32(counted)) + counted


def segment_head(first_id: int) -> bytes:
    head = SEGMENT_HEAD.pack(SEGMENT_MAGIC, VERSION, 0, first_id)
    return head + CRC.pack(crc32(head))


def first_id(head: bytes) -> int | None:
    """The first id of a segment that starts so; None where this is no whole head of a version we know."""
    if len(head) < SEGMENT_HEAD_BYTES or CRC.unpack_from(head, SEGMENT_HEAD.size)[0] != crc32(
        head[: SEGMENT_HEAD.size]
    ):
        return None
    magic, version, _, first = SEGMENT_HEAD.unpack_from(head)
    return first if magic == SEGMENT_MAGIC and version == VERSION else None


def message(
    id_: int,
    order: int,
    largest: int,
    body_bytes: int,
    channel: int,
    persistent: bool,
    queues: int,
    addressed: bytes,
    frames: bytes,
) -> bytes:
    """`addressed` is the queues' numbers and the address. HOT: bench D."""
    head = MESSAGE_HEAD.pack(MESSAGE, id_, order, largest, body_bytes, channel, persistent, queues)
    return sealed(head + addressed + frames)


def settled(id_: int, queue: int, ids: list[int]) -> bytes:
    return sealed(SETTLED_HEAD.pack(SETTLED, id_, queue) + Struct(f"<{len(ids)}Q").pack(*ids))


def gone(id_: int, queue: int) -> bytes:
    return sealed(SETTLED_HEAD.pack(GONE, id_, queue))


def whole(data: bytes, at: int) -> int:
    """Where the record at `at` ends; 0 where no whole and sound one stands there."""
    if at + RECORD_BYTES + KIND_ID.size > len(data):
        return 0
    magic, crc, length = RECORD_HEAD.unpack_from(data, at)
    end = int(at + RECORD_BYTES + length)
    if magic != MAGIC or length < KIND_ID.size or end > len(data):
        return 0
    return end if crc32(data[at + COUNTED_AT : end]) == crc else 0
