"""Metadata through changes, repeats, failures and kills."""

import errno
import itertools
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from tests.support.descriptors import no_descriptor
from warren.broker.core.metadata.records import (
    Change,
    Definitions,
    Record,
    StoredBinding,
    StoredExchange,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredQueue,
    StoredTopicPermission,
    StoredUser,
    StoredVHost,
)
from warren.broker.storage import sqlite_metadata
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.metadata import HIGHEST, RowChange
from warren.broker.storage.sqlite_metadata import RESTORE, VERSION, SQLiteMetadata

NAMES = ["plain", "", "\0", "a\0b", "\udcff\udc80", "é" * 127, "x" * 255, "'; DROP TABLE queues; --", "☃\n\r\t", " A "]
TABLE = b"\x01kI\xff\x00\x00\x07"
QUEUE = 7  # its place in `everything`
SHA256 = "rabbit_password_hashing_sha256"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.sqlite"


@pytest.fixture
def metadata(path: Path) -> Iterator[SQLiteMetadata]:
    opened = SQLiteMetadata(path, False)
    yield opened
    opened.close()


def fields(record: Record) -> tuple[object, ...]:
    return (type(record).__name__, *[getattr(record, slot) for slot in record.__slots__])


def all_fields(definitions: Definitions) -> list[tuple[object, ...]]:
    return [fields(change.record) for change in definitions.changes()]


def everything(name: str, number: int) -> list[Record]:
    """Return one record of each class."""
    hash_ = b"\x00hash=" + name.encode("utf-8", "surrogateescape")
    return [
        StoredVHost(name, name, (name, "a,b"), name, number % 2 == 0),
        StoredUser(name, hash_, (name, "a,b", "administrator"), name, {"max-channels": number}),
        StoredPermission(name, name, name, ".*", ""),
        StoredTopicPermission(name, name, name, ".*", ""),
        StoredParameter(name, name, name, f'["{name}"]'),
        StoredGlobalParameter(name, "{}"),
        StoredExchange(name, name, f"x-{name}", True, number % 2 == 0, number % 3 == 0, TABLE, number),
        StoredQueue(name, name, number, number % 2 == 1, b""),
        StoredBinding(name, name, "queue", name, name, TABLE * number),
        StoredBinding(name, name, "exchange", name, name, b""),
    ]


def puts(records: list[Record]) -> list[Change]:
    return [Change(True, record) for record in records]


def deletes(records: list[Record]) -> list[Change]:
    return [Change(False, record) for record in records]


def image(path: Path, folder: Path) -> Path:
    """Copy the files as a kill at this moment would leave them."""
    folder.mkdir()
    for file in path.parent.glob(path.name + "*"):
        shutil.copy(file, folder)
    return folder / path.name


def loaded(path: Path) -> Definitions:
    metadata = SQLiteMetadata(path, False)
    try:
        return metadata.load()
    finally:
        metadata.close()


def test_all_that_is_put_comes_back_whatever_its_name(path: Path, metadata: SQLiteMetadata) -> None:
    records = [record for number, name in enumerate(NAMES, 1) for record in everything(name, number)]
    metadata.apply(puts(records))
    metadata.close()
    found = loaded(path)
    assert sorted(all_fields(found), key=repr) == sorted(map(fields, records), key=repr)
    assert [queue.number for queue in found.queues] == list(range(1, len(NAMES) + 1))
    assert [vhost.name for vhost in found.vhosts] == NAMES, "not in the order in which they were made"
    assert type(found.exchanges[0].durable) is bool and type(found.queues[0].auto_delete) is bool
    assert found.next_queue == len(NAMES) + 1


def test_a_new_file_is_empty_and_nobody_elses(path: Path, metadata: SQLiteMetadata) -> None:
    found = metadata.load()
    assert found.empty and all_fields(found) == [] and found.next_queue == 1
    assert path.stat().st_mode & 0o777 == 0o600
    metadata.apply([])
    metadata.apply(puts([StoredUser("u", b"h", ())]))
    assert not metadata.load().empty


