"""The busiest routing keys of exchanges with more keys than have own counts, and the bounds of their counts."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from warren.plugins.message_log.analysis import aggregates
from warren.plugins.message_log.analysis.aggregates import (
    EXCHANGE,
    ROUTE_COUNTS,
    ROUTES,
    WEIGHT,
    busiest_keys,
    merge_parts,
)
from warren.plugins.message_log.analysis.create_table import create_table
from warren.plugins.message_log.analysis.reports.hot_keys import hot_exchanges, hot_keys

pytestmark = pytest.mark.timeout(600)
KEPT = 5
COLUMNS: dict[str, t.DataType] = {
    **dict.fromkeys((*EXCHANGE, "routing_key"), t.StringType()),
    **dict.fromkeys((*ROUTE_COUNTS, "others", "bound"), t.LongType()),
}
Counts = dict[str, Counter[str]]  # messages by exchange and key


@pytest.fixture(autouse=True)
def few_kept_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "KEPT_KEYS", KEPT)


def part(spark: SparkSession, counts: Counts, unroutable: str = "") -> DataFrame:
    """Return the aggregate of a part, as it is stored."""
    rows = [
        ("n", "/", exchange, key, number * WEIGHT, number, number * WEIGHT * (key == unroutable), 0, 0, 0)
        for exchange, keys in counts.items()
        for key, number in keys.items()
    ]
    return as_stored(create_table(spark, COLUMNS, rows))


def as_stored(part: DataFrame) -> DataFrame:
    return busiest_keys(part).localCheckpoint()


def made_up(seed: int) -> Counts:
    """Return counts of exchanges with few keys, with equal ones, and with a few busy ones among many."""
    made = random.Random(seed)
    few = Counter({f"k{number}": made.randrange(1, 9) for number in range(KEPT - 1)})
    equal = Counter({f"k{number}": 3 for number in range(20)})
    skewed = Counter({f"k{number}": made.randrange(1, 2000) // (number + 1) + 1 for number in range(40)})
    return {"few": few, "equal": equal, "skewed": skewed}


def by_exchange(table: DataFrame) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.collect():
        rows.setdefault(row["exchange"], []).append(row.asDict())
    return rows


def test_counts_of_merged_parts_are_within_their_bounds(spark: SparkSession) -> None:
    made = [made_up(seed) for seed in range(4)]
    halves = [
        as_stored(merge_parts(ROUTES, part(spark, first).unionByName(part(spark, second))).localCheckpoint())
        for first, second in (made[:2], made[2:])
    ]
    merged = merge_parts(ROUTES, halves[0].unionByName(halves[1])).localCheckpoint()
    listed, stored = by_exchange(hot_keys(merged)), by_exchange(merged)
    for exchange in made[0]:
        counts = sum((each[exchange] for each in made), Counter())
        rows = {row["routing_key"]: row for row in listed.get(exchange, [])}
        for key, row in rows.items():
            assert row["published"] <= counts[key] <= row["published"] + row["too_low_by"], (exchange, row)
        bound = max(row["bound"] for row in stored[exchange]) // WEIGHT
        assert all(count <= bound for key, count in counts.items() if key not in rows), exchange
        assert bound <= 2 * counts.total() / KEPT, "each of two levels adds at most a KEPT-th"
        assert sum(row["published"] for row in stored[exchange]) == counts.total() * WEIGHT
    assert len(listed["few"]) == KEPT - 1 and all(row["too_low_by"] == 0 for row in listed["few"])
    assert listed["skewed"] and all(len(rows) <= 2 * KEPT + 1 for rows in stored.values())


def test_the_counts_of_one_part_are_exact_and_the_others_are_counted_together(spark: SparkSession) -> None:
    counts = {"x": Counter({f"k{number}": 10 * number for number in range(1, 21)})}
    routes = part(spark, counts, unroutable="k1")
    rows = {row["routing_key"]: row for row in hot_keys(routes).collect()}
    assert {key: row["published"] for key, row in rows.items()} == {
        **{f"k{number}": 10 * number for number in range(17, 21)},
        "k1": 10,
    }
    assert {row["too_low_by"] for row in rows.values()} == {0}
    (exchange,) = hot_exchanges(routes).collect()
    assert (exchange["keys"], exchange["published"], exchange["top_key"]) == (20, 2100, "k20")
    assert exchange["top_share"] == pytest.approx(200 / 2100, abs=1e-6) and 0 < exchange["gini"] < 1
    (others,) = [row for row in routes.collect() if row["others"]]
    assert (others["others"], others["bound"], others["published"]) == (15, 160 * WEIGHT, (2100 - 750) * WEIGHT)


def test_keys_with_equally_many_messages_are_the_same_to_the_index_of_their_distribution(spark: SparkSession) -> None:
    counts = {"x": Counter({f"k{number}": 3 for number in range(20)})}
    (exchange,) = hot_exchanges(part(spark, counts)).collect()
    assert (exchange["keys"], exchange["gini"], exchange["top_share"]) == (20, 0, 0)
