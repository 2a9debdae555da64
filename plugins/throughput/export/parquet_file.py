"""One file of the export: written under a name that readers ignore, and renamed when it is complete."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..file_format import schema

MODE = 0o640  # the administrator decides by the group who may read the log of all messages
LEVEL = 3  # of zstd
WRITE_ROWS = 1 << 16  # of one column at a time
# Numbers that increase from row to row: their differences take less space and time than a dictionary.
GROWING = ("ts_us", "mono_ns", "row", "msg_seq", "lat_us")
CONSTANT = ("schema", "sample_rate")  # a dictionary would have a single entry
# Columns by which rows are searched for: their statistics show which groups of rows cannot have them.
SEARCHED = ("ts_us", "row", "msg_seq", "source_seq", "message_id", "identity")


class Part:
    """An open file of one table. `first_us` is the time of its first row. Raises OSError."""

    def __init__(self, folder: Path, name: str, target: pa.Schema, first_us: int) -> None:
        first = datetime.fromtimestamp(first_us / 1_000_000, UTC)
        self.hour = (first.date(), first.hour)
        self.begun_s = time.monotonic()
        self.rows = 0
        self._path = folder / f"dt={first:%Y-%m-%d}" / f"hour={first:%H}" / name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = self._path.with_name(f".{name}.tmp")
        growing = [name for name in target.names if name in GROWING]
        plain = (*growing, *CONSTANT)
        self.names = frozenset(target.names)
        self._target = target
        self._file = os.fdopen(os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE), "wb")
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

    @property
    def written_bytes(self) -> int:
        return self._file.tell()

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Write a group of rows; missing columns are null. Raises OSError."""
        count = len(columns["schema"])
        given = [columns.get(field.name, None) for field in self._target]
        arrays = [pa.nulls(count, field.type) if column is None else column
                  for column, field in zip(given, self._target, strict=True)]  # fmt: skip
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._target), row_group_size=max(count, 1))
        self.rows += count

    def finish(self, lost: int) -> None:
        """Finish the file and rename it, so that readers see it. Raises OSError."""
        self._writer.add_key_value_metadata({schema.LOST_KEY: str(lost)})
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.rename(self._path)

    def abandon(self) -> None:
        """Delete the file, which could not be written."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)
