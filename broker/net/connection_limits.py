"""Limits on open connections: of the node, before login, and of one source address.

Clients without a login could use up the file descriptors, of which the journal needs some. So connections are counted
as soon as they are accepted. At a limit, the source with the most connections in the pool loses its oldest one, so that
a client that opens many competes only with itself.

AMQP connections that have logged in cannot use the last ones (`login_limit`): these are for HTTP, whose health checks
must be answered, and for clients that connection.open refuses with a reason.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..runtime.source_address import source_of
from ..runtime.supervisor import Report

# Descriptors for listeners, segments of the journal, links and libraries, which accepted connections may not use, in
# addition to those that are open at the start. An eighth of the limit, within these bounds.
RESERVED_LEAST, RESERVED_MOST = 32, 1024
RESERVED_PART = 8
LOGIN_LIMIT = 4096  # AMQP connections that have not logged in; each may take the handshake timeout
LOGIN_SOURCE_LIMIT = 2048  # of these, from one source: a thousand clients behind one router may reconnect at once
SPARE_LEAST, SPARE_MOST = 8, 64  # connections that no AMQP client keeps after its login; an eighth, within these bounds
REPORT_S = 10.0  # between two log lines about refused connections


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit, and return the limit in effect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # not allowed here: the limit stays
            pass
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def connection_limit(descriptors: int) -> int:
    """Return how many connections may be open at once with this limit of descriptors."""
    reserved = min(max(RESERVED_LEAST, descriptors // RESERVED_PART), RESERVED_MOST)
    return max(1, descriptors - open_descriptors() - reserved)


def login_limit(connections: int) -> int:
    """Return how many AMQP connections may be logged in, if `connections` may be open at once."""
    return max(1, connections - min(max(SPARE_LEAST, connections // RESERVED_PART), SPARE_MOST))


def open_descriptors() -> int:
    """Return how many files this process has open, or an estimate on systems without /proc."""
    try:
        # Linux 6.2 and later give the number as the size; before, the size is 0.
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        return RESERVED_LEAST


class Pool:
    """Connections that may be closed in favour of new ones, by source, the oldest first."""

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
        """Return the oldest connection of the source with the most connections."""
        return self.oldest_of(max(self.sources, key=lambda source: len(self.sources[source])))


@dataclass(eq=False, repr=False, slots=True)
class Slot:
    """One accepted connection, counted until `leave`. `abort` closes it in favour of a new one."""

    _limits: ConnectionLimits | None
    _pool: Pool | None
    source: str
    abort: Callable[[], object]

    def logged_in(self) -> None:
        """Note the login: the connection is no longer closed in favour of others."""
        if self._pool is not None:
            self._pool.remove(self)
            self._pool = None

    def leave(self) -> None:
        """Stop counting the connection, which is closed or about to be. Repeated calls are harmless."""
        self.logged_in()
        if self._limits is not None:
            self._limits.open -= 1
            self._limits = None
            self.abort = nothing  # breaks the cycle with the connection


class ConnectionLimits:
    """The accepted connections of the node, of all protocols. At most `limit` may be open at once."""

    def __init__(self, limit: int, report: Report) -> None:
        self.limit = limit
        self.open = 0
        self.before_login = Pool("before login", LOGIN_LIMIT, LOGIN_SOURCE_LIMIT)
        self._report = report
        self._reported_s = -REPORT_S
        self._closed = 0

    def enter(self, address: str, pool: Pool, abort: Callable[[], object]) -> Slot | None:
        """Count an accepted connection and return its slot, or None if it must be closed at once."""
        source = source_of(address)
        if len(pool.sources.get(source, ())) >= pool.source_limit:
            self._evict(pool.oldest_of(source), f"connections {pool.name} of one address", pool.source_limit)
        elif pool.count >= pool.limit:
            self._evict(pool.oldest_of_largest(), f"connections {pool.name}", pool.limit)
        if self.open >= self.limit:
            others = pool if pool.count else self.before_login
            if not others.count:
                self._report_limit(source, "connections", self.limit)
                return None
            self._evict(others.oldest_of_largest(), "connections", self.limit)
        slot = Slot(self, pool, source, abort)
        pool.add(slot)
        self.open += 1
        return slot

    def _evict(self, slot: Slot, what: str, most: int) -> None:
        self._report_limit(slot.source, what, most)
        abort = slot.abort
        slot.leave()
        abort()

    def _report_limit(self, source: str, what: str, most: int) -> None:
        """Log a refused or evicted connection, at most one line every REPORT_S."""
        self._closed += 1
        now_s = time.monotonic()
        if now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            fields = {"limit": what, "most": most, "source": source, "closed": self._closed}
            self._report("connection_limit", "warning", fields)
            self._closed = 0


def nothing() -> None:
    """Abort nothing: the connection is closed."""
