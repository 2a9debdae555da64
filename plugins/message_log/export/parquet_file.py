"""One file of the export: written under a name that readers ignore, and renamed when it is complete."""

import contextlib
import fcntl
import hashlib
import io
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..file_format import schema
from .manifest import MODE, FinishedFile, sync_folder

LEVEL = 3  # of zstd
WRITE_ROWS = 1 << 16  # of one column at a time
# Numbers that increase from row to row: their differences take less space and time than a dictionary.
GROWING = ("ts_us", "mono_ns", "row", "msg_seq", "lat_us")
CONSTANT = ("schema", "sample_rate")  # a dictionary would have a single entry
# Columns by which rows are searched for: their statistics show which groups of rows cannot have them.
SEARCHED = ("ts_us", "row", "msg_seq", "source_seq", "message_id", "identity")


def temporary_path(path: Path) -> Path:
    """Return the path of a file until it is complete."""
    return path.with_name(f".{path.name}.tmp")


class HashedFile(io.FileIO):
    """A file that is written sequentially, with the checksum of its content.

    It is not buffered, so that closing it writes nothing and cannot fail because the disk is full. It is locked while
    it is open, so the writer of an unfinished file without a lock was killed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE), "wb")
        self.sha256 = hashlib.sha256()
        self.abandoned = False
        with contextlib.suppress(OSError):  # of a file system without locks
            fcntl.flock(self.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, data: Any) -> int:
        """Write the data, or nothing if the file is `abandoned`. Raises OSError."""
        rest = memoryview(data).cast("B")
        length = len(rest)
        if self.abandoned:
            return length
        while rest:
            written = super().write(rest)
            assert written is not None  # possible only for a file that does not block
            self.sha256.update(rest[:written])
            rest = rest[written:]
        return length


class Part:
    """An open file of a table.

    `folder` is that of the export, `name` the file's, `target` has its columns, and `first_us` is the time of its first
    row. Raises OSError.
    """

    def __init__(
        self, folder: Path, table: str, name: str, target: pa.Schema, first_us: int, place: Path | None = None
    ) -> None:
        """`place` is the folder of the file, instead of that of the hour of its first row."""
        first = datetime.fromtimestamp(first_us / 1_000_000, UTC)
        self.hour = (first.date(), first.hour)
        self.begun_s = time.monotonic()
        self.rows = 0
        self._least_row: int | None = None
        self._greatest_row: int | None = None
        self._folder = folder
        self._table = table
        self._path = (place or folder / table / f"dt={first:%Y-%m-%d}" / f"hour={first:%H}") / name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = temporary_path(self._path)
        growing = [name for name in target.names if name in GROWING]
        plain = (*growing, *CONSTANT)
        self.names = frozenset(target.names)
        self._target = target
        self._file = HashedFile(self._temporary)
        try:
            self._writer = pq.ParquetWriter(
                self._file,
                target,
                compression="zstd",
                compression_level=LEVEL,
                use_dictionary=[name for name in target.names if name not in plain],
                column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
                write_statistics=[name for name in target.names if name in SEARCHED],
                write_batch_size=WRITE_ROWS,
            )
        except OSError:  # its constructor writes
            self._file.close()
            self._temporary.unlink(missing_ok=True)
            raise

    @property
    def written_bytes(self) -> int:
        return self._file.tell()

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Write a group of rows; missing columns are null. Raises OSError."""
        count = len(columns["schema"])
        present = [columns.get(field.name, None) for field in self._target]
        arrays = [pa.nulls(count, field.type) if column is None else column
                  for column, field in zip(present, self._target, strict=True)]  # fmt: skip
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._target), row_group_size=max(count, 1))
        self.rows += count
        if self._table == schema.EVENTS:
            ends = pc.min_max(columns["row"])
            least, greatest = ends["min"].as_py(), ends["max"].as_py()
            self._least_row = least if self._least_row is None else min(self._least_row, least)
            self._greatest_row = greatest if self._greatest_row is None else max(self._greatest_row, greatest)

    def finish(self, lost: int, age_s: int) -> FinishedFile:
        """Finish the file, make it durable and rename it, so that readers see it. Raises OSError."""
        self._writer.add_key_value_metadata({schema.LOST_KEY: str(lost), schema.FILE_AGE_KEY: str(age_s)})
        self._writer.close()
        size = self._file.tell()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.rename(self._path)
        with contextlib.suppress(OSError):  # readers have the file: its rows are not lost
            sync_folder(self._path.parent)
        return FinishedFile(
            self._path.relative_to(self._folder).as_posix(),
            self._table,
            size,
            self.rows,
            self._least_row,
            self._greatest_row,
            self._file.sha256.hexdigest(),
        )

    def abandon(self) -> None:
        """Delete the file, which could not be written."""
        self._file.abandoned = True
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()
            self._temporary.unlink(missing_ok=True)
