"""What the broker sends: whole frames as bytes.

Replies are packed here and not by pamqp, whose encoder refuses names that RabbitMQ takes (long ones, `*`, line feeds)
and text that is not UTF-8; the tests hold both against each other.
"""

from __future__ import annotations

from struct import Struct

from ..amqp.framing import END, METHOD

_head = Struct(">BHI").pack
_u16 = Struct(">H").pack
_u32 = Struct(">I").pack
_u64 = Struct(">Q").pack

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"

CONNECTION_START = 0x000A000A
CONNECTION_TUNE = 0x000A001E
CONNECTION_OPEN_OK = 0x000A0029
CONNECTION_CLOSE = 0x000A0032
CONNECTION_CLOSE_OK = 0x000A0033
CONNECTION_BLOCKED = 0x000A003C
CONNECTION_UNBLOCKED = 0x000A003D
UPDATE_SECRET_OK = 0x000A0047
CHANNEL_OPEN_OK = 0x0014000B
CHANNEL_FLOW_OK = 0x00140015
CHANNEL_CLOSE = 0x00140028
CHANNEL_CLOSE_OK = 0x00140029
REQUEST_OK = 0x001E000B
EXCHANGE_DECLARE_OK = 0x0028000B
EXCHANGE_DELETE_OK = 0x00280015
EXCHANGE_BIND_OK = 0x0028001F
EXCHANGE_UNBIND_OK = 0x00280033
QUEUE_DECLARE_OK = 0x0032000B
QUEUE_BIND_OK = 0x00320015
QUEUE_PURGE_OK = 0x0032001F
QUEUE_DELETE_OK = 0x00320029
QUEUE_UNBIND_OK = 0x00320033
QOS_OK = 0x003C000B
CONSUME_OK = 0x003C0015
CANCEL = 0x003C001E
CANCEL_OK = 0x003C001F
RETURN = 0x003C0032
DELIVER = 0x003C003C
GET_OK = 0x003C0047
GET_EMPTY = 0x003C0048
ACK = 0x003C0050
RECOVER_OK = 0x003C006F
NACK = 0x003C0078
CONFIRM_SELECT_OK = 0x0055000B
TX_SELECT_OK = 0x005A000B
TX_COMMIT_OK = 0x005A0015
TX_ROLLBACK_OK = 0x005A001F


def method(channel: int, index: int, arguments: bytes = b"") -> bytes:
    """A method frame; `arguments` are encoded already."""
    return _head(METHOD, channel, 4 + len(arguments)) + _u32(index) + arguments + END


def short_string(text: str) -> bytes:
    """Raises ValueError beyond 255 octets. Surrogate escapes go out as the octets they stand for."""
    octets = text.encode("utf-8", "surrogateescape")
    return bytes((len(octets),)) + octets


def long_string(octets: bytes) -> bytes:
    return _u32(len(octets)) + octets


def short(number: int) -> bytes:
    return _u16(number)


def long(number: int) -> bytes:
    return _u32(number)


def close(channel: int, code: int, text: str, class_id: int, method_id: int) -> bytes:
    """connection.close on channel 0, else channel.close."""
    index = CHANNEL_CLOSE if channel else CONNECTION_CLOSE
    return method(channel, index, _u16(code) + short_string(text) + _u16(class_id) + _u16(method_id))


def acknowledgement(channel: int, index: int, tag: int, multiple: bool) -> bytes:
    """basic.ack or basic.nack towards a publisher."""
    return method(channel, index, _u64(tag) + (b"\x01" if multiple else b"\x00"))


def deliver_prefix(channel: int, tag: bytes, address_bytes: int) -> bytes:
    """basic.deliver up to the delivery tag; `address_bytes` is the length of exchange and routing key, encoded."""
    size = 4 + len(tag) + 8 + 1 + address_bytes
    return _head(METHOD, channel, size) + _u32(DELIVER) + tag


def get_ok(channel: int, tag: int, redelivered: bool, address: bytes, ready: int) -> bytes:
    flags = b"\x01" if redelivered else b"\x00"
    return method(channel, GET_OK, _u64(tag) + flags + address + _u32(ready))


def returned(channel: int, code: int, text: str, address: bytes) -> bytes:
    return method(channel, RETURN, _u16(code) + short_string(text) + address)
