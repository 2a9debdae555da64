"""Publishes with different routing keys that arrive together, and properties recognised by a pattern."""

import random
import re
from collections.abc import Callable

import pytest
from pamqp.commands import Basic

from tests.support import codec
from tests.support.amqp_client import Channel, Client
from tests.support.in_process import InProcessPeer
from tests.support.session import connected, new_node, pipe_of
from tests.support.traced_memory import traced_memory
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.session import checked_properties
from warren.broker.session.checked_properties import PATTERN_AFTER, VALUES_LIMIT, CheckedProperties

QUEUES = ("one", "two", "three")


def frames(exchange: str, key: str, body: bytes = b"body", mandatory: bool = False, fields: object = None) -> bytes:
    method = codec.method_frame(1, Basic.Publish, {"exchange": exchange, "routing_key": key, "mandatory": mandatory})
    return method + codec.header_frame(1, len(body), fields) + codec.body_frames(1, body, 131072)


@pytest.fixture
def client() -> Client:
    client = InProcessPeer().connect()
    ch = client.channel(1)
    for queue in QUEUES:
        ch.declare(queue)
    return client


def channel(client: Client) -> Channel:
    return Channel(client, 1)


def test_the_order_within_a_queue_is_kept_where_some_messages_have_several_queues(client: Client) -> None:
    chance = random.Random(3)
    ch = channel(client)
    ch.exchange("fanout", "fanout")
    ch.exchange("direct")
    for queue in QUEUES[:2]:
        ch.bind(queue, "fanout")
        ch.bind(queue, "direct", "both")
    both = QUEUES[:2]
    routes = {("fanout", ""): both, ("direct", "both"): both, ("", "one"): ("one",), ("", "three"): ("three",)}
    sent: dict[str, list[bytes]] = {queue: [] for queue in QUEUES}
    stream = b""
    for number in range(1_000):
        (exchange, key), queues = chance.choice(list(routes.items()))
        body = b"%d" % number
        stream += frames(exchange, key, body)
        for queue in queues:
            sent[queue].append(body)
    client.raw(stream)
    assert {queue: ch.drain(queue) for queue in QUEUES} == sent


def test_publishes_before_a_refused_one_are_enqueued_and_later_ones_are_not(client: Client) -> None:
    client.raw(frames("", "one", b"1") + frames("", "two", b"2") + frames("no", "key", b"3") + frames("", "one", b"4"))
    closed = channel(client).expect_close(404)
    assert (closed.class_id, closed.method_id) == (60, 40)
    other = client.channel(2)
    assert (other.drain("one"), other.drain("two")) == ([b"1"], [b"2"])


def test_the_confirms_name_the_publishes_that_a_full_queue_refused(client: Client) -> None:
    ch = channel(client)
    ch.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.confirm()
    client.raw(b"".join(frames("", queue) for queue in ("one", "full", "two", "full", "three", "full")))
    assert ch.confirms(range(1, 7)) == ({1, 2, 3, 5}, {4, 6})


def test_messages_whose_properties_need_a_look_keep_their_place(client: Client) -> None:
    copy = {"headers": {"CC": ["two"]}}
    first, last = frames("", "one", b"1"), frames("", "two", b"3") + frames("", "one", b"4")
    client.raw(first + frames("", "one", b"2", fields=copy) + last)
    ch = channel(client)
    assert (ch.drain("one"), ch.drain("two")) == ([b"1", b"2", b"4"], [b"2", b"3"])


# Properties


def task(number: int) -> dict[str, object]:
    return {
        "content_type": "application/json",
        "delivery_mode": 1,
        "correlation_id": f"{number:08}",
        "reply_to": f"reply-{number:08}-xxxxxx",  # as long as the name of direct reply-to
        "headers": {"id": f"{number:08}", "retries": number, "task": "add", "origin": {"host": "a"}},
    }


def raw_of(fields: dict[str, object]) -> bytes:
    return codec.header_frame(1, 0, fields)[19:-1]


@pytest.fixture
def checked() -> CheckedProperties:
    """One that has a pattern of `task`."""
    checked = CheckedProperties()
    for number in range(PATTERN_AFTER):
        checked.check(raw_of(task(number)))
    return checked


@pytest.fixture
def no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(raw: bytes) -> int:
        raise AssertionError("checked field by field")

    monkeypatch.setattr(checked_properties.properties, "check", check)


