"""Length limits of queues."""

from typing import Any

import pytest
from pamqp.commands import Tx

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

BODIES = [b"0", b"1", b"2", b"3", b"4"]


def declare_limited(ch: Channel, queue: str, length: int | None = None, **more: Any) -> str:
    """Declare a queue with limits, and optionally `bytes_`, `overflow`, `dlx` and `durable`."""
    arguments = {"x-max-length": length, "x-max-length-bytes": more.get("bytes_"), "x-overflow": more.get("overflow"),
                 "x-dead-letter-exchange": more.get("dlx")}  # fmt: skip
    given = {key: value for key, value in arguments.items() if value is not None}
    ch.declare(queue, durable=more.get("durable", False), arguments=given)
    return queue


# The front is dropped


@pytest.mark.parametrize("length", [0, 1, 2, 3])
@pytest.mark.parametrize("overflow", [None, "drop-head"])
def test_the_oldest_are_dropped(ch: Channel, name: Name, length: int, overflow: str | None) -> None:
    declare_limited(ch, queue := name("queue"), length, overflow=overflow)
    for filled in range(1, 6):
        ch.fill(queue, BODIES[filled - 1])
        assert ch.count(queue) == min(filled, length)
    assert ch.drain(queue) == BODIES[5 - length :]


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_the_dropped_are_dead_lettered_in_order(ch: Channel, name: Name, dlx: str, dead: Channel, length: int) -> None:
    declare_limited(ch, queue := name("queue"), length, dlx=dlx)
    ch.fill(queue, *BODIES)
    assert [letter.body for letter in dead.deliveries(5 - length)] == BODIES[: 5 - length]
    dead.nothing(queue, name("letters"))
    assert ch.drain(queue) == BODIES[5 - length :]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_what_is_out_does_not_count(ch: Channel, name: Name, length: int) -> None:
    declare_limited(ch, queue := name("queue"), length)
    ch.fill(queue, *BODIES[:length])
    for _ in range(length):
        assert ch.get(queue, no_ack=False) is not None
    ch.fill(queue, *BODIES[:length])
    assert ch.count(queue) == length


@pytest.mark.parametrize("length", [1, 2, 3])
def test_what_comes_back_is_dropped_first(ch: Channel, name: Name, dlx: str, dead: Channel, length: int) -> None:
    declare_limited(ch, queue := name("queue"), length, dlx=dlx)
    old = [b"old %d" % at for at in range(length)]
    ch.fill(queue, *old)
    out = [ch.get(queue, no_ack=False) for _ in old]
    ch.fill(queue, *BODIES[:length])
    ch.nack(out[-1].tag, multiple=True)
    ch.sync()
    assert [letter.body for letter in dead.deliveries(length)] == old
    assert ch.drain(queue) == BODIES[:length]


@pytest.mark.parametrize(
    ("overflow", "length", "more", "kept"), [(None, 3, 1, [1, 2, 3]), ("reject-publish", 2, 2, [0, 1, 2, 3])]
)
def test_what_comes_back_stays_while_there_is_room_or_if_the_queue_refuses(
    ch: Channel, name: Name, overflow: str | None, length: int, more: int, kept: list[int]
) -> None:
    declare_limited(ch, queue := name("queue"), length, overflow=overflow)
    ch.fill(queue, *[b"%d" % number for number in range(length)])
    out = [ch.get(queue, no_ack=False) for _ in range(length)]
    ch.fill(queue, *[b"%d" % (length + number) for number in range(more)])
    ch.nack(out[-1].tag, multiple=True)
    ch.sync()
    assert [int(body) for body in ch.drain(queue)] == kept


