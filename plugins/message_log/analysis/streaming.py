"""The streaming job: each run adds the new files to the aggregates and renews the reports.

All files that no earlier run has noted are new, even old ones: the files of another broker may arrive days later. They
are processed in batches. The parts of a batch are named after its number, and its files are noted at its end; so a
failed batch is repeated with the same number, and replaces its parts. The watermark is how long events of a message may
still arrive after it has left its queue; then its journey is closed and only counted. Later events are not dropped, so
a stream gives the same reports as a batch over the same files.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ..file_format import schema
from .aggregate_store import ALL, Store
from .aggregates import METRICS, STATS, merge_parts
from .conservation import checked_range
from .conservation.evidence import evidence
from .conservation.manifest import Manifest, check_files, read_manifest
from .hadoop_fs import Folders
from .input_files import AcceptedFile, DamagedFile, TableFiles, read
from .job import NO_OUTPUT, JobRefused, LogProgress, event_count, find_input, read_old, report
from .journeys import BALANCES, BOOT, JOURNEYS, STAGES, balances, mark_closed, stages
from .processed_files import ProcessedFiles
from .publication import is_free, new_run, publish
from .rollup import tidy
from .row_numbers import BLOCK_BITS, REGION_BITS, ROWS, by_region
from .spark_session import fit
from .tables import Values

BATCH_BYTES = 1 << 30  # the maximum of files in a batch
FILES_PER_BATCH = 1000
WATERMARK = "10 minutes"
ORDER = (schema.QUEUE_STATS, schema.METRICS, schema.EVENTS)  # snapshots first: they decide which journeys can be closed


def follow(
    spark: SparkSession,
    folder: str,
    output: str,
    every_s: float | None,
    log: LogProgress,
    compared: str | None = None,
) -> Values:
    """Run once, or every `every_s` seconds forever. Returns the content of report.json.

    `compared` is the folder of a report to compare with.

    Raises what `job.batch` raises; only complete reports are published.
    """
    folders = Folders(spark)
    old = read_old(spark, compared)
    state = f"{output.rstrip('/')}.state"
    check_output(folders, folder, output, state)
    while True:
        manifest = read_manifest(folders, folder)
        inputs = find_input(folders, folder)
        store = Store(spark, f"{state}/aggregates")
        verified = VerifiedFiles(folders, state, store)
        faults = check_files(spark, folder, manifest, inputs, verified.checksums(manifest))
        verified.note(entry.path for entry in faults.changed)
        process(store, inputs, manifest, log)
        with new_run(folders, output) as place:
            unprocessed = [path for table in ORDER for path in unprocessed_files(store, table, inputs[table])]
            known = evidence(inputs, manifest.boots, faults, len(unprocessed))
            made = report(spark, store.aggregates(), store.bytes(), inputs, known, folder, place, log, old)
            publish(folders, place)
        if every_s is None:
            return made
        log(f"next look in {every_s:g} s")
        time.sleep(every_s)


def process(store: Store, inputs: dict[str, TableFiles], manifest: Manifest, log: LogProgress) -> None:
    """Add the new files to the aggregates. Raises DamagedFile."""
    fit(store.spark, event_count(inputs))
    for table in ORDER:
        TableStream(store, table, log).process(inputs[table].accepted, manifest)
    tidy(store)


def check_output(folders: Folders, folder: str, output: str, state: str) -> None:
    """Raise JobRefused if the output was not made by a stream, or was made from another input."""
    mark = f"{state}/input"
    if not folders.exists(state):
        if not is_free(folders, output):
            raise JobRefused(f"{output}: exists already, and no stream made it", NO_OUTPUT)
        folders.write(mark, folder)
    elif folders.text(mark) != folder:
        raise JobRefused(f"{output}: was made of {folders.text(mark)}", NO_OUTPUT)


def unprocessed_files(store: Store, table: str, files: TableFiles) -> list[str]:
    """Return the accepted files of a table that are in no batch."""
    names = store.names(table)
    return [path for path in files.paths if file_name(path) not in names]


def file_name(path: str) -> str:
    return path.rpartition("/")[2]


class VerifiedFiles:
    """The files whose checksums earlier runs have compared with the manifest: their processed files."""

    def __init__(self, folders: Folders, state: str, store: Store) -> None:
        """Read the names of the processed files. Callers process new files afterwards."""
        self._folders = folders
        self._place = f"{state}/changed"
        self._names = {table: store.names(table) for table in ORDER}
        self._changed = set(folders.text(self._place).split("\n")) if folders.exists(self._place) else set()

    def checksums(self, manifest: Manifest) -> dict[str, str]:
        """Return the checksums that need not be computed again, by path; an empty text for changed files."""
        return {
            path: "" if path in self._changed else entry.sha256
            for path, entry in manifest.files.items()
            if entry.table in self._names and file_name(path) in self._names[entry.table]
        }

    def note(self, changed: Iterable[str]) -> None:
        """Store which files are changed."""
        if new := set(changed) - self._changed:
            self._changed |= new
            self._folders.write(self._place, "\n".join(sorted(self._changed)))


class TableStream:
    """The stream of one table, processed batch by batch."""

    def __init__(self, store: Store, table: str, log: LogProgress) -> None:
        self._store = store
        self._table = table
        self._log = log
        self._replaced: dict[str, set[str]] = {}  # names of files, by that of the compaction's file

    def process(self, files: Iterable[AcceptedFile], manifest: Manifest) -> None:
        """Process all files that were not processed before. Raises DamagedFile.

        The file of a compaction is known if it replaces only processed files. If it replaces others too, its rows from
        processed files are left out.
        """
        names = self._store.names(self._table)
        self._replaced = {file_name(by): set(map(file_name, paths)) for by, paths in manifest.replaced.items()}
        known: list[AcceptedFile] = []
        partly: list[AcceptedFile] = []
        others: list[AcceptedFile] = []
        for file in sorted(files):
            name = file_name(file.path)
            there = [part in names for part in originals(name, self._replaced)]
            if not (names.lists(name) or name in names and all(there)):
                (known if all(there) else partly if any(there) else others).append(file)
        if known:
            self._note(self._store.next_batch(self._table), known)
        for some in in_batches(others):
            self._batch(some, again=False)
        for some in in_batches(partly):
            self._batch(some, again=True)

    def _note(self, batch: int, files: Iterable[AcceptedFile]) -> None:
        """Note the files as processed, and the originals that compactions have merged into them."""
        names = {file_name(file.path) for file in files}
        self._store.note(
            self._table, batch, ProcessedFiles(names.union(*[originals(name, self._replaced) for name in names]))
        )

    def _batch(self, files: list[AcceptedFile], again: bool) -> None:
        """Process one batch. With `again`, rows that the aggregates already have are left out."""
        store, batch = self._store, self._store.next_batch(self._table)
        self._log(f"batch {batch} of {self._table}: {len(files)} files")
        table = read(store.spark, self._table, [file.path for file in files])
        if again:
            table = unread(store, self._table, table).persist()
        for aggregate in ALL:
            if aggregate.table == self._table and aggregate not in (JOURNEYS, BALANCES, STAGES):
                store.write(aggregate, batch, aggregate.make(table))
        if self._table == schema.EVENTS:
            if not again:
                check_records(store, batch, files)
            self._update_journeys(table, batch)
        table.unpersist()
        self._note(batch, files)

    def _update_journeys(self, events: DataFrame, batch: int) -> None:
        """Merge the open journeys with those of this batch, and reduce the closed ones to counts."""
        store, aggregate = self._store, JOURNEYS
        both = merge_parts(aggregate, store.load(aggregate, batch).unionByName(aggregate.make(events)))
        spans = checked_range.spans(store.kept(STATS), store.load(ROWS))
        watermark = F.max("last").over(Window.partitionBy()) - F.expr(f"interval {WATERMARK}")
        marked = mark_closed(both, spans, watermark).persist()
        over = marked.where("closed").drop("closed")
        store.write(BALANCES, batch, balances(over))
        store.write(STAGES, batch, stages(over))
        store.write(aggregate, batch, marked.where("not closed").drop("closed"))
        marked.unpersist()


def originals(name: str, replaced: Mapping[str, set[str]]) -> set[str]:
    """Return the files of brokers that compactions have merged into a file, or the file itself."""
    if name not in replaced:
        return {name}
    return {original for part in replaced[name] if part != name for original in originals(part, replaced)}


def in_batches(files: Iterable[AcceptedFile]) -> Iterator[list[AcceptedFile]]:
    """Yield the files in batches of at most FILES_PER_BATCH files and about BATCH_BYTES."""
    some: list[AcceptedFile] = []
    for file in files:
        some.append(file)
        if len(some) >= FILES_PER_BATCH or sum(each.bytes for each in some) >= BATCH_BYTES:
            yield some
            some = []
    if some:
        yield some


def unread(store: Store, table: str, rows: DataFrame) -> DataFrame:
    """Return the rows that the aggregates do not have."""
    if table == schema.EVENTS:
        number, place = F.shiftright("row", BLOCK_BITS), (F.col("row") % (1 << BLOCK_BITS)).cast("int")
        columns = [F.col(name).alias(f"seen_{name}") for name in (*BOOT, "region", "block", "bits")]
        known = by_region(store.load(ROWS)).select(*columns, "blocks")
        same = [F.col(name) == F.col(f"seen_{name}") for name in (*BOOT, "region")]
        within = (F.col("block") >= F.col("seen_block")) & (F.col("block") < F.col("seen_block") + F.col("blocks"))
        numbered = rows.withColumn("block", number).withColumn("region", F.shiftright("block", REGION_BITS))
        there = F.coalesce(F.getbit("seen_bits", place), F.lit(0)) == 1
        return numbered.join(known, [*same, within], "left").where(~there).select(*rows.columns)
    aggregate, key = (STATS, "snapshot") if table == schema.QUEUE_STATS else (METRICS, "mono_ns")
    keys = ["node", "boot_id", key]
    return rows.join(store.kept(aggregate).select(*keys).distinct(), keys, "left_anti")


def check_records(store: Store, batch: int, files: Iterable[AcceptedFile]) -> None:
    """Raise DamagedFile if the number of rows read differs from that in the files' footers."""
    promised = sum(file.records for file in files)
    got = store.part(ROWS, batch).agg(F.coalesce(F.sum("records"), F.lit(0))).collect()[0][0]
    if promised != got:
        raise DamagedFile(f"the files of batch {batch} have {promised} rows, and {got} were read")
