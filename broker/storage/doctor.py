"""`warren doctor`: reads what a stopped broker has stored, as recovery will, and changes nothing.

The CRC of every record is verified. A torn end of the newest segment is no damage: it was being written when the broker
was killed, and nothing in it was confirmed. Nor is a batch that a power cut has torn before another one.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ..core.messages.journal_port import EXHAUSTED, FULL
from ..core.metadata.records import Definitions
from ..core.metadata.unfinished_import import ADVICE, unfinished_import
from ..standard_streams import printable
from ..system_errors import NO_MEMORY, file_error
from . import log_records
from .disk import Disk
from .errors import Missing, StorageFault, Unavailable
from .folder_disk import UntouchedFolder
from .folder_lock import IN_USE_STATUS, InUse, lock
from .folder_lock import NAME as LOCK
from .metadata import Metadata
from .recovery import check_definitions, check_log, recover
from .sqlite_metadata import SQLiteMetadata, is_full

SOUND_STATUS, DAMAGED_STATUS = 0, 1
NOTHING_STATUS = 66  # EX_NOINPUT of sysexits.h
NO_FILE = (errno.EINVAL, errno.EISDIR)  # what has the name of a file is none
TEMPORARY = "the folder for temporary files (TMPDIR)"
UNAVAILABLE_STATUS = 69  # EX_UNAVAILABLE: the data, or the server with them, cannot be read


class Owners(NamedTuple):
    """The queues and exchanges that may have messages in the log."""

    names: dict[int, str]  # by number
    highest: int  # the highest number that one ever had
    incomplete: bool = False  # an import has not ended, so some of them may be missing


def examine(folder: Path) -> int:
    """Print what the folder has, and return the exit status."""
    try:
        return _examine(folder)
    except InUse as error:
        print(f"warren: {error}: stop it first", file=sys.stderr)
        return IN_USE_STATUS
    except Unavailable as fault:
        print(f"warren: {fault}", file=sys.stderr)
    except MemoryError:
        print(f"warren: {folder}: {NO_MEMORY}", file=sys.stderr)
    except OSError as error:
        print(f"warren: {file_error(error, str(folder))}", file=sys.stderr)
        if error.errno in NO_FILE:
            return DAMAGED_STATUS
    return UNAVAILABLE_STATUS


def _examine(folder: Path) -> int:
    """Examine a folder. Raises InUse, Unavailable, OSError."""
    if not folder.is_dir():
        fault = "this is a file" if folder.exists() else "there is no such folder"
        print(f"warren: {folder}: {fault}: name the folder of a broker (--data)", file=sys.stderr)
        return NOTHING_STATUS
    if not (folder / "meta.sqlite").exists() and not (folder / "log").is_dir():
        print(f"warren: {folder}: no broker has stored anything here: name another folder (--data)", file=sys.stderr)
        return NOTHING_STATUS
    descriptor = lock_of(folder)
    disk = UntouchedFolder(folder / "log") if (folder / "log").is_dir() else None
    try:
        owners, sound = _examined(partial(_metadata_of_folder, folder / "meta.sqlite", disk))
        if disk is None:
            missing = "it is missing" if owners and owners.names else ""
            fault = "this is no folder" if os.path.lexists(folder / "log") else missing
            show(f"log: BAD: {fault}" if fault else "log: none")
            sound = sound and not fault
        return SOUND_STATUS if (disk is None or _log(disk, owners)) and sound else DAMAGED_STATUS
    finally:
        if disk is not None:
            disk.close()
        if descriptor is not None:
            os.close(descriptor)


def lock_of(folder: Path) -> int | None:
    """Lock a folder that a broker may use, and return the descriptor. Raises InUse, OSError.

    A broker makes the file that it locks, and writes to it, so nothing uses a folder without one, such as a copy, or
    one on a read-only file system, such as a snapshot.
    """
    try:
        return lock(folder) if (folder / LOCK).exists() else None
    except OSError as error:
        if error.errno == errno.EROFS:
            return None
        raise


def examine_url(url: str, password_file: str, schema: str) -> int:
    """Print what a store on PostgreSQL has, and return the exit status."""
    try:
        from .postgresql.address import parse  # here: psycopg is an extra
        from .postgresql.store import PostgreSQLStore

        store = PostgreSQLStore(parse(url, password_file, schema), "warren doctor")
        try:
            store.acquire_now()
            disk, metadata = store.open(untouched=True)
            owners, sound = _examined(partial(_metadata, metadata, disk))
            return SOUND_STATUS if _log(disk, owners) and sound else DAMAGED_STATUS
        finally:
            store.close()
    except InUse as error:
        print(f"warren: {error}: stop it first", file=sys.stderr)
        return IN_USE_STATUS
    except StorageFault as fault:
        print(f"warren: {fault}", file=sys.stderr)
        kinds = ((Unavailable, UNAVAILABLE_STATUS), (Missing, NOTHING_STATUS), (StorageFault, DAMAGED_STATUS))
        return next(status for kind, status in kinds if isinstance(fault, kind))
    except MemoryError:
        print(f"warren: {NO_MEMORY}", file=sys.stderr)
        return UNAVAILABLE_STATUS
    except OSError as error:
        print(f"warren: {error.strerror}", file=sys.stderr)
        return UNAVAILABLE_STATUS if error.errno in EXHAUSTED else DAMAGED_STATUS


def show(line: str) -> None:
    """Print a line, in which clients may have chosen names."""
    print(printable(line))


def regular_file(path: Path) -> bool:
    """Whether the file exists. Raises OSError for what is no regular file, as to read that may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return path.exists()


