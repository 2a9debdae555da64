"""Arguments of queue.declare. The errors are those of a live RabbitMQ."""

import pytest

from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table, Value
from warren.broker.core.queues.arguments import (
    KNOWN,
    check_consumer_arguments,
    check_queue_arguments,
    check_queue_type,
    differing_queue_argument,
    inequivalent_argument,
)

WHERE = "queue 'q' in vhost '/'"
LONGEST_MS = 315_360_000_000
NO_INTEGER = '"expected integer, got longstr"'


def accepted(key: str, value: object) -> bool:
    arguments = {key: value}
    if key == "x-dead-letter-routing-key":
        arguments["x-dead-letter-exchange"] = "x"
    try:
        check_queue_arguments(Table.of(arguments), WHERE)
    except PreconditionFailed:
        return False
    return True


@pytest.mark.parametrize("letter", "bBsuIilL")
def test_a_number_may_be_of_any_integer_type(letter: str) -> None:
    for key in ("x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority"):
        assert accepted(key, (letter, 5))


@pytest.mark.parametrize("value", ["5", 5.0, True, None, ("D", (0, 5)), ("T", 5), [5], {}])
def test_a_number_may_be_of_no_other_type(value: object) -> None:
    numbers = ("x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-queue-version")
    assert not any(accepted(key, value) for key in numbers)


