"""Scrapes in progress: the response to each, sent in chunks, and their limits in total and by source address."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping

from ..http.asgi import GZIP_FROM, Incoming, compress, compress_stream
from ..http.limits import Quota
from ..http.responses import not_now

SCRAPES_LIMIT = 64  # in progress; each holds references to all objects and a column of numbers
SOURCE_SCRAPES_LIMIT = 8  # from one source address, which may have several Prometheus servers
STALLED_S = 1.0  # a scraper that takes longer for a chunk is aborted if another scrape needs its place
CHUNK_BYTES = 65_536  # of text in one write; a shorter scrape is sent with its length
SEND_S = 10.0  # for a scraper to receive a chunk


class ScrapeStream:
    """The response to a scrape: a short one is sent as a whole, a long one as a stream of chunks."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        self.source = incoming.source
        self.sending: asyncio.Timeout | None = None  # the time limit of the chunk that is being sent
        self.since_s = 0.0  # when the sending of the chunk began
        self.aborted = False  # for another scrape
        self.started = False
        self.size_bytes = 0  # of the uncompressed text

    async def write(self, chunks: AsyncIterator[bytes], content_type: str, zipped: bool) -> int:
        """Send the chunks and return the bytes of the text. Raises TimeoutError if the scraper is too slow."""
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        first = await anext(chunks)
        if len(first) < CHUNK_BYTES:  # the last one
            data = first
            if zipped and len(first) >= GZIP_FROM:
                headers["content-encoding"] = "gzip"
                data = await compress([first])
            await self._start(headers, len(data))
            await self._body(data, more=False)
            return len(first)
        stream: AsyncIterable[bytes] = self._count_bytes(first, chunks)
        if zipped:
            headers["content-encoding"] = "gzip"
            stream = compress_stream(stream)
        await self._start(headers, None)
        async for data in stream:
            await self._body(data, more=True)
        await self._body(b"", more=False)
        return self.size_bytes

    async def _count_bytes(self, first: bytes, others: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        self.size_bytes = len(first)
        yield first
        async for chunk in others:
            self.size_bytes += len(chunk)
            yield chunk

    async def _start(self, headers: Mapping[str, str], length_bytes: int | None) -> None:
        self.started = True
        await self._incoming.start(200, headers, length_bytes)

    async def _body(self, data: bytes, more: bool) -> None:
        async with asyncio.timeout(SEND_S) as self.sending:
            self.since_s = asyncio.get_running_loop().time()
            try:
                await self._incoming.write(data, more)
            finally:
                self.sending = None

    def abort(self) -> None:
        """End the sending of a chunk now."""
        assert self.sending is not None
        self.aborted = True
        self.sending.reschedule(asyncio.get_running_loop().time())


class ScrapesInProgress:
    """The scrapes in progress of one application, the oldest first."""

    def __init__(self) -> None:
        self._quota = Quota(SCRAPES_LIMIT, SOURCE_SCRAPES_LIMIT)
        self._streams: dict[ScrapeStream, None] = {}

    def admit(self, stream: ScrapeStream) -> None:
        """Add a scrape. Raises HTTPError (503) if a limit is reached and no scraper has stalled."""
        if not self._quota.has_room(stream.source, 1):
            own_only = self._quota.of(stream.source) >= SOURCE_SCRAPES_LIMIT
            self._abort_one([each for each in self._streams if each.source == stream.source or not own_only])
        self._quota.add(stream.source, 1)
        self._streams[stream] = None

    def remove(self, stream: ScrapeStream) -> None:
        """Remove a scrape that has ended, unless it was removed already."""
        if stream in self._streams:
            del self._streams[stream]
            self._quota.release(stream.source)

    def _abort_one(self, streams: list[ScrapeStream]) -> None:
        """Abort the scrape whose scraper has stalled for the longest time."""
        begun_s = asyncio.get_running_loop().time() - STALLED_S
        stalled = [stream for stream in streams if stream.sending is not None and stream.since_s <= begun_s]
        if not stalled:
            raise not_now("too many scrapes are under way")
        stream = min(stalled, key=lambda each: each.since_s)
        stream.abort()
        self.remove(stream)


async def join_chunks(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield chunks of at least CHUNK_BYTES, then a shorter last one, which may be empty."""
    waiting: list[bytes] = []
    size_bytes = 0
    async for piece in pieces:
        waiting.append(piece)
        size_bytes += len(piece)
        if size_bytes >= CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size_bytes = [], 0
    yield b"".join(waiting)
