"""The timeline, and the flow of messages: lag, rates, redeliveries and metrics in equal steps."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.plugins.message_log.analysis.timeline import STEPS, Steps, lag
from warren.plugins.message_log.file_format import schema

from .checking import report_of
from .log import START, Log

CLIENT = {"conn_id": "10.0.0.1:5000 -> 10.0.0.2:5672"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Report on a message that waits for 20 s, one that is never delivered, and five that are redelivered once."""
    folder = tmp_path_factory.mktemp("timeline")
    log = Log(folder / "input").begin("slow", "stuck", "again")
    late = log.publish("slow", **CLIENT)
    log.publish("stuck", **CLIENT)
    for _ in range(5):
        number = log.publish("again", **CLIENT)
        log.deliver(number, "again")
        log.requeue(number, "again")
        log.deliver(number, "again", redelivered=True)
        log.ack(number, "again")
    for reading in range(2):
        log.metric(schema.RESIDENT_BYTES, 1000 + reading)
        log.metric(schema.OPEN_DESCRIPTORS, 50)
        log.metric(schema.MEMORY_LIMIT_BYTES, 2.0**63)
        log.metric(schema.LOOP_LAG_US, 500.0, schema.HISTOGRAM, buckets=[0, 0, 50, 10 * reading])
        log.now_us += 20_000_000
    log.deliver(late, "slow")
    log.ack(late, "slow")
    log.now_us += 10_000_000
    log.stop()
    made: dict[str, Any] = report_of(folder / "input", folder / "output")
    return made


def queue_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [queue for queue in report["timeline"]["queues"] if queue["queue"] == name]
    return dict(found)


def test_lag_grows_while_a_message_waits_and_ends_with_its_delivery(report: dict[str, Any]) -> None:
    timeline = report["timeline"]
    assert (timeline["start"], timeline["step_s"], timeline["steps"]) == (f"{START:%Y-%m-%dT%H:%M:%SZ}", 1, 51)
    slow = queue_of(report, "slow")["lag_s"]
    assert slow[9] == pytest.approx(10, abs=1.1) and slow[30] == pytest.approx(31, abs=1.1)
    assert slow[40] == pytest.approx(40, abs=0.1) and max(slow[41:]) == 0
    assert slow[:40] == sorted(slow[:40])


def test_lag_of_a_message_that_nobody_gets_grows_to_the_end(report: dict[str, Any]) -> None:
    assert queue_of(report, "stuck")["lag_s"] == [pytest.approx(at + 1, abs=1.1) for at in range(51)]
    assert report["timeline"]["queues"][0]["queue"] == "stuck"


def test_silent_seconds_are_zeros_and_readings_end(report: dict[str, Any]) -> None:
    slow, again = queue_of(report, "slow"), queue_of(report, "again")
    assert slow["entered"] == [1.0] + [0] * 50
    assert sum(slow["left"]) == 1 and slow["left"][40] == 1
    assert sum(again["redelivered"]) == 5 == again["redelivered"][0]
    (node,) = report["timeline"]["nodes"]
    memory = node[schema.RESIDENT_BYTES]
    assert memory[0] == 1000 and memory[20] == 1001 and memory[19] is None is memory[40]
    assert set(node[schema.MEMORY_LIMIT_BYTES]) == {None}
    assert node["loop_lag_p99_us"][0] == 4 and node["loop_lag_p99_us"][20] == 8
    assert slow["messages"][0] == 0 and slow["messages"][30] is None


def test_acknowledgements_are_counted_by_their_latency(report: dict[str, Any]) -> None:
    latency = report["timeline"]["ack_latency"]
    places = dict(zip(latency["from_us"], latency["messages"], strict=True))
    assert sum(map(sum, latency["messages"])) == 6
    assert places[3162][0] == 5 and places[31622777][40] == 1


def test_clients_and_the_flow_of_messages_are_counted(report: dict[str, Any]) -> None:
    (client,) = report["clients"]
    assert (client["user"], client["connection"], client["published"]) == ("guest", CLIENT["conn_id"], 7)
    edges = {(row["source"], row["target"]): row["messages"] for row in report["flow"]}
    assert edges["x", "again"] == 5 and edges["again", "guest"] == 10 and edges["x", "stuck"] == 1


@given(st.integers(0, 2**33), st.integers(0, 2**33))
def test_steps_cover_the_time_and_are_few(first: int, span: int) -> None:
    steps = Steps(first, first + span)
    assert 1 <= steps.count <= STEPS
    assert steps.first <= first and first + span < steps.end(steps.count - 1)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 200_000_000)), max_size=20), st.integers(0, 120))
def test_lag_is_never_negative_nor_greater_than_what_was_seen(waits: list[tuple[int, int]], still: int) -> None:
    steps, boot = Steps(0, 99), ("n", "b")
    rows = [
        {"node": "n", "boot_id": "b", "step": second, "wait_us": wait, "entered_us": (second + 1) * 1_000_000 - wait}
        for second, wait in waits
    ]
    oldest = [{"node": "n", "boot_id": "b", "second": still}]
    ages = [age for age in lag(rows, oldest, {boot: (0, 99)}, steps, {}) if age is not None]
    assert len(ages) == steps.count and min(ages) >= 0
    assert max(ages) <= max([wait / 1e6 for _, wait in waits] + [max(0, 100 - still)])


def test_lag_is_unknown_while_the_broker_is_down_and_of_messages_from_before_it(tmp_path: Path) -> None:
    first = Log(tmp_path / "input").begin("q")
    first.publish("q")
    first.now_us += 20_000_000
    first.stop()
    again = Log(tmp_path / "input", boot_id="b2", start=START + timedelta(seconds=60)).follow(first)
    (old,) = again.recovered("q", 1)
    again.snapshot(schema.START)
    for _ in range(2):
        again.now_us += 10_000_000
        again.snapshot()
    again._born.clear()  # the number of a message from before the boot says nothing of its age
    again.deliver(old, "q", redelivered=True)
    again.ack(old, "q")
    again.now_us += 10_000_000
    again.stop()
    ages = queue_of(report_of(tmp_path / "input", tmp_path / "output"), "q")["lag_s"]
    assert ages[:21] == [pytest.approx(at + 1, abs=1.1) for at in range(21)]
    assert ages[21:81] == [None] * 60
    assert ages[82:] == [0] * (len(ages) - 82)
