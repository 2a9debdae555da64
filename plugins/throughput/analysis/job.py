"""The run of the job: refuses or reads, reduces, reports, and shows what it made only when it is whole."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .. import schema
from . import html_report
from .fact_store import ALL, Store
from .hadoop_fs import Folders
from .input_files import Damaged, Intake, look, missing_hours, read
from .message_paths import BALANCES, STAGES
from .reports import throughput
from .reports.run import Reporting, Values, values

POINTS = 1500  # of a line in a chart: the finest grain with no more is drawn
LINES = 10  # queues in a chart


class Refused(Exception):
    """One line that says why there is nothing to be done; `status` is that of the process."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


NO_INPUT, NO_OUTPUT = 66, 73  # EX_NOINPUT and EX_CANTCREAT of sysexits.h


Tell = Callable[[str], None]  # is told what is begun


class Progress:
    """Says on stderr what is done, with the seconds since the start."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, what: str) -> None:
        print(f"warren analyze: {time.monotonic() - self._started:6.1f} s  {what}", file=sys.stderr, flush=True)


def taken_in(folders: Folders, folder: str) -> dict[str, Intake]:
    """All three tables. Raises Refused where there is no log to read."""
    if not folders.exists(folder):
        raise Refused(f"{folder}: no such folder", NO_INPUT)
    intakes = {table: look(folders, folder, table) for table in schema.TABLES}
    if not intakes[schema.EVENTS].taken and not intakes[schema.QUEUE_STATS].taken:
        skipped = sum(len(intake.skipped) for intake in intakes.values())
        raise Refused(f"{folder}: no export of a broker ({skipped} files that are none, or damaged)", NO_INPUT)
    return intakes


def divide(spark: SparkSession, intakes: dict[str, Intake]) -> None:
    """What is shuffled goes in parts of a size that a task handles in memory; adaptive execution joins small ones."""
    records = sum(file.records for file in intakes[schema.EVENTS].taken)
    spark.conf.set("spark.sql.shuffle.partitions", max(PARTITIONS, records // PARTITION_RECORDS))


def described(folder: str, intakes: dict[str, Intake]) -> Values:
    """What report.json says of the input."""
    everything = [file for intake in intakes.values() for file in intake.taken]
    reasons: dict[str, int] = {}
    for intake in intakes.values():
        for reason, count in intake.reasons().items():
            reasons[reason] = reasons.get(reason, 0) + count
    return {
        "folder": folder,
        "files": len(everything),
        "events": sum(file.records for file in intakes[schema.EVENTS].taken),
        "skipped": reasons,
        "skipped_files": sorted(file.path for intake in intakes.values() for file in intake.skipped)[:100],
        "missing_hours": missing_hours(everything),
    }


def reduce_all(spark: SparkSession, intakes: dict[str, Intake], store: Store, tell: Tell) -> None:
    """All facts, of all files, as one batch."""
    for fact in ALL:
        if fact not in (BALANCES, STAGES) and intakes[fact.table].paths:  # these are of closed journeys, and none is
            tell(f"reduce {fact.name}")
            store.write(fact, 0, fact.make(read(spark, fact.table, intakes[fact.table].paths)))


def report(store: Store, intakes: dict[str, Intake], folder: str, place: str, tell: Tell) -> Values:
    """Everything that a person or program reads, below `place`."""
    facts, spark = store.facts(), store.spark
    events = read(spark, schema.EVENTS, intakes[schema.EVENTS].paths)
    made = Reporting(spark, facts, events, place, tell).run(described(folder, intakes))
    jumped = [boot for boot in made["conservation"]["boots"] if boot["clock_moved_us"] > JUMP_US]
    made["input"]["clock_jumps"] = [{name: boot[name] for name in CLOCK} for boot in jumped]
    tell("page")
    store.folders.write(f"{place}/report.json", json.dumps(made, indent=1, allow_nan=False) + "\n")
    store.folders.write(f"{place}/index.html", html_report.page(made, flows(spark, place), depths(facts.queue_stats)))
    return made


CLOCK = ("node", "boot_id", "first", "last", "clock_moved_us")
PARTITIONS, PARTITION_RECORDS = 8, 500_000  # at least so many, and of records of the log about so many in each
JUMP_US = 1_000_000  # the wall clock may drift that far against the monotonic one before it is said to have jumped


def flows(spark: SparkSession, folder: str) -> list[Values]:
    """Messages a second of all virtual hosts, in the finest grain that makes a legible line."""
    for grain, grain_s in throughput.GRAINS_S.items():
        series = spark.read.parquet(f"{folder}/tables/throughput_{grain}").where(F.col("scope") == "vhost")
        summed = series.groupBy("start", "flow").agg(F.round(F.sum("messages") / grain_s, 3).alias("per_s"))
        if grain == "1h" or summed.select("start").distinct().count() <= POINTS:
            break
    return [values(row) for row in summed.orderBy("start", "flow").collect()]


def depths(queue_stats: DataFrame) -> list[Values]:
    """Ready and unacknowledged messages over time, of the queues that had most, in at most POINTS steps."""
    rows = queue_stats.where(F.col("queue").isNotNull()).withColumn("messages", F.col("ready") + F.col("unacked"))
    queues = rows.groupBy("node", "vhost", "queue").agg(F.max("messages").alias("peak"))
    top = queues.orderBy(F.desc("peak"), "node", "vhost", "queue").limit(LINES)
    at = F.unix_seconds("ts_us")
    bounds = rows.agg(F.min(at).alias("first"), F.max(at).alias("last")).collect()[0]
    step = max(schema.SNAPSHOT_S, ((bounds["last"] or 0) - (bounds["first"] or 0)) // POINTS + 1)
    steps = (
        rows.join(F.broadcast(top.drop("peak")), ["node", "vhost", "queue"])
        .groupBy("node", "vhost", "queue", F.timestamp_seconds(at - at % step).alias("at"))
        .agg(F.max("messages").alias("messages"))
    )
    return [values(row) for row in steps.orderBy("at", "node", "vhost", "queue").collect()]


@contextmanager
def aside(folders: Folders, output: str) -> Iterator[str]:
    """A folder beside the output in which it is made; what is left of it in the end is removed."""
    place = f"{output.rstrip('/')}.partial-{os.getpid()}"
    folders.remove(place)
    try:
        yield place
    finally:
        folders.remove(place)


def show(folders: Folders, made: str, output: str) -> None:
    """What was made takes the place of what is there."""
    old = f"{made}-before"
    if folders.exists(output):
        folders.move(output, old)
    folders.move(made, output)
    folders.remove(old)


def batch(spark: SparkSession, folder: str, output: str, tell: Tell) -> Values:
    """All that is there, at once. Raises Refused, OSError, Damaged, or what Spark raises, and shows nothing then."""
    folders = Folders(spark)
    if folders.exists(output):
        raise Refused(f"{output}: exists already", NO_OUTPUT)
    intakes = taken_in(folders, folder)
    divide(spark, intakes)
    with aside(folders, output) as place:
        store = Store(spark, f"{place}/_facts")
        reduce_all(spark, intakes, store, tell)
        made = report(store, intakes, folder, place, tell)
        complete(made, intakes)
        folders.remove(store.folder)
        show(folders, place, output)
    return made


def complete(made: Values, intakes: dict[str, Intake]) -> None:
    """Raises Damaged where other rows were read than the files said they have."""
    promised, got = sum(file.records for file in intakes[schema.EVENTS].taken), made["totals"]["records"]
    if promised != got:
        raise Damaged(f"the files of the log have {promised} records, and {got} were read")


def one_line(error: BaseException) -> str:
    text: Any = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
