"""The store of facts on disk: a folder for each fact, with one part for each batch of files.

A part is named after its batch and overwrites the part of an earlier attempt, so that each batch counts once however
often it is tried. Of the open journeys only the part of the last batch counts. From time to time all parts are merged
and what is old is folded (`folding`); the result is written beside them, and replaces them once a file says that it is
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
from . import facts
from . import message_paths as journeys
from .facts import Fact, merge_parts
from .file_names import FileNames
from .hadoop_fs import FileInfo, Folders
from .input_files import read
from .local_table import no_rows
from .row_numbers import ROWS

ALL = (
    *(facts.KINDS, facts.TRAFFIC, facts.LATENCIES, facts.ROUTES, facts.TRANSFERS, ROWS, facts.ATTEMPTS),
    *(facts.CROSSINGS, facts.STATS, facts.METRICS, journeys.JOURNEYS, journeys.BALANCES, journeys.STAGES),
)
PARTS = 32  # of one fact; more are merged into one
FOLDED, NOTES, ROWS_FILE = "folded", "folds", "rows.parquet"
Values = dict[str, Any]


class Folded(NamedTuple):
    """The folded part of the facts: tables, and summaries of what is not in them, as rows of this process.

    traffic       `facts.with_entry` of traffic by interval
    minutes       messages by minute; `hours` are those before the minutes, `ever` is all that was before the hours
    snapshots     the last complete snapshot of each interval, the greatest length of each queue, starts and stops
    readings      the last, the highest and the lowest value of each metric in each interval
    crossed       messages that links took and brought, by link; `crossed_lags`: histograms of their lag
    queues, metrics, costs, paces   rows of `summaries.queues`, `summaries.metrics`, `capacity.cpu_intervals`,
                                    `durability.paces` about what was folded
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


ROWS_OF = ("queues", "metrics", "costs", "paces")  # those that are rows of this process


class Fold(NamedTuple):
    """A note about a fold: up to which batch of each table, and before which second, or None for nothing yet."""

    number: int
    upto: dict[str, int]
    before_s: int | None


class Facts(NamedTuple):
    """All facts, merged, by name."""

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
    folded: Folded | None = None  # what is older than the rows of traffic, crossings, queue_stats and metrics

    @property
    def whole_traffic(self) -> DataFrame:
        """Traffic with the entry of its messages, by second or by the interval to which seconds were folded."""
        seconds = facts.with_entry(self.traffic)
        return seconds if self.folded is None else seconds.unionByName(self.folded.traffic)

    @property
    def snapshots(self) -> DataFrame:
        """The snapshots of queues, and those of earlier times that were kept."""
        return self.queue_stats if self.folded is None else self.queue_stats.unionByName(self.folded.snapshots)

    @property
    def readings(self) -> DataFrame:
        """The readings of metrics, and those of earlier times that were kept."""
        return self.metrics if self.folded is None else self.metrics.unionByName(self.folded.readings)


