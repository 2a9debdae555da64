"""The facts on disk, between the log and the reports: a folder for each fact, in it one part for each batch of files.

A part is written under the number of its batch, in place of whatever an attempt before had left there, so that each
batch counts once however often it is tried. The journeys that are still open are one part, that of the last batch.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from .. import schema
from . import facts
from . import message_paths as journeys
from .facts import Fact, merged
from .hadoop_fs import Folders
from .input_files import read

ALL = (
    *(facts.TRAFFIC, facts.LATENCIES, facts.ROUTES, facts.ROWS, facts.ATTEMPTS, facts.CROSSINGS),
    *(facts.STATS, facts.METRICS, journeys.JOURNEYS, journeys.BALANCES, journeys.STAGES),
)
PARTS = 32  # of one fact, beyond which they are merged into one


class Facts(NamedTuple):
    """All that reports are made of, merged; by the names of the facts."""

    traffic: DataFrame
    latencies: DataFrame
    routes: DataFrame
    rows: DataFrame
    attempts: DataFrame
    crossings: DataFrame
    queue_stats: DataFrame
    metrics: DataFrame
    journeys: DataFrame
    balances: DataFrame
    stages: DataFrame


class Store:
    """The facts below one folder.

    `batch=<n>` is the part of one batch, `upto=<n>` those of all batches up to that one, which count no more beside it.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark = spark
        self.folders = Folders(spark)
        self.folder = folder

    def write(self, fact: Fact, batch: int, part: DataFrame) -> None:
        part.write.mode("overwrite").parquet(f"{self._place(fact)}/batch={batch}")

    def load(self, fact: Fact, before: int | None = None) -> DataFrame:
        """All parts, or those of batches before that one, merged; of the journeys the last part alone."""
        names = self._parts(fact, before)
        if fact is journeys.JOURNEYS:
            names = names[-1:]
        columns = fact.make(read(self.spark, fact.table, [])).schema
        if not names:
            return self.spark.createDataFrame([], columns)
        parts = self.spark.read.schema(columns).parquet(*[f"{self._place(fact)}/{name}" for name in names])
        return merged(fact, parts) if len(names) > 1 else parts

    def facts(self) -> Facts:
        return Facts(**{fact.name: self.load(fact) for fact in ALL})

    def tidy(self) -> None:
        """Merge what has become many parts, and remove what does not count any more. Not while a batch is under way."""
        for table in schema.TABLES:
            self._tidy_names(table)
        for fact in ALL:
            names = self._parts(fact, None)
            if fact is not journeys.JOURNEYS and len(names) > PARTS:
                last = numbered(names[-1])[0]
                aside = f"{self._place(fact)}/_upto={last}"
                self.load(fact).write.mode("overwrite").parquet(aside)
                self.folders.move(aside, f"{self._place(fact)}/upto={last}")
                names = [f"upto={last}"]
            elif fact is journeys.JOURNEYS:
                names = names[-1:]
            for name in self.folders.folders(self._place(fact)):
                if name not in names:
                    self.folders.remove(f"{self._place(fact)}/{name}")

    def note(self, table: str, batch: int, names: list[str]) -> None:
        """The files that a batch has taken, by their names."""
        self.folders.write(f"{self.folder}/names/{table}/{batch}", "\n".join(names))

    def names(self, table: str, before: int) -> list[str]:
        """Of the files that were taken before that batch."""
        place = f"{self.folder}/names/{table}"
        if not self.folders.exists(place):
            return []
        notes = [file for file in self.folders.files(place) if int(file.name) < before]
        return [name for note in notes for name in self.folders.text(note.path).split("\n")]

    def _tidy_names(self, table: str) -> None:
        place = f"{self.folder}/names/{table}"
        notes = self.folders.files(place) if self.folders.exists(place) else []
        if len(notes) > PARTS:
            last = max(int(note.name) for note in notes)
            self.note(table, last, self.names(table, last + 1))
            for note in notes:
                if int(note.name) != last:
                    self.folders.remove(note.path)

    def _parts(self, fact: Fact, before: int | None) -> list[str]:
        """The names of the parts that count, in order."""
        names = [name for name in self.folders.folders(self._place(fact)) if not name.startswith("_")]
        order = sorted((name for name in names if before is None or numbered(name)[0] < before), key=numbered)
        whole = [index for index, name in enumerate(order) if name.startswith("upto=")]
        return order[whole[-1] :] if whole else order

    def _place(self, fact: Fact) -> str:
        return f"{self.folder}/{fact.name}"


def numbered(name: str) -> tuple[int, str]:
    """5 of `batch=5`, and the name: what was merged comes after the batch that it goes up to."""
    return int(name.partition("=")[2]), name
