"""The doctor's report on sound, torn and damaged logs, which it does not change."""

import asyncio
import errno
import os
import signal
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, cast

import pytest
from pytest import CaptureFixture, MonkeyPatch
from structlog.testing import capture_logs

from tests.support.journal import commit
from warren.broker.amqp.framing import content_frames
from warren.broker.app.data_folder import DataFolder
from warren.broker.app.main import open_store
from warren.broker.app.open_storage import Store
from warren.broker.cli import main
from warren.broker.config import Config, Sources
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.metadata.records import Change, StoredGlobalParameter, StoredQueue, StoredVHost
from warren.broker.core.metadata.unfinished_import import ADVICE, UNFINISHED_IMPORT
from warren.broker.storage import checkpoint, doctor, log_records, recovery, sqlite_metadata
from warren.broker.storage.copy import copy_store
from warren.broker.storage.doctor import examine
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.folder_disk import FolderDisk
from warren.broker.storage.journal import Journal
from warren.broker.storage.sqlite_metadata import RESTORE, SQLiteMetadata

if TYPE_CHECKING:
    from warren.broker.app.main import Ending
    from warren.broker.runtime.systemd import Systemd

SALT = 7


def message(id_: int, queues: list[int], body: bytes = b"body") -> bytes:
    numbers = b"".join(map(log_records.QUEUE.pack, queues))
    address = RoutingAddress("", "key").encoded
    frames = content_frames(1, b"\0\0", body)
    return log_records.encode_message(SALT, id_, 0, len(body), 1, 1, len(queues), numbers + address, frames)


