"""The job as a stream: each run takes the files that are new, and renews the reports.

Structured Streaming says which files make a batch, and its checkpoint that each is taken once: what a batch makes is
written under its number, in place of what a failed attempt left. The watermark says for how long a message that has
left its queue may still be heard of; then its way is closed, counted, and carried on no more. What comes later than
that is counted all the same: nothing is dropped, so a stream says what a batch over the same files does.
"""

from __future__ import annotations

import time
from datetime import datetime
from urllib.parse import unquote

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from .. import schema
from .conservation import checked_range
from .fact_store import ALL, Store
from .facts import ROWS, STATS, merged
from .hadoop_fs import Folders, Found
from .input_files import Damaged, Taken, columns, read, verdict
from .job import NO_OUTPUT, Refused, Tell, aside, divide, report, show, taken_in
from .message_paths import BALANCES, JOURNEYS, STAGES, balances, closed, stages

FILES_PER_BATCH = 20  # 64 MB each, at the most
WATERMARK = "10 minutes"
ORDER = (schema.QUEUE_STATS, schema.METRICS, schema.EVENTS)  # snapshots first: they say which journeys can be closed


def follow(spark: SparkSession, folder: str, output: str, every_s: float | None, tell: Tell) -> None:
    """One run, or with `every_s` one after the other. Raises as `job.batch` does; what is shown is always whole."""
    folders = Folders(spark)
    state = f"{output.rstrip('/')}.state"
    claim(folders, folder, output, state)
    while True:
        store = take(spark, folder, state, tell)
        with aside(folders, output) as place:
            report(store, taken_in(folders, folder), folder, place, tell)
            show(folders, place, output)
        if every_s is None:
            return
        tell(f"next look in {every_s:g} s")
        time.sleep(every_s)


def take(spark: SparkSession, folder: str, state: str, tell: Tell) -> Store:
    """What is new, into the facts."""
    intakes = taken_in(Folders(spark), folder)
    divide(spark, intakes)
    store = Store(spark, f"{state}/facts")
    for table in ORDER:
        if intakes[table].taken:
            Take(spark, store, table, tell).run(f"{folder.rstrip('/')}/{table}", f"{state}/checkpoint/{table}")
    store.tidy()
    return store


def claim(folders: Folders, folder: str, output: str, state: str) -> None:
    """Raises Refused where the output is somebody else's, or was made of another input."""
    mark = f"{state}/input"
    if not folders.exists(state):
        if folders.exists(output):
            raise Refused(f"{output}: exists already, and no stream made it", NO_OUTPUT)
        folders.write(mark, folder)
    elif folders.text(mark) != folder:
        raise Refused(f"{output}: was made of {folders.text(mark)}", NO_OUTPUT)


class Take:
    """Takes one table, batch by batch."""

    def __init__(self, spark: SparkSession, store: Store, table: str, tell: Tell) -> None:
        self._spark = spark
        self._store = store
        self._table = table
        self._tell = tell
        self._query: StreamingQuery | None = None
        self._fault: Damaged | OSError | None = None

    def run(self, folder: str, checkpoint: str) -> None:
        """All files that are there and were not taken before."""
        rows = (
            self._spark.readStream.schema(columns(self._table))
            .option("recursiveFileLookup", True)
            .option("pathGlobFilter", "part-*.parquet")
            .option("maxFilesPerTrigger", FILES_PER_BATCH)
            .option("ignoreCorruptFiles", True)  # what is skipped thereby is found by its footer, and counted
            .parquet(folder)
            .select("ts_us", F.col("_metadata.file_path").alias("path"))
            .withWatermark("ts_us", WATERMARK)
        )
        writer = rows.writeStream.foreachBatch(self._batch).option("checkpointLocation", checkpoint)
        self._query = writer.trigger(availableNow=True).start()
        try:
            self._query.awaitTermination()
        except StreamingQueryException:
            if self._fault is not None:
                raise self._fault from None
            raise

    def _batch(self, rows: DataFrame, batch: int) -> None:
        """The files of one batch: the stream names them, and they are read as a run over all of them reads them."""
        try:
            files = self._files(rows, batch)
        except (Damaged, OSError) as fault:
            self._fault = fault
            raise
        if not files:
            return
        self._tell(f"batch {batch} of {self._table}: {len(files)} files")
        table = read(self._spark, self._table, [file.path for file in files])
        for fact in ALL:
            if fact.table == self._table and fact not in (JOURNEYS, BALANCES, STAGES):
                self._store.write(fact, batch, fact.make(table))
        if self._table == schema.EVENTS:
            self._carry_on(table, batch)

    def _files(self, rows: DataFrame, batch: int) -> list[Taken]:
        """Those that count. Raises Damaged where one has not the rows it says."""
        taken = []
        names = set(self._store.names(self._table, batch))
        for row in rows.groupBy("path").count().collect():
            path = unquote(row["path"])
            name = path.rpartition("/")[2]
            result = verdict(self._store.folders, Found(path, name, 0))
            if isinstance(result, Taken) and name not in names:
                if result.records != row["count"]:
                    raise Damaged(f"{path}: has {row['count']} rows that can be read, and says {result.records}")
                names.add(name)
                taken.append(result)
        self._store.note(self._table, batch, [file.path.rpartition("/")[2] for file in taken])
        return sorted(taken)

    def _carry_on(self, events: DataFrame, batch: int) -> None:
        """The open journeys, with those of this batch; closed ones become counts."""
        store, fact = self._store, JOURNEYS
        both = merged(fact, store.load(fact, batch).unionByName(fact.make(events)))
        spans = checked_range.spans(store.load(STATS), store.load(ROWS))
        bounds = spans.select(
            *checked_range.BOOT,
            "from_row",
            F.when(F.col("to_snapshot").isNotNull() | (F.col("sample_rate") < 1), F.col("to_row")).alias("cut"),
        )
        held = both.join(F.broadcast(bounds), list(checked_range.BOOT), "left")
        known = F.coalesce(F.col("enter_row") >= F.col("from_row"), F.lit(False))
        done = closed(F.col("cut"), F.lit(self._watermark())) & known
        marked = held.withColumn("done", F.coalesce(done, F.lit(False))).drop("from_row", "cut").persist()
        over = marked.where("done").drop("done")
        store.write(BALANCES, batch, balances(over))
        store.write(STAGES, batch, stages(over))
        store.write(fact, batch, marked.where("not done").drop("done"))
        marked.unpersist()

    def _watermark(self) -> datetime:
        """Spark's own, as of the batch before; the beginning of time in the first batch of a run."""
        progress = self._query.lastProgress if self._query is not None else None
        told = progress.eventTime.get("watermark") if progress is not None else None
        return datetime.fromisoformat((told or "1970-01-01T00:00:00.000Z").replace("Z", "+00:00"))
