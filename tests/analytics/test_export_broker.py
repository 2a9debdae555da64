"""The service in a broker process: what it exports equals what was sent, however the broker ends."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import SocketPeer
from tests.support.checkout import ROOT, installed
from warren.broker.config import Config, Throughput
from warren.plugins.throughput import schema
from warren.plugins.throughput.service import ThroughputService

from .exporting import imbalance, rows_of, whole_files

MESSAGES = 2000
WITHIN_S = 60


class Broker:
    """A process, and what its log has said so far."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log
        self.address = str(self.said("ready")["amqp"][0])

    def lines(self) -> list[dict[str, Any]]:
        whole = self._log.read_bytes().splitlines(keepends=True)
        return [json.loads(line) for line in whole if line.startswith(b"{") and line.endswith(b"\n")]

    def said(self, event: str) -> dict[str, Any]:
        until(lambda: any(line["event"] == event for line in self.lines()))
        return next(line for line in self.lines() if line["event"] == event)

    def writer(self) -> int:
        """The process that writes, by its number."""
        pid = self.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < end_s, "not within the time that it may take"
        time.sleep(0.02)


@contextmanager
def started(folder: Path, *settings: str) -> Iterator[Broker]:
    configuration = folder / "warren.conf"
    configuration.write_text("\n".join(("throughput.enabled = true", "throughput.directory = out", *settings)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed(folder / "installed")), str(ROOT)])}
    line = [sys.executable, "-m", "warren.broker.cli", "serve", "--memory", "--config", str(configuration)]
    log = folder / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*line, "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"], cwd=folder, env=environment, stderr=errors
        ) as process,
    ):
        try:
            yield Broker(process, log)
        finally:
            process.kill()


