"""The pace of input: how much of it all HTTP connections together parse in one turn of the loop.

The loop reads all ready sockets in one turn, each up to 32 times, and h11 makes an event of each chunk of a body,
however short: 1 MiB of such chunks took two seconds.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary, proxy

import h11
from uvicorn.protocols.http.flow_control import FlowControl

from .strict_head import HEAD_BYTES, StrictBuffer

TURN_S = 0.003  # for the input of all connections in one turn of the loop; an event that is begun is finished
SLICE_S = 0.0005  # for one connection before others have their turn


class Pace:
    """The time that a loop's HTTP connections have for their input in one turn, and those that wait for a later one."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = proxy(loop)  # so that `pace_of` keeps no loop in memory
        self._left_s = TURN_S
        self._waiting: deque[Callable[[], None]] = deque()
        self._expected = False  # a next turn is scheduled

    def has_time(self) -> bool:
        """Whether there is time for more input in this turn, and nothing waits for it."""
        return self._left_s > 0 and not self._waiting

    def charge(self, time_s: float) -> None:
        """Charge this turn for what was done, or for what follows from it."""
        self._left_s -= time_s
        self._expect()

    def call_in_turn(self, fn: Callable[[], None]) -> None:
        """Call a function in a later turn that has time, in the order of these calls. It charges what it takes."""
        self._waiting.append(fn)
        self._expect()

    def _expect(self) -> None:
        if not self._expected:
            self._expected = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._expected = False
        self._left_s = TURN_S
        try:
            while self._waiting and self._left_s > 0:
                self._waiting.popleft()()
        finally:
            if self._waiting:
                self._expect()


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


_paces: WeakKeyDictionary[AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace_of(loop: AbstractEventLoop) -> Pace:
    """Return the pace of all HTTP connections of a loop."""
    pace = _paces.get(loop)
    if pace is None:
        pace = _paces[loop] = Pace(loop)
    return pace
