"""Limits of open connections: in all, before they have logged in, and of one source address.

File descriptors are what strangers could use up, and the journal needs some of them. A connection is counted from the
moment it is accepted. Where a limit is reached, the oldest connection in the same pool of the address that has most
there is closed, so that whoever opens many competes with himself.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

from ..runtime.source_address import source_of
from ..runtime.supervisor import Report

# Descriptors that no accepted connection may use, beside those that are open at the start: for listeners, segments of
# the journal, links, and what libraries open for a moment. An eighth of a small limit, but enough to work with.
RESERVED_LEAST, RESERVED_MOST = 32, 1024
RESERVED_PART = 8
LOGIN_LIMIT = 4096  # AMQP connections that have not logged in; each may take the handshake timeout
LOGIN_SOURCE_LIMIT = 2048  # of these, from one source: a thousand clients behind one router may come back at once
REPORT_S = 10.0  # between two lines of the log about refused connections


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; the limit that holds then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # not allowed here: then it stays as it is
            pass
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def connection_limit(descriptors: int) -> int:
    """Connections that may be open at once, where so many files may be, counting those that are open now."""
    reserved = min(max(RESERVED_LEAST, descriptors // RESERVED_PART), RESERVED_MOST)
    return max(1, descriptors - open_descriptors() - reserved)


def open_descriptors() -> int:
    """Files that this process has open; as many as a broker has at its start, where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return RESERVED_LEAST


class Pool:
    """Connections that may be closed in favour of others, by source, the oldest first."""

    def __init__(self, name: str, limit: int, source_limit: int) -> None:
        self.name = name
        self.limit = limit
        self.source_limit = source_limit
        self.sources: dict[str, dict[Slot, None]] = {}
        self.count = 0

    def add(self, slot: Slot) -> None:
        self.sources.setdefault(slot.source, {})[slot] = None
        self.count += 1

    def remove(self, slot: Slot) -> None:
        slots = self.sources[slot.source]
        del slots[slot]
        if not slots:
            del self.sources[slot.source]
        self.count -= 1

    def oldest_of(self, source: str) -> Slot:
        return next(iter(self.sources[source]))

    def oldest_of_largest(self) -> Slot:
        """The oldest connection of the source that has most."""
        return self.oldest_of(max(self.sources, key=lambda source: len(self.sources[source])))


class Slot:
    """One accepted connection, counted until `leave`. `abort` closes it in favour of another."""

    __slots__ = ("_limits", "_pool", "abort", "source")

    def __init__(self, limits: ConnectionLimits, pool: Pool, source: str, abort: Callable[[], object]) -> None:
        self.source = source
        self.abort = abort
        self._limits: ConnectionLimits | None = limits
        self._pool: Pool | None = pool

    def logged_in(self) -> None:
        """It is not closed in favour of others any more."""
        if self._pool is not None:
            self._pool.remove(self)
            self._pool = None

    def leave(self) -> None:
        """It is closed, or about to be; to say so again changes nothing."""
        self.logged_in()
        if self._limits is not None:
            self._limits.open -= 1
            self._limits = None


class ConnectionLimits:
    """All accepted connections of the node. `limit` is how many may be open at once, of all protocols."""

    def __init__(self, limit: int, report: Report) -> None:
        self.limit = limit
        self.open = 0
        self.before_login = Pool("before login", LOGIN_LIMIT, LOGIN_SOURCE_LIMIT)
        self._report = report
        self._reported_s = -REPORT_S
        self._closed = 0

    def enter(self, address: str, pool: Pool, abort: Callable[[], object]) -> Slot | None:
        """Count a connection that was accepted from there; None where it is to be closed at once."""
        source = source_of(address)
        if len(pool.sources.get(source, ())) >= pool.source_limit:
            self._evict(pool.oldest_of(source), f"connections {pool.name} of one address")
        elif pool.count >= pool.limit:
            self._evict(pool.oldest_of_largest(), f"connections {pool.name}")
        if self.open >= self.limit:
            if not pool.count:
                self._report_limit(source, "connections")
                return None
            self._evict(pool.oldest_of_largest(), "connections")
        slot = Slot(self, pool, source, abort)
        pool.add(slot)
        self.open += 1
        return slot

    def _evict(self, slot: Slot, what: str) -> None:
        self._report_limit(slot.source, what)
        slot.leave()
        slot.abort()

    def _report_limit(self, source: str, what: str) -> None:
        """Log it, but not more often than can be read."""
        self._closed += 1
        now_s = time.monotonic()
        if now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            self._report("connection_limit", "warning", {"limit": what, "source": source, "closed": self._closed})
            self._closed = 0