@pytest.mark.parametrize(
    "key, good, bad",
    [
        ("x-expires", [1, LONGEST_MS], [0, -1, LONGEST_MS + 1]),
        ("x-message-ttl", [0, LONGEST_MS], [-1, LONGEST_MS + 1]),
        ("x-max-length", [0, 1 << 40], [-1]),
        ("x-max-length-bytes", [0, 1 << 40], [-1]),
        ("x-max-priority", [0, 255], [-1, 256]),
        ("x-overflow", ["drop-head", "reject-publish", "reject-publish-dlx"], ["", "drop", 1]),
        ("x-single-active-consumer", [True, False], [1, "true", None]),
        ("x-dead-letter-exchange", ["", "x"], [1, None, ("x", b"x")]),
        ("x-dead-letter-routing-key", ["", "k" * 255], [1, None, "k" * 256, "é" * 128]),
        ("x-queue-type", ["classic"], ["", "nosuch", 1]),
        ("x-queue-mode", ["lazy", "default"], ["zzz", 1]),
        ("x-queue-version", [1, 2], [0, 3]),
        ("x-consumer-timeout", [0, 5000], [-1, "5000"]),
        ("x-delayed-retry-type", ["disabled"], ["all", "failed", 1]),
        ("x-delayed-retry-min", [], [0, 1000]),
        ("unknown", [0, -1, "text", None, [], {}], []),
    ],
)
def test_which_values_each_argument_accepts(key: str, good: list[object], bad: list[object]) -> None:
    assert [value for value in good + bad if accepted(key, value)] == good


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"x-expires": 0}, "invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}"),
        ({"x-expires": -1}, "invalid arg 'x-expires' for queue 'q' in vhost '/': {value_negative,-1}"),
        ({"x-message-ttl": "1"}, "invalid arg 'x-message-ttl' for queue 'q' in vhost '/': " + NO_INTEGER),
        ({"x-message-ttl": LONGEST_MS + 1}, f"{{value_too_large,{LONGEST_MS + 1}}}"),
        ({"x-max-priority": 256}, "{max_value_exceeded,256}"),
        ({"x-overflow": "x"}, "invalid arg 'x-overflow' for queue 'q' in vhost '/': invalid_overflow"),
        ({"x-dead-letter-exchange": 1}, f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {WHERE}"),
        ({"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        ({"x-queue-mode": "zzz"}, "\"unsupported queue mode 'zzz'\""),
        ({"x-queue-type": True}, "invalid arg 'x-queue-type' for queue 'q' in vhost '/': {unacceptable_type,bool}"),
        ({"x-single-active-consumer": "x"}, "{unacceptable_type,longstr}"),
        ({"x-overflow": 1}, "{unacceptable_type,signedint}"),
    ],
)
def test_the_error_says_what_is_wrong(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_queue_arguments(Table.of(arguments), WHERE)
    assert caught.value.text.endswith(text)


@pytest.mark.parametrize(
    "timeout, text", [(0, ""), (("l", 5000), ""), ("abc", NO_INTEGER), (-5, "{value_negative,-5}")]
)
def test_the_timeout_of_a_consumer_is_an_integer(timeout: object, text: str) -> None:
    arguments = Table.of({"x-consumer-timeout": timeout, "unknown": "text"})
    for type_ in ("classic", "quorum"):
        try:
            check_consumer_arguments(arguments, WHERE, type_)
            assert not text
        except PreconditionFailed as error:
            assert text and error.text == f"invalid arg 'x-consumer-timeout' for {WHERE}: {text}"


@pytest.mark.parametrize(
    "one, other",
    [
        ({"x-expires": ("b", 5)}, {"x-expires": ("l", 5)}),
        ({"x-queue-type": "classic"}, {}),
        ({"nobody": 1}, {"knows": 2}),
    ],
)
def test_what_agrees(one: dict[str, Value], other: dict[str, Value]) -> None:
    assert differing_queue_argument(Table.of(one), Table.of(other)) is None
    assert differing_queue_argument(Table.of(other), Table.of(one)) is None


@pytest.mark.parametrize("key", sorted(set(KNOWN)))
def test_each_known_argument_makes_a_difference(key: str) -> None:
    value = "other" if key == "x-queue-type" else 5
    assert differing_queue_argument(Table.of({key: value}), Table.EMPTY) == key
    assert differing_queue_argument(Table.EMPTY, Table.of({key: value})) == key
    assert differing_queue_argument(Table.of({key: 5}), Table.of({key: 5.0})) == key


@pytest.mark.parametrize(("received", "current"), [("quorum", None), (None, "quorum"), ("classic", "quorum")])
def test_a_queue_type_that_is_not_given_is_classic_in_the_error_too(received: str | None, current: str | None) -> None:
    tables = [Table.of({"x-queue-type": type_}) if type_ else Table.EMPTY for type_ in (received, current)]
    said = inequivalent_argument("x-queue-type", WHERE, *tables).text
    shown = f"received '{received or 'classic'}' but current is '{current or 'classic'}'"
    assert said == f"inequivalent arg 'x-queue-type' for {WHERE}: {shown}"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("x-single-active-consumer", "a", "{unacceptable_type,longstr}"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-queue-type", True, "{unacceptable_type,bool}"),
        ("x-dead-letter-routing-key", 1, "{unacceptable_type,signedint}"),
        ("x-queue-leader-locator", "nope", "invalid_queue_locator_arg"),
    ],
)
def test_the_reasons_are_those_of_rabbitmq_4(key: str, value: object, reason: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_queue_arguments(Table.of({key: value}), "queue 'q' in vhost '/'")
    assert caught.value.text == f"invalid arg '{key}' for queue 'q' in vhost '/': {reason}"


@pytest.mark.parametrize("type_", ["", "classic", "quorum"])
@pytest.mark.parametrize(
    "key, of",
    [
        *[(key, "") for key in ("x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size")],
        *[
            (f"x-{key}", "quorum")
            for key in ("max-in-memory-length", "max-in-memory-bytes", "quorum-initial-group-size")
        ],
        *[(key, "classic") for key in ("x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator")],
    ],
)
def test_an_argument_of_another_type_of_queue_is_refused(key: str, of: str, type_: str) -> None:
    arguments = Table.of({key: 1, **({"x-queue-type": type_} if type_ else {})})
    flags = {"durable": True, "exclusive": False, "auto_delete": False}
    actual = type_ or "classic"
    if of == actual:
        check_queue_type(arguments, WHERE, **flags)
        return
    with pytest.raises(PreconditionFailed) as caught:
        check_queue_type(arguments, WHERE, **flags)
    assert caught.value.text == f"invalid arg '{key}' for {WHERE} of queue type rabbit_{actual}_queue"
