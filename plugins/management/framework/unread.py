"""The memory of responses that clients have not read.

Nothing of HTTP is imported here at once, as that is loaded with the first request.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from ...http.limits import Quota

if TYPE_CHECKING:
    from ...http.responses import HTTPError

FREE_BYTES = 64 << 10  # of each response, which do not count, so that very short ones are never refused
SHORT_BYTES = 1 << 20  # of a response that is made beside others of its source which have waited
ROOM_S = 20.0  # a response waits this long for room before it is refused
WAITING_LIMIT, SOURCE_WAITING_LIMIT = 256, 32  # responses that wait, so that they do not use up all requests


class UnreadQuota(Quota):
    """The bytes of all responses by source address, and the responses that wait for room, in order.

    Of the responses of one source that have waited, one long response is made at a time, because several would take the
    room from each other. Short ones are made beside it.
    """

    __slots__ = ("_closed", "_counts", "_turns", "_waiting")

    def __init__(self, limit: int, key_limit: int) -> None:
        super().__init__(limit, key_limit)
        self._counts = Quota(WAITING_LIMIT, SOURCE_WAITING_LIMIT)
        self._waiting: dict[Unread, asyncio.Future[bool]] = {}
        self._turns: dict[str, Unread] = {}  # the response of a source that is made after a wait
        self._closed = False

    def close(self) -> None:
        """End all waits without room, and let no response wait any more: the node stops."""
        self._closed = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(False)

    def add(self, key: str, amount: int) -> None:
        super().add(key, amount)
        if amount < 0:
            self._admit()

    def end_turn(self, unread: Unread) -> None:
        """Let another response of its source be made, if this one has waited for room."""
        if self._turns.get(unread.source) is unread:
            del self._turns[unread.source]
            self._admit()

    def others_wait(self, unread: Unread) -> bool:
        """Return whether there are responses before a new one that needs room."""
        return self._turns.get(unread.source) is not unread and self._counts.of(unread.source) > 0

    async def wait(self, unread: Unread, until: float, first: bool) -> bool:
        """Wait until there is room for a response, `first` of all if it has waited before.

        Return False if that takes too long. If too many wait, or the node stops, there must be room at once.
        """
        if self._closed or not self._counts.take(unread.source):
            return self._admits(unread)
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting = {unread: waiting, **self._waiting} if first else {**self._waiting, unread: waiting}
        try:
            self._admit()
            async with asyncio.timeout_at(until):
                return await waiting
        except TimeoutError:
            return False
        finally:
            del self._waiting[unread]
            self._counts.release(unread.source)

    def _admit(self) -> None:
        """Wake the waiting responses for which there is room now."""
        for unread, waiting in self._waiting.items():
            if not waiting.done() and self._admits(unread):
                waiting.set_result(True)

    def _admits(self, unread: Unread) -> bool:
        """Return whether a response can be made now: there is room, which is kept, and it is short or has its turn."""
        if unread.is_short:
            return unread.keep_room()
        if unread.source in self._turns or not unread.keep_room():
            return False
        self._turns[unread.source] = unread
        return True


@dataclass(slots=True, eq=False)
class Unread:
    """The bytes of one response to `source`, from when they are made until the client has read them.

    They count against the limits of the node and of the source address, which a single response may exceed. A response
    without room is dropped, and made again once there is room: parts of several responses would block each other.
    """

    _quota: UnreadQuota
    source: str
    _size: int = 0
    _counted: int = 0
    _kept: int = 0  # part of `_counted`: room that is kept for a response that has waited
    _wanted: int = 0  # room that a refused response waits for
    _until: float | None = None  # when it has waited for ROOM_S

    def __enter__(self) -> Unread:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.resize(0, refuse=False)

    @property
    def refused(self) -> bool:
        """True if there was no room for the response, which can be made again after a wait for `room`."""
        return self._wanted > 0

    @property
    def is_short(self) -> bool:
        """True if the part of the response that was made is short."""
        return self._wanted <= SHORT_BYTES

    def check(self) -> None:
        """Raises HTTPError (503) if a longer response would be refused."""
        if not self._has_room(1):
            raise too_many()

    def grow(self, more: int) -> None:
        """Add bytes that were made. Raises HTTPError (503) if they are too many."""
        self.resize(self._size + more)

    def resize(self, size: int, refuse: bool = True) -> None:
        """Set the size of the response. Raises HTTPError (503) if it is too long.

        A response that is complete, or cannot wait, must not be refused.
        """
        if not refuse:
            self._kept = 0
        counted = max(size - FREE_BYTES, self._kept, 0)
        more = counted - self._counted
        if more > 0 and refuse and not self._may_grow(more):
            # Twice as much, so that few attempts are in vain.
            self._wanted = max(counted, min(2 * counted, self._quota.key_limit))
            self.resize(0, refuse=False)  # now, so that others need not be refused
            raise too_many()
        self._counted = counted
        self._size = size
        self._quota.add(self.source, more)
        if not refuse:
            self._quota.end_turn(self)

    async def room(self) -> None:
        """Wait until there is room for a response, or for one that was refused, and keep that room.

        Raises HTTPError (503) after ROOM_S, if too many responses wait, or if the node stops.
        """
        first = self._until is not None
        if self._until is None:
            self._until = asyncio.get_running_loop().time() + ROOM_S
        has_room = not self._quota.others_wait(self) and self.keep_room()
        if not has_room and not await self._quota.wait(self, self._until, first):
            raise too_many()

    def keep_room(self) -> bool:
        """Keep the room that a refused response waits for, if there is any; return whether there was."""
        counted = max(self._wanted, 1)
        if not self._has_room(counted - self._counted):
            return False
        self._quota.add(self.source, counted - self._counted)
        self._counted = self._kept = counted
        self._wanted = 0
        return True

    def _may_grow(self, more: int) -> bool:
        """Return whether there is room, and the response has begun before others wait, or may be made before them."""
        begun = self._counted > self._kept
        return self._has_room(more) and (begun or not self._quota.others_wait(self))

    def _has_room(self, more: int) -> bool:
        return self._quota.has_room(self.source, more, self._counted)


def too_many() -> HTTPError:
    from ...http.responses import not_now

    return not_now("too many bytes of responses wait for clients to read them")
