"""The work of links in one turn of the event loop, bounded however many links have work at the same moment.

All links lose their connections when their upstream is stopped, all evaluate demand when an alarm changes, all links of
one object follow its bindings or consumers, and upstreams may send data to all at once.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TypeVar, cast

from warren.broker.plugin import Table

# For all links from one renewal of the budget to the next, once a turn: about 5 ms. As callbacks before the renewal use
# up the old budget and those after it the new one, a single turn may have up to twice that.
TURN_COST = 64
LINK_COST = 8  # to start, end or disconnect a link, with the report and the next attempt
READ_COST, CLOSE_COST = 1, 1  # to read a socket, and to close one
DEMAND_COST = 1  # to evaluate the demand of one link
LOOKS_COST = 12  # to check `demand_path.LOOKED` of its consumers
CHANGES_COST = 1  # to make a link send changed bindings
METHODS, METHODS_COST = 4, 2  # bindings that are sent together, and the cost with their replies
COMPARED, COMPARED_COST = 100, 3  # bindings that are compared together, and the cost
ARGUMENTS_SHIFT, ARGUMENTS_MAX = 7, 20  # to write 128 bytes of arguments costs 1; a table has at most 1,024 fields
CHECK_COST = 4  # to check the objects of a link upstream
Result = TypeVar("Result")
YOUNG = 1  # the older of the two generations that are collected often


class Turns:
    """The budget of links in the present turn of the loop, and the steps that wait for later turns, in order.

    Young objects are collected after each turn in which links changed. The collector counts how many more objects are
    made than freed, so very many links that replace others would not trigger it until one long collection.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = TURN_COST
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._expected = False  # a next turn is scheduled

    def run(self, cost: int, step: Callable[[], None]) -> bool:
        """Call `step` at once if this turn has time for it, otherwise in a later one; return whether it was called."""
        if self._left > 0 and not self._waiting:
            self.spend(cost)
            step()
            return True
        self._waiting.append((cost, step))
        return False

    async def wait(self, cost: int) -> None:
        """Return in a turn that has time for work of this cost."""
        if self._left > 0 and not self._waiting:
            self.spend(cost)
            return
        ready = self._loop.create_future()
        self._waiting.append((cost, partial(complete, ready)))
        await ready

    async def do(self, cost: int, steps: Generator[None, None, Result]) -> Result:
        """Run steps of this cost in turns that have time for them; return their result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast("Result", end.value)
            await self.wait(cost)

    def spend(self, cost: int) -> None:
        """Count work that cannot wait for a later turn."""
        self._left -= cost
        if not self._expected:
            self._expected = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._expected = False
        if TURN_COST - self._left >= LINK_COST:
            gc.collect(YOUNG)
        self._left = TURN_COST
        while self._waiting and self._left > 0:
            cost, step = self._waiting.popleft()
            self.spend(cost)  # before the step, which may raise
            step()


def arguments_cost(arguments: Table) -> int:
    """Return the cost of encoding the arguments of a binding, in addition to that of the binding."""
    return min(len(arguments.raw) >> ARGUMENTS_SHIFT, ARGUMENTS_MAX)


def complete(ready: asyncio.Future[None]) -> None:
    if not ready.done():  # unless it was cancelled
        ready.set_result(None)
