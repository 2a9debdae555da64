"""The longest turn of an event loop, in processor time of its thread: a busy machine makes no turn longer."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import uvloop

from tests.support.speed import within

T = TypeVar("T")

TURN_MS, OBJECTS = 20, 100_000  # no turn is longer, with as many objects or messages
SLICE_MS = 5
MANY = 20_000  # that most tests make
ATTEMPTS = 3  # a turn that is long is long each time; what others do to the caches and to a virtual processor is not
PAUSE_S = 0.2
PATIENCE_S = 150
NAP_S = 0.0002


def limit_ms(objects: int) -> float:
    """Return the longest turn with so many objects.

    A turn is a slice of divided work, whose time does not depend on their number, and what is done to each of them,
    whose time is in proportion to it: fewer objects find the same in less time.
    """
    return SLICE_MS + (TURN_MS - SLICE_MS) * objects / OBJECTS


LIMIT_MS = limit_ms(MANY)


def attempts() -> Iterator[None]:
    """Yield for each attempt, later ones after longer pauses: what others do to the processor may last for a second."""
    for number in range(2 * ATTEMPTS):
        time.sleep(number * PAUSE_S)
        yield


def attempts_within(limit_ms: float) -> Iterator[list[float]]:
    """The attempts of a test, each of which adds its longest turn to the list, until one has none above the limit.

    Raises AssertionError if all have a turn that is too long.
    """
    longest_ms: list[float] = []
    for _ in range(ATTEMPTS):
        yield longest_ms
        if within(longest_ms[-1], limit_ms):
            return
    raise AssertionError(f"longest turns of the attempts: {longest_ms} ms")


def collect_young() -> None:
    """Collect the young objects of the preparations, as the broker does every 50 ms of work.

    The collector counts new objects less those that were freed: after very many were freed, as many new ones would be
    collected in one turn.
    """
    gc.collect(1)


class Meter:
    """An event loop between whose looks at its sockets a turn lasts; `longest_s` is the longest since `run`."""

    def __init__(self) -> None:
        self.loop = self.new_loop()
        self.longest_s = 0.0
        self.turns = 0
        self._begun_s = time.thread_time()

    def new_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop()
        selector = loop._selector  # type: ignore[attr-defined]
        select = selector.select

        def measured(timeout: float | None = None) -> Any:
            self._end_turn()
            ready = select(timeout)
            self._begun_s = time.thread_time()
            return ready

        selector.select = measured
        return loop

    def _end_turn(self) -> None:
        self.longest_s = max(self.longest_s, time.thread_time() - self._begun_s)
        self.turns += 1

    def run(self, work: Awaitable[T]) -> T:
        collect_young()
        self.longest_s, self.turns, self._begun_s = 0.0, 0, time.thread_time()
        return self.loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))

    def longest_ms(self, work: Callable[[], Awaitable[object]]) -> float:
        """The longest turn of this work, at the best of some attempts if the first one is longer than LIMIT_MS."""
        best_ms = float("inf")
        for _ in attempts():
            self.run(work())
            best_ms = min(best_ms, self.longest_s * 1000)
            if within(best_ms, LIMIT_MS):
                break
        return best_ms

    def close(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class UVLoopMeter(Meter):
    """A meter of the loop that the broker runs on: a turn lasts from one callback to the next, which sleeps briefly.

    For turns with very many sockets: asyncio's own loop takes longer to read one than the broker takes for the rest.
    """

    def new_loop(self) -> asyncio.AbstractEventLoop:
        return uvloop.new_event_loop()

    def run(self, work: Awaitable[T]) -> T:
        self._next = self.loop.call_soon(self._turn)
        try:
            return super().run(work)
        finally:
            self._next.cancel()

    def _turn(self) -> None:
        self._end_turn()
        time.sleep(NAP_S)  # in place of the loop, which never waits
        self._begun_s = time.thread_time()
        self._next = self.loop.call_soon(self._turn)
