"""The memory of the machine or container and of this process, as Linux reports it, and the heap of the C library."""

import ctypes
import os
import time
from pathlib import Path

from .garbage_collection import FullCollections

CGROUPS = Path("/sys/fs/cgroup")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Options of glibc's mallopt, in bytes: free memory kept at the top of the heap, and blocks that never go on it.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
HEAP_KEPT = 32 << 20
HEAP_BLOCK = 4 << 20


def total_bytes(proc: Path = Path("/proc"), cgroups: Path = CGROUPS) -> int:
    """Return the memory that this process may use: the machine's, or less in a limited container."""
    machine = PAGE_BYTES * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *cgroup_limits(proc, cgroups)])


def cgroup_limits(proc: Path, cgroups: Path) -> list[int]:
    """Return the limits of this process's control group and all enclosing ones, in both versions of cgroups."""
    limits = []
    for line in read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, file = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, file = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = Path(path.lstrip("/"))
        # In a container the path may be the machine's, of which the container sees only the root.
        for folder in (group, *group.parents):
            text = read(root / folder / file).strip()
            if text.isdigit():
                limits.append(int(text))
    return limits


def resident_bytes(proc: Path = Path("/proc")) -> int | None:
    """Return the resident memory of this process, or None if the system does not report it."""
    fields = read(proc / "self" / "statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else None


def read(path: Path) -> str:
    """Return the text of a file, or an empty one if it cannot be read."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


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
