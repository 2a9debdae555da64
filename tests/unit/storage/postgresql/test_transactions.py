"""Transactions in order, whatever answers are lost: none twice, none left out, none after another owner."""

import errno
import threading
from collections.abc import Callable, Sequence

import pytest

from tests.support.polling import until
from warren.broker.core.messages.journal_port import EXHAUSTED
from warren.broker.storage.errors import ConfirmedLost
from warren.broker.storage.postgresql.database import Database
from warren.broker.storage.postgresql.errors import Fenced, Refused, Unreachable
from warren.broker.storage.postgresql.operations import DeleteRecord, DropSegment, Operation
from warren.broker.storage.postgresql.transactions import NOT_OWNER, UNREACHABLE, Transaction, Transactions

ONE, TWO, THREE = (DeleteRecord(kind, b"") for kind in ("one", "two", "three"))


class FakeServer(Database):
    """A server that commits to a list; `faults` are taken before or after each commit, one by one."""

    def __init__(self) -> None:
        self.epoch, self.commits = 1, 0
        self.log: list[list[Operation]] = []
        self.faults: list[str] = []
        self.away = False
        self.syncing = threading.Event()  # syncs may end
        self.syncing.set()
        self.waiting: list[int] = []  # sessions of those that have not
        self.lost = False
        self.late: Callable[[], None] | None = None  # a commit of a lost session that is still under way

    def commit(self, session: int, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if self.away or fault == "lost":
            raise Unreachable("lost")
        if fault == "late":
            self.late = lambda: self._apply(epoch, number, operations)
            raise Unreachable("no answer yet")
        if fault == "full":
            raise Refused("no space", "53100")
        if fault == "cancelled":
            raise Refused("canceling statement due to user request", "57014")
        if fault == "broken":
            raise Refused("what is this", "42601")
        if self.late is not None:
            self.late, late = None, self.late
            late()
        self._apply(epoch, number, operations)
        if fault == "no answer":
            raise Unreachable("no answer")

    def _apply(self, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        if (epoch, number) != (self.epoch, self.commits + 1):
            raise Fenced("not null")
        self.commits = number
        self.log.append(list(operations))

    def sync(self, session: int) -> None:
        self.waiting.append(session)
        assert self.syncing.wait(10), "nobody lets it end"
        self.waiting.remove(session)
        if self.lost:
            raise Unreachable("lost")

    def owner(self) -> tuple[int, int]:
        assert not self.waiting, "it is read while syncs are under way"
        if self.away:
            raise Unreachable("away")
        self.lost = False
        return self.epoch, self.commits


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def begun(server: FakeServer, transactions: Transactions, operation: Operation) -> threading.Thread:
    """Commit an operation from a thread, and return when its transaction was sent and waits for its sync."""
    transactions.gather(operation)
    thread = threading.Thread(target=transactions.commit, daemon=True)
    thread.start()
    until(lambda: [operation] in server.log and server.waiting, "the transaction is sent")
    return thread


def ended(server: FakeServer, threads: list[threading.Thread]) -> None:
    server.syncing.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def transactions(server: FakeServer, now: list[float]) -> Transactions:
    return Transactions(server, 1, 0, 30.0, lambda: now[0])


def test_what_gathered_is_one_transaction(server: FakeServer, transactions: Transactions) -> None:
    transactions.gather(ONE)
    transactions.gather(TWO)
    transactions.commit()
    transactions.commit()
    assert server.log == [[ONE, TWO]]


@pytest.mark.parametrize(
    ("faults", "log"),
    [(["lost"], [[ONE]]), (["no answer"], [[ONE], []]), (["late"], [[ONE], []]), (["lost", "late"], [[ONE], []])],
)
def test_a_commit_without_an_answer_is_settled_at_once(
    server: FakeServer, transactions: Transactions, faults: list[str], log: list[list[Operation]]
) -> None:
    server.faults = faults
    transactions.gather(ONE)
    try:
        transactions.commit()
    except OSError as error:
        assert error.errno == UNREACHABLE
        transactions.commit()
    transactions.gather(TWO)
    transactions.commit()
    assert server.log == [*log, [TWO]]


def test_an_unreachable_server_is_tried_again(server: FakeServer, transactions: Transactions) -> None:
    server.away = True
    transactions.gather(ONE)
    for _ in range(3):
        with pytest.raises(OSError) as failed:
            transactions.commit()
        assert failed.value.errno in EXHAUSTED and transactions.failing
        transactions.gather(TWO)
    server.away = False
    transactions.commit()
    assert not transactions.failing and transactions.since_s is None
    assert server.log == [[ONE], [TWO, TWO, TWO]]


def test_it_gives_up_in_time(server: FakeServer, transactions: Transactions, now: list[float]) -> None:
    server.away = True
    transactions.gather(ONE)
    numbers = []
    for now[0] in (0.0, 29.0, 31.0):
        with pytest.raises(OSError) as failed:
            transactions.commit()
        numbers.append(failed.value.errno)
    assert numbers == [UNREACHABLE, UNREACHABLE, errno.EIO]
    assert "could not be reached for 30 s" in str(failed.value)


@pytest.mark.parametrize(
    ("fault", "number"), [("full", errno.ENOSPC), ("cancelled", UNREACHABLE), ("broken", errno.EIO)]
)
def test_a_rollback_is_a_disk_error(server: FakeServer, transactions: Transactions, fault: str, number: int) -> None:
    server.faults = [fault]
    transactions.gather(ONE)
    with pytest.raises(OSError) as failed:
        transactions.commit()
    assert failed.value.errno == number
    transactions.commit()
    assert server.log == [[ONE]]


@pytest.mark.parametrize("fault", ["", "no answer", "late", "lost"])
def test_after_another_owner_nothing_is_committed(server: FakeServer, transactions: Transactions, fault: str) -> None:
    server.faults = [fault]
    transactions.gather(ONE)
    server.epoch = 2
    for _ in range(2):
        with pytest.raises(OSError) as failed:
            transactions.commit()
        assert failed.value.errno == NOT_OWNER
    assert server.log == []


def test_a_server_that_has_lost_transactions_is_noticed(server: FakeServer, transactions: Transactions) -> None:
    transactions.gather(ONE)
    transactions.commit()
    server.commits, server.faults = 0, ["lost"]
    transactions.gather(TWO)
    with pytest.raises(OSError) as failed:
        transactions.commit()
    error = failed.value
    assert isinstance(error, ConfirmedLost) and (error.stored, error.confirmed) == (0, 1)


def test_a_shorter_history_is_noticed_after_a_takeover(server: FakeServer, transactions: Transactions) -> None:
    transactions.gather(ONE)
    transactions.commit()
    server.epoch, server.commits = 2, 0
    transactions.gather(TWO)
    with pytest.raises(ConfirmedLost):
        transactions.commit()


@pytest.mark.parametrize("fault", ["lost", "no answer", "late"])
def test_a_single_operation_is_committed(server: FakeServer, transactions: Transactions, fault: str) -> None:
    transactions.gather(ONE)
    server.faults = ["", fault]
    transactions.commit()
    transactions.run(DropSegment(7))
    transactions.gather(TWO)
    transactions.commit()
    done = [each for each in server.log if each]
    assert done[0] == [ONE] and done[-1] == [TWO] and set(map(repr, done[1:-1])) == {repr([DropSegment(7)])}


def test_an_operation_by_itself_that_failed_is_forgotten(server: FakeServer, transactions: Transactions) -> None:
    """A checkpoint for which there is no room is not held until there is, beside the next one."""
    transactions.gather(ONE)
    for _ in range(3):
        server.faults = ["full"]
        with pytest.raises(OSError) as failed:
            transactions.run(TWO)
        assert failed.value.errno == errno.ENOSPC
    transactions.run(THREE)
    transactions.commit()
    assert server.log == [[THREE], [ONE]]


def test_a_transaction_begins_before_the_one_before_is_certain(server: FakeServer, transactions: Transactions) -> None:
    server.syncing.clear()
    threads = [begun(server, transactions, operation) for operation in (ONE, TWO)]
    assert server.log == [[ONE], [TWO]] and len(set(server.waiting)) == 2
    assert all(thread.is_alive() for thread in threads), "nothing is certain yet"
    ended(server, threads)


def test_operations_gather_while_every_session_waits(server: FakeServer, transactions: Transactions) -> None:
    server.syncing.clear()
    threads = [begun(server, transactions, DeleteRecord(str(number), b"")) for number in range(server.sessions)]
    transactions.gather(ONE)
    threads.append(threading.Thread(target=transactions.commit, daemon=True))
    threads[-1].start()
    transactions.gather(TWO)
    assert len(server.waiting) == server.sessions
    ended(server, threads)
    assert server.log[server.sessions :] == [[ONE, TWO]]


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_what_a_failover_has_undone_is_sent_again(server: FakeServer, transactions: Transactions, kept: int) -> None:
    server.syncing.clear()
    threads = [begun(server, transactions, operation) for operation in (ONE, TWO)]
    server.commits = kept
    del server.log[kept:]
    server.lost = True
    ended(server, threads)
    transactions.gather(THREE)
    transactions.commit()
    assert [each for each in server.log if each] == [[ONE], [TWO], [THREE]]


def test_a_failed_call_settles_doubtful_transactions(server: FakeServer, transactions: Transactions) -> None:
    server.syncing.clear()
    transactions.gather(ONE)
    failures: list[int | None] = []

    def fail() -> None:
        with pytest.raises(OSError) as failed:
            transactions.commit()
        failures.append(failed.value.errno)

    thread = threading.Thread(target=fail, daemon=True)
    thread.start()
    until(lambda: server.waiting, "the transaction is sent")
    server.lost = server.away = True
    transactions._note_certain(Transaction(1, [ONE], 1))  # by the sync of another thread
    ended(server, [thread])
    server.away = False
    assert failures == [UNREACHABLE] and transactions.failing
    transactions.commit()
    assert not transactions.failing
