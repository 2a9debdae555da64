"""A broker in this process: the real one from its transport inwards, with fake sockets, loop and clock."""

import asyncio
import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, cast

from warren.broker.amqp.errors import ConnectionForced
from warren.broker.app.build import build_node, build_settings
from warren.broker.app.open_storage import Store
from warren.broker.config import Config, SSLOptions
from warren.broker.core.access.passwords import hash_password
from warren.broker.core.node.node import Node
from warren.broker.net.server import Server
from warren.broker.net.tls import TLS
from warren.broker.net.transport import Transport
from warren.broker.plugin_host.host import Host
from warren.broker.runtime.resource_monitor import Resources

from .amqp_client import Client, Silence
from .clock import FakeClock, FakeLoop
from .peer import Peer

READ_BYTES = int(os.environ.get("WARREN_READ", 1 << 18))  # what uvloop hands over at once, or less
PATIENCE_MS = 2000  # for a broker that reads no more for a while


class FakeSocket(asyncio.Transport):
    """A fake of asyncio's transport below the broker's own. If it is `stalled`, the client does not read."""

    def __init__(self, peer: "InProcessPeer", address: str) -> None:
        super().__init__({"peername": (address, 50000), "sockname": ("127.0.0.1", 5672)})
        self._peer = peer
        self.incoming = bytearray()  # for the broker, which may have paused reading
        self.outgoing = bytearray()  # for the client
        self.stalled = False
        self.reading = True
        self.closing = False
        self.ended = False  # the client has, or will see, the end
        self.high = 1 << 16
        self.transport = Transport(peer.server)
        self.transport.connection_made(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or self.high

    def write(self, data: Any) -> None:
        if self.closing:
            return
        self.outgoing += data
        if self.stalled and len(self.outgoing) > self.high:
            self.transport.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.outgoing) if self.stalled else 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self._peer.loop.call_soon(self._lost)

    def abort(self) -> None:
        self.close()

    def _lost(self) -> None:
        self.ended = True
        self.transport.connection_lost(None)

    def feed(self) -> bool:
        """Hand received bytes to the broker, if it reads; return whether there were any."""
        if not (self.incoming and self.reading) or self.closing:
            return False
        size = max(READ_BYTES, len(self.incoming) // 64)
        data = bytes(self.incoming[:size])
        del self.incoming[:size]
        self.transport.data_received(data)
        return True


class InProcessPipe:
    """The client's end of a FakeSocket."""

    def __init__(self, peer: "InProcessPeer", socket: FakeSocket) -> None:
        self.socket = socket
        self._peer = peer

    def send(self, data: bytes) -> None:
        if not self.socket.ended:
            self.socket.incoming += data

    def receive(self, wait_ms: int | None) -> bytes:
        self._peer.settle()
        if not self.socket.outgoing and wait_ms:
            self._peer.clock.advance(wait_ms)
        if self.socket.outgoing:
            data = bytes(self.socket.outgoing)
            self.socket.outgoing.clear()
            return data
        if self.socket.ended:
            return b""
        raise Silence(f"nothing came{f' in {wait_ms} ms' if wait_ms else ''}")

    def close(self) -> None:
        if not self.socket.closing:
            self._peer.settle()
            self.socket.transport.eof_received()
            self.socket.close()
        self._peer.settle()


class InProcessPeer(Peer):
    """A new broker in memory. It handles all that clients have sent when one of them reads."""

    in_process = True

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.loop = FakeLoop(self.clock)
        self.clock.after_each = self.settle
        self.config = Config(memory=True)
        self.node = build_node(self.config, self.clock, Store(self.config))
        self.log: list[tuple[str, str, dict[str, object]]] = []
        self._sockets: list[FakeSocket] = []
        self.server = self._new_server()

    def _new_server(self) -> Server:
        asyncio._set_running_loop(cast(asyncio.AbstractEventLoop, self.loop))
        try:
            settings, timeout_s = build_settings(self.config), self.config.handshake_timeout_ms / 1000
            return Server(self.node, settings, timeout_s, lambda *line: self.log.append(line))
        finally:
            asyncio._set_running_loop(None)

    def settle(self) -> None:
        """Turn the loop until nothing is ready; while the broker throttles a publisher, advance the clock."""
        patience = PATIENCE_MS
        while True:
            busy = self.loop.turn()
            for socket in self._sockets:
                busy = socket.feed() or busy
            if busy:
                continue
            if len(self.node.scheduler):
                self._pass(0)  # the next turn of its jobs
                continue
            if patience <= 0 or not any(socket.incoming and not socket.closing for socket in self._sockets):
                return
            patience -= 1
            self._pass(1)

    def _pass(self, ms: int) -> None:
        """Advance the clock within `settle`."""
        after_each, self.clock.after_each = self.clock.after_each, lambda: None
        self.clock.advance(ms)
        self.clock.after_each = after_each

    def dial(self, address: str = "127.0.0.1") -> Client:  # type: ignore[override]
        socket = FakeSocket(self, address)
        self._sockets.append(socket)
        return self._kept(Client(InProcessPipe(self, socket)))

    def wait(self, ms: int) -> None:
        self.settle()
        self.clock.advance(ms)
        self.settle()

    def set_policy(
        self, name: str, pattern: str, definition: Mapping[str, Any], priority: int = 0, apply_to: str = "all",
        operator: bool = False,
    ) -> None:  # fmt: skip
        self.node.policies.set("/", name, pattern, definition, priority, apply_to, operator)
        self.settle()

    def clear_policy(self, name: str, operator: bool = False) -> None:
        self.node.policies.clear("/", name, operator)
        self.settle()

    def settings(self, **changed: Any) -> None:
        self.config = dataclasses.replace(self.config, **changed)
        self.server = self._new_server()

    def add_vhost(self, name: str) -> None:
        self.node.add_vhost(name)

    def add_user(
        self, name: str, tags: tuple[str, ...] = (), permissions: tuple[str, str, str] = (".*", ".*", ".*")
    ) -> None:
        self.node.users.add(name, hash_password(name, b"salt"), tags)
        self.node.users.set_permission(name, "/", *permissions)

    def close_connection(self, client: Client, reason: str) -> None:
        self.server.connections[socket_of(client).transport].close(ConnectionForced(reason))
        self.settle()

    def stall(self, client: Client) -> None:
        socket_of(client).stalled = True

    def unsent_bytes(self, client: Client) -> int:
        socket = socket_of(client)
        return len(socket.outgoing) + len(self.server.connections[socket.transport].output.buffer)

    def name(self, word: str) -> str:
        return word


def no_tls(options: SSLOptions) -> TLS:
    raise ValueError("no certificates here")


def new_host(node: Node, config: Config, server: Server, tls: Callable[[SSLOptions], TLS] = no_tls) -> Host:
    """The host of the services of a node for which there are memory and disk without end."""
    resources = Resources(node.alarms, lambda: 1 << 40, lambda: None, lambda: 1 << 20, 1 << 30)
    return Host(node, config, server.settings, server, resources, tls, [])


def socket_of(client: Client) -> FakeSocket:
    assert isinstance(client.pipe, InProcessPipe)
    return client.pipe.socket
