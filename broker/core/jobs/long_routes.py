"""The memory of long routes, which are searched and followed in steps: those of dead letters and of delayed messages.

A route to 20,000 queues takes megabytes while it is searched, and very many queues and exchanges may begin with one at
the same time. While those that have a place take LIMIT_BYTES, others wait for one, and nothing of their routes is held:
each user whose dead letters wait, and each exchange that delays, gets the next place in turn.
"""

from collections.abc import Callable
from typing import Final

LIMIT_BYTES: Final = 32 << 20
TARGET_BYTES: Final = 128  # at most, of each queue and exchange that a search finds
SHORT_BYTES: Final = 32 << 10  # of a message and its targets that need no place


class Place:
    """The place of a route that takes `size` bytes at most. It is `held` from when it is given until it ends.

    Those of the same `owner` are given in their order.
    """

    __slots__ = ("size", "owner", "held", "call")

    def __init__(self, size: int, owner: str) -> None:
        self.size = size
        self.owner = owner
        self.held = False
        self.call: Callable[[], None] | None = None


class LongRoutes:
    """The places of the long routes of a node. Whoever has one gives it back after one message."""

    __slots__ = ("held_bytes", "_waiting")

    def __init__(self) -> None:
        self.held_bytes = 0
        self._waiting: dict[str, dict[Place, None]] = {}  # by owner, in the order of their turns

    @property
    def full(self) -> bool:
        return self.held_bytes >= LIMIT_BYTES

    def grow(self, place: Place, size: int) -> None:
        """Count what a place takes beside its size, until its end."""
        place.size += size
        if place.held:
            self.held_bytes += size

    def begin(self, place: Place, call: Callable[[], None]) -> bool:
        """Give a place, and return True; or return False, and call `call` once it is given."""
        if not self._waiting and not self.full:
            self._give(place)
            return True
        place.call = call
        self._waiting.setdefault(place.owner, {})[place] = None
        return False

    def end(self, place: Place) -> None:
        """Take a place back, or let it wait no longer. It may be neither held nor wait."""
        self._forget(place)
        if place.held:
            place.held = False
            self.held_bytes -= place.size
        while self._waiting and not self.full:
            owner, places = next(iter(self._waiting.items()))
            following = next(iter(places))
            self._forget(following)
            if places:
                self._waiting[owner] = self._waiting.pop(owner)  # its next one is behind those of the others
            self._give(following)
            if following.call is not None:
                following.call()

    def _forget(self, place: Place) -> None:
        places = self._waiting.get(place.owner)
        if places is not None and place in places:
            del places[place]
            if not places:
                del self._waiting[place.owner]

    def _give(self, place: Place) -> None:
        place.held = True
        self.held_bytes += place.size
