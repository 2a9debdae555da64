"""The transport of a broker for tests: it can send later, as on a slow network, and be cut off, as by a broken one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, ClassVar, cast

from warren.broker.net.transport import WRITE_HIGH, Transport
from warren.broker.session.connection import Connection

LATE_BYTES = 1 << 24  # that may wait on one connection; above that deliveries stop


class SlowTransport(Transport):
    """A transport whose socket sends `SlowSocket.latency_s` later, and which a partition can cut off."""

    partitions: ClassVar[set[str]] = set()  # the patterns of the connections that are cut off

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(SlowSocket(cast(asyncio.Transport, transport), self))
        self.join_partitions()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.partitions:
            self.join_partitions()  # the login has the names of the client

    def join_partitions(self) -> None:
        """Cut the socket off for each partition that the connection belongs to."""
        if self._socket is None or self._connection is None:
            return
        for pattern in self.partitions:
            if matches(self._connection, pattern):
                cast(SlowSocket, self._socket).cut_off(pattern)


def matches(connection: Connection, pattern: str) -> bool:
    """Whether a name of a connection matches a pattern of the shell.

    Its names are that of its user, its own, the client-provided one, and the cluster name of a federation link.
    """
    properties = connection.client_properties
    names = (connection.login_name, connection.name, properties.text("connection_name"))
    return any(name is not None and fnmatchcase(name, pattern) for name in (*names, properties.text("cluster_name")))


class SlowSocket(asyncio.Transport):
    """A socket of the event loop. What is written is sent `latency_s` later, in order, and then a close.

    While it is cut off, nothing is sent or read, and the peer does not notice that the broker closes it.
    """

    latency_s: ClassVar[float] = 0.0
    waiting: ClassVar[set[SlowSocket]] = set()  # sockets with output that waits
    separate: ClassVar[set[SlowSocket]] = set()  # sockets that are cut off

    def __init__(self, socket: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        super().__init__()
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
        elif self._socket.get_write_buffer_size() <= WRITE_HIGH:  # else it resumes by itself
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
