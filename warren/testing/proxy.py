"""A proxy between clients and a foreign broker, which fails as a network does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any, cast

from .broker import HOST, reserve_port
from .slow_socket import SlowSocket

CALL_S = 60.0  # the longest wait for the thread of the proxy
HIGH_BYTES = 1 << 16  # that a socket holds back before the other end is no longer read
EVERYONE = "*"


class Client(asyncio.Protocol):
    """The connection of a client. It is read once the broker is connected."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._broker: asyncio.Transport | None = None
        self.socket: SlowSocket | None = None

    @property
    def port(self) -> int:
        """The port of this connection that the broker sees."""
        return int(self._broker.get_extra_info("sockname")[1]) if self._broker is not None else 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.socket = SlowSocket(cast(asyncio.Transport, transport), self, HIGH_BYTES)
        # Not at once: asyncio before Python 3.11.4 begins to read after this call, also if it has paused.
        asyncio.get_running_loop().call_soon(self._wait_for_broker)

    def _wait_for_broker(self) -> None:
        if self.socket is not None:
            self.socket.pause_reading()
            self._proxy.connected(self)

    def served_by(self, broker: asyncio.Transport) -> None:
        """Read the client, whose bytes this connection takes."""
        self._broker = broker
        if self.socket is None:
            broker.abort()
        else:
            self.socket.resume_reading()

    def data_received(self, data: bytes) -> None:
        assert self._broker is not None
        self._broker.write(data)

    def pause_writing(self) -> None:
        if self._broker is not None:
            self._broker.pause_reading()

    def resume_writing(self) -> None:
        if self._broker is not None and not self._broker.is_closing():
            self._broker.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.socket = None
        self._proxy.clients.discard(self)
        if self._broker is not None:
            self._broker.close()

    def abort(self) -> None:
        if self.socket is not None:
            self.socket.abort()


class BrokerEnd(asyncio.Protocol):
    """The connection to the broker for one client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client.served_by(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        if self._client.socket is not None:
            self._client.socket.write(data)

    def pause_writing(self) -> None:
        if self._client.socket is not None:
            self._client.socket.pause_reading()

    def resume_writing(self) -> None:
        if self._client.socket is not None:
            self._client.socket.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._client.socket is not None:
            self._client.socket.close()


class Proxy:
    """A proxy on a port of this machine, with a thread of its own. Its methods may be called by any other thread."""

    def __init__(self, host: str, port: int) -> None:
        self._broker = host, port
        self._reserved, self.port = reserve_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="warren-testing-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._partition = False
        self.clients: set[Client] = set()
        self._thread.start()
        self.call(self.accept)

    def call(self, method: Callable[..., Any], *arguments: object) -> Any:
        """Call a method of the proxy in its thread, and return its result."""

        async def call() -> Any:
            result = method(*arguments)
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(CALL_S)

    def close(self) -> None:
        """End it with all its connections."""
        self.call(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        self._loop.close()

    def connected(self, client: Client) -> None:
        """Connect a new client with the broker; in the thread of the proxy, as all below."""
        self.clients.add(client)
        if self._partition and client.socket is not None:
            client.socket.cut_off(EVERYONE)
        task = self._loop.create_task(self._connect(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: Client) -> None:
        try:
            await self._loop.create_connection(lambda: BrokerEnd(client), *self._broker)
        except OSError:
            client.abort()

    async def accept(self) -> None:
        if self._server is None:
            self._server = await self._loop.create_server(lambda: Client(self), HOST, self.port)

    def refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def delay(self, ms: float) -> None:
        SlowSocket.set_latency(max(ms, 0) / 1000)

    def partition(self) -> None:
        self._partition = True
        for client in self.clients:
            if client.socket is not None:
                client.socket.cut_off(EVERYONE)

    def heal(self) -> None:
        self._partition = False
        SlowSocket.heal(EVERYONE)

    def drop(self, ports: Iterable[int] | None = None) -> int:
        """Close the connections that the broker sees at these ports, or all, and return their number."""
        chosen = [client for client in self.clients if ports is None or client.port in ports]
        for client in chosen:
            client.abort()
        return len(chosen)

    async def reset(self) -> None:
        self.delay(0)
        self.heal()
        await self.accept()

    async def _close(self) -> None:
        self.refuse()
        self.heal()
        self.drop()
        for task in self._tasks:
            task.cancel()
        await asyncio.sleep(0)  # the sockets close in the next turn
