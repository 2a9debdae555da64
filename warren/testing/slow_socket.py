"""A socket that sends later, or is cut off: the network between a broker and its clients, as a fault makes it.

The module imports nothing of the broker, as it serves in the process of the tests too.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar

LATE_BYTES = 1 << 24  # that may wait on one connection; above that deliveries stop


class SlowSocket(asyncio.Transport):
    """A socket of the event loop. What is written is sent `latency_s` later, in order, and then a close.

    While it is cut off, nothing is sent or read, and the peer does not notice that the broker closes it.
    """

    latency_s: ClassVar[float] = 0.0
    waiting: ClassVar[set[SlowSocket]] = set()  # sockets with output that waits
    separate: ClassVar[set[SlowSocket]] = set()  # sockets that are cut off

    def __init__(self, socket: asyncio.Transport, protocol: asyncio.Protocol, high_bytes: int) -> None:
        """`high_bytes` is what the socket holds back itself before it asks the protocol to pause."""
        super().__init__()
        self._high_bytes = high_bytes
        self._socket = socket
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._late: deque[tuple[float, bytes]] = deque()  # with the time when it is sent
        self._late_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._paused = False  # reading, by the protocol
        self._partitions: set[str] = set()  # by which it is cut off
        self._lost = False  # the protocol believes that it is closed

    @classmethod
    def set_latency(cls, seconds: float) -> None:
        """Send later by this from now on; with 0 also send at once what waits."""
        cls.latency_s = seconds
        if not seconds:
            for socket in list(cls.waiting):
                socket._send_all()

    # Partitions

    def cut_off(self, partition: str) -> None:
        """Send and read nothing until this partition has healed."""
        if not self._partitions and not self._socket.is_closing():
            self._socket.pause_reading()
            self._stop_timer()
        self._partitions.add(partition)
        self.separate.add(self)

    @classmethod
    def heal(cls, partition: str) -> None:
        """End a partition: what waits is sent, and sockets that the broker has closed meanwhile are closed."""
        for socket in list(cls.separate):
            socket._partitions.discard(partition)
            if not socket._partitions:
                cls.separate.discard(socket)
                socket._continue()

    def _continue(self) -> None:
        if self._lost:
            self._socket.abort()
            return
        if not self._paused and not self._socket.is_closing():
            self._socket.resume_reading()
        if self.latency_s:
            self._send()
        else:
            self._send_all()

    # Output

    def write(self, data: Any) -> None:
        if not self.latency_s and not self._late and not self._partitions:
            self._socket.write(data)
            return
        # Not the time of the loop, whose ticks of 1 ms would make the latency shorter by up to one.
        when_s = time.monotonic() + self.latency_s
        self._late.append((max(when_s, self._late[-1][0]) if self._late else when_s, bytes(data)))
        self._late_bytes += len(data)
        if self._late_bytes > LATE_BYTES:
            self._protocol.pause_writing()
        self.waiting.add(self)
        self._expect()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._closing = True
        if not self._late and not self._partitions:
            self._socket.close()

    def abort(self) -> None:
        self._forget()
        if not self._partitions:
            self._socket.abort()
        elif not self._lost:
            self._lost = self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self._closing or self._socket.is_closing()

    def _expect(self) -> None:
        if self._timer is None and self._late and not self._partitions:
            self._timer = self._loop.call_later(self._late[0][0] - time.monotonic(), self._send)

    def _send(self) -> None:
        """Send what is due."""
        self._timer = None
        now_s = time.monotonic()
        while self._late and self._late[0][0] <= now_s:
            self._pop()
        self._sent()

    def _send_all(self) -> None:
        if self._partitions:
            return
        while self._late:
            self._pop()
        self._sent()

    def _pop(self) -> None:
        _, data = self._late.popleft()
        self._late_bytes -= len(data)
        self._socket.write(data)

    def _sent(self) -> None:
        if self._late:
            self._expect()
            return
        self._forget()
        if self._closing:
            self._socket.close()
        elif self._socket.get_write_buffer_size() <= self._high_bytes:  # else it resumes by itself
            self._protocol.resume_writing()

    def _forget(self) -> None:
        """Drop what waits."""
        self._late.clear()
        self._late_bytes = 0
        self.waiting.discard(self)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # The rest is that of the socket

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._paused = True
        if not self._partitions:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if not self._partitions:
            self._socket.resume_reading()
