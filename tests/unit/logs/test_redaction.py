"""Redaction of credentials in the log, wherever they are."""

import time

import pytest

from warren.broker.logs.redaction import HIDDEN, clean, redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://u:p@h:5672/v", "amqp://u:[redacted]@h:5672/v"),
        ("amqps://u:p%40@h, amqp://a:b@c", "amqps://u:[redacted]@h, amqp://a:[redacted]@c"),
        ("x='amqp://:p@h'", "x='amqp://:[redacted]@h'"),
        ("amqp://u:p/s@s:x@h", "amqp://u:[redacted]@h"),
        ("amqp://u@h:1/v", "amqp://u@h:1/v"),
        ("http://h:15672/api", "http://h:15672/api"),
        ("amqp://h?password=x&heartbeat=1", "amqp://h?password=[redacted]&heartbeat=1"),
        ("amqp://h?p%61ssword=x&p=%61", "amqp://h?p%61ssword=[redacted]&p=%61"),
        ("amqp://h?a=1&%50%41%53%53%57%4f%52%44=x", "amqp://h?a=1&%50%41%53%53%57%4f%52%44=[redacted]"),
        ("/api?a=1&access_token=x y", "/api?a=1&access_token=[redacted] y"),
        ("Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=", "Authorization: Basic [redacted]"),
        ("{'authorization': 'Bearer abc.def'}", "{'authorization': 'Bearer [redacted]'}"),
        ("user 'u' - invalid credentials", "user 'u' - invalid credentials"),
    ],
)
def test_passwords_in_uris_parameters_and_headers_are_hidden(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("amqp://u:p s@h", "amqp://u:[redacted]@h"),
        ("amqp://h?pass%77ord=a b'c#d&heartbeat=1", "amqp://h?pass%77ord=[redacted]&heartbeat=1"),
        ("amqp://h/a b?heartbeat=1", "amqp://h/a b?heartbeat=1"),
        ("amqp:/u:p@h", "amqp:[redacted]@h"),
        ("u:p:@@h:1", "u:[redacted]@h:1"),
        ("h:1/v", "h:1/v"),
    ],
)
def test_a_uri_of_an_upstream_shows_no_password_whatever_is_in_it(uri: str, shown: str) -> None:
    assert redacted("up", {"uri": uri}) == {"uri": shown}
    assert redacted("up", {"uri": [uri]}) == {"uri": [shown]}


@pytest.mark.parametrize("name", ["password", "default_password", "password_hash", "client_secret", "access_token"])
def test_a_field_that_is_called_like_a_secret_is_hidden(name: str) -> None:
    assert redacted(name, "x") == HIDDEN
    assert redacted("fields", {name: ["x", b"y"]}) == {name: HIDDEN}
    assert redacted("fields", [{name: 1}, {name: None}, {name: ""}]) == [{name: HIDDEN}, {name: None}, {name: ""}]


def test_the_rest_is_shown_as_it_is() -> None:
    given = {"a": [1, True, None, 1.5], "reason": "no queue", "uris": ["amqp://u:p@h"], "hash": b"\xff"}
    shown = given | {"uris": ["amqp://u:[redacted]@h"], "hash": "\\xff"}
    assert redacted("fields", given) == shown


def test_an_object_is_shown_as_its_text_and_a_deep_table_not_at_all() -> None:
    deep: object = "x"
    for _ in range(100):
        deep = [deep]
    assert HIDDEN in str(redacted("fields", deep))
    assert redacted("error", ValueError("amqp://u:p@h")) == "amqp://u:[redacted]@h"


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    begun = time.thread_time()
    for text in (
        "://a:" * 100_000,
        "?password" * 50_000,
        "authorization: a" * 30_000,
        " " * 500_000 + "://",
        "?" + "a" * 500_000,
    ):
        clean(text)
        redacted("uri", text)
    assert time.thread_time() - begun < 2
