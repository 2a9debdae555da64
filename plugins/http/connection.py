"""HTTP/1.1 connections with limits on idle time, requests and stalled output."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from warren.broker.config import HTTPListener
from warren.broker.net.connection_limits import Slot

from .asgi import DISCONNECTED
from .strict_head import StrictBuffer

STALL_CHECK_S = 15.0  # between two checks that pending output has decreased
REST_BYTES = 64 << 20  # of the body of a request that are read after its response


class RequestTransport:
    """The transport of one request, which is not closed while the client still sends the body of the request.

    To close it with bytes that are not read would reset the connection, and the client might lose the response, which
    says what is wrong with the request (RFC 9112, 9.6).
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._protocol.transport, name)

    def close(self) -> None:
        self._protocol.close_after_body()


class Protocol(H11Protocol):
    """Uvicorn's protocol with more limits: time for a request's head, requests per connection, stalled output.

    Each connection counts against the connection limit, so an idle one would keep others out.
    """

    request_within_s = 5.0  # for the head of a request, from its first byte or the start of the connection
    requests_limit = 100  # of one connection
    slot: Slot | None = None

    _deadline: asyncio.TimerHandle | None = None
    _last_request: object = None  # the request that was counted last
    _requests = 0
    _disconnected: asyncio.Event
    _stalled: asyncio.TimerHandle | None = None
    _waiting_bytes = 0  # of output, at the last check
    _rest_bytes = 0  # that may still come and are dropped before the connection is closed

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.conn._receive_buffer = StrictBuffer()
        self._disconnected = asyncio.Event()
        if self.slot is not None:
            self.slot.abort = transport.abort
        self._stalled = self.loop.call_later(STALL_CHECK_S, self._check_output)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        if self._rest_bytes:
            self._rest_bytes = max(self._rest_bytes - len(data), 0)
            if not self._rest_bytes:
                self.transport.close()
            return
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start_deadline()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is self._last_request:
            return
        self._last_request = self.cycle
        extensions: dict[str, dict[object, object]] = self.cycle.scope.setdefault("extensions", {})
        extensions[DISCONNECTED] = self._disconnected  # type: ignore[assignment]
        self.cycle.transport = RequestTransport(self)  # type: ignore[assignment]
        self._requests += 1
        self._stop_deadline()
        if self._requests >= self.requests_limit:
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]

    def close_after_body(self) -> None:
        """Close the connection when the client has closed it, or `request_within_s` have gone by, or at once if the
        client has sent all of its request."""
        if self.conn.their_state is not h11.SEND_BODY or self.transport.is_closing():
            self.transport.close()
            return
        self._rest_bytes = REST_BYTES
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disconnected.set()
        self._stop_deadline()
        if self._stalled is not None:
            self._stalled.cancel()
        if self.slot is not None:
            self.slot.leave()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # after a reset, too; else its timer keeps the connection in memory

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request for another protocol may be answered as any other (RFC 9110, 7.8)."""

    def resume_writing(self) -> None:
        self._waiting_bytes = 0
        super().resume_writing()

    def _check_output(self) -> None:
        """Abort the connection of a client that does not read: otherwise it and its output would stay in memory."""
        waiting_bytes = self.transport.get_write_buffer_size()
        if waiting_bytes and self._waiting_bytes and waiting_bytes >= self._waiting_bytes:
            self.transport.abort()
            return
        self._waiting_bytes = waiting_bytes
        self._stalled = self.loop.call_later(STALL_CHECK_S, self._check_output)

    def _start_deadline(self) -> None:
        if self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.request_within_s, self.transport.close)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def protocol(at: HTTPListener) -> type[Protocol]:
    """Return the protocol class with the listener's limits."""
    limits = {"request_within_s": at.request_timeout / 1000, "requests_limit": at.max_keepalive}
    return type("Protocol", (Protocol,), limits)
