"""The messages of log events, for which people and tools search."""

import pytest

from warren.broker.logs.messages import duration, phrase

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


def test_an_alarm_is_a_banner() -> None:
    lines = phrase("alarm_set", {"resource": "memory", "node": "a@b"}).split("\n")
    assert lines[0] == "memory resource limit alarm set on node a@b."
    assert lines[2] == "*** Publishers will be blocked until this alarm clears ***"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1M, 0s"), (3_661, "1H, 1M, 1s"), (90_000, "1D, 1H, 0s")]
)
def test_durations_have_units(seconds: int, text: str) -> None:
    assert duration(seconds) == text