def test_properties_of_a_frequent_structure_are_not_read_by_field(checked: CheckedProperties, no_check: None) -> None:
    raw = raw_of(task(99_999_999))
    checked.check(raw)
    assert checked.raw == raw and not checked.persistent and not checked.special


@pytest.mark.parametrize(
    ("change", "special", "persistent"),
    [
        (lambda fields: fields["headers"].update(CC=fields["headers"].pop("id")), True, False),
        (lambda fields: fields.update(reply_to="amq.rabbitmq.reply-to"), True, False),
        (lambda fields: fields.update(delivery_mode=2), False, True),
        (lambda fields: fields.update(headers={**fields["headers"], "task": 7}), False, False),
        (lambda fields: (fields.pop("correlation_id"), fields.update(expiration="12345678")), True, False),
        (lambda fields: (fields.pop("correlation_id"), fields.update(user_id="12345678")), True, False),
    ],
    ids=["CC", "direct reply-to", "persistent", "another type", "expiration", "user-id"],
)
def test_a_difference_that_matters_is_seen(
    checked: CheckedProperties, change: Callable[[dict[str, object]], object], special: bool, persistent: bool
) -> None:
    fields = task(5)
    change(fields)
    checked.check(raw_of(fields))
    assert (checked.special, checked.persistent) == (special, persistent)


def test_a_pattern_refuses_what_a_check_refuses(checked: CheckedProperties) -> None:
    good = raw_of(task(5))
    chance = random.Random(2)
    for _ in range(3_000):
        raw = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        outcome = []
        for each in (CheckedProperties(), checked):
            try:
                each.check(bytes(raw))
                outcome.append((each.special, each.persistent))
            except Exception as error:
                outcome.append((type(error), str(error)))
        assert outcome[0] == outcome[1], bytes(raw)


def test_properties_with_very_many_fields_get_no_pattern() -> None:
    checked = CheckedProperties()
    fields = {"headers": {f"field{number}": "value" for number in range(VALUES_LIMIT + 1)}}
    for number in range(2 * PATTERN_AFTER):
        checked.check(raw_of({**fields, "message_id": f"{number:08}"}))
    assert not checked._patterns


def test_the_number_of_patterns_and_of_counted_lengths_is_bounded() -> None:
    checked = CheckedProperties()
    for length in range(checked_properties.PATTERNS_LIMIT + 5):
        for number in range(PATTERN_AFTER):
            checked.check(raw_of({"message_id": f"{number:08}", "type": "x" * length}))
    assert len(checked._patterns) == checked_properties.PATTERNS_LIMIT
    for length in range(2 * checked_properties.LENGTHS_LIMIT):
        checked.check(raw_of({"headers": {"a": "x" * length}}))
    assert len(checked._checks) <= checked_properties.LENGTHS_LIMIT


def test_few_patterns_are_made_at_once_and_they_count_as_work_of_the_connection() -> None:
    connection = pipe_of(connected(new_node())).connection
    checked = CheckedProperties(connection.charge)
    encoded = [raw_of({"headers": {"a": "x" * length}}) for length in range(100)]
    for _ in range(PATTERN_AFTER - 1):
        for each in encoded:
            checked.check(each)
    assert not checked._patterns and not connection.spent
    for each in encoded:
        checked.check(each)
    assert len(checked._patterns) == 2 and connection.spent == 2 * checked_properties.PATTERN_COST
    connection.spent = 0


def test_what_a_channel_keeps_of_properties_is_limited_in_bytes() -> None:
    """The worst are long ones with many values, of which patterns are the largest."""
    channels = [CheckedProperties() for _ in range(4)]
    longest = checked_properties.RAW_BYTES
    with traced_memory() as memory:
        for checked in channels:
            for length in range(longest - 600, longest + 200, 20):
                names = {f"{number:02}" + "n" * (length // 20 - 7): "v" for number in range(20)}
                encoded = Properties(headers=Table.of(names)).encode()
                for _ in range(PATTERN_AFTER):
                    checked.check(encoded)
                    checked.raw = b""
            checked.check(Properties(headers=Table.of({"k": "v" * 100_000})).encode())
        re.purge()  # the module keeps some patterns, too
    assert channels[0]._patterns and memory.held_bytes < len(channels) * 40_000
