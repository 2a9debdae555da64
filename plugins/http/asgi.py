"""What every application needs of ASGI: who asks, for which path, and whether the answer may be compressed."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from starlette.types import ASGIApp, Message, Receive, Scope

from warren.broker.plugin import Peer

T = TypeVar("T")

DEPARTURE = "warren.departure"  # the extension of a scope with the asyncio.Event of a lost connection
GZIP_FROM = 1024  # octets; shorter ones gain nothing
THREAD_FROM = 65_536  # octets; longer ones are compressed beside the loop
GZIP_LEVEL = 4  # where more octets less cost as much time again
GZIP_WINDOW = 31  # zlib's largest window, in the container of gzip


@runtime_checkable
class GuestApplication(Protocol):
    """A service that answers some paths on the port of the HTTP API too."""

    def answers(self, raw_path: str) -> bool:
        """Whether a request for this path is for the service."""

    async def guarded(self) -> ASGIApp:
        """The application for them, which asks every caller who it is."""


def headers_of(scope: Scope) -> dict[str, str]:
    """By lower case names; of several with the same name the last."""
    return {name.decode("latin-1").lower(): text.decode("latin-1") for name, text in scope["headers"]}


def raw_path_of(scope: Scope) -> str:
    """Not decoded but for what was not encoded."""
    raw_path: bytes = scope["raw_path"]
    return raw_path.decode("utf-8", "surrogateescape")


def peer_of(scope: Scope) -> Peer:
    host, port = scope.get("client") or ("", 0)
    local_host, local_port = scope.get("server") or ("", 0)
    return Peer(host, port, local_host, local_port or 0, is_loopback(host))


async def until_departure(scope: Scope) -> None:
    """Return once the connection of a request is lost, without a look at its body; never where nobody notes that."""
    departure = scope.get("extensions", {}).get(DEPARTURE) or asyncio.Event()
    await departure.wait()


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


async def compressed(octets: bytes) -> bytes:
    """Beside the loop where that takes long."""
    if len(octets) >= THREAD_FROM:
        return await asyncio.to_thread(gzip.compress, octets, GZIP_LEVEL)
    return gzip.compress(octets, GZIP_LEVEL)


async def compressed_stream(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield long chunks compressed as one, each beside the loop."""
    stream = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    async for chunk in chunks:
        octets = await asyncio.to_thread(stream.compress, chunk)
        if octets:
            yield octets
    yield await asyncio.to_thread(stream.flush)


def response_start(status: int, headers: Mapping[str, str], length_bytes: int | None) -> Message:
    """The event of ASGI that begins a response; without a length the body is sent in chunks."""
    length = {} if length_bytes is None else {"content-length": str(length_bytes)}
    encoded = [
        (name.encode("latin-1"), text.encode("latin-1", "replace")) for name, text in {**headers, **length}.items()
    ]
    return {"type": "http.response.start", "status": status, "headers": encoded}


async def while_connected(receive: Receive, work: Awaitable[T]) -> T:
    """The result of the work; raises ConnectionResetError, once it is cancelled, if the client leaves before.

    The body of the request has been read, or is not looked at.
    """

    async def departure() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return await work_until(departure(), work)


async def work_until(departure: Awaitable[None], work: Awaitable[T]) -> T:
    """The result of the work; raises ConnectionResetError, once it is cancelled, if the departure comes before."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(departure)
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ConnectionResetError("the client has gone before the answer")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
