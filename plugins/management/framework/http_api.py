"""The application of the HTTP API: routing, login, body, handler, response."""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec

from warren.broker.plugin import AMQPError, Host, OperatorError

from ...http.asgi import GZIP_FROM, Application, Incoming, compress
from ...http.auth import NOBODY, NONE, Caller, authenticate
from ...http.limits import Quota
from ...http.pace import pace_of
from ...http.responses import HTTPError, Pieces, Response, http_error_of, missing, not_now
from .access_log import AccessLog
from .line_stream import Stream
from .origins import Origins
from .pagination import Listing, columns_of, list_response, prune
from .request import Request
from .router import Answered, Route, Routes
from .state import ManagementState
from .unread import Unread

API = "/api"
PATH_IN_QUERY = "/warren/path"  # with the path of any route as `path`: browsers remove the segments . and .. of a path
REQUEST_S = 60.0  # until the response is made; a list of 100,000 objects takes a tenth of this on an idle machine
STORING_S = 10.0  # a change waits for the disk this long before the response says that it is not stored yet
STORING_LIMIT = 128  # changes that wait for the disk at the same time, so that they do not use up all requests
# Requests in progress after login and body, without health checks.
REQUESTS_LIMIT = 512
SOURCE_REQUESTS_LIMIT = 64  # from one source address; eight of them can use up all
STREAMS_LIMIT, USER_STREAMS_LIMIT = 64, 32  # streams, which may stay open without limit
BODIES_BYTES = 256 << 20  # of bodies being read, of all users
USER_BODIES_BYTES = 64 << 20  # of one user
START_S = 0.001  # charged to the pace for a request that reads: its first step may list 100,000 objects, in up to 5 ms
CHUNK_BYTES = 256 << 10  # of a response, written to the socket in one turn of the loop
NO_CONTENT = 204
CONTENT_SECURITY = "script-src 'self'; object-src 'self'"


