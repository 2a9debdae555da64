"""`warren copy` and `warren doctor` on stores in folders and in databases."""

from pathlib import Path

import pytest
from pytest import CaptureFixture, MonkeyPatch

from tests.support.journal import commit
from tests.support.postgresql import Cluster
from tests.unit.storage.test_sqlite_metadata import all_fields, everything, puts
from warren.broker.amqp.framing import content_frames
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.metadata.records import StoredGlobalParameter, StoredQueue
from warren.broker.core.metadata.unfinished_import import ADVICE, UNFINISHED_IMPORT
from warren.broker.storage import copy
from warren.broker.storage.copy import copy_store, opened, verify_segment
from warren.broker.storage.disk import Disk
from warren.broker.storage.doctor import examine, examine_url
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.folder_disk import NEW_NAME, FolderDisk
from warren.broker.storage.journal import Journal
from warren.broker.storage.metadata import Metadata
from warren.broker.storage.postgresql.address import Address
from warren.broker.storage.postgresql.commands import check
from warren.broker.storage.postgresql.store import PostgreSQLStore
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

pytestmark = pytest.mark.sockets
MESSAGES = 500


def fill(disk: Disk, metadata: Metadata) -> None:
    """Store definitions, a deleted queue, and messages in several segments, some of them settled."""
    metadata.apply(puts([*everything("vhost", 1), StoredQueue("vhost", "other", 2, False, b"")]))
    journal = Journal(disk, metadata, 10_000)
    journal.recover({1, 2})
    for number in range(MESSAGES):
        frames = content_frames(1, b"\0\0", b"%d" % number * 20)
        message = Message(RoutingAddress("", "other"), frames, 1, len(frames), 0, True)
        journal.append([2], [message])
        if number % 3 == 0:
            journal.settle(2, message.id)
        if number % 20 == 0:
            commit(journal)
    commit(journal)
    journal.close()
    metadata.sync()


