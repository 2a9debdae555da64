"""How late the loop is: how long whoever is ready has to wait until it gets its turn."""

from __future__ import annotations

import asyncio
import time

from broker.plugin import Latencies

LOOK_S = 0.25


async def watch(lag: Latencies) -> None:
    """Until cancelled. The clock is a finer one than that of the loop, which may count whole milliseconds."""
    while True:
        due_s = time.monotonic() + LOOK_S
        await asyncio.sleep(LOOK_S)
        lag.count(time.monotonic() - due_s)
