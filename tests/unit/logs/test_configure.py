"""The configured log: one line for an event, JSON if there is no terminal, also for other libraries."""

import asyncio
import io
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from warren.broker import logs
from warren.broker.config.config import Log, LogLevels
from warren.broker.operator.node_log import NodeLog

FIELDS = {"connection": "1.2.3.4:5 -> 6.7.8.9:10", "process": "<0.7.0>"}


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_away_from_a_terminal_an_event_is_one_json_object_with_its_time_in_utc(stream: io.StringIO) -> None:
    logs.configure(Log(), stream, "a@b")
    structlog.get_logger().warning("cannot_accept", reason="no files")
    (line,) = lines(stream)
    event = json.loads(line)
    assert event.pop("time").endswith("+00:00")
    assert event == {
        "event": "cannot_accept",
        "level": "warning",
        "msg": "no connection can be accepted for a second: no files",
        "domain": "rabbitmq",
        "node": "a@b",
        "reason": "no files",
    }


def test_an_event_of_a_connection_is_of_its_domain_and_process(stream: io.StringIO) -> None:
    logs.configure(Log(), stream)
    structlog.get_logger().info("connection_accepted", **FIELDS)
    event = json.loads(lines(stream)[0])
    assert (event["domain"], event["pid"]) == ("rabbitmq.connection", "<0.7.0>")
    assert event["msg"] == "accepting AMQP connection 1.2.3.4:5 -> 6.7.8.9:10"


NUMBERS = (1 << 80, 2**63, -(1 << 80), float("inf"))
VALUES = ("Zürich \u9f8d", "\x9b2Jcleared", "half \udcff", *NUMBERS, {"a": ["\udcff", None]})


@pytest.mark.parametrize("value", VALUES, ids=ascii)
def test_json_is_of_ascii_whatever_a_field_has(stream: io.StringIO, value: object) -> None:
    logs.configure(Log(), stream)
    structlog.get_logger().info("unknown", value=value)
    (line,) = lines(stream)
    assert line.isascii() and line.isprintable()
    assert json.loads(line)["value"] == (None if value == float("inf") else value)


