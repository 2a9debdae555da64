"""The format of the log: segments and their records. All numbers are little-endian.

    segment:  head | batch | batch | ...
    batch:    a record of kind BATCH | record | record | ...
    head:     "WARREN" | version u8 | 0 u8 | first id u64 | salt u32 | crc u32 of everything before it  (24 bytes)
    record:   magic u32 | crc u32 | length u32 | kind u8 | id u64 | payload
              length counts from kind on; crc is the CRC-32 of everything after it, seeded with the salt

    kind                payload
    MESSAGE         1   largest frame u32 | body bytes u64 | channel u16 | flags u8 | queues u32 |
                        state, if flagged | queue u32 each | address | frames
    SETTLED         2   queue u32 | ids of messages, u64 each
    QUEUE_DELETED   3   queue u32
    DELIVERY_COUNT  4   queue u32 | id of a message u64 | attempts u32
    MOVED           5   queue u32 | ids of messages, u64 each
    BATCH           6   number u64 | number of the last batch that was durable u64 | bytes of the whole batch u64
    COMMIT_STORED   7   number of the commit u64 | messages: first id u64, and the id after the last u64, each
    COMMIT_SETTLED  8   number of the commit u64 | queue u32 | ids of messages, u64 each
    COMMIT_END      9   number of the commit u64

    flags   1 persistent, 2 has a state: priority u8 | marks u8 | attempts u32 | deadline u64 in milliseconds |
            if marked, the BCC keys: bytes u32, then each as a short string; 4 copied from an earlier segment
    marks   1 dead-lettered, 2 has BCC keys

The salt is random and the same in all segments of a log. Without it a publisher could write records of its own into a
body, and recovery would find them when it skips a damaged record.

Only messages have ids of their own, ascending through the whole log and without gaps in a segment; other records have
the id of the next message. An id never changes: compaction copies live messages to the end of the log with their ids.
The last copy of a message counts, and a queue is in the order of the ids. A message is stored once, with its queues;
one without a queue is a page of a transient backlog, which a restart drops. `address` is exchange and routing key as
two short strings; frames are as in `core.messages.message`. Metadata never assigns the number of a queue twice, so
records of a deleted queue mean nothing. Of several DELIVERY_COUNT for one message and queue the highest counts.

A batch is written and synced together, and is whole or absent: recovery ends the log before a batch that a power cut
has torn, because nothing in it was confirmed. Two batches may be under way at a time, so the second one may be whole
after a torn one; it is absent, too, because a batch is durable only after all earlier ones. Batches are numbered
without gaps, and each has the number of the last one that was durable when it was written. So a torn batch that was
durable according to a later one, or to a checkpoint, is damage: its other records are read, and the log continues.
MOVED settles messages that were stored again for other queues in the same batch: it does not count if that batch is
damaged, because the copies may be missing.

The transaction of a client is whole or absent, too. A short one is in one batch, and needs no record of its own. The
messages of a long one are in several batches, between those of others; each of these batches has a COMMIT_STORED with
their ids. Its settlements are in COMMIT_SETTLED and not in SETTLED. If COMMIT_END is missing, recovery drops the
messages and ignores the settlements. If it may be missing because of damage, the messages stay, because the commit may
have been confirmed. The checkpoint has the messages of the commits that were open when it was saved, and none is saved
while one settles: older records belong to no other open commit. The number of a commit is not used again as long as a
record has it.

To change any of this, raise VERSION. Until a first version is released, recovery refuses all others.
"""

from __future__ import annotations

from array import array
from binascii import crc32
from collections.abc import Callable, Sequence
from itertools import accumulate
from struct import Struct
from struct import error as StructError
from typing import Final

from ..core.messages.message import NO_ADDRESS, Message, RoutingAddress
from ..core.messages.message_state import NO_TTL, WITHOUT_CC, MessageState
from .shared_messages import little

MAGIC: Final = 0x4E525701
SEGMENT_MAGIC = b"WARREN"
VERSION = 4

