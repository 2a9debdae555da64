"""A connection of HTTP that is not kept for who asks nothing, nor for ever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from warren.broker.config import HTTPListener
from warren.broker.net.connection_limits import Slot

from .asgi import DEPARTURE
from .strict_head import StrictBuffer

STALL_LOOK_S = 15.0  # output that waits must get less, or have been gone for a moment, between two looks


class Protocol(H11Protocol):
    """Uvicorn's, which bounds the time between requests, but neither that of a request's head nor their number.

    Each connection counts against the limit of them, so one that never comes to its request would keep others out.
    """

    request_within_s = 5.0  # the whole head of one, from its first octet or the connection's beginning
    requests_limit = 100  # of one connection
    slot: Slot | None = None

    _deadline: asyncio.TimerHandle | None = None
    _counted: object = None  # the request that was counted last
    _requests = 0
    _departure: asyncio.Event
    _stalled: asyncio.TimerHandle | None = None
    _waiting_bytes = 0  # of output, at the last look

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.conn._receive_buffer = StrictBuffer()
        self._departure = asyncio.Event()
        if self.slot is not None:
            self.slot.abort = transport.abort
        self._stalled = self.loop.call_later(STALL_LOOK_S, self._look_at_output)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._await_request()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is self._counted:
            return
        self._counted = self.cycle
        extensions: dict[str, dict[object, object]] = self.cycle.scope.setdefault("extensions", {})
        extensions[DEPARTURE] = self._departure  # type: ignore[assignment]
        self._requests += 1
        self._stop_waiting()
        if self._requests >= self.requests_limit:
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]

    def connection_lost(self, exc: Exception | None) -> None:
        self._departure.set()
        self._stop_waiting()
        if self._stalled is not None:
            self._stalled.cancel()
        if self.slot is not None:
            self.slot.leave()
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request for another protocol may be answered as any other (RFC 9110, 7.8)."""

    def resume_writing(self) -> None:
        self._waiting_bytes = 0
        super().resume_writing()

    def _look_at_output(self) -> None:
        """Abort the connection of a client that does not read, closed or not: it would be kept with all its output."""
        waiting_bytes = self.transport.get_write_buffer_size()
        if waiting_bytes and self._waiting_bytes and waiting_bytes >= self._waiting_bytes:
            self.transport.abort()
            return
        self._waiting_bytes = waiting_bytes
        self._stalled = self.loop.call_later(STALL_LOOK_S, self._look_at_output)

    def _await_request(self) -> None:
        if self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.request_within_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def protocol(at: HTTPListener) -> type[Protocol]:
    """As the listener is configured."""
    limits = {"request_within_s": at.request_timeout / 1000, "requests_limit": at.max_keepalive}
    return type("Protocol", (Protocol,), limits)
