"""The ASGI application of the HTTP API: routing, login, body, handler, response."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Scope, Send

from warren.broker.plugin import AMQPError, Host, OperatorError, Peer
from warren.broker.runtime.source_address import source_of

from ..http.asgi import (
    GZIP_FROM,
    compress,
    headers_of,
    peer_of,
    raw_path_of,
    response_start,
    run_until,
    run_while_connected,
    takes_gzip,
    until_disconnected,
)
from ..http.auth import NOBODY, NONE, Caller, authenticate
from ..http.pace import pace_of
from ..http.responses import HTTPError, Pieces, Response, http_error_of, missing, no_vhost, not_now
from .access_log import AccessLog
from .framework import bodies
from .framework.context import State
from .framework.line_stream import LineStream
from .framework.pagination import Listing, columns_of, list_response, prune
from .framework.quota import Quota
from .framework.request import Request
from .framework.router import Answered, Route, Routes, allowed, values
from .framework.unread import Unread
from .origins import Origins

API = "/api"
PATH_IN_QUERY = "/warren/path"  # with the path of any route as `path`: browsers remove the segments . and .. of a path
REQUEST_S = 60.0  # until the response is made; a list of 100,000 objects takes a tenth of this on an idle machine
STORING_S = 10.0  # a change waits for the disk this long before the response says that it is not stored yet
STORING_LIMIT = 128  # changes that wait for the disk at the same time, so that they do not use up all requests
# Requests in progress after login and body, without health checks.
REQUESTS_LIMIT = 512
SOURCE_REQUESTS_LIMIT = 64  # from one source address; eight of them can use up all
STREAMS_LIMIT, USER_STREAMS_LIMIT = 64, 32  # line streams, which are open for as long as their readers wish
BODIES_BYTES = 256 << 20  # of bodies being read, of all users
USER_BODIES_BYTES = 64 << 20  # of one user
START_S = 0.001  # what a request that reads charges to the pace: its first step may list 100,000 objects, in up to 5 ms
CHUNK_BYTES = 256 << 10  # of a response, written to the socket in one turn of the loop
NO_CONTENT = 204
CONTENT_SECURITY = "script-src 'self'; object-src 'self'"


class HTTPAPI:
    """The ASGI application of the API."""

    request_s: float | None = REQUEST_S

    def __init__(self, host: Host, state: State, routes: Routes) -> None:
        self._host = host
        self._state = state
        self._routes = routes
        self._prefix = state.config.path_prefix.rstrip("/") + API
        self._headers = fixed_headers(state)
        self._origins = Origins(state.config.cors_allow_origins, state.config.allowed_hosts, host.node.name)
        self._requests = Quota(REQUESTS_LIMIT, SOURCE_REQUESTS_LIMIT)  # in progress, by source address
        longest = state.config.max_body_bytes
        self._bodies = Quota(max(BODIES_BYTES, longest), max(USER_BODIES_BYTES, longest))  # by user
        self._unread = state.unread
        self._streams: set[LineStream] = set()
        self._open_streams = Quota(STREAMS_LIMIT, USER_STREAMS_LIMIT)  # by user
        self._storing = 0  # changes that wait for the disk
        self._log = AccessLog(state.config.http_log_dir, host.report) if state.config.http_log_dir else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        with Unread(self._unread, source_of(peer_of(scope).host)) as unread:
            await self._respond(scope, receive, send, unread)

    async def _respond(self, scope: Scope, receive: Receive, send: Send, unread: Unread) -> None:
        headers = headers_of(scope)
        try:
            answer: Response | LineStream = await self._answer(scope, headers, receive, unread)
        except TimeoutError:
            answer = not_now(f"the request was not answered within {REQUEST_S:.0f} s").answer
        except (AMQPError, OperatorError) as error:
            answer = http_error_of(error).answer
        except ConnectionResetError:
            return
        except Exception as error:  # a bug of ours; it ends only this request
            self._host.report("internal_error", "error", {"exc_info": error, "request": scope["method"]})
            answer = Response(500, {"error": "internal_server_error", "reason": "see the broker's log"})
        if isinstance(answer, LineStream):
            user = scope.get("user", "")
            if self._open_streams.take(user):
                self._log_request(scope, headers, 200, 0)  # at its beginning, as it may never end
                try:
                    return await self._send_lines(answer, receive, send)
                finally:
                    self._open_streams.release(user)
            answer.leave_once()
            answer = not_now("too many streams are open").answer
        gzip = self._state.config.listener_of(scope.get("scheme", "http")).compress and takes_gzip(headers)
        size = await self._send(answer, gzip, send, unread)
        self._log_request(scope, headers, answer.status, size)

    def _log_request(self, scope: Scope, headers: Mapping[str, str], status: int, size: int) -> None:
        """Log a request with the path of its route, which PATH_IN_QUERY has in the query."""
        if self._log is not None:
            path = raw_path_of(scope)
            if path == self._prefix + PATH_IN_QUERY:
                path = f"{self._prefix}/{query_of(scope).get('path', '').lstrip('/')}"
            line = f"{scope['method']} {path} HTTP/{scope.get('http_version', '1.1')}"
            now_s = self._host.node.clock.timestamp_s()
            self._log.write(peer_of(scope).host, scope.get("user", ""), line, status, size, headers, now_s)

    def answers(self, raw_path: str) -> bool:
        """True for the paths of the API."""
        return raw_path == self._prefix or raw_path.startswith(f"{self._prefix}/")

    def has_own_host(self, scope: Scope) -> bool:
        """True if the Host header is a name of this node; the API rejects other requests."""
        try:
            self._origins.check_host(headers_of(scope), peer_of(scope))
        except HTTPError:
            return False
        return True

    def _check_host(self, headers: Mapping[str, str], peer: Peer) -> None:
        """Raises HTTPError (403)."""
        self._origins.check_host(headers, peer)

    async def _answer(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, unread: Unread
    ) -> Response | LineStream:
        self._check_host(headers, peer_of(scope))
        raw_path = raw_path_of(scope)
        if not self.answers(raw_path):
            raise missing()
        way = raw_path[len(self._prefix) :]
        if way == PATH_IN_QUERY:
            way = query_of(scope).get("path", "")
        at = self._routes.find(way)
        if at is None:
            raise missing()
        by_method, segments = at
        method = scope["method"]
        if method == "OPTIONS":
            return Response(200, b"", {"allow": allowed(by_method)})
        route = by_method.get("GET" if method == "HEAD" else method)
        if route is None:
            return Response(
                405, {"error": "method_not_allowed", "reason": "Method Not Allowed"}, {"allow": allowed(by_method)}
            )
        return await self._serve(scope, headers, receive, unread, route, segments)

    async def _serve(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        receive: Receive,
        unread: Unread,
        route: Route,
        segments: list[str],
    ) -> Response | LineStream:
        method, peer = scope["method"], peer_of(scope)
        if route.changes:
            self._origins.check_change(method, headers, takes_form=route.body is bytes)
        caller = NOBODY
        if route.guard is not NONE:
            caller = await self._log_in(scope, headers, peer)
            scope["user"] = caller.user.name
        named = values(route, segments)
        request = Request(self._host, self._state, caller, peer, method, named, query_of(scope), headers, unread)
        self._authorize(route, request)
        if route.body is not None:
            at = self._state.config.listener_of(scope.get("scheme", "http"))
            await self._read(route, request, receive, at.inactivity_timeout / 1000)
            self._authorize(route, request)  # as a body takes its time, in which rights may have been taken away
        if route.is_health or route.guard is NONE:
            return await self._work(route, request, receive)
        source = source_of(peer.host)
        if not self._requests.take(source):
            raise not_now("too many requests are under way")
        try:
            return await self._work(route, request, receive)
        finally:
            self._requests.release(source)

    async def _log_in(self, scope: Scope, headers: Mapping[str, str], peer: Peer) -> Caller:
        """Return the caller; a disconnect cancels the login. Raises HTTPError (400, 401, 503)."""
        if self._state.config.disable_basic_auth:
            raise HTTPError(401, "not_authorized", "Not_Authorized")
        login = authenticate(self._host, headers.get("authorization"), peer)
        async with asyncio.timeout(REQUEST_S):
            return await run_until(until_disconnected(scope), login)

    async def _work(self, route: Route, request: Request, receive: Receive) -> Response | LineStream:
        async with asyncio.timeout(self.request_s):
            while True:
                try:
                    return await self._make(route, request, receive)
                except HTTPError:
                    if route.changes or not request.unread.refused:
                        raise
                await run_while_connected(receive, request.wait(request.unread.room()))

    async def _make(self, route: Route, request: Request, receive: Receive) -> Response | LineStream:
        """Return the response of a route's handler. Raises HTTPError."""
        answer = await self._handle(route, request, receive)
        if route.durable:
            await self._wait_until_stored(receive)
        if isinstance(answer, LineStream):
            return answer
        parts = answer.parts()
        request.unread.resize(sum(map(len, parts)), refuse=not route.changes)
        return Response(answer.status, Pieces(parts), answer.headers, answer.media_type, answer.gzip)

    async def _wait_until_stored(self, receive: Receive) -> None:
        """Wait until the change is stored. Raises HTTPError (503) if that takes too long."""
        host = self._host
        if host.node.journal.ticket() <= host.node.journal.durable:
            return
        if self._storing < STORING_LIMIT:
            self._storing += 1
            try:
                async with asyncio.timeout(STORING_S):
                    return await run_while_connected(receive, host.stored())
            except TimeoutError:
                pass
            finally:
                self._storing -= 1
        alarm = host.node.alarms.reason
        cause = f"the broker is {alarm}" if alarm else "the disk does not take it now"
        raise not_now(f"the change is made, and not stored yet: {cause}")

    def _authorize(self, route: Route, request: Request) -> None:
        """Check the rights of the caller. Raises HTTPError (401, 404); the tags are checked first."""
        name = request.path.get("vhost")
        request.vhost = self._host.node.vhosts.get(name) if name is not None else None
        request.guard = route.guard
        request.authorize()
        if name is not None and request.vhost is None and route.vhost_required:
            raise no_vhost(route.method)

    async def _read(self, route: Route, request: Request, receive: Receive, within_s: float) -> None:
        """Read the body, with no longer pause than this. Raises HTTPError (400, 408, 503)."""
        assert route.body is not None
        config = self._state.config
        limit, too_long = config.max_body_bytes, bodies.TOO_LONG
        if route.body_limit is not None and route.body_limit < limit:
            limit, too_long = route.body_limit, bodies.TOO_LONG_HERE
        user = "" if route.guard is NONE else request.user.name
        reader = bodies.Reader(self._bodies, user, limit, too_long, within_s)
        body = await reader.read(receive, request.headers.get("content-length"))
        if issubclass(route.body, msgspec.Struct):
            request.body = await bodies.parse(body, route.body, self._state.bodies)
        else:
            request.body = body

    async def _handle(self, route: Route, request: Request, receive: Receive) -> Response | LineStream:
        caller = request.caller
        if not route.changes:
            await request.wait(pace_of(asyncio.get_running_loop()).time(START_S))
        with request.acting():
            result: Any = route.handler(request)
        if inspect.isawaitable(result):
            result = await run_while_connected(receive, result)
        made: Answered = result
        if isinstance(made, LineStream):
            made.check = partial(self._authorize, route, request)
            if request.method == "HEAD":
                made.end()
            return made
        if isinstance(made, Listing):
            listing = list_response(made, request.query, self._state.searches, request.unread.grow)
            made = await run_while_connected(receive, request.wait(listing))
            request.check_kept(caller)
            return made
        if not route.changes:
            request.check_kept(caller)
        if request.method in ("GET", "HEAD") and "columns" in request.query and isinstance(made.body, (dict, list)):
            return Response(made.status, prune(made.body, columns_of(request.query)), made.headers)
        return made

    async def _send_lines(self, stream: LineStream, receive: Receive, send: Send) -> None:
        """Send lines until the stream ends, the client disconnects, or its user loses the right to read them."""
        self._streams.add(stream)
        headers = {**self._headers, "content-type": stream.media_type, "cache-control": "no-cache"}
        await send(response_start(200, headers, None))

        async def write() -> None:
            async with aclosing(stream.lines()) as pieces:
                async for lines in pieces:
                    stream.check()
                    body = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
                    await send({"type": "http.response.body", "body": body, "more_body": True})

        try:
            await run_while_connected(receive, write())
        except (ConnectionResetError, HTTPError):
            pass
        finally:
            stream.leave_once()
            self._streams.discard(stream)
        await send({"type": "http.response.body", "body": b""})

    def close(self) -> None:
        """End all line streams, which otherwise have no end, and waits for room."""
        for stream in self._streams:
            stream.end()
        self._unread.close()

    async def _send(self, answer: Response, gzip: bool, send: Send, unread: Unread) -> int:
        """Send a response, compressed if it is long and `gzip` is True; return the number of body bytes."""
        parts = answer.parts()
        size = sum(map(len, parts))
        headers = {**self._headers, **answer.headers}
        if size:
            headers["content-type"] = answer.media_type
            if answer.status == 200:
                headers.setdefault("cache-control", "no-cache")
        if size >= GZIP_FROM and gzip:
            headers["content-encoding"] = "gzip"
            parts = [answer.gzip or await compress(parts)]
            size = len(parts[0])
            answer.body = None
        unread.resize(size, refuse=False)
        # 204 has no content by definition, and so no length (RFC 9110, 8.6).
        await send(response_start(answer.status, headers, None if answer.status == NO_CONTENT else size))
        for chunk in chunks(parts):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})  # waits until nearly all is in the socket
        return size


def query_of(scope: Scope) -> dict[str, str]:
    """Return the first value of each name in the query."""
    query: dict[str, str] = {}
    for name, text in parse_qsl(scope["query_string"].decode("utf-8", "replace"), keep_blank_values=True):
        query.setdefault(name, text)
    return query


def chunks(parts: list[bytes]) -> Iterator[bytes]:
    """Yield the data in pieces of about CHUNK_BYTES."""
    gathered: list[bytes] = []
    size = 0
    for part in parts:
        for start in range(0, len(part), CHUNK_BYTES):
            gathered.append(part[start : start + CHUNK_BYTES])
            size += len(gathered[-1])
            if size >= CHUNK_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def fixed_headers(state: State) -> dict[str, str]:
    """Return the headers of every response."""
    config = state.config
    optional = {
        "strict-transport-security": config.hsts_policy,
        "x-content-type-options": config.content_type_options,
        "x-frame-options": config.frame_options,
        "x-xss-protection": config.xss_protection,
    }
    headers = {"vary": "accept-encoding, origin", "content-security-policy": config.csp_policy or CONTENT_SECURITY}
    return headers | {name: text for name, text in optional.items() if text}
