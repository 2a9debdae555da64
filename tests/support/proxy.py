"""A TCP proxy between a client and a server that can reset, refuse, delay or silence connections."""

import asyncio
import time

from .loop_thread import LoopThread

CHUNK_BYTES = 1 << 16
CHUNKS_LIMIT = 4096  # under way in one direction while they are delayed


class Proxy:
    """A proxy with a port of its own. `target` may change, as when a server is restarted on another port.

    `delay_s` is added to each direction. `accepted_s` are the times of connections by the monotonic clock, `open` is
    the number of open ones.
    """

    def __init__(self, loop: LoopThread, target: tuple[str, int]) -> None:
        self.target = target
        self.delay_s = 0.0
        self.accepted_s: list[float] = []
        self.refusing = False
        self.silent = False
        self._loop = loop
        self._pairs: set[Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = loop.run(self._listen())
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def accepted(self) -> int:
        return len(self.accepted_s)

    @property
    def open(self) -> int:
        return len([pair for pair in tuple(self._pairs) if not pair.left])  # tests ask from another thread

    def cut(self) -> None:
        """Reset all connections, and new ones until `restore`."""
        self._loop.call(self._become, True, False, True)

    def blink(self) -> None:
        """Reset all connections."""
        self._loop.call(self._become, False, False, True)

    def silence(self) -> None:
        """Forward nothing in either direction, and accept connections: what is sent is lost."""
        self._loop.call(self._become, False, True, False)

    def restore(self) -> None:
        """Forward new connections from now on. Silenced ones have lost bytes, and are reset."""
        self._loop.call(self._become, False, False, self.silent)

    def _become(self, refusing: bool, silent: bool, reset: bool) -> None:
        """Change the state within one turn of the loop, so that nothing connects in between."""
        self.refusing, self.silent = refusing, silent
        if reset:
            self._reset()

    def close(self) -> None:
        self._loop.run(self._close())

    def _reset(self) -> None:
        for pair in list(self._pairs):
            pair.abort()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def _close(self) -> None:
        self._server.close()
        self._reset()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted_s.append(time.monotonic())
        pair = Pair(self, reader, writer)
        self._pairs.add(pair)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await pair.serve()
        finally:
            pair.abort()
            self._pairs.discard(pair)
            self._tasks.discard(task)


class Pair:
    """A connection of a client and its connection to the server; `left` when the client has closed its own."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writers = [writer]
        self.left = False

    def abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self) -> None:
        if self._proxy.refusing:
            return
        try:
            reader, writer = await asyncio.open_connection(*self._proxy.target)
        except OSError:
            return
        self._writers.append(writer)
        there = asyncio.ensure_future(self._carry(self._reader, writer))
        back = asyncio.ensure_future(self._carry(reader, self._writers[0]))
        try:
            await asyncio.wait([there, back])
        finally:
            there.cancel()
            back.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one direction to its end, and then the end itself."""
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_LIMIT)
        writing = asyncio.ensure_future(self._write(chunks, writer))
        try:
            while data := await reader.read(CHUNK_BYTES):
                await chunks.put((time.monotonic() + self._proxy.delay_s, data))
            self.left = self.left or reader is self._reader
            await chunks.put((time.monotonic() + self._proxy.delay_s, b""))
            await writing
        except OSError:
            self.left = True
            self.abort()
        finally:
            writing.cancel()

    async def _write(self, chunks: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        while True:
            due_s, data = await chunks.get()
            wait_s = due_s - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            if not data:
                if not self._proxy.silent and writer.can_write_eof():
                    writer.write_eof()
                return
            if self._proxy.silent:
                continue
            try:
                writer.write(data)
                await writer.drain()
            except OSError:
                self.abort()
                return
