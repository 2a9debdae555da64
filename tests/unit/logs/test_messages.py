"""The messages of log events, for which people and tools search."""

import ast
import json
import re
from collections.abc import Iterator

import pytest

from tests.support.checkout import ROOT
from warren.broker.logs.messages import PHRASES, duration, lines_of, phrase
from warren.broker.logs.record import Record

LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
BLOCKED = "Publishers will be blocked until this alarm clears"

NAME = "127.0.0.1:57604 -> 127.0.0.1:5672"
WHOSE = {"connection": NAME, "process": "<0.3.0>", "user": "guest"}
INSIDE = WHOSE | {"vhost": "/"}
CAUSED = {"reason": "PRECONDITION_FAILED - inequivalent arg 'durable'", "operation": "queue.declare"}


@pytest.mark.parametrize(
    ("event", "fields", "text"),
    [
        ("connection_accepted", WHOSE, f"accepting AMQP connection {NAME}"),
        (
            "connection_opened",
            INSIDE | {"client_name": "name"},
            f"connection {NAME} - name: user 'guest' authenticated and granted access to vhost '/'",
        ),
        (
            "connection_opened",
            INSIDE | {"client_name": ""},
            f"connection {NAME}: user 'guest' authenticated and granted access to vhost '/'",
        ),
        (
            "connection_closed",
            INSIDE | {"duration_s": 62, "by": "client"},
            f"closing AMQP connection ({NAME}, vhost: '/', user: 'guest', duration: '1M, 2s')",
        ),
        (
            "connection_lost",
            INSIDE | {"duration_s": 1, "reason": "missed heartbeats from client, timeout: 60s"},
            f"closing AMQP connection ({NAME}, vhost: '/', user: 'guest', duration: '1s'):\n"
            "missed heartbeats from client, timeout: 60s",
        ),
        (
            "login_refused",
            WHOSE | {"state": "starting", "reason": "PLAIN login refused: user 'guest' - invalid credentials"},
            f"Error on AMQP connection <0.3.0> ({NAME}, user: 'guest', state: starting):\n"
            "PLAIN login refused: user 'guest' - invalid credentials",
        ),
        (
            "channel_closing",
            INSIDE | CAUSED | {"channel": 1},
            f"Channel error on connection <0.3.0> ({NAME}, vhost: '/', user: 'guest'), channel 1:\n"
            "operation queue.declare caused a channel exception precondition_failed: inequivalent arg 'durable'",
        ),
        (
            "connection_closing",
            INSIDE | {"state": "running", "reason": "CONNECTION_FORCED - shutdown", "operation": "none"},
            f"Error on AMQP connection <0.3.0> ({NAME}, vhost: '/', user: 'guest', state: running):\n"
            "operation none caused a connection exception connection_forced: shutdown",
        ),
        ("listener_started", {"address": "[::]:5672", "tls": False}, "started TCP listener on [::]:5672"),
        ("listener_started", {"address": "[::]:5671", "tls": True}, "started TLS (SSL) listener on [::]:5671"),
        ("ready", {"plugins": 3}, "Server startup complete; 3 plugins started."),
        ("started", {"ms": 300}, "Time to start Warren: 300 ms"),
        ("alarm_cleared", {"resource": "disk", "node": "a@b"}, "disk resource limit alarm cleared on node a@b"),
        (
            "http_login_refused",
            {"reason": "user 'x' - invalid credentials"},
            "HTTP access denied: user 'x' - invalid credentials",
        ),
        ("unknown_event", {"address": "a b", "node": "n"}, "unknown_event address='a b'"),
    ],
)
def test_an_event_is_logged_in_rabbitmqs_words(event: str, fields: dict[str, object], text: str) -> None:
    assert phrase(event, fields) == text


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"resource": "store"}, ""),
        (
            {"resource": "memory", "used_bytes": 1_500_000_000, "limit_bytes": 1 << 30},
            ": 1.5 GB are used, the limit is 1.1 GB",
        ),
        ({"resource": "memory", "used_bytes": None, "limit_bytes": 1 << 30}, ""),
        (
            {"resource": "disk", "disk": "/data", "free_bytes": 900_000, "limit_bytes": 50_000_000},
            ": 900.0 kB are free at /data, the limit is 50.0 MB",
        ),
    ],
)
def test_an_alarm_says_what_was_measured_and_has_a_frame_in_text_alone(fields: dict[str, object], facts: str) -> None:
    fields = {**fields, "node": "a@b"}
    first = f"{fields['resource']} resource limit alarm set on node a@b{facts}."
    assert lines_of("alarm_set", fields) == [first, "*" * 58, f"*** {BLOCKED} ***", "*" * 58]
    line = json.loads(Record(0.0, "warning", "alarm_set", fields).json(float))
    assert line["msg"] == f"{first}\n{BLOCKED}"


def test_each_event_of_the_sources_has_a_sentence() -> None:
    """An event without one is shown as its name and fields, which is for programs."""
    events = {event for event, _ in leveled_events()}
    assert len(events) > 70
    assert {event for event in events if event not in PHRASES and " " not in event} == set()


def test_each_warning_and_error_of_the_sources_is_on_the_page_that_says_what_to_do() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.split("## Every warning")[1].splitlines() if line.startswith("| `")]
    named = [event for row in rows for event in re.findall(r"`([^`]+)`", row)]
    wanted = {event for event, level in leveled_events() if level not in ("debug", "info")}
    varying = {"connection_lost", "federation_not_connected", "federation_disconnected"}  # a variable has the event
    assert len(named) == len(set(named)) and set(named) == wanted | varying


def test_lists_are_joined() -> None:
    assert phrase("tasks_not_ended", {"tasks": ["a", "b"]}) == "these tasks did not end in time: a, b"
    assert phrase("certificates_loaded", {"files": ("x.pem",)}) == "the certificates were loaded again: x.pem"


def leveled_events() -> Iterator[tuple[str, str]]:
    """Yield the events that are logged or reported, each with one of its levels; `varies` if an expression has it.

    They are texts before a level, or arguments of a method of that name.
    """
    sources = [path for name in ("broker", "federation", "plugins") for path in (ROOT / name).rglob("*.py")]
    for tree in (ast.parse(path.read_text(encoding="utf-8")) for path in sources):
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            event, second = call.args[0], call.args[1] if call.args[1:] else None
            level = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if level not in LEVELS and isinstance(second, ast.Constant):
                level = str(second.value)
            elif level == "report" and isinstance(second, ast.IfExp | ast.Name):
                level = "varies"
            for each in (event.body, event.orelse) if isinstance(event, ast.IfExp) else (event,):
                if level in (*LEVELS, "varies") and isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value, level


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1M, 0s"), (3_661, "1H, 1M, 1s"), (90_000, "1D, 1H, 0s")]
)
def test_durations_have_units(seconds: int, text: str) -> None:
    assert duration(seconds) == text
