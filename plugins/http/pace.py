"""The pace of HTTP: the limit of the work of all connections and requests in one turn of the loop.

The loop reads all ready sockets in one turn, each up to 32 times, and h11 makes an event of each chunk of a body,
however short: 1 MiB of such chunks took two seconds. The short slices of hundreds of requests add up, too.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary, proxy

TURN_S = 0.003  # for all connections and requests in one turn of the loop; a step that has begun is finished


class Pace:
    """The time that a loop has for HTTP in one turn, and the functions that wait for a later turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = proxy(loop)  # so that `pace_of` keeps no loop in memory
        self._left_s = TURN_S
        self._waiting: deque[Callable[[], None]] = deque()
        self._again: deque[Callable[[], None]] = deque()  # functions that continue the work of an earlier turn
        self._expected = False  # a next turn is scheduled

    def has_time(self) -> bool:
        """True if there is time left in this turn, and no function waits for it."""
        return self._left_s > 0 and not self._waiting and not self._again

    def charge(self, time_s: float) -> None:
        """Charge this turn for work, done or expected."""
        self._left_s -= time_s
        self._expect()

    def call_in_turn(self, fn: Callable[[], None], again: bool = False) -> None:
        """Call a function, which charges its time, in a later turn that has time, in the order of these calls.

        Functions that continue their work are called `again`, alternately with new ones: a short request does not wait
        for long ones.
        """
        (self._again if again else self._waiting).append(fn)
        self._expect()

    async def time(self, time_s: float) -> None:
        """Return in a turn that has time, and charge it `time_s`."""
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
