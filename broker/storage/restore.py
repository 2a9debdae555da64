"""`warren restore`: writes a backup to an empty store, in a folder or on PostgreSQL, or verifies it only.

Until all is written and verified, a mark in place of the checkpoint says that the store is unfinished, and nothing uses
it. After an error nothing of it is left; after a kill the next restore removes it.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..core.metadata.records import Change, Definitions
from ..standard_streams import printable
from ..system_errors import file_error
from . import log_records
from .archive import CHECKPOINT, LOG, ROWS, NoBackup, Readable, Reader
from .checkpoint import RESTORING, check_finished
from .copy import CHUNK_BYTES, METADATA_NAME, Open, check_free, copy_metadata, is_url, opened, verify_metadata
from .disk import Disk
from .errors import StorageFault, Unavailable
from .folder_disk import FolderDisk, UntouchedFolder
from .folder_lock import IN_USE_STATUS, InUse, lock
from .folder_lock import NAME as LOCK_NAME
from .metadata import Metadata, MetadataRows
from .recovery import Recovered, check_definitions, check_log, recover
from .segment import number_of
from .sqlite_metadata import SQLiteMetadata

# Those of sysexits.h
DATA_STATUS, NO_INPUT_STATUS, UNAVAILABLE_STATUS, WRITE_STATUS = 65, 66, 69, 74
CREATE_STATUS = IN_USE_STATUS  # of a store that is not empty, too
DAMAGED_ROW = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class Unread(StorageFault):
    """The file cannot be read."""


@dataclass(slots=True)
class Contents:
    """The contents of a backup without its segments, of which these are the lengths by number."""

    definitions: Definitions = field(default_factory=Definitions)
    checkpoint: bytes = b""
    lengths: dict[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{len(self.definitions.changes())} definitions, {sum(self.lengths.values())} bytes of the log"


def restore(file: str, target: str, password_file: str, schema: str) -> int:
    """Restore a file, or the standard input for "-", print what was restored, and return the exit status."""

    def write(reader: Reader) -> str:
        report: list[str] = []
        with emptied(target, password_file, schema) as (disk, metadata):
            written = write_store(reader, disk, metadata, report)
        for line in report:
            print(f"warren: the log was damaged before the backup: {printable(line)}", file=sys.stderr)
        return f"restored and verified: {written}"

    return reported(file, write)


def write_store(reader: Reader, disk: Disk, metadata: Metadata, report: list[str]) -> str:
    """Write a backup to an empty store with the mark, verify it, and replace the mark; return what it has.

    `report` gets a line for each record that was damaged before. Raises NoBackup, Unread, StorageFault, OSError.
    """
    contents = read_contents(reader, disk)
    copy_metadata(contents.definitions, metadata)
    metadata.sync()
    disk.commit()
    verify_metadata(contents.definitions, metadata.load())
    recovered = verify_log(disk, contents, report)
    disk.save_checkpoint(contents.checkpoint)  # from here on it is a store
    return f"{contents} with {sum(each.sound for each in recovered.reports.values())} records"


def check(file: str) -> int:
    """Verify a file, or the standard input for "-", print what it has, and return the exit status."""
    return reported(file, lambda reader: f"a whole backup: {read_contents(reader, None)}")


def reported(file: str, use: Callable[[Reader], str]) -> int:
    """Call a function with the opened backup, print its answer or its error, and return the exit status."""
    try:
        with closing(Source(file)) as stream:
            reader = Reader(stream)
            if (version := reader.about.get("log")) != log_records.VERSION:
                by = f"restore it with Warren {reader.about.get('version')}"
                raise NoBackup(f"of version {version} of the log, this one reads {log_records.VERSION}: {by}")
            answer = use(reader)
        node, created = (printable(str(reader.about.get(name))) for name in ("node", "created"))
        print(f"{answer}; of {node} at {created}")
        return 0
    except InUse as error:
        return failed(f"{error}: stop it first", IN_USE_STATUS)
    except NoBackup as fault:
        return failed(f"{shown(file)}: {fault}; nothing was restored", DATA_STATUS)
    except StorageFault as fault:
        kinds = ((Unread, NO_INPUT_STATUS), (Unavailable, UNAVAILABLE_STATUS), (StorageFault, CREATE_STATUS))
        return failed(fault, next(status for kind, status in kinds if isinstance(fault, kind)))
    except OSError as error:
        return failed(f"{file_error(error)}; nothing was restored", WRITE_STATUS)


def failed(reason: object, status: int) -> int:
    print(f"warren: {reason}", file=sys.stderr)
    return status


class Source(Readable):
    """The file of a backup, whose errors are its own, or the standard input."""

    def __init__(self, file: str) -> None:
        """Open it. Raises Unread."""
        self._shown = shown(file)
        try:
            self._descriptor = os.dup(0) if file == "-" else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Unread(file_error(error, self._shown)) from error

    def read(self, count: int, /) -> bytes:
        try:
            return os.read(self._descriptor, count)
        except OSError as error:
            raise Unread(file_error(error, self._shown)) from error

    def close(self) -> None:
        os.close(self._descriptor)


def shown(file: str) -> str:
    return "standard input" if file == "-" else file


def read_contents(reader: Reader, disk: Disk | None) -> Contents:
    """Read a backup to its end, and write its segments to the disk, if any. Raises NoBackup, Unread, OSError."""
    contents = Contents()
    names = set()
    for name, size, pieces in reader.files():
        number = number_of(name.removeprefix(LOG)) if name.startswith(LOG) else None
        names.add(name)
        if number is not None:
            contents.lengths[number] = size
            write_segment(disk, number, pieces)
        elif name == CHECKPOINT:
            contents.checkpoint = b"".join(pieces)
        elif name == ROWS:
            try:
                contents.definitions = MetadataRows().definitions(rows_in(pieces))
            except DAMAGED_ROW as error:
                raise NoBackup(f"{name}: a row that this version does not know: {error!r}") from error
        else:
            raise NoBackup(f"{printable(name)}: no file of a backup")
    if missing := {ROWS, CHECKPOINT} - names:
        raise NoBackup(f"{missing.pop()} is missing: this is no whole backup")
    return contents


def rows_in(pieces: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Yield kind and record of the lines of ROWS. Raises ValueError."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            kind, _, record = line.decode()[2:-1].partition('",')
            yield kind, record
    if rest:
        raise ValueError("the last line is not whole")


def write_segment(disk: Disk | None, number: int, pieces: Iterable[bytes]) -> None:
    """Read a segment to its end, and write it to the disk, if any. Raises OSError."""
    at = unsynced_bytes = 0
    for piece in pieces:
        if disk is not None:
            disk.append(number, at, piece, 0)
            at += len(piece)
            unsynced_bytes += len(piece)
            if unsynced_bytes >= CHUNK_BYTES:
                disk.sync(0)
                unsynced_bytes = 0
    if unsynced_bytes and disk is not None:
        disk.sync(0)


class FinishedLog(Disk):
    """A restored log with the checkpoint that it is to have. Recovery changes nothing in it."""

    def __init__(self, disk: Disk, checkpoint: bytes) -> None:
        self._checkpoint = checkpoint
        self.segments, self.read = disk.segments, disk.read  # type: ignore[method-assign]

    def load_checkpoint(self) -> bytes:
        return self._checkpoint


def verify_log(disk: Disk, contents: Contents, report: list[str]) -> Recovered:
    """Read all records as the next start will, and return what they are; `report` gets a line for each damaged one.

    Raises NoBackup if segments are missing or their ends are, and StorageFault, OSError.
    """
    if disk.segments() != contents.lengths:
        raise StorageFault("the store has other segments than the backup; nothing was restored")
    log, definitions = FinishedLog(disk, contents.checkpoint), contents.definitions
    check_definitions(log, definitions)
    check_log(log, definitions.numbers)
    recovered = recover(log, report, definitions.numbers, definitions.next_queue - 1, definitions.names)
    if recovered.missing:
        raise NoBackup(f"its log is not complete: {recovered.missing[0]}")
    return recovered


@contextmanager
def emptied(target: str, password_file: str, schema: str) -> Iterator[Open]:
    """Context of an empty store with the mark, in which nothing is left after an error.

    Raises InUse, StorageFault, OSError.
    """
    whole = False
    if is_url(target):
        with opened(target, password_file, schema) as (disk, metadata):
            if disk.load_checkpoint() == RESTORING:
                remove_rows(disk, metadata)
            check_finished(disk.load_checkpoint())
            if disk.load_checkpoint() is not None or disk.segments() or metadata.load().changes():
                raise StorageFault("PostgreSQL: the store is not empty; nothing was restored")
            disk.save_checkpoint(RESTORING)
            try:
                yield disk, metadata
                whole = True
            finally:
                if not whole:
                    with suppress(OSError, StorageFault):  # the mark stays
                        remove_rows(disk, metadata)
        return
    folder = Path(target)
    new = not folder.exists()
    descriptor = lock(folder)
    try:
        if mark_in(folder) == RESTORING:
            remove_files(folder)
        check_finished(mark_in(folder))
        try:
            check_free(folder)
        except StorageFault as fault:
            raise StorageFault(f"{folder.absolute()}: not empty; nothing was restored") from fault
        try:
            log = FolderDisk(folder / "log", True)
            log.save_checkpoint(RESTORING)
            with closing(log), closing(SQLiteMetadata(folder / METADATA_NAME)) as definitions:
                yield log, definitions
            whole = True
        finally:
            if not whole:
                remove_files(folder)
                if new:
                    (folder / LOCK_NAME).unlink(missing_ok=True)
                    folder.rmdir()
    finally:
        os.close(descriptor)


def mark_in(folder: Path) -> bytes | None:
    """Return the checkpoint in a data folder, or None."""
    return UntouchedFolder(folder / "log").load_checkpoint() if (folder / "log").is_dir() else None


def remove_files(folder: Path) -> None:
    """Remove a store from a folder, the mark at last. Raises OSError."""
    for file in folder.glob(f"{METADATA_NAME}*"):
        file.unlink()
    log = folder / "log"
    files = sorted(log.iterdir(), key=lambda file: file.name == CHECKPOINT) if log.is_dir() else []
    for file in files:
        file.unlink()
    if log.is_dir():
        log.rmdir()


def remove_rows(disk: Disk, metadata: Metadata) -> None:
    """Remove all from a store on PostgreSQL, the mark at last. Raises OSError, StorageFault."""
    disk.commit()
    metadata.apply([Change(False, change.record) for change in metadata.load().changes()])
    disk.commit()
    if disk.drop(disk.segments()):
        raise StorageFault("a table of the interrupted restore is in use; nothing was restored")
    disk.save_checkpoint(b"")
