"""`warren copy`: copies what a stopped broker has stored from a folder or PostgreSQL to another, which must be empty.

The segments of the log are copied byte by byte, as both have the same format, but for a torn end, and the metadata
record by record. Then both are read again: each record of the log must be in the copy, with the same bytes, and each
record of the metadata. Until then a mark in place of the checkpoint says that the target is unfinished, and nothing
reads it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..core.metadata.records import Change, Definitions, StoredQueue
from ..core.metadata.unfinished_import import ADVICE, unfinished_import
from ..system_errors import file_error
from . import log_records
from .checkpoint import COPYING, UNFINISHED, Checkpoint, check_finished
from .disk import Disk
from .errors import StorageFault
from .folder_disk import NEW_NAME, FolderDisk, UntouchedFolder
from .folder_lock import IN_USE_STATUS, InUse, lock
from .folder_lock import NAME as LOCK_NAME
from .metadata import Metadata
from .recovery import Recovered, check_definitions, check_log, recover
from .segment import name_of
from .sqlite_metadata import SQLiteMetadata

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
            saved = from_disk.load_checkpoint()
            check_finished(saved)
            definitions = from_metadata.load()
            check_definitions(from_disk, definitions)
            recovered = check_source(from_disk, definitions, shown(source))
            if unfinished := unfinished_import(definitions.global_parameters):
                advice = f"start its broker, then {ADVICE}; nothing was copied"
                raise StorageFault(f"{shown(source)}: {unfinished}: {advice}")
            new = not is_url(target) and not Path(target, METADATA_NAME).exists()
            if new:
                check_free(Path(target))
            to_disk, to_metadata = stack.enter_context(opened(target, password_file, schema, new))
            if not new:
                begin(to_disk, to_metadata, shown(target))
            lengths = {segment.number: segment.length for segment in recovered.segments}
            copy_log(from_disk, to_disk, lengths)
            copy_metadata(definitions, to_metadata)
            to_metadata.sync()
            to_disk.commit()
            records = verify_log(from_disk, to_disk, lengths)
            verify_metadata(definitions, to_metadata.load())
            to_disk.save_checkpoint(saved or Checkpoint(recovered.salt, recovered.next_id).encode())
    except InUse as error:
        print(f"warren: {error}: stop it first", file=sys.stderr)
        return IN_USE_STATUS
    except (StorageFault, OSError) as error:
        reason = file_error(error) if isinstance(error, OSError) else error
        print(f"warren: {reason}", file=sys.stderr)
        return FAILED_STATUS
    size = sum(lengths.values())
    print(f"copied and verified: {len(definitions.changes())} definitions, {records} records of {size} bytes")
    return COPIED_STATUS


def check_free(folder: Path) -> None:
    """Raise StorageFault for a target without a store that has other files, as the working directory has for ""."""
    if not folder.is_dir():
        return
    if any(entry.name not in (MOUNTED, LOCK_NAME) and not is_begun(entry) for entry in folder.iterdir()):
        raise StorageFault(
            f"{folder.absolute()}: not empty; nothing was copied: name a new folder or an empty store with --to"
        )


def is_begun(folder: Path) -> bool:
    """Whether that is the log of a command that was interrupted as it began, with a mark or not yet."""
    if folder.name != "log" or not folder.is_dir():
        return False
    unmarked = {entry.name for entry in folder.iterdir()} <= {NEW_NAME}
    return unmarked or UntouchedFolder(folder).load_checkpoint() in UNFINISHED


def check_source(disk: Disk, definitions: Definitions, place: str) -> Recovered:
    """Return what the source has. Raises StorageFault if messages are lost, OSError."""
    try:
        check_log(disk, definitions.numbers)
        recovered = recover(disk, [], definitions.numbers, definitions.next_queue - 1)
    except StorageFault as fault:
        raise StorageFault(f"{place}: {fault}; nothing was copied") from fault
    if recovered.missing:
        advice = "restore it, or start and stop its broker, which goes on without what is lost; nothing was copied"
        raise StorageFault(f"{place}: the log is not complete: {recovered.missing[0]}: {advice}")
    return recovered


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
            check_finished(disk.load_checkpoint())
            disk.save_checkpoint(COPYING)
        metadata = SQLiteMetadata(folder / METADATA_NAME)
        try:
            yield disk, metadata
        finally:
            disk.close()
            metadata.close()
    finally:
        os.close(descriptor)


def begin(disk: Disk, metadata: Metadata, place: str) -> None:
    """Mark a store as unfinished, which must be empty. Raises StorageFault, OSError."""
    saved = disk.load_checkpoint()
    check_finished(saved)
    if saved is not None or disk.segments() or metadata.load().changes():
        raise StorageFault(f"{place}: not empty; nothing was copied: name a new folder or an empty store with --to")
    disk.save_checkpoint(COPYING)


def copy_log(source: Disk, target: Disk, lengths: dict[int, int]) -> None:
    """Copy segments with these lengths by number. Raises OSError."""
    for number, length in lengths.items():
        for at in range(0, length, CHUNK_BYTES):
            target.append(number, at, source.read(number, at, min(CHUNK_BYTES, length - at)), 0)
            target.sync(0)


def copy_metadata(definitions: Definitions, target: Metadata) -> None:
    """Copy all records, and the highest number that a queue ever had. Raises OSError."""
    highest = StoredQueue("", "", definitions.next_queue - 1, False, b"")
    if highest.number and highest.number not in definitions.numbers:
        target.apply([Change(True, highest), Change(False, highest)])
    target.apply(definitions.changes())


def verify_log(source: Disk, target: Disk, lengths: dict[int, int]) -> int:
    """Compare both logs record by record, and return the number of records. Raises StorageFault, OSError."""
    if target.segments() != lengths:
        raise StorageFault("the copy has other segments than the original")
    return sum(verify_segment(source, target, number, length) for number, length in lengths.items())


def verify_segment(source: Disk, target: Disk, number: int, length: int) -> int:
    """Compare a segment, and return how many sound records it has. Raises StorageFault, OSError."""
    data, other = source.read(number, 0, length), target.read(number, 0, length)
    if data != other:
        at = next((at for at, (one, two) in enumerate(zip(data, other, strict=False)) if one != two), len(other))
        raise StorageFault(f"{name_of(number)}: the copy differs from the original at offset {at}")
    head = log_records.parse_head(data)
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