def traffic(broker: Broker, vhost: str = "/") -> None:
    """MESSAGES, all confirmed, half of them consumed."""
    with closing(SocketPeer(broker.address)) as peer:
        ch = peer.connect(vhost=vhost).channel()
        ch.declare("q")
        ch.confirm()
        for _ in range(MESSAGES):
            ch.publish("", "q", b"body")
        assert ch.confirms(range(1, MESSAGES + 1))[1] == set()
        for _ in range(MESSAGES // 2):
            assert ch.get("q")


@pytest.mark.sockets
def test_a_broker_that_stops_has_exported_all_that_happened(tmp_path: Path) -> None:
    with started(tmp_path) as broker:
        traffic(broker)
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(WITHIN_S) == 0
    events, stats = rows_of(tmp_path / "out"), rows_of(tmp_path / "out", schema.QUEUE_STATS)
    counts = Counter(row["event"] for row in events)
    assert counts == {"publish": MESSAGES, "enqueue": MESSAGES, "confirm": MESSAGES, "deliver": MESSAGES // 2}
    assert sorted(row["row"] for row in events) == list(range(len(events)))
    first = [row for row in stats if row["kind"] == schema.START]
    last = [row for row in stats if row["kind"] == schema.STOP]
    assert [row["row"] for row in first] == [0] and last[-1]["row"] == len(events)
    assert [row["ready"] for row in last[:-1]] == [MESSAGES // 2]
    assert imbalance(events, first, last) == {}
    assert {row["boot_id"] for row in (*events, *stats)} == {events[0]["boot_id"]}
    metrics = {row["name"] for row in rows_of(tmp_path / "out", schema.METRICS)}
    assert {schema.CPU_S, schema.RESIDENT_BYTES, schema.CONNECTIONS, schema.LOOP_LAG_US} <= metrics
    assert list((tmp_path / "out").rglob(".*")) == []


def put(broker: Broker, path: str, **body: str) -> None:
    """To the HTTP API."""
    (address,) = broker.said("ready")["http"]
    credentials = "Basic " + base64.b64encode(b"guest:guest").decode()
    headers = {"Authorization": credentials, "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{address}{path}", json.dumps(body).encode(), headers, method="PUT")
    with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
        assert answer.status in (201, 204)


@pytest.mark.sockets
def test_only_the_virtual_hosts_that_were_chosen_are_exported_also_where_they_come_later(tmp_path: Path) -> None:
    with started(tmp_path, "throughput.vhosts.1 = later", "throughput.sample_one_in = 10") as broker:
        for vhost in ("later", "other"):
            put(broker, f"/api/vhosts/{vhost}")
            put(broker, f"/api/permissions/{vhost}/guest", configure=".*", write=".*", read=".*")
            traffic(broker, vhost)
        traffic(broker)
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(WITHIN_S) == 0
    events, stats = rows_of(tmp_path / "out"), rows_of(tmp_path / "out", schema.QUEUE_STATS)
    assert {row["vhost"] for row in events} == {"later"}
    assert Counter(row["event"] for row in events)["publish"] == MESSAGES / 10
    last = [row for row in stats if row["kind"] == schema.STOP]
    assert [(row["vhost"], row["ready"]) for row in last[:-1]] == [("later", MESSAGES // 2)]


@pytest.mark.sockets
def test_of_a_broker_that_is_killed_what_it_had_told_is_in_whole_files(tmp_path: Path) -> None:
    with started(tmp_path) as broker:
        traffic(broker)
        broker.process.kill()
    until(lambda: bool(whole_files(tmp_path / "out", schema.METRICS)))  # the writer's last file
    events, stats = rows_of(tmp_path / "out"), rows_of(tmp_path / "out", schema.QUEUE_STATS)
    rows = sorted(row["row"] for row in events)
    assert rows == list(range(len(rows))), "there is no gap in what was told"
    assert {row["kind"] for row in stats} == {schema.START}


@pytest.mark.sockets
def test_a_writer_that_dies_is_started_again_and_what_happens_from_then_on_is_exported(tmp_path: Path) -> None:
    with started(tmp_path) as broker:
        first = broker.writer()
        os.kill(first, signal.SIGKILL)
        assert "status -9" in broker.said("throughput_ended")["reason"]
        broker.said("throughput_restarted")
        assert broker.writer() != first
        traffic(broker)
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(WITHIN_S) == 0
    events = rows_of(tmp_path / "out")
    assert Counter(row["event"] for row in events)["publish"] == MESSAGES
    assert len({row["boot_id"] for row in events}) == 1


@pytest.mark.sockets
def test_a_folder_that_cannot_be_made_ends_the_start_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    configuration = tmp_path / "warren.conf"
    configuration.write_text("throughput.enabled = true\nthroughput.directory = out\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed(tmp_path / "installed")), str(ROOT)])}
    line = [sys.executable, "-m", "warren.broker.cli", "serve", "--memory", "--config", str(configuration)]
    done = subprocess.run(
        [*line, "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"],
        cwd=tmp_path, env=environment, capture_output=True, timeout=WITHIN_S,
    )  # fmt: skip
    (refusal,) = [line for line in done.stderr.splitlines() if b'"cannot_start"' in line]
    assert done.returncode == 69 and b"throughput" in refusal


class Switched:
    """As much of a host as the service looks at before it does anything."""

    def __init__(self, **given: Any) -> None:
        self.config = Config(throughput=Throughput(**given))


async def refused() -> str:
    host: Any = Switched(enabled=True)
    with pytest.raises(ValueError) as caught:
        await ThroughputService().start(host)
    return str(caught.value)


@pytest.mark.asyncio
async def test_without_the_libraries_the_start_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.plugins.throughput.service.find_spec", lambda name: None)
    how = "in a clone of Warren, pip install '.[analytics]'"
    assert await refused() == f"throughput.enabled needs pyarrow and numpy: {how}"


@pytest.mark.asyncio
async def test_where_it_is_off_nothing_is_begun() -> None:
    service, host = ThroughputService(), Switched()
    await service.start(host)  # type: ignore[arg-type]
    assert service.status() is None
    await service.stop()
