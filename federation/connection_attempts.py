"""The admission of attempts to connect: few at once, whichever upstreams they lead to.

An attempt has a place from the first packet until the link runs or has failed. The upstreams take turns, and none has
more than EACH places. An attempt that takes longer than SLOW_S, because its upstream does not answer, no longer counts
among those of all upstreams.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from types import TracebackType

AT_ONCE, EACH = 32, 16  # attempts that are not slow, of all upstreams; all attempts of one upstream
SLOW_S = 1.0

Upstream = tuple[str, str]
"""The virtual host and the name of an upstream."""


class Place:
    """The place of one attempt; a context manager that leaves it."""

    def __init__(self, admission: Admission, upstream: Upstream) -> None:
        self._admission = admission
        self._upstream = upstream
        self._taken, self._slow = True, False
        self._timer = asyncio.get_running_loop().call_later(SLOW_S, self._become_slow)

    def _become_slow(self) -> None:
        self._slow = True
        self._admission.vacate()

    def leave(self) -> None:
        """Give the place to the next attempt, unless it is left already."""
        if self._taken:
            self._taken = False
            self._timer.cancel()
            self._admission.vacate(self._upstream, 0 if self._slow else 1)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()


class Admission:
    """The attempts that have a place, and those that wait for one. While it is not `open`, all attempts wait."""

    def __init__(self) -> None:
        self._open = True
        self._swift = 0  # places of attempts that are not slow
        self._places: Counter[Upstream] = Counter()
        # The upstream whose turn is next comes first.
        self._waiting: dict[Upstream, deque[asyncio.Future[Place]]] = {}

    async def enter(self, upstream: Upstream) -> Place:
        """Wait for a place."""
        waiting: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(upstream, deque()).append(waiting)
        self._admit()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                waiting.result().leave()
            raise

    @property
    def open(self) -> bool:
        return self._open

    @open.setter
    def open(self, value: bool) -> None:
        self._open = value
        self._admit()

    def vacate(self, upstream: Upstream | None = None, swift: int = 1) -> None:
        """Free `swift` of the places of all upstreams, and one of `upstream` if it is given."""
        self._swift -= swift
        if upstream is not None:
            self._places[upstream] -= 1
            if not self._places[upstream]:
                del self._places[upstream]
        self._admit()

    def _admit(self) -> None:
        """Give all free places to attempts that wait."""
        while self._open and self._swift < AT_ONCE:
            upstream = next((one for one in self._waiting if self._places[one] < EACH), None)
            if upstream is None:
                return
            waiting = self._waiting.pop(upstream)
            attempt = waiting.popleft()
            if waiting:
                self._waiting[upstream] = waiting  # behind the others
            if not attempt.done():  # unless it was cancelled
                self._swift += 1
                self._places[upstream] += 1
                attempt.set_result(Place(self, upstream))