MESSAGE: Final = 1
SETTLED: Final = 2
QUEUE_DELETED: Final = 3
DELIVERY_COUNT: Final = 4
MOVED: Final = 5
BATCH: Final = 6
COMMIT_STORED: Final = 7
COMMIT_SETTLED: Final = 8
COMMIT_END: Final = 9
PERSISTENT: Final = 1
HAS_STATE: Final = 2
COPIED: Final = 4
DEAD_LETTERED: Final = 1
HAS_BCC: Final = 2
REPLACED_CC: Final = 4
DEAD_LETTER_MARKS: Final = (0, DEAD_LETTERED, DEAD_LETTERED | REPLACED_CC)  # by `MessageState.dead_lettered`

SEGMENT_HEAD = Struct("<6sBBQI")
CRC = Struct("<I")
SEGMENT_HEAD_BYTES = SEGMENT_HEAD.size + CRC.size
RECORD_HEAD = Struct("<III")
RECORD_BYTES = RECORD_HEAD.size  # not included in `length`
MAGIC_CRC = Struct("<II")
CRC_START = MAGIC_CRC.size  # the crc covers the record from here on
KIND_ID = Struct("<BQ")
MESSAGE_HEAD = Struct("<BQIQHBI")
MESSAGE_HEAD_BYTES: Final = MESSAGE_HEAD.size
MESSAGE_BYTES: Final = RECORD_BYTES + MESSAGE_HEAD_BYTES  # of the smallest record of a message
MESSAGE_LENGTH_HEAD = Struct("<IBQIQHBI")  # with the length in front
STATE = Struct("<BBIQ")
DELIVERY_COUNT_BODY = Struct("<BQIQI")
QUEUE = Struct("<I")
SETTLED_HEAD = Struct("<BQI")
BATCH_BODY = Struct("<BQQQQ")
BATCH_BYTES: Final = RECORD_BYTES + BATCH_BODY.size
COMMIT_HEAD = Struct("<BQQ")
COMMIT_SETTLED_HEAD = Struct("<BQQI")
LENGTH = Struct("<I")
MAGIC_BYTES = LENGTH.pack(MAGIC)

_message_head: Final[Callable[..., bytes]] = MESSAGE_LENGTH_HEAD.pack
_magic_crc: Final[Callable[[int, int], bytes]] = MAGIC_CRC.pack


class Head:
    """The head of a segment."""

    __slots__ = ("first_id", "salt")

    def __init__(self, first_id: int, salt: int) -> None:
        self.first_id = first_id
        self.salt = salt

    def encode(self) -> bytes:
        head = SEGMENT_HEAD.pack(SEGMENT_MAGIC, VERSION, 0, self.first_id, self.salt)
        return head + CRC.pack(crc32(head))


def parse_head(data: bytes) -> Head | None:
    """Return the head of a segment that starts with `data`, or None if it is incomplete or of another version."""
    if not _is_head(data) or data[len(SEGMENT_MAGIC)] != VERSION:
        return None
    _, _, _, first_id, salt = SEGMENT_HEAD.unpack_from(data)
    return Head(first_id, salt)


def unknown_version(data: bytes) -> int:
    """Return the version of a segment that starts with `data` if this broker cannot read it, otherwise 0."""
    version = data[len(SEGMENT_MAGIC)] if _is_head(data) else VERSION
    return version if version != VERSION else 0


def _is_head(data: bytes) -> bool:
    if not data.startswith(SEGMENT_MAGIC) or len(data) < SEGMENT_HEAD_BYTES:
        return False
    return bool(CRC.unpack_from(data, SEGMENT_HEAD.size)[0] == crc32(data[: SEGMENT_HEAD.size]))


def encode_message(
    salt: int,
    id_: int,
    largest: int,
    body_bytes: int,
    channel: int,
    flags: int,
    queues: int,
    addressed: bytes,
    content: bytes | memoryview,
) -> bytes:
    """Encode a message. `addressed` and `content` have its state, if any, queues, address and frames, in this order."""
    length = MESSAGE_HEAD_BYTES + len(addressed) + len(content)
    head = MESSAGE_LENGTH_HEAD.pack(length, MESSAGE, id_, largest, body_bytes, channel, flags, queues) + addressed
    return b"".join((MAGIC_CRC.pack(MAGIC, crc32(content, crc32(head, salt))), head, content))


