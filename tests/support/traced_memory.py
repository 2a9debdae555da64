"""The memory that is allocated within a context."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class TracedMemory:
    """Bytes that are still allocated at the end of the context, and the most that were allocated at a time."""

    held_bytes: int = 0
    peak_bytes: int = 0


@contextmanager
def traced_memory() -> Iterator[TracedMemory]:
    memory = TracedMemory()
    tracemalloc.start()
    try:
        yield memory
        memory.held_bytes, memory.peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
