"""An alarm: who publishes waits, is told so once, and loses nothing; all others go on."""

from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection, Queue, Tx

from tests.support import codec
from tests.support.amqp_client import CAPABILITIES, Client, Silence
from tests.support.amqp_client import Channel as ClientChannel
from tests.support.in_process import InProcessPeer, socket_of
from tests.support.session import dial, new_node, pipe_of
from warren.broker.amqp.errors import ConnectionForced
from warren.broker.core.node.node import Node
from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY
from warren.broker.session.alarm_blocking import unblock

REASON = "low on disk"


def connected(node: Node, capabilities: dict[str, Any] | None = None) -> ClientChannel:
    client = dial(node)
    client.start()
    client.login("PLAIN", "\0guest\0guest", capabilities)
    client.tune()
    client.call(Connection.Open, virtual_host="/")
    return client.channel(1)


class House:
    """A node in alarm, with a publisher and somebody who does not publish."""

    def __init__(self) -> None:
        self.node = new_node()
        self.publisher = connected(self.node)
        self.other = connected(self.node)
        self.other.declare("queue")
        self.node.alarms.set(DISK)

    def end(self) -> None:
        """As the server does it."""
        self.node.alarms.clear(DISK)
        for ch in (self.publisher, self.other):
            unblock(pipe_of(ch.client).connection)


@pytest.fixture
def house() -> House:
    return House()


def notices(client: Client) -> list[Any]:
    """What has come about the connection."""
    try:
        while not client.ended:
            client.pump()
    except Silence:
        pass
    inbox = client.inbox(0)
    items = list(inbox)
    inbox.clear()
    return items


def names(client: Client) -> list[str]:
    return [item.name for item in notices(client)]


@pytest.mark.parametrize("body", [b"body", b"long" * 50_000], ids=["short", "long"])
def test_the_first_publish_is_held_and_told_of_once(house: House, body: bytes) -> None:
    ch = house.publisher
    assert notices(ch.client) == []
    ch.publish("", "queue", body)
    (blocked,) = notices(ch.client)
    assert isinstance(blocked, Connection.Blocked) and blocked.reason == REASON
    for _ in range(3):
        ch.publish("", "queue", body)
    assert notices(ch.client) == []
    assert house.other.count("queue") == 0
    house.end()
    assert names(ch.client) == ["Connection.Unblocked"]
    assert house.other.drain("queue") == [body] * 4
    assert notices(ch.client) == []


@pytest.mark.parametrize("together", [True, False], ids=["in one read", "one by one"])
def test_a_message_without_a_body_is_whole_at_its_header_and_taken_but_no_other(house: House, together: bool) -> None:
    ch = house.publisher
    frames = codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0)
    for data in [frames * 3] if together else [frames] * 3:
        ch.client.raw(data)
    assert names(ch.client) == ["Connection.Blocked"]
    assert house.other.drain("queue") == [b""]
    house.end()
    assert names(ch.client) == ["Connection.Unblocked"]
    assert house.other.drain("queue") == [b"", b""]


def test_a_header_is_enough_to_be_held(house: House) -> None:
    client = house.publisher.client
    client.raw(codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}))
    assert names(client) == []
    client.raw(codec.header_frame(1, 4))
    assert names(client) == ["Connection.Blocked"]
    house.end()
    client.raw(codec.frame(3, 1, b"body"))
    assert names(client) == ["Connection.Unblocked"]
    assert house.other.drain("queue") == [b"body"]


def test_who_is_told_to_go_within_a_message_is_not_blocked_and_can_say_goodbye(house: House) -> None:
    client = house.other.client
    client.raw(codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}))
    house.node.alarms.clear(DISK)
    client.raw(codec.header_frame(1, 4))
    house.node.alarms.set(DISK)
    pipe_of(client).connection.close(ConnectionForced("for a reason"))
    client.raw(codec.frame(3, 1, b"bo")[:-1])
    assert names(client) == ["Connection.Close"] and not pipe_of(client).connection.blocked
    client.raw(codec.frame(3, 1, b"bo")[-1:])
    client.send(Connection.CloseOk)
    assert pipe_of(client).link.closing == 0.0


