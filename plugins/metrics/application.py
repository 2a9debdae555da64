"""The way of a scrape: let in, measured, written, compressed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.types import Receive, Send
from starlette.types import Scope as Asked

from broker.plugin import Peer

from ..management.access import MONITOR, authenticated, present
from ..management.answers import Answer, Refusal, missing
from ..web.asgi import GZIP_FROM, compressed, headers_of, peer_of, raw_path_of, takes_gzip
from .endpoints import AGGREGATED, DETAILED, MEMORY, PER_OBJECT, REGISTRIES, collected
from .exposition import Text
from .scope import BadPattern, Scope
from .state import State

METHODS = ("GET", "HEAD")
AT_ONCE = 2  # scrapes that are made; others wait, as each may be megabytes
PLAIN = "text/plain"
REALM = {"www-authenticate": 'Basic realm="RabbitMQ Prometheus"'}
Query = Mapping[str, list[str]]


class Metrics:
    """An ASGI application, below this path. It is for users who monitor if `guarded`, else for all who reach it."""

    def __init__(self, state: State, path: str, guarded: bool) -> None:
        self._state = state
        self._host = state.host
        self._guarded = guarded
        self._path = path
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, asked: Asked, receive: Receive, send: Send) -> None:
        assert asked["type"] == "http"
        headers = headers_of(asked)
        try:
            answer = await self._answer(asked, headers)
        except Refusal as refusal:
            answer = refusal.answer
        except Exception as error:  # a bug of ours: it ends this scrape alone
            self._host.report("internal_error", "error", {"exc_info": error, "request": asked["method"]})
            answer = Answer(500, b"see the broker's log", media_type=PLAIN)
        await self._send(answer, headers, send)

    async def _answer(self, asked: Asked, headers: Mapping[str, str]) -> Answer:
        endpoint = self._endpoint(raw_path_of(asked))
        if asked["method"] not in METHODS:
            raise Refusal(405, "method_not_allowed", "Method Not Allowed", {"allow": ", ".join(METHODS)})
        if self._guarded:
            await self._let_in(headers.get("authorization"), peer_of(asked))
        if endpoint is None:
            return Answer(404, b"Unknown Registry", media_type=PLAIN)
        query = parse_qs(asked["query_string"].decode("utf-8", "replace"))
        async with self._turn:
            try:
                return await self._scraped(endpoint, query, headers.get("accept", ""))
            except BadPattern as bad:
                return Answer(400, str(bad).encode("utf-8", "replace"), media_type=PLAIN)

    def _endpoint(self, raw_path: str) -> str | None:
        """None for one that there is not. Raises Refusal (404) for what is no path of ours at all."""
        if raw_path != self._path and not raw_path.startswith(self._path + "/"):
            raise missing()
        name = raw_path[len(self._path) :].strip("/")
        if not name:
            return PER_OBJECT if self._state.config.return_per_object_metrics else AGGREGATED
        return name if name in (PER_OBJECT, DETAILED, MEMORY) else None

    async def _let_in(self, authorization: str | None, peer: Peer) -> None:
        """Raises Refusal (401)."""
        try:
            caller = await authenticated(self._host, authorization, peer)
        except Refusal as refusal:
            if refusal.answer.headers:
                refusal.answer.headers = REALM
            raise
        MONITOR.check(present(self._host, caller), None)

    async def _scraped(self, endpoint: str, query: Query, accept: str) -> Answer:
        """Raises BadPattern."""
        begun_s = time.perf_counter()
        scope, families = await self._scope(endpoint, query)
        text = Text(accept)
        octets = await text.of(collected(scope, endpoint, families))
        registry = REGISTRIES.get(endpoint, endpoint)
        self._state.scrapes.count(registry, text.content_type, time.perf_counter() - begun_s, len(octets))
        return Answer(200, octets, media_type=text.content_type)

    async def _scope(self, endpoint: str, query: Query) -> tuple[Scope, list[str]]:
        """What is asked about, and the families; all but `detailed` is about everything. Raises BadPattern."""
        if endpoint != DETAILED:
            return Scope(self._state), []
        vhosts = query.get("vhost")
        scope = Scope(self._state, set(vhosts) if vhosts is not None else None)
        patterns = query.get("queue", [])
        if len(patterns) > 1:
            raise BadPattern("Only one 'queue' query parameter is allowed")
        for pattern in patterns:
            await scope.match(pattern)
        return scope, query.get("family", [])

    async def _send(self, answer: Answer, asked: Mapping[str, str], send: Send) -> None:
        octets = answer.encoded()
        headers = {"content-type": answer.media_type, **answer.headers}
        if answer.status == 200:
            headers["vary"] = "accept, accept-encoding"
        if len(octets) >= GZIP_FROM and self._state.config.tcp.compress and takes_gzip(asked):
            headers["content-encoding"] = "gzip"
            octets = await compressed(octets)
        headers["content-length"] = str(len(octets))
        encoded = [(name.encode("latin-1"), text.encode("latin-1", "replace")) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        await send({"type": "http.response.body", "body": octets})
