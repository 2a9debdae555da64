"""The assembler of contents whose frames arrive one by one."""

from __future__ import annotations

from struct import Struct

from ..amqp.errors import FrameError, UnexpectedFrame
from ..amqp.framing import CONTENT_CLASS, CONTENT_MIN, FRAME_HEAD, FRAME_OVERHEAD

MAX_BODY = 536_870_912  # 512 MiB, which no configuration can exceed
PUBLISH_IDS = (60, 40)
NO_HEADER = "expected content header for class 60, got non content header frame instead"
NO_BODY = "expected content body, got non content body frame instead"
# Bytes: frames shorter than TINY are appended to the one before until that has LUMP. A client may send a body byte by
# byte, and an object for each frame would take more memory than the frame.
TINY, LUMP = 512, 4096

_fixed = Struct(">HHQ").unpack_from


class Content:
    """A content under assembly.

    frames      whole frames with their end bytes, none if the body is too long
    missing     bytes of the body still to come; unknown before the header
    kept_bytes  length of `frames`
    """

    __slots__ = (
        "method",
        "channel",
        "frames",
        "body_bytes",
        "missing",
        "largest_frame",
        "waits_for_header",
        "kept_bytes",
        "_dropped",
    )

    def __init__(self, method: bytes, channel: int) -> None:
        self.method = method
        self.channel = channel
        self.frames: list[bytes] = []
        self.body_bytes = 0
        self.missing = 1
        self.largest_frame = 0
        self.waits_for_header = True
        self.kept_bytes = 0
        self._dropped = False

    def header(self, frame: bytes, body_max: int) -> None:
        """Add the header frame, which `check_header` has accepted."""
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
        self.kept_bytes += len(frame)
        self.largest_frame = max(self.largest_frame, len(frame))

    def expected(self, kind: int) -> UnexpectedFrame:
        """Return the error for a frame that is not of the expected type."""
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