def test_to_apply_again_changes_nothing(metadata: SQLiteMetadata) -> None:
    odd, plain = everything("\udcff", 1), everything("plain", 2)
    # A queue that was deleted and declared again, with another number, in one batch.
    again = [Change(False, odd[QUEUE]), Change(True, StoredQueue("\udcff", "\udcff", 3, False, b"x"))]
    changes = puts(odd) + puts(plain) + deletes(plain[QUEUE - 1 :]) + again
    metadata.apply(changes)
    first = all_fields(metadata.load())
    assert ("StoredQueue", "\udcff", "\udcff", 3, False, b"x") in first and fields(odd[QUEUE]) not in first
    metadata.apply(changes)
    assert all_fields(metadata.load()) == first


def test_what_is_put_again_is_changed(metadata: SQLiteMetadata) -> None:
    metadata.apply(puts([StoredUser("u", b"old", ("a",)), StoredPermission("u", "/", "", "", "")]))
    metadata.apply(puts([StoredUser("u", b"new", ()), StoredPermission("u", "/", "c", "w", "r")]))
    user = ("StoredUser", "u", b"new", (), SHA256, {})
    assert all_fields(metadata.load()) == [user, ("StoredPermission", "u", "/", "c", "w", "r")]


@pytest.mark.parametrize("kind", range(10))
def test_a_delete_takes_a_record_or_a_whole_virtual_host(metadata: SQLiteMetadata, kind: int) -> None:
    records = everything("one", 1) + everything("two", 2)
    metadata.apply(puts(records))
    deleted = everything("one", 1)[kind]
    for _ in range(2):
        metadata.apply([Change(False, deleted)])
        left = sorted(all_fields(metadata.load()), key=repr)
        inside = [
            fields(record) for record in records if isinstance(deleted, StoredVHost) and in_vhost(record, deleted.name)
        ]
        kept = [fields(record) for record in records if fields(record) not in (fields(deleted), *inside)]
        assert left == sorted(kept, key=repr)


def in_vhost(record: Record, vhost: str) -> bool:
    return "vhost" in record.__slots__ and getattr(record, "vhost") == vhost  # noqa: B009


@pytest.mark.parametrize("part", range(1, 6))
def test_bindings_differ_by_every_part(metadata: SQLiteMetadata, part: int) -> None:
    parts: list[str | bytes] = ["v", "s", "queue", "d", "k", b""]
    other = list(parts)
    other[part] = b"\x01at\x01" if part == 5 else "exchange" if part == 2 else "other"
    make: Callable[..., StoredBinding] = StoredBinding
    metadata.apply(puts([make(*parts), make(*other)]))
    assert len(metadata.load().bindings) == 2
    metadata.apply(deletes([make(*parts)]))
    assert all_fields(metadata.load()) == [("StoredBinding", *other)]


def test_no_number_of_a_queue_is_given_twice(path: Path, metadata: SQLiteMetadata) -> None:
    metadata.apply(puts([StoredQueue("/", "q", 7, False, b"")]))
    assert metadata.load().next_queue == 8
    metadata.apply(deletes([StoredQueue("/", "q", 7, False, b"")]))
    metadata.close()
    assert loaded(path).next_queue == 8
    metadata = SQLiteMetadata(path, False)
    both = StoredQueue("/", "short", 9, False, b"")
    metadata.apply([Change(True, both), Change(False, both)])
    assert metadata.load().next_queue == 10
    metadata.close()


class Watched(list[Change]):
    """Changes that run a function while they are applied."""

    def __init__(self, changes: list[Change], between: Callable[[int], None]) -> None:
        super().__init__(changes)
        self._between = between

    def __iter__(self) -> Iterator[Change]:
        for index, change in enumerate(super().__iter__()):
            self._between(index)
            yield change
        self._between(len(self))


