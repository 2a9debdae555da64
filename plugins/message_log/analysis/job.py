"""The batch job: checks the input, reduces it to aggregates, writes the reports, and publishes them when complete."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..file_format import schema
from ..file_format.report_folder import REPORT, SUMMARY, summary_of
from .aggregate_store import ALL, Aggregates, Store
from .aggregates import CROSSINGS, METRICS, STATS, Aggregate
from .compare import UnusableReport, compare, parse
from .conservation import checked_range
from .conservation.evidence import Evidence, evidence
from .conservation.manifest import check_files, read_manifest
from .hadoop_fs import Folders
from .input_files import DamagedFile, TableFiles, list_files, missing_hours, read, skipped_files
from .journeys import BALANCES, JOURNEYS, STAGES, mark_closed
from .page.document import document
from .publication import is_free, new_run, publish, report_of
from .reports.run import make_reports
from .row_numbers import ROWS
from .selection import ALL as EVERYTHING
from .selection import Selection
from .spark_session import fit, is_small
from .tables import Tables, Values


class JobRefused(Exception):
    """An error of one line, for input or output that cannot be used; `status` is the exit status of the process."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


NO_INPUT, NO_OUTPUT = 66, 73  # EX_NOINPUT and EX_CANTCREAT of sysexits.h


LogProgress = Callable[[str], None]  # logs the beginning of a step


def progress() -> LogProgress:
    """Return a log of the job's steps on stderr, with the seconds since this call."""
    started_s = time.monotonic()

    def log(step: str) -> None:
        print(f"warren analyze: {time.monotonic() - started_s:6.1f} s  {step}", file=sys.stderr, flush=True)

    return log


def find_input(folders: Folders, folder: str, selection: Selection = EVERYTHING) -> dict[str, TableFiles]:
    """Return the files of all three tables. Raises JobRefused if there is no log to read."""
    if not folders.exists(folder):
        raise JobRefused(f"{folder}: no such folder", NO_INPUT)
    inputs = list_files(folders, folder, selection.has_file)
    if not inputs[schema.EVENTS].accepted and not inputs[schema.QUEUE_STATS].accepted:
        skipped = sum(len(files.skipped) for files in inputs.values())
        raise JobRefused(f"{folder}: no export of a broker ({skipped} files that are none, or damaged)", NO_INPUT)
    return inputs


def event_count(inputs: dict[str, TableFiles]) -> int:
    return sum(file.records for file in inputs[schema.EVENTS].accepted)


def describe_input(folder: str, inputs: dict[str, TableFiles], selection: Selection) -> Values:
    """Return the section "input" of report.json."""
    everything = [file for files in inputs.values() for file in files.accepted]
    return {
        "folder": folder,
        "selection": selection.describe(),
        "files": len(everything),
        "events": event_count(inputs),
        "skipped": skipped_files(inputs),
        "skipped_files": sorted(file.path for files in inputs.values() for file in files.skipped)[:100],
        "missing_hours": missing_hours(everything),
    }


def reduce_all(
    spark: SparkSession, inputs: dict[str, TableFiles], selection: Selection, store: Store, log: LogProgress
) -> Aggregates:
    """Make all aggregates from the files, as one batch. Those of a small log stay in memory."""
    small = is_small(event_count(inputs))

    def table(name: str) -> DataFrame:
        rows = read(spark, name, inputs[name].paths)
        # Tables with one partition are aggregated and joined without a shuffle: most queries are a single task.
        return rows.coalesce(1).localCheckpoint(eager=False) if small and inputs[name].paths else rows

    def reduced(aggregate: Aggregate) -> DataFrame:
        log(f"reduce {aggregate.name}")
        part = aggregate.make(sources.get(aggregate.name, events))
        if small:
            return part.localCheckpoint(eager=False)
        store.write(aggregate, 0, part)
        return store.load(aggregate)

    tables = {name: table(name) for name in schema.TABLES}
    every_row = selection.times(tables[schema.EVENTS])
    events = selection.events(every_row)
    sources = {ROWS.name: every_row, CROSSINGS.name: selection.crossings(every_row)}
    snapshots = selection.snapshots(tables[schema.QUEUE_STATS])

    def marked(rows: Future[DataFrame]) -> DataFrame:
        spans = checked_range.spans(snapshots, rows.result())
        log(f"reduce {JOURNEYS.name}")
        return store.write_marked(mark_closed(JOURNEYS.make(events), spans, F.lit(NEVER)))

    others = [each for each in ALL if each.table == schema.EVENTS and each not in (ROWS, JOURNEYS, BALANCES, STAGES)]
    with ThreadPoolExecutor(AT_ONCE) as workers:
        rows = workers.submit(reduced, ROWS)
        journeys = workers.submit(reduced, JOURNEYS) if small else workers.submit(marked, rows)
        made: dict[str, Any] = dict(zip((each.name for each in others), workers.map(reduced, others), strict=True))
        made[ROWS.name] = rows.result()
        made[JOURNEYS.name] = journeys.result() if small else store.write_closed(journeys.result(), workers)
    made.update({STATS.name: snapshots, METRICS.name: selection.times(tables[schema.METRICS])})
    for aggregate in (BALANCES, STAGES):
        made[aggregate.name] = store.load(aggregate)
    return Aggregates(**made)


