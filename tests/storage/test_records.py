"""Records come back as they were made, and nothing else is taken for one."""

from random import Random

import pytest

from broker.core.message import Address, Message, content_frames
from broker.storage import records
from broker.storage.journal import parsed

ADDRESS = Address("amq.direct", "key")
FRAMES = content_frames(3, b"\x10\x00\x02", b"a body of some octets")
MESSAGE = records.message(7, 5, 4096, 21, 3, True, 2, b"\x01\0\0\0\x02\0\0\0" + ADDRESS.encoded, FRAMES)
SETTLED = records.settled(8, 3, [1, 2, 1 << 40])
GONE = records.gone(9, 3)
KINDS = pytest.mark.parametrize("record", [MESSAGE, SETTLED, GONE], ids=["message", "settled", "gone"])


def test_a_message_comes_back() -> None:
    message = parsed(b"before" + MESSAGE + b"after", 6)
    assert isinstance(message, Message)
    assert (message.address.exchange, message.address.routing_key) == ("amq.direct", "key")
    assert (message.frames, message.body) == (FRAMES, b"a body of some octets")
    assert (message.channel, message.body_bytes, message.largest_frame, message.persistent) == (3, 21, 4096, True)


@pytest.mark.parametrize("exchange", ["", "x" * 255, "\udcff" * 255])
@pytest.mark.parametrize("key", ["", "é" * 127, "k" * 255])
@pytest.mark.parametrize("queues", [0, 1, 400])
def test_an_address_of_any_length_comes_back(exchange: str, key: str, queues: int) -> None:
    address = Address(exchange, key)
    record = records.message(1, 1, 0, 21, 0, False, queues, bytes(4 * queues) + address.encoded, FRAMES)
    message = parsed(record, 0)
    assert message is not None
    assert (message.address.exchange, message.address.routing_key) == (exchange, key)
    assert message.frames == FRAMES and not message.persistent


@KINDS
def test_a_record_ends_where_the_next_begins(record: bytes) -> None:
    assert records.whole(record + GONE, 0) == len(record)
    assert records.whole(GONE + record, len(GONE)) == len(GONE) + len(record)


@KINDS
def test_a_part_of_a_record_is_none(record: bytes) -> None:
    assert not any(records.whole(record[:end], 0) for end in range(len(record)))
    assert not any(records.whole(record, at) for at in range(1, len(record)))


@KINDS
def test_a_flipped_bit_is_seen(record: bytes) -> None:
    for at in range(len(record)):
        for bit in range(8):
            damaged = bytearray(record + GONE)
            damaged[at] ^= 1 << bit
            assert not records.whole(bytes(damaged), 0), f"bit {bit} of octet {at}"


def test_rubbish_and_zeros_are_no_record() -> None:
    random = Random(1)
    for octets in range(200):
        assert not records.whole(bytes(octets), 0)
        rubbish = random.randbytes(octets)
        assert not records.whole(rubbish, 0)
        assert not records.whole(records.LENGTH.pack(records.MAGIC) + rubbish, 0)


def test_a_damaged_message_is_not_served() -> None:
    assert parsed(MESSAGE[:-1] + b"\x00", 0) is None


def test_a_segment_head_says_its_first_id() -> None:
    head = records.segment_head(1 << 50)
    assert len(head) == records.SEGMENT_HEAD_BYTES
    assert records.first_id(head + MESSAGE) == 1 << 50
    assert records.first_id(head[:-1]) is None and records.first_id(b"") is None
    for at in range(len(head)):
        damaged = bytearray(head)
        damaged[at] ^= 1
        assert records.first_id(bytes(damaged)) is None


def test_a_version_that_is_not_known_is_not_read() -> None:
    head = records.SEGMENT_HEAD.pack(records.SEGMENT_MAGIC, records.VERSION + 1, 0, 1)
    assert records.first_id(head + records.CRC.pack(records.crc32(head))) is None
