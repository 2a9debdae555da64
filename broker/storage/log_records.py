"""The records of the log, as octets. All numbers are little-endian.

    segment:  head | record | record | ...
    head:     "WARREN" | version u8 | 0 u8 | first id u64 | salt u32 | crc u32 of all before  (24 octets)
    record:   magic u32 | crc u32 | length u32 | kind u8 | id u64 | payload
              length counts from kind on; crc is CRC-32 of all behind it, begun with the salt

    kind          payload
    MESSAGE  1    order u64 | largest frame u32 | body octets u64 | channel u16 | flags u8 | queues u32 |
                  life, where the flags say so | queue u32 each | address | frames
    SETTLED  2    queue u32 | ids of messages, u64 each
    GONE     3    queue u32
    COUNTED  4    queue u32 | id of a message u64 | attempts u32
    MOVED    5    queue u32 | first id u64 | ids of messages, u64 each

    flags         1 persistent, 2 has a life: priority u8 | marks u8 | attempts u32 | deadline u64 in milliseconds |
                  where it has blind keys, their octets u32 and each as a short string
    marks         1 died, 2 has blind keys

The salt is random, and the same in all segments of a log: without it a publisher could write records of its own into a
body, to be found there when a damaged record has to be skipped.

Only messages have ids of their own, ascending through the whole log; other records carry the id that the next message
will have. A message is stored once, with the queues that it went to; with no queue it is a page of the backlog that a
restart forgets. `order` is the id it had first: compaction copies messages that are still wanted to the end of the log,
and a queue stands in the order of these. `address` is exchange and routing key as two short strings; frames are as in
`core.message`. A queue is a number that metadata gave it and never gives again, so what is left of a deleted queue
means nothing. Of several COUNTED for one message of one queue, the highest holds. MOVED settles messages that were
stored anew in the same batch, for other queues; `first id` is that of the batch's first message. It holds only where
every message from there to the record can be read: a power cut may keep it, and not the copies.

To change any of this, raise VERSION, and teach `recovery` to read the version before: segments are never rewritten in
place, so a log holds both for a while. Version 1 was never released, and is refused.
"""

from __future__ import annotations

from binascii import crc32
from struct import Struct

from ..core.messages.message import Address, Message
from ..core.messages.message_state import NO_TTL, MessageState

MAGIC = 0x4E525701
SEGMENT_MAGIC = b"WARREN"
VERSION = 2

MESSAGE, SETTLED, GONE, COUNTED, MOVED = 1, 2, 3, 4, 5
PERSISTENT, HAS_LIFE = 1, 2
DIED, HAS_BLIND = 1, 2

SEGMENT_HEAD = Struct("<6sBBQI")
SEGMENT_HEAD_1 = Struct("<6sBBQ")  # of version 1
CRC = Struct("<I")
SEGMENT_HEAD_BYTES = SEGMENT_HEAD.size + CRC.size
RECORD_HEAD = Struct("<III")
RECORD_BYTES = RECORD_HEAD.size  # what stands before what `length` counts
MAGIC_CRC = Struct("<II")
COUNTED_AT = MAGIC_CRC.size  # where that starts which the crc is of
KIND_ID = Struct("<BQ")
MESSAGE_HEAD = Struct("<BQQIQHBI")
MESSAGE_HEAD_BYTES = MESSAGE_HEAD.size
MESSAGE_COUNTED = Struct("<IBQQIQHBI")  # the length as well
LIFE = Struct("<BBIQ")
COUNTED_BODY = Struct("<BQIQI")
QUEUE = Struct("<I")
SETTLED_HEAD = Struct("<BQI")
MOVED_HEAD = Struct("<BQIQ")
LENGTH = Struct("<I")
LARGEST_RECORD = 600 << 20  # octets: the largest message there can be, with its frames' overhead


class Head:
    """What the head of a segment says."""

    __slots__ = ("first_id", "salt")

    def __init__(self, first_id: int, salt: int) -> None:
        self.first_id = first_id
        self.salt = salt

    def encode(self) -> bytes:
        head = SEGMENT_HEAD.pack(SEGMENT_MAGIC, VERSION, 0, self.first_id, self.salt)
        return head + CRC.pack(crc32(head))


def head_of(data: bytes) -> Head | None:
    """The head of a segment that starts so; None where it is not whole, or not of our version."""
    if not _is_head(data, SEGMENT_HEAD) or data[len(SEGMENT_MAGIC)] != VERSION:
        return None
    _, _, _, first_id, salt = SEGMENT_HEAD.unpack_from(data)
    return Head(first_id, salt)


def other_version(data: bytes) -> int:
    """The version of a segment that starts so, where that is one we do not know; 0 where it is not."""
    if not _is_head(data, SEGMENT_HEAD) and not _is_head(data, SEGMENT_HEAD_1):
        return 0
    version = data[len(SEGMENT_MAGIC)]
    return version if version != VERSION else 0


def _is_head(data: bytes, layout: Struct) -> bool:
    if not data.startswith(SEGMENT_MAGIC) or len(data) < layout.size + CRC.size:
        return False
    return bool(CRC.unpack_from(data, layout.size)[0] == crc32(data[: layout.size]))


