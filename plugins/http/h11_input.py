"""The input of one HTTP connection: h11 with strict heads, and flow control that can stop between two events.

Heads are parsed strictly as in RFC 9112, where h11 is lenient. A proxy that parses a lenient head in another way may
forward as a body what this node reads as a request (request smuggling).
"""

from time import perf_counter
from typing import Any

import h11
from h11 import RemoteProtocolError
from h11._receivebuffer import ReceiveBuffer, blank_line_regex
from uvicorn.protocols.http.flow_control import FlowControl

BOTH_LENGTHS = {b"content-length", b"transfer-encoding"}
HEAD_BYTES = 16 << 10  # of a head, or of the trailer after the last chunk; parsing it takes up to 5 ms
TOO_LONG = 431
LINE_ENDS = (b"\r\n", b"\n")


class StrictBuffer(ReceiveBuffer):
    """A buffer of received bytes for h11 in which lines of a head have to end with CR LF and name one length only."""

    head_bytes = 0  # the length of the last head

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Raises RemoteProtocolError, which is answered with 400, or with 431 if the head is too long."""
        size = len(self._data)
        if size > HEAD_BYTES and not self._data.startswith(LINE_ENDS):  # h11 limits only a head without its end
            ends = blank_line_regex.search(self._data, self._multiple_lines_search, HEAD_BYTES)
            if ends is None:
                raise RemoteProtocolError("the head is too long", error_status_hint=TOO_LONG)
        before = bytes(self._data[:HEAD_BYTES])
        lines = super().maybe_extract_lines()
        if lines is None:
            return None
        self.head_bytes = size - len(self._data)
        head = before[: self.head_bytes]
        if head.count(b"\n") != head.count(b"\r\n"):
            raise RemoteProtocolError("a line of the head does not end with CR LF")
        if {bytes(line).partition(b":")[0].strip().lower() for line in lines} >= BOTH_LENGTHS:
            raise RemoteProtocolError("the head has both a content-length and a transfer-encoding")
        return lines


class PacedConnection(h11.Connection):
    """A connection of h11 that makes no event after `ends_s`, and notes it as `stopped` if there may be more."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self._receive_buffer: StrictBuffer = StrictBuffer()
        self.ends_s = 0.0
        self.stopped = False
        self.refused = 400  # the status for the client whose input h11 does not take

    @property
    def head_bytes(self) -> int:
        """The length of the last head."""
        return self._receive_buffer.head_bytes

    @property
    def waiting_bytes(self) -> int:
        """The length of the received input that is not parsed yet."""
        return len(self._receive_buffer)

    def drop(self) -> None:
        """Drop the received input that is not parsed yet."""
        self._receive_buffer = StrictBuffer()

    def next_event(self) -> Any:
        """Return the next event, or NEED_DATA. Raises RemoteProtocolError."""
        if self._receive_buffer and perf_counter() >= self.ends_s:
            self.stopped = True
            return h11.NEED_DATA
        try:
            return super().next_event()
        except RemoteProtocolError as error:
            self.refused = error.error_status_hint
            raise


class PacedFlow(FlowControl):
    """Uvicorn's flow control, which reads nothing either while received input waits for a later turn."""

    held = False

    def hold(self) -> None:
        """Pause reading until `release`; also if uvicorn has resumed it, which it does without this class, too."""
        self.held = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def release(self) -> None:
        self.held = False
        if not self.read_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        if self.held:
            self.read_paused = False
        else:
            super().resume_reading()
