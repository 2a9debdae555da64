"""The retention: the deletion of the files of one node that are older than a number of days.

The wall clock alone must not decide that a file is old. If it jumps 20 days ahead, because of a wrong time server or a
dead battery, all files are suddenly older than 14 days. So a second clock has to agree: the time for which writers of
this node have run (`exported_s`), which is counted by the monotonic clock, stored with the state of the node and
continued by the next writer. For each day with files the state has this time at the day's last file. A day is deleted
if the calendar says that it is beyond the retention, and writers have run since then for as many days as are kept. A
clock that jumps ahead changes the first, not the second; one that jumps back makes the first false. Days on which no
broker ran do not count, so files are kept for longer, never for less.
"""

import contextlib
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..file_format import schema
from .boot_files import file_prefix, is_locked
from .manifest import FinishedFile, Manifest, RemovedFile
from .node_state import NodeState

STALE_S = 86_400  # the age from which on an unfinished file without a lock is deleted
DAY_S = 86_400


class Retention:
    """The deletion of files of one node: of those beyond the retention, and of unfinished ones of killed writers.

    `days` is the number of days that are kept, or None. Files of other nodes in the same folder have their own.
    """

    def __init__(self, folder: Path, node: str, days: int | None, state: NodeState, manifest: Manifest) -> None:
        self._folder = folder
        self._node = node
        self._days = days
        self._state = state
        self._manifest = manifest
        self._ours: dict[str, bool] = {}  # by the beginning of the names of a boot's files

    def sweep(self, today: date, exported_s: float) -> bool:
        """Delete the files of one day that is old enough. Returns whether there may be another one. Raises OSError."""
        if self._days is None:
            return False
        for day in {day for table in schema.TABLES for day in days_in(self._folder / table)}:
            self._state.days.setdefault(day.isoformat(), exported_s)  # from now on, if the state was lost
        oldest = today - timedelta(self._days)
        for name, last_s in sorted(self._state.days.items()):
            if date.fromisoformat(name) < oldest and exported_s - last_s >= self._days * DAY_S:
                self._remove_day(name)
                del self._state.days[name]
                self._remove_manifests(oldest)
                return True
        return False

    def sweep_unfinished(self, now_s: float) -> None:
        """Delete files that a killed writer did not finish. Raises OSError."""
        for path in self._folder.glob(f"*/dt=*/hour=*/.{file_prefix(self._node)}*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                # A file system without locks shows none.
                if now_s - path.stat().st_mtime > STALE_S and self._is_ours(path) and not is_locked(path):
                    path.unlink()

    def _remove_day(self, name: str) -> None:
        """Delete the node's files of a day, and the folders that are then empty. Raises OSError."""
        prefix = file_prefix(self._node)
        for table in schema.TABLES:
            folder = self._folder / table / f"dt={name}"
            files = [path for path in folder.glob(f"hour=*/{prefix}*.parquet") if self._is_ours(path)]
            # A file that is missing without a line in the manifest counts as lost.
            paths = [path.relative_to(self._folder).as_posix() for path in files]
            self._manifest.add(*[RemovedFile(path, schema.RETENTION) for path in paths])
            for path in files:
                path.unlink(missing_ok=True)
            for emptied in (*folder.glob("hour=*"), folder):
                with contextlib.suppress(OSError):  # the folder has other files
                    emptied.rmdir()

    def _remove_manifests(self, oldest: date) -> None:
        """Delete the manifests of earlier boots of which the retention has removed all files. Raises OSError."""
        kept = {self._state.boot.boot_id}
        for boot_id in [one for one in self._state.boots if one not in kept]:
            name = schema.manifest_name(self._node, boot_id)
            try:
                files = Manifest(self._folder, name).finished_files()
            except OSError:
                continue  # the analysis reports a damaged manifest
            if not files or all(self._is_removed(file, oldest) for file in files):
                (self._folder / schema.MANIFEST / name).unlink(missing_ok=True)
                self._state.boots.remove(boot_id)

    def _is_removed(self, file: FinishedFile, oldest: date) -> bool:
        """Return whether the file belongs to a swept day."""
        day = day_of(Path(file.path).parent.parent.name)
        return day is not None and day < oldest and day.isoformat() not in self._state.days

    def _is_ours(self, path: Path) -> bool:
        """Return whether a file with the prefix of this node is its own: names of nodes may differ in one character."""
        prefix = schema.boot_key(path.name.removeprefix("."))
        if any(prefix == file_prefix(self._node, boot_id)[:-1] for boot_id in self._state.boots):
            return True
        if prefix not in self._ours:
            whole = path.suffix == ".parquet"
            finished = path if whole else next(self._folder.glob(f"*/dt=*/hour=*/{prefix}-*.parquet"), None)
            self._ours[prefix] = finished is None or node_of(finished) in (None, self._node)
        return self._ours[prefix]


def node_of(path: Path) -> str | None:
    """Return the name of the node that wrote a file, or None if the file cannot be read. Raises OSError."""
    try:
        with pq.ParquetFile(path) as file:
            name = (file.metadata.metadata or {}).get(schema.NODE_KEY.encode())
            return str(name, "utf-8", "backslashreplace") if name is not None else None
    except pa.ArrowException:
        return None


def days_in(folder: Path) -> list[date]:
    """Return the days of a table with files."""
    return [day for path in folder.glob("dt=*") if (day := day_of(path.name)) is not None]


def day_of(name: str) -> date | None:
    """Return the day of a folder such as dt=2026-11-22."""
    try:
        return date.fromisoformat(name.removeprefix("dt="))
    except ValueError:
        return None
