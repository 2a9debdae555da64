"""The pace of HTTP: how much all connections and requests together do in one turn of the loop.

The loop reads all ready sockets in one turn, each up to 32 times, and h11 makes an event of each chunk of a body,
however short: 1 MiB of such chunks took two seconds. And what hundreds of requests do in short slices adds up, too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary, proxy

TURN_S = 0.003  # for all connections and requests in one turn of the loop; what is begun is finished


class Pace:
    """The time that a loop has for HTTP in one turn, and those that wait for a later one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = proxy(loop)  # so that `pace_of` keeps no loop in memory
        self._left_s = TURN_S
        self._waiting: deque[Callable[[], None]] = deque()
        self._again: deque[Callable[[], None]] = deque()  # of those that have had a turn, and go on
        self._expected = False  # a next turn is scheduled

    def has_time(self) -> bool:
        """Whether there is time for more in this turn, and nothing waits for it."""
        return self._left_s > 0 and not self._waiting and not self._again

    def charge(self, time_s: float) -> None:
        """Charge this turn for what was done, or for what follows from it."""
        self._left_s -= time_s
        self._expect()

    def call_in_turn(self, fn: Callable[[], None], again: bool = False) -> None:
        """Call a function in a later turn that has time, in the order of these calls. It charges what it takes.

        Those that go on are called `again`, in turn with the others: a short request waits for no long ones.
        """
        (self._again if again else self._waiting).append(fn)
        self._expect()

    async def time(self, time_s: float) -> None:
        """Return in a turn that has time, and charge it so much."""
        if self.has_time():
            self.charge(time_s)
            return
        ready: asyncio.Future[None] = self._loop.create_future()

        def begin() -> None:
            if not ready.done():  # not cancelled
                self.charge(time_s)
                ready.set_result(None)

        self.call_in_turn(begin)
        await ready

    def _expect(self) -> None:
        if not self._expected:
            self._expected = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._expected = False
        self._left_s = TURN_S
        try:
            while (self._waiting or self._again) and self._left_s > 0:
                for queue in (self._waiting, self._again):
                    if queue:
                        queue.popleft()()
        finally:
            if self._waiting or self._again:
                self._expect()


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace_of(loop: asyncio.AbstractEventLoop) -> Pace:
    """Return the pace of HTTP in a loop."""
    pace = _paces.get(loop)
    if pace is None:
        pace = _paces[loop] = Pace(loop)
    return pace
