"""The room for responses that clients have not read.

Nothing of HTTP is imported here, as that is loaded with the first request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .quota import Quota

if TYPE_CHECKING:
    from .unread import Unread

WAITING_LIMIT, SOURCE_WAITING_LIMIT = 256, 32  # responses that wait, so that they do not use up all requests


class UnreadQuota(Quota):
    """The bytes of all responses, by source address, and the responses that wait for room, in order.

    Of those of one source that have waited, one is made at a time, as several would take the room from each other, and
    short ones beside it.
    """

    __slots__ = ("_closed", "_counts", "_turns", "_waiting")

    def __init__(self, limit: int, key_limit: int) -> None:
        super().__init__(limit, key_limit)
        self._counts = Quota(WAITING_LIMIT, SOURCE_WAITING_LIMIT)
        self._waiting: dict[Unread, asyncio.Future[bool]] = {}
        self._turns: dict[str, Unread] = {}  # the response of a source that is made after a wait
        self._closed = False

    def close(self) -> None:
        """End all waits without room, and let no response wait any more, as the node stops."""
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
        """Wake those that wait for which there is room now."""
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
