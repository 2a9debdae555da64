"""The encoder of the methods that the broker sends, as whole frames.

It does not use pamqp's encoder, which refuses text that is not UTF-8 and names that RabbitMQ accepts (long ones, `*`,
line feeds). The tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct

from pamqp import commands

from ..amqp.framing import END, METHOD

_head = Struct(">BHI").pack
_u16 = Struct(">H").pack
_u32 = Struct(">I").pack
_u64 = Struct(">Q").pack

DeliverEncoder = Callable[[bytes, int, bytes], bytes]
"""An encoder of basic.deliver from its prefix, the delivery tag and the rest of the frame."""

# Encodes basic.ack or basic.nack: METHOD, channel, 13 bytes of payload, index, delivery tag, multiple, FRAME_END
acknowledgement: Callable[[int, int, int, int, int, bool, int], bytes] = Struct(">BHIIQ?B").pack

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"

CONNECTION_START = commands.Connection.Start.index
CONNECTION_TUNE = commands.Connection.Tune.index
CONNECTION_OPEN_OK = commands.Connection.OpenOk.index
CONNECTION_CLOSE = commands.Connection.Close.index
CONNECTION_CLOSE_OK = commands.Connection.CloseOk.index
CONNECTION_BLOCKED = commands.Connection.Blocked.index
CONNECTION_UNBLOCKED = commands.Connection.Unblocked.index
UPDATE_SECRET_OK = commands.Connection.UpdateSecretOk.index
CHANNEL_OPEN_OK = commands.Channel.OpenOk.index
CHANNEL_FLOW_OK = commands.Channel.FlowOk.index
CHANNEL_CLOSE = commands.Channel.Close.index
CHANNEL_CLOSE_OK = commands.Channel.CloseOk.index
REQUEST_OK = 0x001E000B  # access.request-ok of AMQP 0-8, unknown to pamqp
EXCHANGE_DECLARE_OK = commands.Exchange.DeclareOk.index
EXCHANGE_DELETE_OK = commands.Exchange.DeleteOk.index
EXCHANGE_BIND_OK = commands.Exchange.BindOk.index
EXCHANGE_UNBIND_OK = commands.Exchange.UnbindOk.index
QUEUE_DECLARE_OK = commands.Queue.DeclareOk.index
QUEUE_BIND_OK = commands.Queue.BindOk.index
QUEUE_PURGE_OK = commands.Queue.PurgeOk.index
QUEUE_DELETE_OK = commands.Queue.DeleteOk.index
QUEUE_UNBIND_OK = commands.Queue.UnbindOk.index
QOS_OK = commands.Basic.QosOk.index
CONSUME_OK = commands.Basic.ConsumeOk.index
CANCEL = commands.Basic.Cancel.index
CANCEL_OK = commands.Basic.CancelOk.index
RETURN = commands.Basic.Return.index
DELIVER = commands.Basic.Deliver.index
GET_OK = commands.Basic.GetOk.index
GET_EMPTY = commands.Basic.GetEmpty.index
ACK = commands.Basic.Ack.index
RECOVER_OK = commands.Basic.RecoverOk.index
NACK = commands.Basic.Nack.index
CONFIRM_SELECT_OK = commands.Confirm.SelectOk.index
TX_SELECT_OK = commands.Tx.SelectOk.index
TX_COMMIT_OK = commands.Tx.CommitOk.index
TX_ROLLBACK_OK = commands.Tx.RollbackOk.index


def method(channel: int, index: int, arguments: bytes = b"") -> bytes:
    """Encode a method frame from encoded arguments."""
    return _head(METHOD, channel, 4 + len(arguments)) + _u32(index) + arguments + END


def short_string(text: str) -> bytes:
    """Encode a short string; surrogate escapes become the bytes that they escape. Raises ValueError above 255 bytes."""
    encoded = text.encode("utf-8", "surrogateescape")
    return bytes((len(encoded),)) + encoded


def long_string(data: bytes) -> bytes:
    return _u32(len(data)) + data


def short(number: int) -> bytes:
    return _u16(number)


def long(number: int) -> bytes:
    return _u32(number)


def close(channel: int, code: int, text: str, class_id: int, method_id: int) -> bytes:
    """Encode connection.close for channel 0, otherwise channel.close."""
    index = CHANNEL_CLOSE if channel else CONNECTION_CLOSE
    return method(channel, index, _u16(code) + short_string(text) + _u16(class_id) + _u16(method_id))


def deliver_prefix(channel: int, tag: bytes, address_bytes: int) -> bytes:
    """Encode basic.deliver up to the delivery tag; `address_bytes` is the length of the encoded exchange and key."""
    size = 4 + len(tag) + 8 + 1 + address_bytes
    return _head(METHOD, channel, size) + _u32(DELIVER) + tag


@lru_cache(1024)
def deliver_encoder(prefix_bytes: int, rest_bytes: int) -> DeliverEncoder:
    """Return the encoder for prefixes and rests (`Address.delivered`) of these lengths. HOT: bench A-M."""
    return Struct(f">{prefix_bytes}sQ{rest_bytes}s").pack


def get_ok(channel: int, tag: int, redelivered: bool, address: bytes, ready: int) -> bytes:
    """Encode basic.get-ok; `address` is the encoded exchange and key."""
    flags = b"\x01" if redelivered else b"\x00"
    return method(channel, GET_OK, _u64(tag) + flags + address + _u32(ready))


def basic_return(channel: int, code: int, text: str, address: bytes) -> bytes:
    """Encode basic.return; `address` is the encoded exchange and key."""
    return method(channel, RETURN, _u16(code) + short_string(text) + address)
