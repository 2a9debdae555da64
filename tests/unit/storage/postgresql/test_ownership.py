"""The ownership of a store: a killed owner is replaced at once, a silent one after its lease; there are never two."""

from collections.abc import Iterator

import pytest
from pytest import MonkeyPatch

from tests.support.polling import until
from tests.support.postgresql import Cluster
from warren.broker.storage.errors import ConfirmedLost, StorageFault, Unavailable
from warren.broker.storage.folder_lock import InUse
from warren.broker.storage.postgresql import store as store_module
from warren.broker.storage.postgresql.address import Address
from warren.broker.storage.postgresql.database import WATCH
from warren.broker.storage.postgresql.errors import Fenced
from warren.broker.storage.postgresql.operations import quoted
from warren.broker.storage.postgresql.ownership import TOKENS
from warren.broker.storage.postgresql.store import PostgreSQLStore

pytestmark = pytest.mark.sockets


@pytest.fixture
def standby(store: PostgreSQLStore, address: Address) -> Iterator[PostgreSQLStore]:
    """Another broker at the store that the test owns."""
    standby = PostgreSQLStore(address, "warren@other")
    yield standby
    standby.close()


def taken_over(store: PostgreSQLStore) -> bool:
    try:
        return store.acquire() is None
    except StorageFault:  # its session was ended
        return False


def test_another_broker_waits_and_knows_for_whom(store: PostgreSQLStore, standby: PostgreSQLStore) -> None:
    assert store.ownership.epoch // TOKENS == 1
    standing = standby.acquire()
    assert standing is not None and (standing.epoch, standing.node) == (store.ownership.epoch, "warren@test")
    assert standing.age_s is not None and standing.age_s < 5
    with pytest.raises(InUse, match="is in use by another broker \\(warren@test\\)"):
        standby.acquire_now()


def test_it_takes_over_when_the_owner_ends(store: PostgreSQLStore, standby: PostgreSQLStore) -> None:
    assert standby.acquire() is not None
    store.close()
    assert standby.acquire() is None and standby.ownership.epoch // TOKENS == 2


def test_a_standby_takes_over_when_the_session_ends(store: PostgreSQLStore, standby: PostgreSQLStore) -> None:
    assert standby.acquire() is not None
    store.database.close()  # as when the process is killed: its heartbeat is new
    until(lambda: taken_over(standby))
    assert not store.ownership.beat()


def test_a_silent_owner_is_replaced_after_its_lease(store: PostgreSQLStore, address: Address) -> None:
    standby = PostgreSQLStore(address, "warren@other", lease_s=-1)
    assert standby.acquire() is None and standby.ownership.epoch // TOKENS == 2
    assert not store.ownership.beat()
    third = PostgreSQLStore(address, "warren@third")
    standing = third.acquire()
    assert standing is not None and standing.node == "warren@other"
    store.database.close()  # the lock of the former owner counts no more
    assert third.acquire() is not None
    standby.close()
    third.close()


def test_of_several_standbys_one_takes_over(store: PostgreSQLStore, address: Address) -> None:
    standbys = [PostgreSQLStore(address, f"warren@{name}") for name in "abc"]
    assert all(each.acquire() is not None for each in standbys)
    store.close()
    owners = [each for each in standbys if each.acquire() is None]
    assert len(owners) == 1 and owners[0].ownership.epoch // TOKENS == 2
    for each in standbys:
        each.close()


def test_no_trust_after_a_lost_session(store: PostgreSQLStore, standby: PostgreSQLStore, postgresql: Cluster) -> None:
    assert standby.acquire() is not None
    postgresql.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '{store.id}'")
    with pytest.raises(StorageFault):
        standby.acquire()
    assert standby.acquire() is not None, "the owner is about to return"
    until(lambda: returns(store))
    assert standby.acquire() is not None
    store.database.close()
    until(lambda: taken_over(standby))


def test_no_trust_after_a_server_restart(
    store: PostgreSQLStore, standby: PostgreSQLStore, postgresql: Cluster, address: Address
) -> None:
    beat = f"{quoted(address.schema)}.beat"
    store.database.close()  # all locks are free, as after a restart or a failover of the server, whose time is another
    postgresql.execute(f"UPDATE {beat} SET server = server - interval '1 second', beaten = clock_timestamp()")
    assert standby.acquire() is not None, "the owner is about to return"
    assert store.ownership.beat() and standby.acquire() is not None
    store.database.close()
    until(lambda: taken_over(standby))


def test_a_heartbeat_alone_makes_no_trust(
    store: PostgreSQLStore, standby: PostgreSQLStore, postgresql: Cluster, address: Address
) -> None:
    import psycopg

    store.database.close()
    beat = f"{quoted(address.schema)}.beat"
    postgresql.execute(f"UPDATE {beat} SET server = server - interval '1 second', beaten = clock_timestamp()")
    with psycopg.connect(postgresql.conninfo()) as other:
        other.execute("SELECT pg_advisory_lock(%s, %s)", store.ownership._lock_of(store.ownership.epoch))
        assert store.ownership.beat()
    assert standby.acquire() is not None
    assert store.ownership.beat() and standby.acquire() is not None


def returns(store: PostgreSQLStore) -> bool:
    from warren.broker.storage.postgresql.errors import Unreachable

    try:
        return store.ownership.beat()
    except Unreachable:
        return False


