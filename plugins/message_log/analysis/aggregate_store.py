"""The store of aggregates on disk: a folder for each aggregate, with one part for each batch of files.

A part is named after its batch and overwrites the part of an earlier attempt, so each batch counts once even if it is
repeated. Of the open journeys only the part of the last batch counts. From time to time all parts are merged and old
rows are rolled up (`rollup`); the result is written beside the parts, and replaces them once a file notes that it is
complete. Nothing is renamed.
"""

from __future__ import annotations

import io
import json
from concurrent.futures import Executor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from ..file_format import schema
from . import journeys
from .aggregates import (
    ATTEMPTS,
    CROSSINGS,
    KINDS,
    LATENCIES,
    METRICS,
    ROUTES,
    STATS,
    TRAFFIC,
    TRANSFERS,
    Aggregate,
    merge_parts,
    with_entry,
)
from .create_table import empty_table
from .hadoop_fs import FileInfo, Folders
from .input_files import read
from .processed_files import ProcessedFiles
from .row_numbers import ROWS
from .tables import Values

ALL = (
    *(KINDS, TRAFFIC, LATENCIES, ROUTES, TRANSFERS, ROWS, ATTEMPTS, CROSSINGS, STATS, METRICS),
    *(journeys.JOURNEYS, journeys.BALANCES, journeys.STAGES),
)
PARTS = 32  # parts of one aggregate; if there are more, all are merged
ROLLED_UP, NOTES, ROWS_FILE = "rolled_up", "rollups", "rows.parquet"


class RolledUp(NamedTuple):
    """The rolled up part of the aggregates: tables, and rows of this process.

    traffic       `aggregates.with_entry` of traffic by interval
    minutes       messages by minute; `hours` are those before the minutes, `ever` is all that was before the hours
    snapshots     the last complete snapshot of each interval, the greatest length of each queue, starts and stops
    readings      the last, the highest and the lowest value of each metric in each interval
    crossed       messages that links took and brought, by link; `crossed_lags`: histograms of their lag
    queues, metrics, costs, paces   rows of `report_inputs.queues`, `report_inputs.metrics`, `capacity.cpu_intervals`,
                                    `durability.paces` about the time that was rolled up
    """

    traffic: DataFrame
    minutes: DataFrame
    hours: DataFrame
    ever: DataFrame
    snapshots: DataFrame
    readings: DataFrame
    crossed: DataFrame
    crossed_lags: DataFrame
    queues: list[Values]
    metrics: list[Values]
    costs: list[Values]
    paces: list[Values]


ROWS_OF = ("queues", "metrics", "costs", "paces")  # the attributes that are rows of this process


class Rollup(NamedTuple):
    """A note about a rollup: the last merged batch of each table, and the end of the rolled up time, or None."""

    number: int
    merged_batch: dict[str, int]
    before_s: int | None


class Aggregates(NamedTuple):
    """All aggregates, merged, by name."""

    kinds: DataFrame
    traffic: DataFrame
    latencies: DataFrame
    routes: DataFrame
    transfers: DataFrame
    rows: DataFrame
    attempts: DataFrame
    crossings: DataFrame
    queue_stats: DataFrame
    metrics: DataFrame
    journeys: DataFrame
    balances: DataFrame
    stages: DataFrame
    rolled_up: RolledUp | None = None  # older rows than those of traffic, crossings, queue_stats and metrics

    @property
    def whole_traffic(self) -> DataFrame:
        """Traffic with the entry of its messages, by second or by the interval to which seconds were rolled up."""
        seconds = with_entry(self.traffic)
        return seconds if self.rolled_up is None else seconds.unionByName(self.rolled_up.traffic)

    @property
    def snapshots(self) -> DataFrame:
        """Snapshots of queues, also the rolled up ones."""
        return self.queue_stats if self.rolled_up is None else self.queue_stats.unionByName(self.rolled_up.snapshots)

    @property
    def readings(self) -> DataFrame:
        """Readings of metrics, also the rolled up ones."""
        return self.metrics if self.rolled_up is None else self.metrics.unionByName(self.rolled_up.readings)


