"""A server on real sockets of 127.0.0.1, on a loop in a thread of its own, for clients that block."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from warren.broker.core.node.node import Node
from warren.broker.net.server import Server
from warren.broker.net.tls import TLS, TLSOptions
from warren.broker.session.settings import Settings, server_properties

from .session import new_node

T = TypeVar("T")
PATIENCE_S = 60.0


class Listening:
    """`log` has what the server reported: event, level, fields."""

    def __init__(self, loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop, **settings: Any) -> None:
        self.log: list[tuple[str, str, dict[str, object]]] = []
        self._reported = threading.Condition()
        self._loop = loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.node: Node = new_node()
        self.server: Server = self.run(
            self._build(Settings(server_properties("RabbitMQ", "4.3.5", "Python"), **settings))
        )

    async def _build(self, settings: Settings) -> Server:
        return Server(self.node, settings, PATIENCE_S, self._report)

    def _report(self, event: str, level: str, fields: dict[str, object]) -> None:
        with self._reported:
            self.log.append((event, level, fields))
            self._reported.notify_all()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """On the loop, to its end."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """On the loop."""

        async def work() -> T:
            return function(*args)

        return self.run(work())

    def listen(self, options: TLSOptions | None = None, host: str = "127.0.0.1") -> int:
        """The port."""

        async def work() -> list[str]:
            tls = TLS(options, self._report) if options is not None else None
            return await self.server.listen(host, 0, tls)

        return int(self.run(work())[0].rpartition(":")[2])

    def reported(self, event: str) -> dict[str, object]:
        """The fields of the last such line, once there is one."""

        def found() -> dict[str, object] | None:
            return next((fields for name, _, fields in reversed(self.log) if name == event), None)

        with self._reported:
            assert self._reported.wait_for(lambda: found() is not None, PATIENCE_S), f"no {event} in {self.log}"
            fields = found()
            assert fields is not None
            return fields

    def close(self) -> None:
        self.run(self.server.stop("shutdown"))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
