"""The reduction of files to facts, beside a second one, row by row in plain Python."""

import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warren.plugins.message_log.analysis import facts, ledger, reduction, traffic
from warren.plugins.message_log.analysis.facts import FACTS, Facts, merge
from warren.plugins.message_log.analysis.reduction import CheckedRange, reduce_rows, settle
from warren.plugins.message_log.file_format import schema

from .scenes import well

Rows = list[dict[str, Any]]
SETTLED = {schema.ACK: "acknowledged", schema.FED_OUT: "federated", schema.EXPIRE: "expired"}
LEFT = SETTLED | {schema.DROP: "dropped", schema.DEAD_LETTER: "dead_lettered"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The rows of three brokers, with two boots of one of them, and messages of which the log has not everything."""
    folder = tmp_path_factory.mktemp("log")
    well(folder)
    return read(folder)


def read(folder: Path) -> pa.Table:
    files = sorted((folder / schema.EVENTS).rglob("*.parquet"))
    parts = [pq.ParquetFile(path).read() for path in files]
    return pa.concat_tables(parts, promote_options="default")


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


def same(one: Facts, other: Facts) -> None:
    for name in FACTS:
        assert sorted_rows(one[name]) == sorted_rows(other[name]), name


@pytest.mark.parametrize("seed", range(8))
def test_the_facts_of_parts_merge_to_those_of_the_whole(log: pa.Table, seed: int) -> None:
    chosen = random.Random(seed)
    cuts = [0, *sorted(chosen.sample(range(1, log.num_rows), 7)), log.num_rows]
    parts = [reduce_rows(log.slice(start, end - start), {}) for start, end in pairwise(cuts)]
    halves = parts[:3], parts[3:]
    for half in halves:
        chosen.shuffle(half)
    same(settle(merge([settle(merge(half), {}) for half in halves]), {}), reduce_rows(log, {}))


def test_a_fact_has_the_columns_of_its_schema(log: pa.Table) -> None:
    made = reduce_rows(log, {})
    assert {name: table.schema for name, table in made.items()} == {name: fact.schema for name, fact in FACTS.items()}
    empty = {name: fact.schema.empty_table() for name, fact in FACTS.items()}
    same(merge([made, empty]), made)
    same(reduce_rows(log.slice(0, 0), {}), empty)


def test_columns_that_a_file_lacks_are_null(log: pa.Table) -> None:
    absent = [name for name in log.column_names if log[name].null_count == log.num_rows]
    assert absent
    same(reduce_rows(log.drop_columns(absent), {}), reduce_rows(log, {}))


def counted(log: pa.Table, *keys: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[key] for key in keys) for row in log.to_pylist())


def test_traffic_counts_each_row_once(log: pa.Table) -> None:
    keys = ("node", "boot_id", "vhost", "queue", "event", "no_ack", "redelivered")
    sums: Counter[tuple[Any, ...]] = Counter()
    for row in reduce_rows(log, {})["traffic"].to_pylist():
        sums[tuple(row[key] for key in keys)] += row["records"]
        assert row["weight"] == row["records"] * reduction.WEIGHT
    assert sums == counted(log, *keys)


def test_the_unroutable_are_those_that_no_queue_refused(log: pa.Table) -> None:
    rows = [row for row in log.to_pylist() if row["event"] in (schema.PUBLISH, schema.FED_IN) and row["routed"] == 0]
    none = [row for row in rows if not row["reason"]]
    assert none and len(none) < len(rows)
    made = reduce_rows(log, {})
    reasons = [row for row in made["traffic"].to_pylist() if row["reason"] == reduction.UNROUTABLE]
    assert sum(row["records"] for row in reasons) == len(none)
    assert sum(row["unroutable"] for row in made["routes"].to_pylist()) == len(none) * reduction.WEIGHT


def journeys(log: pa.Table) -> dict[tuple[Any, ...], Rows]:
    found = defaultdict(list)
    for row in log.to_pylist():
        if row["event"] in (schema.ENQUEUE, schema.DELIVER, *schema.LEAVING):
            found[row["node"], row["boot_id"], row["vhost"], row["queue"], row["msg_seq"]].append(row)
    return found


def ways(rows: Rows) -> list[str]:
    without = ["delivered_without_ack" for row in rows if row["event"] == schema.DELIVER and row["no_ack"]]
    return without + [LEFT[row["event"]] for row in rows if row["event"] in LEFT]


def test_a_journey_is_counted_once_it_is_closed(log: pa.Table) -> None:
    made = reduce_rows(log, {})
    expected: Counter[tuple[Any, ...]] = Counter()
    still: set[tuple[Any, ...]] = set()
    for key, rows in journeys(log).items():
        entered = sum(row["event"] == schema.ENQUEUE for row in rows)
        out = ways(rows)
        if entered == 1 and len(out) == 1:
            expected[*key[:4], out[0]] += 1
        else:
            still.add(key)
    keys = ("node", "boot_id", "vhost", "queue")
    found: Counter[tuple[Any, ...]] = Counter()
    for row in made["balances"].to_pylist():
        for way in facts.WAYS_OUT:
            found[*(row[key] for key in keys), way] += row[way]
    assert +found == expected and sum(expected.values()) > 90
    assert {tuple(row[key] for key in (*keys, "msg_seq")) for row in made["journeys"].to_pylist()} == still and still


def test_journeys_beyond_the_checked_range_stay_open(log: pa.Table) -> None:
    boots = counted(log, "node", "boot_id")
    checked = {(str(node), str(boot)): CheckedRange(20, 100) for node, boot in boots}
    made = reduce_rows(log, checked)
    for key, rows in journeys(log).items():
        numbers = [row["row"] for row in rows]
        if min(numbers) < 20 or max(numbers) >= 100:
            assert key in {tuple(row[name] for name in facts.JOURNEYS.keys) for row in made["journeys"].to_pylist()}
    assert made["balances"].num_rows > 0
    same(settle(made, {}), reduce_rows(log, {}))  # a later snapshot closes them


def test_a_message_is_over_once_it_is_where_it_was_routed_to_and_left_there(log: pa.Table) -> None:
    made = reduce_rows(log, {})
    open_ones = {(row["node"], row["boot_id"], row["msg_seq"]) for row in made["journeys"].to_pylist()}
    published = {
        (row["node"], row["boot_id"], row["msg_seq"])
        for row in log.to_pylist()
        if row["event"] in (schema.PUBLISH, schema.FED_IN)
    }
    found = {(row["node"], row["boot_id"], row["msg_seq"]): row for row in made["messages"].to_pylist()}
    assert found.keys() == open_ones & published  # nothing is routed wrongly in this log
    lost = log.filter(pa.array([row["event"] != schema.ENQUEUE for row in log.to_pylist()]))
    routed = [row for row in reduce_rows(lost, {})["messages"].to_pylist() if row["routed"] != row["entered"]]
    assert len(routed) > 50


def test_ranges_of_rows_have_all_numbers_and_count_repeated_ones() -> None:
    chosen = random.Random(5)
    for _ in range(12):
        parts = [sorted(chosen.sample(range(60), chosen.randint(1, 30))) for _ in range(4)]
        made = [reduce_rows(rows_with(numbers), {}) for numbers in parts]
        merged = merge(made)["rows"].to_pylist()
        merged.sort(key=lambda row: row["first_row"])
        numbers = [number for row in merged for number in range(row["first_row"], row["last_row"] + 1)]
        assert numbers == sorted({number for part in parts for number in part})
        assert all(row["first_row"] > before["last_row"] + 1 for before, row in pairwise(merged))
        assert sum(row["records"] for row in merged) == sum(map(len, parts))


def test_the_messages_that_came_back_most_often_are_listed_and_the_others_counted() -> None:
    count = 40
    names = {name: pa.array(["n"] * count) for name in ("node", "boot_id", "vhost", "queue")}
    times = {name: pa.array(range(count), facts.TIME) for name in ("first", "last")}
    counts = {"msg_seq": range(count), "redelivered": [number % 20 for number in range(count)], "requeued": [0] * count}
    rows = pa.table({**names, **times, **counts}).select(facts.ATTEMPTS.schema.names).cast(facts.ATTEMPTS.schema)
    halves = [ledger.worst(rows.slice(start, 20), 5) for start in (0, 20)]
    merged = merge([{"attempts": half} for half in halves], {"attempts": ledger.WORST})["attempts"]
    *listed, others = traffic.poison(merged)
    assert [row["msg_seq"] for row in listed] == [19, 39, 18, 38, 17, 37, 16, 36, 15, 35]
    assert (others["others"], others["msg_seq"], others["redelivered"]) == (26, None, None)  # 2 to 14 times, twice
    assert others["first"] == rows["first"][2].as_py() and others["last"] == rows["last"][34].as_py()


def rows_with(numbers: list[int]) -> pa.Table:
    """Rows of one boot with these numbers."""
    count = len(numbers)
    return pa.table(
        {
            "ts_us": pa.array([1_000_000 + number for number in numbers], facts.TIME),
            "mono_ns": pa.array([number * 1000 for number in numbers]),
            "node": pa.array(["n"] * count).dictionary_encode(),
            "boot_id": pa.array(["b"] * count).dictionary_encode(),
            "vhost": pa.array(["/"] * count).dictionary_encode(),
            "event": pa.array([schema.CONFIRM] * count).dictionary_encode(),
            "row": pa.array(numbers),
            "msg_seq": pa.array(numbers),
            "sample_rate": pa.array([1.0] * count, pa.float32()),
        }
    )


def test_quantiles_are_off_by_less_than_half_a_per_cent() -> None:
    chosen = np.random.default_rng(3)
    times = {queue: np.sort(chosen.lognormal(7, 2, 5000).astype("i8")) for queue in "abc"}
    rows = pa.concat_tables(
        pa.table({"queue": [queue] * len(us), "bucket": facts.bucket(us), "records": [1] * len(us), "highest_us": us})
        for queue, us in times.items()
    )
    found = facts.quantile_table(rows, ["queue"], {"p50_us": 500, "p99_us": 990, "p999_us": 999})
    assert found.num_rows == 3
    for row in found.to_pylist():
        us = times[row["queue"]]
        assert row["messages"] == len(us) and row["max_us"] == us[-1]
        for name, share in (("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)):
            assert row[name] == pytest.approx(us[int(len(us) * share) - 1], rel=0.005, abs=1)