def append_messages(
    buffer: bytearray,
    start: int,
    salt: int,
    id_: int,
    queues: list[int],
    messages: list[Message],
    offsets: array[int],
    sizes: array[int],
) -> None:
    """Give messages their ids, from `id_` on, and append their records to the buffer. HOT: bench D.

    The buffer begins at `start` in the segment. Their offsets there and their sizes are appended, too.
    """
    count = len(queues)
    numbers = Struct(f"<{count}I").pack(*queues)
    begin = start + len(buffer)
    lengths: list[int] = []
    address: RoutingAddress | None = None
    addressed = b""
    for message in messages:
        message.id = id_
        flags: int = message.persistent  # 1 is PERSISTENT
        if message.address is not address:  # mostly they are alike
            address = message.address
            addressed = numbers + address.encoded
        frames, tail = message.frames, addressed
        if message.state is not None:
            flags |= HAS_STATE
            tail = encode_state(message.state) + addressed
        length = MESSAGE_HEAD_BYTES + len(tail) + len(frames)
        head = (
            _message_head(
                length, MESSAGE, id_, message.largest_frame, message.body_bytes, message.channel, flags, count
            )
            + tail
        )
        buffer += _magic_crc(MAGIC, crc32(frames, crc32(head, salt)))
        buffer += head
        buffer += frames
        lengths.append(RECORD_BYTES + length)
        id_ += 1
    sizes.extend(lengths)
    offsets.extend(accumulate(lengths, initial=begin))
    offsets.pop()  # the end of the last one


def encode_state(of: MessageState) -> bytes:
    marks = DEAD_LETTER_MARKS[of.dead_lettered] | (HAS_BCC if of.bcc_keys else 0)
    head = STATE.pack(of.level, marks, of.attempts, of.deadline_ms)
    if not of.bcc_keys:
        return head
    # A key from a header can be longer than 255 bytes: no queue is bound with it, and no short string can hold it.
    keys = [key.encode("utf-8", "surrogateescape") for key in of.bcc_keys]
    encoded = b"".join([bytes((len(key),)) + key for key in keys if len(key) <= 255])
    return head + LENGTH.pack(len(encoded)) + encoded


def state_end(data: bytes, at: int) -> int:
    """Return the end of the state that starts at `at`."""
    _, marks, _, _ = STATE.unpack_from(data, at)
    at += STATE.size
    return at + LENGTH.size + int(LENGTH.unpack_from(data, at)[0]) if marks & HAS_BCC else at


def decode_state(data: bytes, at: int) -> MessageState:
    """Decode the state that starts at `at`."""
    level, marks, attempts, deadline_ms = STATE.unpack_from(data, at)
    dead_lettered = WITHOUT_CC if marks & REPLACED_CC else marks & DEAD_LETTERED
    end, at = state_end(data, at), at + STATE.size + LENGTH.size
    keys: list[str] = []
    while at < end:
        key_end = at + 1 + data[at]
        keys.append(data[at + 1 : key_end].decode("utf-8", "surrogateescape"))
        at = key_end
    return MessageState(NO_TTL, deadline_ms, level, attempts, dead_lettered, tuple(keys))


def encode_settled(salt: int, id_: int, queue: int, ids: array[int] | list[int], kind: int = SETTLED) -> bytes:
    return _encode_record(salt, SETTLED_HEAD.pack(kind, id_, queue) + little(array("Q", ids)).tobytes())


def encode_queue_deleted(salt: int, id_: int, queue: int) -> bytes:
    return _encode_record(salt, SETTLED_HEAD.pack(QUEUE_DELETED, id_, queue))


def encode_batch(salt: int, id_: int, number: int, durable: int, batch_bytes: int) -> bytes:
    return _encode_record(salt, BATCH_BODY.pack(BATCH, id_, number, durable, batch_bytes))


def encode_commit_stored(salt: int, id_: int, commit: int, ids: Sequence[int]) -> bytes:
    return _encode_record(salt, COMMIT_HEAD.pack(COMMIT_STORED, id_, commit) + Struct(f"<{len(ids)}Q").pack(*ids))


def encode_commit_settled(salt: int, id_: int, commit: int, queue: int, ids: array[int]) -> bytes:
    head = COMMIT_SETTLED_HEAD.pack(COMMIT_SETTLED, id_, commit, queue)
    return _encode_record(salt, head + little(ids).tobytes())


def encode_commit_end(salt: int, id_: int, commit: int) -> bytes:
    return _encode_record(salt, COMMIT_HEAD.pack(COMMIT_END, id_, commit))


