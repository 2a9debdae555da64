"""The transactions of the owner of a store: operations gather, and are committed in order.

Transactions have successive numbers, and the server counts them in the row of the owner (`Database.commit`). One may
begin before the one before is certain, that is, as durable as the server's settings say. Transactions that are not
certain are kept. After a session was lost, nothing else is committed until a new session has read the row again, when
all other calls have ended:

    epoch of another owner    this process no longer owns the store; none of the transactions was or will be committed
    the last number, or more  all were committed; they count only after another transaction, as standbys may lack them
    an earlier number         a crash or a failover has undone the later ones, or the last was lost on the way: they are
                              sent again unchanged; if one is still being committed, the row is locked until then, and
                              the second attempt fails with Fenced
    less than was certain     the server has lost confirmed transactions, whoever owns the store now

A transaction may have all operations that gathered while every session had one under way.
"""

import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..errors import ConfirmedLost
from .database import Database
from .errors import Fenced, Refused, Unreachable
from .operations import Operation

NOT_OWNER = errno.ESTALE
UNREACHABLE = errno.ENOTCONN
# Rollbacks after which the transaction is tried again, as errors of a disk
SHORTAGES = {"53100": errno.ENOSPC, "53200": errno.ENOMEM} | dict.fromkeys(("40001", "40P01", "57014"), UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that was sent. With it, the first `total` of all operations were sent."""

    number: int
    operations: list[Operation]
    total: int


class Transactions:
    """The transactions of one owner. Calls may be made by several threads."""

    def __init__(
        self,
        database: Database,
        epoch: int,
        commits: int,
        retry_s: float = 30.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`commits` is the number of the last transaction of the store."""
        self.epoch = epoch  # the epoch of this owner
        self.retry_s = retry_s  # the time for which a server that cannot be reached is tried again
        self._database = database
        self._now_s = now_s
        self._gathering = threading.Lock()  # of the next two
        self._gathered: list[Operation] = []  # not sent yet
        self._total = 0  # operations gathered since the start
        self._changed = threading.Condition()  # of what follows
        self._sent = Transaction(commits, [], 0)  # the last one
        self._certain = self._sent  # the last one that is certain
        self._uncertain: deque[Transaction] = deque()  # those after it
        self._free = list(range(database.sessions))
        self._sending = False  # a transaction, which no other may overtake
        self._in_doubt = False  # whether the server has what is uncertain
        self._begun_s: dict[int, float] = {}  # by thread: when its call began, or the first that failed since
        self._lost_s: float | None = None  # when the server was lost

    @property
    def failing(self) -> bool:
        """Whether the server could not be reached at the last attempt."""
        return self._lost_s is not None

    @property
    def certain(self) -> int:
        """The number of the last transaction that is certain."""
        return self._certain.number

    @property
    def since_s(self) -> float | None:
        """The start of the longest commit under way, or of the first that failed since, or None."""
        return min(list(self._begun_s.values()), default=None)

    def gather(self, *operations: Operation) -> None:
        """Add operations to the next transaction."""
        with self._gathering:
            self._gathered += operations
            self._total += len(operations)

    def commit(self) -> None:
        """Make all operations certain that were gathered before this call.

        Raises OSError: of FULL or EXHAUSTED (`journal_port`) if this may be tried again, NOT_OWNER after another broker
        has taken the store over, ConfirmedLost if the server lacks certain transactions, and EIO after any other
        failure; these are final.
        """
        with self._gathering:
            wanted = self._total
        self._attempt(partial(self._commit, wanted))

    def run(self, operation: Operation) -> None:
        """Commit an operation by itself, also before gathered ones. Raises OSError, as `commit` does.

        After an error it may have been committed, or not, and is not sent again.
        """
        self._attempt(partial(self._run, operation))

    def _attempt(self, call: Callable[[], None]) -> None:
        thread = threading.get_ident()
        self._begun_s.setdefault(thread, self._now_s())
        try:
            try:
                call()
            except Unreachable:
                call()  # a server that was restarted, or another host, may answer at once
        except Fenced as error:
            raise OSError(NOT_OWNER, "another broker has taken the store over", str(error)) from error
        except Refused as error:
            self._lost_s = None
            self._begun_s.pop(thread, None)
            number = SHORTAGES.get(error.sqlstate, errno.EIO)
            raise OSError(number, f"PostgreSQL: {error}") from error
        except Unreachable as error:
            now_s = self._now_s()
            lost_s = self._lost_s = self._lost_s if self._lost_s is not None else now_s
            if now_s - lost_s > self.retry_s:
                raise OSError(errno.EIO, f"PostgreSQL could not be reached for {self.retry_s:g} s: {error}") from error
            raise OSError(UNREACHABLE, f"PostgreSQL cannot be reached: {error}") from error
        self._lost_s = None
        self._begun_s.pop(thread, None)

    def _commit(self, wanted: int) -> None:
        """Make the first `wanted` of all operations certain, by a transaction of this or another thread."""
        while True:
            with self._changed:
                self._wait(lambda: not self._in_doubt and self._certain.total >= wanted or self._may_begin(wanted))
                self._settle()
                if self._certain.total >= wanted:
                    return
                if self._sent.total >= wanted:
                    continue
                with self._gathering:
                    operations = self._gathered[:]
                session, transaction = self._begin(operations)
            self._execute(session, transaction, operations)

    def _run(self, operation: Operation) -> None:
        with self._changed:
            self._wait(self._may_begin)
            self._settle()
            session, transaction = self._begin([])
        self._execute(session, transaction, [operation])

    def _wait(self, possible: Callable[[], bool]) -> None:
        """Wait until it is possible; the simulation of the tests replaces this."""
        self._changed.wait_for(possible)

    def _may_begin(self, wanted: int | None = None) -> bool:
        """Whether a transaction for that many operations may begin, or uncertain ones may be looked up."""
        if self._in_doubt:
            return len(self._free) == self._database.sessions
        return not self._sending and bool(self._free) and (wanted is None or self._sent.total < wanted)

    def _begin(self, operations: list[Operation]) -> tuple[int, Transaction]:
        """Take a session, and return it with the next transaction, for the operations that gathered first."""
        self._sending = True
        total = self._sent.total + len(operations)
        return self._free.pop(), Transaction(self._sent.number + 1, operations, total)

    def _execute(self, session: int, transaction: Transaction, operations: list[Operation]) -> None:
        """Commit operations as this transaction, let the next one begin, and wait until this one is certain."""
        try:
            self._database.commit(session, self.epoch, transaction.number, operations)
        except Refused:
            with self._changed:
                self._sending = False
                self._release(session)
            raise
        except (Unreachable, Fenced) as error:  # the owner and the last transaction are looked up
            with self._changed:
                self._note_sent(transaction)
                self._in_doubt = True
                self._release(session)
            raise Unreachable(str(error)) from error
        with self._changed:
            self._note_sent(transaction)
        try:
            self._database.sync(session)
        except (Unreachable, Refused):
            with self._changed:
                self._in_doubt = True
                self._release(session)
            raise
        with self._changed:
            self._note_certain(transaction)
            self._release(session)

    def _note_sent(self, transaction: Transaction) -> None:
        with self._gathering:
            del self._gathered[: transaction.total - self._sent.total]
        self._uncertain.append(transaction)
        self._sent = transaction
        self._sending = False
        self._changed.notify_all()

    def _note_certain(self, transaction: Transaction) -> None:
        """Note that a transaction and all earlier ones are certain."""
        while self._uncertain and self._uncertain[0].number <= transaction.number:
            self._certain = self._uncertain.popleft()

    def _release(self, session: int) -> None:
        self._free.append(session)
        self._changed.notify_all()

    def _settle(self) -> None:
        """Find out which transactions were committed, send the others again, and make all certain."""
        if not self._in_doubt:
            return
        try:
            self._look_up()
            self._in_doubt = False
        finally:
            self._changed.notify_all()  # after a failure too: every waiting call tries it

    def _look_up(self) -> None:
        fenced: Fenced | None = None
        looked = -1
        while True:
            epoch, commits = self._database.owner()
            if commits < self._certain.number:
                raise ConfirmedLost(commits, self._certain.number)
            if epoch != self.epoch:
                raise Fenced(f"its epoch is {epoch}, that of this broker was {self.epoch}")
            if commits > self._sent.number:
                raise Fenced(f"it has {commits} transactions, and this broker sent {self._sent.number}")
            if fenced is not None and commits == looked:
                raise fenced
            looked = commits
            if commits == self._sent.number:
                self._note_sent(Transaction(commits + 1, [], self._sent.total))
            try:
                for transaction in list(self._uncertain):
                    if transaction.number > commits:
                        self._database.commit(0, epoch, transaction.number, transaction.operations)
                        self._database.sync(0)
                        self._note_certain(transaction)
                return
            except Fenced as error:
                fenced = error  # the transaction in doubt, or another owner, was first


class NoTransactions(Transactions):
    """Transactions that are never committed, for reading a store as its owner would."""

    def gather(self, *operations: Operation) -> None: ...

    def run(self, operation: Operation) -> None: ...
