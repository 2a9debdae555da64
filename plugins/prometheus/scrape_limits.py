"""Limits of scrapes in progress, in total and by source address."""

from __future__ import annotations

import asyncio
from types import TracebackType

from ..http.responses import not_now

PLACES = 64  # scrapes in progress; each holds references to all objects and a column of numbers
SOURCE_PLACES = 8  # of one source address, which may have several Prometheus servers
STALLED_S = 1.0  # a scraper that takes longer for a chunk of 64 KiB is aborted if its place is needed


class Place:
    """A scrape in progress. `sending` is the time limit of the chunk being sent.

    `given_up` is set if it was aborted for another scrape.
    """

    __slots__ = ("_places", "given_up", "sending", "since_s", "source")

    def __init__(self, places: Places, source: str) -> None:
        self._places = places
        self.source = source
        self.sending: asyncio.Timeout | None = None
        self.since_s = 0.0  # when it began to send
        self.given_up = False

    def __enter__(self) -> Place:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._places.leave(self)

    def begin_sending(self, deadline: asyncio.Timeout) -> None:
        self.sending = deadline
        self.since_s = asyncio.get_running_loop().time()

    def end_sending(self) -> None:
        self.sending = None


class Places:
    """The scrapes in progress of one application, the oldest first."""

    def __init__(self) -> None:
        self._places: dict[Place, None] = {}

    def enter(self, source: str) -> Place:
        """Return a place for a scrape. Raises HTTPError (503) if all are taken and no scraper has stalled."""
        own = [place for place in self._places if place.source == source]
        if len(own) >= SOURCE_PLACES:
            self._give_up(own)
        elif len(self._places) >= PLACES:
            self._give_up(list(self._places))
        place = Place(self, source)
        self._places[place] = None
        return place

    def leave(self, place: Place) -> None:
        self._places.pop(place, None)

    def _give_up(self, places: list[Place]) -> None:
        """Abort the scrape whose scraper has stalled for the longest time."""
        now_s = asyncio.get_running_loop().time()
        stalled = [place for place in places if place.sending is not None and place.since_s <= now_s - STALLED_S]
        if not stalled:
            raise not_now("too many scrapes are under way")
        place = min(stalled, key=lambda one: one.since_s)
        assert place.sending is not None
        place.given_up = True
        place.sending.reschedule(now_s)
        self.leave(place)
