"""The store of facts on disk: a folder for each fact, with one part for each batch of files.

A part is named after its batch and overwrites the part of an earlier attempt, so that each batch counts once however
often it is tried. Of the open journeys only the part of the last batch counts.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from ..file_format import schema
from . import facts
from . import message_paths as journeys
from .facts import Fact, merge_parts
from .hadoop_fs import FileInfo, Folders
from .input_files import read
from .local_table import no_rows

ALL = (
    *(facts.TRAFFIC, facts.LATENCIES, facts.ROUTES, facts.TRANSFERS, facts.ROWS, facts.ATTEMPTS, facts.CROSSINGS),
    *(facts.STATS, facts.METRICS, journeys.JOURNEYS, journeys.BALANCES, journeys.STAGES),
)
PARTS = 32  # of one fact; more are merged into one


class Facts(NamedTuple):
    """All facts, merged, by name."""

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


class Store:
    """The store of the facts below one folder.

    `batch=<n>` is the part of one batch; `upto=<n>` is a merge of the parts of all batches up to n, and replaces them.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark = spark
        self.folders = Folders(spark)
        self.folder = folder

    def write(self, fact: Fact, batch: int, part: DataFrame) -> None:
        place = f"{self._place(fact)}/batch={batch}"
        if fact.shorten is None:
            part.write.mode("overwrite").parquet(place)
            return
        whole = f"{self._place(fact)}/_batch={batch}"  # not computed again for each query of the shorter one
        part.write.mode("overwrite").parquet(whole)
        fact.shorten(self.spark.read.schema(part.schema).parquet(whole)).write.mode("overwrite").parquet(place)
        self.folders.remove(whole)

    def write_folded(self, marked: DataFrame) -> DataFrame:
        """Write journeys with the column `closed` (`mark_closed`) as the only batch.

        The closed ones are reduced to counts. Returns the others.
        """
        place = f"{self.folder}/marked"
        marked.write.partitionBy("closed").parquet(place)
        read_again = self.spark.read.schema(marked.schema).parquet(place)
        over = read_again.where("closed").drop("closed")
        self.write(journeys.BALANCES, 0, journeys.balances(over))
        self.write(journeys.STAGES, 0, journeys.stages(over))
        self.folders.remove(f"{place}/closed=true")
        return read_again.where("not closed").drop("closed")

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

    def facts(self) -> Facts:
        return Facts(**{fact.name: self.load(fact) for fact in ALL})

    def tidy(self) -> None:
        """Merge facts that have many parts, and remove replaced parts. Not to be called during a batch."""
        for table in schema.TABLES:
            self._tidy_names(table)
        for fact in ALL:
            names = self._parts(fact, None)
            if fact is not journeys.JOURNEYS and len(names) > PARTS:
                last = batch_number(names[-1])[0]
                merged = self.load(fact)
                shorter = fact.shorten(merged) if fact.shorten is not None else merged
                shorter.write.mode("overwrite").parquet(f"{self._place(fact)}/upto={last}")
                self.folders.write(f"{self._merges(fact)}/{last}", "")
                names = [f"upto={last}"]
            elif fact is journeys.JOURNEYS:
                names = names[-1:]
            for name in self.folders.folders(self._place(fact)):
                if name not in names:
                    self.folders.remove(f"{self._place(fact)}/{name}")

    def note(self, table: str, batch: int, names: list[str]) -> None:
        """Store the names of the files of a batch."""
        self.folders.write(f"{self.folder}/names/{table}/{batch}", "\n".join(names))

    def names(self, table: str) -> list[str]:
        """Return the names of the files of all batches."""
        return [name for note in self._notes(table) for name in self.folders.text(note.path).split("\n")]

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

    def _parts(self, fact: Fact, before: int | None) -> list[str]:
        """Return the names of the parts that are not replaced, in order."""
        merges = {f"upto={number}" for number in self.folders.names(self._merges(fact))}
        found = self.folders.folders(self._place(fact))
        names = [name for name in found if name in merges or name.startswith("batch=")]
        order = sorted((name for name in names if before is None or batch_number(name)[0] < before), key=batch_number)
        starts = [index for index, name in enumerate(order) if name in merges]
        return order[starts[-1] :] if starts else order

    def _merges(self, fact: Fact) -> str:
        """Return the folder that has a file for each complete merge of parts."""
        return f"{self.folder}/merges/{fact.name}"

    def _place(self, fact: Fact) -> str:
        return f"{self.folder}/{fact.name}"


def batch_number(name: str) -> tuple[int, str]:
    """Return the sort key of a part: its batch, then its name, so that `upto=5` follows `batch=5`."""
    return int(name.partition("=")[2]), name