class Store:
    """The store of the facts below one folder.

    `<fact>/batch=<n>` is the part of one batch; `<fact>/fold=<n>` is what the fold n has merged.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark = spark
        self.folders = Folders(spark)
        self.folder = folder
        self.fold = self._last_fold()

    def write(self, fact: Fact, batch: int, part: DataFrame) -> None:
        place = f"{self._place(fact)}/batch={batch}"
        if fact.shorten is None:
            part.write.mode("overwrite").parquet(place)
            return
        whole = f"{self._place(fact)}/_batch={batch}"  # not computed again for each query of the shorter one
        part.write.mode("overwrite").parquet(whole)
        fact.shorten(self.spark.read.schema(part.schema).parquet(whole)).write.mode("overwrite").parquet(place)
        self.folders.remove(whole)

    def write_marked(self, marked: DataFrame) -> DataFrame:
        """Write journeys with the column `closed` (`mark_closed`). Returns them, to be read again."""
        marked.write.partitionBy("closed").parquet(f"{self.folder}/marked")
        return self.spark.read.schema(marked.schema).parquet(f"{self.folder}/marked")

    def write_folded(self, marked: DataFrame, workers: Executor) -> DataFrame:
        """Reduce the closed ones of journeys that were written to counts, as the only batch. Returns the others."""
        over = marked.where("closed").drop("closed")
        counts = (journeys.BALANCES, journeys.balances(over)), (journeys.STAGES, journeys.stages(over))
        for written in [workers.submit(self.write, fact, 0, part) for fact, part in counts]:
            written.result()
        self.folders.remove(f"{self.folder}/marked/closed=true")
        return marked.where("not closed").drop("closed")

    def bytes(self) -> int:
        """Return the size of all facts."""
        if not self.folders.exists(self.folder):
            return 0
        return sum(file.bytes for file in self.folders.files(self.folder))

    def part(self, fact: Fact, batch: int) -> DataFrame:
        """Return the part of one batch."""
        return self.spark.read.parquet(f"{self._place(fact)}/batch={batch}")

    def load(self, fact: Fact, before: int | None = None) -> DataFrame:
        """Return the parts of a fact, or those of batches before `before`, merged; of journeys only the last part."""
        names = self._parts(fact, before)
        if fact is journeys.JOURNEYS:
            names = names[-1:]
        columns = fact.make(read(self.spark, fact.table, [])).schema
        if not names:
            return no_rows(self.spark, columns)
        parts = self.spark.read.schema(columns).parquet(*[f"{self._place(fact)}/{name}" for name in names])
        return merge_parts(fact, parts) if len(names) > 1 else parts

    def merged(self) -> dict[str, DataFrame]:
        """Return all facts but the journeys as a merge stores them, by name."""
        loaded = [(fact, self.load(fact)) for fact in ALL if fact is not journeys.JOURNEYS]
        return {fact.name: fact.shorten(part) if fact.shorten is not None else part for fact, part in loaded}

    def facts(self) -> Facts:
        """Return all facts. Raises OSError if an earlier version has stored some of them, without numbers of kinds."""
        if self._parts(facts.KINDS, None) != self._parts(facts.TRAFFIC, None):
            raise OSError(f"{self.folder} was made by an earlier version: remove it, and all files are read again")
        parts: dict[str, Any] = {fact.name: self.load(fact) for fact in ALL}
        return Facts(**parts, folded=self.folded())

    def folded(self) -> Folded | None:
        """Return what was folded, or None if nothing was."""
        if self.fold.before_s is None:
            return None
        places = {name: f"{self.folder}/{FOLDED}/{name}/fold={self.fold.number}" for name in Folded._fields}
        parts: dict[str, Any] = {}
        for name, place in places.items():
            if name in ROWS_OF:
                parts[name] = pq.read_table(io.BytesIO(self.folders.content(f"{place}/{ROWS_FILE}"))).to_pylist()
            else:
                parts[name] = self.spark.read.parquet(place)
        return Folded(**parts)

    def kept(self, fact: Fact) -> DataFrame:
        """Return the rows of STATS or METRICS, and those that folds have kept."""
        rows, folded = self.load(fact), self.folded()
        if folded is None:
            return rows
        return rows.unionByName(folded.snapshots if fact is facts.STATS else folded.readings)

    def batches(self, table: str) -> int:
        """Return the number of batches since the last fold."""
        return self.next_batch(table) - 1 - self.fold.upto.get(table, -1)

    def replace(self, merged: dict[str, DataFrame], folded: Folded | None, before_s: int | None) -> None:
        """Replace the parts of all facts but journeys by `merged`, which has them by name, and what was folded.

        If the job dies, the parts of before count, or these.
        """
        number = self.fold.number + 1
        for name, table in merged.items():
            table.write.mode("overwrite").parquet(f"{self.folder}/{name}/fold={number}")
        for name, part in folded._asdict().items() if folded is not None else ():
            place = f"{self.folder}/{FOLDED}/{name}/fold={number}"
            if isinstance(part, DataFrame):
                part.write.mode("overwrite").parquet(place)
            else:
                content = io.BytesIO()
                pq.write_table(pa.Table.from_pylist(part), content)
                self.folders.write_bytes(f"{place}/{ROWS_FILE}", content.getvalue())
        fold = Fold(number, {table: self.next_batch(table) - 1 for table in schema.TABLES}, before_s)
        self.folders.write(f"{self.folder}/{NOTES}/{number}", json.dumps(fold._asdict()))
        self.fold = fold
        self.remove_replaced()

    def remove_replaced(self) -> None:
        """Remove the parts and notes that the last fold, and the last part of the journeys, have replaced."""
        for fact in ALL:
            names = self._parts(fact, None)
            self._keep(self._place(fact), names[-1:] if fact is journeys.JOURNEYS else names)
        for name in Folded._fields:
            self._keep(f"{self.folder}/{FOLDED}/{name}", [f"fold={self.fold.number}"])
        for note in self.folders.names(f"{self.folder}/{NOTES}"):
            if int(note) < self.fold.number:
                self.folders.remove(f"{self.folder}/{NOTES}/{note}")
        for table in schema.TABLES:
            self._tidy_names(table)

    def note(self, table: str, batch: int, names: FileNames) -> None:
        """Store the names of the files of a batch."""
        self.folders.write(f"{self.folder}/names/{table}/{batch}", names.text())

    def names(self, table: str) -> FileNames:
        """Return the names of the files of all batches."""
        names = FileNames()
        for note in self._notes(table):
            names.update(FileNames.read(self.folders.text(note.path)))
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

    def _parts(self, fact: Fact, before: int | None) -> list[str]:
        """Return the names of the parts that are not replaced, in order."""
        names = self.folders.folders(self._place(fact))
        numbers = sorted(int(name.partition("=")[2]) for name in names if name.startswith("batch="))
        if fact is not journeys.JOURNEYS:
            numbers = [number for number in numbers if number > self.fold.upto.get(fact.table, -1)]
        batches = [f"batch={number}" for number in numbers if before is None or number < before]
        folded = f"fold={self.fold.number}"
        return [folded, *batches] if folded in names else batches

    def _last_fold(self) -> Fold:
        notes = self.folders.names(f"{self.folder}/{NOTES}")
        if not notes:
            return Fold(-1, {}, None)
        return Fold(**json.loads(self.folders.text(f"{self.folder}/{NOTES}/{max(map(int, notes))}")))

    def _place(self, fact: Fact) -> str:
        return f"{self.folder}/{fact.name}"