def test_a_takeover_ends_open_transactions(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    import psycopg

    disk, _ = store.open()
    disk.append(1, 0, b"data", 0)
    disk.commit()
    name = store.ownership.name(store.ownership.epoch)
    with psycopg.connect(f"{postgresql.conninfo()} application_name='{name}'") as stopped:
        stopped.execute(f'UPDATE "{address.schema}".owner SET commits = commits'.encode())
        standby = PostgreSQLStore(address, "warren@other", lease_s=-1)
        until(lambda: taken_over(standby))
        standby.close()
        with pytest.raises(psycopg.Error):
            stopped.commit()


def test_a_locked_row_delays_a_takeover(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    import psycopg

    standby = PostgreSQLStore(address, "warren@other", lease_s=-1)
    with psycopg.connect(postgresql.conninfo()) as backup:
        backup.execute(f'SELECT 1 FROM "{address.schema}".owner FOR UPDATE'.encode())
        assert standby.acquire() is not None
    assert standby.acquire() is None
    standby.close()


def test_the_commit_of_a_former_owner_is_refused_for_good(store: PostgreSQLStore) -> None:
    with pytest.raises(Fenced):
        store.database.commit(0, store.ownership.epoch - 1, store.ownership.commits + 1, [])
    store.database.commit(0, store.ownership.epoch, store.ownership.commits + 1, [])
    store.database.sync(0)


def test_heartbeats_are_written_during_recovery(postgresql: Cluster, store: PostgreSQLStore, address: Address) -> None:
    postgresql.execute(f"""UPDATE "{address.schema}".beat SET beaten = beaten - interval '1 hour'""")
    assert (store.ownership.standing().age_s or 0) > 3000
    store.open()
    until(lambda: (store.ownership.standing().age_s or 0) < 3000)


def test_an_owner_is_certain_until_its_last_heartbeat_is_older_than_the_lease(address: Address) -> None:
    for lease_s, certain in ((3600.0, True), (-1.0, False)):
        store = PostgreSQLStore(address, "warren@test", lease_s)
        assert store.acquire() is None and store.ownership.certain() is certain
        store.close()


def test_an_owner_waits_for_former_leases(
    postgresql: Cluster, store: PostgreSQLStore, standby: PostgreSQLStore, address: Address
) -> None:
    assert store.ownership.alone(), "the first owner"
    store.database.close()
    until(lambda: taken_over(standby))
    assert standby.ownership.certain() and not standby.ownership.alone()
    standby.close()
    third = PostgreSQLStore(address, "warren@third")
    until(lambda: taken_over(third))
    assert not third.ownership.alone(), "the second owner has ended before the lease of the first one"
    third.database.close()
    postgresql.execute(f"""UPDATE "{address.schema}".beat SET beaten = beaten - interval '1 hour'""")
    fourth = PostgreSQLStore(address, "warren@fourth")
    until(lambda: taken_over(fourth))
    assert fourth.ownership.alone()
    fourth.close()
    fifth = PostgreSQLStore(address, "warren@fifth", -1.0)
    assert fifth.acquire() is None and not fifth.ownership.alone(), "its own lease is over"
    fifth.close()


def test_an_epoch_is_not_used_twice(
    store: PostgreSQLStore, standby: PostgreSQLStore, postgresql: Cluster, address: Address
) -> None:
    former = store.ownership.epoch
    postgresql.execute(f"UPDATE {quoted(address.schema)}.owner SET epoch = 0")
    postgresql.execute(f"UPDATE {quoted(address.schema)}.beat SET epoch = 0, beaten = NULL")
    assert standby.acquire() is None
    assert standby.ownership.epoch // TOKENS == store.ownership.epoch // TOKENS and standby.ownership.epoch != former
    store.database.disconnect(WATCH)
    assert not store.ownership.beat()


def test_a_loss_prevents_a_takeover(
    store: PostgreSQLStore, standby: PostgreSQLStore, postgresql: Cluster, address: Address
) -> None:
    owner = f"{quoted(address.schema)}.owner"
    postgresql.execute(f"UPDATE {owner} SET commits = 5")
    assert standby.acquire() is not None and store.ownership.beat(5) and store.ownership.beat()
    assert standby.acquire() is not None
    postgresql.execute(f"UPDATE {owner} SET commits = 4")  # as after a failover to a server that is behind
    postgresql.execute(f"UPDATE {quoted(address.schema)}.beat SET confirmed = 4")
    assert store.ownership.beat(5)  # before the owner finds out
    with pytest.raises(ConfirmedLost, match="has 4 transactions, and 5 were"):
        standby.acquire()
    store.close()
    new = PostgreSQLStore(address, "warren@new")
    assert new.acquire() is None
    new.close()


@pytest.mark.parametrize("change", ["DELETE FROM {}.beat", "INSERT INTO {}.owner VALUES (1, 1)"])
def test_a_row_that_is_missing_or_there_twice_is_a_fault(
    store: PostgreSQLStore, standby: PostgreSQLStore, postgresql: Cluster, address: Address, change: str
) -> None:
    postgresql.execute(change.format(quoted(address.schema)))
    for look in (standby.acquire, standby.standing):
        with pytest.raises(StorageFault, match="restore them from a backup"):
            look()


@pytest.mark.pure("it shortens a time limit")
def test_commands_give_up_a_takeover(monkeypatch: MonkeyPatch, postgresql: Cluster, address: Address) -> None:
    monkeypatch.setattr(store_module, "TAKEOVER_S", 0.3)
    first, second = (PostgreSQLStore(address, f"warren@{name}") for name in "ab")
    postgresql.set("synchronous_standby_names", "'nobody'")
    try:
        until(lambda: postgresql.execute("SHOW synchronous_standby_names") == [("nobody",)])
        postgresql.execute("CHECKPOINT")  # its process has the setting now, by which commits wait
        with pytest.raises(Unavailable, match="a takeover waits for a synchronous standby server"):
            first.acquire_now()
        monkeypatch.undo()
        with pytest.raises(Unavailable, match="another takeover waits"):
            second.acquire_now()
    finally:
        postgresql.set("synchronous_standby_names", "''")
        first.close()
        second.close()