def test_a_second_alarm_is_not_told_of_and_the_first_to_go_frees_nobody(house: House) -> None:
    house.publisher.publish("", "queue", b"body")
    house.node.alarms.set(MEMORY)
    assert names(house.publisher.client) == ["Connection.Blocked"]
    late = connected(house.node)
    late.publish("", "queue", b"late")
    (blocked,) = notices(late.client)
    assert blocked.reason == "low on memory & disk"
    house.node.alarms.clear(MEMORY)
    assert house.node.alarms.reason == REASON and house.other.count("queue") == 0


def test_listings_tell_who_is_held_from_who_would_be(house: House) -> None:
    connection = pipe_of(house.publisher.client).connection
    assert connection.state_text == "blocking"
    house.publisher.publish("", "queue", b"body")
    assert connection.state_text == "blocked"
    house.end()
    assert connection.state_text == "running"
    assert pipe_of(dial(house.node)).connection.state_text == "starting"


def test_who_does_not_want_to_publish_is_told_nothing(house: House) -> None:
    house.publisher.declare("queue", passive=True)
    house.end()
    house.publisher.sync()
    assert notices(house.publisher.client) == [] and notices(house.other.client) == []


def test_who_cannot_be_told_is_held_all_the_same(house: House) -> None:
    house.node.alarms.clear(DISK)
    capabilities = {**CAPABILITIES, "connection.blocked": False}
    house.publisher = ch = connected(house.node, capabilities)
    house.node.alarms.set(DISK)
    ch.publish("", "queue", b"body")
    assert notices(ch.client) == [] and house.other.count("queue") == 0
    house.end()
    assert notices(ch.client) == [] and house.other.drain("queue") == [b"body"]


def test_all_that_came_after_it_is_served_in_its_order(house: House) -> None:
    ch = house.publisher
    second = ch.client.channel(2)
    ch.publish("", "queue", b"1")
    second.publish("", "queue", b"2")
    second.send(Queue.Declare, queue="queue", passive=True)
    ch.publish("", "queue", b"3")
    ch.send(Queue.Declare, queue="late")
    ch.publish("", "nowhere", b"back", mandatory=True)
    ch.send(Channel.Close, reply_code=200)
    assert names(ch.client) == ["Connection.Blocked"]
    assert not ch.client.inbox(1) and not ch.client.inbox(2)
    assert "late" not in house.node.vhosts["/"].queues
    house.end()
    assert names(ch.client) == ["Connection.Unblocked"]
    assert second.next().message_count == 2
    assert isinstance(ch.next(), Queue.DeclareOk)
    assert ch.next().body == b"back"
    assert isinstance(ch.next(), Channel.CloseOk)
    assert house.other.drain("queue") == [b"1", b"2", b"3"]


def test_confirms_count_what_was_held(house: House) -> None:
    house.publisher.confirm()
    for number in range(5):
        house.publisher.publish("", "queue", b"%d" % number)
    assert names(house.publisher.client) == ["Connection.Blocked"] and not house.publisher.client.inbox(1)
    house.end()
    assert house.publisher.confirms(range(1, 6)) == ({1, 2, 3, 4, 5}, set())
    assert house.other.drain("queue") == [b"0", b"1", b"2", b"3", b"4"]


def test_a_publish_within_a_transaction_is_held_too(house: House) -> None:
    house.publisher.transact()
    house.publisher.publish("", "queue", b"body")
    house.publisher.send(Tx.Commit)
    assert names(house.publisher.client) == ["Connection.Blocked"] and not house.publisher.client.inbox(1)
    house.end()
    assert isinstance(house.publisher.next(), Tx.CommitOk)
    assert house.other.drain("queue") == [b"body"]


