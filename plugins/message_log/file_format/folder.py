"""A folder of files, on a disk of this machine or at a URL of an object store."""

from __future__ import annotations

import copy
import hashlib
import os
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

BLOCK_BYTES = 1 << 20
SUFFIXES = (".parquet", ".jsonl", ".json")  # of the names of files of an export
SCHEMES = {"s3a": "s3", "s3n": "s3"}  # names that Hadoop has for schemes


class Vanished(OSError):
    """A file that was listed is not there any more: a compaction or the retention has removed it."""


class Listing(NamedTuple):
    """The bytes of files by path, and the paths of entries that cannot be read as one.

    These are pipes, devices, links that lead nowhere or to a folder around them, folders that are named like a file or
    files like a folder, and names that are not UTF-8, which are escaped.
    """

    files: dict[str, int]
    others: list[str]


def add_files(listing: Listing, folder: Path, below: str, around: frozenset[tuple[int, int]]) -> None:
    """Add what is below a folder on a disk; `around` has the devices and inodes of the folders around it."""
    try:
        status = (folder / below).stat()
        place = status.st_dev, status.st_ino
        entries = list(os.scandir(folder / below)) if place not in around else None
    except FileNotFoundError:
        return
    except NotADirectoryError:
        entries = None
    if entries is None or below.endswith(SUFFIXES):
        listing.others.append(escaped(below))
    for entry in entries or ():
        path = f"{below}/{entry.name}" if below else entry.name
        if entry.name.startswith("."):
            continue
        try:
            status = entry.stat()
        except OSError as error:
            if entry.is_symlink():
                listing.others.append(escaped(path))
            elif not isinstance(error, FileNotFoundError):
                raise
            continue
        if S_ISDIR(status.st_mode):
            add_files(listing, folder, path, around | {place})
        elif S_ISREG(status.st_mode) and escaped(path) == path:
            listing.files[path] = status.st_size
        else:
            listing.others.append(escaped(path))


def escaped(path: str) -> str:
    """Return a path with escapes for the bytes of its names that are not UTF-8."""
    return path.encode("utf-8", "backslashreplace").decode()


class Folder:
    """A folder on a disk or at a URL such as s3://bucket/folder. Paths are relative to it."""

    def __init__(self, folder: str) -> None:
        """`name` is without the secrets that a URL may have. Raises ValueError, OSError."""
        scheme, separator, rest = folder.partition("://")
        if not separator:
            self.name, self.system = folder, pa_fs.LocalFileSystem()
            self.place = str(Path(folder).resolve())
            return
        self.name = f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}".rstrip("/")
        try:
            self.system, place = pa_fs.FileSystem.from_uri(f"{SCHEMES.get(scheme, scheme)}://{rest}")
        except (OSError, ValueError) as error:
            text = str(error) if self.name == folder else "not the URL of a folder that can be used"
            raise ValueError(f"{self.name}: {text}") from None
        self.place = place.rstrip("/")

    def below(self, path: str) -> Folder:
        """Return a folder in this one."""
        return self._other(f"/{path}")

    def beside(self, suffix: str) -> Folder:
        """Return the folder whose name is that of this one and a suffix."""
        return self._other(suffix)

    def _other(self, suffix: str) -> Folder:
        other = copy.copy(self)
        other.name, other.place = self.name.rstrip("/") + suffix, self.place + suffix
        return other

    @property
    def local(self) -> Path | None:
        """The folder as a path of this machine, or None."""
        return Path(self.place) if isinstance(self.system, pa_fs.LocalFileSystem) else None

    def exists(self, path: str = "") -> bool:
        """Return whether there is a file or a folder."""
        return bool(self.system.get_file_info(self._whole(path)).type != pa_fs.FileType.NotFound)

    def is_file(self) -> bool:
        """Return whether there is a file in place of the folder."""
        return bool(self.system.get_file_info(self.place).is_file)

    def files(self, below: str) -> dict[str, int]:
        """Return the bytes of the files below a folder in this one, by path, without temporary ones."""
        return self.listing(below).files

    def listing(self, below: str) -> Listing:
        """List a folder in this one, without temporary files. Raises OSError."""
        if self.local is not None:
            listing = Listing({}, [])
            add_files(listing, self.local, below, frozenset())
            return Listing(dict(sorted(listing.files.items())), sorted(listing.others))
        selector = pa_fs.FileSelector(self._whole(below), recursive=True, allow_not_found=True)
        infos = [info for info in self.system.get_file_info(selector) if info.is_file]
        paths = {info.path.removeprefix(self.place).lstrip("/"): info.size for info in infos}
        named = {path: size for path, size in sorted(paths.items()) if not path.rpartition("/")[2].startswith(".")}
        return Listing(named, [])

    def names(self, path: str = "") -> list[str]:
        """Return the names of the files and folders directly in a folder, or none if it does not exist."""
        selector = pa_fs.FileSelector(self._whole(path), allow_not_found=True)
        return sorted(info.base_name for info in self.system.get_file_info(selector))

    def open(self, path: str) -> pa.NativeFile:
        """Open a file that was listed. Raises OSError, which is Vanished if it is not there any more."""
        try:
            return self.system.open_input_file(self._whole(path))
        except FileNotFoundError as error:
            raise Vanished(str(error)) from None

    def read(self, path: str, columns: pa.Schema) -> pa.Table:
        """Return a table that was written."""
        with self.open(path) as file:
            return pq.ParquetFile(file).read(columns.names).cast(columns)

    def read_text(self, path: str) -> str:
        with self.open(path) as file:
            return bytes(file.read()).decode("utf-8", "replace")

    def crc(self, path: str) -> int:
        """Return the CRC of a file."""
        crc = 0
        with self.open(path) as file:
            while block := file.read(BLOCK_BYTES):
                crc = crc32(block, crc)
        return crc

    def sha256(self, path: str) -> str:
        digest = hashlib.sha256()
        with self.open(path) as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def write(self, path: str, table: pa.Table, row_group_size: int | None = None) -> None:
        """Write a table to a file."""
        with self._create(path) as stream:
            pq.write_table(table, stream, row_group_size, compression="zstd")

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file."""
        with self._create(path) as stream:
            stream.write(data)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file in one step: readers see the earlier content or this one, each whole.

        An object of an object store appears when it is complete. On a disk the file is written under another name.
        """
        if self.local is None:
            self.write_bytes(path, data)
            return
        to = self.local / path
        new = to.with_name(f".{to.name}-{os.getpid()}")
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(to)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its content, if it is there."""
        found = self.system.get_file_info(self._whole(path))
        if found.is_file:
            self.system.delete_file(found.path)
        elif found.type == pa_fs.FileType.Directory:
            self.system.delete_dir(found.path)

    def _whole(self, path: str) -> str:
        return f"{self.place}/{path}".rstrip("/")

    def _create(self, path: str) -> pa.NativeFile:
        whole = self._whole(path)
        self.system.create_dir(whole.rpartition("/")[0])
        return self.system.open_output_stream(whole)
