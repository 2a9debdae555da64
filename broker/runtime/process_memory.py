"""How much memory there is, and how much of it this process has, as Linux tells."""

from __future__ import annotations

import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def total_bytes(proc: Path = Path("/proc"), cgroups: Path = CGROUPS) -> int:
    """What this process may have: of the machine, or less where its container is limited."""
    machine = PAGE_BYTES * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *cgroup_limits(proc, cgroups)])


def cgroup_limits(proc: Path, cgroups: Path) -> list[int]:
    """Of the group of this process and of all around it, in both versions of cgroups."""
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
        # In a container the path may be that of the machine, of which only the end is to be seen here: the root.
        for folder in (group, *group.parents):
            text = read(root / folder / file).strip()
            if text.isdigit():
                limits.append(int(text))
    return limits


def resident_bytes(proc: Path = Path("/proc")) -> int | None:
    """What of this process is in memory now; None where the system does not tell."""
    fields = read(proc / "self" / "statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else None


def read(path: Path) -> str:
    """Empty where there is no such file, or none for us."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
