"""The streaming job: each run adds the new files to the facts and renews the reports.

Structured Streaming divides the files into batches, and its checkpoint ensures that each file is processed once: the
results of a batch are written under its number, replacing those of a failed attempt. The watermark is how long events
of a message may still arrive after it has left its queue; then its journey is closed and only counted. Later events are
not dropped, so a stream gives the same reports as a batch over the same files.
"""

from __future__ import annotations

import time
from datetime import datetime
from urllib.parse import unquote

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ..file_format import schema
from .conservation import checked_range
from .conservation.evidence import evidence
from .conservation.manifest import check_files, read_manifest
from .fact_store import ALL, Store
from .facts import ROWS, STATS, merge_parts
from .hadoop_fs import FileInfo, Folders
from .input_files import AcceptedFile, DamagedFile, check_file, columns, read
from .job import NO_OUTPUT, JobRefused, LogProgress, find_input, fit_to, publish, report, temporary_folder
from .message_paths import BALANCES, JOURNEYS, STAGES, balances, closed, stages
from .report_rows import Values

FILES_PER_BATCH = 20  # of 64 MB each at most
WATERMARK = "10 minutes"
ORDER = (schema.QUEUE_STATS, schema.METRICS, schema.EVENTS)  # snapshots first: they decide which journeys can be closed


def follow(spark: SparkSession, folder: str, output: str, every_s: float | None, log: LogProgress) -> Values:
    """Run once, or every `every_s` seconds without an end. Returns the content of report.json.

    Raises what `job.batch` raises; only complete reports are published.
    """
    folders = Folders(spark)
    state = f"{output.rstrip('/')}.state"
    check_output(folders, folder, output, state)
    while True:
        store = process_new_files(spark, folder, state, log)
        with temporary_folder(folders, output) as place:
            manifest = read_manifest(folders, folder)
            inputs = find_input(folders, folder)
            faults = check_files(spark, folder, manifest, inputs, {})
            made = report(store, inputs, evidence(inputs, manifest.boots, faults), folder, place, log)
            publish(folders, place, output)
        if every_s is None:
            return made
        log(f"next look in {every_s:g} s")
        time.sleep(every_s)


def process_new_files(spark: SparkSession, folder: str, state: str, log: LogProgress) -> Store:
    """Add the new files to the facts."""
    inputs = find_input(Folders(spark), folder)
    fit_to(spark, inputs)
    store = Store(spark, f"{state}/facts")
    for table in ORDER:
        if inputs[table].accepted:
            TableStream(spark, store, table, log).run(f"{folder.rstrip('/')}/{table}", f"{state}/checkpoint/{table}")
    store.tidy()
    return store


def check_output(folders: Folders, folder: str, output: str, state: str) -> None:
    """Raise JobRefused if the output was not made by a stream, or was made from another input."""
    mark = f"{state}/input"
    if not folders.exists(state):
        if folders.exists(output):
            raise JobRefused(f"{output}: exists already, and no stream made it", NO_OUTPUT)
        folders.write(mark, folder)
    elif folders.text(mark) != folder:
        raise JobRefused(f"{output}: was made of {folders.text(mark)}", NO_OUTPUT)


class TableStream:
    """The stream of one table, processed batch by batch."""

    def __init__(self, spark: SparkSession, store: Store, table: str, log: LogProgress) -> None:
        self._spark = spark
        self._store = store
        self._table = table
        self._log = log
        self._query: StreamingQuery | None = None
        self._fault: DamagedFile | OSError | None = None

    def run(self, folder: str, checkpoint: str) -> None:
        """Process all files that were not processed before."""
        rows = (
            self._spark.readStream.schema(columns(self._table))
            .option("recursiveFileLookup", True)
            .option("pathGlobFilter", "part-*.parquet")
            .option("maxFilesPerTrigger", FILES_PER_BATCH)
            .option("ignoreCorruptFiles", True)  # such files are skipped and counted by their footers
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
        """Process one batch: the stream gives the names of its files, which are read as in the batch job."""
        try:
            files = self._files(rows, batch)
        except (DamagedFile, OSError) as fault:
            self._fault = fault
            raise
        if not files:
            return
        self._log(f"batch {batch} of {self._table}: {len(files)} files")
        table = read(self._spark, self._table, [file.path for file in files])
        for fact in ALL:
            if fact.table == self._table and fact not in (JOURNEYS, BALANCES, STAGES):
                self._store.write(fact, batch, fact.make(table))
        if self._table == schema.EVENTS:
            self._update_journeys(table, batch)

    def _files(self, rows: DataFrame, batch: int) -> list[AcceptedFile]:
        """Return the accepted files of a batch. Raises DamagedFile if the rows of one differ from its footer."""
        accepted = []
        names = set(self._store.names(self._table, batch))
        for row in rows.groupBy("path").count().collect():
            path = unquote(row["path"])
            name = path.rpartition("/")[2]
            result = check_file(self._store.folders, FileInfo(path, name, 0))
            if isinstance(result, AcceptedFile) and name not in names:
                if result.records != row["count"]:
                    raise DamagedFile(f"{path}: has {row['count']} rows that can be read, and says {result.records}")
                names.add(name)
                accepted.append(result)
        self._store.note(self._table, batch, [file.path.rpartition("/")[2] for file in accepted])
        return sorted(accepted)

    def _update_journeys(self, events: DataFrame, batch: int) -> None:
        """Merge the open journeys with those of this batch, and reduce the closed ones to counts."""
        store, fact = self._store, JOURNEYS
        both = merge_parts(fact, store.load(fact, batch).unionByName(fact.make(events)))
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
        """Return Spark's watermark after the previous batch, or 1970 in the first batch of a run."""
        progress = self._query.lastProgress if self._query is not None else None
        watermark = progress.eventTime.get("watermark") if progress is not None else None
        return datetime.fromisoformat((watermark or "1970-01-01T00:00:00.000Z").replace("Z", "+00:00"))
