"""Backups of a store on PostgreSQL that is used, and `warren restore` to PostgreSQL."""

import errno
import os
from pathlib import Path

import pytest

from tests.support.journal import commit
from tests.support.postgresql import Cluster
from tests.unit.storage.test_backup import failing
from tests.unit.storage.test_sqlite_metadata import everything, puts
from warren.broker.cli import main
from warren.broker.core.metadata.records import StoredQueue
from warren.broker.storage.checkpoint import RESTORING
from warren.broker.storage.journal import Journal
from warren.broker.storage.metadata import HIGHEST
from warren.broker.storage.postgresql.address import Address
from warren.broker.storage.postgresql.database import PostgreSQL
from warren.broker.storage.postgresql.disk import PostgreSQLDisk
from warren.broker.storage.postgresql.store import PostgreSQLStore

from .test_copy import MESSAGES, doctor, fill

pytestmark = pytest.mark.sockets


@pytest.fixture
def url(postgresql: Cluster) -> str:
    return postgresql.url()


def restore(*arguments: object) -> int:
    return main(["restore", *map(str, arguments)])


def written(journal: Journal, file: Path) -> Path:
    """Write a backup to a file."""
    backup = journal.backup(lambda: None)
    assert backup is not None
    commit(journal)
    file.write_bytes(b"".join(backup.pieces({"version": "1", "node": "warren@test"})))
    backup.end()
    return file


@pytest.fixture
def file(store: PostgreSQLStore, tmp_path: Path) -> Path:
    """A backup of messages in several segments, of a store that this process owns."""
    disk, metadata = store.open()
    fill(disk, metadata)
    journal = Journal(disk, metadata, 10_000)
    journal.recover({1, 2})
    return written(journal, tmp_path / "backup.tar")


@pytest.fixture
def other(postgresql: Cluster) -> Address:
    """The address of another empty store."""
    from warren.broker.storage.postgresql.address import parse
    from warren.broker.storage.postgresql.store import create

    address = parse(postgresql.url(), schema=f"restored {os.urandom(4).hex()}")
    assert create(address)
    return address


QUEUED = f"queue 'other' in vhost 'vhost': {MESSAGES - MESSAGES // 3 - 1} messages"


def test_a_backup_of_postgresql_is_restored_to_a_folder_and_to_postgresql(
    capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path, other: Address, url: str
) -> None:
    assert restore(file, "--data", tmp_path / "new") == 0
    assert restore(file, "--store", url, "--schema", other.schema) == 0
    capsys.readouterr()
    of_folder = doctor(capsys, tmp_path / "new")
    assert QUEUED in of_folder and doctor(capsys, other, url) == of_folder
    assert restore(file, "--store", url, "--schema", other.schema) == 73
    assert capsys.readouterr().err == "warren: PostgreSQL: the store is not empty; nothing was restored\n"
    assert doctor(capsys, other, url) == of_folder


def test_a_moment_of_the_server_has_no_later_transaction(
    store: PostgreSQLStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments begin between the list of the tables and their sizes: the list is made again."""
    from tests.support.journal import store as store_in

    disk, metadata = store.open()
    metadata.apply(puts([*everything("vhost", 1), StoredQueue("/", "queue", 2, False, b"")]))
    journal = Journal(disk, metadata, 2_000)
    journal.recover({1, 2})
    store_in(journal, [2], *[b"before" * 50] * 20)
    backup = journal.backup(lambda: None)
    assert backup is not None
    commit(journal)
    run, begun = PostgreSQL.run, []

    def run_later(database: PostgreSQL, *arguments: object, **more: object) -> object:
        if database.name.endswith("backup") and len(begun) < 3:
            begun.append(True)
            store_in(journal, [2], *[b"while" * 50] * 10)
        return run(database, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(PostgreSQL, "run", run_later)
    pieces = backup.pieces({"version": "1", "node": "warren@test"})
    data = next(pieces)
    while len(data) < 3_000:
        data += next(pieces)
    store_in(journal, [2], *[b"after" * 50] * 20)
    file = tmp_path / "backup.tar"
    file.write_bytes(data + b"".join(pieces))
    backup.end()
    assert restore(file, "--data", tmp_path / "new") == 0
    capsys.readouterr()
    assert "queue 'queue' in vhost '/': 50 messages" in doctor(capsys, tmp_path / "new")


@pytest.mark.parametrize(("name", "at"), [("append", 3), ("sync", 2), ("save_checkpoint", 2)])
def test_a_restore_to_postgresql_that_fails_leaves_an_empty_store(
    file: Path, other: Address, url: str, monkeypatch: pytest.MonkeyPatch, name: str, at: int
) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, "PostgreSQL: the disk is full")

    failing(monkeypatch, PostgreSQLDisk, name, at, fail)
    assert restore(file, "--store", url, "--schema", other.schema) == 74
    monkeypatch.undo()
    empty = PostgreSQL(other, "test")
    assert (empty.checkpoint(), empty.segments()) == (None, {})
    assert {kind for kind, _ in empty.records()} <= {HIGHEST}
    empty.close()


@pytest.mark.parametrize(("name", "at"), [("append", 3), ("sync", 2), ("save_checkpoint", 2)])
def test_a_restore_to_postgresql_that_is_killed_may_be_repeated(
    file: Path,
    other: Address,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    at: int,
) -> None:
    child = os.fork()
    if not child:
        failing(monkeypatch, PostgreSQLDisk, name, at, lambda: os._exit(9))
        restore(file, "--store", url, "--schema", other.schema)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    database = PostgreSQL(other, "test")
    assert database.checkpoint() == RESTORING
    database.close()
    assert main(["doctor", "--store", url, "--schema", other.schema]) == 1
    assert restore(file, "--store", url, "--schema", other.schema) == 0
    capsys.readouterr()
    assert QUEUED in doctor(capsys, other, url)


def test_a_server_that_cannot_be_reached_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert restore(file, "--store", "postgresql://warren@127.0.0.1:1/none") == 69
    assert "127.0.0.1:1: Connection refused" in capsys.readouterr().err
