"""The paced input of one HTTP connection: h11 and uvicorn's flow control, which can stop between two events."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl

from .strict_head import HEAD_BYTES, StrictBuffer


class PacedConnection(h11.Connection):
    """A connection of h11 that makes no event after `ends_s`, and notes it as `stopped` if there may be more.

    refused  the status for the client whose input h11 does not take
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self._receive_buffer: StrictBuffer = StrictBuffer()
        self.ends_s = 0.0
        self.stopped = False
        self.refused = 400

    @property
    def head_bytes(self) -> int:
        """The length of the last head."""
        return self._receive_buffer.head_bytes

    @property
    def waiting_bytes(self) -> int:
        """The length of what was received and is not parsed yet."""
        return len(self._receive_buffer)

    def drop(self) -> None:
        """Drop what was received and is not parsed yet."""
        self._receive_buffer = StrictBuffer()

    def next_event(self) -> Any:
        """Return the next event, or NEED_DATA. Raises RemoteProtocolError."""
        if self._receive_buffer and perf_counter() >= self.ends_s:
            self.stopped = True
            return h11.NEED_DATA
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
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
