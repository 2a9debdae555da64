"""The files of the log in tables: what is committed, what can be read, what a former owner can still do."""

from __future__ import annotations

import errno

import pytest

from tests.support.postgresql import Cluster
from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage.disk import contents
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
    file = disk.open("a", True)
    parts = [b"one", b"2" * (2 * ROW_BYTES + 5), b"", b"three"]
    for part in parts:
        file.write(part)
    file.sync()
    assert file.size == len(b"".join(parts))
    store.close()
    after = successor(address)
    disk, _ = after.open()
    assert disk.names() == ["a"] and disk.open("a", False).size == file.size
    assert contents(disk, "a") == b"".join(parts)
    after.close()


@pytest.mark.parametrize(
    ("offset", "count"),
    [(0, 1), (2, 3), (0, 100), (5, ROW_BYTES), (ROW_BYTES - 1, 2), (ROW_BYTES + 4, 10), (3, 0), (3, -1), (1 << 40, 5)],
)
def test_any_range_can_be_read(store: PostgreSQLStore, offset: int, count: int) -> None:
    disk, _ = store.open()
    file = disk.open("a", True)
    whole = bytes(range(256)) * (ROW_BYTES // 256 + 1)
    for start in (0, 3, 4):
        end = {0: 3, 3: 4, 4: len(whole)}[start]
        file.write(whole[start:end])
    file.sync()
    assert file.read(offset, count) == whole[offset : offset + max(count, 0)]


def test_a_start_needs_no_temporary_file(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    """A full disk has no room for it, and only a broker that runs can free that."""
    disk, metadata = store.open()
    data = bytes(range(256)) * (6 * ROW_BYTES // 256)
    file = disk.open("a", True)
    file.write(data)
    file.sync()
    names = [f"queue {number}" for number in range(100)]
    metadata.apply([Change(True, StoredQueue("/", name, n, False, bytes(100_000))) for n, name in enumerate(names, 1)])
    disk.commit()
    store.close()
    postgresql.set("temp_file_limit", "0")
    try:
        after = successor(address)
        disk, metadata = after.open()
        assert contents(disk, "a") == data and [queue.name for queue in metadata.load().queues] == names
        after.close()
    finally:
        postgresql.set("temp_file_limit", "-1")


def test_a_file_can_be_opened_before_it_is_committed(store: PostgreSQLStore) -> None:
    disk, _ = store.open()
    disk.open("a", True).write(b"data")
    with pytest.raises(FileExistsError):
        disk.open("a", True)
    assert disk.open("a", False).size == 4
    with pytest.raises(FileNotFoundError):
        disk.open("b", False)


def test_files_are_cut_renamed_and_removed(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    disk, _ = store.open()
    for name in ("a", "b", "c"):
        file = disk.open(name, True)
        for part in (b"12345", b"67890", b"abcde"):
            file.write(part)
    disk.commit()
    disk.open("a", False).truncate(7)
    disk.open("b", False).truncate(10)
    disk.rename("a", "c")
    file = disk.open("c", False)
    file.write(b"xy")
    disk.remove("b")
    disk.sync_folder()
    assert disk.names() == ["c"] and file.read(0, 100) == b"1234567xy"
    with pytest.raises(FileNotFoundError):
        disk.remove("b")
    tables = postgresql.execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{address.schema}'")
    assert sum(str(name).startswith("file_") for (name,) in tables) == 1


def test_a_table_that_is_in_use_is_dropped_later(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    import psycopg

    disk, _ = store.open()
    disk.open("a", True).write(b"data")
    disk.sync_folder()
    with psycopg.connect(postgresql.conninfo()) as backup:
        backup.execute(f'SELECT * FROM "{address.schema}".file_1'.encode())
        disk.remove("a")
        disk.sync_folder()
        assert disk.names() == [] and store.database.tables() == [1]
    disk.sync_folder()
    assert store.database.tables() == []


def test_a_transaction_has_all_or_nothing(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    disk, metadata = store.open()
    disk.open("a", True).write(b"data")
    disk.commit()
    postgresql.execute(f'DROP TABLE "{address.schema}".records')
    disk.open("b", True).write(b"more")
    metadata.apply([Change(True, StoredQueue("/", "q", 1, False, b""))])
    with pytest.raises(OSError, match="records") as failed:
        disk.commit()
    assert failed.value.errno == errno.EIO
    assert [file.name for file in store.database.files()] == ["a"]


def test_a_former_owner_commits_nothing(store: PostgreSQLStore, address: Address) -> None:
    disk, metadata = store.open()
    disk.open("a", True).write(b"data")
    disk.commit()
    after = successor(address)
    disk.open("b", True).write(b"late")
    metadata.apply([Change(True, StoredQueue("/", "late", 1, False, b""))])
    for _ in range(2):
        with pytest.raises(OSError) as failed:
            disk.commit()
        assert failed.value.errno == NOT_OWNER
    next_disk, next_metadata = after.open()
    assert next_disk.names() == ["a"] and next_metadata.load().queues == []
    next_disk.open("b", True).write(b"good")
    next_disk.commit()
    assert contents(next_disk, "b") == b"good"
    after.close()


def test_a_lost_session_is_replaced(store: PostgreSQLStore, address: Address, postgresql: Cluster) -> None:
    disk, _ = store.open()
    file = disk.open("a", True)
    for part in (b"one", b"two"):
        file.write(part)
        disk.commit()
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'warren%'"
        )
    store.database.disconnect("reads")
    store.database.connect("reads")
    assert file.read(0, 10) == b"onetwo"