class Store:
    """The store of the aggregates below one folder.

    `<aggregate>/batch=<n>` is the part of one batch; `<aggregate>/rollup=<n>` is what the rollup n has merged.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark = spark
        self.folders = Folders(spark)
        self.folder = folder
        self.rollup = self._last_rollup()

    def write(self, aggregate: Aggregate, batch: int, part: DataFrame) -> None:
        place = f"{self._place(aggregate)}/batch={batch}"
        if aggregate.shorten is None:
            part.write.mode("overwrite").parquet(place)
            return
        whole = f"{self._place(aggregate)}/_batch={batch}"  # not computed again for each query of the shorter one
        part.write.mode("overwrite").parquet(whole)
        aggregate.shorten(self.spark.read.schema(part.schema).parquet(whole)).write.mode("overwrite").parquet(place)
        self.folders.remove(whole)

    def write_marked(self, marked: DataFrame) -> DataFrame:
        """Write journeys with the column `closed` (`mark_closed`). Returns them, to be read again."""
        marked.write.partitionBy("closed").parquet(f"{self.folder}/marked")
        return self.spark.read.schema(marked.schema).parquet(f"{self.folder}/marked")

    def write_closed(self, marked: DataFrame, workers: Executor) -> DataFrame:
        """Reduce the closed journeys of a written table to counts, as the only batch. Returns the open ones."""
        over = marked.where("closed").drop("closed")
        counts = (journeys.BALANCES, journeys.balances(over)), (journeys.STAGES, journeys.stages(over))
        for written in [workers.submit(self.write, aggregate, 0, part) for aggregate, part in counts]:
            written.result()
        self.folders.remove(f"{self.folder}/marked/closed=true")
        return marked.where("not closed").drop("closed")

    def bytes(self) -> int:
        """Return the size of all aggregates."""
        if not self.folders.exists(self.folder):
            return 0
        return sum(file.bytes for file in self.folders.files(self.folder))

    def part(self, aggregate: Aggregate, batch: int) -> DataFrame:
        """Return the part of one batch."""
        return self.spark.read.parquet(f"{self._place(aggregate)}/batch={batch}")

    def load(self, aggregate: Aggregate, before: int | None = None) -> DataFrame:
        """Return the merged parts of an aggregate, or those of batches before `before`; of journeys the last part."""
        names = self._parts(aggregate, before)
        if aggregate is journeys.JOURNEYS:
            names = names[-1:]
        columns = aggregate.make(read(self.spark, aggregate.table, [])).schema
        if not names:
            return empty_table(self.spark, columns)
        parts = self.spark.read.schema(columns).parquet(*[f"{self._place(aggregate)}/{name}" for name in names])
        return merge_parts(aggregate, parts) if len(names) > 1 else parts

    def merged(self) -> dict[str, DataFrame]:
        """Return all aggregates but the journeys as a merge stores them, by name."""
        loaded = [(each, self.load(each)) for each in ALL if each is not journeys.JOURNEYS]
        return {each.name: each.shorten(part) if each.shorten is not None else part for each, part in loaded}

    def aggregates(self) -> Aggregates:
        """Return all aggregates."""
        parts: dict[str, Any] = {aggregate.name: self.load(aggregate) for aggregate in ALL}
        return Aggregates(**parts, rolled_up=self.rolled_up())

    def rolled_up(self) -> RolledUp | None:
        """Return what was rolled up, or None if nothing was."""
        if self.rollup.before_s is None:
            return None
        places = {name: f"{self.folder}/{ROLLED_UP}/{name}/rollup={self.rollup.number}" for name in RolledUp._fields}
        parts: dict[str, Any] = {}
        for name, place in places.items():
            if name in ROWS_OF:
                parts[name] = pq.read_table(io.BytesIO(self.folders.content(f"{place}/{ROWS_FILE}"))).to_pylist()
            else:
                parts[name] = self.spark.read.parquet(place)
        return RolledUp(**parts)

    def kept(self, aggregate: Aggregate) -> DataFrame:
        """Return the rows of STATS or METRICS, also the rolled up ones."""
        rows, rolled_up = self.load(aggregate), self.rolled_up()
        if rolled_up is None:
            return rows
        return rows.unionByName(rolled_up.snapshots if aggregate is STATS else rolled_up.readings)

    def batches(self, table: str) -> int:
        """Return the number of batches since the last rollup."""
        return self.next_batch(table) - 1 - self.rollup.merged_batch.get(table, -1)

    def replace(self, merged: dict[str, DataFrame], rolled_up: RolledUp | None, before_s: int | None) -> None:
        """Replace the earlier rollup and the parts of all aggregates except journeys by `merged`.

        If the job dies, either the earlier parts or the new ones count.
        """
        number = self.rollup.number + 1
        for name, table in merged.items():
            table.write.mode("overwrite").parquet(f"{self.folder}/{name}/rollup={number}")
        for name, part in rolled_up._asdict().items() if rolled_up is not None else ():
            place = f"{self.folder}/{ROLLED_UP}/{name}/rollup={number}"
            if isinstance(part, DataFrame):
                part.write.mode("overwrite").parquet(place)
            else:
                content = io.BytesIO()
                pq.write_table(pa.Table.from_pylist(part), content)
                self.folders.write_bytes(f"{place}/{ROWS_FILE}", content.getvalue())
        rollup = Rollup(number, {table: self.next_batch(table) - 1 for table in schema.TABLES}, before_s)
        self.folders.write(f"{self.folder}/{NOTES}/{number}", json.dumps(rollup._asdict()))
        self.rollup = rollup
        self.remove_replaced()

    def remove_replaced(self) -> None:
        """Remove the parts and notes that the last rollup, and the last part of the journeys, have replaced."""
        for aggregate in ALL:
            names = self._parts(aggregate, None)
            self._keep(self._place(aggregate), names[-1:] if aggregate is journeys.JOURNEYS else names)
        for name in RolledUp._fields:
            self._keep(f"{self.folder}/{ROLLED_UP}/{name}", [f"rollup={self.rollup.number}"])
        for note in self.folders.names(f"{self.folder}/{NOTES}"):
            if int(note) < self.rollup.number:
                self.folders.remove(f"{self.folder}/{NOTES}/{note}")
        for table in schema.TABLES:
            self._tidy_names(table)

    def note(self, table: str, batch: int, names: ProcessedFiles) -> None:
        """Store the names of the files of a batch."""
        self.folders.write(f"{self.folder}/names/{table}/{batch}", names.text())

    def names(self, table: str) -> ProcessedFiles:
        """Return the names of the files of all batches."""
        names = ProcessedFiles()
        for note in self._notes(table):
            names.update(ProcessedFiles.read(self.folders.text(note.path)))
        return names

    def next_batch(self, table: str) -> int:
        """Return the number of the next batch, which is that of a batch that failed before its files were noted."""
        return max([int(note.name) for note in self._notes(table)], default=-1) + 1

    def _notes(self, table: str) -> list[FileInfo]:
        place = f"{self.folder}/names/{table}"
        return self.folders.files(place) if self.folders.exists(place) else []

    def _tidy_names(self, table: str) -> None:
        notes = self._notes(table)
        if len(notes) > PARTS:
            last = max(int(note.name) for note in notes)
            self.note(table, last, self.names(table))
            for note in notes:
                if int(note.name) != last:
                    self.folders.remove(note.path)

    def _keep(self, place: str, names: list[str]) -> None:
        for name in self.folders.folders(place):
            if name not in names:
                self.folders.remove(f"{place}/{name}")

    def _parts(self, aggregate: Aggregate, before: int | None) -> list[str]:
        """Return the names of the parts that are not replaced, in order."""
        names = self.folders.folders(self._place(aggregate))
        numbers = sorted(int(name.partition("=")[2]) for name in names if name.startswith("batch="))
        if aggregate is not journeys.JOURNEYS:
            numbers = [number for number in numbers if number > self.rollup.merged_batch.get(aggregate.table, -1)]
        batches = [f"batch={number}" for number in numbers if before is None or number < before]
        rolled_up = f"rollup={self.rollup.number}"
        return [rolled_up, *batches] if rolled_up in names else batches

    def _last_rollup(self) -> Rollup:
        notes = self.folders.names(f"{self.folder}/{NOTES}")
        if not notes:
            return Rollup(-1, {}, None)
        return Rollup(**json.loads(self.folders.text(f"{self.folder}/{NOTES}/{max(map(int, notes))}")))

    def _place(self, aggregate: Aggregate) -> str:
        return f"{self.folder}/{aggregate.name}"
