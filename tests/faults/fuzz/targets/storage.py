"""The files of a damaged store that recovery reads, and those of an export that other programs may write.

The input of the log is a list of changes to the files of a sound one. If its first byte is 1, the checksums are
corrected afterwards, so that mutations reach what they protect: no disk does that, but it must be reported as well.
"""

import os
import sqlite3
import tempfile
from binascii import crc32
from functools import cache
from pathlib import Path
from random import Random
from typing import cast

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import MemoryMetadata
from tests.support.clock import FakeClock
from tests.support.definitions import DEFINITIONS
from tests.support.journal import commit
from tests.support.session import SureJournal, new_node
from warren.broker.amqp.framing import content_frames
from warren.broker.core.access.users import Users
from warren.broker.core.definitions.definition_recorder import DefinitionRecorder
from warren.broker.core.definitions.importer import import_definitions
from warren.broker.core.definitions.restore import restore
from warren.broker.core.messages import journal_port
from warren.broker.core.messages.journal_port import Commit
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.messages.message_state import MessageState
from warren.broker.core.metadata.records import Change
from warren.broker.core.node.node import Node
from warren.broker.storage import log_records
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.journal import Journal
from warren.broker.storage.metadata import KINDS, Metadata
from warren.broker.storage.sqlite_metadata import SQLiteMetadata
from warren.plugins.message_log.analysis.input import Manifests
from warren.plugins.message_log.export.manifest import Manifest
from warren.plugins.message_log.file_format import compacted, schema

from .target import Target, Turn

START_MS = 500.0  # before the broker serves anybody, or in a process of its own
DATABASE = "meta.sqlite"
VALUES: tuple[object, ...] = (
    None,
    -1,
    0,
    1 << 62,
    0.5,
    "",
    "text",
    b"",
    b"\xff",
    "[]",
    "{}",
    "[1]",
    '{"a":{}}',
    "[" * 5000,
)
ENTRY = b'{"path":"events/dt=2026-01-01/hour=00/part-a.parquet","table":"events","bytes":1,"rows":1,"sha256":"00"}\n'
REPLACES = (
    b'{"replaces":["events/dt=2026-01-01/hour=00/part-a.parquet"],"by":"events/dt=2026-01-01/hour=00/part-b.parquet"}\n'
)


def message(body: bytes, state: MessageState | None) -> Message:
    one = Message(RoutingAddress("e", "key"), content_frames(1, b"\0\0", body), 1, len(body), 0, True)
    one.state = state
    return one


@cache
def sound_log() -> dict[str, bytes]:
    """Return the files of a log with every kind of record, two segments and a checkpoint."""
    disk = SimulatedDisk(Random(1))
    journal = Journal(disk, cast(Metadata, MemoryMetadata()), 512)
    journal.recover()
    stored = []
    for number in range(8):
        state = MessageState(level=1, attempts=number, bcc_keys=("a", "b")) if number % 2 else None
        one = message(b"body" * number, state)
        journal.append([1, 2] if number % 3 else [1], [one])
        commit(journal)
        stored.append(one)
    journal.settle(1, stored[0].id)
    journal.settle(2, stored[1].id)
    journal.record_delivery_count(1, stored[2].id, 3)
    commit(journal)
    journal.queue_deleted(2)
    commit(journal)
    open_, ended = Commit(), Commit()
    for long in (open_, ended, open_, ended):
        if not long.number:
            journal.keep_open(long)
        journal.enter(long)
        journal.append([1], [message(b"of a commit", None)])
        journal.enter(None)
        commit(journal)
    disk.save_checkpoint(journal.snapshot().encode())
    for long in (open_, ended):
        journal.enter(long)
        journal.append([1], [message(b"of a commit", None)])
        journal.begin_settling(long)
        journal.settle(1, stored.pop().id)
        journal.enter(None)
        commit(journal)
    journal.end(ended)
    commit(journal)
    return {name: disk.content(name) for name in disk.names()}


def recover_log(data: bytes, turn: Turn) -> None:
    """A damaged log is recovered or refused, and its messages can be read; a second recovery finds the same."""
    disk = SimulatedDisk(Random(2))
    corrected = data[:1] == b"\1"
    for name, content in changed(sound_log(), data[1:]).items():
        disk.put(name, sealed(name, content) if corrected else content)
    try:
        found = bodies(disk)
    except (StorageFault, OSError):
        return
    turn()
    if not corrected:
        assert bodies(disk.crash()) == found


def bodies(disk: SimulatedDisk) -> dict[int, list[bytes | None]]:
    journal = Journal(disk, cast(Metadata, MemoryMetadata()))
    found = {}
    for queue, ids in journal.recover().items():
        found[queue] = [one and one.body for one in journal.read(list(ids))]
    journal.close()
    return found


