"""The schema of a store: created once, checked at each start, with one line about what is wrong."""

import pytest
from pytest import CaptureFixture

from tests.support.postgresql import Cluster
from warren.broker.storage.doctor import DAMAGED_STATUS, NOTHING_STATUS, UNAVAILABLE_STATUS, examine_url
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.postgresql import commands
from warren.broker.storage.postgresql.address import Address, parse
from warren.broker.storage.postgresql.schema import VERSION
from warren.broker.storage.postgresql.store import PostgreSQLStore, create

pytestmark = pytest.mark.sockets


def fault_of(address: Address) -> str:
    with pytest.raises(StorageFault) as fault:
        PostgreSQLStore(address, "warren@test")
    assert "\n" not in str(fault.value)
    return str(fault.value)


def test_it_is_created_once(address: Address) -> None:
    assert not create(address)
    ids = {PostgreSQLStore(address, "warren@test").id for _ in range(2)}
    assert len(ids) == 1 and len(ids.pop()) == 16


def test_a_schema_that_is_not_there_is_named(postgresql: Cluster) -> None:
    assert "there is no schema missing; `warren store init URL` creates it" in fault_of(
        parse(postgresql.url(), schema="missing")
    )


def test_tables_of_something_else_are_left_alone(postgresql: Cluster) -> None:
    postgresql.execute("CREATE SCHEMA shop")
    address = parse(postgresql.url(), schema="shop")
    assert "it has no store" in fault_of(address)
    postgresql.execute("CREATE TABLE shop.store (name text)")
    assert "its tables are not those of a broker" in fault_of(address)
    with pytest.raises(StorageFault, match="its tables are not those of a broker"):
        create(address)


def test_a_later_version_is_refused(postgresql: Cluster, address: Address) -> None:
    postgresql.execute(f'UPDATE "{address.schema}".store SET version = 99')
    assert f"written by a later version of the broker (schema 99, this one knows {VERSION})" in fault_of(address)
    with pytest.raises(StorageFault, match="written by a later version"):
        create(address)


def test_a_server_that_only_reads_is_refused(postgresql: Cluster, address: Address) -> None:
    read_only = parse(
        f"{postgresql.url()}?options=-cdefault_transaction_read_only%3Don&target_session_attrs=any",
        schema=address.schema,
    )
    assert "the server is read-only" in fault_of(read_only)


@pytest.mark.parametrize("url", ["postgresql://u@127.0.0.1:1/db", "postgresql://u@127.0.0.1:1,127.0.0.1:1/db"])
def test_a_server_that_is_not_there_is_one_line(url: str) -> None:
    assert "Connection refused" in fault_of(parse(url))


def test_a_role_with_rights_on_one_schema_is_enough(postgresql: Cluster) -> None:
    postgresql.execute("CREATE ROLE tenant LOGIN")
    postgresql.execute("CREATE SCHEMA tenant AUTHORIZATION tenant")
    address = parse(postgresql.url(user="tenant"), schema="tenant")
    assert create(address)
    store = PostgreSQLStore(address, "warren@test")
    assert store.acquire() is None
    disk, metadata = store.open()
    disk.append(1, 0, b"data", 0)
    disk.sync(0)
    disk.save_checkpoint(b"state")
    assert disk.read(1, 0, 4) == b"data" and disk.load_checkpoint() == b"state" and metadata.load().empty
    assert disk.drop([1]) == [] and disk.segments() == {}
    store.close()


def test_missing_rights_are_named(postgresql: Cluster, address: Address) -> None:
    postgresql.execute("CREATE ROLE guest LOGIN")
    stranger = parse(postgresql.url(user="guest"), schema=address.schema)
    assert "the role may not create tables in it, or not use it" in fault_of(stranger)
    postgresql.execute(f'GRANT ALL ON SCHEMA "{address.schema}" TO guest')
    assert "permission denied for table store" in fault_of(stranger)
    postgresql.execute(f'GRANT ALL ON "{address.schema}".store TO guest')
    assert "owner: the role lacks the right to SELECT, INSERT, UPDATE, DELETE" in fault_of(stranger)
    with pytest.raises(StorageFault, match="permission denied for database"):
        create(parse(postgresql.url(user="guest"), schema="of guest"))


def test_missing_rights_and_tables_fail(postgresql: Cluster, address: Address, capsys: CaptureFixture[str]) -> None:
    schema = address.schema
    postgresql.execute("CREATE ROLE reader LOGIN")
    postgresql.execute(f'GRANT ALL ON SCHEMA "{schema}" TO reader')
    postgresql.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO reader')
    url = postgresql.url(user="reader")
    assert commands.init(url, "", schema) == commands.FAULT_STATUS
    assert examine_url(url, "", schema) == DAMAGED_STATUS
    assert capsys.readouterr().err.count("the role lacks the right to INSERT, UPDATE, DELETE") == 2
    postgresql.execute(f'DROP TABLE "{schema}".records')
    assert examine_url(postgresql.url(), "", schema) == DAMAGED_STATUS
    assert "records" in capsys.readouterr().err
    assert examine_url(postgresql.url(), "", "missing") == NOTHING_STATUS


def test_a_command_knows_nothing_of_a_store_that_cannot_be_reached(capsys: CaptureFixture[str]) -> None:
    for command in (examine_url, commands.init, commands.check):
        assert command("postgresql://postgres@127.0.0.1:1/warren", "", "warren") == UNAVAILABLE_STATUS
        assert "Connection refused" in capsys.readouterr().err


def test_commands_print_the_state(address: Address, postgresql: Cluster, capsys: CaptureFixture[str]) -> None:
    url, schema = postgresql.url(), address.schema
    store = PostgreSQLStore(address, "warren@test")
    for owner in ("none", "warren@test"):
        assert commands.check(url, "", schema) == commands.DONE_STATUS
        assert f": id {store.id}, epoch {store.standing().epoch}\nowner: {owner}\n" in capsys.readouterr().out
        store.acquire()
    store.close()
    assert commands.init(url, "", schema) == commands.DONE_STATUS
    assert capsys.readouterr().out == f"{address.shown}: ready already\n"
    assert commands.check(url, "", "missing") == commands.FAULT_STATUS
    assert "there is no schema missing" in capsys.readouterr().err
