"""The times from the first publish to a consumer, over dead letters and links, the slowest messages, and consumers."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.amqp_client import Channel
from warren.plugins.message_log.analysis import facts, ledger, store
from warren.plugins.message_log.export import arrow_columns
from warren.plugins.message_log.file_format import schema

from .checking import report_of
from .exporting import Exporting
from .log import Log

LINK, NEXT = "federation: x -> b", "federation: x -> c"


def made(folder: Path) -> Any:
    return report_of(folder / "log", folder / "report")


def pause(log: Log, seconds: float) -> None:
    log.now_us += round(seconds * 1_000_000)


def settle(log: Log, number: int, queue: str, **columns: Any) -> None:
    log.deliver(number, queue)
    log.ack(number, queue, **columns)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log").begin()


def test_the_age_of_a_dead_letter_counts_from_the_first_publish(log: Log, tmp_path: Path) -> None:
    number = log.publish("work")
    pause(log, 5)
    number = log.dead_letter(number, "work", "retry", reason="expired")
    pause(log, 20)
    number = log.dead_letter(number, "retry", "last", reason="expired")
    log.write()  # the copy is consumed in a later file
    pause(log, 60)
    settle(log, number, "last")
    log.round_trip("work")
    log.stop()
    report = made(tmp_path)
    (row,) = report["end_to_end"]
    assert (row["origin_node"], row["origin"], row["queue"]) == ("rabbit@a", "work", "last")
    assert row["messages"] == 1 and row["max_us"] == pytest.approx(85_000_000, rel=0.001)
    slowest, other = report["slowest"]
    assert (slowest["queue"], slowest["msg_seq"], other["queue"]) == ("last", number, "work")
    assert slowest["age_us"] == pytest.approx(85_000_000, rel=0.001)


@pytest.mark.parametrize("slices", [1, 4])
def test_the_age_of_a_message_counts_over_links(tmp_path: Path, slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages pass two links; the last broker's consumers get some of them in later files."""
    monkeypatch.setattr(store, "slices_of", lambda files: slices)
    logs = first, second, third = [Log(tmp_path / "log", f"rabbit@{name}").begin() for name in "abc"]
    waiting = []
    for place in range(6):
        identity = f"message-{place}"
        number = first.publish(LINK, message_id=identity)
        for upstream, downstream, link, queue in ((first, second, LINK, NEXT), (second, third, NEXT, "end")):
            pause(upstream, 1)
            upstream.deliver(number, link)
            downstream.now_us = upstream.now_us
            come = {"identity": identity, "link": link, "upstream": upstream.node, "message_id": identity}
            upstream.ack(number, link, schema.FED_OUT, identity=identity, link=link)
            number = downstream.publish(queue, event=schema.FED_IN, **come)
        waiting.append(number)
        first.now_us = third.now_us
        if place == 2:
            for each in logs:
                each.write()
    third.write()
    pause(third, 10)
    for number in waiting:
        settle(third, number, "end")
    for each in logs:
        each.stop()
    report = made(tmp_path)
    rows = {(row["origin_node"], row["node"]): row for row in report["end_to_end"]}
    over_two = rows["rabbit@b", "rabbit@c"]
    assert (over_two["queue"], over_two["messages"]) == ("end", 6)
    assert 12_000_000 <= over_two["p50_us"] <= over_two["max_us"] <= 24_100_000
    assert rows["rabbit@a", "rabbit@b"]["max_us"] == pytest.approx(2_000_000, rel=0.01)
    lags = {row["upstream_node"]: row["lag_s"] for row in report["timeline"]["links"]}
    assert max(filter(None, lags["rabbit@a"])) == pytest.approx(1, abs=0.01) and None in lags["rabbit@b"]


def test_messages_with_one_identity_have_no_age(tmp_path: Path) -> None:
    upstream, downstream = (Log(tmp_path / "log", f"rabbit@{name}").begin() for name in "ab")
    for _ in range(2):
        number = upstream.publish(LINK)
        settle(upstream, number, LINK, event=schema.FED_OUT, identity="same", link=LINK)
        come = {"identity": "same", "link": LINK, "upstream": "a"}
        settle(downstream, downstream.publish("end", event=schema.FED_IN, **come), "end")
    for each in (upstream, downstream):
        each.stop()
    assert made(tmp_path)["end_to_end"] == []


def test_consumers_are_named_with_what_they_hold(log: Log, tmp_path: Path) -> None:
    for tag, held_s in (("quick", 1), ("late", 30)):
        number = log.publish("q")
        about = {"queue": "q", "consumer_tag": tag, "conn_id": "c"}
        log.event(schema.DELIVER, number, **about)
        if tag == "late":
            log.write()
        pause(log, held_s)
        log.event(schema.ACK, number, **about)
        log.ready["q"].remove(number)
    log.stop()
    report = made(tmp_path)
    rows = {row["consumer_tag"]: row for row in report["consumers_by_name"]}
    assert {tag: row["acknowledged"] for tag, row in rows.items()} == {"quick": 1, "late": 1}
    assert rows["quick"]["mean_held_us"] == pytest.approx(1_000_000, rel=0.01)
    assert rows["late"]["longest_held_us"] == pytest.approx(30_000_000, rel=0.01)
    assert rows["quick"]["last_acknowledged"] < rows["late"]["last_acknowledged"]
    assert rows["late"]["conn_id"] == "c" and rows["late"]["user"] is None
    bytes_of_files = sum(path.stat().st_size for path in (tmp_path / "log").rglob("*.parquet"))
    assert report["input"]["bytes"] == bytes_of_files
    assert report["input"]["bytes_per_day"] == pytest.approx(bytes_of_files * 86_400 / 31, rel=0.01)


def test_only_the_slowest_messages_are_kept(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = facts.SLOWEST._replace(top=3)
    monkeypatch.setitem(facts.FACTS, "slowest", few)
    for table in (ledger.OF_FILES, ledger.IN_SLICES, ledger.SUMMARY):
        monkeypatch.setitem(table, "slowest", few)
    numbers = []
    for seconds in (5, 1, 4, 1, 3, 1):
        numbers.append(log.publish("q"))
        pause(log, seconds)
        settle(log, numbers[-1], "q")
        log.write()
    log.stop()
    assert [row["msg_seq"] for row in made(tmp_path)["slowest"]] == [numbers[0], numbers[2], numbers[4]]


def test_the_export_says_how_old_a_copy_is_and_which_queue_dead_lettered_it_first(
    export: Exporting, ch: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_columns, "ORIGINS_KEPT", 2)
    for queue, target in (("a", "b"), ("b", "c"), ("c", "")):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
        ch.declare(queue, arguments=arguments if target else {})
    ch.publish("", "a", b"body")
    for queue in ("a", "b"):
        found = ch.get(queue, no_ack=False)
        assert found is not None
        ch.nack(found.tag, requeue=False)
        ch.sync()
        export.flush()  # the second copy is made of a message of an earlier batch
    rows = export.events()
    (published,) = [row for row in rows if row["event"] == "publish"]
    copies = [row for row in rows if row["event"] == "enqueue" and row["reason"] == "dlx"]
    assert [(row["queue"], row["first_queue"]) for row in copies] == [("b", "a"), ("c", "a")]
    for row in copies:
        assert row["origin_us"] == pytest.approx((row["mono_ns"] - published["mono_ns"]) / 1000, abs=1000)
    assert {row["origin_us"] for row in rows if row not in copies} == {None}