def test_consumers_and_acknowledgements_go_on(house: House) -> None:
    house.node.alarms.clear(DISK)
    for number in range(5):
        house.publisher.publish("", "queue", b"%d" % number)
    house.node.alarms.set(DISK)
    house.publisher.publish("", "queue", b"held")
    ch = house.other
    ch.qos(1)
    ch.consume("queue")
    for number in range(5):
        delivery = ch.delivery()
        assert delivery.body == b"%d" % number
        ch.ack(delivery.tag)
    ch.nothing()
    assert notices(ch.client) == []
    house.end()
    assert names(house.publisher.client) == ["Connection.Blocked", "Connection.Unblocked"]
    assert ch.delivery().body == b"held"


def test_deliveries_reach_who_is_held(house: House) -> None:
    house.publisher.declare("own")
    house.publisher.consume("own")
    house.publisher.publish("", "queue", b"held")
    house.node.alarms.clear(DISK)  # for others that were not held it is over a moment earlier
    house.other.publish("", "own", b"body")
    house.other.sync()
    assert house.publisher.delivery().body == b"body"


def test_it_may_come_again(house: House) -> None:
    for number in range(3):
        house.node.alarms.set(DISK)
        house.publisher.publish("", "queue", b"%d" % number)
        assert names(house.publisher.client) == ["Connection.Blocked"]
        house.end()
        assert names(house.publisher.client) == ["Connection.Unblocked"]
    assert house.other.drain("queue") == [b"0", b"1", b"2"]


def test_another_alarm_before_the_first_is_over_for_all_holds_the_same_publish(house: House) -> None:
    house.publisher.publish("", "queue", b"body")
    house.end()
    house.node.alarms.set(DISK)
    assert names(house.publisher.client) == ["Connection.Blocked", "Connection.Unblocked", "Connection.Blocked"]
    assert house.other.count("queue") == 0
    house.end()
    assert house.other.drain("queue") == [] and names(house.publisher.client) == ["Connection.Unblocked"]
    assert house.other.drain("queue") == [b"body"]


def test_who_is_held_and_goes_leaves_nothing(house: House) -> None:
    house.publisher.publish("", "queue", b"body")
    house.publisher.client.vanish()
    house.end()
    assert house.other.drain("queue") == [] and house.node.open_connections == 1


def test_a_connection_that_we_close_while_it_is_held_ends(house: House) -> None:
    house.publisher.publish("", "queue", b"body")
    assert names(house.publisher.client) == ["Connection.Blocked"]
    pipe = pipe_of(house.publisher.client)
    pipe.connection.close(ConnectionForced("enough"))
    house.publisher.client.expect_close(320)
    assert pipe.link.closing == 0.0, "its close-ok is heard"
    assert house.other.drain("queue") == []


def test_nothing_is_said_to_who_was_told_the_end_but_the_end(house: House) -> None:
    pipe = pipe_of(house.publisher.client)
    pipe.connection.close(ConnectionForced("enough"))
    house.publisher.publish("", "queue", b"body")
    house.publisher.client.expect_close(320)
    assert notices(house.publisher.client) == [] and pipe.link.closing == 0.0


def test_a_publish_before_the_connection_is_open_is_an_error_even_now(house: House) -> None:
    client = dial(house.node)
    client.start()
    client.login("PLAIN", "\0guest\0guest")
    client.tune()
    client.raw(codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0))
    client.expect_close(505)


# With the transport around it


def test_the_socket_of_who_is_held_is_not_read() -> None:
    broker = InProcessPeer()
    client, other = broker.connect(), broker.connect()
    ch, witness = client.channel(), other.channel()
    witness.declare("queue")
    broker.node.alarms.set(DISK)
    ch.publish("", "queue", b"first")
    assert isinstance(client.next(), Connection.Blocked)
    assert not socket_of(client).reading
    ch.publish("", "queue", b"second")
    broker.settle()
    assert socket_of(client).incoming and witness.count("queue") == 0
    broker.node.alarms.clear(DISK)
    assert isinstance(client.next(), Connection.Unblocked)
    assert socket_of(client).reading and witness.drain("queue") == [b"first", b"second"]
    assert [event for event, _, _ in broker.log if event.startswith("alarm")] == ["alarm_set", "alarm_cleared"]
