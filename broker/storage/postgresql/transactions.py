"""The transactions of the owner of a store: operations gather, and are committed in order.

Each transaction has the number after the one before, and the server counts them in the row of the owner
(`Database.commit`). A commit without an answer is in doubt. Before anything else is committed, the row is read again:

    epoch of another owner   this process owns the store no more; nothing was or will be committed by it
    a later number           it was committed; it counts only after another transaction, as its standbys may lack it
    the last certain number  it is sent again unchanged; if the first attempt is still being committed, the row is
                             locked until then, and the second one fails with Fenced
    an earlier number        the server has lost what was confirmed

A transaction may be as large as all that gathered while the one before was committed.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from .database import Database
from .errors import Fenced, Refused, Unreachable
from .operations import DropTable, Operation

NOT_OWNER = errno.ESTALE
UNREACHABLE = errno.ENOTCONN
# Rollbacks after which the transaction is tried again, by what they are on a disk.
SHORTAGES = {"53100": errno.ENOSPC, "53200": errno.ENOMEM, "40001": UNREACHABLE, "40P01": UNREACHABLE}


class Transactions:
    """The transactions of one owner.

    epoch     of this owner
    retry_s   how long a server that cannot be reached is tried again
    since_s   when the commit under way began, or the first that failed since; None without one
    """

    def __init__(
        self,
        database: Database,
        epoch: int,
        commits: int,
        retry_s: float = 30.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`commits` is the number of the last transaction of the store."""
        self.epoch = epoch
        self.retry_s = retry_s
        self.since_s: float | None = None
        self._database = database
        self._now_s = now_s
        self._commits = commits  # the last that is certain
        self._gathering = threading.Lock()  # of the next two
        self._gathered: list[Operation] = []  # and not committed
        self._total = 0  # operations gathered since the start
        self._committing = threading.Lock()  # of what follows
        self._committed = 0  # operations committed since the start
        self._in_doubt = False  # the last transaction
        self._doubtful = 0  # operations in it, of those that gathered
        self._lost_s: float | None = None  # when the server was lost

    @property
    def failing(self) -> bool:
        """Whether the server could not be reached at the last attempt."""
        return self._lost_s is not None

    def gather(self, *operations: Operation) -> None:
        """Add operations to the next transaction."""
        with self._gathering:
            self._gathered += operations
            self._total += len(operations)

    def commit(self) -> None:
        """Commit all that was gathered before this call.

        Raises OSError: of ports.FULL or ports.EXHAUSTED if this may be tried again, NOT_OWNER after another broker has
        taken the store over, and EIO after any other failure, which is final too.
        """
        with self._gathering:
            wanted = self._total
        with self._committing:
            if self._committed < wanted:
                self._attempt(self._commit)

    def drop(self, numbers: Iterable[int]) -> list[int]:
        """Drop the tables of removed files, and return those that could not be, for another time. Raises OSError."""
        kept = []
        with self._committing:
            for number in numbers:
                try:
                    self._attempt(partial(self._drop, number))
                except OSError as error:
                    if error.errno == NOT_OWNER:
                        raise
                    kept.append(number)
        return kept

    def _attempt(self, call: Callable[[], None]) -> None:
        self.since_s = self.since_s or self._now_s()
        try:
            try:
                call()
            except Unreachable:
                self._settle()  # a server that was restarted, or another host, may answer at once
                call()
        except Fenced as error:
            raise OSError(NOT_OWNER, "another broker has taken the store over", str(error)) from error
        except Refused as error:
            self._lost_s = self.since_s = None
            number = SHORTAGES.get(error.sqlstate, errno.EIO)
            raise OSError(number, f"PostgreSQL: {error}") from error
        except Unreachable as error:
            now_s = self._now_s()
            self._lost_s = self._lost_s if self._lost_s is not None else now_s
            if now_s - self._lost_s > self.retry_s:
                raise OSError(errno.EIO, f"PostgreSQL could not be reached for {self.retry_s:g} s: {error}") from error
            raise OSError(UNREACHABLE, f"PostgreSQL cannot be reached: {error}") from error
        self._lost_s = self.since_s = None

    def _commit(self) -> None:
        self._settle()
        with self._gathering:
            operations = self._gathered[:]
        if operations:
            self._send(operations, len(operations))
            self._forget(len(operations))

    def _drop(self, number: int) -> None:
        self._settle()
        self._send([DropTable(number)], 0)

    def _send(self, operations: list[Operation], gathered: int) -> None:
        """Commit operations, of which the first `gathered` are the oldest that gathered."""
        try:
            self._database.commit(self.epoch, self._commits + 1, operations)
        except Unreachable:
            self._doubtful, self._in_doubt = gathered, True
            raise
        self._commits += 1

    def _settle(self) -> None:
        """Find out whether the transaction in doubt was committed; send it again if not."""
        fenced: Fenced | None = None
        looked = -1
        while self._in_doubt:
            epoch, commits = self._database.owner()
            if epoch != self.epoch:
                raise Fenced(f"its epoch is {epoch}, that of this broker was {self.epoch}")
            if commits < self._commits:
                raise Fenced(f"it has {commits} transactions, and this broker committed {self._commits}")
            if fenced is not None and commits == looked:
                raise fenced
            looked = commits
            with self._gathering:
                operations = [] if commits > self._commits else self._gathered[: self._doubtful]
            try:
                self._database.commit(self.epoch, commits + 1, operations)
            except Fenced as error:
                fenced = error  # the transaction in doubt, or another owner, was first
                continue
            self._commits = commits + 1
            self._in_doubt = False
            self._forget(self._doubtful)
            self._doubtful = 0

    def _forget(self, count: int) -> None:
        with self._gathering:
            del self._gathered[:count]
        self._committed += count


class NoTransactions(Transactions):
    """Transactions that are never committed, for reading a store as its owner would."""

    def gather(self, *operations: Operation) -> None: ...

    def drop(self, numbers: Iterable[int]) -> list[int]:
        return list(numbers)
