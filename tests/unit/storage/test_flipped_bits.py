"""A flipped bit anywhere in a data folder: it is named, with its place, or it changes nothing; all else is served."""

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.journal import commit, commit_any
from tests.unit.storage.test_sqlite_metadata import all_fields, everything, puts
from warren.broker.amqp.framing import content_frames
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.messages.message_state import MessageState
from warren.broker.core.metadata.records import StoredQueue
from warren.broker.storage.doctor import examine
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.folder_disk import FolderDisk
from warren.broker.storage.journal import Journal
from warren.broker.storage.recovery import check_definitions, check_log
from warren.broker.storage.sqlite_metadata import SQLiteMetadata

Contents = tuple[list[tuple[object, ...]], dict[int, list[bytes | None]]]
SEGMENT_BYTES = 3000
PLACE = re.compile(r"at offset \d|from offset \d|row \d+ of|: BAD: |checkpoint: |metadata is older|is missing")


def fill(folder: Path, *, cleanly: bool) -> None:
    """Store records of all kinds, in segments of which one has copies of another, and stop or be killed."""
    metadata = SQLiteMetadata(folder / "meta.sqlite", False)
    metadata.load()
    metadata.apply(puts(everything("/", 9)))
    metadata.apply(puts([StoredQueue("/", f"q{number}", number, False, b"\0\0\0\0") for number in (1, 2, 3)]))
    journal = Journal(FolderDisk(folder / "log", False), metadata, SEGMENT_BYTES)
    journal.recover()
    stored: list[Message] = []

    def store(count: int, *queues: int, state: MessageState | None = None) -> None:
        for _ in range(count):
            body = b"%03d" % len(stored) + b"x" * 100
            stored.append(Message(RoutingAddress("e", "a.b"), content_frames(1, b"\0\0", body), 1, len(body), 0, True))
            stored[-1].state = state
            journal.append(list(queues), stored[-1:])
            commit(journal)

    store(13, 1)
    store(6, 1, 2, 3)
    journal.settle_many(1, stored[1:13])
    commit(journal)  # copies the rest of the first segment
    store(3, 2, state=MessageState(level=3, deadline_ms=1 << 41, attempts=1, dead_lettered=1))
    store(14, 3)
    for message in stored[13:16]:
        journal.settle(2, message.id)
    journal.record_delivery_count(3, stored[30].id, 4)
    store(5, 9)
    for _ in range(3):
        journal.sync()
        commit_any(journal)
    journal.vouch()
    commit(journal)
    if cleanly:
        journal.close()
        metadata.close()
    (folder / "lock").write_text("12345\n")


def contents(folder: Path) -> Contents:
    """Return what a start finds. Raises StorageFault."""
    with closing(SQLiteMetadata(folder / "meta.sqlite", False)) as metadata:
        definitions, disk = metadata.load(), FolderDisk(folder / "log", False)
        check_definitions(disk, definitions)
        check_log(disk, definitions.numbers)
        journal = Journal(disk, metadata, SEGMENT_BYTES)
        queues = journal.recover(definitions.numbers, definitions.next_queue - 1)
        read = {
            number: [message and message.body for message in journal.read_all(list(ids))]
            for number, ids in queues.items()
        }
        disk.close()
        return all_fields(definitions), read


def flips(folder: Path, count: int) -> Iterator[tuple[Path, int]]:
    """Some bytes of each file, spread over it, whatever its length."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        size = path.stat().st_size
        for number in range(min(count, size)):
            yield path.relative_to(folder), number * size // min(count, size)


def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int, *, cleanly: bool) -> None:
    filled, whole = tmp_path / "filled", tmp_path / "whole"
    filled.mkdir()
    fill(filled, cleanly=cleanly)
    shutil.copytree(filled, whole)
    assert examine(whole) == 0
    shutil.copytree(filled, tmp_path / "read")
    before = contents(tmp_path / "read")
    assert {path.name for path in whole.glob("log/*.log")} >= {"00000002.log", "00000003.log", "00000004.log"}
    tried = set()
    for number, (name, at) in enumerate(flips(whole, count)):
        tried.add(name.name)
        folder = tmp_path / "flipped"
        shutil.copytree(whole, folder)
        data = bytearray((folder / name).read_bytes())
        data[at] ^= 1 << number % 8
        (folder / name).write_bytes(data)
        capsys.readouterr()
        status = examine(folder)
        said = capsys.readouterr().out
        try:
            found: Contents | None = contents(folder)
        except StorageFault as fault:
            found, started = None, str(fault)
            assert name.name in started or "meta.sqlite" in started
        shutil.rmtree(folder)
        if found != before:
            assert status == 1 or "torn end" in said, f"byte {at} of {name}: status {status}:\n{said}"
            assert PLACE.search(said), f"byte {at} of {name}:\n{said}"
        elif name.parent.name == "log" and "torn end" not in said:
            assert status == 1 and name.name in said and PLACE.search(said), f"byte {at} of {name}:\n{said}"
        if found is not None:
            lost = sum(map(len, before[1].values())) - sum(map(len, found[1].values()))
            assert name.parent.name != "log" or lost <= 3, f"byte {at} of {name} costs {lost} copies of messages"
    assert tried >= {"meta.sqlite", "checkpoint", "lock"} and ("meta.sqlite-wal" in tried) is not cleanly


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
def test_flipped_bits_in_some_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str], cleanly: bool) -> None:
    check(tmp_path, capsys, 15, cleanly=cleanly)


@pytest.mark.rest("flips more bits")
@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
def test_flipped_bits_in_each_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str], cleanly: bool) -> None:
    check(tmp_path, capsys, 100, cleanly=cleanly)
