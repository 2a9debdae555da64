"""A log of many queues: its reports and tables are the same whether it is analysed as a large log or as a small one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from warren.plugins.message_log.analysis import job, report_inputs, spark_session
from warren.plugins.message_log.analysis.aggregates import KIND, KINDS, of_kinds
from warren.plugins.message_log.analysis.create_table import create_table
from warren.plugins.message_log.analysis.input_files import read
from warren.plugins.message_log.file_format import schema

from . import bulk
from .checking import valid

pytestmark = pytest.mark.timeout(600)
QUEUES = 700
FLOWS = {schema.ENQUEUE: "enqueued", schema.DELIVER: "delivered", schema.ACK: "acknowledged"}
SERIES = ("throughput_1s", "throughput_1m", "throughput_1h")
Rows = list[dict[str, Any]]


class Run:
    """A log, and its reports with the settings of a small and of a large log."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder
        self.log = folder / "log"
        bulk.write(self.log, 30_000, bulk.Names(QUEUES, 300))
        self.small = self._report(spark, "small")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spark_session, "SMALL", -1)
            self.large = self._report(spark, "large")
        spark_session.fit(spark, 0)

    def _report(self, spark: SparkSession, name: str) -> dict[str, Any]:
        return valid(job.batch(spark, str(self.log), str(self.folder / name), lambda what: None))

    def table(self, run: str, name: str) -> Rows:
        rows: Rows = pq.read_table(self.folder / run / "tables" / name).to_pylist()
        return sorted(rows, key=lambda row: [str(value) for value in row.values()])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Run:
    return Run(tmp_path_factory.mktemp("many"), spark)


def test_a_large_log_of_many_queues_has_the_report_and_the_series_of_a_small_one(run: Run) -> None:
    assert run.large == run.small and run.small["conservation"]["status"] == "balanced"
    assert run.small["rows"]["backlog"] == QUEUES
    for name in SERIES:
        assert run.table("large", name) == run.table("small", name)


def test_the_series_by_second_have_what_the_log_has(run: Run) -> None:
    files = [pq.read_table(path, partitioning=None) for path in (run.log / schema.EVENTS).rglob("*.parquet")]
    events = pa.concat_tables(files, promote_options="permissive")
    events = events.append_column("second", pc.floor_temporal(events["ts_us"], unit="second"))
    counts = events.group_by(["vhost", "queue", "event", "second"]).aggregate([("size", "sum"), ("row", "count")])
    expected = {
        (row["vhost"], row["queue"], FLOWS[row["event"]], row["second"]): (row["row_count"], row["size_sum"])
        for row in counts.to_pylist()
        if row["event"] in FLOWS
    }
    rows = [row for row in run.table("large", "throughput_1s") if row["scope"] == "queue"]
    sums = {(row["vhost"], row["name"], row["flow"], row["start"]): (row["messages"], row["bytes"]) for row in rows}
    assert sums == expected and len(sums) == len(rows) > 5 * QUEUES


def test_the_numbers_of_kinds_differ_where_only_a_missing_name_does(spark: SparkSession) -> None:
    columns: dict[str, t.DataType] = {
        **dict.fromkeys((*KIND[:-1], "link"), t.StringType()),
        **dict.fromkeys(("routed", "no_ack", "redelivered"), t.LongType()),
    }
    names = [(queue, user) for queue in (None, "", "a", "ab") for user in (None, "", "a", "b")]
    given = [{"event": schema.DELIVER, "queue": queue, "user": user} for queue, user in names]
    table = create_table(spark, columns, [[row.get(name) for name in columns] for row in given])
    assert len({row["kind"] for row in of_kinds(table).collect()}) == len(names)


def test_kinds_with_the_same_number_end_the_job(run: Run, spark: SparkSession) -> None:
    files = [str(path) for path in (run.log / schema.EVENTS).rglob("*.parquet")]
    table = KINDS.make(read(spark, schema.EVENTS, files)).limit(3).localCheckpoint()
    assert len(report_inputs.kinds(table)) == 3
    same = table.withColumn("kind", table["kind"] * 0)
    with pytest.raises(report_inputs.AmbiguousKind, match="select one of their queues: rabbit@bulk, b1, "):
        report_inputs.kinds(same)
