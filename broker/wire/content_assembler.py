"""The assembler of contents whose frames arrive one by one."""

from __future__ import annotations

from struct import Struct

from ..amqp.errors import FrameError, UnexpectedFrame
from ..amqp.framing import BODY, CONTENT_CLASS, CONTENT_MIN, END, FRAME_HEAD, FRAME_OVERHEAD, frame_head

MAX_BODY = 536_870_912  # 512 MiB, which no configuration can exceed
PUBLISH_IDS = (60, 40)
NO_HEADER = "expected content header for class 60, got non content header frame instead"
NO_BODY = "expected content body, got non content body frame instead"
# A body in more frames than these is joined to one frame. Otherwise a client could send it byte by byte, and each use
# of the message would iterate over frames that take more memory than the body.
FRAMES, FRAME_BYTES = 16, 4096  # frames of a content, and the bytes of the body that allow one more

_fixed = Struct(">HHQ").unpack_from


class Content:
    """A content under assembly."""

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
        "_joined",
    )

    def __init__(self, method: bytes, channel: int) -> None:
        self.method = method
        self.channel = channel
        self.frames: list[bytes | bytearray] = []  # whole frames with their end bytes, or none if the body is too long
        self.body_bytes = 0
        self.missing = 1  # missing bytes of the body; unknown before the header
        self.largest_frame = 0  # the length of the longest frame; 0 if the body is joined to one
        self.waits_for_header = True
        self.kept_bytes = 0  # the length of the kept frames
        self._dropped = False
        self._joined: bytearray | None = None  # the body so far, if it has too many frames

    def header(self, frame: bytes, body_max: int) -> None:
        """Add the header frame, which `check_header` has accepted."""
        self.waits_for_header = False
        self.body_bytes = self.missing = _fixed(frame, FRAME_HEAD)[2]
        self._dropped = self.body_bytes > body_max
        self._keep(frame)

    def body(self, frame: bytes) -> None:
        """Add a body frame, which may be empty; raises FrameError (501) if it is longer than the missing part."""
        size = len(frame) - FRAME_OVERHEAD
        if size > self.missing:
            raise FrameError("content body frame exceeds remaining content size", *PUBLISH_IDS)
        self.missing -= size
        if not size:
            return
        self._keep(frame)
        if len(self.frames) > FRAMES + self.body_bytes // FRAME_BYTES:
            self._joined = bytearray().join([kept[FRAME_HEAD:-1] for kept in self.frames[1:]])
            del self.frames[1:]
            self.largest_frame = 0
        if self._joined is not None and not self.missing:
            self.frames += (frame_head(BODY, self.channel, self.body_bytes), self._joined, END)

    def _keep(self, frame: bytes) -> None:
        if self._dropped:
            return
        self.kept_bytes += len(frame)
        if self._joined is not None:
            self._joined += memoryview(frame)[FRAME_HEAD:-1]
        else:
            self.frames.append(frame)
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
