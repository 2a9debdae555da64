"""`warren copy`: copies what a stopped broker has stored from a folder or PostgreSQL to another, which must be empty.

The files of the log are copied byte by byte, as both have the same format, and the metadata record by record. Then both
are read again: each record of the log must be in the copy, with the same bytes, and each record of the metadata. Until
then a file marks the target as unfinished, and nothing reads it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..core.metadata.records import Change, Definitions, StoredQueue
from ..core.metadata.unfinished_import import ADVICE, unfinished_import
from ..system_errors import file_error
from . import log_records
from .disk import UNFINISHED_NAME, Disk, FolderDisk, UntouchedFolder
from .errors import StorageFault
from .folder_lock import IN_USE_STATUS, InUse, lock
from .folder_lock import NAME as LOCK_NAME
from .metadata import Metadata
from .metadata_store import SQLiteMetadata
from .recovery import check_definitions, check_finished, check_log, recover
from .segment import number_of

COPIED_STATUS, FAILED_STATUS = 0, 1
CHUNK_BYTES = 4 << 20
METADATA_NAME = "meta.sqlite"
MOUNTED = "lost+found"  # which an empty file system may have
Open = tuple[Disk, Metadata]


def copy_store(source: str, target: str, password_file: str, schema: str) -> int:
    """Copy a store, print what was copied, and return the exit status."""
    try:
        with ExitStack() as stack:
            if is_same(source, target, password_file, schema):
                raise StorageFault("source and target are the same: name another place with --to; nothing was copied")
            if not is_url(source) and not Path(source, METADATA_NAME).is_file():
                raise StorageFault(f"{source}: no broker has stored anything there: name another folder with --from")
            if not is_url(source) and not Path(source, "log").is_dir():
                raise StorageFault(f"{source}: its folder log is missing: restore it; nothing was copied")
            from_disk, from_metadata = stack.enter_context(opened(source, password_file, schema, untouched=True))
            check_finished(from_disk)
            definitions = from_metadata.load()
            check_definitions(from_disk, definitions.vhosts)
            check_source(from_disk, definitions, shown(source))
            if unfinished := unfinished_import(definitions.global_parameters):
                advice = f"start its broker, then {ADVICE}; nothing was copied"
                raise StorageFault(f"{shown(source)}: {unfinished}: {advice}")
            new = not is_url(target) and not Path(target, METADATA_NAME).exists()
            if new:
                check_free(Path(target))
            to_disk, to_metadata = stack.enter_context(opened(target, password_file, schema, new))
            if not new:
                check_finished(to_disk)
                if to_disk.names() or to_metadata.load().changes():
                    raise StorageFault(f"{shown(target)}: not empty; nothing was copied")
                begin(to_disk)
            bytes_copied = copy_log(from_disk, to_disk)
            copy_metadata(definitions, to_metadata)
            to_metadata.sync()
            to_disk.sync_folder()
            records = verify_log(from_disk, to_disk)
            verify_metadata(definitions, to_metadata.load())
            to_disk.remove(UNFINISHED_NAME)
            to_disk.sync_folder()
    except InUse as error:
        print(f"warren: {error}: stop it first", file=sys.stderr)
        return IN_USE_STATUS
    except (StorageFault, OSError) as error:
        reason = file_error(error) if isinstance(error, OSError) else error
        print(f"warren: {reason}", file=sys.stderr)
        return FAILED_STATUS
    print(f"copied and verified: {len(definitions.changes())} definitions, {records} records of {bytes_copied} bytes")
    return COPIED_STATUS


def check_free(folder: Path) -> None:
    """Raise StorageFault for a target without a store that has other files, as the working directory has for ""."""
    if not folder.is_dir() or (folder / "log" / UNFINISHED_NAME).exists():
        return
    if any(entry.name not in (MOUNTED, LOCK_NAME) and not is_empty_log(entry) for entry in folder.iterdir()):
        raise StorageFault(f"{folder.absolute()}: not empty; nothing was copied")


def is_empty_log(folder: Path) -> bool:
    """Whether that is all that an interrupted copy has made, which nothing reads yet."""
    return folder.name == "log" and folder.is_dir() and not any(folder.iterdir())


def check_source(disk: Disk, definitions: Definitions, place: str) -> None:
    """Raise StorageFault if messages of the source are lost. Raises OSError."""
    try:
        check_log(disk, definitions.numbers)
        recovered = recover(disk, [], definitions.numbers, definitions.next_queue - 1)
    except StorageFault as fault:
        raise StorageFault(f"{place}: {fault}; nothing was copied") from fault
    for segment in recovered.segments:
        segment.close()
    if recovered.missing:
        advice = "restore it, or start and stop its broker, which goes on without what is lost; nothing was copied"
        raise StorageFault(f"{place}: the log is not complete: {recovered.missing[0]}: {advice}")


def is_url(text: str) -> bool:
    return "://" in text


def is_same(source: str, target: str, password_file: str, schema: str) -> bool:
    """Whether both are one folder or one store on PostgreSQL, by whatever path or URL. Raises StorageFault, OSError."""
    if is_url(source) and is_url(target):
        from .postgresql.address import parse  # here: psycopg is an extra
        from .postgresql.store import PostgreSQLStore

        one, other = [PostgreSQLStore(parse(url, password_file, schema), "").id for url in (source, target)]
        return one == other
    both = Path(source), Path(target)
    return all(path.exists() for path in both) and os.path.samefile(*both)


def shown(place: str) -> str:
    """Return a folder or URL without a password."""
    return "PostgreSQL" if is_url(place) else place


@contextmanager
def opened(place: str, password_file: str, schema: str, new: bool = False, untouched: bool = False) -> Iterator[Open]:
    """Context with disk and metadata of a folder or a URL, locked. Raises StorageFault, InUse, OSError.

    A `new` folder is marked as unfinished before anything else is in it; the log of an `untouched` one stays as it is.
    """
    if is_url(place):
        from .postgresql.address import parse  # here: psycopg is an extra
        from .postgresql.store import PostgreSQLStore

        store = PostgreSQLStore(parse(place, password_file, schema), "warren copy")
        try:
            store.acquire_now()
            yield store.open(untouched=untouched)
        finally:
            store.close()
        return
    folder = Path(place)
    descriptor = lock(folder)
    try:
        disk = UntouchedFolder(folder / "log") if untouched else FolderDisk(folder / "log", True)
        if new:
            check_finished(disk)
            begin(disk)
        metadata = SQLiteMetadata(folder / METADATA_NAME)
        try:
            yield disk, metadata
        finally:
            metadata.close()
    finally:
        os.close(descriptor)


def begin(target: Disk) -> None:
    """Mark the target as unfinished. Raises OSError."""
    file = target.open(UNFINISHED_NAME, True)
    try:
        file.write(b"warren copy\n")
        file.sync()
    finally:
        file.close()
    target.sync_folder()


def copy_log(source: Disk, target: Disk) -> int:
    """Copy all files, and return their bytes. Raises OSError."""
    total = 0
    for name in source.names():
        read, written = source.open(name, False), target.open(name, True)
        try:
            for at in range(0, read.size, CHUNK_BYTES):
                written.write(read.read(at, min(CHUNK_BYTES, read.size - at)))
                written.sync()
            written.sync()
            total += read.size
        finally:
            read.close()
            written.close()
    return total


def copy_metadata(definitions: Definitions, target: Metadata) -> None:
    """Copy all records, and the highest number that a queue ever had. Raises OSError."""
    highest = StoredQueue("", "", definitions.next_queue - 1, False, b"")
    if highest.number and highest.number not in definitions.numbers:
        target.apply([Change(True, highest), Change(False, highest)])
    target.apply(definitions.changes())


def verify_log(source: Disk, target: Disk) -> int:
    """Compare both logs record by record, and return the number of records. Raises StorageFault, OSError."""
    if source.names() != [name for name in target.names() if name != UNFINISHED_NAME]:
        raise StorageFault("the copy has other files than the original")
    return sum(verify_file(source, target, name) for name in source.names())


def verify_file(source: Disk, target: Disk, name: str) -> int:
    """Compare a file, and return how many sound records it has. Raises StorageFault, OSError."""
    original, copied = source.open(name, False), target.open(name, False)
    try:
        data, other = original.read(0, original.size), copied.read(0, copied.size)
    finally:
        original.close()
        copied.close()
    if data != other:
        at = next((at for at, (one, two) in enumerate(zip(data, other, strict=False)) if one != two), len(other))
        raise StorageFault(f"{name}: the copy differs from the original at offset {at}")
    head = log_records.parse_head(data) if number_of(name) is not None else None
    if head is None:
        return 0
    records, at = 0, log_records.SEGMENT_HEAD_BYTES
    while at and at < len(other):
        end = log_records.record_end(head.salt, other, at)
        records += 1 if end else 0
        at = end or log_records.next_record(head.salt, other, at + 1)
    return records


def verify_metadata(source: Definitions, target: Definitions) -> None:
    """Compare all records. Raises StorageFault."""
    for one, two in zip(source.changes(), target.changes(), strict=False):
        if fields_of(one) != fields_of(two):
            raise StorageFault(f"the copy of the metadata has {two.record} in place of {one.record}")
    if len(source.changes()) != len(target.changes()) or target.next_queue < source.next_queue:
        raise StorageFault("the copy of the metadata is not complete")


def fields_of(change: Change) -> tuple[object, ...]:
    record = change.record
    return type(record), *[getattr(record, name) for name in record.__slots__]