def test_a_kill_within_a_transaction_leaves_nothing_of_it(tmp_path: Path, path: Path) -> None:
    metadata = SQLiteMetadata(path)
    metadata.apply(puts(everything("first", 1)))
    before = all_fields(metadata.load())
    images: list[Path] = []
    second = puts(everything("second", 2)) + deletes(everything("first", 1))
    metadata.apply(Watched(second, lambda index: images.append(image(path, tmp_path / str(index)))))
    after = all_fields(metadata.load())
    images.append(image(path, tmp_path / "after"))
    metadata.close()
    assert len(images) == len(second) + 2
    assert [all_fields(loaded(at)) == before for at in images] == [True] * (len(images) - 1) + [False]
    assert all_fields(loaded(tmp_path / "after" / path.name)) == after


def test_a_torn_log_gives_the_transactions_that_are_whole(tmp_path: Path, path: Path) -> None:
    metadata = SQLiteMetadata(path)
    states = [all_fields(metadata.load())]
    for number in range(1, 6):
        metadata.apply(puts([StoredQueue("/", f"q{number}", number, False, TABLE), StoredVHost(f"v{number}")]))
        states.append(all_fields(metadata.load()))
    killed = image(path, tmp_path / "killed")
    metadata.close()
    log = killed.with_name(killed.name + "-wal")
    whole, last = log.read_bytes(), -1
    for cut in [*range(0, len(whole), 1500), len(whole)]:
        log.write_bytes(whole[:cut])
        at = image(killed, tmp_path / str(cut))
        index = states.index(all_fields(loaded(at)))
        assert index >= last, "a longer log gives less"
        last = index
    assert last == 5


def test_a_full_disk_changes_nothing_and_may_be_tried_again(metadata: SQLiteMetadata) -> None:
    metadata.apply(puts(everything("there", 1)))
    before = all_fields(metadata.load())
    ask = metadata._connection.execute
    used = ask("PRAGMA page_count").fetchone()[0]
    ask(f"PRAGMA max_page_count = {used + 2}")
    changes = puts([StoredVHost("first"), StoredExchange("/", "e", "topic", True, False, False, bytes(100_000))])
    for _ in range(2):
        with pytest.raises(OSError) as raised:
            metadata.apply(changes)
        assert raised.value.errno == errno.ENOSPC and "full" in str(raised.value)
        assert all_fields(metadata.load()) == before
    ask(f"PRAGMA max_page_count = {used + 1000}")
    metadata.apply(changes)
    assert len(all_fields(metadata.load())) == len(before) + 2


def test_any_other_failure_is_final(metadata: SQLiteMetadata) -> None:
    metadata.close()
    with pytest.raises(OSError) as raised:
        metadata.apply(puts([StoredVHost("v")]))
    assert raised.value.errno == errno.EIO


class Refusing:
    """A connection to a database that executes some statements, and fails the next with an error code of SQLite."""

    def __init__(self, connection: sqlite3.Connection, executes: int, code: int) -> None:
        self._connection = connection
        self._executes = executes
        self._code = code

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, statement: str, values: Sequence[object] = ()) -> object:
        if self._executes or statement == "ROLLBACK":
            self._executes -= 1
            return self._connection.execute(statement, values)
        error = sqlite3.OperationalError("refused")
        error.sqlite_errorcode = self._code
        raise error


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (sqlite3.SQLITE_CANTOPEN, errno.EMFILE),
        (sqlite3.SQLITE_CANTOPEN_FULLPATH, errno.EMFILE),
        (sqlite3.SQLITE_NOMEM, errno.ENOMEM),
        (sqlite3.SQLITE_IOERR_NOMEM, errno.ENOMEM),
        (sqlite3.SQLITE_IOERR_WRITE, errno.EIO),
        (sqlite3.SQLITE_CORRUPT, errno.EIO),
    ],
)
@pytest.mark.parametrize("executes", [0, 1, 2])  # BEGIN and INSERT
def test_a_shortage_is_no_lost_disk(metadata: SQLiteMetadata, code: int, number: int, executes: int) -> None:
    connection = metadata._connection
    metadata._connection = cast("sqlite3.Connection", Refusing(connection, executes, code))
    with pytest.raises(OSError) as raised:
        metadata.apply(puts([StoredVHost("v")]))
    assert raised.value.errno == number
    metadata._connection = connection
    metadata.apply(puts([StoredVHost("w")]))
    assert [vhost.name for vhost in metadata.load().vhosts] == ["w"]


