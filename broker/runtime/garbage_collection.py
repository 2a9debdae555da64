"""The cyclic garbage collector of the process: short collections at any time, full ones where they hold nobody up.

A collection runs to its end wherever an object happens to be made, so it is part of a turn of the event loop. Young
objects are collected often and few at a time. What the broker keeps lives longer than that and is freed by reference
counts, but for connections, channels and queues that have ended, which are cycles. For these a full collection looks
at every object, which takes about 0.3 us each.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable

from .supervisor import Report

YOUNG_OBJECTS = 3_000  # that are collected together: 1 to 2 ms
YOUNG_COLLECTIONS = 2  # after which those that are left are collected once more, and are old then
NEVER = 1 << 30
THRESHOLDS = (YOUNG_OBJECTS, YOUNG_COLLECTIONS, NEVER)

LOOK_S = 10.0
SMALL_HEAP = 40_000  # blocks since the start, of which every one may be an object: then a full collection is short
SHORT_S = 0.02
IDLE_SHARE = 0.05  # of the processor time of the loop's thread, below which nobody is held up
LONG_INTERVAL_S = 600.0  # between two full collections that are long
SHORTAGE_INTERVAL_S = 60.0  # the same, while memory is short
ENDED_LIMIT = 20_000  # connections, channels and queues that may wait for a full collection: 100 to 200 MB


def freeze_heap() -> None:
    """Leave all that the start has made out of later collections, and keep those short."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class Heap:
    """The objects of the process."""

    def blocks(self) -> int:
        return sys.getallocatedblocks()

    def has_new(self) -> bool:
        """Whether objects became old since the last full collection."""
        return gc.get_count()[2] > 0

    def collect(self) -> tuple[int, float]:
        """Collect all garbage; return the number of objects and the processor time in seconds."""
        begun_s = time.thread_time()
        return gc.collect(), time.thread_time() - begun_s


class FullCollections:
    """Full collections: at once while the heap is small, else while the loop is idle, memory is short, or much garbage
    is expected.

    `ended` counts the connections, channels and queues that have ended since the start.
    """

    def __init__(self, report: Report, ended: Callable[[], int], heap: Heap | None = None) -> None:
        self.count = 0
        self._report = report
        self._ended = ended
        self._heap = heap or Heap()
        self._start_blocks = self._heap.blocks()
        self._collected = 0  # of those that have ended
        self._long = False  # whether the last one was
        self._last_long_s = -LONG_INTERVAL_S

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            used_s = time.thread_time()
            await asyncio.sleep(LOOK_S)
            self.look(time.monotonic(), (time.thread_time() - used_s) / LOOK_S)

    def look(self, now_s: float, used_share: float) -> None:
        """Collect, if there is something new and it holds nobody up, or has to be."""
        if not self._heap.has_new():
            return
        idle = used_share < IDLE_SHARE and now_s - self._last_long_s >= LONG_INTERVAL_S
        if idle or self._ended() - self._collected >= ENDED_LIMIT or self._is_small():
            self._collect(now_s)

    def collect_in_shortage(self, now_s: float) -> None:
        """Collect, at most once a minute: publishers are held back anyway."""
        if now_s - self._last_long_s >= SHORTAGE_INTERVAL_S:
            self._collect(now_s)

    def _is_small(self) -> bool:
        # To count the blocks of a large heap takes some milliseconds, which its last collection makes unnecessary.
        return not self._long and self._heap.blocks() - self._start_blocks < SMALL_HEAP

    def _collect(self, now_s: float) -> None:
        objects, took_s = self._heap.collect()
        self.count += 1
        self._collected = self._ended()
        self._long = took_s > SHORT_S
        if self._long:
            self._last_long_s = now_s
            self._report("full_collection", "info", {"ms": round(took_s * 1000), "objects": objects})