@pytest.fixture
def url(postgresql: Cluster) -> str:
    return postgresql.url()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with something in it."""
    folder = tmp_path / "data"
    folder.mkdir()
    metadata = SQLiteMetadata(folder / "meta.sqlite", False)
    fill(FolderDisk(folder / "log", False), metadata)
    metadata.close()
    return folder


def doctor(capsys: CaptureFixture[str], place: Path | Address, url: str = "") -> list[str]:
    if isinstance(place, Path):
        assert examine(place) == 0
    else:
        assert examine_url(url, "", place.schema) == 0
    return capsys.readouterr().out.splitlines()


def test_a_store_moves_to_postgresql_and_back(
    capsys: CaptureFixture[str], folder: Path, tmp_path: Path, address: Address, url: str
) -> None:
    back = tmp_path / "back"
    before = doctor(capsys, folder)
    assert any(line == f"queue 'other' in vhost 'vhost': {MESSAGES - MESSAGES // 3 - 1} messages" for line in before)
    assert copy_store(str(folder), url, "", address.schema) == 0
    assert "copied and verified: 11 definitions, " in capsys.readouterr().out
    assert doctor(capsys, address, url) == before
    assert copy_store(url, str(back), "", address.schema) == 0
    capsys.readouterr()
    assert doctor(capsys, back) == before
    assert {path.name: path.read_bytes() for path in (back / "log").iterdir()} == {
        path.name: path.read_bytes() for path in (folder / "log").iterdir()
    }
    metadata = [SQLiteMetadata(place / "meta.sqlite", False) for place in (folder, back)]
    one, two = (each.load() for each in metadata)
    assert all_fields(one) == all_fields(two) and one.next_queue == two.next_queue
    for each in metadata:
        each.close()


def test_a_used_target_is_left_alone(capsys: CaptureFixture[str], folder: Path, address: Address, url: str) -> None:
    assert copy_store(str(folder), url, "", address.schema) == 0
    assert copy_store(str(folder), url, "", address.schema) == 1
    assert (
        capsys.readouterr().err
        == "warren: PostgreSQL: not empty; nothing was copied: name a new folder or an empty store with --to\n"
    )


def test_a_new_folder_is_marked_first(
    capsys: CaptureFixture[str], folder: Path, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """Killed there, it would be an empty store."""

    def killed(path: Path) -> SQLiteMetadata:
        if path.parent == folder:
            return SQLiteMetadata(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(copy, "SQLiteMetadata", killed)
    target = tmp_path / "target"
    with pytest.raises(KeyboardInterrupt):
        copy_store(str(folder), str(target), "", "")
    monkeypatch.undo()
    assert copy_store(str(folder), str(target), "", "") == 1
    assert "was interrupted, and it is incomplete: delete the folder" in capsys.readouterr().err


def test_a_copy_that_was_interrupted_before_its_mark_can_be_repeated(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "target" / "log"
    log.mkdir(parents=True)
    (log / NEW_NAME).write_bytes(b"")
    assert copy_store(str(folder), str(tmp_path / "target"), "", "") == 0
    assert not (log / NEW_NAME).exists()


@pytest.mark.parametrize("new", [False, True])
def test_a_torn_end_is_not_copied(
    capsys: CaptureFixture[str], folder: Path, tmp_path: Path, address: Address, url: str, new: bool
) -> None:
    """No transaction is torn, so that a broker on PostgreSQL has no way to cut it off."""
    before = doctor(capsys, folder)
    path = max((folder / "log").glob("*.log"))
    size = path.stat().st_size
    with (path.with_stem(f"{int(path.stem) + 1:08d}") if new else path).open("ab") as file:
        file.write(b"torn")
    back = tmp_path / "back"
    assert copy_store(str(folder), url, "", address.schema) == copy_store(str(folder), str(back), "", "") == 0
    capsys.readouterr()
    assert doctor(capsys, address, url) == doctor(capsys, back) == before
    assert max((back / "log").glob("*.log")).stat().st_size == size


@pytest.mark.parametrize("target", ["", ".", "there", "mounted"])
def test_other_files_are_left_alone(
    capsys: CaptureFixture[str], folder: Path, tmp_path: Path, monkeypatch: MonkeyPatch, target: str
) -> None:
    (there := tmp_path / "there").mkdir()
    (there / "notes").touch()
    (tmp_path / "mounted" / "lost+found").mkdir(parents=True)
    (tmp_path / "mounted" / "log").mkdir()
    monkeypatch.chdir(tmp_path if target in ("there", "mounted") else there)
    free = target == "mounted"
    assert copy_store(str(folder), target, "", "") == (0 if free else 1)
    assert (
        free
        or capsys.readouterr().err
        == f"warren: {there}: not empty; nothing was copied: name a new folder or an empty store with --to\n"
    )
    assert [path.name for path in there.iterdir()] == ["notes"]


def test_a_store_is_not_copied_into_itself(
    capsys: CaptureFixture[str], folder: Path, tmp_path: Path, address: Address, url: str
) -> None:
    (link := tmp_path / "link").symlink_to(folder)
    assert copy_store(str(folder), url, "", address.schema) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    same_url = url + ("&" if "?" in url else "?") + "application_name=x"
    for places in ((folder, folder), (link, folder), (folder, f"{folder}/log/.."), (url, url), (url, same_url)):
        assert copy_store(*map(str, places), "", address.schema) == 1
        says = "source and target are the same: name another place with --to; nothing was copied"
        assert capsys.readouterr().err == f"warren: {says}\n"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_store_in_use_is_not_copied_or_examined(
    capsys: CaptureFixture[str], folder: Path, store: PostgreSQLStore, address: Address, url: str
) -> None:
    assert copy_store(str(folder), url, "", address.schema) == 73
    assert examine_url(url, "", address.schema) == 73
    assert capsys.readouterr().err.count("is in use by another broker (warren@test): stop it first\n") == 2


def test_an_empty_folder_is_named(capsys: CaptureFixture[str], tmp_path: Path, address: Address, url: str) -> None:
    assert copy_store(str(tmp_path), url, "", address.schema) == 1
    says = "no broker has stored anything there: name another folder with --from"
    assert capsys.readouterr().err == f"warren: {tmp_path}: {says}\n"


def test_a_folder_without_its_log_is_not_copied(capsys: CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    SQLiteMetadata(source / "meta.sqlite").close()
    assert copy_store(str(source), str(tmp_path / "target"), "", "warren") == copy.FAILED_STATUS
    says = "its folder log is missing: restore it; nothing was copied"
    assert capsys.readouterr().err == f"warren: {source}: {says}\n"
    assert not (source / "log").exists() and not (tmp_path / "target").exists()


def test_a_store_whose_definitions_are_lost_is_not_copied(
    capsys: CaptureFixture[str], folder: Path, tmp_path: Path, address: Address, url: str, postgresql: Cluster
) -> None:
    target = tmp_path / "target"
    assert copy_store(str(folder), url, "", address.schema) == 0
    postgresql.execute(f'DELETE FROM "{address.schema}".records')
    assert copy_store(url, str(target), "", address.schema) == 1 and not target.exists()
    assert "and the log has messages" in capsys.readouterr().err


LOST = "the log is lost: it is empty, and 2 durable queues or exchanges were created with it"


@pytest.mark.parametrize(
    "kept, says",
    [
        ("", LOST),
        ("checkpoint", ".log: it is missing, with"),
        ("checkpoint *[!5].log", "05.log: it is missing, with"),
        ("*.log", "checkpoint: it is missing; messages may be too"),
    ],
)
def test_no_copy_of_a_partial_log(
    capsys: CaptureFixture[str], folder: Path, tmp_path: Path, kept: str, says: str
) -> None:
    log, target = folder / "log", tmp_path / "target"
    left = {path for pattern in kept.split() for path in log.glob(pattern)}
    for path in {*log.iterdir()} - left:
        path.unlink()
    assert copy_store(str(folder), str(target), "", "") == 1 and not target.exists()
    assert says in (error := capsys.readouterr().err) and error.endswith("; nothing was copied\n")


def test_a_shorter_segment_stops_a_copy(capsys: CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    path = max((folder / "log").glob("*.log"))
    path.write_bytes(path.read_bytes()[:-1])
    assert copy_store(str(folder), str(tmp_path / "target"), "", "") == 1
    assert f"{path.name}: the last 1 bytes are missing: restore it, or start" in capsys.readouterr().err
    store = Store(Config(data_dir=str(folder)))
    assert isinstance(store.journal, Journal)
    store.journal.close()
    store.close()
    (folder / "lock").unlink()  # the process holds it
    assert copy_store(str(folder), str(tmp_path / "target"), "", "") == 0


def test_a_difference_is_found(folder: Path, tmp_path: Path) -> None:
    original, copied = FolderDisk(folder / "log", False), FolderDisk(tmp_path / "copy", False)
    number, size = next(iter(original.segments().items()))
    name = f"{number:08d}.log"
    data = bytearray((folder / "log" / name).read_bytes())
    (tmp_path / "copy" / name).write_bytes(data)
    assert verify_segment(original, copied, number, size) > 20
    data[100] ^= 1
    (tmp_path / "copy" / name).write_bytes(data)
    with pytest.raises(StorageFault, match="differs from the original at offset 100"):
        verify_segment(original, copied, number, size)


class Killed(BaseException):
    """The process ends here."""


def test_a_part_of_an_import_is_not_copied(
    capsys: CaptureFixture[str], folder: Path, tmp_path: Path, address: Address, url: str
) -> None:
    third = tmp_path / "third"
    assert copy_store(str(folder), url, "", address.schema) == 0
    mark = puts([StoredGlobalParameter(UNFINISHED_IMPORT, '[{"sha256": "0", "vhost": null, "since": 1}]')])
    for place in (url, str(folder)):
        with opened(place, "", address.schema) as (disk, metadata):
            metadata.load()
            metadata.apply(mark)
            metadata.sync()
            disk.commit()
    capsys.readouterr()
    says = "an import of definitions was interrupted, and a part of them is here"
    for source, examined in (
        (url, lambda: examine_url(url, "", address.schema)),
        (str(folder), lambda: examine(folder)),
    ):
        assert copy_store(source, str(third), "", address.schema) == 1 and not third.exists()
        assert says in capsys.readouterr().err
        assert examined() == 1
        assert f"metadata: INCOMPLETE: {says}: start the broker, then {ADVICE}" in capsys.readouterr().out


@pytest.mark.parametrize("step", ["copy_log", "copy_metadata", "verify_log", "verify_metadata"])
@pytest.mark.parametrize("kind", ["folder", "postgresql"])
def test_an_interrupted_copy_is_refused_by_all_that_read_it(
    capsys: CaptureFixture[str],
    monkeypatch: MonkeyPatch,
    folder: Path,
    tmp_path: Path,
    address: Address,
    url: str,
    kind: str,
    step: str,
) -> None:
    target = str(tmp_path / "target") if kind == "folder" else url

    def kill(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(copy, step, kill)
        copy_store(str(folder), target, "", address.schema)
    says = "`warren copy` into this store was interrupted"
    if kind == "folder":
        assert examine(Path(target)) == 1 and f"log: BAD: {says}" in capsys.readouterr().out
    else:
        assert examine_url(target, "", address.schema) == 1 and f"log: BAD: {says}" in capsys.readouterr().out
        assert check(target, "", address.schema) == 1 and says in capsys.readouterr().err
    for places in ((str(folder), target), (target, str(tmp_path / "third"))):
        assert copy_store(*places, "", address.schema) == 1
        assert says in capsys.readouterr().err
    if kind == "folder":
        with pytest.raises(StorageFault, match=says):
            Store(Config(data_dir=target))