def new_metadata(folder: Path, *queues: int) -> SQLiteMetadata:
    """Metadata of a virtual host with queues of these numbers."""
    metadata = SQLiteMetadata(folder / "meta.sqlite")
    metadata.load()
    records = [StoredQueue("/", f"q{number}", number, False, b"") for number in queues]
    metadata.apply([Change(True, record) for record in (StoredVHost("/"), *records)])
    return metadata


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two segments: four messages, of which one was settled, then one of two queues."""
    folder = tmp_path / "log"
    folder.mkdir()
    first = log_records.Head(1, SALT).encode() + b"".join(message(id_, [7]) for id_ in range(1, 5))
    (folder / "00000001.log").write_bytes(first)
    second = log_records.Head(5, SALT).encode() + log_records.encode_settled(SALT, 5, 7, [2]) + message(5, [7, 8])
    (folder / "00000002.log").write_bytes(second)
    FolderDisk(folder, False).save_checkpoint(checkpoint.Checkpoint(SALT, 1).encode())
    new_metadata(tmp_path, 7, 8).close()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run_doctor(capsys: CaptureFixture[str], log: Path) -> tuple[int, list[str]]:
    before = contents(log)
    status = examine(log.parent)
    assert contents(log) == before
    return status, capsys.readouterr().out.splitlines()


def test_a_sound_log_is_counted(capsys: CaptureFixture[str], log: Path) -> None:
    status, lines = run_doctor(capsys, log)
    assert status == 0
    assert f"log: version {log_records.VERSION}" in lines
    assert "00000001.log: 4 records; 3 messages live, 1 dead" in lines
    assert "00000002.log: 2 records; 1 messages live, 0 dead" in lines


@pytest.mark.parametrize("end", [b"\0" * 100, b"garbage", message(6, [7])[:-1], message(6, [7])[:5]])
def test_a_torn_end_is_reported_and_is_no_damage(capsys: CaptureFixture[str], log: Path, end: bytes) -> None:
    with (log / "00000002.log").open("ab") as file:
        file.write(end)
    status, lines = run_doctor(capsys, log)
    assert status == 0
    assert any(f"torn end of {len(end)} bytes" in line for line in lines)


HEAD_OF_VERSION_2 = log_records.SEGMENT_HEAD.pack(log_records.SEGMENT_MAGIC, 2, 0, 6, 1)
OF_VERSION_2 = HEAD_OF_VERSION_2 + log_records.CRC.pack(log_records.crc32(HEAD_OF_VERSION_2))


@pytest.mark.parametrize(
    ("name", "content", "expected", "begin", "end"),
    [
        ("00000003.log", log_records.Head(6, SALT).encode()[:7], 0, "00000003.log: 0 records;", "torn end of 7 bytes"),
        ("00000001.log", b"WARsEN", 1, "00000001.log: 4 records;", "BAD at offset 0"),
        ("checkpoint", b"WARRCP" + bytes(40), 1, "recovery: checkpoint: ", ""),
        ("checkpoint", None, 1, "recovery: checkpoint: it is missing;", ""),
        ("00000003.log", OF_VERSION_2, 1, "log: BAD: 00000003.log: of version 2 of the log,", "reads version 4"),
    ],
)
def test_a_damaged_or_torn_file_is_named(
    capsys: CaptureFixture[str], log: Path, name: str, content: bytes | None, expected: int, begin: str, end: str
) -> None:
    """`content` replaces the beginning of the file; None removes it."""
    path = log / name
    if content is None:
        path.unlink()
    else:
        rest = path.read_bytes()[len(content) :] if path.exists() and name.endswith(".log") else b""
        path.write_bytes(content + rest)
    status, lines = run_doctor(capsys, log)
    assert status == expected
    assert any(line.startswith(begin) and end in line for line in lines), lines


ONE_OF_Q7 = ", with 1 message of queue 'q7' in vhost '/', by what is left of it: restore a backup if you need it"
TWO_OF_Q7 = ", with 2 messages of queue 'q7' in vhost '/', by what is left of it: restore a backup if you need them"
OF_BOTH = ONE_OF_Q7.replace(
    " of queue 'q7' in vhost '/'", " (1 of queue 'q7' in vhost '/', 1 of queue 'q8' in vhost '/')"
)
ONE = ", with 1 message of a queue that is not known: restore a backup if you need it"
TWO = ", with 2 messages of a queue that is not known: restore a backup if you need them"
NONE = "; no queue wants a message of it"
NO_MESSAGE = "; it had no message, but settled ones may come back"


@pytest.mark.parametrize(
    ("records", "later", "says", "says_without"),
    [
        ([message(1, [7])], b"", ONE_OF_Q7, ONE),
        ([message(2, [7])], b"", NONE, NONE),  # it was settled
        ([message(id_, [7]) for id_ in (1, 2, 3)], b"", TWO_OF_Q7, TWO),
        ([message(id_, [7]) for id_ in (3, 4)], b"", TWO_OF_Q7, TWO),  # at the end of a segment
        ([message(5, [7, 8])], b"", OF_BOTH, ONE),
        ([message(5, [7, 8])], log_records.encode_settled(SALT, 9, 8, [5]), ONE_OF_Q7, NONE),
        ([message(6, [6])], b"", NONE, ONE),  # of a queue that was deleted
        ([message(7, [99])], b"", ONE, ONE),
        ([message(8, [])], b"", NONE, ONE),
        ([log_records.encode_settled(SALT, 5, 7, [2])], b"", NO_MESSAGE, NO_MESSAGE),
    ],
)
@pytest.mark.parametrize("head", [True, False])
def test_a_damaged_record_is_reported_with_the_queues_of_its_messages(
    capsys: CaptureFixture[str], log: Path, records: list[bytes], later: bytes, says: str, says_without: str, head: bool
) -> None:
    """The last byte of each record is damaged, or all of them if its `head` is, too."""
    with (log / "00000002.log").open("ab") as file:
        file.write(b"".join([message(6, [6]), message(7, [99]), message(8, []), later]))
    (log / "00000003.log").write_bytes(log_records.Head(9, SALT).encode() + message(9, [7]))
    (path,) = [path for path in log.glob("*.log") if records[0] in path.read_bytes()]
    content = path.read_bytes()
    offset = content.index(records[0])
    for record in records:
        content = content.replace(record, record[:-1] + b"\xff" if head else bytes(len(record)))
    path.write_bytes(content)
    line = f"{path.name}: a damaged record at offset {offset} is skipped{says if head else says_without}"
    status, lines = run_doctor(capsys, log)
    assert status == 1 and [line for line in lines if "skipped" in line] == [f"recovery: {line}"]
    with capture_logs() as logged:
        Store(Config(data_dir=str(log.parent))).close()
    assert line in [each.get("what") for each in logged]


def test_the_report_of_a_long_damage_names_the_queues_with_most_of_its_messages(tmp_path: Path) -> None:
    records = [message(id_, [min(id_, 8)]) for id_ in range(1, 11)]
    (tmp_path / "log").mkdir()
    content = log_records.Head(1, SALT).encode() + b"".join(each[:-1] + b"\xff" for each in records)
    (tmp_path / "log" / "00000001.log").write_bytes(content)
    (tmp_path / "log" / "00000002.log").write_bytes(log_records.Head(11, SALT).encode() + message(11, [1]))
    report: list[str] = []
    names = {number: f"queue 'q{number}' in vhost '/'" for number in range(1, 9)}
    recovery.recover(FolderDisk(tmp_path / "log", False), report, set(names), 8, lambda: names)
    listed = ", ".join([f"{3 if number == 8 else 1} of {names[number]}" for number in (8, 1, 2, 3, 4)])
    assert f" is skipped, with 10 messages ({listed}, others of 3 queues), by what is left" in report[1]


def test_damaged_bytes_that_look_like_many_large_records_are_read_once(tmp_path: Path) -> None:
    """Each of them claims all queues that follow, and the id of a message that no segment of this size has."""
    head = log_records.MESSAGE_HEAD_BYTES
    claim = bytearray(message(1, [7])[: log_records.RECORD_BYTES + head])
    contents = claim * 1000
    for at in range(0, len(contents), len(claim)):
        left = (len(contents) - at - len(claim)) // 4
        id_ = at if at else 1 << 40
        fields = (log_records.MESSAGE, id_, 0, 4, 1, 0, left)
        log_records.MESSAGE_HEAD.pack_into(contents, at + log_records.RECORD_BYTES, *fields)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "00000001.log").write_bytes(log_records.Head(1, SALT).encode() + contents)
    (tmp_path / "log" / "00000002.log").write_bytes(log_records.Head(50_000, SALT).encode())
    report: list[str] = []
    names = {7: "queue 'q7' in vhost '/'"}
    tracemalloc.start()
    try:
        recovery.recover(FolderDisk(tmp_path / "log", False), report, {7}, 7, lambda: names)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    (said,) = [line for line in report if "skipped" in line]
    most = 1 + len(contents) // log_records.MESSAGE_BYTES
    assert f" is skipped, with {most} messages of a queue that is not known: " in said


def test_a_checkpoint_that_is_no_file_is_named(capsys: CaptureFixture[str], log: Path) -> None:
    (log / "checkpoint").unlink()
    os.mkfifo(log / "checkpoint")
    assert examine(log.parent) == 1
    assert capsys.readouterr().err == f"warren: {log}/checkpoint: it is no regular file\n"


def test_empty_and_missing_folders_are_reported(capsys: CaptureFixture[str], tmp_path: Path) -> None:
    for files in ([], ["lock"]):
        for file in files:
            (tmp_path / file).touch()
        assert examine(tmp_path) == 66
        says = "no broker has stored anything here: name another folder (--data)"
        assert capsys.readouterr().err == f"warren: {tmp_path}: {says}\n"
        assert [path.name for path in tmp_path.iterdir()] == files
    assert examine(tmp_path / "none") == 66
    says = "there is no such folder: name the folder of a broker (--data)"
    assert capsys.readouterr().err == f"warren: {tmp_path / 'none'}: {says}\n"


def test_a_part_of_an_interrupted_import_is_named(capsys: CaptureFixture[str], log: Path) -> None:
    metadata = SQLiteMetadata(log.parent / "meta.sqlite")
    metadata.load()
    metadata.apply([Change(True, StoredGlobalParameter(UNFINISHED_IMPORT, "1700000000"))])
    metadata.close()
    status, lines = run_doctor(capsys, log)
    says = "an import of definitions was interrupted, and a part of them is here"
    assert status == 1 and f"metadata: INCOMPLETE: {says}: start the broker, then {ADVICE}" in lines


@pytest.mark.parametrize("kind", ["missing", "a file", "a loop of links"])
def test_a_log_that_is_no_folder_is_damage(capsys: CaptureFixture[str], log: Path, kind: str) -> None:
    log.rename(log.parent / "elsewhere")
    if kind == "a file":
        log.touch()
    elif kind == "a loop of links":
        log.symlink_to(log)
    assert examine(log.parent) == 1
    says = "it is missing" if kind == "missing" else "this is no folder"
    assert capsys.readouterr().out.splitlines()[-1] == f"log: BAD: {says}"


def test_a_file_in_place_of_the_folder_is_named_as_one(capsys: CaptureFixture[str], log: Path) -> None:
    file = log / "00000001.log"
    assert examine(file) == 66
    assert capsys.readouterr().err == f"warren: {file}: this is a file: name the folder of a broker (--data)\n"


@pytest.mark.parametrize("lost", ["meta.sqlite", "what meta.sqlite-wal had"])
def test_lost_definitions_are_damage(capsys: CaptureFixture[str], tmp_path: Path, log: Path, lost: str) -> None:
    (tmp_path / "meta.sqlite").unlink()
    if lost != "meta.sqlite":
        SQLiteMetadata(tmp_path / "meta.sqlite").close()
    before = contents(log)
    status, lines = run_doctor(capsys, log)
    assert status == 1
    assert lines[0].startswith("metadata: BAD: meta.sqlite is missing or empty, and the log has messages: restore")
    with pytest.raises(StorageFault, match="restore the file"):
        Store(Config(data_dir=str(tmp_path)))
    assert contents(log) == before


def test_a_lost_log_is_damage(capsys: CaptureFixture[str], tmp_path: Path, log: Path) -> None:
    for path in log.iterdir():
        path.unlink()
    status, lines = run_doctor(capsys, log)
    says = "the log is lost: it is empty, and 2 durable queues or exchanges were created with it"
    assert status == 1 and lines[-1].startswith(f"log: BAD: {says}: mount its folder, or restore it")
    with pytest.raises(StorageFault, match=says):
        Store(Config(data_dir=str(tmp_path)))
    assert contents(log) == {}
    (log / "00000001.log").touch()
    store = Store(Config(data_dir=str(tmp_path)))
    store.close()
    assert not any(map(len, store.queues.values())) and run_doctor(capsys, log)[0] == 0


def test_an_empty_log_without_queues_is_sound(capsys: CaptureFixture[str], tmp_path: Path) -> None:
    new_metadata(tmp_path).close()
    (tmp_path / "log").mkdir()
    assert run_doctor(capsys, tmp_path / "log")[0] == 0


def stopped(folder: Path, *, cleanly: bool) -> list[Path]:
    """Store 50 messages in three segments or more, and stop; return the files of the segments."""
    metadata = new_metadata(folder, 7)
    journal = Journal(FolderDisk(folder / "log", True), metadata, 2000)
    journal.recover()
    stored = []
    for number in range(50):
        frames = content_frames(1, b"\0\0", b"%d" % number * 50)
        stored.append(Message(RoutingAddress("", "key"), frames, 1, 100, 0, True))
        journal.append([7], stored[-1:])
        commit(journal)
    journal.settle_many(7, stored[:25])  # of segments that are deleted now
    commit(journal)
    if cleanly:
        journal.close()
    metadata.close()
    segments = sorted(folder.glob("log/*.log"))
    assert len(segments) > 2 and segments[0].name != "00000001.log"
    return segments


@pytest.mark.parametrize("part", ["half", "all bytes", "the file", "one record", "one byte"])
@pytest.mark.parametrize("index", [0, -1])
def test_missing_parts_are_damage(capsys: CaptureFixture[str], tmp_path: Path, index: int, part: str) -> None:
    segments = stopped(tmp_path, cleanly=True)
    assert run_doctor(capsys, tmp_path / "log")[0] == 0
    path = segments[index]
    size = path.stat().st_size
    left = {"half": size // 2, "all bytes": 0, "one record": size - 181, "one byte": size - 1}.get(part)
    if left is None:
        path.unlink()
    else:
        os.truncate(path, left)
    status, lines = run_doctor(capsys, tmp_path / "log")
    assert status == 1
    assert any(line.startswith(f"recovery: {path.name}: ") and "missing" in line for line in lines), lines


def test_a_missing_end_is_damage_by_the_checkpoint(capsys: CaptureFixture[str], tmp_path: Path) -> None:
    segments = stopped(tmp_path, cleanly=False)
    os.truncate(segments[-1], segments[-1].stat().st_size - 1)
    assert run_doctor(capsys, tmp_path / "log")[0] == 0, "it may be torn"
    segments[1].unlink()
    status, lines = run_doctor(capsys, tmp_path / "log")
    assert status == 1 and any(f"{segments[1].name}: it is missing" in line for line in lines)


@pytest.mark.parametrize("age", ["before the queue", "before the messages"])
def test_older_metadata_is_damage(capsys: CaptureFixture[str], tmp_path: Path, age: str) -> None:
    new_metadata(tmp_path).close()
    older = (tmp_path / "meta.sqlite").read_bytes()
    metadata = SQLiteMetadata(tmp_path / "meta.sqlite")
    metadata.load()
    metadata.apply([Change(True, StoredQueue("/", f"q{number}", number, False, b"")) for number in (6, 7)])
    if age == "before the messages":
        metadata.close()
        older = (tmp_path / "meta.sqlite").read_bytes()
        metadata = SQLiteMetadata(tmp_path / "meta.sqlite")
    journal = Journal(FolderDisk(tmp_path / "log", True), metadata)
    journal.recover()
    frames = content_frames(1, b"\0\0", b"body")
    for queues in ([6], [7], [6, 7]):
        journal.append(queues, [Message(RoutingAddress("", "key"), frames, 1, 4, 0, True)])
        commit(journal)
    journal.close()
    metadata.close()
    assert run_doctor(capsys, tmp_path / "log")[0] == 0
    (tmp_path / "meta.sqlite").write_bytes(older)
    status, lines = run_doctor(capsys, tmp_path / "log")
    if age == "before the messages":
        assert status == 0
        return
    what = "the metadata is older than the log, which has 4 messages of 2 queues or exchanges that it does not know"
    assert status == 1 and any(line.startswith(f"recovery: {what}: restore the metadata") for line in lines)
    before = contents(tmp_path / "log")
    assert copy_store(str(tmp_path), str(tmp_path / "copy"), "", "") != 0
    assert f"the log is not complete: {what}" in capsys.readouterr().err and contents(tmp_path / "log") == before
    store = Store(Config(data_dir=str(tmp_path)))
    assert isinstance(store.journal, Journal) and store.journal.report[0].startswith(what)
    store.close()
    (tmp_path / "lock").unlink()  # the process holds it
    assert run_doctor(capsys, tmp_path / "log")[0] == 0, "they are dropped"


def test_damaged_metadata_is_reported_with_what_to_do(capsys: CaptureFixture[str], log: Path) -> None:
    path = log.parent / "meta.sqlite"
    path.write_bytes(b"not a database " * 100)
    status, lines = run_doctor(capsys, log)
    assert status == 1
    assert f"metadata: BAD: {path}: file is not a database: {RESTORE}" in lines


@pytest.mark.parametrize(
    ("name", "number", "says"),
    [
        ("meta.sqlite", errno.EACCES, "has no right to it"),
        ("meta.sqlite", errno.EIO, "Input/output error"),
        ("00000001.log", errno.EACCES, "has no right to it"),
        ("00000001.log", errno.EIO, "Input/output error"),
    ],
)
def test_a_file_that_cannot_be_opened_is_no_damage(
    capsys: CaptureFixture[str], monkeypatch: MonkeyPatch, log: Path, name: str, number: int, says: str
) -> None:
    def failing(open_file: Callable[..., object]) -> Callable[..., object]:
        def open_or_fail(path: str | Path, *arguments: Any, **options: Any) -> object:
            if Path(path).name == name:
                raise OSError(number, os.strerror(number), str(path))
            return open_file(path, *arguments, **options)

        return open_or_fail

    monkeypatch.setattr(os, "open", failing(os.open))
    monkeypatch.setattr(doctor, "copyfile", failing(doctor.copyfile))
    assert examine(log.parent) == 69
    out, err = capsys.readouterr()
    assert "BAD" not in out and err.startswith("warren: ") and f"{name}: " in err and says in err


def test_an_unreadable_file_is_named(capsys: CaptureFixture[str], monkeypatch: MonkeyPatch, log: Path) -> None:
    def read_nothing(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", read_nothing)
    assert examine(log.parent) == 69
    assert capsys.readouterr().err == f"warren: {log}/checkpoint: Input/output error\n"


@pytest.mark.parametrize("name", ["meta.sqlite", "meta.sqlite-wal"])
def test_metadata_that_is_no_file_is_named(capsys: CaptureFixture[str], log: Path, name: str) -> None:
    path = log.parent / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert examine(log.parent) == 1
    assert capsys.readouterr() == ("", f"warren: {path}: it is no regular file\n")


def test_the_log_of_the_metadata_is_read_and_left(capsys: CaptureFixture[str], log: Path) -> None:
    metadata = SQLiteMetadata(log.parent / "meta.sqlite")
    metadata.load()
    metadata.apply([Change(True, StoredQueue("/", "new", 9, False, b""))])
    killed = contents_of_files(log.parent)
    metadata.close()
    for name, content in killed.items():
        (log.parent / name).write_bytes(content)
    assert killed["meta.sqlite-wal"] and examine(log.parent) == 0
    assert "queue 'new' in vhost '/': 0 messages" in capsys.readouterr().out
    assert contents_of_files(log.parent) == killed


def test_an_earlier_version_is_read(capsys: CaptureFixture[str], tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    SQLiteMetadata(tmp_path / "meta.sqlite").close()
    monkeypatch.setattr(sqlite_metadata, "_STEPS", (*sqlite_metadata._STEPS, ("CREATE TABLE more (name BLOB)",)))
    monkeypatch.setattr(sqlite_metadata, "VERSION", sqlite_metadata.VERSION + 1)
    before = contents_of_files(tmp_path)
    assert examine(tmp_path) == 0
    assert "metadata: 0 vhosts" in capsys.readouterr().out and contents_of_files(tmp_path) == before


@pytest.mark.parametrize("fault", ["none", "no room for the copy", "no room for its update"])
def test_a_fault_of_the_temporary_folder_is_named(
    capsys: CaptureFixture[str], tmp_path: Path, log: Path, monkeypatch: MonkeyPatch, fault: str
) -> None:
    def copy_to_full_disk(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(target))

    def no_folder(prefix: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    if fault == "none":
        monkeypatch.setattr(doctor, "TemporaryDirectory", no_folder)
    elif fault == "no room for the copy":
        monkeypatch.setattr(doctor, "copyfile", copy_to_full_disk)
    else:
        step = ("PRAGMA max_page_count = 1", *[f"CREATE TABLE new{number} (name BLOB)" for number in range(100)])
        monkeypatch.setattr(sqlite_metadata, "_STEPS", (*sqlite_metadata._STEPS, step))
        monkeypatch.setattr(sqlite_metadata, "VERSION", sqlite_metadata.VERSION + 1)
    assert examine(tmp_path) == 69
    output = capsys.readouterr()
    says = "there is no such file or folder: check the path" if fault == "none" else "the disk is full"
    place = "" if fault == "none" else f"{gettempdir()}, "
    assert output.err.startswith(f"warren: {place}the folder for temporary files (TMPDIR): {says}")
    assert output.out == "" and str(tmp_path) not in output.err


def test_a_lack_of_memory_is_no_damage(capsys: CaptureFixture[str], log: Path, monkeypatch: MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(recovery, "_heads", exhausted)
    with capture_logs() as lines:
        data = Config(data_dir=str(log.parent))
        folder = DataFolder(data, Sources(environment={}))
        assert asyncio.run(open_store(data, folder, {}, cast("Ending", None), cast("Systemd", None))) == 69
    assert lines[-1]["event"] == "cannot_open_data" and "not enough memory" in lines[-1]["reason"]
    (log.parent / "lock").unlink()  # the process holds it
    assert examine(log.parent) == 69
    assert capsys.readouterr().err.startswith(f"warren: {log.parent}: there is not enough memory to read it")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_removes_the_copy_of_the_metadata(
    capsys: CaptureFixture[str], tmp_path: Path, log: Path, monkeypatch: MonkeyPatch,
    number: int, status: int,
) -> None:  # fmt: skip
    copies = tmp_path / "copies"
    copies.mkdir()

    def killed(self: SQLiteMetadata) -> None:
        (folder,) = copies.iterdir()
        assert (folder / "meta.sqlite").exists()
        signal.raise_signal(number)
        for _ in range(1_000_000):  # the interpreter looks for signals where it goes back
            pass

    monkeypatch.setattr(SQLiteMetadata, "load", killed)
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    # As in a process of its own: the loop of another test may still handle it.
    handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, handler)
    try:
        if number == signal.SIGINT:
            assert main(["doctor", "--data", str(tmp_path)]) == status
        else:
            with pytest.raises(SystemExit, match=str(status)):
                main(["doctor", "--data", str(tmp_path)])
        assert list(copies.iterdir()) == [] and signal.getsignal(number) == handler
    finally:
        signal.signal(number, before)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_are_printed_on_their_line_to_an_output_of_any_encoding(tmp_path: Path, log: Path, encoding: str) -> None:
    metadata = SQLiteMetadata(tmp_path / "meta.sqlite")
    metadata.load()
    metadata.apply([Change(True, StoredQueue("/", "café \u4e2d\udcff\n\x1b[31mlog: BAD", 9, False, b""))])
    metadata.close()
    with open(tmp_path / "output", "w", encoding=encoding) as output, redirect_stdout(output):
        assert main(["doctor", "--data", str(tmp_path)]) == 0
    *_, line = (tmp_path / "output").read_bytes().splitlines()
    shown = "café \u4e2d".encode(encoding, "backslashreplace").decode(encoding)
    assert line.decode(encoding) == rf"queue '{shown}\udcff\n\x1b[31mlog: BAD' in vhost '/': 0 messages"


def contents_of_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_read_only_snapshot_is_verified(capsys: CaptureFixture[str], monkeypatch: MonkeyPatch, log: Path) -> None:
    (log.parent / "lock").touch()
    open_file = os.open

    def open_to_read(path: str | Path, flags: int, *more: int, **options: int) -> int:
        if log.parent in Path(path).parents and flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return open_file(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", open_to_read)
    assert examine(log.parent) == 0
    assert "queue 'q8' in vhost '/': 1 messages" in capsys.readouterr().out


def test_a_broker_logs_what_is_missing_once(tmp_path: Path) -> None:
    segments = stopped(tmp_path, cleanly=True)
    segments[0].unlink()
    for expected in ([f"{segments[0].name}: it is missing"], []):
        metadata = SQLiteMetadata(tmp_path / "meta.sqlite")
        metadata.load()
        journal = Journal(FolderDisk(tmp_path / "log", True), metadata, 2000)
        journal.recover()
        assert [line.split(",")[0] for line in journal.report] == expected
        journal.close()
        metadata.close()
