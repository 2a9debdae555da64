"""The monitor of memory and disk, which sets and clears the node's resource alarms.

It acts when a measurement crosses its limit, so an alarm that an operator has set or cleared stays so until then.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ..core.telemetry.resource_alarms import DISK, MEMORY, Alarms
from .process_memory import resident_bytes, total_bytes

MEMORY_LOOK_S = 1.0
NEAR_LOOK_S = 0.02  # the least, when little memory is left below the limit
GROWTH_BYTES_PER_S = 500_000_000  # more than publishers can fill
DISK_LOOK_S = 10.0  # while nothing is written; the committer checks after each batch
TRIM_LOOKS = 5  # checks between two calls of `trim` during a memory alarm


class Resources:
    """Limits and measurements of memory and disk.

    The disk also needs room for `longest_bytes`, which one message takes beyond the reserve of the log.
    """

    def __init__(
        self,
        alarms: Alarms,
        free_bytes: Callable[[], int],
        trim: Callable[[], None],
        used_bytes: Callable[[], int | None] = resident_bytes,
        memory_bytes: int | None = None,
        longest_bytes: int = 0,
    ) -> None:
        self.memory_bytes = memory_bytes if memory_bytes is not None else total_bytes()
        self.memory_limit_bytes = self.memory_bytes
        self.disk_free_limit_bytes = 0
        self._longest_bytes = longest_bytes
        self._alarms = alarms
        self.free_bytes = free_bytes  # returns the free space of the disk
        self._last_free_bytes = 0
        self.used_bytes = used_bytes  # returns the memory of this process, or None if unknown
        self._trim = trim  # returns freed memory to the system
        self._low: set[str] = set()  # the resources that are beyond their limits
        self._looks = 0
        self._room_bytes = 0  # below the limit, at the last check
        self._look_at_disk: Callable[[], None] = lambda: None
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}

    def share(self, fraction: float) -> int:
        """Return a fraction of all memory in bytes."""
        return int(self.memory_bytes * fraction)

    def set_vm_memory_high_watermark(self, limit_bytes: int) -> None:
        """Set the memory limit, and check it at once."""
        self.memory_limit_bytes = limit_bytes
        self.look_at_memory()

    def set_disk_free_limit(self, limit_bytes: int) -> None:
        """Set the limit of free disk space, and check it at once."""
        self.disk_free_limit_bytes = limit_bytes
        self._look_at_disk()

    def shown_free_bytes(self) -> int:
        """Return the free space of the disk, or the last known one while it cannot be read."""
        with suppress(OSError):
            self._last_free_bytes = self.free_bytes()
        return self._last_free_bytes

    def facts(self, disk: str, resource: str) -> dict[str, object]:
        """Return what the log says of an alarm: the measurement and its limit, in bytes, and which disk it is."""
        if resource == MEMORY:
            return {"used_bytes": self.used_bytes(), "limit_bytes": self.memory_limit_bytes}
        if resource == DISK:
            limit = max(self.disk_free_limit_bytes, self._longest_bytes)
            return {"disk": disk, "free_bytes": self.shown_free_bytes(), "limit_bytes": limit}
        return {}

    # For the committer

    def disk_has_room(self, unwritten_bytes: int = 0) -> bool:
        """Return whether the disk has enough free space, also after these bytes are written."""
        least_bytes = max(self.disk_free_limit_bytes, self._longest_bytes, 1)  # without any, until the disk is full
        return self.free_bytes() - unwritten_bytes >= least_bytes

    def disk_full(self, full: bool) -> None:
        self._measured(DISK, full)

    def _measured(self, resource: str, low: bool) -> None:
        if low and resource not in self._low:
            self._low.add(resource)
            self._alarms.set(resource)
        elif not low and resource in self._low:
            self._low.remove(resource)
            self._alarms.clear(resource)

    # Watching

    def watch(self, look_at_disk: Callable[[], None]) -> None:
        """Start the periodic checks. `look_at_disk` calls `disk_full`, unless a batch under way will do so."""
        self._look_at_disk = look_at_disk
        self._every(self.memory_look_s, self.look_at_memory)
        self._every(lambda: DISK_LOOK_S, look_at_disk)

    def _every(self, pause_s: Callable[[], float], look: Callable[[], None]) -> None:
        next_s = MEMORY_LOOK_S
        try:
            look()
            next_s = pause_s()
        finally:  # an error of this check, which the loop logs, must not prevent the next one
            self._timers[look] = asyncio.get_running_loop().call_later(next_s, self._every, pause_s, look)

    def memory_look_s(self) -> float:
        """Return the time until the next check of the memory, in which publishers cannot exceed the limit by much."""
        if MEMORY in self._low:
            return MEMORY_LOOK_S
        return min(max(self._room_bytes / GROWTH_BYTES_PER_S, NEAR_LOOK_S), MEMORY_LOOK_S)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def look_at_memory(self) -> None:
        used = self.used_bytes()
        if used is None:
            self._room_bytes = self.memory_bytes
            return
        self._room_bytes = self.memory_limit_bytes - used
        self._measured(MEMORY, used > self.memory_limit_bytes)
        if MEMORY not in self._low:
            self._looks = 0
            return
        if self._looks % TRIM_LOOKS == 0:
            self._trim()
        self._looks += 1
