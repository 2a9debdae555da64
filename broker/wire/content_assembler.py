"""Assembles the content of a publish whose frames arrive one by one."""

from __future__ import annotations

from struct import Struct

from ..amqp.errors import FrameError, UnexpectedFrame
from ..amqp.framing import CONTENT_CLASS, CONTENT_MIN, FRAME_HEAD, FRAME_OVERHEAD

MAX_BODY = 536_870_912  # 512 MiB: what no configuration can exceed
PUBLISH_IDS = (60, 40)
NO_HEADER = "expected content header for class 60, got non content header frame instead"
NO_BODY = "expected content body, got non content body frame instead"
# Frames shorter than the one are joined to the one before until that has the length of the other (octets): each object
# of its own would cost more than it holds, and a client may send a body octet by octet.
TINY, LUMP = 512, 4096

_fixed = Struct(">HHQ").unpack_from


class Content:
    """A content under assembly. `frames` holds whole frames with their end bytes; none of a body that is too long."""

    __slots__ = (
        "method",
        "channel",
        "frames",
        "body_bytes",
        "missing",
        "largest_frame",
        "waits_for_header",
        "kept",
        "_dropped",
    )

    def __init__(self, method: bytes, channel: int) -> None:
        self.method = method
        self.channel = channel
        self.frames: list[bytes] = []
        self.body_bytes = 0
        self.missing = 1  # octets of the body still to come; not known before the header
        self.largest_frame = 0
        self.waits_for_header = True
        self.kept = 0
        self._dropped = False

    def header(self, frame: bytes, body_max: int) -> None:
        """Add the header frame, which `check_header` has checked."""
        self.waits_for_header = False
        self.body_bytes = self.missing = _fixed(frame, FRAME_HEAD)[2]
        self._dropped = self.body_bytes > body_max
        self._keep(frame)

    def body(self, frame: bytes) -> None:
        """Add a body frame, which may be empty; raises FrameError (501) if it is longer than what is missing."""
        size = len(frame) - FRAME_OVERHEAD
        if size > self.missing:
            raise FrameError("content body frame exceeds remaining content size", *PUBLISH_IDS)
        self.missing -= size
        if size:
            self._keep(frame)

    def _keep(self, frame: bytes) -> None:
        if self._dropped:
            return
        if len(frame) < TINY and self.frames and len(self.frames[-1]) < LUMP:
            self.frames[-1] += frame
        else:
            self.frames.append(frame)
        self.kept += len(frame)
        self.largest_frame = max(self.largest_frame, len(frame))

    def expected(self, kind: int) -> UnexpectedFrame:
        """Return the error for a frame of another kind than the one that must come next."""
        return UnexpectedFrame(NO_HEADER if self.waits_for_header else NO_BODY, *PUBLISH_IDS)


def check_header(frame: bytes) -> None:
    """Check a header frame of basic.publish. Raises UnexpectedFrame (505), FrameError (501)."""
    if len(frame) < FRAME_OVERHEAD + CONTENT_MIN:
        raise FrameError("type 2, malformed content header", *PUBLISH_IDS)
    class_id, weight, body_bytes = _fixed(frame, FRAME_HEAD)
    if class_id != CONTENT_CLASS:
        text = f"expected content header for class 60, got one for class {class_id} instead"
        raise UnexpectedFrame(text, *PUBLISH_IDS)
    if weight:
        raise UnexpectedFrame(NO_HEADER, *PUBLISH_IDS)
    if body_bytes > MAX_BODY:
        raise FrameError(f"content body size {body_bytes} exceeds maximum allowed size {MAX_BODY}", *PUBLISH_IDS)
