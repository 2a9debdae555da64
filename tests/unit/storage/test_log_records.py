"""Records are read back as they were written, and nothing else is taken for one."""

from random import Random

import pytest

from warren.broker.amqp.framing import content_frames
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.messages.message_state import NO_TTL, MessageState
from warren.broker.storage import log_records

SALT = 0x1234ABCD
ADDRESS = RoutingAddress("amq.direct", "key")
FRAMES = content_frames(3, b"\x10\x00\x02", b"a body of some octets")
MESSAGE = log_records.encode_message(
    SALT, 7, 4096, 21, 3, log_records.PERSISTENT, 2, b"\x01\0\0\0\x02\0\0\0" + ADDRESS.encoded, FRAMES
)
SETTLED = log_records.encode_settled(SALT, 8, 3, [1, 2, 1 << 40])
DELETED = log_records.encode_queue_deleted(SALT, 9, 3)
DELIVERY_COUNT = log_records.encode_delivery_count(SALT, 10, 3, 1 << 40, 7)
KINDS = pytest.mark.parametrize(
    "record", [MESSAGE, SETTLED, DELETED, DELIVERY_COUNT], ids=["message", "settled", "queue deleted", "delivery count"]
)


def test_a_message_comes_back() -> None:
    message = log_records.parse_message(SALT, b"before" + MESSAGE + b"after", 6)
    assert isinstance(message, Message)
    assert (message.address.exchange, message.address.routing_key) == ("amq.direct", "key")
    assert (message.frames, message.body) == (FRAMES, b"a body of some octets")
    assert (message.channel, message.body_bytes, message.largest_frame, message.persistent) == (3, 21, 4096, True)


@pytest.mark.parametrize("exchange", ["", "x" * 255, "\udcff" * 255])
@pytest.mark.parametrize("key", ["", "é" * 127, "k" * 255])
@pytest.mark.parametrize("queues", [0, 1, 400])
def test_an_address_of_any_length_comes_back(exchange: str, key: str, queues: int) -> None:
    address = RoutingAddress(exchange, key)
    record = log_records.encode_message(SALT, 1, 0, 21, 0, 0, queues, bytes(4 * queues) + address.encoded, FRAMES)
    message = log_records.parse_message(SALT, record, 0)
    assert message is not None
    assert (message.address.exchange, message.address.routing_key) == (exchange, key)
    assert message.frames == FRAMES and not message.persistent


@KINDS
def test_a_record_ends_where_the_next_begins(record: bytes) -> None:
    assert log_records.record_end(SALT, record + DELETED, 0) == len(record)
    assert log_records.record_end(SALT, DELETED + record, len(DELETED)) == len(DELETED) + len(record)


@KINDS
def test_a_part_of_a_record_is_none(record: bytes) -> None:
    assert not any(log_records.record_end(SALT, record[:end], 0) for end in range(len(record)))
    assert not any(log_records.record_end(SALT, record, at) for at in range(1, len(record)))


@KINDS
def test_a_flipped_bit_is_seen(record: bytes) -> None:
    for at in range(len(record)):
        for bit in range(8):
            damaged = bytearray(record + DELETED)
            damaged[at] ^= 1 << bit
            assert not log_records.record_end(SALT, bytes(damaged), 0), f"bit {bit} of byte {at}"


def test_rubbish_and_zeros_are_no_record() -> None:
    random = Random(1)
    for size in range(200):
        assert not log_records.record_end(SALT, bytes(size), 0)
        rubbish = random.randbytes(size)
        assert not log_records.record_end(SALT, rubbish, 0)
        assert not log_records.record_end(SALT, log_records.LENGTH.pack(log_records.MAGIC) + rubbish, 0)


def test_a_damaged_message_is_not_served() -> None:
    assert log_records.parse_message(SALT, MESSAGE[:-1] + b"\x00", 0) is None


@pytest.mark.parametrize("queues", [0, 1, 3])
def test_a_state_comes_back_with_its_message(queues: int) -> None:
    state = log_records.encode_state(MessageState(NO_TTL, 1 << 41, 255, 1 << 31, True))
    numbers = state + bytes(4 * queues)
    flags = log_records.PERSISTENT | log_records.HAS_STATE
    record = log_records.encode_message(SALT, 1, 0, 21, 3, flags, queues, numbers + ADDRESS.encoded, FRAMES)
    message = log_records.parse_message(SALT, record, 0)
    assert message is not None and message.state is not None
    assert (message.frames, message.persistent, message.address.routing_key) == (FRAMES, True, "key")
    assert (message.state.level, message.state.attempts, message.state.dead_lettered) == (255, 1 << 31, True)
    assert (message.state.deadline_ms, message.state.ttl_ms) == (1 << 41, NO_TTL)


def test_an_ordinary_message_has_no_state() -> None:
    message = log_records.parse_message(SALT, MESSAGE, 0)
    assert message is not None and message.state is None


@KINDS
def test_a_record_of_another_salt_is_none(record: bytes) -> None:
    """A publisher that does not know the salt of a log cannot write a record of it."""
    assert not any(log_records.record_end(SALT ^ 1 << bit, record, 0) for bit in range(32))
    assert not log_records.record_end(0, record, 0)


def test_a_segment_head_has_its_first_id_and_salt() -> None:
    data = log_records.Head(1 << 50, SALT).encode()
    assert len(data) == log_records.SEGMENT_HEAD_BYTES
    head = log_records.parse_head(data + MESSAGE)
    assert head is not None and (head.first_id, head.salt) == (1 << 50, SALT)
    assert log_records.parse_head(data[:-1]) is None and log_records.parse_head(b"") is None
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        assert log_records.parse_head(bytes(damaged)) is None
        assert not log_records.unknown_version(bytes(damaged)), "damage is no other version"


@pytest.mark.parametrize("version", [log_records.VERSION - 1, log_records.VERSION + 1])
def test_a_version_that_is_not_known_is_not_read(version: int) -> None:
    head = log_records.SEGMENT_HEAD.pack(log_records.SEGMENT_MAGIC, version, 0, 1, SALT)
    data = head + log_records.CRC.pack(log_records.crc32(head)) + bytes(10)
    assert log_records.parse_head(data) is None
    assert log_records.unknown_version(data) == version
