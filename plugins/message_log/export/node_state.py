"""The state of a node's export: a small file from which a boot knows the boot before it.

Only the writer of a node that has locked the file changes it. A broker that was killed may be started again while its
writer still finishes files; the new writer then waits for the lock, which a process loses however it ends.
"""

import fcntl
import os
from pathlib import Path
from urllib.parse import quote

import msgspec

from ..file_format import schema
from .manifest import MODE, sync_folder

BOOTS = 1000  # boots that the state keeps; files of earlier ones are recognised by the node's name in them
LAST_EXPORT = "message_log.json"  # in the broker's data folder
SAVED_S = 60  # the resolution of `exported_s` in the file


class BootEnd(msgspec.Struct):
    """The known end of a boot: the number of its next row, and the time of its last record.

    `batch` is the last batch of the store's log that was durable then. `lost` counts the records that are in no file.
    `ended` is true once its writer has finished all files. `vhosts` are the exported virtual hosts, if not all.
    """

    boot_id: str
    row: int = 0
    at_us: int | None = None
    batch: int = 0
    lost: int = 0
    ended: bool = False
    vhosts: tuple[str, ...] = ()


class Content(msgspec.Struct):
    """The content of the file. `node` is for people: the name of the file has it encoded."""

    node: str
    boot: BootEnd
    previous: BootEnd | None = None
    boots: list[str] = []
    exported_s: int = 0
    days: dict[str, float] = {}


class NodeState:
    """The state of one node.

    boot        this boot, which the writer keeps up to date
    previous    the boot before it, or None
    boots       the last boots that may have files, in their order
    exported_s  for how long writers of the node have run, and for how long they had at the last file of each of `days`
                (`retention`)
    """

    def __init__(self, folder: Path, node: str, boot_id: str, vhosts: tuple[str, ...] = ()) -> None:
        self.boot = BootEnd(boot_id, vhosts=vhosts)
        self.previous: BootEnd | None = None
        self.boots = [boot_id]
        self.exported_s = 0.0
        self.days: dict[str, float] = {}
        self._node = node
        self._path = state_path(folder, node)
        self._lock = -1
        self._saved: bytes = b""

    @property
    def locked(self) -> bool:
        """True if this writer holds the lock."""
        return self._lock >= 0

    def lock(self) -> bool:
        """Take the lock and read the state; returns whether that succeeded. Raises OSError."""
        if self.locked:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError:
            os.close(file)
            raise
        self._lock = file
        self.read()
        return True

    def read(self) -> None:
        """Read the state of the node's last writer. An unreadable file counts as missing."""
        try:
            content = msgspec.json.decode(self._path.read_bytes(), type=Content)
        except (OSError, msgspec.DecodeError):
            return
        self.exported_s = max(self.exported_s, content.exported_s)
        self.days = content.days | self.days
        boots = [*content.boots, *[boot_id for boot_id in self.boots if boot_id not in content.boots]]
        self.boots = boots[-BOOTS:]
        if content.boot.boot_id == self.boot.boot_id:
            self.previous = content.previous
            self.reached(content.boot.row, content.boot.at_us, content.boot.batch)
        else:  # a boot that ended before it had a record or a snapshot left no files
            self.previous = content.boot if content.boot.at_us is not None else content.previous

    def reached(self, row: int, at_us: int | None, batch: int) -> None:
        """Note that the next row is at least `row`, the time of the last record `at_us`, and the last batch `batch`."""
        self.boot.row = max(self.boot.row, row)
        self.boot.batch = max(self.boot.batch, batch)
        if at_us is not None:
            self.boot.at_us = max(self.boot.at_us or 0, at_us)

    def close(self) -> None:
        """Release the lock."""
        if self.locked:
            os.close(self._lock)
            self._lock = -1

    def save(self, durable: bool = False) -> None:
        """Store the state if it has changed and this writer holds the lock. Raises OSError.

        Only with `durable` is it synced to the disk: it survives a killed writer anyway.
        """
        exported_s = int(self.exported_s) // SAVED_S * SAVED_S  # without this it would change each time
        content = msgspec.json.encode(
            Content(self._node, self.boot, self.previous, self.boots, exported_s, self.days), order="deterministic"
        )
        if not self.locked or content == self._saved and not durable:
            return
        temporary = self._path.with_suffix(".tmp")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE), "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.rename(self._path)
        if durable:
            sync_folder(self._path.parent)
        self._saved = content


class LastExport(msgspec.Struct, frozen=True):
    """The last boot of a broker that exported, as its data folder says, which outlives a loss of the export.

    `at_us` is the time of its start, or of its stop. No client is accepted before it is stored.
    """

    directory: str
    node: str
    boot_id: str
    at_us: int

    def save(self, data: str) -> None:
        """Store it in the data folder durably, if there is one. Raises OSError."""
        if data:
            new = Path(data, f".{LAST_EXPORT}")
            with new.open("wb") as file:
                file.write(msgspec.json.encode(self))
                file.flush()
                os.fsync(file.fileno())
            new.replace(Path(data, LAST_EXPORT))
            sync_folder(Path(data))


def last_export(data: str, directory: str, node: str) -> LastExport | None:
    """Return the last export of this node to this folder, or None if there is none, or one to another folder since."""
    if not data:
        return None
    try:
        last = msgspec.json.decode(Path(data, LAST_EXPORT).read_bytes(), type=LastExport)
    except (OSError, msgspec.MsgspecError):
        return None
    return last if (last.directory, last.node) == (directory, node) else None


def state_path(folder: Path, node: str) -> Path:
    return folder / schema.STATE / f"{quote(node, safe='@')}.json"
