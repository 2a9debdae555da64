"""The headers x-death of dead letters, and the end of cycles."""

import time
from datetime import datetime
from typing import Any

import pytest

from tests.support import codec
from tests.support.amqp_client import Channel, Content
from tests.support.codec import Typed
from tests.support.in_process import InProcessPeer
from tests.support.peer import Name, Peer

CONTINUED = pytest.mark.differs("before 4.0 the history a client sent was continued")
UNORDERED = pytest.mark.differs("before 3.13 only the latest of more than two deaths had its place")
PLANTED = [{"count": Typed("l", 7), "reason": "expired", "queue": "elsewhere", "time": Typed("T", 1), "exchange": "x",
            "routing-keys": ["k"]}]  # fmt: skip


def brief(letter: Content) -> list[tuple[str, str, int]]:
    """Return queue, reason and count of each death in order."""
    return [(death["queue"], death["reason"], death["count"]) for death in letter.headers["x-death"]]


def seconds(broker: Peer) -> float:
    """Return the wall clock of the broker."""
    return broker.clock.timestamp_s() if isinstance(broker, InProcessPeer) else time.time()


def lead(ch: Channel, queue: str, to: str, **arguments: Any) -> None:
    """Declare a queue whose dead letters go to another one."""
    fixed = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
    ch.declare(queue, arguments={**fixed, **{f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}})


# The fields


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen"])
def test_a_death_is_told_in_full(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel, reason: str) -> None:
    more: dict[str, Any] = {"expired": {"x-message-ttl": 1}, "maxlen": {"x-max-length": 0}}.get(reason, {})
    ch.exchange(exchange := name("exchange"), "topic")
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, **more})
    ch.bind(queue, exchange, "#")
    ch.publish(exchange, "a.key", b"body", {"headers": {"CC": ["b.key"], "BCC": ["c.key"]}})
    ch.sync()
    if reason == "rejected":
        ch.reject_next(queue)
    broker.wait(1)
    letter = dead.delivery()
    (death,) = letter.headers["x-death"]
    assert set(death) == {"count", "reason", "queue", "time", "exchange", "routing-keys"}
    when = death["time"]
    assert isinstance(when, datetime) and abs(when.timestamp() - seconds(broker)) <= 2
    expected = {"count": Typed("l", 1), "reason": reason, "queue": queue, "time": Typed("T", int(when.timestamp())),
            "exchange": exchange, "routing-keys": ["a.key", "b.key"]}  # fmt: skip
    for key, value in expected.items():
        assert codec.short_string(key) + codec.field(value) in letter.header, key
    for key in ("reason", "queue", "exchange"):
        assert codec.short_string(f"x-first-death-{key}") + codec.field(expected[key]) in letter.header, key


