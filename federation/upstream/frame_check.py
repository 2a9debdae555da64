"""The check of frames before aio-pika's decoder gets them; pure.

That decoder has no limits: it needs 100 MB of memory for a table of 140 KB that is nested 20,000 deep, which a server
in place of the upstream may send without a password. So only heartbeats and the methods that aio-pika waits for are
passed on, after the lengths of their arguments and the nesting of tables were checked. UpstreamTransport answers the
methods of channels, which are checked too.
"""

from struct import Struct
from struct import error as StructError

from warren.broker.amqp.field_table import check as check_table
from warren.broker.plugin import AMQPError

from .errors import LinkError

METHOD, HEARTBEAT = 1, 8
START = 0x000A000A
START_TABLE_AT = 13  # after the frame's header, the ids of class and method, and the version
START_MAX = 1 << 17  # bytes of connection.start: the tables of known brokers have less than 1,000
METHOD_MAX = 1024  # bytes of any other method: a reply text has 255, connection.open-ok a short string
CLUSTER_NAME_MAX = 255  # bytes, as for this broker's own: it is part of each message and of names of queues
_CONNECTION = {
    0x000A001E: "connection.tune",
    0x000A0029: "connection.open-ok",
    0x000A0032: "connection.close",
    0x000A0033: "connection.close-ok",
    0x000A003C: "connection.blocked",
    0x000A003D: "connection.unblocked",
}
_CHANNEL = {
    0x0014000B: "channel.open-ok",
    0x00140014: "channel.flow",
    0x00140028: "channel.close",
    0x00140029: "channel.close-ok",
    0x003C001E: "basic.cancel",
}
NAMES = {START: "connection.start", **_CONNECTION, **_CHANNEL}

_head = Struct(">BHII").unpack_from
_size = Struct(">I").unpack_from


def is_for_decoder(frame: bytes, started: bool) -> bool:
    """Whether the frame has a meaning for a connection or channel; False for replies to methods that were not sent.

    `started`: connection.start was received before. Raises LinkError for a frame that is too large, malformed, or
    unexpected.
    """
    if frame[0] == HEARTBEAT:
        return len(frame) == 8
    if frame[0] != METHOD or len(frame) < 12:
        raise LinkError(f"the upstream sent a frame of type {frame[0]} out of place")
    _, channel, _, index = _head(frame)
    name = NAMES.get(index)
    if name is None and not started:
        raise LinkError("the upstream does not speak AMQP 0-9-1")
    if name is None:
        return False
    if (index in _CHANNEL) != (channel > 0) or (started and index == START):
        raise LinkError(f"the upstream sent {name} out of place")
    limit = START_MAX if index == START else METHOD_MAX
    if len(frame) > limit:
        raise LinkError(f"the upstream sent a {name} of {len(frame)} bytes, {limit} are allowed")
    if index == START:
        check_start(frame)
    return True


def check_start(frame: bytes) -> None:
    """Check the layout of a connection.start: properties, mechanisms and locales fill the frame. Raises LinkError."""
    try:
        at, ends = START_TABLE_AT, []
        for _ in range(3):
            at += 4 + _size(frame, at)[0]
            ends.append(at)
        if at != len(frame) - 1:
            raise LinkError("the upstream sent a malformed connection.start")
        check_table(frame, START_TABLE_AT + 4, ends[0])
    except AMQPError as error:
        raise LinkError(f"the upstream sent a malformed connection.start: {error.reply_text}") from None
    except (IndexError, ValueError, StructError):
        raise LinkError("the upstream sent a malformed connection.start") from None
