"""Frames of AMQP 0-9-1: their layout, and the content of a message as frames.

A frame is type (1 byte), channel (2), payload size (4), payload, end byte 0xCE. A content is one header frame and any
number of body frames. The payload of a header frame is class (2), weight (2), body size (8), property flags (2 or
more) and properties.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from .header_limit import within

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
END: Final = b"\xce"
FRAME_HEAD: Final = 7  # type, channel, size
FRAME_OVERHEAD: Final = 8  # the head and the end byte
CONTENT_CLASS: Final = 60  # of basic, the only class with content
CONTENT_FIXED: Final = 12  # class, weight and body size: what precedes the property flags
CONTENT_MIN: Final = CONTENT_FIXED + 2  # payload of the shortest header frame: one word of property flags

frame_head: Final = Struct(">BHI").pack
_unpack_head: Final[Callable[[bytes, int], tuple[int, int, int]]] = Struct(">BHI").unpack_from
_header: Final = Struct(">BHIHHQ").pack


def header_frame(channel: int, property_bytes: bytes, body_bytes: int) -> bytes:
    """Encode the header frame of a content whose body has `body_bytes` bytes."""
    size = CONTENT_FIXED + len(property_bytes)
    return _header(HEADER, channel, size, CONTENT_CLASS, 0, body_bytes) + property_bytes + END


def content_frames(channel: int, property_bytes: bytes, body: bytes) -> bytes:
    """Encode a content as a header frame and, for a body that is not empty, one body frame."""
    header = header_frame(channel, property_bytes, len(body))
    return b"".join((header, frame_head(BODY, channel, len(body)), body, END)) if body else header


def reframe(frames: bytes, channel: int, frame_max: int) -> bytes:
    """Encode a content for another channel and another frame_max (largest payload + 8, 0 for no limit).

    Headers that do not fit one frame are omitted: a header frame cannot be split.
    """
    limit = frame_max - FRAME_OVERHEAD if frame_max else len(frames)
    number = channel.to_bytes(2, "big")
    body_at = int.from_bytes(frames[3:7], "big") + FRAME_OVERHEAD
    if body_at - FRAME_OVERHEAD <= limit:
        if body_at == len(frames):
            return frames[:1] + number + frames[3:]
        size = int.from_bytes(frames[body_at + 3 : body_at + 7], "big")
        if size <= limit and body_at + size + FRAME_OVERHEAD == len(frames):  # most contents have one body frame
            return frames[:1] + number + frames[3 : body_at + 1] + number + frames[body_at + 3 :]
    out = bytearray()
    at = 0
    while at < len(frames):
        kind, _, size = _unpack_head(frames, at)
        start = at + FRAME_HEAD
        at = start + size
        if kind == HEADER:
            header = frames[start:at]
            if size > limit:
                header = header[:CONTENT_FIXED] + within(header[CONTENT_FIXED:], limit - CONTENT_FIXED)
            out += frame_head(HEADER, channel, len(header)) + header + END
        else:
            for cut in range(start, at, limit):
                piece = frames[cut : min(cut + limit, at)]
                out += frame_head(BODY, channel, len(piece)) + piece + END
        at += 1
    return bytes(out)