@pytest.mark.differs("before 3.13 there was no last death")
def test_the_last_death_is_told_as_the_first_is(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.declare(second := name("second"), arguments={"x-dead-letter-exchange": dlx})
    lead(ch, first := name("first"), second, message_ttl=0)
    ch.fill(first, b"body")
    broker.wait(20)
    ch.reject_next(second)
    letter = dead.delivery()
    headers = letter.headers
    assert [headers[f"x-first-death-{key}"] for key in ("reason", "queue", "exchange")] == ["expired", first, ""]
    assert [headers[f"x-last-death-{key}"] for key in ("reason", "queue", "exchange")] == ["rejected", second, ""]
    assert brief(letter)[0] == (second, "rejected", 1)


def test_the_latest_death_comes_first(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.exchange(between := name("between"), "fanout")
    ch.declare(second := name("second"), arguments={"x-dead-letter-exchange": dlx})
    ch.bind(second, between)
    ch.declare(first := name("first"), arguments={"x-dead-letter-exchange": between, "x-message-ttl": 0})
    ch.bind(first, "amq.direct", "key")
    ch.publish("amq.direct", "key", b"body")
    ch.sync()
    broker.wait(20)
    ch.reject_next(second)
    letter = dead.delivery()
    assert brief(letter) == [(second, "rejected", 1), (first, "expired", 1)]
    latest, before = letter.headers["x-death"]
    assert (latest["exchange"], latest["routing-keys"]) == (between, ["key"])
    assert (before["exchange"], before["routing-keys"]) == ("amq.direct", ["key"])
    assert letter.headers["x-first-death-queue"] == first
    assert (letter.method.exchange, letter.method.routing_key) == (dlx, "key")


def test_the_same_death_again_is_counted(broker: Peer, ch: Channel, name: Name) -> None:
    source, parked = name("source"), name("parked")
    ch.declare(source, arguments={"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": parked})
    lead(ch, parked, source, message_ttl=1)
    ch.bind(parked, "amq.direct", parked)
    ch.publish("", source, b"body", {"headers": {"mine": 1}})
    reader = ch.client.consumer(source)
    letter = reader.delivery()
    assert "x-death" not in letter.headers
    for turn in range(1, 4):
        reader.reject(letter.tag, requeue=False)
        reader.sync()
        broker.wait(5)
        letter = reader.delivery()
        assert brief(letter) == [(parked, "expired", turn), (source, "rejected", turn)]
        assert letter.headers["x-first-death-queue"] == source
        assert letter.headers["mine"] == 1
        assert [death["exchange"] for death in letter.headers["x-death"]] == ["amq.direct", ""]
        assert [death["routing-keys"] for death in letter.headers["x-death"]] == [[parked], [source]]


@pytest.mark.in_process("the time is of whole seconds")
def test_the_time_is_of_the_first_such_death(broker: Peer, ch: Channel, name: Name) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name("source")}
    ch.declare(source := name("source"), arguments=arguments)
    ch.fill(source, b"body")
    times = []
    for _ in range(2):
        ch.reject_next(source)
        message = ch.get(source, no_ack=False)
        times.append(message.headers["x-death"][0]["time"])
        ch.nack(message.tag)
        broker.wait(5000)
    assert times[0] == times[1]


# Deaths in a header of a client


def test_what_a_client_says_of_deaths_stays_while_there_is_none(ch: Channel, queue: str) -> None:
    ch.fill(queue, b"body", headers={"x-death": PLANTED})
    message = ch.get(queue)
    assert message is not None and brief(message) == [("elsewhere", "expired", 7)]


@pytest.mark.parametrize("planted", [
    pytest.param(PLANTED, marks=CONTINUED),
    pytest.param([1, "two"], marks=CONTINUED),
    "nonsense",
    7,
    [],
    {"a": "table"},
])  # fmt: skip
def test_claims_are_replaced(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel, planted: Any) -> None:
    ch.declare(second := name("second"), arguments={"x-dead-letter-exchange": dlx, "x-message-ttl": 0})
    lead(ch, first := name("first"), second, message_ttl=0)
    ch.fill(first, b"body", headers={"x-death": planted, "mine": 1})
    letter = dead.delivery()
    assert brief(letter) == [(second, "expired", 1), (first, "expired", 1)]
    assert letter.headers["mine"] == 1


@CONTINUED
def test_what_is_published_again_starts_anew(ch: Channel, source: str, dead: Channel) -> None:
    ch.fill(source, b"body")
    ch.reject_next(source)
    ch.publish("", source, b"body", dead.delivery().property_bytes)
    ch.reject_next(source)
    assert brief(dead.delivery()) == [(source, "rejected", 1)]


@pytest.mark.differs("before 4.0 the history a client sent was obeyed")
def test_no_death_a_client_tells_of_ends_a_circle(ch: Channel, name: Name) -> None:
    ch.declare(target := name("target"))
    lead(ch, first := name("first"), target, message_ttl=0)
    reader = ch.client.consumer(target, no_ack=True)
    ch.fill(first, b"body", headers={"x-death": [{**PLANTED[0], "queue": target}]})
    assert brief(reader.delivery()) == [(first, "expired", 1)]


# Circles


@pytest.mark.parametrize("arguments", [{"x-message-ttl": 1}, {"x-message-ttl": 0}, {"x-max-length": 0}])
def test_what_would_return_is_dropped(broker: Peer, ch: Channel, name: Name, arguments: dict[str, int]) -> None:
    ch.declare(queue := name("queue"), arguments={"x-dead-letter-exchange": "amq.direct", **arguments})
    ch.bind(queue, "amq.direct", queue)
    ch.fill(queue, b"body")
    broker.wait(30)
    assert ch.count(queue) == 0
    ch.consume(queue)
    ch.nothing(queue)


def test_what_would_return_to_its_queue_still_goes_to_the_others(broker: Peer, ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), "fanout")
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": exchange, "x-message-ttl": 0})
    ch.declare(other := name("other"))
    for queue in (source, other):
        ch.bind(queue, exchange)
    reader = ch.client.consumer(other, no_ack=True)
    ch.fill(source, b"body")
    assert brief(reader.delivery()) == [(source, "expired", 1)]
    reader.nothing(source, other)


def test_a_circle_of_queues_ends_where_it_began(broker: Peer, ch: Channel, name: Name) -> None:
    names = [name(f"ring-{at}") for at in range(3)]
    for queue, to in zip(names, names[1:] + names[:1], strict=True):
        lead(ch, queue, to, message_ttl=1)
    ch.fill(names[1], b"body")
    broker.wait(100)
    assert [ch.count(queue) for queue in names] == [0, 0, 0]


def test_a_rejection_keeps_a_circle_alive(broker: Peer, ch: Channel, name: Name) -> None:
    first, second = name("first"), name("second")
    lead(ch, first, second, message_ttl=1)
    lead(ch, second, first)
    reader = ch.client.consumer(second)
    ch.fill(first, b"body")
    for turn in range(1, 6):
        broker.wait(5)
        letter = reader.delivery()
        expected = [(first, "expired", turn), (second, "rejected", turn - 1)]
        assert brief(letter) == expected[: 1 if turn == 1 else 2]
        reader.reject(letter.tag, requeue=False)
        reader.sync()


@UNORDERED
def test_a_rejection_before_does_not_save_a_circle_behind_it(broker: Peer, ch: Channel, name: Name) -> None:
    start, one, two = name("start"), name("one"), name("two")
    lead(ch, start, one)
    lead(ch, one, two, message_ttl=1)
    lead(ch, two, one, message_ttl=1)
    ch.fill(start, b"body")
    ch.reject_next(start)
    broker.wait(100)
    assert [ch.count(queue) for queue in (start, one, two)] == [0, 0, 0]


@UNORDERED
def test_a_history_does_not_grow_with_the_turns(broker: Peer, ch: Channel, name: Name) -> None:
    names = [name(f"queue-{at}") for at in range(4)]
    for queue, to in zip(names[:3], names[1:], strict=True):
        lead(ch, queue, to, message_ttl=1)
    lead(ch, names[3], names[3])  # rejected ones come back to it
    reader = ch.client.consumer(names[3])
    ch.fill(names[0], b"body")
    broker.wait(30)
    for _ in range(9):
        reader.reject(reader.delivery().tag, requeue=False)
    letter = reader.delivery()
    newest = [(names[3], "rejected", 9)]
    assert brief(letter) == newest + [(queue, "expired", 1) for queue in reversed(names[:3])]
