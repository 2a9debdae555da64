"""Figures: peaks that are never below the mean, the rate of a link, and the greatest keys and connections."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from warren.plugins.message_log.analysis import facts, hours, traffic
from warren.plugins.message_log.analysis.reduction import WEIGHT
from warren.plugins.message_log.file_format import schema

from .checking import report_of
from .log import STEP_US, Log

START = datetime(2026, 11, 22, 5, 59, 30, tzinfo=UTC)
SPANS_S = (1, 2, 36, 59, 61, 90, 150, 3_000, 3_700, 8_000)
SERIES = 120
GRAINS = tuple(traffic.GRAINS_S)
Counts = list[tuple[str, int]]


def made_up_seconds() -> pa.Table:
    """Return the traffic of many queues: bursts, silences, and spans that are no multiple of a grain."""
    made, rows = random.Random(11), []
    for number in range(SERIES):
        span = made.choice(SPANS_S)
        first = int(START.timestamp()) + made.randrange(7_200)
        busy = {first, first + span - 1, *(first + made.randrange(span) for _ in range(made.randrange(30)))}
        for second in sorted(busy):
            count = made.choice((1, 5, 1_000))
            sums = {"records": count, "weight": count * WEIGHT, "bytes": 100 * WEIGHT}
            place = {"node": "n", "vhost": "/", "queue": f"q{number}", "event": schema.DELIVER, "second": second}
            rows.append(dict.fromkeys(facts.TRAFFIC.schema.names) | place | sums)
    return pa.Table.from_pylist(rows, facts.TRAFFIC.schema)


def test_no_peak_is_below_the_mean_or_that_of_a_coarser_grain() -> None:
    seconds = made_up_seconds()
    hour = np.array(seconds["second"]) // hours.HOUR_S
    parts = [hours.complete(hours.summarize(seconds.filter(pa.array(hour == each)))) for each in np.unique(hour)]
    rows = [
        row
        for row in traffic.throughput(pa.concat_tables([part["series"] for part in parts]))
        if row["scope"] == "queue"
    ]
    assert len(rows) == SERIES * len(GRAINS)
    by_queue: dict[str, dict[str, Any]] = {}
    for row in rows:
        by_queue.setdefault(row["name"], {})[row["grain"]] = row
    for grains in by_queue.values():
        peaks = [grains[grain]["peak_per_s"] for grain in GRAINS]
        assert peaks == sorted(peaks, reverse=True), grains
        assert peaks[-1] >= grains["1h"]["mean_per_s"]
        assert all(row["peak_to_mean"] >= 1 and row["peak_messages"] <= row["messages"] for row in grains.values())


def test_the_rate_of_a_link_is_over_the_time_from_its_first_arrival_to_the_last(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    for _ in range(11):
        log.publish("arrived", event=schema.FED_IN, identity="the same content", link="l", upstream="up", hops=1)
        log.now_us += 1_000_000 - 2 * STEP_US
    log.metric(schema.LINK_STARTS, 1, schema.COUNTER, labels={"link": "l"})
    log.write()
    (row,) = report_of(tmp_path / "log", tmp_path / "report")["links"]
    assert (row["arrived"], row["messages_per_s"]) == (11, 1.1)


def routes(*counts: tuple[str, int]) -> pa.Table:
    rows = [
        {"node": "n", "vhost": "/", "exchange": "x", "routing_key": key, "published": count * WEIGHT}
        for key, count in counts
    ]
    rest = dict.fromkeys(facts.ROUTES.schema.names) | dict.fromkeys(("bytes", "unroutable", "returned"), 0)
    return pa.Table.from_pylist([rest | row for row in rows], facts.ROUTES.schema)


def test_the_distribution_of_keys_has_an_index_and_its_greatest_share() -> None:
    (equal,) = traffic.hot_exchanges(routes(*((f"k{number}", 3) for number in range(20))))
    assert (equal["keys"], equal["gini"], equal["published"]) == (20, 0, 60)
    skewed = routes(*((f"k{number}", 10 * number) for number in range(1, 21)))
    (exchange,) = traffic.hot_exchanges(skewed)
    assert (exchange["published"], exchange["top_key"], exchange["top_share"]) == (2100, "k20", round(200 / 2100, 6))
    assert 0 < exchange["gini"] < 1
    keys = traffic.hot_keys(skewed)
    assert [(row["routing_key"], row["published"]) for row in keys[:2]] == [("k20", 200), ("k19", 190)]
