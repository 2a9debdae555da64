"""The log in tables: what is committed, what can be read, what a former owner can still do."""

import errno

import pytest

from tests.support.journal import commit, new_message
from tests.support.postgresql import Cluster
from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage.journal import Journal
from warren.broker.storage.postgresql.address import Address
from warren.broker.storage.postgresql.operations import ROW_BYTES
from warren.broker.storage.postgresql.store import PostgreSQLStore
from warren.broker.storage.postgresql.transactions import NOT_OWNER

pytestmark = pytest.mark.sockets


def successor(address: Address) -> PostgreSQLStore:
    """Take the store over from an owner that shows no sign of life."""
    store = PostgreSQLStore(address, "warren@other", lease_s=-1)
    assert store.acquire() is None
    return store


def test_what_is_synced_is_what_the_next_owner_reads(store: PostgreSQLStore, address: Address) -> None:
    disk, _ = store.open()
    parts = [b"one", b"2" * (2 * ROW_BYTES + 5), b"", b"three"]
    whole = b""
    for part in parts:
        disk.append(7, len(whole), part, 0)
        whole += part
    disk.sync(0)
    store.close()
    after = successor(address)
    disk, _ = after.open()
    assert disk.segments() == {7: len(whole)} and disk.read(7, 0, len(whole)) == whole
    after.close()


