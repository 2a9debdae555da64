"""Scrapes under way: how many there may be, in all and of one source address, and which one makes room for another."""

from __future__ import annotations

import asyncio
from types import TracebackType

from ..http.responses import not_now

PLACES = 64  # scrapes under way; each holds references to all objects, and a column of numbers
SOURCE_PLACES = 8  # of these, from one source: several Prometheus servers behind one address
STALLED_S = 1.0  # a scraper that has not taken a chunk of 64 KiB for so long makes room where there is none


class Place:
    """One scrape under way. `sending` is the time limit of the chunk that its scraper is to take now.

    `given_up` says that it made room for another.
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
    """All scrapes that one application has under way, the oldest first."""

    def __init__(self) -> None:
        self._places: dict[Place, None] = {}

    def enter(self, source: str) -> Place:
        """A place for a scrape from there. Raises Refusal (503) where there is none and no scraper has stalled."""
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
        """Give up the scrape whose scraper has stalled for the longest time."""
        now_s = asyncio.get_running_loop().time()
        stalled = [place for place in places if place.sending is not None and place.since_s <= now_s - STALLED_S]
        if not stalled:
            raise not_now("too many scrapes are under way")
        place = min(stalled, key=lambda one: one.since_s)
        assert place.sending is not None
        place.given_up = True
        place.sending.reschedule(now_s)
        self.leave(place)
