"""The logs: one line for an event, JSON away from a terminal, whoever wrote it."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from broker import logs


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers, root.level = before


def test_away_from_a_terminal_an_event_is_one_json_object_with_its_time_in_utc() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)
    structlog.get_logger().info("ready", amqp=["127.0.0.1:5672"])
    (line,) = stream.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "ready", "level": "info", "amqp": ["127.0.0.1:5672"]}


def test_a_traceback_stays_in_the_line_of_its_event() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)
    try:
        raise ValueError("bad")
    except ValueError:
        structlog.get_logger().exception("connection failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: bad" in json.loads(line)["exception"]


def test_what_other_libraries_log_has_the_same_form() -> None:
    stream = io.StringIO()
    logs.configure("debug", stream=stream)
    logging.getLogger("asyncio").error("task %s", "lost")
    logging.getLogger("asyncio").debug("not for the operator")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["event"] == "task lost"


def test_events_below_the_level_are_left_out_and_the_last_call_holds() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("debug", stream=first)
    logger = structlog.get_logger()
    logger.debug("one")
    logs.configure("warning", "human", second)
    logger.info("two")
    logger.warning("three", port=5672)
    assert len(first.getvalue().splitlines()) == 1
    (line,) = second.getvalue().splitlines()
    assert "three" in line and "port=5672" in line and "\x1b" not in line


def test_what_a_peer_chose_cannot_steer_the_terminal() -> None:
    stream = io.StringIO()
    logs.configure(form="human", stream=stream)
    structlog.get_logger().warning("login_refused", user="\x1b[2Jnobody\udcff\n")
    assert "\\x1b[2Jnobody\\udcff\\n" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()
