"""Dead letters: their routes, and the changes to their properties."""

import pytest
from pamqp.commands import Exchange

from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.peer import Name, Peer

# What is changed, and what is not


def test_the_expiration_goes_and_is_remembered(broker: Peer, ch: Channel, source: str, name: Name, dlx: str) -> None:
    ch.fill(source, b"body", expiration="100")
    broker.wait(150)
    ch.fill(name("letters"))
    broker.wait(500)
    (letter,) = [ch.get(name("letters"))]  # it did not expire once more
    assert letter is not None and letter.properties.expiration is None
    assert letter.headers["x-death"][0]["original-expiration"] == "100"


def test_everything_else_of_a_message_stays(ch: Channel, source: str, dlx: str, dead: Channel) -> None:
    before = {"content_type": "text/x", "content_encoding": "none"}
    after = {"delivery_mode": 2, "priority": 7, "correlation_id": "c", "reply_to": "r", "message_id": "m",
             "timestamp": 12345, "type": "t", "user_id": "guest", "app_id": "a"}  # fmt: skip
    ch.fill(source, bytes(range(256)) * 1000, **before, headers={"mine": "own"}, **after)
    ch.reject_next(source)
    letter = dead.delivery()
    sent = codec.property_bytes({**before, "headers": {}, **after})
    assert letter.property_bytes[:2] == sent[:2]  # the same properties, and around the headers the same bytes
    head, tail = codec.property_bytes(before)[2:], codec.property_bytes(after)[2:]
    assert letter.property_bytes[2:].startswith(head) and letter.property_bytes.endswith(tail)
    assert letter.headers["mine"] == "own"
    assert letter.body == bytes(range(256)) * 1000
    assert (letter.method.exchange, letter.method.routing_key) == (dlx, source)


def test_what_was_absent_stays_absent(ch: Channel, source: str, dead: Channel) -> None:
    ch.fill(source, b"")
    ch.reject_next(source)
    letter = dead.delivery()
    assert letter.body == b""
    assert letter.property_bytes[:2] == codec.property_bytes({"headers": {}})[:2]


# Where it goes


def test_the_key_that_is_given_replaces_all_others(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "new"}
    ch.declare(source := name("source"), arguments=arguments)
    targets = {key: name(f"target-{key}") for key in ("new", "cc", "bcc")}
    for key, target in targets.items():
        ch.declare(target)
        ch.bind(target, exchange, key)
    ch.bind(targets["cc"], exchange, source)
    ch.fill(source, b"body", headers={"CC": ["cc"], "BCC": ["bcc"]})
    consumer = ch.client.consumer(targets["new"], no_ack=True)
    ch.reject_next(source)
    letter = consumer.delivery()
    assert (letter.method.exchange, letter.method.routing_key) == (exchange, "new")
    assert [ch.count(targets[key]) for key in ("cc", "bcc")] == [0, 0]