def _examined(read: Callable[[], Owners | None]) -> tuple[Owners | None, bool]:
    """Return what `read` finds in the metadata, and whether they are sound. Raises Unavailable, OSError."""
    try:
        owners = read()
    except Unavailable:
        raise
    except StorageFault as fault:
        show(f"metadata: BAD: {fault}")
        return None, False
    return owners, owners is None or not owners.incomplete


def _metadata_of_folder(path: Path, disk: Disk | None) -> Owners | None:
    """Return the owners of messages, or None without metadata. Raises StorageFault, OSError."""
    if not regular_file(path):
        if disk is not None:
            check_definitions(disk, Definitions())
        show("metadata: none")
        return None
    # SQLite would write to the file: what its log has, and the schema of this version.
    with temporary_folder() as folder:
        for suffix in ("", "-wal"):
            if regular_file(Path(f"{path}{suffix}")):
                copy_to(folder, Path(f"{path}{suffix}"))
        try:
            metadata = SQLiteMetadata(folder / path.name, False, path)
        except Unavailable as fault:
            if is_full(fault.__cause__):
                raise full(folder, errno.ENOSPC) from fault
            raise
        with closing(metadata):
            return _metadata(metadata, disk)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """The context of a folder that is removed at its end. Raises Unavailable."""
    try:
        made = TemporaryDirectory(prefix="warren-doctor-")
    except OSError as error:
        raise Unavailable(file_error(error, TEMPORARY)) from error
    with made as folder:
        yield Path(folder)


def copy_to(folder: Path, file: Path) -> None:
    """Copy a file. Raises Unavailable if the folder is full, OSError."""
    try:
        copyfile(file, folder / file.name)
    except OSError as error:
        if error.errno in FULL:  # names the file that was read
            raise full(folder, error.errno) from error
        raise


def full(folder: Path, number: int) -> Unavailable:
    return Unavailable(file_error(OSError(number, os.strerror(number)), f"{folder.parent}, {TEMPORARY}"))


def _metadata(metadata: Metadata, disk: Disk | None) -> Owners:
    """Print how many definitions open metadata have, and return the owners. Raises StorageFault, OSError."""
    definitions = metadata.load()
    for line in metadata.report:
        show(f"metadata: {line}")
    if disk is not None:
        check_definitions(disk, definitions)
    kinds = ("vhosts", "users", "permissions", "exchanges", "queues", "bindings")
    show("metadata: " + ", ".join(f"{len(getattr(definitions, kind))} {kind}" for kind in kinds))
    unfinished = unfinished_import(definitions.global_parameters)
    if unfinished:
        show(f"metadata: INCOMPLETE: {unfinished}: start the broker, then {ADVICE}")
    return Owners(definitions.names(), definitions.next_queue - 1, bool(unfinished))


def _log(disk: Disk, owners: Owners | None) -> bool:
    """Print segments and queues, and return whether all of them are sound. Raises OSError."""
    report: list[str] = []
    names = owners.names if owners is not None else {}
    try:
        check_log(disk, names)
        known, highest = (set(names), owners.highest) if owners is not None else (None, None)
        recovered = recover(disk, report, known, highest, lambda: names)
    except StorageFault as fault:
        show(f"log: BAD: {fault}")
        return False
    show(f"log: version {log_records.VERSION}")
    sound = not recovered.missing
    by_name = {segment.name: segment for segment in recovered.segments}
    for name, check in recovered.reports.items():
        segment = by_name.get(name)
        live, total = (segment.live, segment.total) if segment is not None else (0, 0)
        line = f"{name}: {check.sound} records; {live} messages live, {total - live} dead"
        if check.torn_bytes:
            line += f"; a torn end of {check.torn_bytes} bytes, which the next start cuts off"
        if check.bad:
            sound = False
            line += f"; BAD at offset {', '.join(map(str, check.bad))}"
        show(line)
    for line in report:
        show(f"recovery: {line}")
    if recovered.dropped:
        show(f"recovery: {recovered.dropped} messages of transactions that were not committed are dropped")
    for number, name in sorted(names.items()):
        show(f"{name}: {len(recovered.queues.get(number, ()))} messages")
    return sound
