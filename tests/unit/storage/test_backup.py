"""Backups of a store that is used, and `warren restore`."""

import errno
import gzip
import io
import os
import random
import stat
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.journal import commit, new_message, store
from tests.unit.storage.test_sqlite_metadata import everything, puts
from warren.broker.app.open_storage import Store
from warren.broker.cli import main
from warren.broker.config import Config
from warren.broker.core.messages.journal_port import Journal as PortJournal
from warren.broker.core.metadata.records import Change, StoredGlobalParameter, StoredQueue
from warren.broker.core.metadata.unfinished_import import UNFINISHED_IMPORT
from warren.broker.storage import archive, log_records, restore
from warren.broker.storage.archive import BLOCK_BYTES, NoBackup, Reader, Writer
from warren.broker.storage.backup import Backup, lines
from warren.broker.storage.disk import Disk
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.folder_disk import FolderDisk
from warren.broker.storage.journal import Journal
from warren.broker.storage.metadata import RowsOfMoment
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

FACTS: dict[str, object] = {"version": "1.2.3", "node": "warren@test"}
QUEUE, OTHER = 2, 3
SEGMENT_BYTES = 4_000


@dataclass
class Stored:
    """An open store in a folder, with two queues."""

    folder: Path
    metadata: SQLiteMetadata
    journal: Journal

    def begun(self) -> Backup:
        """A backup whose moment is now."""
        began: list[bool] = []
        backup = self.journal.backup(lambda: began.append(True))
        assert isinstance(backup, Backup) and not began
        commit(self.journal)
        assert began
        return backup

    def store(self, *bodies: bytes, queue: int = QUEUE) -> list[int]:
        ids = []
        for body in bodies:
            ids += [message.id for message in store(self.journal, [queue], body)]
        return ids

    def settle(self, *ids: int) -> None:
        for id_ in ids:
            self.journal.settle(QUEUE, id_)
        commit(self.journal)

    def segments(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "log").glob("*.log"))

    def close(self) -> None:
        self.journal.close()
        self.metadata.close()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    folder = tmp_path / "data"
    folder.mkdir()
    metadata = SQLiteMetadata(folder / "meta.sqlite", False)
    queues = [StoredQueue("vhost", name, number, False, b"") for number, name in ((QUEUE, "queue"), (OTHER, "other"))]
    metadata.apply(puts([*everything("vhost", 1), *queues]))
    journal = Journal(FolderDisk(folder / "log", False), metadata, SEGMENT_BYTES)
    journal.recover({1, QUEUE, OTHER})
    made = Stored(folder, metadata, journal)
    yield made
    made.close()


def written(backup: Backup, file: Path) -> Path:
    """Write all of a backup to a file, and end it."""
    file.write_bytes(b"".join(backup.pieces(FACTS)))
    backup.end()
    return file


def bodies_in(folder: Path) -> dict[int, list[bytes]]:
    """The bodies that a broker finds in a data folder, in order, by queue."""
    opened = Store(Config(data_dir=str(folder), sync="os"))
    try:
        return {number: read(opened.journal, list(queue), number) for number, queue in opened.queues.items() if queue}
    finally:
        opened.close()


def read(journal: PortJournal, ids: list[int], queue: int) -> list[bytes]:
    messages = journal.read_all(ids, queue)
    return [message.frames[-message.body_bytes - 1 : -1] for message in messages if message is not None]


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def body(number: int) -> bytes:
    return b"%04d" % number * 50


BODIES = [body(number) for number in range(60)]  # in four segments


@pytest.fixture
def file(stored: Stored, tmp_path: Path) -> Path:
    """A backup of messages in several segments."""
    stored.store(*BODIES)
    return written(stored.begun(), tmp_path / "backup.tar")


# The moment


def test_a_backup_has_what_was_stored_at_its_moment_and_nothing_later(stored: Stored, tmp_path: Path) -> None:
    ids = stored.store(*BODIES)
    stored.settle(*ids[:10])
    backup = stored.begun()
    stored.settle(*ids[10:])
    stored.store(b"later", b"later", queue=OTHER)
    stored.journal.change(Change(True, StoredQueue("vhost", "new", 4, False, b"")))
    stored.journal.change(Change(False, StoredQueue("vhost", "other", OTHER, False, b"")))
    commit(stored.journal)
    written(backup, tmp_path / "backup.tar")
    assert run("restore", tmp_path / "backup.tar", "--data", tmp_path / "new") == 0
    assert bodies_in(tmp_path / "new") == {QUEUE: BODIES[10:]}
    metadata = SQLiteMetadata(tmp_path / "new" / "meta.sqlite")
    assert {queue.name for queue in metadata.load().queues} >= {"queue", "other"}
    assert "new" not in {queue.name for queue in metadata.load().queues}
    metadata.close()


