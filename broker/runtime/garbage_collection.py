"""The cyclic garbage collector of the process: short collections at any time, full ones when they delay nobody.

Collections run inside turns of the event loop. Young objects are collected often and few at a time. Most of the
broker's objects are older and are freed by reference counts: closed connections and channels and deleted queues are no
cycles, since clients may close and delete very many. Any cycle needs a full collection, which visits every object, in
about 0.3 us each.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable

from .supervisor import Report

YOUNG_OBJECTS = 2_000  # collected together, in 0.1 to 0.3 ms
# Collections after which the next one includes the survivors, which become old: with 0 it is every other one. That is
# the shortest and, as each object is visited 1.5 times, also the cheapest.
YOUNG_COLLECTIONS = 0
NEVER = 1 << 30
THRESHOLDS = (YOUNG_OBJECTS, YOUNG_COLLECTIONS, NEVER)

# The collector counts how many more objects are made than freed. So objects that replace old ones, such as the timers
# of very many connections or the records of deletions, would be collected in one long turn. Young objects are therefore
# also collected every YOUNG_S, if the loop has worked for WORKED_S since. The deletion of a virtual host makes some
# 30,000 meanwhile: 5 ms.
YOUNG_S, WORKED_S = 0.05, 0.01
LOOK_S = 10.0
# Blocks since the start, mostly parts of objects, up to which a full collection takes some 4, or 10 ms.
SMALL_HEAP, MODERATE_HEAP = 10_000, 100_000
SHORT_S, REPORTED_S = 0.004, 0.02
IDLE_SHARE = 0.05  # processor time of the loop's thread, below which a collection delays nobody
LONG_INTERVAL_S = 600.0  # between two long full collections
# The same of a moderate heap: aiormq leaves some 100 KiB of cycles with each connection of a link.
MODERATE_INTERVAL_S = 60.0
SHORTAGE_INTERVAL_S = 60.0  # the same during a memory alarm


def freeze_heap() -> None:
    """Exclude all present objects from later collections, and set thresholds that keep those short."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


async def collect_young() -> None:
    """Collect young objects every YOUNG_S until cancelled, but not of a loop that has hardly worked."""
    collected_s = time.thread_time()
    while True:
        await asyncio.sleep(YOUNG_S)
        if time.thread_time() - collected_s >= WORKED_S:
            gc.collect(1)
            collected_s = time.thread_time()


class Heap:
    """The garbage-collected objects of the process."""

    def blocks(self) -> int:
        return sys.getallocatedblocks()

    def has_new(self) -> bool:
        """Whether objects have become old since the last full collection."""
        return gc.get_count()[2] > 0

    def collect(self) -> tuple[int, float]:
        """Collect all garbage; return the number of objects and the processor time in seconds."""
        begun_s = time.thread_time()
        return gc.collect(), time.thread_time() - begun_s


class FullCollections:
    """Full collections: often if the heap is small or moderate, otherwise when the loop is idle or memory is short.

    Those of a larger heap wait while `has_transients` returns True: then very many of its objects will soon be freed.
    """

    def __init__(self, report: Report, heap: Heap | None = None) -> None:
        self.count = 0
        self.has_transients: Callable[[], bool] = lambda: False
        self._report = report
        self._heap = heap or Heap()
        self._start_blocks = self._heap.blocks()
        self._long = False  # whether the last collection was
        self._last_long_s = -LONG_INTERVAL_S

    async def run(self) -> None:
        """Look every LOOK_S until cancelled. The heap has been frozen."""
        self._start_blocks = self._heap.blocks()
        while True:
            used_s = time.thread_time()
            await asyncio.sleep(LOOK_S)
            self.collect_if_due(time.monotonic(), (time.thread_time() - used_s) / LOOK_S)

    def collect_if_due(self, now_s: float, used_share: float) -> None:
        """Collect if there are new objects and it delays nobody."""
        if not self._heap.has_new():
            return
        since_long_s = now_s - self._last_long_s
        limit = MODERATE_HEAP if since_long_s >= MODERATE_INTERVAL_S else 0 if self._long else SMALL_HEAP
        idle = used_share < IDLE_SHARE and since_long_s >= LONG_INTERVAL_S and not self.has_transients()
        if idle or limit and self._heap.blocks() - self._start_blocks < limit:
            self._collect(now_s)

    def collect_in_shortage(self, now_s: float) -> None:
        """Collect during a memory alarm, at most once a minute; publishers are blocked anyway."""
        if now_s - self._last_long_s >= SHORTAGE_INTERVAL_S and not self.has_transients():
            self._collect(now_s)

    def _collect(self, now_s: float) -> None:
        objects, took_s = self._heap.collect()
        self.count += 1
        self._long = took_s > SHORT_S
        if self._long:
            self._last_long_s = now_s
        if took_s > REPORTED_S:
            self._report("full_collection", "info", {"ms": round(took_s * 1000), "objects": objects})
