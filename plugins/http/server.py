"""Uvicorn in the broker's event loop, on sockets that are bound already."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from warren.broker.config import HTTPListener
from warren.broker.net.connection_limits import Slot
from warren.broker.plugin import Host, Listener, StandbyHost

from .connection import Protocol, protocol

REPORT_MS = 10_000  # between two equal log lines
TEXTS_LIMIT = 64  # distinct texts remembered
REQUESTS_LIMIT = 1280  # further requests are answered with 503; the limit of connections is lower


class Server(uvicorn.Server):
    """Uvicorn without its signal handlers, with connections accepted by the broker's listener."""

    def __init__(self, config: uvicorn.Config, listener: Listener) -> None:
        super().__init__(config)
        self._listener = listener
        self.servers = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self._listener.accept(self._protocol)
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._listener.close()
        await super().shutdown()

    def _protocol(self, slot: Slot) -> Protocol:
        kind = self.config.http_protocol_class
        assert isinstance(kind, type) and issubclass(kind, Protocol)
        protocol = kind(self.config, self.server_state, self.lifespan.state)
        protocol.slot = slot
        return protocol

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class UvicornLogHandler(logging.Handler):
    """Uvicorn's log messages for the broker's log: each text once in REPORT_MS, with the number left out.

    The limit is there because each invalid request can cause a message.
    """

    def __init__(self, host: Host | StandbyHost) -> None:
        super().__init__(logging.WARNING)
        self._host = host
        self._due_ms: dict[str, int] = {}  # by the unformatted text, so there are few
        self._left_out: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return  # a request in progress at the end of the server, which another message reports
        now_ms = self._host.now_ms()
        text = str(record.msg)
        if now_ms < self._due_ms.get(text, 0):
            self._left_out[text] = self._left_out.get(text, 0) + 1
            return
        if len(self._due_ms) >= TEXTS_LIMIT:
            self._due_ms.clear()
            self._left_out.clear()
        self._due_ms[text] = now_ms + REPORT_MS
        fields: dict[str, object] = {"what": record.getMessage()}
        left_out = self._left_out.pop(text, 0)
        if left_out:
            fields["left_out"] = left_out
        if record.exc_info:
            fields["exc_info"] = record.exc_info[1]
        self._host.report("http", "error" if record.exc_info else "warning", fields)


async def serve(
    host: Host | StandbyHost, application: ASGIApp, at: HTTPListener, listener: Listener, closing: asyncio.Event
) -> None:
    """Serve until `closing` is set; then the listener is closed."""
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [UvicornLogHandler(host)], False
    config = uvicorn.Config(
        application,
        http=protocol(at),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=REQUESTS_LIMIT,
        timeout_keep_alive=max(1, at.idle_timeout / 1000),  # type: ignore[arg-type]  # fractions count, too
        timeout_graceful_shutdown=max(1, at.shutdown_timeout // 1000),
    )
    config.load()
    server = Server(config, listener)
    ending = host.supervisor.run("http_server_end", end(server, closing))
    await server.serve()
    ending.cancel()


async def end(server: uvicorn.Server, closing: asyncio.Event) -> None:
    await closing.wait()
    server.should_exit = True