class Loop(asyncio.AbstractEventLoop):
    """An event loop whose one timer a test calls."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[..., object]]] = []

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, **_: Any) -> Any:
        self.timers.append((delay, callback))


@pytest.fixture
def loop(stream: io.StringIO) -> Iterator[Loop]:
    """A loop whose lines are gathered."""
    logs.configure(Log(level="debug"), stream)
    loop = Loop()
    logs.gather(loop)
    yield loop
    logs.gather(None)


def names_of(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["event"] for line in lines(stream)]


def test_lines_of_a_loop_are_written_together_ten_milliseconds_after_the_first(loop: Loop, stream: io.StringIO) -> None:
    for name in "abc":
        structlog.get_logger().info(name)
    [(delay_s, write)] = loop.timers
    assert (delay_s, lines(stream)) == (0.01, [])
    write()
    assert names_of(stream) == ["a", "b", "c"]
    structlog.get_logger().debug("d")
    assert len(loop.timers) == 2


def other_thread() -> None:
    thread = threading.Thread(target=structlog.get_logger().info, args=("last",), daemon=True)
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    "end",
    [
        lambda: structlog.get_logger().warning("last"),
        lambda: structlog.get_logger().error("last"),
        other_thread,
        lambda: [structlog.get_logger().info("last") for _ in range(99)],
        lambda: [structlog.get_logger().info("last"), logs.gather(None)],
        lambda: [structlog.get_logger().info("last"), logs.configure(Log())],
        lambda: [structlog.get_logger().info("last"), NodeLog("a@b", Log()).tail(1)],
    ],
    ids=["warning", "error", "thread", "hundred", "stop", "reload", "tail"],
)
def test_no_line_waits_longer_and_all_keep_their_order(
    loop: Loop, stream: io.StringIO, end: Callable[[], object]
) -> None:
    structlog.get_logger().info("first")
    end()
    names = names_of(stream)
    assert names[0] == "first" and set(names[1:]) == {"last"}


def test_after_the_last_loop_each_line_is_written_at_once(loop: Loop, stream: io.StringIO) -> None:
    logs.gather(None)
    structlog.get_logger().info("one")
    assert names_of(stream) == ["one"] and not loop.timers


def test_a_new_configuration_gathers_the_lines_of_the_same_loop(loop: Loop, stream: io.StringIO) -> None:
    logs.configure(Log(), stream)
    structlog.get_logger().info("one")
    assert len(loop.timers) == 1 and not lines(stream)


def test_each_plain_line_begins_with_time_level_and_connection(stream: io.StringIO) -> None:
    logs.configure(Log(form="human"), stream)
    structlog.get_logger().warning("connection_lost", reason="client unexpectedly closed TCP connection", **FIELDS)
    first, second = lines(stream)
    before = re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\+00:00 \[warning\] <0\.7\.0> ", first)
    assert before and second.startswith(before.group())
    assert first.endswith("> closing AMQP connection (1.2.3.4:5 -> 6.7.8.9:10):")
    assert second.endswith("> client unexpectedly closed TCP connection")


def test_a_traceback_stays_in_the_line_of_its_event_and_shows_no_password(stream: io.StringIO) -> None:
    logs.configure(Log(), stream)
    try:
        raise ValueError("cannot reach amqp://u:s3cret@h")
    except ValueError as error:
        structlog.get_logger().exception("connection failed")
        structlog.get_logger().error("internal_error", exc_info=error)
    for line in lines(stream):
        assert "ValueError: cannot reach amqp://u:[redacted]@h" in json.loads(line)["exception"]
    assert len(lines(stream)) == 2 and "s3cret" not in stream.getvalue()


def test_a_traceback_is_told_in_plain_lines_too(stream: io.StringIO) -> None:
    logs.configure(Log(form="human"), stream)
    structlog.get_logger().error("internal_error", exc_info=ValueError("bad\x1b[2J"))
    assert lines(stream)[-1].endswith("[error] <0.0.0> ValueError: bad\\x1b[2J")


def test_what_other_libraries_log_has_the_same_form(stream: io.StringIO) -> None:
    logs.configure(Log(level="debug"), stream)
    logging.getLogger("asyncio").error("task %s", "lost", exc_info=ValueError("bad"))
    logging.getLogger("asyncio").debug("not for the operator")
    (line,) = lines(stream)
    event = json.loads(line)
    assert (event["event"], event["level"], event["logger"]) == ("task lost", "error", "asyncio")
    assert event["exception"] == "ValueError: bad"


def test_events_below_the_level_are_left_out_and_the_last_call_holds() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure(Log(level="debug"), first)
    logger = structlog.get_logger()
    logger.debug("one")
    logs.configure(Log(level="warning", form="human"), second)
    logger.info("two")
    logger.warning("three", port=5672)
    assert len(lines(first)) == 1
    (line,) = lines(second)
    assert line.endswith("three port=5672") and "\x1b" not in line


def test_the_level_of_a_category_counts_in_place_of_an_outputs(stream: io.StringIO) -> None:
    logs.configure(Log(level="info", levels=LogLevels(connection="error", user="debug")), stream)
    logger = structlog.get_logger()
    logger.info("connection_accepted", **FIELDS)
    logger.debug("anything")
    logger.debug("something", category="user")
    logger.info("ready")
    assert [json.loads(line)["event"] for line in lines(stream)] == ["something", "ready"]


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ("rfc3339_T", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00 "),
        ("epoch_secs", r"\d{10} "),
        ("epoch_usecs", r"\d{16} "),
        ("lager_default", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} "),
    ],
)
def test_the_time_is_written_as_wanted(stream: io.StringIO, form: str, pattern: str) -> None:
    logs.configure(Log(form="human", time=form), stream)  # type: ignore[arg-type]
    structlog.get_logger().info("ready", plugins=0)
    assert re.match(pattern + r"\[info\] <", stream.getvalue())


def test_a_file_has_its_own_level_and_form_beside_the_console(stream: io.StringIO, tmp_path: Path) -> None:
    logs.configure(Log(dir=str(tmp_path / "new"), file="a.log", file_level="debug", form="json"), stream)
    structlog.get_logger().debug("one", user="\udcff")
    structlog.get_logger().info("ready", plugins=0)
    assert len(lines(stream)) == 1 and json.loads(stream.getvalue())["event"] == "ready"
    one, ready = (tmp_path / "new" / "a.log").read_text().splitlines()
    assert one.endswith("one user=\\udcff") and ready.endswith("Server startup complete; 0 plugins started.")


def test_a_file_that_was_moved_away_is_begun_anew_and_one_that_is_full_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    logs.configure(Log(file=str(file), console=False))
    structlog.get_logger().info("one")
    file.rename(tmp_path / "old")
    structlog.get_logger().info("two")
    assert "two" in file.read_text()
    logs.configure(Log(file=str(file), console=False, file_rotation_bytes=100, file_rotation_count=1))
    for _ in range(5):
        structlog.get_logger().info("x" * 60)
    assert len(list(tmp_path.glob("a.log*"))) == 2 and file.stat().st_size < 200


def test_a_file_that_cannot_be_written_changes_nothing(stream: io.StringIO, tmp_path: Path) -> None:
    logs.configure(Log(), stream)
    with pytest.raises(OSError):
        logs.configure(Log(file=str(tmp_path)))
    structlog.get_logger().info("ready", plugins=0)
    assert len(lines(stream)) == 1


def test_a_console_that_is_gone_stops_nobody(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Log(), stream)
    stream.close()
    structlog.get_logger().info("ready", plugins=0)
    assert "closed file" in capsys.readouterr().err


def test_lines_are_published_as_long_as_somebody_does(tmp_path: Path) -> None:
    lines = []
    logs.configure(Log(console=False, exchange=True, exchange_level="warning"))
    logger = structlog.get_logger()
    logger.error("before")
    logs.publish_to(lambda level, line: lines.append((level, line.rpartition(" ")[2])))
    logger.info("too_low")
    logger.error("one")
    logs.publish_to(None)
    logger.error("after")
    assert lines == [("error", "one")]


def test_what_a_peer_chose_cannot_steer_the_terminal(stream: io.StringIO) -> None:
    logs.configure(Log(form="human"), stream)
    logger = structlog.get_logger()
    logger.error("login_refused", user="\x1b[2Jnobody\udcff\n", reason="user '\x1b[2Jnobody\udcff\n'", **FIELDS)
    logger.error("unknown", user="\x1b[2Jnobody\udcff\n")
    assert stream.getvalue().count("\\x1b[2Jnobody\\udcff\\n") == 3
    assert "\x1b" not in stream.getvalue() and len(lines(stream)) == 3