def test_no_segment_of_the_moment_is_deleted_before_the_end_and_later_ones_are(stored: Stored, tmp_path: Path) -> None:
    ids = stored.store(*BODIES)
    backup = stored.begun()
    of_moment = stored.segments()
    pieces = backup.pieces(FACTS)
    data = next(pieces)
    while archive.ROWS.encode() not in data:
        data += next(pieces)
    later = stored.store(*BODIES)
    stored.settle(*ids, *later)
    stored.store(*[b"x"] * 3)
    kept = stored.segments()
    assert set(of_moment) <= set(kept)
    assert len(kept) < 2 * len(of_moment), "those of later messages are deleted"
    data += b"".join(pieces)
    backup.end()
    assert stored.journal.backing_up is False
    stored.store(b"x")
    stored.store(b"x")
    assert not set(of_moment[:-1]) & set(stored.segments())
    (tmp_path / "backup.tar").write_bytes(data)
    assert run("restore", tmp_path / "backup.tar", "--data", tmp_path / "new") == 0
    assert bodies_in(tmp_path / "new") == {QUEUE: BODIES}


def test_a_change_after_the_batch_of_the_moment_was_sealed_is_in_no_backup(stored: Stored, tmp_path: Path) -> None:
    """A worker writes the batch later, whose list of changes is empty."""
    backup = stored.journal.backup(lambda: None)
    assert isinstance(backup, Backup)
    batch = stored.journal.seal()
    assert batch is not None
    stored.journal.change(Change(True, StoredQueue("vhost", "new", 4, False, b"")))
    batch.write()
    batch.sync()
    stored.journal.committed(batch.number)
    file = written(backup, tmp_path / "backup.tar")
    assert b'"new"' not in file.read_bytes()


