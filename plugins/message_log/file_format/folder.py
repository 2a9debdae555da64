"""A folder of files, on a disk of this machine or at a URL of an object store."""

from __future__ import annotations

import copy
import hashlib
import os
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

BLOCK_BYTES = 1 << 20
SCHEMES = {"s3a": "s3", "s3n": "s3"}  # names that Hadoop has for schemes


class Vanished(OSError):
    """A file that was listed is not there any more: a compaction or the retention has removed it."""


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
        selector = pa_fs.FileSelector(self._whole(below), recursive=True, allow_not_found=True)
        infos = [info for info in self.system.get_file_info(selector) if info.is_file]
        paths = {info.path.removeprefix(self.place).lstrip("/"): info.size for info in infos}
        return {path: size for path, size in sorted(paths.items()) if not path.rpartition("/")[2].startswith(".")}

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
