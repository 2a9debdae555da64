"""The manifest: the list of the finished files of a boot or a compaction, with their checksums."""

import errno
import os
from pathlib import Path

import msgspec

from ..file_format import schema

MODE = 0o640


class FinishedFile(msgspec.Struct, frozen=True):
    """A finished file. `path` is relative to the folder of the export; the rows are those of `events`, else null."""

    path: str
    table: str
    bytes: int
    rows: int
    first_row: int | None
    last_row: int | None
    sha256: str


class RemovedFile(msgspec.Struct, frozen=True):
    """A file that was removed on purpose."""

    removed: str
    reason: str


class ReplacedFiles(msgspec.Struct, frozen=True):
    """Files that a compaction replaces, once the file `by` is there."""

    replaces: list[str]
    by: str


Entry = FinishedFile | RemovedFile | ReplacedFiles


class Manifest:
    """A manifest, of one boot or one compaction. Lines that cannot be written, as on a full disk, wait in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        """`folder` is that of the export."""
        self._path = folder / schema.MANIFEST / name
        self._waiting: list[Entry] = []

    def add(self, *entries: Entry) -> None:
        """Add lines, and make them and all waiting lines durable. After an OSError they wait."""
        self._waiting += entries
        self.flush()

    def flush(self) -> None:
        """Write the lines that wait, all or none. Raises OSError."""
        if not self._waiting:
            return
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in self._waiting)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = not self._path.exists()
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, MODE)
        try:
            end = end_of_lines(file)
            try:
                if os.pwrite(file, lines, end) < len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.ftruncate(file, end + len(lines))
                os.fsync(file)
            except OSError:
                os.ftruncate(file, end)
                raise
        finally:
            os.close(file)
        if new:
            sync_folder(self._path.parent)
        self._waiting.clear()

    def all_files(self) -> list[FinishedFile]:
        """Return the finished files, including those of waiting lines. Raises OSError."""
        return self.finished_files() + [entry for entry in self._waiting if isinstance(entry, FinishedFile)]

    def finished_files(self) -> list[FinishedFile]:
        """Return the finished files that the manifest lists. Raises OSError, also for a damaged one."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return []
        lines = content[: content.rfind(b"\n") + 1].splitlines()
        try:
            return [msgspec.json.decode(line, type=FinishedFile) for line in lines if b'"sha256"' in line]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise OSError(errno.EILSEQ, f"{self._path} is damaged: {error}") from None


def end_of_lines(file: int) -> int:
    """Return the length of the complete lines of a file: the last one may have been cut when the machine failed."""
    size = os.fstat(file).st_size
    tail = min(size, 1 << 16)  # no line is longer
    return size - tail + os.pread(file, tail, size - tail).rfind(b"\n") + 1


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
