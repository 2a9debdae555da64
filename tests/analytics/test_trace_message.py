"""`warren trace`: the path of one message through all brokers."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import run
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.trace import report, search

from .commands import run_here
from .log import Log

LINK = "federation: x -> b"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A message that a link takes to a second broker, where it is rejected and dead-lettered, among others."""
    upstream, downstream = Log(tmp_path, "rabbit@up", "b1"), Log(tmp_path, "rabbit@down", "b1")
    for number in range(20):
        upstream.round_trip("work", message_id=f"other-{number}")
    sent = upstream.publish("work", LINK, message_id="order-7")
    upstream.confirm(sent)
    upstream.deliver(sent, LINK)
    downstream.now_us = upstream.now_us
    came = downstream.publish(
        "tasks", event=schema.FED_IN, link=LINK, identity="order-7", message_id="order-7", upstream="up", hops=1
    )
    downstream.event(schema.CONFIRM, came, link=LINK, user="internal")
    upstream.ack(sent, LINK, schema.FED_OUT, link=LINK, identity="order-7")
    downstream.deliver(came, "tasks")
    downstream.event(schema.NACK, came, queue="tasks", user="guest")
    downstream.dead_letter(came, "tasks", "dead")
    for log in (upstream, downstream):
        log.write()
    yield tmp_path


def trace(folder: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_here("trace", name, "--input", str(folder), *options)


def test_a_message_is_followed_over_links_and_dead_letter_exchanges(folder: Path) -> None:
    traced = report.describe("order-7", search.find(search.Log(str(folder)), "order-7"))
    messages = traced["messages"]
    assert [message["node"] for message in messages] == ["rabbit@up", "rabbit@down", "rabbit@down"]
    assert [message["queues"] for message in messages] == [
        {"work": "ready", LINK: "taken by a federation link"},
        {"tasks": "dead-lettered"},
        {"dead": "ready"},
    ]
    assert messages[2]["copy_of"] == messages[1]["msg_seq"]
    assert [event["event"] for event in messages[0]["events"]] == [
        *(schema.PUBLISH, schema.ENQUEUE, schema.ENQUEUE, schema.CONFIRM, schema.DELIVER, schema.FED_OUT)
    ]


@pytest.mark.parametrize("index", range(3))
def test_each_of_its_numbers_leads_to_the_whole_way(folder: Path, index: int) -> None:
    log = search.Log(str(folder))
    everything = search.find(log, "order-7").rows
    numbers = sorted({search.number_of(row) for row in everything})
    boot_id, seq = numbers[index][1:]
    found = search.find(log, f"{boot_id}/{seq}").rows
    assert {search.number_of(row) for row in found} >= set(numbers)


def test_the_command_prints_text_and_json(folder: Path) -> None:
    text = run("trace", "order-7", "--input", str(folder))
    assert text.returncode == 0 and text.stderr == ""
    assert '  => queue "dead": ready' in text.stdout.splitlines()
    assert 'dead-lettered from "tasks" (rejected)' in text.stdout
    assert [text.stdout.count(f"confirmed to the {whom} by ") for whom in ("publisher", "link")] == [1, 1]
    traced = json.loads(trace(folder, "order-7", "--json").stdout)
    assert traced["id"] == "order-7" and len(traced["messages"]) == 3 and traced["complete"]


def test_a_dead_letter_that_no_queue_got_is_said(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.dead_letter(log.publish("tasks", message_id="order-9"), "tasks", reason="expired")
    log.write()
    text = report.text(report.describe("order-9", search.find(search.Log(str(tmp_path)), "order-9"))).splitlines()
    assert text[-3].endswith('dead-lettered from "tasks" (expired)')
    assert text[-2].endswith('the dead letter of "tasks" entered no queue') and text[-1].endswith(": dead-lettered")


def test_what_is_not_there_is_an_error_of_one_line(folder: Path, tmp_path: Path) -> None:
    unknown = trace(folder, "order-8")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr == f"warren trace: no message order-8 in 2 files of {folder}\n"
    for number in (1 << 63, "9" * 5000):
        assert trace(folder, f"b1/{number}").returncode == 1
    for where in (str(tmp_path / "nothing"), "s3://[bad", "nope://x", "s3://", "s3://bucket?what=1"):
        empty = run_here("trace", "order-7", "--input", where)
        assert empty.returncode == 66 and len(empty.stderr.splitlines()) == 1, empty.stderr


def test_names_are_printed_without_control_characters(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.publish("q\x1b[2J\n", message_id="evil", routing_key="\x07")
    log.write()
    text = report.text(report.describe("evil", search.find(search.Log(str(tmp_path)), "evil")))
    assert "\x1b" not in text and "\x07" not in text and 'entered "q\\x1b[2J\\n"' in text


def test_damaged_and_foreign_files_are_skipped_and_said(folder: Path) -> None:
    place = next((folder / schema.EVENTS).rglob("*.parquet")).parent
    (place / "part-x-b9-000000.parquet").write_bytes(b"PAR1 but not really")
    (place / os.fsdecode(b"part-\xff-b9-000000.parquet")).touch()
    os.mkfifo(place / "part-y-b9-000000.parquet")
    found = search.find(search.Log(str(folder)), "order-7")
    assert len(found.skipped) == 3 and found.files == 2
    assert "3 files are not of the export" in report.text(report.describe("order-7", found))


def test_no_more_than_so_many_messages_are_followed(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for _ in range(search.MESSAGES + 5):
        log.round_trip("q", message_id="same")
    log.write()
    found = search.find(search.Log(str(tmp_path)), "same")
    assert not found.complete
    assert len({search.number_of(row) for row in found.rows}) == search.MESSAGES
    assert "There are more messages with this name" in report.text(report.describe("same", found))
