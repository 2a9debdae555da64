"""HTTP/1.1 connections with limits on input in one turn, idle time, requests and stalled output."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from warren.broker.config import HTTPListener
from warren.broker.net.connection_limits import Slot

from .asgi import DISCONNECTED
from .h11_input import PacedConnection, PacedFlow
from .pace import pace_of

STALL_CHECK_S = 15.0  # between two checks that pending output has decreased
SLICE_S = 0.0005  # for the input of one connection before others have their turn
REST_BYTES = 64 << 20  # of the body of a request that are read after its response, and dropped
UNREAD_BYTES = 64 << 10  # of it that are parsed first, to keep the connection for another request
# What a request charges to the pace for the first step of its answer: up to 5 ms for a path or query of 16 KiB.
REQUEST_S, HEAD_BYTE_S = 0.0001, 3e-7
DROP_S = 0.0001  # to read 256 KiB and drop them


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
    """Uvicorn's protocol with more limits: input in one turn of the loop, time for a request's head, requests per
    connection, stalled output.

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
    _unread_bytes = UNREAD_BYTES  # of a body that are parsed after its response
    _waits = False  # for a later turn, with input

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.conn: PacedConnection = PacedConnection()
        self._pace = pace_of(self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: PacedFlow = PacedFlow(transport)
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
            elif not self._waits:
                self._wait()
            return
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start_deadline()

    def handle_events(self) -> None:
        """Handle the events of received input: as many as this turn has time for, the others in later turns."""
        if self._waits:
            return
        if self._pace.has_time():
            self._handle_some()
        else:
            self._wait()

    def _wait(self, again: bool = False) -> None:
        """Go on in a later turn, and read nothing until then; `again` if some input was handled in this one."""
        self._waits = True
        self.flow.hold()
        self._pace.call_in_turn(self._go_on, again)

    def _go_on(self) -> None:
        self._waits = False
        if self.transport.is_closing():
            return
        if self._rest_bytes:
            self._pace.charge(DROP_S)
        else:
            self._handle_some()
        if not self._waits:
            self.flow.release()

    def _handle_some(self) -> None:
        """Handle events for SLICE_S at most, and read no more of an unwanted body than UNREAD_BYTES."""
        conn, begun_s, before = self.conn, perf_counter(), self.conn.waiting_bytes
        unwanted = self._has_unwanted_body()
        conn.ends_s = begun_s + SLICE_S
        conn.stopped = False
        super().handle_events()
        self._pace.charge(perf_counter() - begun_s)
        if self.cycle is not self._last_request:
            self._begin_request()
        if unwanted and self._has_unwanted_body():
            self._unread_bytes -= before - conn.waiting_bytes
            if self._unread_bytes < 0:
                self.close_after_body()
        if conn.stopped and not self.transport.is_closing():
            self._wait(again=True)

    def _has_unwanted_body(self) -> bool:
        """Whether the client sends the body of a request that is answered already."""
        return self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY

    def _begin_request(self) -> None:
        self._last_request = self.cycle
        self._pace.charge(REQUEST_S + HEAD_BYTE_S * self.conn.head_bytes)
        extensions: dict[str, dict[object, object]] = self.cycle.scope.setdefault("extensions", {})
        extensions[DISCONNECTED] = self._disconnected  # type: ignore[assignment]
        self.cycle.transport = RequestTransport(self)  # type: ignore[assignment]
        self._requests += 1
        self._unread_bytes = UNREAD_BYTES
        self._stop_deadline()
        if self._requests >= self.requests_limit:
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]

    def send_400_response(self, msg: str) -> None:
        """Refuse input that is not HTTP, or a head that is too long. An answer that has begun is cut off."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
            status = self.conn.refused
            head = h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status])
            events: list[h11.Event] = [head, h11.Data(data=msg.encode("ascii")), h11.EndOfMessage()]
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()

    def close_after_body(self) -> None:
        """Close the connection when the client has closed it, or `request_within_s` have gone by, or at once if the
        client has sent all of its request."""
        if self.conn.their_state is not h11.SEND_BODY or self.transport.is_closing():
            self.transport.close()
            return
        self._rest_bytes = REST_BYTES
        self.conn.drop()
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
            self._deadline = self.loop.call_later(self.request_within_s, self._expired)

    def _expired(self) -> None:
        self._deadline = None
        if self._waits and not self._rest_bytes:
            self._start_deadline()  # it is the client that waits
        else:
            self.transport.close()

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def protocol(at: HTTPListener) -> type[Protocol]:
    """Return the protocol class with the listener's limits."""
    limits = {"request_within_s": at.request_timeout / 1000, "requests_limit": at.max_keepalive}
    return type("Protocol", (Protocol,), limits)
