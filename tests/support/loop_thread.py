"""An event loop in a thread of its own, for servers with blocking clients."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
PATIENCE_S = 60.0


class LoopThread:
    """An event loop that runs in a thread of its own until it is closed."""

    def __init__(self, make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop) -> None:
        self.loop = make()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], within_s: float = PATIENCE_S) -> T:
        """Run a coroutine on the loop to its end; return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(within_s)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function on the loop; return its result."""

        async def work() -> T:
            return function(*args)

        return self.run(work())

    def close(self) -> None:
        """Cancel what still runs there, and stop the loop."""

        async def cancel_all() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()