def test_a_delete_that_failed_and_is_repeated_keeps_the_number_of_the_queue(
    path: Path, metadata: SQLiteMetadata
) -> None:
    metadata.apply(puts([StoredQueue("/", "q", 7, False, b"")]))
    connection = metadata._connection
    metadata._connection = cast("sqlite3.Connection", Refusing(connection, 3, sqlite3.SQLITE_FULL))  # its COMMIT
    with pytest.raises(OSError):
        metadata.apply(deletes([StoredQueue("/", "q", 7, False, b"")]))
    metadata._connection = connection
    metadata.apply(deletes([StoredQueue("/", "q", 7, False, b"")]))
    metadata.close()
    with closing(SQLiteMetadata(path)) as again:
        assert again.load().next_queue == 8


def test_without_memory_nothing_is_changed_and_it_may_be_tried_again(metadata: SQLiteMetadata) -> None:
    """Python raises its own error for SQLITE_NOMEM."""

    def fail(index: int) -> None:
        if index == 1:
            raise MemoryError

    with pytest.raises(MemoryError):
        metadata.apply(Watched(puts([StoredVHost("v"), StoredVHost("w")]), fail))
    assert not metadata.load().vhosts
    metadata.apply(puts([StoredVHost("v")]))
    assert [vhost.name for vhost in metadata.load().vhosts] == ["v"]


def test_without_descriptors_changes_are_stored_and_the_sync_is_repeated(tmp_path: Path, path: Path) -> None:
    metadata = SQLiteMetadata(path)
    with no_descriptor():
        with pytest.raises(OSError, match="open files"):
            os.open(os.devnull, os.O_RDONLY)
        for number in range(100):  # more than SQLite keeps in memory
            metadata.apply(puts([StoredQueue("/", f"q{number}", number + 1, False, bytes(100_000))]))
        with pytest.raises(OSError) as raised:
            metadata.sync()
        assert raised.value.errno == errno.EMFILE
    metadata.sync()
    with no_descriptor():
        metadata.apply([Change(False, StoredQueue("/", "q0", 1, False, b""))])
        metadata.sync()
    copy = image(path, tmp_path / "killed")
    metadata.close()
    again = SQLiteMetadata(copy)
    assert [queue.name for queue in again.load().queues] == [f"q{number}" for number in range(1, 100)]
    again.close()


def test_transactions_are_as_safe_as_was_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Applied ones are in the write-ahead log, which is synced on request, and at the start if it exists."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    for durable in (True, False):
        metadata = SQLiteMetadata(path, durable)
        ask = metadata._connection.execute
        assert ask("PRAGMA synchronous").fetchone()[0] == 1
        assert ask("PRAGMA journal_mode").fetchone()[0] == "wal"
        metadata.apply(puts([StoredVHost("v")]))
        metadata.sync()
        metadata.sync()
        metadata.apply(puts([StoredVHost("w")]))
        assert synced == [os.stat(f"{path}-wal").st_ino] * durable
        metadata.sync()
        assert len(synced) == 2 * durable
        metadata.close()
        synced.clear()
    with closing(SQLiteMetadata(path)) as metadata:
        metadata.sync()


