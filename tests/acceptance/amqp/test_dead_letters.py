"""Dead-lettering: which messages, and when."""

import pytest
from pamqp.commands import Exchange, Queue

from tests.support import codec
from tests.support.amqp_client import Channel, Client, Content
from tests.support.peer import Name, Peer

# Arguments


def test_a_key_is_not_added_later(ch: Channel, source: str, dlx: str) -> None:
    arguments = {"x-dead-letter-exchange": dlx, "x-dead-letter-routing-key": "key"}
    ch.refused(406, Queue.Declare, queue=source, arguments=arguments)


@pytest.mark.parametrize("exchange", [None, "nowhere"])
def test_without_an_exchange_for_them_they_are_dropped(ch: Channel, name: Name, exchange: str | None) -> None:
    ch.declare(queue := name("queue"), arguments={"x-dead-letter-exchange": name(exchange)} if exchange else {})
    ch.fill(queue, b"body")
    ch.reject_next(queue)
    assert ch.count(queue) == 0


# Reasons


@pytest.mark.parametrize("how", ["reject", "nack", "nack many", "reject from consumer"])
def test_what_is_rejected_is_dead_lettered(ch: Channel, source: str, dead: Channel, how: str) -> None:
    ch.fill(source, b"one", b"two", b"three")
    if "consumer" in how:
        ch.consume(source)
        tags = [delivery.tag for delivery in ch.deliveries(3)]
    else:
        tags = [message.tag for message in (ch.get(source, no_ack=False) for _ in range(3)) if message]
    if how == "nack many":
        ch.nack(tags[-1], multiple=True, requeue=False)
    for tag in [] if how == "nack many" else tags:
        ch.nack(tag, requeue=False) if how == "nack" else ch.reject(tag, requeue=False)
    letters = dead.deliveries(3)
    assert [letter.body for letter in letters] == [b"one", b"two", b"three"]
    assert {letter.headers["x-first-death-reason"] for letter in letters} == {"rejected"}
    assert not any(letter.redelivered for letter in letters)
    assert ch.count(source) == 0


@pytest.mark.parametrize("ms", [0, 1, 100])
@pytest.mark.parametrize("own", [False, True])
def test_what_expires_is(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel, ms: int, own: bool) -> None:
    arguments = {"x-dead-letter-exchange": dlx, **({} if own else {"x-message-ttl": ms})}
    ch.declare(queue := name("source"), arguments=arguments)
    ch.fill(queue, b"one", b"two", b"three", **({"expiration": str(ms)} if own else {}))
    broker.wait(ms)
    letters = dead.deliveries(3)
    assert [letter.body for letter in letters] == [b"one", b"two", b"three"]
    assert {letter.headers["x-first-death-reason"] for letter in letters} == {"expired"}


def test_what_exceeds_the_length_is_dead_lettered(ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, "x-max-length": 1})
    ch.fill(queue, b"one", b"two", b"three")
    letters = dead.deliveries(2)
    assert [letter.body for letter in letters] == [b"one", b"two"]
    assert {letter.headers["x-first-death-reason"] for letter in letters} == {"maxlen"}
    assert ch.drain(queue) == [b"three"]


@pytest.mark.parametrize("how", ["ack", "no_ack", "requeue", "channel", "purge", "delete", "auto-delete"])
def test_nothing_else_is(client: Client, ch: Channel, name: Name, dlx: str, dead: Channel, how: str) -> None:
    arguments = {"x-dead-letter-exchange": dlx}
    ch.declare(queue := name("source"), auto_delete=how == "auto-delete", arguments=arguments)
    ch.fill(queue, b"one", b"two")
    other = client.channel()
    if how == "purge":
        ch.call(Queue.Purge, queue=queue)
    elif how == "delete":
        ch.call(Queue.Delete, queue=queue)
    elif how == "no_ack":
        ch.drain(queue)
    else:
        other.qos(1)
        tag = other.consume(queue)
        delivery = other.delivery()
        match how:
            case "ack":
                other.ack(delivery.tag)
            case "requeue":
                other.nack(delivery.tag)
            case "channel":
                other.close()
            case _:
                other.cancel(tag)
    if how != "channel":
        other.sync()
    dead.nothing(name("letters"))


def test_a_rejected_message_of_a_deleted_queue_is_dropped(ch: Channel, source: str, name: Name, dead: Channel) -> None:
    ch.fill(source, b"body")
    message = ch.get(source, no_ack=False)
    ch.call(Queue.Delete, queue=source)
    ch.reject(message.tag, requeue=False)
    ch.sync()
    dead.nothing(name("letters"))


def test_a_transaction_dead_letters_at_its_commit(client: Client, source: str, name: Name, dead: Channel) -> None:
    ch = client.channel()
    ch.transact()
    ch.publish("", source, b"body")
    ch.commit()
    ch.reject_next(source)
    dead.nothing(name("letters"))
    ch.rollback()
    dead.nothing(name("letters"))
    ch.reject(1, requeue=False)
    ch.commit()
    assert dead.delivery().body == b"body"


# When


def test_expired_messages_arrive_promptly(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, "x-message-ttl": 1000})
    for _ in range(3):
        ch.fill(queue, b"body")
        broker.wait(300)
    for _ in range(3):  # each within a fifth of its time
        dead.nothing()
        broker.wait(200)
        assert dead.delivery().body == b"body"
        dead.nothing()
        broker.wait(100)


def test_what_is_requeued_arrives_as_promptly(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, "x-message-ttl": 500})
    ch.fill(queue, b"body")
    message = ch.get(queue, no_ack=False)
    broker.wait(300)
    ch.nack(message.tag)
    broker.wait(100)
    dead.nothing(queue)
    broker.wait(200)
    assert dead.delivery().headers["x-first-death-reason"] == "expired"


@pytest.mark.in_process("to the millisecond")
def test_what_is_requeued_late_arrives_at_once(broker: Peer, ch: Channel, name: Name, dlx: str, dead: Channel) -> None:
    ch.declare(queue := name("source"), arguments={"x-dead-letter-exchange": dlx, "x-message-ttl": 500})
    ch.fill(queue, b"body")
    message = ch.get(queue, no_ack=False)
    broker.wait(600)
    dead.nothing()
    ch.nack(message.tag)
    assert dead.delivery().headers["x-first-death-reason"] == "expired"


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
    """Reject a message in a queue with this exchange for dead letters, and return what each target delivers."""
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
