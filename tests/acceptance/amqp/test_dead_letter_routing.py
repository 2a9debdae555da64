"""Dead letters: their routes, and the changes to their properties."""

import pytest
from pamqp.commands import Exchange

from tests.support import codec
from tests.support.amqp_client import Channel, Content
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


def letters(ch: Channel, source: str, exchange: str, *targets: str, key: str = "", **more: object) -> list[Content]:
    """What each target delivers of one message that is rejected in a queue with this exchange for dead letters."""
    arguments = {"x-dead-letter-exchange": exchange, **({"x-dead-letter-routing-key": key} if key else {})}
    ch.declare(source, arguments=arguments)
    ch.fill(source, b"body", **more)
    consumers = [ch.client.consumer(target, no_ack=True) for target in targets]
    ch.reject_next(source)
    found = [consumer.delivery() for consumer in consumers]
    for consumer in consumers:
        consumer.close()
    return found


def bound(ch: Channel, exchange: str, *keys: str) -> list[str]:
    """A queue bound to the exchange with each key."""
    ch.exchange(exchange)
    for key in keys:
        ch.declare(target := f"{exchange}.{key}")
        ch.bind(target, exchange, key)
    return [f"{exchange}.{key}" for key in keys]


def test_the_key_that_is_given_replaces_all_others(ch: Channel, name: Name) -> None:
    new, *others = bound(ch, name("exchange"), "new", "cc", "bcc", name("source"))
    headers = {"CC": ["cc"], "BCC": ["bcc"]}
    (letter,) = letters(ch, name("source"), name("exchange"), new, key="new", headers=headers)
    assert (letter.method.exchange, letter.method.routing_key) == (name("exchange"), "new")
    assert [ch.count(target) for target in others] == [0, 0, 0]


def test_without_one_it_is_routed_by_all_its_own(ch: Channel, name: Name) -> None:
    targets = bound(ch, name("exchange"), source := name("source"), "cc", "blind")
    for letter in letters(ch, source, name("exchange"), *targets, headers={"CC": ["cc"], "BCC": ["blind"]}):
        assert letter.method.routing_key == source
        assert letter.headers["CC"] == ["cc"] and "BCC" not in letter.headers
        assert letter.headers["x-death"][0]["routing-keys"] == [source, "cc"]


def test_every_exchange_takes_them_as_it_takes_a_publish(ch: Channel, name: Name, queue: str) -> None:
    ch.exchange(internal := name("internal"), "fanout", internal=True)
    ch.bind(queue, internal)
    ch.exchange(direct := name("direct"), arguments={"alternate-exchange": internal})
    ch.exchange(topic := name("topic"), "topic")
    ch.call(Exchange.Bind, source=topic, destination=internal, routing_key="#")
    ch.exchange(by_headers := name("headers"), "headers")
    ch.bind(queue, by_headers, arguments={"x-match": "all-with-x", "x-first-death-reason": "rejected"})
    for exchange, key in [("", queue), *((each, "") for each in (internal, direct, topic, by_headers))]:
        (letter,) = letters(ch, source := name(f"source-{exchange}"), exchange, queue, key=key)
        assert (letter.method.exchange, letter.method.routing_key) == (exchange, key or source)


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


def test_a_deleted_exchange_drops_them(ch: Channel, name: Name, source: str, dlx: str, dead: Channel) -> None:
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


def test_what_is_dead_lettered_at_once_is_confirmed(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    arguments = {"x-dead-letter-exchange": dlx, "x-message-ttl": 0}
    ch.declare(source := name("source"), durable=True, arguments=arguments)
    ch.confirm()
    for _ in range(10):
        ch.publish("", source, b"body", {"delivery_mode": 2})
    assert ch.confirms(range(1, 11)) == (set(range(1, 11)), set())
    dead.deliveries(10)


@pytest.mark.policies
def test_an_argument_beats_a_policy(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel, queue: str) -> None:
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
