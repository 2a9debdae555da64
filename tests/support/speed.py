"""The speed of the processor at this moment, so that a limit of processor time means the same on every machine.

Others that share the core, its caches or the host make the same work last up to three times as long, also in processor
time. A test that exceeds its limit asks how long a known piece of work takes now, and allows that much more.
"""

import gc
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

REFERENCE_S = 0.003  # that the work takes on the machine whose milliseconds the limits are in, with nothing beside it
ITEMS = 10_000
RUNS = 9


class Item:
    __slots__ = ("name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number


def slowness() -> float:
    """Return how many times as long as on the reference machine work takes now, at least 1: the median of some runs."""
    with without_collector():
        return max(sorted(work_s() for _ in range(RUNS))[RUNS // 2] / REFERENCE_S, 1.0)


@contextmanager
def without_collector() -> Iterator[None]:
    """Context without garbage collection: a full one takes as long as what earlier tests of the process have left."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def within(spent: float, limit: float) -> bool:
    """True if processor time that was just spent is within its limit, both in the same unit.

    A run that is traced, for its coverage, has no limits: most of its time is the tracer's.
    """
    return sys.gettrace() is not None or spent <= limit or spent <= limit * slowness()


def work_s() -> float:
    """Return the processor time of a fixed piece of work: objects, strings, a table and a queue."""
    begun_s = time.thread_time()
    queue: deque[Item] = deque()
    by_name: dict[str, Item] = {}
    for number in range(ITEMS):
        item = Item(f"n{number}", number)
        by_name[item.name] = item
        queue.append(item)
    while queue:
        del by_name[queue.popleft().name]
    return time.thread_time() - begun_s