def test_segments_that_may_be_deleted_already_are_in_no_backup(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id_ in stored.store(*BODIES):
        stored.journal.settle(QUEUE, id_)
    stored.journal.append([QUEUE], [new_message(b"x")])
    batch, disk = stored.journal.seal(), stored.journal.disk
    assert batch is not None and batch.after is not None
    batch.write()
    drop = disk.drop

    def interrupted(numbers: list[int]) -> list[int]:
        drop(numbers[:1])
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def full(data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(disk, "drop", interrupted)
        with pytest.raises(OSError):
            batch.sync()
        patched.setattr(disk, "save_checkpoint", full)
        batch.sync()
    stored.journal.committed(batch.number)
    written(stored.begun(), tmp_path / "backup.tar")
    assert run("restore", tmp_path / "backup.tar", "--data", tmp_path / "new") == 0
    assert bodies_in(tmp_path / "new") == {QUEUE: [b"x"]}


def test_a_moment_waits_for_a_checkpoint_that_is_being_written(stored: Stored, tmp_path: Path) -> None:
    """Otherwise the checkpoint could be that of before, and segments be missing that it has with messages."""
    for id_ in stored.store(*BODIES):
        stored.journal.settle(QUEUE, id_)
    stored.journal.append([QUEUE], [new_message(b"x")])
    deleting = stored.journal.seal()
    assert deleting is not None and deleting.after is not None
    began: list[bool] = []
    backup = stored.journal.backup(lambda: began.append(True))
    assert isinstance(backup, Backup)
    stored.journal.append([QUEUE], [new_message(b"y")])
    other = stored.journal.seal()
    assert other is not None and other.moment is None
    for batch in (deleting, other):
        batch.write()
        batch.sync()
        stored.journal.committed(batch.number)
    assert not began
    commit(stored.journal)
    assert began
    written(backup, tmp_path / "backup.tar")
    assert run("restore", tmp_path / "backup.tar", "--data", tmp_path / "new") == 0
    assert bodies_in(tmp_path / "new") == {QUEUE: [b"x", b"y"]}


def test_a_backup_ends_where_a_full_disk_needs_its_segments(
    stored: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = stored.store(*BODIES)
    backup = stored.begun()
    of_moment = stored.segments()
    stored.journal.full = True
    stored.store(b"x")
    assert stored.journal.backing_up, "none of its segments could be deleted"
    stored.settle(*ids)
    stored.store(b"x")
    assert not stored.journal.backing_up and not set(of_moment[:-1]) & set(stored.segments())
    written(backup, tmp_path / "backup.tar")
    assert run("restore", tmp_path / "backup.tar", "--check") == 65
    assert "the backup was given up: the disk is full, and " in capsys.readouterr().err


def test_a_failure_of_the_moment_is_one_of_the_backup_alone(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise OSError(errno.EMFILE, "no descriptor", "checkpoint")

    monkeypatch.setattr(FolderDisk, "load_checkpoint", fail)
    file = written(stored.begun(), tmp_path / "backup.tar")
    monkeypatch.undo()
    assert stored.store(b"x")
    assert run("restore", file, "--check") == 65
    assert f"{file}: the backup was given up: checkpoint: too many open files" in capsys.readouterr().err


def test_a_failed_read_ends_a_backup_in_the_middle_of_a_file(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.store(*BODIES)
    backup = stored.begun()
    read = FolderDisk.read

    def fail(disk: Disk, number: int, offset: int, count: int) -> bytes:
        if number == 3:
            raise OSError(errno.EIO, "Input/output error", "00000003.log")
        assert isinstance(disk, FolderDisk)
        return read(disk, number, offset, count)

    monkeypatch.setattr(FolderDisk, "read", fail)
    file = written(backup, tmp_path / "backup.tar")
    assert run("restore", file, "--check") == 65
    assert "given up: 00000003.log: Input/output error; nothing was restored" in capsys.readouterr().err


def test_there_is_no_backup_of_a_part_of_definitions() -> None:
    class Rows(RowsOfMoment):
        def rows(self) -> Iterator[tuple[str, str]]:
            yield "global_parameters", f'["{UNFINISHED_IMPORT}",[]]'

        def close(self) -> None: ...

    with pytest.raises(StorageFault, match="an import of definitions is under way"):
        list(lines(Rows()))
    assert StoredGlobalParameter.__slots__[0] == "name", "with which its row begins"


def test_rows_of_a_moment_stay_as_they_were_and_leave_no_file(tmp_path: Path) -> None:
    metadata = SQLiteMetadata(tmp_path / "meta.sqlite")
    metadata.apply(puts(everything("vhost", 1)))
    moment = metadata.moment()
    before = list(metadata.moment().rows())
    metadata.apply(puts(everything("other", 2)))
    assert list(moment.rows()) == list(moment.rows()) == before
    assert {path.name for path in tmp_path.iterdir()} == {"meta.sqlite", "meta.sqlite-wal"}
    moment.close()
    metadata.close()


# The archive


def test_a_backup_is_a_tar_archive_with_checksums(file: Path, tmp_path: Path) -> None:
    import subprocess
    import tarfile

    with tarfile.open(file) as opened:
        names = opened.getnames()
        assert {info.mode for info in opened.getmembers()} == {0o600}
    assert names[:3] == ["backup.json", "metadata.jsonl", "checkpoint"] and names[-1] == "SHA256SUMS"
    assert names[3:-1] == [f"log/{number:08d}.log" for number in range(1, len(names) - 3)]
    subprocess.run(["tar", "--extract", "--file", file], cwd=tmp_path, check=True)
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)


def test_a_compressed_backup_is_refused_with_the_command_that_reads_it(file: Path) -> None:
    with pytest.raises(NoBackup, match="it is compressed: gzip -dc FILE"):
        Reader(io.BytesIO(gzip.compress(file.read_bytes())))


def accepted(data: bytes) -> bool:
    """Whether a file with these bytes is a whole backup."""
    try:
        restore.read_contents(Reader(io.BytesIO(data)), None)
    except NoBackup:
        return False
    return True


def small(stored: Stored) -> bytes:
    """The bytes of a short backup."""
    stored.store(b"a", b"b")
    data = b"".join(stored.begun().pieces(FACTS))
    assert accepted(data)
    return data


def flips(data: bytes, offsets: list[int]) -> None:
    dice = random.Random(1)
    for at in offsets:
        flipped = bytearray(data)
        flipped[at] ^= 1 << dice.randrange(8)
        assert not accepted(bytes(flipped)), at


def test_each_flipped_bit_is_refused(stored: Stored) -> None:
    data = small(stored)
    flips(data, random.Random(2).sample(range(len(data)), 300))


@pytest.mark.rest("each byte")
def test_a_flipped_bit_in_each_byte_is_refused(stored: Stored) -> None:
    data = small(stored)
    flips(data, list(range(len(data))))


def test_a_file_that_ends_too_early_or_late_is_refused(stored: Stored) -> None:
    data = small(stored)
    assert not any(accepted(data[:at]) for at in {*range(0, len(data), 97), *range(len(data) - 40, len(data))})
    assert not accepted(data + b"\0") and not accepted(data + bytes(BLOCK_BYTES))


def test_files_of_a_backup_that_are_left_out_or_moved_are_missed(stored: Stored) -> None:
    stored.store(*BODIES)
    data = b"".join(stored.begun().pieces(FACTS))
    starts = [at for at in range(0, len(data), BLOCK_BYTES) if archive.parsed(data[at : at + BLOCK_BYTES])]
    parts = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    assert len(parts) > 6 and accepted(b"".join(parts))
    for left_out in range(len(parts)):
        assert not accepted(b"".join(parts[:left_out] + parts[left_out + 1 :]))
    for first in range(1, len(parts) - 2):
        moved = [*parts[:first], parts[first + 1], parts[first], *parts[first + 2 :]]
        assert not accepted(b"".join(moved))


OLD = "".join(["of version 3 of the log, this one reads ", str(log_records.VERSION), ": restore it with Warren 1.2.3"])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "this is no backup of Warren"),
        (b"text", "this is no backup of Warren"),
        (bytes(10_240), "this is no backup of Warren"),
        (archive.header("other.json", 5, 0) + b"12345" + bytes(507), "this is no backup of Warren"),
        (archive.header("backup.json", 5, 0) + b"12345" + bytes(507), "backup.json is damaged"),
        (
            b"".join(Writer().about({"version": "9.9", "format": 2})),
            "of format 2, this version reads 1: restore it with Warren 9.9",
        ),
        (b"".join(Writer().about({"version": "1.2.3", "log": 3})), OLD),
        (b"".join(Writer().about({**FACTS, "log": log_records.VERSION})), "it ends too early"),
    ],
)
def test_other_files_are_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, says: str
) -> None:
    (tmp_path / "file").write_bytes(data)
    for option in ("--check",), ("--data", tmp_path / "new"):
        assert run("restore", tmp_path / "file", *option) == 65
        err = capsys.readouterr().err
        assert err.startswith(f"warren: {tmp_path}/file: {says}") and err.count("\n") == 1
    assert not (tmp_path / "new").exists()