def message(
    salt: int,
    id_: int,
    order: int,
    largest: int,
    body_bytes: int,
    channel: int,
    flags: int,
    queues: int,
    addressed: bytes,
    frames: bytes,
) -> bytes:
    """`addressed` is the life, if there is one, the queues' numbers and the address. HOT: bench D."""
    head = (
        MESSAGE_COUNTED.pack(
            MESSAGE_HEAD_BYTES + len(addressed) + len(frames),
            MESSAGE,
            id_,
            order,
            largest,
            body_bytes,
            channel,
            flags,
            queues,
        )
        + addressed
    )
    return MAGIC_CRC.pack(MAGIC, crc32(frames, crc32(head, salt))) + head + frames


def state(of: MessageState) -> bytes:
    marks = (DIED if of.dead_lettered else 0) | (HAS_BLIND if of.bcc_keys else 0)
    head = LIFE.pack(of.level, marks, of.attempts, of.deadline_ms)
    if not of.bcc_keys:
        return head
    # From a header they can be longer than any that a queue is bound by, or a string here.
    keys = [key.encode("utf-8", "surrogateescape") for key in of.bcc_keys]
    octets = b"".join([bytes((len(key),)) + key for key in keys if len(key) <= 255])
    return head + LENGTH.pack(len(octets)) + octets


def life_end(data: bytes, at: int) -> int:
    """Where a life ends that starts there."""
    _, marks, _, _ = LIFE.unpack_from(data, at)
    at += LIFE.size
    return at + LENGTH.size + int(LENGTH.unpack_from(data, at)[0]) if marks & HAS_BLIND else at


def life_at(data: bytes, at: int) -> MessageState:
    """The one that starts there."""
    level, marks, attempts, deadline_ms = LIFE.unpack_from(data, at)
    end, at = life_end(data, at), at + LIFE.size + LENGTH.size
    keys: list[str] = []
    while at < end:
        key_end = at + 1 + data[at]
        keys.append(data[at + 1 : key_end].decode("utf-8", "surrogateescape"))
        at = key_end
    return MessageState(NO_TTL, deadline_ms, level, attempts, marks & DIED != 0, tuple(keys))


def settled(salt: int, id_: int, queue: int, ids: list[int]) -> bytes:
    return _sealed(salt, SETTLED_HEAD.pack(SETTLED, id_, queue) + Struct(f"<{len(ids)}Q").pack(*ids))


def moved(salt: int, id_: int, queue: int, first: int, ids: list[int]) -> bytes:
    return _sealed(salt, MOVED_HEAD.pack(MOVED, id_, queue, first) + Struct(f"<{len(ids)}Q").pack(*ids))


def gone(salt: int, id_: int, queue: int) -> bytes:
    return _sealed(salt, SETTLED_HEAD.pack(GONE, id_, queue))


def counted(salt: int, id_: int, queue: int, message_id: int, attempts: int) -> bytes:
    return _sealed(salt, COUNTED_BODY.pack(COUNTED, id_, queue, message_id, attempts))


def _sealed(salt: int, body: bytes) -> bytes:
    """A record around kind, id and payload."""
    counted = LENGTH.pack(len(body)) + body
    return MAGIC_CRC.pack(MAGIC, crc32(counted, salt)) + counted


def whole(salt: int, data: bytes, at: int) -> int:
    """Where the record at `at` ends; 0 where no whole and sound one stands there."""
    if at + RECORD_BYTES + KIND_ID.size > len(data):
        return 0
    magic, crc, length = RECORD_HEAD.unpack_from(data, at)
    end = int(at + RECORD_BYTES + length)
    if magic != MAGIC or length < KIND_ID.size or end > len(data):
        return 0
    return end if crc32(data[at + COUNTED_AT : end], salt) == crc else 0


def complete(data: bytes, at: int) -> bool:
    """Whether all of the record that starts there is in these octets."""
    if at + RECORD_BYTES > len(data):
        return False
    return int(at + RECORD_BYTES + RECORD_HEAD.unpack_from(data, at)[2]) <= len(data)


def parsed(salt: int, data: bytes, at: int) -> Message | None:
    """The message of the record that starts there, None where it has been damaged since it was written."""
    end = whole(salt, data, at)
    if not end:
        return None
    start = at + RECORD_BYTES
    _, id_, _, largest, body_bytes, channel, flags, queues = MESSAGE_HEAD.unpack_from(data, start)
    life: MessageState | None = None
    queues_at = start + MESSAGE_HEAD.size
    if flags & HAS_LIFE:
        life = life_at(data, queues_at)
        queues_at = life_end(data, queues_at)
    exchange_at = queues_at + queues * QUEUE.size
    key_at = exchange_at + 1 + data[exchange_at]
    frames_at = key_at + 1 + data[key_at]
    address = Address(
        data[exchange_at + 1 : key_at].decode("utf-8", "surrogateescape"),
        data[key_at + 1 : frames_at].decode("utf-8", "surrogateescape"),
    )
    persistent = flags & PERSISTENT != 0
    message = Message(address, data[frames_at:end], channel, body_bytes, largest, persistent)
    message.id = id_
    message.state = life
    return message
