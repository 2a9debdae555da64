"""A simulated network between processes: connections that delay, stall, deliver in pieces and are cut.

Bytes arrive in order within a connection, and in any order between connections. A cut drops any part of what is on its
way; the ends learn of it at different times.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

from tests.faults.simulation.brokers.loop import SimulatedLoop, Source, VirtualTime

CUT = "Connection reset by peer"
BUFFERS = (1 << 10, 1 << 14, 1 << 18)  # bytes that the system buffers, of one direction


class End(asyncio.Transport, Source):
    """One end of a connection, in a process. `peer` is the other end.

    incoming    bytes that the other end has sent and this one has not received
    arrives_s   when the next of them can be received
    finished    the other end has sent all
    resets_s    when this end learns that the connection is cut; inf if it is not
    """

    peer: End

    def __init__(self, network: Network, loop: SimulatedLoop, local: tuple[str, int], remote: tuple[str, int]) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.loop = loop
        self.incoming = bytearray()
        self.arrives_s = 0.0
        self.finished = False
        self.resets_s = inf
        self.cut = False  # nothing that is written arrives
        self.lost = False
        self._network = network
        self._protocol: asyncio.Protocol | None = None
        self._reading = True
        self._closing = False
        self._full = False  # the protocol was told to pause writing
        self._high_bytes = 1 << 16
        self._buffer_bytes = network.random.choice(BUFFERS)
        self._waiting = False  # among the loop's sources

    def begin(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def wait(self) -> None:
        """Be a source of the loop while something is to be received."""
        self.loop.changed = True
        if not self._waiting and not self.lost:
            self._waiting = True
            self.loop.sources.append(self)

    def leave(self) -> None:
        if self._waiting:
            self._waiting = False
            self.loop.sources.remove(self)

    # The loop's side

    @property
    def due_s(self) -> float:
        if self._protocol is None or self._closing:
            return inf
        if not (self._reading and (self.incoming or self.finished)):
            return self.resets_s
        arrives_s = self._network.arrives_s(self)
        return arrives_s if arrives_s < self.resets_s else self.resets_s

    def run(self) -> None:
        """Receive a piece of what has arrived, or the end of the connection."""
        if self.due_s > self.loop.now_s or self._protocol is None or not self._waiting:
            return
        random = self._network.random
        if self.resets_s <= self.loop.now_s:
            self._end(ConnectionResetError(CUT))
        elif self.incoming:
            count = len(self.incoming) if random.random() < 0.7 else random.randint(1, len(self.incoming))
            data = bytes(self.incoming[:count])
            del self.incoming[:count]
            if not self.incoming and not self.finished and self.resets_s == inf:
                self.leave()
            self.arrives_s = self.loop.now_s + self._network.delay_s()
            self.peer.drained()
            self._protocol.data_received(data)
        else:
            self.finished = False
            self.leave()
            if not self._protocol.eof_received():
                self.close()

    def drained(self) -> None:
        """Let the protocol write again once the other end has received enough."""
        if self._full and self.get_write_buffer_size() <= self._high_bytes // 4:
            self._full = False
            self.loop.changed = True
            if self._protocol is not None and not self._closing and not self.loop.dead:
                self.loop.call_soon(self._protocol.resume_writing)

    def _end(self, error: Exception | None) -> None:
        """Close this end at once."""
        if not self._closing:
            self._closing = True
            self.loop.call_soon(self._connection_lost, error)

    def _connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.leave()
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def reset_soon(self) -> None:
        """Have this end learn that the connection is cut, which also a reader that pauses notices in the end."""
        if not self._closing:
            self.resets_s = min(self.resets_s, self.loop.now_s + self._network.delay_s())
            self.wait()

    def finish(self) -> None:
        """The other end has sent all."""
        self.finished = True
        self.wait()

    def die(self, silently: bool) -> None:
        """The process has ended: the other end receives the rest, or only some of it, or learns nothing."""
        self.leave()
        if silently:
            return
        if self._network.random.random() < 0.5:
            self.peer.finish()
        else:
            self.peer.reset_soon()

    # asyncio.Transport

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = high or self._high_bytes

    def get_write_buffer_size(self) -> int:
        return max(0, len(self.peer.incoming) - self._buffer_bytes)

    def write(self, data: Any) -> None:
        if self._closing or self.loop.dead or not data:
            return
        peer = self.peer
        if peer.lost:
            self.reset_soon()
        if peer.lost or self.cut:
            return
        if not peer.incoming:
            peer.arrives_s = self.loop.now_s + self._network.delay_s()
        peer.incoming += data
        peer.wait()
        if not self._full and self.get_write_buffer_size() > self._high_bytes and self._protocol is not None:
            self._full = True
            self._protocol.pause_writing()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def close(self) -> None:
        """Close this end; the other one receives all that was written, unless this end has not read what came."""
        if not self._closing and not self.loop.dead:
            self.peer.finish()
            if self.incoming:
                self.peer.reset_soon()
        self._end(None)

    def abort(self) -> None:
        if not self._closing and not self.loop.dead:
            self.peer.reset_soon()
        self._end(None)


class Listener(asyncio.AbstractServer):
    """A listener of a process; `make` makes the protocol of a connection that it accepts."""

    def __init__(self, loop: SimulatedLoop, make: Callable[[], asyncio.Protocol]) -> None:
        self.loop = loop
        self.make = make
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Network:
    """All connections of a world. Hosts are called as their processes are."""

    def __init__(self, time: VirtualTime, random: Random) -> None:
        self.random = random
        self.slow_s = 0.001  # the longest usual delay
        self.ends: list[End] = []
        self._time = time
        self._listeners: dict[str, Listener] = {}
        self._stalls: dict[frozenset[str], float] = {}  # until when nothing arrives between two hosts
        self._connected: dict[int, End] = {}  # by the descriptor of a socket
        self._port = 40_000

    def delay_s(self) -> float:
        return self.slow_s * self.random.random() ** 3

    def listen(self, loop: SimulatedLoop, make: Callable[[], asyncio.Protocol]) -> Listener:
        """Accept connections to the host with the loop's name, until the listener is closed."""
        self._listeners[loop.name] = Listener(loop, make)
        return self._listeners[loop.name]

    def connect(self, loop: SimulatedLoop, host: str) -> End:
        """Connect to a host, and return the client's end. Raises ConnectionRefusedError."""
        listener = self._listeners.get(host)
        if listener is None or listener.closed or listener.loop.dead:
            raise ConnectionRefusedError("Connection refused")
        self._port += 1
        client, server = ("127.0.0.1", self._port), ("127.0.0.1", 5672)
        end = End(self, loop, client, server)
        other = End(self, listener.loop, server, client)
        end.peer, other.peer = other, end
        self.ends = [each for each in self.ends if not each.lost]
        self.ends += [end, other]
        listener.loop.call_soon(lambda: other.begin(listener.make()))
        listener.loop.changed = True
        return end

    async def connect_socket(self, loop: SimulatedLoop, sock: socket.socket, host: str) -> None:
        """Connect a socket, which is only its descriptor here. Raises ConnectionRefusedError."""
        stalled_s = self._stalls.get(frozenset((loop.name, host)), 0.0) - self._time.now_s
        await loop.pause(max(self.delay_s(), stalled_s))
        self._connected[sock.fileno()] = self.connect(loop, host)

    def end_of(self, sock: socket.socket) -> End:
        """Return the end of a connected socket, which is closed."""
        end = self._connected.pop(sock.fileno())
        sock.close()
        return end

    # Faults

    def stall(self, one: str, other: str, seconds: float) -> None:
        """Let nothing arrive between two hosts for a while."""
        self._stalls[frozenset((one, other))] = self._time.now_s + seconds

    def arrives_s(self, end: End) -> float:
        """Return when the next bytes for this end can be received."""
        if not self._stalls:
            return end.arrives_s
        return max(end.arrives_s, self._stalls.get(frozenset((end.loop.name, end.peer.loop.name)), 0.0))

    def between(self, one: str, other: str) -> list[End]:
        """Return the ends at the first host of the connections to the other one."""
        return [end for end in self.ends if not end.lost and (end.loop.name, end.peer.loop.name) == (one, other)]

    def cut(self, end: End) -> None:
        """Cut a connection: any part of what is on its way is lost, and either end learns of it at some time."""
        for side in (end, end.peer):
            if self.random.random() < 0.5:
                del side.incoming[self.random.randint(0, len(side.incoming)) :]
            side.cut = True
            side.reset_soon()

    def host_ended(self, loop: SimulatedLoop, silently: bool) -> None:
        """End all connections of a process that has ended; `silently`: the other ends learn of it at `host_is_back`."""
        for end in self.ends:
            if end.loop is loop and not end.lost:
                end.die(silently)

    def host_is_back(self, name: str) -> None:
        """Reset the connections to earlier processes of a host."""
        for end in self.ends:
            if end.loop.name == name and end.loop.dead:
                end.peer.reset_soon()

    def heal(self) -> None:
        self._stalls.clear()
        self.slow_s = 0.001
