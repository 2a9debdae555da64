"""The watch of an owner: what it reports of the server, when it gives up, and that it can be stopped."""

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.postgresql import Cluster
from warren.broker.storage.errors import ConfirmedLost
from warren.broker.storage.postgresql import watch as watch_module
from warren.broker.storage.postgresql.address import Address
from warren.broker.storage.postgresql.errors import Refused, Unreachable
from warren.broker.storage.postgresql.operations import quoted
from warren.broker.storage.postgresql.store import PostgreSQLStore
from warren.broker.storage.postgresql.transactions import NOT_OWNER
from warren.broker.storage.postgresql.watch import DISK_FULL, GUARANTEE_BEATS, STALL_S, Watch

RETRY_S = 30.0


class FakeStore:
    """A store whose server has a fault: what `fault` raises or returns when the heartbeat is written."""

    def __init__(self) -> None:
        self.fault: Callable[[], bool] = lambda: True
        self.ownership = SimpleNamespace(beat=lambda certain: self.fault(), committed=lambda: 7)
        self.database = SimpleNamespace(connect=lambda purpose: None, abandon=lambda purposes: None)
        self.transactions = SimpleNamespace(failing=False, since_s=None, certain=7)


class Server:
    """A watch over such a store, on a clock at `now_s`. `reasons` and `errors` are those that it has reported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = FakeStore()
        self.now_s = 100.0
        self.looks = 0
        self.reasons: list[str] = []
        self.errors: list[Exception] = []
        monkeypatch.setattr(watch_module.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(watch_module.durability, "read", self.look)
        store = cast(PostgreSQLStore, self.store)
        self.watch = Watch(store, RETRY_S, self.reasons.append, self.errors.append)

    def look(self, database: object) -> None:
        self.looks += 1

    def fail(self, error: Exception) -> None:
        def fault() -> bool:
            raise error

        self.store.fault = fault


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def test_it_stops_between_two_heartbeats(server: Server) -> None:
    server.watch.start()
    server.watch.stop()
    assert not server.watch._thread.is_alive() and not server.errors


def test_the_loss_of_the_store_is_reported_once_and_ends_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "BEAT_S", 0)
    answers = iter([True, True, False])
    server.store.fault = lambda: next(answers)
    server.watch.start()
    server.watch._thread.join()
    (error,) = server.errors
    assert isinstance(error, OSError) and error.errno == NOT_OWNER and server.reasons == ["", ""]


def test_the_settings_of_the_server_are_read_at_some_heartbeats(server: Server) -> None:
    for beats in range(2 * GUARANTEE_BEATS):
        assert server.looks == -(-beats // GUARANTEE_BEATS)
        assert server.watch._beat() == ""


def test_a_server_that_is_away_is_tried_again_for_a_time_that_begins_anew_when_it_was_back(server: Server) -> None:
    for _ in range(2):
        server.fail(Unreachable("refused"))
        for now_s in (0, RETRY_S):
            server.now_s += now_s
            assert server.watch._beat() == "PostgreSQL cannot be reached: refused"
        server.store.fault = lambda: True
        assert server.watch._beat() == ""
    server.fail(Unreachable("refused"))
    server.watch._beat()
    server.now_s += RETRY_S + 1
    with pytest.raises(OSError, match="for 30 s") as raised:
        server.watch._beat()
    assert raised.value.errno == errno.EIO


def test_a_full_disk_of_the_server_is_left_to_the_commits(server: Server) -> None:
    server.fail(Refused("full", DISK_FULL))
    assert server.watch._beat() == ""
    server.fail(Refused("gone", "57P01"))
    assert server.watch._beat() == "PostgreSQL cannot be reached: gone"


def test_commits_that_fail_or_wait_for_long_are_a_reason(server: Server) -> None:
    server.store.transactions.since_s = server.now_s - STALL_S
    assert server.watch._beat() == ""
    server.now_s += 1
    assert server.watch._beat() == "PostgreSQL does not commit, maybe for want of a synchronous standby"
    server.store.transactions.failing = True
    assert server.watch._beat() == "PostgreSQL cannot be reached"


def never(value: object) -> None:
    raise AssertionError(value)


@pytest.mark.sockets
def test_an_idle_broker_notices_losses(store: PostgreSQLStore, postgresql: Cluster, address: Address) -> None:
    disk, _ = store.open()
    watch = Watch(store, 30.0, never, never)
    for number in (1, 2):
        disk.append(number, 0, b"data", 0)
        disk.commit()
    assert watch._beat() == ""
    postgresql.execute(f"UPDATE {quoted(address.schema)}.owner SET commits = 1")
    with pytest.raises(ConfirmedLost) as lost:
        watch._beat()
    assert (lost.value.stored, lost.value.confirmed) == (1, 2)
