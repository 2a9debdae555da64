"""The wait of declarations by operators for memory: while it is low, new objects wait, as those of AMQP clients do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..amqp.errors import NotNow
from ..core.telemetry.resource_alarms import MEMORY, Alarms

WAIT_S = 10.0
WAITING_LIMIT = 32  # at the same time; fewer than the requests that one source may have in progress


class MemoryWait:
    """The waits of one node."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._waiting = 0

    @property
    def needed(self) -> bool:
        """Whether memory is low."""
        return MEMORY in self._alarms.on()

    def when_over(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` once the alarm that is set now is cleared; the function returned cancels that."""
        return self._alarms.when_cleared(MEMORY, call)

    async def wait(self) -> None:
        """Return once memory is not low. Raises NotNow after WAIT_S, or at once if too many wait."""
        if not self.needed:
            return
        if self._waiting < WAITING_LIMIT:
            self._waiting += 1
            cleared = asyncio.Event()
            cancel = self.when_over(cleared.set)
            try:
                async with asyncio.timeout(WAIT_S):
                    await cleared.wait()
                return
            except TimeoutError:
                pass
            finally:
                cancel()
                self._waiting -= 1
        raise NotNow(f"nothing new can be declared now: the broker is {self._alarms.reason}")
