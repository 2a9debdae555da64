"""Sessions that are lost: a read replaces its own, and waits for no other thread that connects."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.support.polling import until
from tests.support.postgresql import Cluster
from warren.broker.storage.postgresql import session as session_module
from warren.broker.storage.postgresql.address import Address
from warren.broker.storage.postgresql.database import READS, PostgreSQL
from warren.broker.storage.postgresql.errors import Unreachable
from warren.broker.storage.postgresql.operations import Statement
from warren.broker.storage.postgresql.store import PostgreSQLStore


class FakeSession:
    """A session that answers `data`, unless it is `lost`. New ones connect when `reachable` is set."""

    opened: list[FakeSession]
    reachable = threading.Event()
    connecting = threading.Event()

    def __init__(self, *arguments: object) -> None:
        self.connecting.set()
        if not self.reachable.wait(10):
            raise Unreachable("no answer")
        self.lost = self.closed = False
        self.opened.append(self)

    def run(self, statements: Sequence[Statement], limit_s: float | None, binary: bool) -> list[list[list[bytes]]]:
        if self.lost:
            raise Unreachable("the server closed the connection")
        return [[[bytes(8), b"data"]]]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> PostgreSQL:
    monkeypatch.setattr(session_module, "Session", FakeSession)
    FakeSession.opened = []
    FakeSession.reachable.set()
    FakeSession.connecting.clear()
    database = PostgreSQL(Address("", "", "warren"), "test")
    database.connect(READS)
    return database


def test_a_session_that_the_server_closed_is_replaced_within_the_read(database: PostgreSQL) -> None:
    FakeSession.opened[0].lost = True
    assert database.read(1, 0, 4) == b"data"
    assert [each.closed for each in FakeSession.opened] == [True, False]


def test_reads_fail_at_once_while_another_thread_connects(database: PostgreSQL) -> None:
    FakeSession.reachable.clear()
    FakeSession.opened[0].lost = True
    with pytest.raises(Unreachable):
        database.read(1, 0, 4)  # a server that does not answer, for which another thread waits
    assert FakeSession.connecting.is_set()
    watch = threading.Thread(target=database.connect, args=(READS,), daemon=True)
    watch.start()
    for _ in range(100):  # with the wait of a read each, this would take ten seconds
        with pytest.raises(Unreachable):
            database.read(1, 0, 4)
    FakeSession.reachable.set()
    watch.join(10)
    until(lambda: len(FakeSession.opened) == 3, "both have connected")
    until(lambda: [each.closed for each in FakeSession.opened].count(False) == 1, "one of the two sessions is closed")
    assert database.read(1, 0, 4) == b"data"


@pytest.mark.sockets
def test_a_read_survives_the_end_of_its_session(store: PostgreSQLStore, postgresql: Cluster) -> None:
    disk, _ = store.open()
    disk.append(1, 0, b"data", 0)
    disk.commit()
    postgresql.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '{store.id}'")
    assert disk.read(1, 0, 4) == b"data"
