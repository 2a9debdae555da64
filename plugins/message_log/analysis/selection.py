"""The selection of a part of the input, so that the other rows are not read.

A time and a node select files, by folders and names; Parquet's statistics and Spark's filters select the rows. The
conservation check stays valid for the part:

- For a time, it compares the first snapshot in it with the last one. Messages from before are in the first one.
- For virtual hosts and queues, it compares their queues. Gaps are found in the rows of all queues.
- Arrivals by links are read of all virtual hosts, because the ends of a link are mostly in different ones.
- Publishes belong to no queue: a selection of queues includes all publishes of its virtual hosts, and does not compare
  the number of queues that each was routed to.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..file_format import schema
from .input_files import HOUR

# Snapshots nearer to a limit are left out: the wall clock of events is corrected between batches by a few milliseconds.
MARGIN = timedelta(seconds=1)
SPAN = timedelta(hours=1)  # the time of a folder; its files begin in that hour, and end in the next one at the latest


@dataclass(frozen=True)
class Selection:
    """The selected part of the input: times from `since` to `until` (exclusive), and names; empty for all."""

    since: datetime | None = None
    until: datetime | None = None
    nodes: tuple[str, ...] = ()
    vhosts: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    @property
    def of_time(self) -> bool:
        return self.since is not None or self.until is not None

    @property
    def of_rows(self) -> bool:
        """Whether only some rows of the selected files are selected."""
        return self.of_time or bool(self.vhosts or self.queues)

    def describe(self) -> dict[str, Any]:
        """Return the selection as JSON for report.json."""
        return {
            "since": self.since.isoformat() if self.since is not None else None,
            "until": self.until.isoformat() if self.until is not None else None,
            "nodes": list(self.nodes),
            "vhosts": list(self.vhosts),
            "queues": list(self.queues),
        }

    def has_file(self, path: str) -> bool:
        """Whether a file may have selected rows, by its path."""
        name = path.rpartition("/")[2]
        if self.nodes and not any(name.startswith(f"part-{schema.safe_name(node)}-") for node in self.nodes):
            return False
        begun = HOUR.search(path if path.startswith("/") else f"/{path}")
        if begun is None:
            return True
        hour = datetime.fromisoformat(f"{begun[1]}T{begun[2]}+00:00")
        if self.until is not None and hour >= self.until:
            return False
        return self.since is None or hour + 2 * SPAN > self.since

    def times(self, rows: DataFrame, margin: timedelta = timedelta()) -> DataFrame:
        """Return the rows of the selected nodes and time."""
        if self.nodes:
            rows = rows.where(F.col("node").isin(*self.nodes))
        if self.since is not None:
            rows = rows.where(F.col("ts_us") >= F.lit(self.since + margin))
        if self.until is not None:
            rows = rows.where(F.col("ts_us") < F.lit(self.until - margin))
        return rows

    def events(self, rows: DataFrame) -> DataFrame:
        """Return the selected events."""
        return self._named(self.times(rows), F.lit(True))

    def crossings(self, rows: DataFrame) -> DataFrame:
        """Return the events by which links are checked: the selected ones, and all arrivals."""
        arrival = F.col("event") == schema.FED_IN
        return self._named(self.times(rows), ~arrival, arrival)

    def snapshots(self, rows: DataFrame) -> DataFrame:
        """Return the snapshots of the selected queues, as if there were no others."""
        rows = self.times(rows, MARGIN)
        if not self.vhosts and not self.queues:
            return rows
        closing = F.col("queue").isNull()
        wanted = self._named(rows.where(~closing), F.lit(True))
        key = ["node", "boot_id", "snapshot"]
        counts = rows.where(~closing).groupBy(*key).agg(F.count("*").alias("all"))
        chosen = wanted.groupBy(*key).agg(F.count("*").alias("chosen"))
        ends = rows.where(closing).join(counts, key, "left").join(chosen, key, "left")
        complete = F.coalesce("all", F.lit(0)) == F.col("queues")
        number = F.when(complete, F.coalesce("chosen", F.lit(0))).otherwise(-1).cast("int")
        return wanted.unionByName(ends.withColumn("queues", number).select(*rows.columns))

    def _named(self, rows: DataFrame, of_these: Column, always: Column | None = None) -> DataFrame:
        """Return the rows of the selected virtual hosts and queues, and those for which `always` is true."""
        condition = of_these
        if self.vhosts:
            condition &= F.coalesce(F.col("vhost").isin(*self.vhosts), F.lit(True))
        if self.queues:
            condition &= F.coalesce(F.col("queue").isin(*self.queues), F.lit(True))
        return rows.where(condition if always is None else condition | always)


ALL = Selection()
