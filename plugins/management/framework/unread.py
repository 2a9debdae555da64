"""The memory of responses that clients have not read."""

from __future__ import annotations

import asyncio
from types import TracebackType

from ...http.responses import HTTPError, not_now
from .unread_quota import UnreadQuota

FREE_BYTES = 64 << 10  # of each response, which do not count, so that very short ones are never refused
SHORT_BYTES = 1 << 20  # of a response that is made beside others of its source which have waited
ROOM_S = 20.0  # that a response waits for room before it is refused


class Unread:
    """The bytes of one response to `source`, from when they are made until the client has read them.

    They count against the limits of the node and of the source address. A response alone may exceed them. One for which
    there is no room is dropped, and made again once there is some: parts of several would wait for each other for ever.
    """

    __slots__ = ("source", "_counted", "_kept", "_quota", "_size", "_until", "_wanted")

    def __init__(self, quota: UnreadQuota, source: str) -> None:
        self.source = source
        self._quota = quota
        self._size = 0
        self._counted = 0
        self._kept = 0  # of what is counted: room that is kept for a response which has waited
        self._wanted = 0  # room that a refused response waits for
        self._until: float | None = None  # when it has waited for ROOM_S

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
        """True if the response is short, as far as it was made."""
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
            self.resize(0, refuse=False)  # at once, so that others need not be refused
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
    return not_now("too many bytes of responses wait for clients to read them")