def test_without_one_it_is_routed_by_all_its_own(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": exchange})
    targets = [name(f"target-{key}") for key in ("own", "cc")]
    for key, target in zip([source, "cc"], targets, strict=True):
        ch.declare(target)
        ch.bind(target, exchange, key)
    consumers = [ch.client.channel() for _ in targets]
    for target, consumer in zip(targets, consumers, strict=True):
        consumer.consume(target, no_ack=True)
    ch.fill(source, b"body", headers={"CC": ["cc"]})
    ch.reject_next(source)
    for consumer in consumers:
        letter = consumer.delivery()
        assert letter.method.routing_key == source
        assert letter.headers["CC"] == ["cc"]
        assert letter.headers["x-death"][0]["routing-keys"] == [source, "cc"]


def test_blind_copies_route_a_dead_letter_too(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": exchange})
    ch.declare(blind := name("blind"))
    ch.bind(blind, exchange, "blind key")
    reader = ch.client.consumer(blind, no_ack=True)
    ch.fill(source, b"body", headers={"BCC": ["blind key"]})
    ch.reject_next(source)
    letter = reader.delivery()
    assert letter.method.routing_key == source
    assert "BCC" not in letter.headers and "CC" not in letter.headers
    assert letter.headers["x-death"][0]["routing-keys"] == [source]


def test_the_default_exchange_takes_them_to_a_queue(ch: Channel, queue: str, name: Name) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    ch.declare(source := name("source"), arguments=arguments)
    ch.fill(source, b"body")
    reader = ch.client.consumer(queue, no_ack=True)
    ch.reject_next(source)
    letter = reader.delivery()
    assert (letter.method.exchange, letter.method.routing_key) == ("", queue)


def test_an_internal_exchange_takes_them(ch: Channel, name: Name, queue: str) -> None:
    ch.exchange(internal := name("internal"), "fanout", internal=True)
    ch.bind(queue, internal)
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": internal})
    ch.fill(source, b"body")
    reader = ch.client.consumer(queue, no_ack=True)
    ch.reject_next(source)
    assert reader.delivery().body == b"body"


def test_the_alternate_exchange_takes_what_is_not_routed(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.exchange(direct := name("direct"), "direct", arguments={"alternate-exchange": dlx})
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": direct})
    ch.fill(source, b"body")
    ch.reject_next(source)
    letter = dead.delivery()
    assert (letter.method.exchange, letter.method.routing_key) == (direct, source)


def test_exchanges_behind_it_take_them_too(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.exchange(first := name("first"), "topic")
    ch.call(Exchange.Bind, source=first, destination=dlx, routing_key="#")
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": first})
    ch.fill(source, b"body")
    ch.reject_next(source)
    assert dead.delivery().method.exchange == first


def test_a_headers_exchange_can_match_the_death(ch: Channel, name: Name, queue: str) -> None:
    ch.exchange(exchange := name("exchange"), "headers")
    ch.bind(queue, exchange, arguments={"x-match": "all-with-x", "x-first-death-reason": "rejected"})
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": exchange})
    reader = ch.client.consumer(queue, no_ack=True)
    ch.fill(source, b"body")
    ch.reject_next(source)
    assert reader.delivery().body == b"body"


def test_a_full_queue_does_not_take_it_and_it_is_lost(ch: Channel, name: Name, dlx: str) -> None:
    ch.declare(full := name("full"), arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.bind(full, dlx)
    ch.fill(full, b"first")
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": dlx})
    reader = ch.client.consumer(name("letters"), no_ack=True)
    ch.fill(source, b"body")
    ch.reject_next(source)
    assert reader.delivery().body == b"body"  # the other queue took it
    assert ch.count(source) == 0
    assert ch.drain(full) == [b"first"]


def test_an_exchange_that_was_deleted_drops_them_and_a_new_one_does_not(
    ch: Channel, name: Name, source: str, dlx: str, dead: Channel
) -> None:
    ch.fill(source, b"one", b"two", b"three")
    ch.reject_next(source)
    assert dead.delivery().body == b"one"
    ch.call(Exchange.Delete, exchange=dlx)
    ch.reject_next(source)
    dead.nothing(name("letters"))
    ch.exchange(dlx, "fanout")
    ch.bind(name("letters"), dlx)
    ch.reject_next(source)
    assert dead.delivery().body == b"three"
    assert ch.count(source) == 0


def test_messages_that_are_dead_lettered_at_once_are_confirmed(
    ch: Channel, name: Name, dlx: str, dead: Channel
) -> None:
    arguments = {"x-dead-letter-exchange": dlx, "x-message-ttl": 0}
    ch.declare(source := name("source"), durable=True, arguments=arguments)
    ch.confirm()
    for _ in range(10):
        ch.publish("", source, b"body", {"delivery_mode": 2})
    assert ch.confirms(range(1, 11)) == (set(range(1, 11)), set())
    dead.deliveries(10)


@pytest.mark.policies
def test_a_policy_says_where_they_go_and_an_argument_says_it_louder(
    broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel, queue: str
) -> None:
    ch.exchange(other := name("other"), "fanout")
    ch.declare(source := name("source"), arguments={"x-dead-letter-exchange": other})
    ch.bind(queue, other)
    ch.declare(plain := name("plain"))
    definition = {"dead-letter-exchange": dlx, "dead-letter-routing-key": "by policy"}
    broker.set_policy(name("dead-letters"), name(""), definition, apply_to="queues")
    for target in (source, plain):
        ch.fill(target, b"body")
    reader = ch.client.consumer(queue, no_ack=True)
    ch.reject_next(plain)
    assert dead.delivery().method.routing_key == "by policy"
    ch.reject_next(source)
    assert reader.delivery().method.exchange == other
    broker.clear_policy(name("dead-letters"))
    ch.fill(plain, b"body")
    ch.reject_next(plain)
    dead.nothing(name("letters"))
