"""Impossible figures: a peak below the mean, and times extrapolated from a log that is too short."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from warren.plugins.message_log.analysis.aggregates import by_link, crossings, lags, tally
from warren.plugins.message_log.analysis.hadoop_fs import Folders
from warren.plugins.message_log.analysis.input_files import list_files, read
from warren.plugins.message_log.analysis.report_inputs import ReportInputs
from warren.plugins.message_log.analysis.reports import throughput
from warren.plugins.message_log.analysis.reports.backlog import backlog
from warren.plugins.message_log.analysis.reports.capacity import capacity
from warren.plugins.message_log.analysis.reports.links import links
from warren.plugins.message_log.file_format import schema

from .log import STEP_US, Log

START = datetime(2026, 11, 22, 5, 59, 30, tzinfo=UTC)
SPANS_S = (1, 2, 36, 59, 61, 90, 150, 3_000, 3_700, 8_000)
SERIES = 120
GRAINS = tuple(throughput.GRAINS_S)


def made_up_seconds(spark: SparkSession) -> Any:
    """Return the table of seconds of many queues: bursts, silences, and spans that are no multiple of a grain."""
    made, rows = random.Random(11), []
    for number in range(SERIES):
        span = made.choice(SPANS_S)
        first = int(START.timestamp()) + made.randrange(7_200)
        busy = {first, first + span - 1, *(first + made.randrange(span) for _ in range(made.randrange(30)))}
        for second in busy:
            rows.append(("queue", "n", "/", f"q{number}", "delivered", second, made.choice((1, 5, 1_000)), 100, 10, 1))
    names = [*throughput.SCOPED, "second", "messages", "bytes", "latency_us", "timed"]
    return spark.createDataFrame(rows, names).withColumn("start", F.timestamp_seconds("second")).drop("second")


def test_no_peak_is_below_the_mean_or_that_of_a_coarser_grain(spark: SparkSession) -> None:
    hours = throughput.hours(throughput.minutes(made_up_seconds(spark)))
    rows = throughput.throughput(throughput.whole(hours)).collect()
    assert len(rows) == SERIES * len(GRAINS)
    by_queue: dict[str, dict[str, Any]] = {}
    for row in rows:
        by_queue.setdefault(row["name"], {})[row["grain"]] = row
    for grains in by_queue.values():
        peaks = [grains[grain]["peak_per_s"] for grain in GRAINS]
        assert peaks == sorted(peaks, reverse=True), grains
        assert peaks[-1] >= grains["1h"]["mean_per_s"]
        assert all(row["peak_to_mean"] >= 1 and row["peak_messages"] <= row["messages"] for row in grains.values())


def test_the_rate_of_a_link_is_over_the_time_from_its_first_arrival_to_the_last(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log(tmp_path)
    for _ in range(11):
        log.publish("arrived", event=schema.FED_IN, identity="the same content", link="l", upstream="up", hops=1)
        log.now_us += 1_000_000 - 2 * STEP_US
    log.metric(schema.LINK_STARTS, 1, schema.COUNTER, labels={"link": "l"})
    log.write()
    files = list_files(Folders(spark), str(tmp_path))
    tables = {table: read(spark, table, files[table].paths) for table in schema.TABLES}
    crossed = by_link(crossings(tables[schema.EVENTS]))
    (row,) = links(tally(crossed), lags(crossed), tables[schema.METRICS]).collect()
    assert (row["arrived"], row["messages_per_s"]) == (11, 1.1)


def queue(observed_s: float, ready: int, slope: float) -> dict[str, Any]:
    about = {"node": "n", "vhost": "/", "queue": "q", "snapshots": 4, "ready": ready, "unacked": 0, "peak": ready}
    span = {"first": START, "last": START + timedelta(seconds=observed_s)}
    return {**about, **span, "mean": float(ready), "slope_per_s": slope, "consumers": 1}


@given(st.floats(0, 10_000), st.integers(0, 10**9), st.floats(-1e6, 1e6))
def test_a_backlog_is_extrapolated_by_a_tenfold_of_what_was_seen_or_after_an_hour(
    observed_s: float, ready: int, slope: float
) -> None:
    (row,) = backlog(ReportInputs([], [queue(observed_s, ready, slope)], [], []))
    times = [row[name] for name in ("drained_in_s", "doubled_in_s") if row.get(name) is not None]
    assert len(times) <= 1
    assert all(time_s >= 0 for time_s in times)
    assert observed_s >= 3_600 or all(time_s <= observed_s * 10 * 1.01 + 0.1 for time_s in times)


def gauge(name: str, observed_s: float, last: float, per_hour: float) -> dict[str, Any]:
    about = {"node": "n", "boot_id": "b", "name": name, "link": None, "buckets": None}
    times = {"first_at": START, "last_at": START + timedelta(seconds=observed_s)}
    line = {"readings": 4, "mean_x": 0.0, "mean_y": last, "variance": 1.0, "covariance": per_hour}
    return {**about, **times, **line, "first": last, "last": last, "least": last, "greatest": last}


@pytest.mark.parametrize(
    ("observed_s", "free", "per_hour", "hours", "too_short"),
    [
        (36, 10e9, -1e9, None, True),
        (36, 10e9, 1e9, None, False),
        (3_600, 10e9, -1e9, 10.0, False),
        (1_800, 3e9, -1e9, 3.0, False),
        (1_800, 10e9, -1e9, None, True),
    ],
)
def test_hours_until_a_disk_is_full_need_a_log_that_is_long_enough(
    observed_s: float, free: float, per_hour: float, hours: float | None, too_short: bool
) -> None:
    gauges = [
        gauge(schema.DISK_FREE_BYTES, observed_s, free, per_hour),
        gauge(schema.DISK_LIMIT_BYTES, observed_s, 0, 0),
    ]
    (row,) = capacity(ReportInputs([], [], gauges, []), [])
    assert (row["disk_full_in_h"], row["disk_too_short"]) == (hours, too_short)
