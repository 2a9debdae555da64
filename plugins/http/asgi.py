"""ASGI helpers that all HTTP services share: headers, peer address, compression, cancellation at a disconnect."""

from __future__ import annotations

import asyncio
import ipaddress
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from starlette.types import ASGIApp, Message, Receive, Scope

from warren.broker.plugin import Peer

T = TypeVar("T")

DISCONNECTED = "warren.disconnected"  # extension of a scope: the asyncio.Event of a lost connection
GZIP_FROM = 1024  # bytes; compressing a shorter body gains nothing
THREAD_FROM = 65_536  # bytes; longer bodies are compressed in a thread
GZIP_LEVEL = 4  # the next levels save a few bytes for twice the time
GZIP_WINDOW = 31  # the largest window of zlib, with the header of gzip


@runtime_checkable
class GuestApplication(Protocol):
    """A service that answers some paths on the port of the HTTP API."""

    def answers(self, raw_path: str) -> bool:
        """True if this service answers the path."""

    async def guarded_application(self) -> ASGIApp:
        """Return the service's application, which authenticates each request."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name; the last one wins."""
    return {name.decode("latin-1").lower(): text.decode("latin-1") for name, text in scope["headers"]}


def raw_path_of(scope: Scope) -> str:
    """Return the path as sent, percent-encoding included."""
    raw_path: bytes = scope["raw_path"]
    return raw_path.decode("utf-8", "surrogateescape")


def peer_of(scope: Scope) -> Peer:
    host, port = scope.get("client") or ("", 0)
    local_host, local_port = scope.get("server") or ("", 0)
    return Peer(host, port, local_host, local_port or 0, is_loopback(host))


async def until_disconnected(scope: Scope) -> None:
    """Return once the client has disconnected, without reading the body; never if the server does not report it."""
    disconnected = scope.get("extensions", {}).get(DISCONNECTED) or asyncio.Event()
    await disconnected.wait()


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


def response_start(status: int, headers: Mapping[str, str], length_bytes: int | None) -> Message:
    """Return the ASGI event that starts a response; without a length the body is sent in chunks."""
    length = {} if length_bytes is None else {"content-length": str(length_bytes)}
    encoded = [
        (name.encode("latin-1"), text.encode("latin-1", "replace")) for name, text in {**headers, **length}.items()
    ]
    return {"type": "http.response.start", "status": status, "headers": encoded}


async def run_while_connected(receive: Receive, work: Awaitable[T]) -> T:
    """Return the result of `work`; cancel it and raise ConnectionResetError if the client disconnects first.

    The request's body must have been read, or is ignored.
    """

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return await run_until(disconnected(), work)


async def run_until(disconnected: Awaitable[None], work: Awaitable[T]) -> T:
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