NEVER = datetime(9999, 1, 1, tzinfo=UTC)  # so that all journeys are final
AT_ONCE = 2  # aggregates that are reduced concurrently


def report(
    spark: SparkSession,
    aggregates: Aggregates,
    aggregate_bytes: int,
    inputs: dict[str, TableFiles],
    evidence: Evidence,
    folder: str,
    place: str,
    log: LogProgress,
    old: Values | None = None,
    selection: Selection = EVERYTHING,
) -> Values:
    """Write the tables, report.json, summary.json and index.html below `place`. Returns the content of report.json.

    `old` is the content of another report.json, to compare with.
    """
    events = selection.events(read(spark, schema.EVENTS, inputs[schema.EVENTS].paths))
    fit(spark, aggregate_bytes // ROW_BYTES)
    tables = Tables(spark, place, is_small(event_count(inputs)), log)
    made = make_reports(spark, aggregates, events, evidence, tables, describe_input(folder, inputs, selection))
    jumped = [boot for boot in made["conservation"]["boots"] if boot["clock_moved_us"] > JUMP_US]
    made["input"]["unprocessed_files"] = evidence.unprocessed
    made["input"]["clock_jumps"] = [{name: boot[name] for name in CLOCK} for boot in jumped]
    log("page")
    folders = Folders(spark)
    if old is not None:
        made["compared"] = compare(old, made)
    folders.write(f"{place}/{REPORT}", dump(made))
    folders.write(f"{place}/{SUMMARY}", json.dumps(summary_of(made), allow_nan=False))
    folders.write(f"{place}/index.html", document(made))
    return made


def dump(made: Values) -> str:
    """Return the content of report.json: a line for each value, and one line for the whole timeline."""
    text = json.dumps({**made, "timeline": None}, indent=1, allow_nan=False)
    timeline = json.dumps(made["timeline"], separators=(",", ":"), allow_nan=False)
    return text.replace('\n "timeline": null', f'\n "timeline": {timeline}', 1) + "\n"


def read_old(spark: SparkSession, folder: str | None) -> Values | None:
    """Return the report in a folder, to compare with. Raises JobRefused if there is none."""
    if folder is None:
        return None
    try:
        folders = Folders(spark)
        return parse(folders.text(report_of(folders, folder)))
    except (OSError, ValueError, UnusableReport) as error:
        raise JobRefused(f"{folder}: cannot be compared with: {one_line(error)}", NO_INPUT) from None


CLOCK = ("node", "boot_id", "first", "last", "clock_moved_us")
ROW_BYTES = 10  # approximate size of a row of an aggregate in a file
JUMP_US = 1_000_000  # drift of the wall clock against the monotonic one that is reported as a jump


def batch(
    spark: SparkSession,
    folder: str,
    output: str,
    log: LogProgress,
    compared: str | None = None,
    selection: Selection = EVERYTHING,
) -> Values:
    """Report on the input, or a selection of it; `compared` is the folder of a report to compare with.

    Raises JobRefused, OSError, DamagedFile or an exception of Spark, and publishes nothing then.
    """
    folders = Folders(spark)
    if not is_free(folders, output):
        raise JobRefused(f"{output}: exists already", NO_OUTPUT)
    old = read_old(spark, compared)
    manifest = read_manifest(folders, folder).part(selection.has_file)
    inputs = find_input(folders, folder, selection)
    fit(spark, event_count(inputs))
    with new_run(folders, output) as place:
        store = Store(spark, f"{place}/_aggregates")
        with ThreadPoolExecutor(1) as aside:
            log("check files")
            checking = aside.submit(check_files, spark, folder, manifest, inputs, {}, selection.has_file)
            aggregates = reduce_all(spark, inputs, selection, store, log)
            faults = checking.result()
        known = of_part(evidence(inputs, manifest.boots, faults), selection)
        made = report(spark, aggregates, store.bytes(), inputs, known, folder, place, log, old, selection)
        if not selection.of_rows:
            check_records(made, inputs)
        folders.remove(store.folder)
        publish(folders, place)
    return made


def of_part(known: Evidence, selection: Selection) -> Evidence:
    """Return the evidence that holds for a part of the input."""
    if selection.of_time:
        known = replace(known, finished={})  # files may extend beyond the selected time
    if selection.since is not None:
        known = replace(known, since_us=round(selection.since.timestamp() * 1_000_000))
    if selection.until is not None:
        known = replace(known, now_us=min(known.now_us, round(selection.until.timestamp() * 1_000_000)))
    return replace(known, routes_compared=not selection.queues)


def check_records(made: Values, inputs: dict[str, TableFiles]) -> None:
    """Raise DamagedFile if the number of rows read differs from that in the files' footers."""
    promised, got = event_count(inputs), made["totals"]["records"]
    if promised != got:
        raise DamagedFile(f"the files of the log have {promised} records, and {got} were read")


def one_line(error: BaseException) -> str:
    text: Any = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
