"""Messages that a link took and the other broker's log lacks: they are missing, or may only be unlogged."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from warren.plugins.message_log.analysis.conservation.imbalances import arrivals

pytestmark = pytest.mark.timeout(600)

SIDES = {"link": "work", "upstream": "up", "upstream_node": "a", "node": "b"}
CROSSING = (
    "link string, identity string, upstream string, upstream_node string, node string, taken long, arrived long, "
    "discarded long, left long"
)
SPAN = "node string, boot_id string, first timestamp, last timestamp, stopped boolean"


def at(second: int) -> datetime:
    return datetime(2026, 11, 22, 5, 0, second, tzinfo=UTC)


def crossing(identity: str, second: int, arrived: int = 0, **changed: Any) -> dict[str, Any]:
    taken = {
        "identity": identity,
        "taken": 1,
        "arrived": arrived,
        "discarded": 0,
        "left": int(at(second).timestamp() * 1e6),
    }
    return SIDES | taken | changed


def verdicts(spark: SparkSession, crossings: list[dict[str, Any]], spans: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Return missing and pending by identity."""
    made: DataFrame = arrivals(spark.createDataFrame(crossings, CROSSING), spark.createDataFrame(spans, SPAN))
    return {row["identity"]: (row["missing"], row["pending"]) for row in made.collect()}


def test_what_was_taken_while_the_downstream_was_killed_is_not_called_missing(spark: SparkSession) -> None:
    spans = [
        ("b", "1", at(0), at(10), False),
        ("b", "2", at(20), at(30), True),
        ("c", "1", at(0), at(10), False),
    ]
    crossings = [
        crossing("arrived", 5, arrived=1),
        crossing("early", 5),
        crossing("at the kill", 11),
        crossing("late", 25),
        crossing("before it runs so far", 11, link="other", node="c"),
        crossing("in time", 9, link="other", node="c", arrived=1),
        crossing("where nobody exports", 5, link="third", node=None),
    ]
    assert verdicts(spark, crossings, spans) == {
        "arrived": (0, 0),
        "early": (1, 0),
        "at the kill": (0, 1),
        "late": (1, 0),
        "before it runs so far": (0, 1),
        "in time": (0, 0),
        "where nobody exports": (None, None),
    }


def test_links_from_several_brokers_by_queues_of_one_name_are_told_apart(spark: SparkSession) -> None:
    crossings = [
        crossing("m", 5, arrived=1),
        crossing("n", 5, upstream="further", upstream_node="z"),
        crossing("o", 5, arrived=1, taken=0, upstream="further", upstream_node=None, left=None),
        crossing("p", 5, arrived=1, upstream="further", upstream_node="z"),
    ]
    spans = spark.createDataFrame([("b", "1", at(0), at(10), True)], SPAN)
    made = arrivals(spark.createDataFrame(crossings, CROSSING), spans)
    rows = {row["identity"]: (row["upstream_node"], row["missing"]) for row in made.collect()}
    assert rows == {"m": ("a", 0), "n": ("z", 1), "o": ("z", 0), "p": ("z", 0)}
