"""Long work in short slices of time, between which the loop serves others."""

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from .pace import pace_of

T = TypeVar("T")

SLICE_S = 0.0002  # the delay that a slice may add to a message
# While other work keeps the loop busy, one request at a time gets a longer slice, so that its list is completed.
BUSY_S = 0.003  # between two slices
LONGER, EVERY_S = 10, 0.01  # the factor of a longer slice, and the time between two of them
RUN = 500  # objects sorted in one step: up to 2 ms
TEXT_BYTES = 64 << 10  # of the pieces of a response

by_key = itemgetter(0)


class Turn:
    """The time slice of long work in one turn of the loop."""

    __slots__ = ("_until",)
    _next_long_s: ClassVar[float] = 0.0  # when a longer slice may begin

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE_S

    def is_over(self) -> bool:
        return time.perf_counter() >= self._until

    async def next(self) -> None:
        """Yield to the loop, and start another slice in a turn that has time for it."""
        left_s = time.perf_counter()
        await asyncio.sleep(0)
        await pace_of(asyncio.get_running_loop()).time(SLICE_S)
        now_s = time.perf_counter()
        self._until = now_s + SLICE_S
        if now_s - left_s > BUSY_S and now_s >= Turn._next_long_s:
            Turn._next_long_s = now_s + EVERY_S
            self._until = now_s + LONGER * SLICE_S


@asynccontextmanager
async def once_a_turn(lock: asyncio.Lock) -> AsyncIterator[None]:
    """Hold the lock until the next turn of the loop: for work with steps longer than a slice, such as costly searches.

    Without it, each of many requests that come together would make such a step in the same turn.
    """
    async with lock:
        try:
            yield
        finally:
            await asyncio.sleep(0)


async def when(wait: Callable[[Callable[..., None]], object]) -> Any:
    """Return the arguments with which the function is called that is passed to `wait`."""
    called: asyncio.Future[Any] = asyncio.get_running_loop().create_future()  # cancelled if the client disconnects
    wait(lambda *arguments: None if called.done() else called.set_result(arguments))
    return await called


async def in_slices(objects: Iterable[T]) -> AsyncIterator[T]:
    """Yield the objects, and yield to the loop after each slice of work on them."""
    turn = Turn()
    for one in objects:
        yield one
        if turn.is_over():
            await turn.next()


async def done_in_slices(objects: Iterable[T], do: Callable[[T], object]) -> None:
    """Call a function with each of the objects, and yield to the loop after each slice of work."""
    async for one in in_slices(objects):
        do(one)


async def sorted_in_slices(
    objects: Iterable[T], key: Callable[[T], Any], reverse: bool = False, count: int | None = None
) -> list[T]:
    """Return the sorted objects, or the first `count`: runs are sorted in one turn each, and merged in slices."""
    runs: list[list[tuple[Any, T]]] = [[]]
    turn = Turn()
    for one in objects:
        runs[-1].append((key(one), one))
        ends = len(runs[-1]) == RUN
        if ends:
            runs[-1].sort(key=by_key, reverse=reverse)
            runs.append([])
        if ends or turn.is_over():
            await turn.next()
    runs[-1].sort(key=by_key, reverse=reverse)
    if len(runs) == 1:
        return [one for _, one in runs[0][:count]]
    merged = heapq.merge(*map(drain, runs), key=by_key, reverse=reverse)
    return [one async for _, one in in_slices(islice(merged, count))]


def drain(objects: list[T]) -> Iterator[T]:
    """Yield the objects and release each one, because releasing very many in one step would block the loop."""
    objects.reverse()
    while objects:
        yield objects.pop()


async def joined_in_slices(texts: Iterable[bytes], count: Callable[[int], object]) -> list[bytes]:
    """Join texts, made in slices, to pieces of TEXT_BYTES, as releasing very many texts would block the loop.

    `count` is called with the bytes of each piece.
    """
    pieces: list[bytes] = []
    gathered: list[bytes] = []
    size = 0
    async for text in in_slices(texts):
        gathered.append(text)
        size += len(text)
        if size >= TEXT_BYTES:
            pieces.append(b"".join(gathered))
            gathered, size = [], 0
            count(len(pieces[-1]))
    pieces.append(b"".join(gathered))
    return pieces
