"""Publishing: returns, copies, and the checks of a message."""

from typing import Any

import pytest
from pamqp.commands import Basic, Exchange

from tests.support import codec
from tests.support.amqp_client import Channel, Content
from tests.support.peer import Name, Peer

ALL_PROPERTIES = {
    "content_type": "text/plain", "content_encoding": "utf-8", "headers": {"k": "v"}, "delivery_mode": 2,
    "priority": 7, "correlation_id": "correlation", "reply_to": "somewhere", "expiration": "3600000",
    "message_id": "id", "timestamp": 1234567890, "type": "type", "user_id": "guest", "app_id": "app",
    "cluster_id": "cluster",
}  # fmt: skip


def returned(ch: Channel) -> Content:
    item = ch.next()
    assert isinstance(item, Content) and isinstance(item.method, Basic.Return)
    return item


def queues(ch: Channel, name: Name, *words: str) -> list[str]:
    return [str(ch.declare(name(word)).queue) for word in words]


@pytest.mark.parametrize("exchange", ["", "amq.direct"])
def test_a_mandatory_message_without_a_way_returns_as_it_was(ch: Channel, exchange: str) -> None:
    sent = codec.property_bytes(ALL_PROPERTIES)
    ch.publish(exchange, "nowhere", b"body", sent, mandatory=True)
    back = returned(ch)
    assert (back.method.reply_code, back.method.reply_text) == (312, "NO_ROUTE")
    assert (back.method.exchange, back.method.routing_key) == (exchange, "nowhere")
    assert (back.body, back.property_bytes) == (b"body", sent)


def test_a_message_that_is_not_mandatory_or_finds_a_way_does_not_return(ch: Channel, queue: str) -> None:
    ch.publish("", "nowhere", b"body")
    ch.publish("", queue, b"body", mandatory=True)
    ch.nothing()


def test_cc_leads_to_further_queues_and_stays(ch: Channel, name: Name) -> None:
    one, two, three = queues(ch, name, "one", "two", "three")
    ch.publish("", one, b"body", {"headers": {"CC": [two, three, one]}})
    for queue in (one, two, three):
        message = ch.get(queue)
        assert (message.method.routing_key, message.headers) == (one, {"CC": [two, three, one]})
        assert ch.get(queue) is None


def test_bcc_leads_to_further_queues_and_is_removed(ch: Channel, name: Name) -> None:
    one, two, three = queues(ch, name, "one", "two", "three")
    headers = {"BCC": [three], "CC": [two], "other": 1}
    ch.publish("", one, b"body", {"headers": headers, "type": "t"})
    for queue in (one, two, three):
        message = ch.get(queue)
        assert (message.headers, message.properties.message_type) == ({"CC": [two], "other": 1}, "t")


def test_bcc_is_removed_from_a_return_too(ch: Channel) -> None:
    ch.publish("", "nowhere", b"body", {"headers": {"BCC": ["secret"], "k": 1}}, mandatory=True)
    assert returned(ch).headers == {"k": 1}


def test_cc_is_a_routing_key_to_every_exchange(ch: Channel, name: Name) -> None:
    one, two = queues(ch, name, "one", "two")
    ch.exchange(topic := name("topic"), "topic")
    ch.exchange(direct := name("direct"))
    ch.bind(one, topic, "a.*")
    ch.call(Exchange.Bind, destination=direct, source=topic, routing_key="#")
    ch.bind(two, direct, "b")
    ch.publish(topic, "nothing", b"body", {"headers": {"CC": ["a.x"], "BCC": ["b"]}})
    assert [ch.drain(queue) for queue in (one, two)] == [[b"body"], [b"body"]]


