"""`warren doctor`: reads what a stopped broker has stored, as recovery will, and changes nothing.

Every record's CRC is verified. A torn end of the newest segment is no damage: it was being written when the broker was
killed, and nothing in it was confirmed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import checkpoint, log_records
from .disk import File, FolderDisk, FolderFile
from .errors import StorageFault
from .folder_lock import IN_USE_STATUS, InUse, lock
from .metadata_store import Metadata
from .recovery import recover
from .segment import SUFFIX

SOUND_STATUS, DAMAGED_STATUS = 0, 1
NOTHING_STATUS = 66  # EX_NOINPUT of sysexits.h

_MAGIC = log_records.LENGTH.pack(log_records.MAGIC)


class UntouchedFile(FolderFile):
    """A file that is only read, whatever recovery would do to it."""

    def truncate(self, octets: int) -> None: ...

    def sync(self) -> None: ...


class UntouchedDisk(FolderDisk):
    """A folder that is only read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, False)
        self._path = folder

    def open(self, name: str, create: bool) -> File:
        assert not create
        return UntouchedFile(self._path / name, os.O_RDONLY, False)

    def remove(self, name: str) -> None: ...


class Walk:
    """The records of one segment: how many are sound, where bad ones stand, how many octets of a torn end follow."""

    def __init__(self, salt: int, data: bytes, newest: bool) -> None:
        self._salt = salt
        self.sound = 0
        self.bad: list[int] = []
        self.torn_bytes = 0
        if log_records.head_of(data) is None:
            self._bad(data, 0, newest)
            if self.torn_bytes:
                return
        at = min(log_records.SEGMENT_HEAD_BYTES, len(data))
        while at < len(data):
            if end := log_records.whole(salt, data, at):
                self.sound += 1
                at = end
            else:
                at = self._bad(data, at, newest)

    def _bad(self, data: bytes, at: int, newest: bool) -> int:
        """Note what is not sound at `at`; where to go on."""
        after = data.find(_MAGIC, at + 1)
        while after >= 0 and not log_records.whole(self._salt, data, after):
            after = data.find(_MAGIC, after + 1)
        if after < 0 and newest:
            self.torn_bytes = len(data) - at
        else:
            self.bad.append(at)
        return after if after >= 0 else len(data)


def examine(folder: Path) -> int:
    """Prints what is there, and returns the exit status."""
    if not folder.is_dir():
        print(f"warren: {folder}: there is no such folder", file=sys.stderr)
        return NOTHING_STATUS
    try:
        descriptor = lock(folder)
    except InUse as held:
        print(f"warren: {held}", file=sys.stderr)
        return IN_USE_STATUS
    try:
        names, sound = _metadata(folder / "meta.sqlite")
        return SOUND_STATUS if _log(folder / "log", names) and sound else DAMAGED_STATUS
    except OSError as error:
        print(f"warren: {error.filename or folder}: {error.strerror}", file=sys.stderr)
        return DAMAGED_STATUS
    finally:
        os.close(descriptor)


def _metadata(path: Path) -> tuple[dict[int, str] | None, bool]:
    """What has messages, by its number, None where these cannot be known; whether all is sound."""
    if not path.exists():
        print("metadata: none")
        return None, True
    metadata = None
    try:
        metadata = Metadata(path)
        there = metadata.load()
    except StorageFault as fault:
        print(f"metadata: BAD: {fault}")
        return None, False
    finally:
        if metadata is not None:
            metadata.close()
    kinds = ("vhosts", "users", "permissions", "exchanges", "queues", "bindings")
    print("metadata: " + ", ".join(f"{len(getattr(there, kind))} {kind}" for kind in kinds))
    names = {queue.number: f"queue {queue.name} in {queue.vhost}" for queue in there.queues}
    for exchange in there.exchanges:
        if exchange.number:
            names[exchange.number] = f"exchange {exchange.name} in {exchange.vhost}"
    return names, True


def _log(folder: Path, names: dict[int, str] | None) -> bool:
    """Prints segments and queues; whether all is sound."""
    if not folder.is_dir():
        print("log: none")
        return True
    disk = UntouchedDisk(folder)
    report: list[str] = []
    try:
        found = recover(disk, report, set(names) if names is not None else None)
    except StorageFault as fault:
        print(f"log: BAD: {fault}")
        return False
    print(f"log: version {log_records.VERSION}")
    sound = not any(line.startswith(checkpoint.NAME) for line in report)
    files = [name for name in disk.names() if name.endswith(SUFFIX)]
    by_name = {segment.name: segment for segment in found.segments}
    for name in files:
        segment = by_name.get(name)
        walk = Walk(segment.salt if segment is not None else 0, (folder / name).read_bytes(), name == files[-1])
        live, total = (segment.live, segment.total) if segment is not None else (0, 0)
        line = f"{name}: {walk.sound} records; {live} messages live, {total - live} dead"
        if walk.torn_bytes:
            line += f"; a torn end of {walk.torn_bytes} octets, which the next start cuts off"
        if walk.bad:
            sound = False
            line += f"; BAD at offset {', '.join(map(str, walk.bad))}"
        print(line)
        if segment is not None:
            segment.close()
    for line in report:
        print(f"recovery: {line}")
    for number, name in sorted((names or {}).items()):
        print(f"{name}: {len(found.queues.get(number, ()))} messages")
    return sound
