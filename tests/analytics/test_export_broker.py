"""The service in a broker process: its export equals the traffic, for each end of the broker."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.polling import until
from warren.broker.config import Config, MessageLogExport
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.service import MessageLogService

from .exporting import imbalance, rows_of, whole_files

MESSAGES = 2000


class Broker(BrokerProcess):
    """A broker in memory that exports into the folder `out`, with further lines of configuration."""

    def __init__(self, folder: Path, *lines: str) -> None:
        super().__init__(folder, "--http", ANY_PORT, memory=True)
        self.configure("message_log.enabled = true", "message_log.directory = out", *lines)

    def writer(self) -> int:
        """Return the id of the writer process."""
        pid = self.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)


def traffic(broker: Broker, vhost: str = "/") -> None:
    """Publish MESSAGES with confirms, and consume half of them."""
    client = broker.connect(vhost=vhost)
    ch = client.channel()
    ch.declare("q")
    ch.confirm()
    for _ in range(MESSAGES):
        ch.publish("", "q", b"body")
    assert ch.confirms(range(1, MESSAGES + 1))[1] == set()
    for _ in range(MESSAGES // 2):
        assert ch.get("q")
    client.vanish()


@pytest.mark.sockets
def test_a_broker_that_stops_has_exported_all_that_happened(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        traffic(broker)
        broker.stop()
    events, stats = rows_of(tmp_path / "out"), rows_of(tmp_path / "out", schema.QUEUE_STATS)
    counts = Counter(row["event"] for row in events)
    assert counts == {"publish": MESSAGES, "enqueue": MESSAGES, "confirm": MESSAGES, "deliver": MESSAGES // 2}
    assert sorted(row["row"] for row in events) == list(range(len(events)))
    first = [row for row in stats if row["kind"] == schema.START]
    last = [row for row in stats if row["kind"] == schema.STOP]
    assert [row["row"] for row in first] == [0] and last[-1]["row"] == len(events)
    assert [row["ready"] for row in last[:-1]] == [MESSAGES // 2]
    assert {row["durable"] for row in last[:-1]} == {False}, "it is a broker in memory"
    assert imbalance(events, first, last) == {}
    assert {row["boot_id"] for row in (*events, *stats)} == {events[0]["boot_id"]}
    metrics = {row["name"] for row in rows_of(tmp_path / "out", schema.METRICS)}
    assert {schema.CPU_S, schema.RESIDENT_BYTES, schema.CONNECTIONS, schema.LOOP_LAG_US} <= metrics
    assert list((tmp_path / "out").rglob(".*")) == []


@pytest.mark.sockets
def test_only_the_virtual_hosts_that_were_chosen_are_exported_also_where_they_come_later(tmp_path: Path) -> None:
    with Broker(tmp_path, "message_log.vhosts.1 = later", "message_log.sample_one_in = 10") as broker:
        assert "there is no virtual host 'later'" in str(broker.wait_for_event("configuration")["what"])
        for vhost in ("later", "other"):
            assert broker.http().put(f"/vhosts/{vhost}").status == 201
            rights = {"configure": ".*", "write": ".*", "read": ".*"}
            assert broker.http().put(f"/permissions/{vhost}/guest", rights).status == 204
            traffic(broker, vhost)
        traffic(broker)
        broker.stop()
    events, stats = rows_of(tmp_path / "out"), rows_of(tmp_path / "out", schema.QUEUE_STATS)
    assert {row["vhost"] for row in events} == {"later"}
    assert 0 < Counter(row["event"] for row in events)["publish"] < MESSAGES / 2
    last = [row for row in stats if row["kind"] == schema.STOP]
    assert [(row["vhost"], row["ready"]) for row in last[:-1]] == [("later", MESSAGES // 2)]


@pytest.mark.sockets
def test_of_a_broker_that_is_killed_what_it_had_told_is_in_whole_files(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        traffic(broker)
        broker.kill()
    until(lambda: bool(whole_files(tmp_path / "out", schema.METRICS)))  # the writer's last file
    events, stats = rows_of(tmp_path / "out"), rows_of(tmp_path / "out", schema.QUEUE_STATS)
    rows = sorted(row["row"] for row in events)
    assert rows == list(range(len(rows))), "there is no gap in what was told"
    assert {row["kind"] for row in stats} == {schema.START}


def snapshots(folder: Path) -> list[dict[str, Any]]:
    """Return the closing rows of all snapshots, in their order."""
    rows = [row for row in rows_of(folder, schema.QUEUE_STATS) if row["queue"] is None]
    return sorted(rows, key=lambda row: row["snapshot"])


@pytest.mark.rest("kills the writer and waits until it is started again")
@pytest.mark.sockets
def test_a_writer_that_is_killed_is_started_again_and_what_it_had_is_counted_as_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Broker(tmp_path, "message_log.file.age = 1") as broker:
        for number in range(3):
            writer = broker.writer()
            traffic(broker)
            os.kill(writer, signal.SIGKILL)
            until(lambda number=number: len(broker.events("message_log_restarted")) > number)  # type: ignore[misc]
            assert "status -9" in broker.wait_for_event("message_log_ended")["reason"]
            assert broker.writer() != writer
        traffic(broker)
        broker.stop()
    events, rows = rows_of(out), snapshots(out)
    assert len({row["boot_id"] for row in (*events, *rows)}) == 1
    numbers = [row["row"] for row in events]
    assert len(set(numbers)) == len(numbers)
    last = rows[-1]
    assert (last["kind"], rows[0]["kind"], last["row"]) == (schema.STOP, schema.START, 4 * 7 * MESSAGES // 2)
    assert len(events) + last["lost_records"] == last["row"] and last["lost_records"] > 0
    assert all(event["queue"] == "q" for event in events if event["event"] in ("enqueue", "deliver"))
    assert [row["snapshot"] for row in rows if row["kind"] == schema.START] == [0]
    footers = [pq.read_metadata(path).metadata for path in whole_files(out)]
    assert max(int(footer[schema.LOST_KEY.encode()]) for footer in footers) == last["lost_records"]
    assert list(out.rglob("*.tmp")) == []


@pytest.mark.sockets
def test_a_broker_that_stops_right_after_its_writer_was_killed_still_exports_the_rest(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        traffic(broker)
        os.kill(broker.writer(), signal.SIGKILL)
        broker.wait_for_event("message_log_ended")
        traffic(broker)
        broker.stop()
    events, rows = rows_of(tmp_path / "out"), snapshots(tmp_path / "out")
    assert (rows[-1]["kind"], rows[-1]["row"]) == (schema.STOP, 2 * 7 * MESSAGES // 2)
    assert len(events) + rows[-1]["lost_records"] == rows[-1]["row"]
    assert len(events) >= 7 * MESSAGES // 2, "what happened while there was no writer is kept"


@pytest.mark.sockets
def test_a_folder_that_cannot_be_made_ends_the_start_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    broker = Broker(tmp_path)
    broker.launch()
    assert broker.wait() == 69
    (refusal,) = broker.events("cannot_start")
    assert refusal["service"] == "message_log"


class ServiceHost:
    """The part of a host that the service reads before it does anything."""

    def __init__(self, **given: Any) -> None:
        self.config = Config(message_log=MessageLogExport(**given))


async def refused() -> str:
    host: Any = ServiceHost(enabled=True)
    with pytest.raises(ValueError) as caught:
        await MessageLogService().start(host)
    return str(caught.value)


async def test_without_the_libraries_the_start_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.plugins.message_log.service.find_spec", lambda name: None)
    how = "in a clone of Warren, pip install '.[analytics]'"
    assert await refused() == f"message_log.enabled needs pyarrow and numpy: {how}"


async def test_where_it_is_off_nothing_is_begun() -> None:
    service, host = MessageLogService(), ServiceHost()
    await service.start(host)  # type: ignore[arg-type]
    assert service.status() is None
    await service.stop()