def refused(path: Path) -> str:
    with pytest.raises(StorageFault) as raised, closing(SQLiteMetadata(path)) as metadata:
        metadata.load()
    text = str(raised.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text.removeprefix(f"{path}: ")


def other_file(path: Path, *statements: str) -> None:
    other = sqlite3.connect(path)
    for statement in statements:
        other.execute(statement)
    other.commit()
    other.close()


def test_no_queue_gets_the_number_of_an_exchange(path: Path) -> None:
    metadata = SQLiteMetadata(path)
    metadata.apply(puts([StoredExchange("/", "e", "x-delayed-message", True, False, False, b"", 7)]))
    found = metadata.load()
    assert found.numbers == {7} and found.next_queue == 8
    metadata.apply(puts([StoredQueue("/", "q", 5, False, b"")]))
    metadata.apply([Change(False, StoredVHost("/"))])
    assert metadata.load().next_queue == 8, "nor that of one that is deleted"
    metadata.close()


def test_a_file_of_a_later_version_is_refused_and_left_alone(path: Path) -> None:
    SQLiteMetadata(path).close()
    other_file(path, f"PRAGMA user_version = {VERSION + 1}")
    before = path.read_bytes()
    known = f"(schema {VERSION + 1}, this one knows {VERSION})"
    assert refused(path) == f"written by a later version of the broker {known}"
    assert path.read_bytes() == before


def test_a_file_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    other_file(path, "CREATE TABLE queues (name TEXT)")
    before = path.read_bytes()
    assert refused(path) == "this is not the metadata of a broker"
    assert path.read_bytes() == before
    path.write_bytes(b"not a database " * 100)
    assert refused(path) == f"file is not a database: {RESTORE}"
    assert path.read_bytes() == b"not a database " * 100


def test_a_damaged_file_is_refused(path: Path) -> None:
    metadata = SQLiteMetadata(path)
    metadata.apply(puts([StoredVHost(f"v{number}") for number in range(2000)]))
    metadata.close()
    sound = path.read_bytes()
    path.write_bytes(sound[:8192] + bytes(len(sound) - 8192))
    assert refused(path).endswith(f": {RESTORE}")
    path.write_bytes(sound[: len(sound) // 2])
    assert refused(path).endswith(f": {RESTORE}")
    path.write_bytes(sound)
    other_file(path, "INSERT INTO records VALUES (0, '', 'users', 'by hand', 'x', 1)")
    assert refused(path).startswith("damaged: ") and refused(path).endswith(f": {RESTORE}")


@pytest.mark.parametrize("column", ["vhost", "kind", "key", "record", "crc"])
@pytest.mark.parametrize("value", ["", "[" * 5000, "[2]", "x", -1, b"\xff"])
def test_a_cell_that_was_changed_is_damage(path: Path, metadata: SQLiteMetadata, column: str, value: object) -> None:
    metadata.apply(puts(everything("name", 1)))
    metadata.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE records SET {column} = ? WHERE kind = 'queues'", (value,))
    assert refused(path).startswith("damaged: ")


BINDING = '["v", "s", "queue", "d", "k", ""]'


IMPOSSIBLE = ["", "[", "[" * 5000, "{}", '{"vhost": 1}', BINDING + " x", "7", "[7]", BINDING[:-3] + '"x"]', "[[]]"]


@pytest.mark.parametrize("kind, text", [*[("bindings", text) for text in IMPOSSIBLE], ("of a later version", "[]")])
def test_an_impossible_record_is_damage(path: Path, metadata: SQLiteMetadata, kind: str, text: str) -> None:
    metadata._change(RowChange(kind, "", "", text))
    metadata.close()
    assert refused(path).startswith("damaged: ")


@pytest.mark.parametrize("shift", range(0, 60, 7))
def test_a_flipped_bit_of_a_cell_or_an_index_is_named(path: Path, metadata: SQLiteMetadata, shift: int) -> None:
    """Each of these records has this name, in its cells and in an index."""
    name = b"a name that is long enough to flip a bit in it, wherever that is"
    metadata.apply(puts(everything(name.decode(), 1)))
    metadata.close()
    sound = path.read_bytes()
    places = [at for at in range(len(sound)) if sound.startswith(name, at)]
    assert len(places) > 20
    for at in places:
        flipped = bytearray(sound)
        flipped[at + shift] ^= 1
        path.write_bytes(flipped)
        assert re.match(r"damaged: (row \d+ (missing from index|of) \w+|wrong # of entries|non-unique)", refused(path))


@pytest.mark.parametrize("kind", ["queues", HIGHEST])
def test_a_number_that_no_queue_can_have_is_damage(path: Path, metadata: SQLiteMetadata, kind: str) -> None:
    number = 1 << 40
    text = str(number) if kind == HIGHEST else f'["/", "q", {number}, false, ""]'
    metadata._change(RowChange(kind, "", "", text))
    metadata.close()
    assert refused(path) == f"damaged: a number of {number}: {RESTORE}"


def test_a_flipped_bit_in_the_format_of_the_file_is_damage(path: Path, metadata: SQLiteMetadata) -> None:
    metadata.close()
    sound = path.read_bytes()
    for at, bit in itertools.product((18, 19), range(8)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << bit]) + sound[at + 1 :])
        assert refused(path) == f"damaged: its head, at offset 18: {RESTORE}"


def test_a_torn_end_of_the_write_ahead_log_is_named(tmp_path: Path, path: Path, metadata: SQLiteMetadata) -> None:
    for name in "abc":
        metadata.apply(puts([StoredVHost(name)]))
    copy = image(path, tmp_path / "killed")
    log = copy.with_name(copy.name + "-wal")
    sound = log.read_bytes()
    with closing(SQLiteMetadata(copy, False)) as whole:
        assert not whole.report and len(whole.load().vhosts) == 3
    for at in (len(sound) - 1, len(sound) - 4120 + 8, len(sound) - 4120 + 13):  # of a page, and of both salts
        copy.write_bytes(path.read_bytes())
        log.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        with closing(SQLiteMetadata(copy, False)) as damaged:
            assert len(damaged.load().vhosts) == 2
            assert re.match(r"meta.sqlite-wal: a torn end from offset \d+ on is not used", damaged.report[0])


def test_frames_of_a_former_log_are_no_torn_end(tmp_path: Path, path: Path, metadata: SQLiteMetadata) -> None:
    for name in "abcdef":
        metadata.apply(puts([StoredVHost(name)]))
    metadata._connection.execute("PRAGMA wal_checkpoint(RESTART)")
    metadata.apply(puts([StoredVHost("g")]))
    with closing(SQLiteMetadata(image(path, tmp_path / "killed"), False)) as again:
        assert not again.report and len(again.load().vhosts) == 7


def test_a_damaged_name_in_the_schema_is_refused(path: Path, metadata: SQLiteMetadata) -> None:
    metadata.close()
    sound = path.read_bytes()
    assert b"CREATE TABLE records" in sound
    names = sound.replace(b"tablerecordsrecords", b"table" + b"\xff" * 7 + b"records")
    path.write_bytes(names.replace(b"CREATE TABLE", b"CREATE " + b"\xff" * 5))
    assert refused(path).endswith(f": {RESTORE}")


def test_a_path_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    assert refused(tmp_path / "none" / "meta.sqlite") == "there is no such file or folder: check the path"
    assert refused(tmp_path) == "it is a folder, and a file is needed: choose another path"


def test_a_file_that_is_in_use_is_told(path: Path, metadata: SQLiteMetadata) -> None:
    assert refused(path) == "database is locked: stop the program that uses it"


def test_a_file_of_an_earlier_version_is_upgraded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = SQLiteMetadata(path)
    metadata.apply(puts(everything("/", 1)))
    metadata.close()
    before = all_fields(loaded(path))
    step = ("CREATE TABLE more (name BLOB)", "ALTER TABLE records ADD COLUMN more BLOB")
    monkeypatch.setattr(sqlite_metadata, "_STEPS", (*sqlite_metadata._STEPS, step))
    monkeypatch.setattr(sqlite_metadata, "VERSION", VERSION + 1)
    assert all_fields(loaded(path)) == before
    assert all_fields(loaded(path)) == before, "each step is taken once"