class Endless(Disk):
    """A log whose segments have any length."""

    def read(self, number: int, offset: int, count: int) -> bytes:
        return bytes(count)


def test_a_backup_takes_the_same_memory_whatever_its_size() -> None:
    """A segment of 48 MiB, which would not fit into the limit."""
    backup = Backup(Disk(), SQLiteMetadata, lambda: None, lambda *_: None)  # type: ignore[arg-type]

    class Stream:
        def __init__(self) -> None:
            self.pieces = Writer().file("log/00000001.log", 48 << 20, backup._segment(Endless(), 1, 48 << 20))
            self.left = b"".join(Writer().about(FACTS))

        def read(self, count: int, /) -> bytes:
            self.left = self.left or next(self.pieces, b"")
            data, self.left = self.left[:count], self.left[count:]
            return data

    tracemalloc.start()
    try:
        with pytest.raises(NoBackup, match="it ends too early"):
            for _, _, pieces in Reader(Stream()).files():
                for _ in pieces:
                    pass
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


# The restore


def test_a_restore_says_what_it_has_restored(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("restore", file, "--check") == 0
    assert capsys.readouterr().out.startswith("a whole backup: 12 definitions, ")
    assert run("restore", file, "--data", tmp_path / "new") == 0
    out = capsys.readouterr().out
    assert out.startswith("restored and verified: 12 definitions, ") and "; of warren@test at " in out
    assert run("doctor", "--data", tmp_path / "new") == 0
    assert "queue 'queue' in vhost 'vhost': 60 messages" in capsys.readouterr().out
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert modes == {0o600} and stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_restore_reads_the_standard_input(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with file.open("rb") as opened:
        dup = os.dup
        monkeypatch.setattr(os, "dup", lambda _: dup(opened.fileno()))
        assert run("restore", "-", "--data", tmp_path / "new") == 0
    monkeypatch.undo()
    assert bodies_in(tmp_path / "new") == {QUEUE: BODIES}


def test_a_store_that_has_something_is_refused_and_stays(
    file: Path, stored: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in stored.folder.rglob("*") if path.is_file() and path.name != "lock"}
    assert run("restore", file, "--data", stored.folder) == 73
    assert capsys.readouterr().err == f"warren: {stored.folder}: not empty; nothing was restored\n"
    assert {path: path.read_bytes() for path in before} == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter").touch()
    assert run("restore", file, "--data", tmp_path / "other") == 73
    assert (tmp_path / "other" / "letter").exists()
    empty = tmp_path / "empty"
    (empty / "lost+found").mkdir(parents=True)
    assert run("restore", file, "--data", empty) == 0


def test_a_folder_in_use_is_refused(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from warren.broker.storage.folder_lock import lock

    descriptor = lock(tmp_path / "new")
    assert run("restore", file, "--data", tmp_path / "new") == 73
    assert "in use by another broker" in capsys.readouterr().err
    os.close(descriptor)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run("restore", tmp_path / name, "--data", tmp_path / "new") == 66
    assert str(tmp_path / name) in capsys.readouterr().err and not (tmp_path / "new").exists()


STEPS = [
    (FolderDisk, "save_checkpoint", 1),
    (FolderDisk, "append", 1),
    (FolderDisk, "append", 3),
    (FolderDisk, "sync", 2),
    (SQLiteMetadata, "apply", 1),
    (SQLiteMetadata, "sync", 1),
    (FolderDisk, "save_checkpoint", 2),
]


def failing(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, at: int, fail: Callable[[], object]) -> None:
    """Have a call fail at some time."""
    call, count = getattr(kind, name), iter(range(1, 1000))

    def counted(*arguments: object) -> object:
        if next(count) == at:
            fail()
        return call(*arguments)

    monkeypatch.setattr(kind, name, counted)


@pytest.mark.parametrize(("kind", "name", "at"), STEPS)
def test_a_restore_that_fails_leaves_nothing(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: type,
    name: str,
    at: int,
) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "new"))

    there = tmp_path / "there"
    there.mkdir()
    for target in (tmp_path / "new", there):
        failing(monkeypatch, kind, name, at, fail)
        assert run("restore", file, "--data", target) == 74
        monkeypatch.undo()
        assert "the disk is full" in capsys.readouterr().err
    assert not (tmp_path / "new").exists() and {path.name for path in there.iterdir()} == {"lock"}
    assert run("restore", file, "--data", there) == 0


@pytest.mark.parametrize(("kind", "name", "at"), STEPS)
def test_a_restore_that_is_killed_leaves_nothing_that_is_used_and_may_be_repeated(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, name: str, at: int
) -> None:
    new = tmp_path / "new"
    child = os.fork()
    if not child:
        failing(monkeypatch, kind, name, at, lambda: os._exit(9))
        run("restore", file, "--data", new)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    if (name, at) != ("save_checkpoint", 1):
        with pytest.raises(StorageFault, match="`warren restore` into this store is under way, or was interrupted"):
            restore.check_finished(restore.mark_in(new))
        assert run("doctor", "--data", new) == 1
        assert run("copy", "--from", new, "--to", tmp_path / "copy") == 1
    assert run("restore", file, "--data", new) == 0
    assert bodies_in(new) == {QUEUE: BODIES}


def test_a_log_that_is_not_complete_is_refused(
    stored: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A whole backup of a log that had lost a segment."""
    stored.store(*BODIES)
    backup = stored.begun()
    take = backup._open
    assert not isinstance(take, Exception)
    del take().lengths[2]
    file = written(backup, tmp_path / "backup.tar")
    assert run("restore", file, "--check") == 0
    assert run("restore", file, "--data", tmp_path / "new") == 65
    assert "its log is not complete: 00000002.log" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_damage_from_before_the_backup_is_restored_and_reported(
    stored: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.store(*BODIES)
    with (stored.folder / "log" / "00000001.log").open("r+b") as opened:
        opened.seek(400)
        opened.write(b"?")
    file = written(stored.begun(), tmp_path / "backup.tar")
    assert run("restore", file, "--data", tmp_path / "new") == 0
    assert "warren: the log was damaged before the backup: 00000001.log" in capsys.readouterr().err
    assert len(bodies_in(tmp_path / "new")[QUEUE]) == len(BODIES) - 1
