"""A server on real sockets of 127.0.0.1, on a loop in a thread of its own, for blocking clients."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import uvloop

from warren.broker.core.node.node import Node
from warren.broker.net.server import Server
from warren.broker.net.tls import TLS, TLSOptions
from warren.broker.session.settings import Settings, server_properties

from .loop_thread import PATIENCE_S, LoopThread
from .session import new_node


class ListeningServer(LoopThread):
    """A server and its node. `log` has what the server reported: event, level, fields."""

    def __init__(self, loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop, **settings: Any) -> None:
        super().__init__(loop)
        self.log: list[tuple[str, str, dict[str, object]]] = []
        self._reported = threading.Condition()
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

    def listen(self, options: TLSOptions | None = None, host: str = "127.0.0.1") -> int:
        """Open a listener, with TLS if there are options for it; return its port."""

        async def work() -> list[str]:
            tls = TLS(options, self._report) if options is not None else None
            return await self.server.listen(host, 0, tls)

        return int(self.run(work())[0].rpartition(":")[2])

    def reported(self, event: str) -> dict[str, object]:
        """Return the fields of the last report of this event, as soon as there is one."""

        def found() -> dict[str, object] | None:
            return next((fields for name, _, fields in reversed(self.log) if name == event), None)

        with self._reported:
            assert self._reported.wait_for(lambda: found() is not None, PATIENCE_S), f"no {event} in {self.log}"
            fields = found()
            assert fields is not None
            return fields

    def close(self) -> None:
        self.run(self.server.stop("shutdown"))
        super().close()
