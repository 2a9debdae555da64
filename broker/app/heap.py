"""Settings of the C library's heap."""

from __future__ import annotations

import ctypes
import time

from ..runtime.garbage_collection import FullCollections

# Options of glibc's mallopt, in bytes: free memory kept at the top of the heap, and blocks that never go on it.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
HEAP_KEPT = 32 << 20
HEAP_BLOCK = 4 << 20


def keep_heap() -> None:
    """Make glibc keep some freed memory.

    Every read takes 256 KiB. To unmap it, and map and zero it again for the next read, costs as much as all the rest of
    a long message (bench M: 1.6 times).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # another C library has no such option
        mallopt(M_TRIM_THRESHOLD, HEAP_KEPT)
        mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK)


def free_memory(collections: FullCollections) -> None:
    """Run a full garbage collection, and return the free heap to the system."""
    collections.collect_in_shortage(time.monotonic())
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
