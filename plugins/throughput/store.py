"""The facts on disk, between the log and the reports: a folder for each fact, in it one part for each batch of files.

A part is written under the number of its batch, in place of whatever an attempt before had left there, so that each
batch counts once however often it is tried. The journeys that are still open are one part, that of the last batch.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from . import facts, journeys
from .facts import Fact, merged
from .folder import Folders
from .intake import read

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
    """The facts below one folder."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folders = Folders(spark)
        self.folder = folder

    def write(self, fact: Fact, batch: int, part: DataFrame) -> None:
        part.write.mode("overwrite").parquet(self._place(fact, batch))

    def batches(self, fact: Fact) -> list[int]:
        """Numbers of the parts there are."""
        names = self._folders.folders(f"{self.folder}/{fact.name}")
        return sorted(int(name.removeprefix("batch=")) for name in names if name.startswith("batch="))

    def part(self, fact: Fact, batches: list[int]) -> DataFrame:
        """Those parts, merged."""
        schema = fact.make(read(self._spark, fact.table, [])).schema
        if not batches:
            return self._spark.createDataFrame([], schema)
        parts = self._spark.read.schema(schema).parquet(*[self._place(fact, batch) for batch in batches])
        return merged(fact, parts) if len(batches) > 1 else parts

    def remove(self, fact: Fact, batch: int) -> None:
        self._folders.remove(self._place(fact, batch))

    def load(self) -> Facts:
        """Everything; of the open journeys the last part."""
        return Facts(**{fact.name: self.part(fact, self._current(fact)) for fact in ALL})

    def _current(self, fact: Fact) -> list[int]:
        batches = self.batches(fact)
        return batches[-1:] if fact is journeys.JOURNEYS else batches

    def _place(self, fact: Fact, batch: int) -> str:
        return f"{self.folder}/{fact.name}/batch={batch}"


def counted(files: DataFrame) -> dict[str, int]:
    """Rows by the path of the file they came from."""
    grouped = files.groupBy(F.col("_metadata.file_path").alias("path")).count()
    return {row["path"]: int(row["count"]) for row in grouped.collect()}