def test_a_queue_of_length_zero_hands_over(client: Client, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    declare_limited(ch, queue := name("queue"), 0, dlx=dlx)
    reader = client.consumer(queue, prefetch=1)
    ch.fill(queue, b"taken", b"too much")
    delivery = reader.delivery()
    assert (delivery.body, dead.delivery().body) == (b"taken", b"too much")
    reader.nack(delivery.tag)
    assert dead.delivery().body == b"taken"  # though its consumer waits again
    reader.nothing(queue)


def test_what_is_dropped_is_confirmed(ch: Channel, name: Name) -> None:
    declare_limited(ch, queue := name("queue"), 2, durable=True)
    ch.confirm()
    for _ in range(50):
        ch.publish("", queue, b"body", {"delivery_mode": 2})
    assert ch.confirms(range(1, 51)) == (set(range(1, 51)), set())
    assert ch.count(queue) == 2


# Bytes


def test_bytes_are_those_of_the_ready_bodies(ch: Channel, name: Name) -> None:
    declare_limited(ch, queue := name("queue"), bytes_=10)
    ch.fill(queue, b"12345", b"67890", headers={"long": "x" * 100})
    assert ch.count(queue) == 2
    ch.fill(queue, b"")
    assert ch.count(queue) == 3
    ch.fill(queue, b"a")
    assert ch.drain(queue) == [b"67890", b"", b"a"]
    ch.fill(queue, b"12345", b"67890")
    assert ch.get(queue, no_ack=False) is not None
    ch.fill(queue, b"abcde")
    assert ch.drain(queue) == [b"67890", b"abcde"]


def test_a_large_message_pushes_out_many(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    declare_limited(ch, queue := name("queue"), bytes_=10, dlx=dlx)
    ch.fill(queue, b"123", b"456", b"789", b"12345678")
    assert [letter.body for letter in dead.deliveries(3)] == [b"123", b"456", b"789"]
    assert ch.count(queue) == 1
    ch.fill(queue, b"x" * 11)
    assert [letter.body for letter in dead.deliveries(2)] == [b"12345678", b"x" * 11]
    assert ch.count(queue) == 0


def test_no_bytes_leave_room_for_empty_bodies(ch: Channel, name: Name) -> None:
    declare_limited(ch, queue := name("queue"), bytes_=0)
    ch.fill(queue, b"", b"x")
    assert ch.count(queue) == 0
    ch.fill(queue, b"", b"")
    assert ch.drain(queue) == [b"", b""]


@pytest.mark.parametrize(("length", "size"), [(2, 100), (100, 2)])
def test_both_limits_hold(ch: Channel, name: Name, length: int, size: int) -> None:
    declare_limited(ch, queue := name("queue"), length, bytes_=size)
    ch.fill(queue, *BODIES)
    assert ch.drain(queue) == BODIES[3:]


def test_a_message_of_many_frames_counts_whole(ch: Channel, name: Name) -> None:
    declare_limited(ch, queue := name("queue"), bytes_=400_000)
    ch.fill(queue, bytes(300_000), b"x" * 300_000)
    assert ch.drain(queue) == [b"x" * 300_000]


# Publishes are refused


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
@pytest.mark.parametrize("durable", [False, True])
def test_a_full_queue_refuses(ch: Channel, name: Name, overflow: str, durable: bool) -> None:
    declare_limited(ch, queue := name("queue"), 2, overflow=overflow, durable=durable)
    ch.confirm()
    for body in BODIES:
        ch.publish("", queue, body, {"delivery_mode": 2})
    assert ch.confirms(range(1, 6)) == ({1, 2}, {3, 4, 5})
    assert ch.drain(queue) == BODIES[:2]
    ch.publish("", queue, b"again")
    assert ch.confirms([6]) == ({6}, set())


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_queue_without_room_for_the_bytes_refuses(ch: Channel, name: Name, overflow: str) -> None:
    declare_limited(ch, queue := name("queue"), bytes_=10, overflow=overflow)
    ch.confirm()
    for body in (b"12345", b"123456", b"67890", b""):
        ch.publish("", queue, body)
    acked, nacked = ch.confirms(range(1, 5))
    assert (acked, nacked) == ({1, 3, 4}, {2})
    assert ch.drain(queue) == [b"12345", b"67890", b""]


def test_another_queue_takes_what_one_refuses(ch: Channel, name: Name) -> None:
    declare_limited(ch, full := name("full"), 1, overflow="reject-publish")
    ch.declare(other := name("other"))
    ch.exchange(exchange := name("exchange"), "fanout")
    for queue in (full, other):
        ch.bind(queue, exchange)
    ch.confirm()
    for body in BODIES[:3]:
        ch.publish(exchange, "", body, mandatory=True)
    assert ch.confirms([1, 2, 3]) == ({1}, {2, 3})  # once each, and nothing was returned
    assert (ch.drain(full), ch.drain(other)) == (BODIES[:1], BODIES[:3])
    ch.nothing()


def test_a_full_queue_refuses_though_a_consumer_waits(client: Client, ch: Channel, name: Name) -> None:
    declare_limited(ch, queue := name("queue"), 0, overflow="reject-publish")
    reader = client.consumer(queue)
    ch.confirm()
    ch.publish("", queue, b"body", mandatory=True)
    assert ch.confirms([1]) == (set(), {1})
    ch.nothing()  # it is not returned
    reader.nothing(queue)


def test_a_busy_consumer_frees_no_room(client: Client, ch: Channel, name: Name) -> None:
    declare_limited(ch, queue := name("queue"), 1, overflow="reject-publish")
    reader = client.consumer(queue, prefetch=1)
    ch.confirm()
    for number in (1, 2):
        ch.publish("", queue, b"%d" % number)
        assert ch.confirms([number]) == ({number}, set())
    out = reader.delivery()
    ch.publish("", queue, b"3")
    assert ch.confirms([3]) == (set(), {3})
    reader.ack(out.tag)
    assert reader.delivery().body == b"2"
    ch.publish("", queue, b"4")
    assert ch.confirms([4]) == ({4}, set())


def test_what_is_refused_may_go_to_the_dead_letters(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    declare_limited(ch, queue := name("queue"), 1, overflow="reject-publish-dlx", dlx=dlx)
    ch.confirm()
    for body in BODIES[:3]:
        ch.publish("", queue, body, {"expiration": "60000"})
    assert ch.confirms([1, 2, 3]) == ({1}, {2, 3})
    letters = dead.deliveries(2)
    assert [letter.body for letter in letters] == BODIES[1:3]
    for letter in letters:
        (death,) = letter.headers["x-death"]
        assert (death["reason"], death["queue"], death["count"]) == ("maxlen", queue, 1)
        assert letter.properties.expiration is None
    assert ch.drain(queue) == BODIES[:1]


def test_what_is_refused_is_no_dead_letter_by_itself(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    declare_limited(ch, queue := name("queue"), 1, overflow="reject-publish", dlx=dlx)
    ch.fill(queue, *BODIES)
    dead.nothing(queue, name("letters"))
    assert ch.drain(queue) == BODIES[:1]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_commit_refused_in_part_fails(client: Client, ch: Channel, name: Name, overflow: str) -> None:
    declare_limited(ch, queue := name("queue"), 1, overflow=overflow)
    other = client.channel()
    other.transact()
    for body in BODIES[:3]:
        other.publish("", queue, body)
    assert other.refused(406, Tx.Commit).reply_text == "PRECONDITION_FAILED - partial tx completion"
    assert ch.drain(queue) == BODIES[:1]


# Policies


@pytest.mark.policies
@pytest.mark.parametrize(("key", "limit"), [("max-length", 2), ("max-length-bytes", 2)])
def test_a_policy_trims(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel, key: str, limit: int) -> None:
    declare_limited(ch, larger := name("larger"), 4, dlx=dlx)
    ch.declare(plain := name("plain"))
    for queue in (larger, plain):
        ch.fill(queue, *BODIES)
    assert dead.delivery().body == BODIES[0]
    broker.set_policy(name("length"), name(""), {key: limit}, apply_to="queues")
    assert [letter.body for letter in dead.deliveries(2)] == BODIES[1:3]
    assert ch.count(plain) == limit
    ch.fill(plain, b"5")
    assert ch.drain(plain) == [b"4", b"5"]
    assert ch.drain(larger) == BODIES[3:]
    broker.clear_policy(name("length"))
    ch.fill(plain, *BODIES)
    assert ch.count(plain) == 5


@pytest.mark.policies
def test_a_policy_says_what_overflow_does(broker: Peer, ch: Channel, name: Name, queue: str) -> None:
    definition = {"max-length": 1, "overflow": "reject-publish"}
    broker.set_policy(name("overflow"), name(""), definition, apply_to="queues")
    ch.fill(queue, b"0", b"1")
    assert ch.drain(queue) == [b"0"]
