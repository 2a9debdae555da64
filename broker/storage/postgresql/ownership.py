"""The ownership of a store: one broker at a time writes it, and others wait to take over.

The owner has an epoch, the number in the row `owner`, which its transactions verify (`Database.commit`): after another
broker has raised it, the former owner can commit nothing. A standby decides by two facts when it raises the epoch:

    the advisory lock   A session of the owner holds the lock of its epoch. The server releases it when the session
                        ends, so a standby that gets it knows at once that the owner was killed or is cut off.
    the heartbeat       It is written every second. If it is older than the lease, the owner is stopped or cannot reach
                        the server, and its session, with the lock, does not count any more.

A new owner takes the lock of its own epoch before it raises the epoch, which succeeds for one of several standbys. It
ends the sessions in which the former owner may be in the middle of a transaction. Its own first transaction waits for
standby servers, like any other, and with it all transactions of the former owner.

The epoch does not fence effects elsewhere, such as at the upstreams of links. An owner has these only while its last
heartbeat is younger than the lease, and only once that of the former owner is older: a free lock does not prove that
the former owner has ended.

An epoch counts takeovers, and its last digits are random. Otherwise, after a failover to a server that lacks a takeover
because it was no synchronous standby, the next owner could get the epoch of a broker that still runs.

After a restart of the server, or on a promoted standby server, all locks are free, and the owner is about to return. So
a free lock counts only if the owner has held it since this server process started, whose time it writes with its
heartbeats. A standby that lost its own session waits until it has seen the lock held, or the lease has passed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from ..errors import ConfirmedLost
from .database import WATCH, PostgreSQL
from .errors import Refused, Unreachable
from .operations import Statement

if TYPE_CHECKING:
    from .session import Row

BEAT_S = 1.0  # between two heartbeats
LIMIT_S = 5.0  # of a query here; a server that takes longer cannot be reached
GRACE_S = 1.0  # after the lease of a former owner, for its last requests, and for clocks that run unevenly
LOCK_TIMEOUT = "55P03"
EPOCHS = 2**31 - 1  # of which each has a lock of its own
TOKENS = 10**9  # the random part of an epoch is less than this
OWNER = "SELECT owner.epoch, node, extract(epoch FROM clock_timestamp() - beaten)"  # the columns of a Standing


@dataclass(frozen=True, slots=True)
class Standing:
    """The owner as a standby sees it: epoch, node, and age of the heartbeat, which is None if it has ended."""

    epoch: int
    node: str
    age_s: float | None


class Ownership:
    """The part of one broker in the ownership of a store, over session `watch`. Calls raise Unreachable, Refused."""

    def __init__(self, database: PostgreSQL, store_id: str, node: str, lease_s: float) -> None:
        self.epoch = 0  # the epoch of this owner, 0 while it is a standby
        self.commits = 0  # the number of the last transaction before it
        self.blocked = False  # the owner has ended, but `acquire` could not change its rows: another takeover waits
        self._database = database
        self._store_id = store_id
        self._node = node
        self._lease_s = lease_s
        self._trusting = True  # a free lock
        self._confirmed = 0  # transactions according to the heartbeats so far
        self._locked = False
        self._beaten_s = 0.0  # when the last heartbeat was sent, by the clock of this process
        self._alone_s = 0.0  # when the lease of the former owner is over
        # Advisory locks have two numbers of 32 bits: of the store, and of the epoch.
        self._key = int.from_bytes(sha256(store_id.encode()).digest()[:4], "big", signed=True)

    def name(self, epoch: int) -> str:
        """Return the application_name of the sessions of an owner."""
        return f"warren {self._store_id} {epoch}"

    def certain(self) -> bool:
        """Whether no other broker can have taken the store over: the last heartbeat is younger than the lease."""
        return now_s() - self._beaten_s < self._lease_s

    def alone(self) -> bool:
        """Whether no other broker acts as the owner: it is certain, and the lease of the former owner is over."""
        return self._alone_s <= now_s() < self._beaten_s + self._lease_s

    def acquire(self, limit_s: float | None = None) -> Standing | None:
        """Take the store over and return None if its owner has ended; otherwise return the owner.

        The takeover waits until it is as durable as the server's settings say, `limit_s` at most if there is one.
        Raises ConfirmedLost if the server has fewer transactions than an owner has confirmed since the first look.
        """
        self.blocked = False
        standing, free, known = self._look()
        expired = standing.age_s is None or standing.age_s > self._lease_s
        self._trusting = self._trusting or not free or expired
        if free and known and self._trusting or expired:
            return None if self._take_over(standing.epoch, limit_s) else standing
        if free:
            self._unlock()
        return standing

    def standing(self) -> Standing:
        """Return the owner of the store, without an attempt to take its lock."""
        schema = self._database.schema
        text = f"{OWNER} FROM {schema}.owner CROSS JOIN {schema}.beat"
        return standing_of(single(self._database.run(WATCH, [(text, ())], LIMIT_S)[0]))

    def committed(self) -> int:
        """Return the number of the last transaction of the store."""
        (rows,) = self._database.run(WATCH, [(f"SELECT commits FROM {self._database.schema}.owner", ())], LIMIT_S)
        return int(single(rows)[0] or 0)

    def _look(self) -> tuple[Standing, bool, bool]:
        """Return the owner, whether its lock was free and is now held by this session, and whether the owner held it.

        The owner's lock counts only since this server process started.
        """
        database = self._database
        if not database.has(WATCH):
            database.connect(WATCH)
        text = (
            f"{OWNER}, pg_try_advisory_lock($1, (owner.epoch % {EPOCHS})::int), server = pg_postmaster_start_time(),"
            " commits, confirmed"
            f" FROM {database.schema}.owner CROSS JOIN {database.schema}.beat"
        )
        try:
            row = single(database.run(WATCH, [(text, (self._key,))], LIMIT_S)[0])
        except Unreachable:
            self._trusting = False
            raise
        commits, confirmed = int(row[5] or 0), int(row[6] or 0)
        self._confirmed = max(self._confirmed, confirmed)
        if commits < self._confirmed:
            raise ConfirmedLost(commits, self._confirmed)
        return standing_of(row), row[3] == b"t", row[4] == b"t"

    def _take_over(self, epoch: int, limit_s: float | None) -> bool:
        """Raise the epoch, unless another broker does so or did."""
        run, schema = self._database.run, self._database.schema
        raised = after(epoch)
        if run(WATCH, [("SELECT pg_try_advisory_lock($1, $2)", self._lock_of(raised))], LIMIT_S)[0] != [[b"t"]]:
            self._unlock()
            self.blocked = True
            return False
        ending = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = $1 AND datname = current_database() AND usename = current_user"
        )
        run(WATCH, [(ending, (self.name(epoch),))], LIMIT_S)
        taking: list[Statement] = [
            ("SELECT set_config('lock_timeout', '2s', true)", ()),
            (f"SELECT extract(epoch FROM clock_timestamp() - beaten) FROM {schema}.beat FOR UPDATE", ()),
            (f"UPDATE {schema}.owner SET epoch = $2 WHERE epoch = $1 RETURNING commits", (epoch, raised)),
            (
                f"UPDATE {schema}.beat SET epoch = $2, node = $3, beaten = clock_timestamp(),"
                " server = pg_postmaster_start_time() WHERE epoch = $1",
                (epoch, raised, self._node),
            ),
        ]
        beaten_s = now_s()
        try:
            _, ((age,),), taken, _ = run(WATCH, taking, limit_s)
        except Refused as error:
            self._unlock()
            if error.sqlstate != LOCK_TIMEOUT:
                raise
            self.blocked = True
            return False
        if not taken:
            self._unlock()
            return False
        self.epoch, self.commits, self._locked = raised, int(taken[0][0] or 0), True
        self._beaten_s = beaten_s
        self._alone_s = now_s() + max(0.0, self._lease_s + GRACE_S - float(age)) if age is not None else 0.0
        return True

    def beat(self, confirmed: int = 0) -> bool:
        """Write the heartbeat of the owner; return False if another broker owns the store.

        `confirmed` is the number of the last certain transaction, if known.
        """
        database = self._database
        if not database.has(WATCH):
            self._locked = False
            database.connect(WATCH)
        # A server that was promoted without these transactions does not get their number: the next owner goes on there.
        certain = f"greatest(confirmed, least($2, (SELECT commits FROM {database.schema}.owner)))"
        beat = f"UPDATE {database.schema}.beat SET beaten = clock_timestamp(), confirmed = {certain}"
        beating: Statement = (f"{beat} WHERE epoch = $1 RETURNING true", (self.epoch, confirmed))
        if not self._locked:
            server = "CASE WHEN held THEN pg_postmaster_start_time() ELSE server END"
            beating = (
                f"WITH lock AS (SELECT pg_try_advisory_lock($3, $4) AS held) {beat}, server = {server} FROM lock"
                " WHERE epoch = $1 RETURNING held",
                (self.epoch, confirmed, *self._lock_of(self.epoch)),
            )
        # also while no standby server confirms anything
        unsynced: Statement = ("SELECT set_config('synchronous_commit', 'off', true)", ())
        beaten_s = now_s()
        rows = database.run(WATCH, [unsynced, beating], LIMIT_S)[1]
        if rows:
            self._locked = rows == [[b"t"]]
            self._beaten_s = beaten_s
        return bool(rows)

    def release(self) -> None:
        """End the ownership at once, after the last transaction, unless the lease of a former owner still runs."""
        if not self.alone():
            return  # the end of the session frees the lock
        text = f"UPDATE {self._database.schema}.beat SET beaten = NULL WHERE epoch = $1"
        self._database.run(WATCH, [(text, (self.epoch,))], LIMIT_S)

    def _lock_of(self, epoch: int) -> tuple[int, int]:
        return self._key, epoch % EPOCHS

    def _unlock(self) -> None:
        self._database.run(WATCH, [("SELECT pg_advisory_unlock_all()", ())], LIMIT_S)


class Beats:
    """The heartbeats of an owner without a watch, from a thread. Their failures show in its next transaction."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="store heartbeats", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            with suppress(Unreachable, Refused):
                self._ownership.beat()


def now_s() -> float:
    """Return seconds that also pass while the machine is suspended, where the system has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def after(epoch: int) -> int:
    """Return an epoch that follows this one, and that no other owner gets."""
    return (epoch // TOKENS + 1) * TOKENS + secrets.randbelow(TOKENS)


def single(rows: Sequence[Row]) -> Row:
    """Return the only row of a table, or of two of them. Raises Refused."""
    if len(rows) != 1:
        raise Refused(f"the tables owner and beat have {len(rows)} rows together: restore them from a backup")
    return rows[0]


def standing_of(row: Sequence[bytes | None]) -> Standing:
    epoch, node, age = row[:3]
    return Standing(int(epoch or 0), (node or b"").decode(), float(age) if age is not None else None)
