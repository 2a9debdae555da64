"""The firehose: the messages are those of RabbitMQ, down to the type of each header."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Client, Content
from tests.support.in_process import InProcessPeer
from warren.broker.amqp.field_table import Table, Value
from warren.broker.amqp.properties import Properties

pytestmark = pytest.mark.in_process("tracing is switched inside the broker")


def strings(*texts: str) -> Value:
    return ("A", [("S", text.encode()) for text in texts])


def headers(traced: Content) -> dict[str, Value]:
    properties = Properties.decode(traced.property_bytes)
    assert properties.headers is not None
    others = [name for name in Properties.FIELDS if name != "headers" and getattr(properties, name) is not None]
    assert not others
    return dict(properties.headers.items())


class Trace:
    """A consumer of the firehose, which is switched on at first."""

    def __init__(self, broker: InProcessPeer) -> None:
        broker.node.set_tracing("/", True)
        self.channel = broker.connect().channel()
        self.queue = self.channel.declare("", exclusive=True).queue
        self.channel.bind(self.queue, "amq.rabbitmq.trace", "#")

    def take(self) -> list[tuple[str, dict[str, Value], bytes]]:
        """Return routing key, headers and body of each message since the last call."""
        found = []
        while (traced := self.channel.get(self.queue)) is not None:
            assert traced.method.exchange == "amq.rabbitmq.trace"
            found.append((traced.method.routing_key, headers(traced), traced.body))
        return found

    def routing_keys(self) -> list[str]:
        return [key for key, _, _ in self.take()]


@pytest.fixture
def trace(broker: InProcessPeer) -> Trace:
    return Trace(broker)


def test_a_publish_is_traced_with_all_that_is_known_of_it(trace: Trace, client: Client, ch: Channel) -> None:
    ch.declare("q")
    ch.declare("copy")
    given: dict[str, Any] = {"content_type": "a/b", "headers": {"h": 1, "CC": ["copy", "nowhere"]}, "delivery_mode": 2,
                             "priority": 3, "expiration": "9999", "timestamp": 5, "message_id": "m"}  # fmt: skip
    ch.publish("", "q", b"body", given)
    ch.sync()
    ((key, found, body),) = trace.take()
    assert (key, body) == ("publish.", b"body")
    described = found.pop("properties")
    origin = found.pop("connection")
    assert origin[0] == "S" and b" -> " in bytes(origin[1])  # type: ignore[call-overload]
    assert found == {
        "exchange_name": ("S", b""), "routing_keys": strings("q", "copy", "nowhere"), "node": ("S", found["node"][1]),
        "vhost": ("S", b"/"), "channel": ("I", 1), "user": ("S", b"guest"), "routed_queues": strings("q", "copy"),
    }  # fmt: skip
    assert described[0] == "F" and isinstance(described[1], Table)
    properties = dict(described[1].items())
    table = properties.pop("headers")[1]
    assert isinstance(table, Table) and dict(table.items()) == {"h": ("I", 1), "CC": strings("copy", "nowhere")}
    assert properties == {
        "content_type": ("S", b"a/b"), "delivery_mode": ("I", 2), "priority": ("I", 3), "expiration": ("S", b"9999"),
        "timestamp": ("I", 5), "message_id": ("S", b"m"),
    }  # fmt: skip


def test_a_delivery_is_traced_by_its_queue(trace: Trace, ch: Channel) -> None:
    ch.declare("q")
    ch.bind("q", "amq.topic", "a.*")
    ch.publish("amq.topic", "a.b", b"one", {"headers": {"CC": ["c"]}})
    ch.consume("q")
    ch.delivery()
    (published, _, _), (key, found, body) = trace.take()
    assert (published, key, body) == ("publish.amq.topic", "deliver.q", b"one")
    assert found["redelivered"] == ("I", 0) and "routed_queues" not in found
    assert found["routing_keys"] == strings("a.b", "c") and found["exchange_name"] == ("S", b"amq.topic")


def test_a_get_is_a_delivery_too(trace: Trace, ch: Channel) -> None:
    ch.declare("q")
    ch.publish("", "q", b"one")
    ch.nack(ch.get("q", no_ack=False).tag)
    ch.get("q")
    assert [found["redelivered"][1] for key, found, _ in trace.take() if key == "deliver.q"] == [0, 1]


def test_what_is_on_at_first_was_off_before_and_can_be_off_again(broker: InProcessPeer, ch: Channel) -> None:
    ch.declare("q")
    ch.publish("", "q", b"remembered")
    ch.sync()
    trace = Trace(broker)
    for _ in range(2):
        ch.publish("", "q", b"traced")
    ch.sync()
    assert trace.routing_keys() == ["publish."] * 2
    broker.node.set_tracing("/", False)
    ch.publish("", "q", b"not traced")
    ch.get("q")
    assert trace.routing_keys() == []
    assert ch.count("q") == 3


def test_what_is_routed_nowhere_is_traced(trace: Trace, ch: Channel) -> None:
    ch.publish("amq.fanout", "k", b"lost")
    ch.sync()
    ((key, found, _),) = trace.take()
    assert (key, found["routed_queues"]) == ("publish.amq.fanout", ("A", []))


def test_what_is_refused_is_not_traced(trace: Trace, ch: Channel) -> None:
    ch.publish("", "q", b"", {"expiration": "soon"})
    ch.expect_close(406)
    assert trace.routing_keys() == []


def test_what_comes_out_of_the_firehose_does_not_go_into_it(trace: Trace, ch: Channel) -> None:
    trace.channel.declare("kept")
    trace.channel.bind("kept", "amq.rabbitmq.trace", "publish.#")
    trace.channel.consume("kept")
    ch.publish("", "nowhere", b"one")
    ch.sync()
    trace.channel.delivery()
    assert trace.routing_keys() == ["publish."]


def test_a_queue_that_is_traced_may_be_the_one_that_the_trace_goes_to(trace: Trace, ch: Channel) -> None:
    ch.declare("q")
    ch.bind("q", "amq.rabbitmq.trace", "#")
    ch.consume("q", no_ack=True)
    ch.publish("", "q", b"one")
    assert [each.method.routing_key for each in ch.deliveries(3)] == ["publish.", "q", "deliver.q"]


def test_a_transaction_is_traced_as_it_is_published(trace: Trace, ch: Channel) -> None:
    ch.declare("q")
    ch.transact()
    ch.publish("", "q", b"one")
    ch.rollback()
    assert trace.routing_keys() == ["publish."]


def test_direct_replies_are_traced(trace: Trace, ch: Channel) -> None:
    ch.consume("amq.rabbitmq.reply-to", no_ack=True)
    ch.declare("q")
    ch.publish("", "q", b"ask", {"reply_to": "amq.rabbitmq.reply-to"})
    ch.publish("", ch.get("q").properties.reply_to, b"answer")
    ch.delivery()
    assert [key.partition(".")[0] for key in trace.routing_keys()] == ["publish", "deliver", "publish", "deliver"]


def test_another_vhost_is_not_traced(broker: InProcessPeer, trace: Trace) -> None:
    broker.add_vhost("other")
    broker.node.users.set_permission("guest", "other", ".*", ".*", ".*")
    there = broker.connect(vhost="other").channel()
    there.publish("", "q", b"one")
    there.sync()
    assert trace.routing_keys() == []


def test_a_key_that_would_be_too_long_is_cut(trace: Trace, ch: Channel) -> None:
    long = "q" * 255
    ch.declare(long)
    ch.publish("", long, b"one")
    ch.get(long)
    assert trace.routing_keys() == ["publish.", f"deliver.{long}"[:255]]


def test_headers_that_would_not_fit_a_frame_are_not_told(trace: Trace, ch: Channel) -> None:
    nested: dict[str, Any] = {}
    for _ in range(14):
        nested = {"in": nested}
    for given in ({"long": "x" * 100_000}, nested):
        ch.publish("", "nowhere", b"body", {"message_id": "m", "headers": given})
        ch.sync()
        ((key, fields, body),) = trace.take()
        assert (key, fields["properties"], body) == ("publish.", ("F", Table.of({"message_id": "m"})), b"body")
