"""One file of the export: written under a name that readers pass over, and renamed when it is whole."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from . import schema

LEVEL = 3  # of zstd
# Numbers that grow from row to row: their differences take less room, and less time, than a dictionary of them.
GROWING = ("ts_us", "mono_ns", "row", "msg_seq", "lat_us")
COUNTED = ("ts_us", "row", "queue")  # columns with statistics, by which a reader can pass over groups of rows


class Part:
    """Of one table. `first_us` is the time of its first row. Raises OSError."""

    def __init__(self, folder: Path, name: str, target: pa.Schema, first_us: int) -> None:
        first = datetime.fromtimestamp(first_us / 1_000_000, UTC)
        self.hour = (first.date(), first.hour)
        self.begun_s = time.monotonic()
        self.rows = 0
        self._path = folder / f"dt={first:%Y-%m-%d}" / f"hour={first:%H}" / name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._aside = self._path.with_name(f".{name}.tmp")
        growing = [name for name in target.names if name in GROWING]
        self._file = self._aside.open("wb")
        self._writer = pq.ParquetWriter(
            self._file,
            target,
            compression="zstd",
            compression_level=LEVEL,
            use_dictionary=[name for name in target.names if name not in growing],
            column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
            write_statistics=[name for name in target.names if name in COUNTED],
        )

    @property
    def written_bytes(self) -> int:
        return self._file.tell()

    def write(self, table: pa.Table) -> None:
        """A group of rows. Raises OSError."""
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self.rows += table.num_rows

    def finish(self, lost: int) -> None:
        """From now on readers see it. Raises OSError."""
        self._writer.add_key_value_metadata({schema.LOST_KEY: str(lost)})
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._aside.rename(self._path)

    def abandon(self) -> None:
        """It could not be written: nothing of it is left."""
        self._file.close()
        self._aside.unlink(missing_ok=True)