@pytest.mark.parametrize(
    ("offset", "count"),
    [(0, 1), (2, 3), (0, 100), (5, ROW_BYTES), (ROW_BYTES - 1, 2), (ROW_BYTES + 4, 10), (3, 0), (3, -1), (1 << 40, 5)],
)
def test_any_range_can_be_read(store: PostgreSQLStore, offset: int, count: int) -> None:
    disk, _ = store.open()
    whole = bytes(range(256)) * (ROW_BYTES // 256 + 1)
    for start in (0, 3, 4):
        end = {0: 3, 3: 4, 4: len(whole)}[start]
        disk.append(1, start, whole[start:end], 0)
    disk.sync(0)
    assert disk.read(1, offset, count) == whole[offset : offset + max(count, 0)]


def test_the_bytes_of_a_missing_row_are_zero(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    """They are damage then, and those behind them are not."""
    disk, _ = store.open()
    for at, part in ((0, b"one"), (3, b"two"), (6, b"three")):
        disk.append(1, at, part, 0)
        disk.sync(0)
    postgresql.execute(f'DELETE FROM "{address.schema}".segment_1 WHERE "offset" = 3')
    assert disk.segments() == {1: 11}
    assert [disk.read(1, *part) for part in ((0, 11), (2, 3), (4, 1), (5, 6))] == [
        b"one\0\0\0three", b"e\0\0", b"\0", b"\0three"
    ]  # fmt: skip


def test_a_table_with_a_long_number_is_none(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    disk, _ = store.open()
    postgresql.execute(f'CREATE TABLE "{address.schema}".segment_99999999999 ("offset" bigint, data bytea)')
    assert disk.segments() == {}


def test_a_start_needs_no_temporary_file(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    """A full disk has no room for it, and only a broker that runs can free that."""
    disk, metadata = store.open()
    data = bytes(range(256)) * (6 * ROW_BYTES // 256)
    disk.append(1, 0, data, 0)
    disk.sync(0)
    disk.save_checkpoint(data)
    names = [f"queue {number}" for number in range(100)]
    metadata.apply([Change(True, StoredQueue("/", name, n, False, bytes(100_000))) for n, name in enumerate(names, 1)])
    disk.commit()
    store.close()
    postgresql.set("temp_file_limit", "0")
    try:
        after = successor(address)
        disk, metadata = after.open()
        assert disk.read(1, 0, len(data)) == disk.load_checkpoint() == data
        assert [queue.name for queue in metadata.load().queues] == names
        after.close()
    finally:
        postgresql.set("temp_file_limit", "-1")


def tables_of(postgresql: Cluster, address: Address) -> set[object]:
    return {
        name for (name,) in postgresql.execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{address.schema}'")
    }


def test_a_dropped_segment_leaves_nothing(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    before = tables_of(postgresql, address)
    disk, _ = store.open()
    assert disk.load_checkpoint() is None
    for saved in (b"1" * (ROW_BYTES + 1), b"2"):
        disk.save_checkpoint(saved)
        assert disk.load_checkpoint() == saved
    for number in (9, 10):
        disk.append(number, 0, b"data", 0)
    disk.sync(0)
    assert disk.segments() == {9: 4, 10: 4} and list(disk.segments()) == [9, 10]
    assert disk.drop([9, 10, 11]) == []
    assert disk.segments() == {} and tables_of(postgresql, address) == before
    assert disk.read(9, 0, 4) == b""


def test_a_used_segment_is_dropped_later(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    import psycopg

    disk, _ = store.open()
    for number in (1, 2):
        disk.append(number, 0, b"data", 0)
    disk.sync(0)
    with psycopg.connect(postgresql.conninfo()) as backup:
        backup.execute(f'SELECT * FROM "{address.schema}".segment_1'.encode())
        assert disk.drop([1, 2]) == [1] and disk.segments() == {1: 4}
        disk.save_checkpoint(b"state")
    assert disk.drop([1]) == [] and disk.segments() == {}


def test_a_segment_that_was_not_dropped_is_dropped_by_the_next_owner(store: PostgreSQLStore, address: Address) -> None:
    """The former one was killed between the checkpoint and the drop: nothing else says that it is dead."""
    disk, metadata = store.open()
    metadata.apply([Change(True, StoredQueue("/", "q", 1, False, b""))])
    journal = Journal(disk, metadata, 2000)
    journal.recover()
    messages = [new_message(b"%d" % number * 300) for number in range(10)]
    for each in messages:
        journal.append([1], [each])
        commit(journal)
    for each in messages:
        journal.settle(1, each.id)
    disk.drop = list  # type: ignore[method-assign, assignment]
    commit(journal)
    assert len(disk.segments()) > 2
    after = successor(address)
    disk, metadata = after.open()
    journal = Journal(disk, metadata, 2000)
    assert journal.recover({1}) == {}
    journal.append([1], [new_message(b"next")])
    commit(journal)
    assert list(disk.segments()) == [max(journal.segments)]
    after.close()


def test_a_transaction_has_all_or_nothing(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    disk, metadata = store.open()
    disk.append(1, 0, b"data", 0)
    disk.commit()
    postgresql.execute(f'DROP TABLE "{address.schema}".records')
    disk.append(2, 0, b"more", 0)
    metadata.apply([Change(True, StoredQueue("/", "q", 1, False, b""))])
    with pytest.raises(OSError, match="records") as failed:
        disk.commit()
    assert failed.value.errno == errno.EIO
    assert disk.segments() == {1: 4}


def test_a_former_owner_commits_nothing(store: PostgreSQLStore, address: Address) -> None:
    disk, metadata = store.open()
    disk.append(1, 0, b"data", 0)
    disk.commit()
    after = successor(address)
    disk.append(2, 0, b"late", 0)
    metadata.apply([Change(True, StoredQueue("/", "late", 1, False, b""))])
    for _ in range(2):
        with pytest.raises(OSError) as failed:
            disk.commit()
        assert failed.value.errno == NOT_OWNER
    for call in (lambda: disk.drop([1]), lambda: disk.save_checkpoint(b"late")):
        with pytest.raises(OSError) as failed:
            call()
        assert failed.value.errno == NOT_OWNER
    next_disk, next_metadata = after.open()
    assert next_disk.segments() == {1: 4} and next_metadata.load().queues == []
    assert next_disk.load_checkpoint() is None
    next_disk.append(2, 0, b"good", 0)
    next_disk.commit()
    assert next_disk.read(2, 0, 4) == b"good"
    after.close()


def test_a_lost_session_is_replaced(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    disk, _ = store.open()
    for at, part in ((0, b"one"), (3, b"two")):
        disk.append(1, at, part, 0)
        disk.commit()
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'warren%'"
        )
    store.database.disconnect("reads")
    store.database.connect("reads")
    assert disk.read(1, 0, 10) == b"onetwo"
