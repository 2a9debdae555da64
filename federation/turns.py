"""The work of links in one turn of the event loop, bounded however many links have some at the same moment.

All links lose their connections when their upstream goes away, and all evaluate demand when an alarm changes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

TURN_COST = 64  # of all links in one turn: some 5 ms
LOST_COST = 8  # of a lost connection: the end of the attempt, its report, and the next attempt
CLOSE_COST = 1  # of closing a socket
DEMAND_COST = 1  # of evaluating the demand of one link


class Turns:
    """The budget of links in the present turn of the loop, and what waits for later turns, in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = TURN_COST
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._expected = False  # a next turn is scheduled

    def run(self, cost: int, step: Callable[[], None]) -> None:
        """Call `step` at once if this turn has time for it, otherwise in a later one."""
        if self._left > 0 and not self._waiting:
            self._left -= cost
            self._expect()
            step()
        else:
            self._waiting.append((cost, step))

    def _expect(self) -> None:
        if not self._expected:
            self._expected = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._expected = False
        self._left = TURN_COST
        while self._waiting and self._left > 0:
            cost, step = self._waiting.popleft()
            self._left -= cost
            self._expect()  # before the step, which may raise
            step()
