"""The application of scrapes: authenticate, measure, write, compress and send in chunks."""

import asyncio
import html
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qs

from ..http.asgi import Application, Incoming
from ..http.auth import MONITOR, authenticate, refresh
from ..http.responses import HTTPError, Response, missing
from ..http.time_slices import once_a_turn
from .exposition import Text
from .registries import AGGREGATED, DETAILED, MEMORY, PER_OBJECT, REGISTRIES, collect
from .scope import BadPattern, Scope
from .scrape_stream import ScrapesInProgress, ScrapeStream, join_chunks
from .state import MetricsState

AT_ONCE = 2  # scrapes that make a chunk at the same time; each may use the processor for seconds
SCRAPE_S = 120.0  # for a whole scrape: ten times Prometheus' timeout
PLAIN = "text/plain"
INDEX = ("", f"/{PER_OBJECT}", f"/{DETAILED}", f"/{MEMORY}")  # the ends of the paths on the page at the root
INDEX_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<title>Metrics for Prometheus</title>
<h1>Metrics for Prometheus</h1>
<ul>
{}</ul>
"""
REALM = {"www-authenticate": 'Basic realm="RabbitMQ Prometheus"'}
Query = Mapping[str, list[str]]


class MetricsEndpoint(Application):
    """An application below a path; if `guarded`, for users with the tag monitoring only."""

    def __init__(self, state: MetricsState, path: str, guarded: bool) -> None:
        self._state = state
        self._host = state.host
        self._guarded = guarded
        self._path = path
        self._searches = asyncio.Lock()  # held while a pattern is searched for
        self._turn = asyncio.Semaphore(AT_ONCE)  # held for one chunk, so that slow readers block nobody
        self._scrapes = ScrapesInProgress()

    async def serve(self, incoming: Incoming) -> None:
        response = ScrapeStream(incoming)
        try:
            answer = await incoming.run_while_connected(self._answer(incoming, response))
        except ConnectionResetError:  # the scraper has disconnected
            return
        except HTTPError as refusal:
            answer = refusal.answer
        except BadPattern as bad:
            answer = Response(400, str(bad).encode("utf-8", "replace"), media_type=PLAIN)
        except TimeoutError:
            if not response.aborted:
                self._host.report("scrape_not_taken", "warning", {"sent_bytes": response.size_bytes})
            answer = Response(503, b"the scrape took too long", media_type=PLAIN)
        except Exception as error:  # a bug of ours; it ends only this scrape
            self._host.report("internal_error", "error", {"exc_info": error, "request": incoming.method})
            answer = Response(500, b"see the broker's log", media_type=PLAIN)
        if answer is not None and not response.started:  # an incomplete stream gets no end
            await incoming.respond(answer)

    async def _answer(self, incoming: Incoming, response: ScrapeStream) -> Response[Any] | None:
        """Return None once a scrape was sent. Raises HTTPError, BadPattern, TimeoutError."""
        is_root = incoming.path == "/" and bool(self._path)
        endpoint = None if is_root else self._endpoint(incoming.path)
        if not incoming.reads:
            raise HTTPError(405, "method_not_allowed", "Method Not Allowed", {"allow": "GET, HEAD"})
        if self._guarded:
            await self._authorize(incoming)
        if is_root:
            return Response(200, self._index(), media_type="text/html; charset=utf-8")
        if endpoint is None:
            return Response(404, b"Unknown Registry", media_type=PLAIN)
        self._scrapes.admit(response)
        try:
            async with self._turn:
                scope, families = await self._scope(endpoint, parse_qs(incoming.query_text))
            gzip = self._state.config.listener_of(incoming.scheme).compress and incoming.takes_gzip
            await self._scrape(scope, endpoint, families, incoming.headers.get("accept", ""), gzip, response)
        finally:
            self._scrapes.remove(response)
        return None

    def _index(self) -> bytes:
        """Return the page with links to all endpoints, for a person who opens the address in a browser."""
        path = html.escape(self._path)
        links = "".join(f'<li><a href="{path}{end}">{path}{end}</a></li>\n' for end in INDEX)
        return INDEX_PAGE.format(links).encode("utf-8", "replace")

    def _endpoint(self, raw_path: str) -> str | None:
        """Return the endpoint, or None if it does not exist. Raises HTTPError (404) for a path outside the metrics."""
        if raw_path != self._path and not raw_path.startswith(self._path + "/"):
            raise missing()
        name = raw_path[len(self._path) :].strip("/")
        if not name:
            return PER_OBJECT if self._state.config.return_per_object_metrics else AGGREGATED
        return name if name in (PER_OBJECT, DETAILED, MEMORY) else None

    async def _authorize(self, incoming: Incoming) -> None:
        """Raises HTTPError (401)."""
        try:
            caller = await authenticate(self._host, incoming.headers.get("authorization"), incoming.peer)
        except HTTPError as refusal:
            if refusal.answer.headers:
                refusal.answer.headers = REALM
            raise
        MONITOR.check(refresh(self._host, caller), None)

    async def _scrape(
        self, scope: Scope, endpoint: str, families: list[str], accept: str, gzip: bool, response: ScrapeStream
    ) -> None:
        """Send a scrape. Raises TimeoutError."""
        text = Text(accept)
        begun_s = time.perf_counter()
        async with asyncio.timeout(SCRAPE_S), aclosing(text.pieces(collect(scope, endpoint, families))) as pieces:
            chunks = self._in_turns(join_chunks(pieces))
            size_bytes = await response.write(chunks, text.content_type, gzip)
        registry = REGISTRIES.get(endpoint, endpoint)
        self._state.scrapes.count(registry, text.content_type, time.perf_counter() - begun_s, size_bytes)

    async def _in_turns(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the chunks, each made while holding the semaphore."""
        while True:
            async with self._turn:
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk

    async def _scope(self, endpoint: str, query: Query) -> tuple[Scope, list[str]]:
        """Return the scope and the families of a scrape; only `detailed` selects. Raises BadPattern."""
        if endpoint != DETAILED:
            return Scope(self._state), []
        vhosts = query.get("vhost")
        scope = Scope(self._state, set(vhosts) if vhosts is not None else None)
        patterns = query.get("queue", [])
        if len(patterns) > 1:
            raise BadPattern("Only one 'queue' query parameter is allowed")
        for pattern in patterns:
            async with once_a_turn(self._searches):
                await scope.match(pattern)
        return scope, query.get("family", [])
