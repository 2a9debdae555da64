"""Metadata in a database: the same records as in a file come back."""

import pytest

from tests.unit.storage.test_sqlite_metadata import NAMES, all_fields, deletes, everything, fields, puts
from warren.broker.core.metadata.records import StoredBinding, StoredPermission, StoredQueue, StoredUser
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.postgresql.address import Address
from warren.broker.storage.postgresql.store import PostgreSQLStore

pytestmark = pytest.mark.sockets


def test_all_that_is_put_comes_back_whatever_its_name(store: PostgreSQLStore) -> None:
    disk, metadata = store.open()
    records = [record for number, name in enumerate(NAMES, 1) for record in everything(name, number)]
    metadata.apply(puts(records))
    disk.commit()
    _, again = store.open()
    found = again.load()
    assert sorted(all_fields(found), key=repr) == sorted(map(fields, records), key=repr)
    assert [vhost.name for vhost in found.vhosts] == NAMES, "not in the order in which they were made"
    assert type(found.exchanges[0].durable) is bool and type(found.queues[0].auto_delete) is bool
    assert found.next_queue == len(NAMES) + 1


def test_what_is_put_again_is_changed(store: PostgreSQLStore) -> None:
    disk, metadata = store.open()
    metadata.apply(puts([StoredUser("u", b"old", ("a",)), StoredPermission("u", "/", "", "", "")]))
    metadata.apply(puts([StoredUser("u", b"new", ()), StoredPermission("u", "/", "c", "w", "r")]))
    disk.commit()
    found = metadata.load()
    assert [user.password_hash for user in found.users] == [b"new"]
    assert [permission.read for permission in found.permissions] == ["r"]


@pytest.mark.parametrize("kind", range(10))
def test_a_delete_takes_a_record_or_a_whole_virtual_host(store: PostgreSQLStore, kind: int) -> None:
    disk, metadata = store.open()
    records = everything("one", 1) + everything("two", 2)
    metadata.apply(puts(records))
    metadata.apply(deletes([records[kind]]))
    disk.commit()
    left = [record for record in records if record is not records[kind]]
    if kind == 0:
        left = [record for record in left if getattr(record, "vhost", "") != "one"]
    assert sorted(all_fields(metadata.load()), key=repr) == sorted(map(fields, left), key=repr)


def test_numbers_of_queues_are_not_used_again(store: PostgreSQLStore) -> None:
    disk, metadata = store.open()
    queue = StoredQueue("/", "q", 41, False, b"")
    metadata.apply(puts([queue]))
    metadata.apply(deletes([queue]))
    disk.commit()
    assert store.open()[1].load().next_queue == 42


def test_a_table_of_arguments_may_be_long(store: PostgreSQLStore) -> None:
    disk, metadata = store.open()
    bindings = [StoredBinding("/", "e", "queue", "q", "k", bytes([byte]) * 100_000) for byte in (1, 2)]
    metadata.apply(puts([*bindings]))
    disk.commit()
    assert [binding.arguments for binding in metadata.load().bindings] == [each.arguments for each in bindings]


def test_damage_is_one_line(store: PostgreSQLStore, address: Address) -> None:
    disk, metadata = store.open()
    metadata.apply(puts([StoredUser("u", b"h", ())]))
    disk.commit()
    store.database.run("reads", [(f"UPDATE \"{address.schema}\".records SET record = '{{}}'", ())])
    with pytest.raises(StorageFault, match="damaged"):
        metadata.load()