class HTTPAPI(Application):
    """The application of the API."""

    request_s: float | None = REQUEST_S

    def __init__(self, host: Host, state: ManagementState, routes: Routes) -> None:
        self._host = host
        self._state = state
        self._routes = routes
        self._prefix = state.config.path_prefix.rstrip("/") + API
        self._headers = fixed_headers(state)
        self.origins = Origins(state.config.cors_allow_origins, state.config.allowed_hosts, host.node.name)
        self._requests = Quota(REQUESTS_LIMIT, SOURCE_REQUESTS_LIMIT)  # in progress, by source address
        longest = state.config.max_body_bytes
        self._bodies = Quota(max(BODIES_BYTES, longest), max(USER_BODIES_BYTES, longest))  # by user
        self._unread = state.unread
        self._streams: set[Stream] = set()
        self._open_streams = Quota(STREAMS_LIMIT, USER_STREAMS_LIMIT)  # by user
        self._storing = 0  # changes that wait for the disk
        self._log = AccessLog(state.config.http_log_dir, host.report) if state.config.http_log_dir else None

    def answers(self, path: str) -> bool:
        """True for the paths of the API."""
        return path == self._prefix or path.startswith(f"{self._prefix}/")

    async def refuse(self, incoming: Incoming, refusal: HTTPError) -> None:
        with Unread(self._unread, incoming.source) as unread:
            await self._send(incoming, refusal.answer, unread)

    async def serve(self, incoming: Incoming) -> None:
        with Unread(self._unread, incoming.source) as unread:
            await self._respond(incoming, unread)

    async def _respond(self, incoming: Incoming, unread: Unread) -> None:
        try:
            answer: Response[Any] | Stream = await self._answer(incoming, unread)
        except TimeoutError:
            answer = not_now(f"the request was not answered within {REQUEST_S:.0f} s").answer
        except (AMQPError, OperatorError) as error:
            answer = http_error_of(error).answer
        except ConnectionResetError:
            return
        except Exception as error:  # a bug of ours; it ends only this request
            self._host.report("internal_error", "error", {"exc_info": error, "request": incoming.method})
            answer = Response(500, {"error": "internal_server_error", "reason": "see the broker's log"})
        if isinstance(answer, Stream):
            if self._open_streams.take(incoming.user):
                self._log_request(incoming, 200, 0)  # at the beginning, because the stream may have no end
                try:
                    return await self._send_stream(incoming, answer)
                finally:
                    self._open_streams.release(incoming.user)
            answer.leave_once()
            answer = not_now("too many streams are open").answer
        await self._send(incoming, answer, unread)

    def _log_request(self, incoming: Incoming, status: int, size: int) -> None:
        """Log a request with the path of its route, which PATH_IN_QUERY has in the query."""
        if self._log is not None:
            path = incoming.path
            if path == self._prefix + PATH_IN_QUERY:
                path = f"{self._prefix}/{incoming.query.get('path', '').lstrip('/')}"
            self._log.write(incoming, path, status, size, self._host.node.clock.timestamp_s())

    async def _answer(self, incoming: Incoming, unread: Unread) -> Response[Any] | Stream:
        """Return the answer of the request's route to a caller that the route's guard lets pass. Raises HTTPError."""
        if not self.answers(incoming.path):
            raise missing()
        path = incoming.path[len(self._prefix) :]
        if path == PATH_IN_QUERY:
            path = incoming.query.get("path", "")
        if incoming.method == "OPTIONS":
            return Response(200, b"", self._routes.allow(path))
        route, segments = self._routes.find(incoming.method, path)
        if route.changes:
            self.origins.check_change(incoming.method, incoming.headers, takes_form=route.body is bytes)
        caller = NOBODY if route.guard is NONE else await self._log_in(incoming)
        request = Request(self._host, self._state, caller, incoming, segments, unread)
        request.enter(route.guard, route.vhost_required)
        if route.body is not None:
            request.body = await route.read(incoming, self._bodies, self._state)
            request.enter(route.guard, route.vhost_required)  # again: the rights may have changed
        if not route.is_limited:
            return await self._work(route, request)
        if not self._requests.take(incoming.source):
            raise not_now("too many requests are under way")
        try:
            return await self._work(route, request)
        finally:
            self._requests.release(incoming.source)

    async def _log_in(self, incoming: Incoming) -> Caller:
        """Return the caller; a disconnect cancels the login. Raises HTTPError (400, 401, 503)."""
        if self._state.config.disable_basic_auth:
            raise HTTPError(401, "not_authorized", "Not_Authorized")
        async with asyncio.timeout(REQUEST_S):
            login = authenticate(self._host, incoming.headers.get("authorization"), incoming.peer)
            caller = await incoming.run_before_body(login)
        incoming.user = caller.user.name
        return caller

    async def _work(self, route: Route, request: Request) -> Response[Any] | Stream:
        async with asyncio.timeout(self.request_s):
            while True:
                try:
                    return await self._make(route, request)
                except HTTPError:
                    if route.changes or not request.unread.refused:
                        raise
                await request.incoming.run_while_connected(request.wait(request.unread.room()))

    async def _make(self, route: Route, request: Request) -> Response[Any] | Stream:
        """Return the response of a route's handler. Raises HTTPError."""
        answer = await self._handle(route, request)
        if route.durable:
            await self._wait_until_stored(request.incoming)
        if isinstance(answer, Stream):
            return answer
        parts = answer.parts()
        request.unread.resize(sum(map(len, parts)), refuse=not route.changes)
        return Response(answer.status, Pieces(parts), answer.headers, answer.media_type, answer.gzip)

    async def _wait_until_stored(self, incoming: Incoming) -> None:
        """Wait until the change is stored. Raises HTTPError (503) if that takes too long."""
        host = self._host
        if host.node.journal.ticket() <= host.node.journal.durable:
            return
        if self._storing < STORING_LIMIT:
            self._storing += 1
            try:
                async with asyncio.timeout(STORING_S):
                    return await incoming.run_while_connected(host.stored())
            except TimeoutError:
                pass
            finally:
                self._storing -= 1
        alarm = host.node.alarms.reason
        cause = f"the broker is {alarm}" if alarm else "the disk does not take it now"
        raise not_now(f"the change is made, and not stored yet: {cause}")

    async def _handle(self, route: Route, request: Request) -> Response[Any] | Stream:
        caller = request.caller
        if not route.changes:
            await request.wait(pace_of(asyncio.get_running_loop()).time(START_S))
        with request.acting():
            result: Any = route.handler(*((request,) if route.body is None else (request, request.body)))
        if inspect.isawaitable(result):
            result = await request.incoming.run_while_connected(result)
        answer: Answered = result
        if isinstance(answer, Stream):
            answer.check = partial(request.enter, route.guard, route.vhost_required)
            if request.incoming.method == "HEAD":
                answer.end()
            return answer
        if isinstance(answer, Listing):
            listing = list_response(answer, request.query, self._state.searches, request.unread.grow)
            answer = await request.incoming.run_while_connected(request.wait(listing))
            request.check_kept(caller)
            return answer
        if not route.changes:
            request.check_kept(caller)
        shaped = isinstance(answer.body, (dict, list, msgspec.Struct))
        if request.incoming.reads and "columns" in request.query and shaped:
            return Response(answer.status, prune(answer.body, columns_of(request.query)), answer.headers)
        return answer

    async def _send_stream(self, incoming: Incoming, stream: Stream) -> None:
        """Send a stream until it ends, the client disconnects, or its user loses the right to read it.

        One that is not whole has no end: the server closes the connection, so that the client notices.
        """
        self._streams.add(stream)
        headers = {**self._headers, "content-type": stream.media_type, "cache-control": "no-cache"}
        await incoming.start(200, headers, None)

        async def write() -> None:
            async with aclosing(stream.pieces()) as pieces:
                async for piece in pieces:
                    stream.check()
                    await incoming.write(piece)

        try:
            await incoming.run_while_connected(write())
        except (ConnectionResetError, HTTPError):
            pass
        finally:
            stream.leave_once()
            self._streams.discard(stream)
        if stream.whole:
            await incoming.write(b"", more=False)

    def close(self) -> None:
        """End all streams, and all waits for room."""
        for stream in self._streams:
            stream.end()
        self._unread.close()

    async def _send(self, incoming: Incoming, answer: Response[Any], unread: Unread) -> None:
        """Send and log a response, compressed if it is long and client and listener allow that."""
        parts = answer.parts()
        size = sum(map(len, parts))
        headers = {**self._headers, **answer.headers}
        if size:
            headers["content-type"] = answer.media_type
            if answer.status == 200:
                headers.setdefault("cache-control", "no-cache")
        if size >= GZIP_FROM and incoming.takes_gzip and self._state.config.listener_of(incoming.scheme).compress:
            headers["content-encoding"] = "gzip"
            parts = [answer.gzip or await compress(parts)]
            size = len(parts[0])
            answer.body = None
        unread.resize(size, refuse=False)
        # 204 has no content by definition, and so no length (RFC 9110, 8.6).
        await incoming.start(answer.status, headers, None if answer.status == NO_CONTENT else size)
        for chunk in chunks(parts):
            await incoming.write(chunk)
            await asyncio.sleep(0)
        await incoming.write(b"", more=False)  # waits until nearly all is in the socket
        self._log_request(incoming, answer.status, size)


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


def fixed_headers(state: ManagementState) -> dict[str, str]:
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
