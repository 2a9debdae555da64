"""Uvicorn, in the broker's loop: HTTP on sockets that are bound already."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from broker.plugin import Host, HTTPListener

from .protocol import protocol

CONNECTIONS_LIMIT = 1024  # beyond it requests are answered with 503
STOP_WAIT_S = 1  # for answers that are being written when the node stops


class Server(uvicorn.Server):
    """One that leaves the signals to the broker."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Lines(logging.Handler):
    """What the library has to say goes to the broker's log."""

    def __init__(self, host: Host) -> None:
        super().__init__(logging.WARNING)
        self._host = host

    def emit(self, record: logging.LogRecord) -> None:
        self._host.report("http", "warning", {"what": record.getMessage()})


async def serve(
    host: Host,
    application: ASGIApp,
    at: HTTPListener,
    sockets: list[socket.socket],
    context: ssl.SSLContext | None,
    closing: asyncio.Event,
) -> None:
    """Until `closing`; the sockets are closed then."""
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [Lines(host)], False
    config = uvicorn.Config(
        application,
        http=protocol(at),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_LIMIT,
        timeout_keep_alive=max(1, at.idle_timeout // 1000),
        timeout_graceful_shutdown=STOP_WAIT_S,
    )
    config.load()
    config.ssl = context
    server = Server(config)
    ending = host.supervisor.run("http_server_end", end(server, closing))
    await server.serve(sockets)
    ending.cancel()


async def end(server: uvicorn.Server, closing: asyncio.Event) -> None:
    await closing.wait()
    server.should_exit = True