def changed(files: dict[str, bytes], changes: bytes) -> dict[str, bytes]:
    """Apply changes to files. Each has a file, an offset of two bytes, what to do, and a value of one byte."""
    contents = {name: bytearray(content) for name, content in files.items()}
    names = sorted(contents)
    for at in range(0, len(changes) - 4, 5):
        content = contents[names[changes[at] % len(names)]]
        offset = int.from_bytes(changes[at + 1 : at + 3], "big") % (len(content) + 1)
        action, value = changes[at + 3] % 4, changes[at + 4]
        if action == 0:
            content[offset : offset + 1] = bytes((value,))
        elif action == 1:
            del content[offset : offset + 1 + value]
        elif action == 2:
            copied = content[offset // 2 : offset // 2 + value]
            content[offset : offset + len(copied)] = copied
        else:
            content[offset : offset + 4] = bytes((value,)) * 4
    return {name: bytes(content) for name, content in contents.items()}


def sealed(name: str, content: bytes) -> bytes:
    """Correct the checksums of a file, as far as its records can be told apart."""
    if name == "checkpoint":
        return content[:-4] + crc32(content[:-4]).to_bytes(4, "little")
    out = bytearray(content)
    size = log_records.SEGMENT_HEAD.size
    out[size : size + 4] = crc32(out[:size]).to_bytes(4, "little")
    salt = int.from_bytes(out[size - 4 : size], "little")
    at = log_records.SEGMENT_HEAD_BYTES
    while at + log_records.RECORD_BYTES <= len(out):
        magic, _, length = log_records.RECORD_HEAD.unpack_from(out, at)
        end = at + log_records.RECORD_BYTES + length
        if magic != log_records.MAGIC or end > len(out):
            break
        out[at + 4 : at + 8] = crc32(out[at + 8 : end], salt).to_bytes(4, "little")
        at = end
    return bytes(out)


class RecordedChanges(SureJournal):
    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []

    def change(self, change: Change) -> None:
        self.changes.append(change)


@cache
def sound_metadata() -> bytes:
    """Return a database with records of every kind."""
    journal = RecordedChanges()
    node = new_node(journal)
    node.observers.add(DefinitionRecorder(node, []))
    import_definitions(node, DEFINITIONS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / DATABASE
        metadata = SQLiteMetadata(path, False)
        metadata.apply(journal.changes)
        metadata.close()
        return path.read_bytes()


def load_metadata(data: bytes, turn: Turn) -> None:
    """A damaged database, or one with other values in its cells, is refused, or a node is restored from it."""
    content = sound_metadata()
    damaged = data[:1] == b"\1"
    if damaged:
        content = changed({DATABASE: content}, data[1:])[DATABASE]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = Path(folder) / DATABASE
        path.write_bytes(content)
        if not damaged:
            change_cells(path, data[1:])
        try:
            metadata = SQLiteMetadata(path, False)
        except StorageFault:
            return
        try:
            definitions = metadata.load()
            turn()
            restore(Node("node", "cluster", FakeClock(), journal_port.Journal(), Users(frozenset())), definitions)
        except StorageFault:
            pass
        finally:
            metadata.close()


def change_cells(path: Path, data: bytes) -> None:
    """Set a cell of all records of a kind. Each change has a kind, a column and a value."""
    kinds, columns = list(KINDS), ("position", "vhost", "kind", "key", "record", "crc")
    connection = sqlite3.connect(path, isolation_level=None)
    for at in range(0, len(data) - 2, 3):
        column = columns[data[at + 1] % len(columns)]
        values = (VALUES[data[at + 2] % len(VALUES)], kinds[data[at] % len(kinds)])
        try:
            connection.execute(f"UPDATE records SET {column} = ? WHERE kind = ?", values)
        except sqlite3.Error:  # a constraint
            pass
    connection.close()


def read_manifests(data: bytes, turn: Turn) -> None:
    """A manifest of an export is read; lines that cannot be read are counted or reported."""
    files = Manifests()
    text = data.decode("utf-8", "replace")
    files.add("node-boot.jsonl", text)
    files.expected(set(compacted.replaced_paths([text], set(files.files))))
    turn()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = Path(folder) / schema.MANIFEST / "a.jsonl"
        path.parent.mkdir()
        path.write_bytes(data)
        try:
            Manifest(Path(folder), "a.jsonl").all_files()
        except OSError:
            pass


LOG = Target(
    "log",
    recover_log,
    [b"\0", b"\1", b"\1\0\0\x10\0\xff", b"\0\1\0\x20\1\x40", b"\1\2\1\x20\2\x80\1\0\x18\3\xff", b"\1\1\0\x30\0\x09"],
    512,
    START_MS,
)
METADATA = Target("metadata", load_metadata, [b"\0", b"\1", b"\1\0\x10\x20\3\xff", b"\0\1\2\3\4\5\6"], 64, START_MS)
MANIFESTS = Target("manifests", read_manifests, [ENTRY, ENTRY + REPLACES, REPLACES[:-1]], 2048, START_MS)
