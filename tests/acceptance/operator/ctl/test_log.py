"""The node's log: file, last lines, stream, level; and the stream of events."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.polling import until
from tests.support.warrenctl import Controlled, Ready, Warrenctl
from warren.broker import logs
from warren.broker.ctl.api_client import LocalAPI
from warren.broker.logs.recent import Recent
from warren.broker.logs.record import Record
from warren.broker.operator import node_log
from warren.plugins.management.framework.line_stream import WAITING_LIMIT, WAITING_SIZE, LineStream

pytestmark = pytest.mark.sockets


def test_the_log_file_is_named_and_its_last_lines_are_printed(ready: Ready, warrenctl: Warrenctl) -> None:
    status, out, _ = warrenctl("log_location")
    banner, name = out.splitlines()
    assert (status, banner) == (0, "Log file location(s) on node rabbit@here ...")
    lines = Path(name).read_text().splitlines()
    status, out, _ = warrenctl("log_tail --number 2")
    assert (status, out.splitlines()) == (0, ["Last 2 log lines on node rabbit@here ...", *lines[-2:]])
    assert warrenctl("log_tail -N 0") == (0, "Last 0 log lines on node rabbit@here ...\n", "")
    assert warrenctl("log_tail -N x")[0] == 64


def test_the_level_of_the_log_is_set_while_it_runs(ready: Ready, warrenctl: Warrenctl) -> None:
    file = Path(warrenctl("log_location -q")[1].strip())

    def listened() -> int:
        """Return how often the log says that listeners were opened."""
        return file.read_text().count('"listener_started"')

    before = listened()
    assert warrenctl("set_log_level error") == (0, 'Setting log level to "error" ...\n', "")
    assert [warrenctl(line)[0] for line in ("stop_app", "start_app")] == [0, 0]
    assert listened() == before
    assert warrenctl("set_log_level debug")[0] == 0
    assert [warrenctl(line)[0] for line in ("stop_app", "start_app")] == [0, 0]
    until(lambda: listened() == before + 1, file.read_text)  # lines are written together, up to 10 ms later
    assert [warrenctl(f"set_log_level {level}")[0] for level in ("notice", "emergency", "none")] == [0, 0, 0]
    levels = "debug, info, warning, error, critical, notice, alert, emergency, none"
    output = f"Error:\nlevel loud is not supported. Try one of {levels}\n"
    assert warrenctl("set_log_level loud")[::2] == (69, output)
    assert warrenctl("set_log_level info")[0] == 0


def test_a_log_that_was_moved_away_is_begun_anew(ready: Ready, warrenctl: Warrenctl) -> None:
    file = Path(warrenctl("log_location -q")[1].strip())
    file.rename(file.with_suffix(".1"))
    assert warrenctl("rotate_logs")[0] == 0
    assert file.exists()
    assert [warrenctl(line)[0] for line in ("stop_app", "start_app")] == [0, 0]
    until(lambda: '"listener_started"' in file.read_text(), file.read_text)


def test_a_long_file_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "long.log"
    file.write_text("".join(f"line {number}\n" for number in range(100)))
    assert node_log.last_lines(file) == [f"line {number}" for number in range(100)]
    monkeypatch.setattr(node_log, "TAIL_BYTES", 20)
    assert node_log.last_lines(file) == ["line 98", "line 99"]


def test_without_a_file_recent_log_lines_are_printed(controlled: Controlled, in_process: Warrenctl) -> None:
    logs.recent.put(Record(0.0, "info", "something_odd", {"password": "secret", "x": 1}))
    status, out, _ = in_process("log_tail -N 1 -q")
    assert status == 0 and "[info]" in out and "something_odd" in out
    assert "secret" not in out
    assert in_process("log_location -q")[1] == "<stderr>\n"


def test_the_latest_log_lines_are_kept() -> None:
    recent = Recent()
    for number in range(2000):
        recent.put(Record(0.0, "info", "counted", {"number": number}))
    lines = recent.lines()
    assert len(lines) == 1000 and "1000" in lines[0] and "1999" in lines[-1]


def test_lines_are_streamed_as_they_come_until_nobody_reads(controlled: Controlled) -> None:
    api = LocalAPI(controlled.folder, 10.0)
    lines = api.lines("warren", "log", "stream")
    logs.recent.put(Record(0.0, "warning", "something_odd", {}))
    assert "[warning]" in next(lines)
    lines.close()
    api.close()
    until(lambda: not logs.recent.followers)


def test_events_are_streamed_as_they_happen(controlled: Controlled, in_process: Warrenctl) -> None:
    node = controlled.host.node
    controlled.listening.call(node.start_events)
    api = LocalAPI(controlled.folder, 10.0)
    lines = api.lines("warren", "events", pattern=r"^user\.")
    assert in_process("add_vhost w -q")[0] == 0
    assert in_process("set_user_tags guest a -q")[0] == 0
    event = json.loads(next(lines))
    assert event.pop("timestamp_in_ms") >= 0
    output = {"event": "user.tags.set", "name": "guest", "tags": ["a"], "user_who_performed_action": "rmq-cli"}
    assert event == output
    api.close()
    until(lambda: not node.events.hooks)


@pytest.mark.parametrize("command", ["log_tail_stream", "consume_event_stream"])
def test_a_stream_ends_when_its_time_is_up(controlled: Controlled, in_process: Warrenctl, command: str) -> None:
    assert in_process(f"{command} --duration 0 -q") == (0, "", "")
    assert in_process(f"{command} -d soon")[0] == 64
    assert not controlled.host.node.events.hooks and not logs.recent.followers


def test_an_invalid_pattern_of_events_is_refused(controlled: Controlled, in_process: Warrenctl) -> None:
    assert in_process("consume_event_stream --pattern '('")[0] == 64


@pytest.mark.parametrize(
    ("put", "kept", "missed"),
    [
        ([str(number) for number in range(WAITING_LIMIT + 7)], WAITING_LIMIT, "7 missed"),
        (["x" * (WAITING_SIZE // 2)] * 5, 2, "3 missed"),
    ],
    ids=["many lines", "long lines"],
)
async def test_a_slow_reader_gets_the_number_of_missed_lines(put: list[str], kept: int, missed: str) -> None:
    stream = LineStream("text/plain", None, lambda number: f"{number} missed")
    for line in put:
        stream.put(line)
    await asyncio.sleep(0)
    stream.end()
    assert [line async for lines in stream.lines() for line in lines] == [*put[:kept], missed]
