"""ASGI for all HTTP services: requests that are parsed once, the applications that share them, and compression."""

import asyncio
import ipaddress
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Mapping
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from warren.broker.plugin import Peer
from warren.broker.runtime.source_address import source_of

from .responses import NO_HEADERS, Response

T = TypeVar("T")

DISCONNECTED = "warren.disconnected"  # extension of a scope: the asyncio.Event of a lost connection
GZIP_FROM = 1024  # bytes; compressing a shorter body gains nothing
THREAD_FROM = 65_536  # bytes; longer bodies are compressed in a thread
GZIP_LEVEL = 4  # the next levels save a few bytes for twice the time
GZIP_WINDOW = 31  # the largest window of zlib, with the header of gzip


class Incoming:
    """A request, parsed once, with the methods that answer it. Of headers with the same name the last one wins."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.method: str = scope["method"]
        self.reads = self.method in ("GET", "HEAD")
        self.scheme: str = scope.get("scheme", "http")
        self.path: str = scope["raw_path"].decode("utf-8", "surrogateescape")  # with its percent-encoding
        self.headers = {name.decode("latin-1").lower(): text.decode("latin-1") for name, text in scope["headers"]}
        host, port = scope.get("client") or ("", 0)
        local_host, local_port = scope.get("server") or ("", 0)
        self.peer = Peer(host, port, local_host, local_port or 0, is_loopback(host))
        self.user = ""  # the name of its user, once that is known

    @cached_property
    def source(self) -> str:
        """The source by which requests are limited: the address of the client, or its network."""
        return source_of(self.peer.host)

    @property
    def query_text(self) -> str:
        text: bytes = self.scope["query_string"]
        return text.decode("utf-8", "replace")

    @cached_property
    def query(self) -> dict[str, str]:
        """The first value of each name in the query."""
        return dict(reversed(parse_qsl(self.query_text, keep_blank_values=True)))

    @property
    def takes_gzip(self) -> bool:
        return takes_gzip(self.headers)

    async def start(self, status: int, headers: Mapping[str, str], length_bytes: int | None) -> None:
        """Send the head of the response; without a length the body is sent in chunks."""
        length = {} if length_bytes is None else {"content-length": str(length_bytes)}
        fields = {**headers, **length}.items()
        encoded = [(name.encode("latin-1"), text.encode("latin-1", "replace")) for name, text in fields]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})

    async def write(self, body: bytes, more: bool = True) -> None:
        """Send a piece of the body, the last one unless there are `more`."""
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def respond(self, response: Response[Any], headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Send a response as a whole, with these headers unless it has its own."""
        body = response.encode()
        fields = {"content-type": response.media_type, **headers, **response.headers}
        await self.start(response.status, fields, len(body))
        await self.write(body, more=False)

    async def run_while_connected(self, work: Awaitable[T]) -> T:
        """Return the result of `work`; cancel it and raise ConnectionResetError if the client disconnects first.

        The request's body must have been read, or is ignored.
        """

        async def disconnected() -> None:
            while (await self.receive())["type"] != "http.disconnect":
                pass

        return await run_until(disconnected(), work)

    async def run_before_body(self, work: Awaitable[T]) -> T:
        """The same, without reading the body; a disconnect is noticed only if the server reports it."""
        disconnected = self.scope.get("extensions", {}).get(DISCONNECTED) or asyncio.Event()
        return await run_until(disconnected.wait(), work)


class Application:
    """An ASGI application that serves requests which are parsed once, also for the applications that it contains."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await self.serve(Incoming(scope, receive, send))

    async def serve(self, incoming: Incoming) -> None:
        raise NotImplementedError


@runtime_checkable
class GuestApplication(Protocol):
    """A service that answers some paths on the port of the HTTP API."""

    def answers(self, raw_path: str) -> bool:
        """True if this service answers the path."""

    async def guarded_application(self) -> Application:
        """Return the service's application, which authenticates each request."""


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def takes_gzip(headers: Mapping[str, str]) -> bool:
    offered = [part.strip().lower().replace(" ", "") for part in headers.get("accept-encoding", "").split(",")]
    return any(part == "gzip" or part.startswith("gzip;") and part != "gzip;q=0" for part in offered)


async def compress(parts: list[bytes]) -> bytes:
    """Return the parts of a body compressed as one with gzip; long bodies are compressed in a thread."""
    if sum(map(len, parts)) >= THREAD_FROM:
        return await asyncio.to_thread(compress_now, parts)
    return compress_now(parts)


def compress_now(parts: list[bytes]) -> bytes:
    """Return the parts of a body compressed as one with gzip, in this thread."""
    stream = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    return b"".join([*map(stream.compress, parts), stream.flush()])


async def compress_stream(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks as one gzip stream, compressed in a thread."""
    stream = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    async for chunk in chunks:
        data = await asyncio.to_thread(stream.compress, chunk)
        if data:
            yield data
    yield await asyncio.to_thread(stream.flush)


async def run_until(disconnected: Awaitable[object], work: Awaitable[T]) -> T:
    """Return the result of `work`; cancel it and raise ConnectionResetError if `disconnected` completes first."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(disconnected)
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ConnectionResetError("the client disconnected before the response")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
        # A task keeps its exception, which has this frame in its traceback: a cycle, and the request's body in it.
        del working, leaving