def test_cc_leads_nowhere_without_bindings(ch: Channel, queue: str, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    ch.publish(exchange, queue, b"body", {"headers": {"CC": [queue]}}, mandatory=True)
    returned(ch)
    assert ch.drain(queue) == []


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_that_are_no_array_are_refused(ch: Channel, queue: str, header: str) -> None:
    ch.publish("", queue, b"body", {"headers": {header: 5}})
    closed = ch.expect_close(406)
    assert "unacceptable_type_in_header" in closed.reply_text and header in closed.reply_text
    assert ch.client.channel().count(queue) == 0


def test_copies_that_are_no_names_are_skipped(ch: Channel, name: Name) -> None:
    one, two = queues(ch, name, "one", "two")
    ch.publish("", one, b"body", {"headers": {"CC": [5, None, two]}})
    ch.sync()
    assert [ch.drain(queue) for queue in (one, two)] == [[b"body"], [b"body"]]


def test_a_user_id_of_someone_else_is_refused(ch: Channel, queue: str) -> None:
    ch.publish("", queue, b"body", {"user_id": "guest"})
    ch.sync()
    assert ch.drain(queue) == [b"body"]
    ch.publish("", queue, b"body", {"user_id": "other"})
    text = ch.expect_close(406).reply_text
    assert text == "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'guest'"


@pytest.mark.in_process("makes users")
def test_an_impersonator_may_give_any_user_id(broker: Peer) -> None:
    broker.add_user("actor", tags=("impersonator",))
    ch = broker.connect("actor", "actor").channel()
    queue = ch.declare("queue").queue
    ch.publish("", queue, b"body", {"user_id": "other"})
    assert ch.drain(queue) == [b"body"]


@pytest.mark.parametrize("expiration", ["foobar", "10foobar", "-1", "1.5", " 1", "315360000001"])
@pytest.mark.parametrize("routed", [True, False])
def test_an_invalid_expiration_is_refused(ch: Channel, queue: str, expiration: str, routed: bool) -> None:
    ch.publish("", queue if routed else "nowhere", b"body", {"expiration": expiration})
    assert ch.expect_close(406).reply_text.startswith(f"PRECONDITION_FAILED - invalid expiration '{expiration}'")


@pytest.mark.parametrize("expiration", ["0", "315360000000"])
def test_an_expiration_of_zero_and_of_ten_years_is_accepted(ch: Channel, queue: str, expiration: str) -> None:
    ch.publish("", queue, b"body", {"expiration": expiration})
    ch.sync()


@pytest.mark.parametrize("absent", [None, *ALL_PROPERTIES])
def test_properties_return_as_they_were_and_the_absent_stay_absent(ch: Channel, queue: str, absent: str | None) -> None:
    sent = codec.property_bytes({key: value for key, value in ALL_PROPERTIES.items() if key != absent})
    ch.publish("", queue, b"body", sent)
    message = ch.get(queue)
    assert message is not None and message.property_bytes == sent


@pytest.mark.parametrize("only", ALL_PROPERTIES)
def test_a_single_property_returns_alone(ch: Channel, queue: str, only: str) -> None:
    sent = codec.property_bytes({only: ALL_PROPERTIES[only]})
    ch.consume(queue, no_ack=True)
    ch.publish("", queue, b"body", sent)
    assert ch.delivery().property_bytes == sent


@pytest.mark.parametrize("properties", [
    {},
    {"type": ""},
    {"headers": {}},
    {"delivery_mode": 1},
    pytest.param({"delivery_mode": 9}, marks=pytest.mark.differs("refused before 4.0")),
])  # fmt: skip
def test_odd_values_return_as_they_were(ch: Channel, queue: str, properties: dict[str, Any]) -> None:
    ch.publish("", queue, b"body", properties)
    message = ch.get(queue)
    assert message is not None and message.property_bytes == codec.property_bytes(properties)


@pytest.mark.parametrize("mebibytes", [1, 10])
def test_long_bodies_arrive_intact(ch: Channel, queue: str, mebibytes: int) -> None:
    body = bytes(range(256)) * 4096 * mebibytes
    ch.consume(queue, no_ack=True)
    ch.publish("", queue, body)
    assert ch.delivery().body == body