def encode_delivery_count(salt: int, id_: int, queue: int, message_id: int, attempts: int) -> bytes:
    return _encode_record(salt, DELIVERY_COUNT_BODY.pack(DELIVERY_COUNT, id_, queue, message_id, attempts))


def _encode_record(salt: int, body: bytes) -> bytes:
    """Encode a record with `body`: kind, id and payload."""
    checked = LENGTH.pack(len(body)) + body
    return MAGIC_CRC.pack(MAGIC, crc32(checked, salt)) + checked


def record_end(salt: int, data: bytes, at: int) -> int:
    """Return the end of the record at `at`, or 0 if there is no complete and sound one."""
    if at + RECORD_BYTES + KIND_ID.size > len(data):
        return 0
    magic, crc, length = RECORD_HEAD.unpack_from(data, at)
    end = int(at + RECORD_BYTES + length)
    if magic != MAGIC or length < KIND_ID.size or end > len(data):
        return 0
    return end if crc32(data[at + CRC_START : end], salt) == crc else 0


def claimed_end(data: bytes) -> int:
    """Return the end of the record at the start of `data` by its head, sound or not, or 0 if there is no head."""
    if len(data) < RECORD_BYTES + KIND_ID.size:
        return 0
    magic, _, length = RECORD_HEAD.unpack_from(data)
    return int(RECORD_BYTES + length) if magic == MAGIC and length >= KIND_ID.size else 0


def next_record(salt: int, data: bytes, at: int) -> int:
    """Return the offset of the first complete and sound record from `at` on, or 0 if there is none."""
    while True:
        at = data.find(MAGIC_BYTES, at)
        if at < 0:
            return 0
        if record_end(salt, data, at):
            return at
        at += 1


def is_complete(data: bytes, at: int) -> bool:
    """Whether `data` has all of the record at `at`, sound or not."""
    if at + RECORD_BYTES > len(data):
        return False
    return int(at + RECORD_BYTES + RECORD_HEAD.unpack_from(data, at)[2]) <= len(data)


def claimed_message(data: bytes, at: int, end: int) -> tuple[int, tuple[int, ...], int] | None:
    """Return id and queues of a message by a record that is not sound, and the end of these in the bytes.

    None if the record cannot be that of a message.
    """
    start = at + RECORD_BYTES
    if start + MESSAGE_HEAD_BYTES > end:
        return None
    kind, id_, _, _, _, flags, count = MESSAGE_HEAD.unpack_from(data, start)
    queues_at = start + MESSAGE_HEAD_BYTES
    try:
        if flags & HAS_STATE:
            queues_at = state_end(data, queues_at)
    except StructError:
        return None
    if kind != MESSAGE or flags > PERSISTENT | HAS_STATE | COPIED or count > (end - queues_at) // QUEUE.size:
        return None
    return id_, Struct(f"<{count}I").unpack_from(data, queues_at), queues_at + count * QUEUE.size


def parse_message(salt: int, data: bytes, at: int, known: RoutingAddress = NO_ADDRESS) -> Message | None:
    """Return the message of the record at `at`, or None if that is damaged. Its address is `known` if that is equal."""
    end = record_end(salt, data, at)
    if not end:
        return None
    try:
        start = at + RECORD_BYTES
        _, id_, largest, body_bytes, channel, flags, queues = MESSAGE_HEAD.unpack_from(data, start)
        state: MessageState | None = None
        queues_at = start + MESSAGE_HEAD.size
        if flags & HAS_STATE:
            state = decode_state(data, queues_at)
            queues_at = state_end(data, queues_at)
        exchange_at = queues_at + queues * QUEUE.size
        key_at = exchange_at + 1 + data[exchange_at]
        frames_at = key_at + 1 + data[key_at]
        address = known
        if data[exchange_at:frames_at] != known.encoded:
            address = RoutingAddress(
                data[exchange_at + 1 : key_at].decode("utf-8", "surrogateescape"),
                data[key_at + 1 : frames_at].decode("utf-8", "surrogateescape"),
            )
    except (StructError, IndexError):  # lengths that no broker writes, with a valid checksum
        return None
    persistent = flags & PERSISTENT != 0
    message = Message(address, data[frames_at:end], channel, body_bytes, largest, persistent)
    message.id = id_
    message.state = state
    return message
