"""Minutes that differ from the others of their queue, and minutes that do not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from warren.plugins.message_log.analysis.reports.anomalies import WEEKS, anomalies

pytestmark = pytest.mark.timeout(600)
START = datetime(2026, 11, 2, 5, 0, tzinfo=UTC)  # a Monday
COLUMNS = (
    "scope string, node string, vhost string, name string, flow string, start timestamp, messages long, "
    "latency_us long, timed long"
)
Row = dict[str, Any]


def minute(number: int, messages: int, latency_us: int = 1000, queue: str = "work", flow: str = "enqueued") -> Row:
    place = {"scope": "queue", "node": "a", "vhost": "/", "name": queue, "flow": flow}
    return place | {
        "start": START + timedelta(minutes=number),
        "messages": messages,
        "latency_us": latency_us * messages,
        "timed": messages,
    }


def found(spark: SparkSession, rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return queue, minute, kind, value and usual value of each odd minute."""
    table = anomalies(spark.createDataFrame(rows, COLUMNS)).collect()
    odd = [
        (row["queue"], row["start"].astimezone(UTC) - START, row["kind"], row["value"], row["usual"]) for row in table
    ]
    return sorted((queue, int(at / timedelta(minutes=1)), *rest) for queue, at, *rest in odd)


def test_silent_busy_slack_and_slow_minutes_are_odd(spark: SparkSession) -> None:
    steady = [minute(number, 100 + number % 3) for number in range(130) if number not in (50, 51, 70, 90, 110)]
    odd = [minute(70, 900), minute(90, 10), minute(110, 100, latency_us=50_000)]
    untimed = minute(8, 5, queue="few") | {"timed": 0}
    others = [untimed, minute(0, 5, queue="few"), minute(3, 5000, queue="few"), minute(5, 5, flow="acknowledged")]
    assert found(spark, steady + odd + others) == [
        ("work", 50, "silence", 0.0, 101.0),
        ("work", 51, "silence", 0.0, 101.0),
        ("work", 70, "surge", 900.0, 101.0),
        ("work", 90, "slump", 10.0, 101.0),
        ("work", 110, "latency", 50_000.0, 1000.0),
    ]


def test_a_queue_that_is_mostly_silent_has_no_odd_silence(spark: SparkSession) -> None:
    assert found(spark, [minute(number * 10, 5) for number in range(30)]) == [
        ("work", number * 10, "surge", 5.0, 0.0) for number in range(30)
    ]


def test_after_weeks_an_hour_is_compared_with_the_same_hour_of_other_weeks(spark: SparkSession) -> None:
    week, rows = 7 * 24 * 60, []
    for number in range(WEEKS + 1):
        rows += [minute(number * week + offset, 1000) for offset in range(60)]
        rows += [minute(number * week + 600 + offset, 10) for offset in range(60)]
    rows[125]["messages"] = 10  # usual in another hour
    assert found(spark, rows) == [("work", week + 5, "slump", 10.0, 1000.0)]
