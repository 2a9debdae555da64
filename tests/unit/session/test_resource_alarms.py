"""Resource alarms: publishers are blocked, notified once, and lose nothing; other clients are served."""

from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue, Tx
from pytest import MonkeyPatch

from tests.support import codec
from tests.support.amqp_client import CAPABILITIES, Client
from tests.support.amqp_client import Channel as ClientChannel
from tests.support.clock import fake_clock
from tests.support.in_process import InProcessPeer, socket_of
from tests.support.session import dial, logged_in, new_node, pipe_of
from warren.broker.amqp.errors import ConnectionForced
from warren.broker.amqp.field_table import Table
from warren.broker.core.definitions.definition_recorder import DefinitionRecorder
from warren.broker.core.node.node import Node
from warren.broker.core.telemetry import resource_alarms
from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY, RESOURCES
from warren.broker.session import alarm_blocking

REASON = "low on disk"


def connected(node: Node, capabilities: dict[str, Any] | None = None) -> ClientChannel:
    return dial(node).open(capabilities=capabilities).channel(1)


class Scenario:
    """A node with an alarm, a publisher, and a client that does not publish."""

    def __init__(self, resource: str = DISK) -> None:
        self.resource = resource
        self.node = new_node()
        self.publisher = connected(self.node)
        self.other = connected(self.node)
        self.other.declare("queue")
        self.node.alarms.set(resource)

    def end(self) -> None:
        """Clear the alarm and unblock connections as the server does."""
        self.node.alarms.clear(self.resource)
        for ch in (self.publisher, self.other):
            pipe_of(ch.client).connection.unblock()


@pytest.fixture
def scenario() -> Scenario:
    return Scenario()


def names(client: Client) -> list[str]:
    return [item.name for item in client.arrived()]


@pytest.mark.parametrize("body", [b"body", b"long" * 50_000], ids=["short", "long"])
def test_the_first_publish_is_held_and_told_of_once(scenario: Scenario, body: bytes) -> None:
    ch = scenario.publisher
    assert ch.client.arrived() == []
    ch.publish("", "queue", body)
    (blocked,) = ch.client.arrived()
    assert isinstance(blocked, Connection.Blocked) and blocked.reason == REASON
    for _ in range(3):
        ch.publish("", "queue", body)
    assert ch.client.arrived() == []
    assert scenario.other.count("queue") == 0
    scenario.end()
    assert names(ch.client) == ["Connection.Unblocked"]
    assert scenario.other.drain("queue") == [body] * 4
    assert ch.client.arrived() == []


@pytest.mark.parametrize("together", [True, False], ids=["in one read", "one by one"])
@pytest.mark.parametrize("resource", RESOURCES)
def test_a_message_without_a_body_is_whole_at_its_header_and_taken_but_no_other_unless_the_disk_is_full(
    resource: str, together: bool
) -> None:
    scenario = Scenario(resource)
    ch = scenario.publisher
    taken = [b""] * (resource != DISK)
    frames = codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0)
    for data in [frames * 3] if together else [frames] * 3:
        ch.client.raw(data)
    assert names(ch.client) == ["Connection.Blocked"]
    assert scenario.other.drain("queue") == taken
    scenario.end()
    assert names(ch.client) == ["Connection.Unblocked"]
    assert taken + scenario.other.drain("queue") == [b""] * 3


def test_a_header_is_enough_to_be_held(scenario: Scenario) -> None:
    client = scenario.publisher.client
    client.raw(codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}))
    assert names(client) == []
    client.raw(codec.header_frame(1, 4))
    assert names(client) == ["Connection.Blocked"]
    scenario.end()
    client.raw(codec.frame(3, 1, b"body"))
    assert names(client) == ["Connection.Unblocked"]
    assert scenario.other.drain("queue") == [b"body"]


def test_who_is_told_to_go_within_a_message_is_not_blocked_and_can_say_goodbye(scenario: Scenario) -> None:
    client = scenario.other.client
    client.raw(codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}))
    scenario.node.alarms.clear(DISK)
    client.raw(codec.header_frame(1, 4))
    scenario.node.alarms.set(DISK)
    pipe_of(client).connection.close(ConnectionForced("for a reason"))
    client.raw(codec.frame(3, 1, b"bo")[:-1])
    assert names(client) == ["Connection.Close"] and not pipe_of(client).connection.blocked
    client.raw(codec.frame(3, 1, b"bo")[-1:])
    client.send(Connection.CloseOk)
    assert pipe_of(client).link.closing == 0.0


def test_a_second_alarm_is_not_told_of_and_the_first_to_go_frees_nobody(scenario: Scenario) -> None:
    scenario.publisher.publish("", "queue", b"body")
    scenario.node.alarms.set(MEMORY)
    assert names(scenario.publisher.client) == ["Connection.Blocked"]
    late = connected(scenario.node)
    late.publish("", "queue", b"late")
    (blocked,) = late.client.arrived()
    assert blocked.reason == "low on memory & disk"
    scenario.node.alarms.clear(MEMORY)
    assert scenario.node.alarms.reason == REASON and scenario.other.count("queue") == 0


def test_listings_tell_who_is_held_from_who_would_be(scenario: Scenario) -> None:
    connection = pipe_of(scenario.publisher.client).connection
    assert connection.state_text == "blocking"
    scenario.publisher.publish("", "queue", b"body")
    assert connection.state_text == "blocked"
    scenario.end()
    assert connection.state_text == "running"
    assert pipe_of(dial(scenario.node)).connection.state_text == "starting"


def test_who_does_not_want_to_publish_is_told_nothing(scenario: Scenario) -> None:
    scenario.publisher.declare("queue", passive=True)
    scenario.end()
    scenario.publisher.sync()
    assert scenario.publisher.client.arrived() == [] and scenario.other.client.arrived() == []


def test_who_cannot_be_told_is_held_all_the_same(scenario: Scenario) -> None:
    scenario.node.alarms.clear(DISK)
    capabilities = {**CAPABILITIES, "connection.blocked": False}
    scenario.publisher = ch = connected(scenario.node, capabilities)
    scenario.node.alarms.set(DISK)
    ch.publish("", "queue", b"body")
    assert ch.client.arrived() == [] and scenario.other.count("queue") == 0
    scenario.end()
    assert ch.client.arrived() == [] and scenario.other.drain("queue") == [b"body"]


def test_all_that_came_after_it_is_served_in_its_order(scenario: Scenario) -> None:
    ch = scenario.publisher
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
    assert "late" not in scenario.node.vhosts["/"].queues
    scenario.end()
    assert names(ch.client) == ["Connection.Unblocked"]
    assert second.next().message_count == 2
    assert isinstance(ch.next(), Queue.DeclareOk)
    assert ch.next().body == b"back"
    assert isinstance(ch.next(), Channel.CloseOk)
    assert scenario.other.drain("queue") == [b"1", b"2", b"3"]


def test_confirms_count_what_was_held(scenario: Scenario) -> None:
    scenario.publisher.confirm()
    for number in range(5):
        scenario.publisher.publish("", "queue", b"%d" % number)
    assert names(scenario.publisher.client) == ["Connection.Blocked"] and not scenario.publisher.client.inbox(1)
    scenario.end()
    assert scenario.publisher.confirms(range(1, 6)) == ({1, 2, 3, 4, 5}, set())
    assert scenario.other.drain("queue") == [b"0", b"1", b"2", b"3", b"4"]


def test_a_publish_within_a_transaction_is_held_too(scenario: Scenario) -> None:
    scenario.publisher.transact()
    scenario.publisher.publish("", "queue", b"body")
    scenario.publisher.send(Tx.Commit)
    assert names(scenario.publisher.client) == ["Connection.Blocked"] and not scenario.publisher.client.inbox(1)
    scenario.end()
    assert isinstance(scenario.publisher.next(), Tx.CommitOk)
    assert scenario.other.drain("queue") == [b"body"]


def test_the_commit_of_publishes_from_before_a_full_disk_waits_for_its_space(scenario: Scenario) -> None:
    scenario.node.alarms.clear(DISK)
    ch, clock = scenario.publisher, fake_clock(scenario.node.clock)
    ch.transact()
    ch.publish("", "queue", b"body")
    ch.sync()
    scenario.node.alarms.set(DISK)
    ch.send(Tx.Commit)
    clock.advance(1000)
    assert scenario.other.count("queue") == 0 and not ch.client.arrived()
    scenario.node.alarms.clear(DISK)
    clock.advance(1000)
    assert isinstance(ch.next(), Tx.CommitOk)
    assert scenario.other.drain("queue") == [b"body"]


def test_declarations_with_long_arguments_wait_for_space_on_a_full_disk(scenario: Scenario) -> None:
    ch, long = scenario.publisher, {"x": "v" * 2_000}
    ch.declare("short", arguments={"x-max-length": 1})
    ch.bind("queue", "amq.direct", "key")
    ch.send(Queue.Bind, queue="queue", exchange="amq.direct", routing_key="key", arguments=long)
    ch.send(Queue.Declare, queue="long", arguments=long)
    assert names(ch.client) == ["Connection.Blocked"] and not ch.client.inbox(1)
    scenario.node.alarms.set(MEMORY)
    scenario.node.alarms.clear(MEMORY)
    pipe_of(ch.client).connection.unblock()
    assert not names(ch.client) and not ch.client.inbox(1), "the disk is still full"
    scenario.end()
    assert names(ch.client) == ["Connection.Unblocked"]
    assert isinstance(ch.next(), Queue.BindOk) and isinstance(ch.next(), Queue.DeclareOk)
    scenario.node.alarms.set(DISK)
    ch.declare("long", arguments=long)
    assert not ch.client.arrived(), "it exists already"


def test_on_a_full_disk_only_so_many_new_objects_are_stored(scenario: Scenario, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(resource_alarms, "STORED_LIMIT", 3)
    scenario.node.observers.add(DefinitionRecorder(scenario.node, []))
    ch = scenario.publisher
    for _ in range(10):
        refused = connected(scenario.node)
        refused.send(Queue.Declare, queue="refused", durable=True, arguments={"x-max-length": -1})
        assert isinstance(refused.next(), Channel.Close)
    for number in range(10):
        ch.declare(f"transient{number}", exclusive=True)
    ch.declare("one", durable=True)
    ch.exchange("two", durable=True)
    ch.bind("transient0", "two", "key")  # not stored
    ch.bind("one", "two", "key")
    ch.send(Queue.Declare, queue="four", durable=True)
    assert names(ch.client) == ["Connection.Blocked"] and not ch.client.inbox(1)
    scenario.other.declare("transient", exclusive=True)
    scenario.other.send(Queue.Bind, queue="one", exchange="two", routing_key="other")
    assert names(scenario.other.client) == ["Connection.Blocked"]
    scenario.end()
    assert names(ch.client) == ["Connection.Unblocked"] and isinstance(ch.next(), Queue.DeclareOk)
    scenario.node.alarms.set(DISK)
    ch.declare("five", durable=True)
    assert not ch.client.arrived(), "the count begins anew"


@pytest.mark.parametrize("resource", [DISK, MEMORY])
def test_a_name_with_line_ends_is_the_same_name(resource: str, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(alarm_blocking, "CREATE_LIMIT", 0)
    scenario, long = Scenario(resource), {"x": "v" * 2_000}
    vhost, ch = scenario.node.vhosts["/"], scenario.publisher
    vhost.declare_exchange("x", "direct", durable=True)
    vhost.bind("x", vhost.queues["queue"], "old", Table.of(long))
    ch.declare("qu\reue\n", passive=True)
    ch.declare("queue\r\n")
    ch.exchange("x\n", "direct", durable=True)
    ch.bind("queue\n", "\nx", "old", arguments=long)
    assert not ch.client.arrived(), "all of it exists"
    for kind, fields in (
        (Queue.Bind, {"queue": "queue\n", "exchange": "x\n"}),
        (Exchange.Bind, {"destination": "amq.topic\n", "source": "x\n"}),
        (Queue.Declare, {"queue": "new\n"}),
        (Exchange.Declare, {"exchange": "new\n", "exchange_type": "direct"}),
    ):
        ch = connected(scenario.node)
        ch.send(kind, arguments=long, **fields)
        assert names(ch.client) == ["Connection.Blocked"] and not ch.client.inbox(1)


def test_a_queue_that_waits_for_its_deletion_does_not_exist(scenario: Scenario) -> None:
    vhost, long = scenario.node.vhosts["/"], {"x": "v" * 2_000}
    other = pipe_of(scenario.other.client).connection
    scenario.other.declare("own", exclusive=True)
    other.vhost = None  # it has closed, and its queues are deleted in turns
    scenario.publisher.send(Queue.Declare, queue="own", durable=True, arguments=long)
    assert names(scenario.publisher.client) == ["Connection.Blocked"]
    assert "own" not in vhost.queues


@pytest.mark.parametrize("resource", [DISK, MEMORY])
def test_what_is_refused_for_ever_is_refused_at_once(resource: str, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(alarm_blocking, "CREATE_LIMIT", 0)
    monkeypatch.setattr(resource_alarms, "STORED_LIMIT", 0)
    node, long = Scenario(resource).node, {"x": "v" * 2_000}
    for code, kind, fields in (
        (406, Queue.Declare, {"queue": "new", "durable": True, "arguments": {"x": "v" * 20_000}}),
        (406, Queue.Declare, {"queue": "new", "arguments": long | {"x-max-length": -1}}),
        (403, Queue.Declare, {"queue": "amq.new", "arguments": long}),
        (406, Exchange.Declare, {"exchange": "new", "exchange_type": "headers", "arguments": {"x": "v" * 20_000}}),
        (403, Exchange.Declare, {"exchange": "amq.new", "exchange_type": "headers", "arguments": long}),
        (404, Queue.Bind, {"queue": "queue", "exchange": "missing", "arguments": long}),
        (406, Queue.Bind, {"queue": "queue", "exchange": "amq.headers", "arguments": long | {"x-match": "none"}}),
    ):
        refused = connected(node)
        refused.send(kind, **fields)
        answer = refused.next()
        assert isinstance(answer, Channel.Close) and answer.reply_code == code, fields
        assert not names(refused.client)


def test_a_declaration_that_waits_for_the_disk_does_not_wait_for_memory(scenario: Scenario) -> None:
    ch = scenario.publisher
    ch.send(Queue.Declare, queue="long", arguments={"x": "v" * 2_000})
    assert names(ch.client) == ["Connection.Blocked"]
    scenario.node.alarms.set(MEMORY)
    scenario.end()
    assert names(ch.client) == ["Connection.Unblocked"] and isinstance(ch.next(), Queue.DeclareOk)


def test_consumers_and_acknowledgements_go_on(scenario: Scenario) -> None:
    scenario.node.alarms.clear(DISK)
    for number in range(5):
        scenario.publisher.publish("", "queue", b"%d" % number)
    scenario.node.alarms.set(DISK)
    scenario.publisher.publish("", "queue", b"held")
    ch = scenario.other
    ch.qos(1)
    ch.consume("queue")
    for number in range(5):
        delivery = ch.delivery()
        assert delivery.body == b"%d" % number
        ch.ack(delivery.tag)
    ch.nothing()
    assert ch.client.arrived() == []
    scenario.end()
    assert names(scenario.publisher.client) == ["Connection.Blocked", "Connection.Unblocked"]
    assert ch.delivery().body == b"held"


def test_deliveries_reach_who_is_held(scenario: Scenario) -> None:
    scenario.publisher.declare("own")
    scenario.publisher.consume("own")
    scenario.publisher.publish("", "queue", b"held")
    scenario.node.alarms.clear(DISK)  # for others that were not held it is over a moment earlier
    scenario.other.publish("", "own", b"body")
    scenario.other.sync()
    assert scenario.publisher.delivery().body == b"body"


def test_it_may_come_again(scenario: Scenario) -> None:
    for number in range(3):
        scenario.node.alarms.set(DISK)
        scenario.publisher.publish("", "queue", b"%d" % number)
        assert names(scenario.publisher.client) == ["Connection.Blocked"]
        scenario.end()
        assert names(scenario.publisher.client) == ["Connection.Unblocked"]
    assert scenario.other.drain("queue") == [b"0", b"1", b"2"]


def test_another_alarm_before_the_first_is_over_for_all_holds_the_same_publish(scenario: Scenario) -> None:
    scenario.publisher.publish("", "queue", b"body")
    scenario.end()
    scenario.node.alarms.set(DISK)
    assert names(scenario.publisher.client) == ["Connection.Blocked", "Connection.Unblocked", "Connection.Blocked"]
    assert scenario.other.count("queue") == 0
    scenario.end()
    assert scenario.other.drain("queue") == [] and names(scenario.publisher.client) == ["Connection.Unblocked"]
    assert scenario.other.drain("queue") == [b"body"]


def test_who_is_held_and_goes_leaves_nothing(scenario: Scenario) -> None:
    scenario.publisher.publish("", "queue", b"body")
    scenario.publisher.client.vanish()
    scenario.end()
    assert scenario.other.drain("queue") == [] and scenario.node.open_connections == 1


def test_a_connection_that_we_close_while_it_is_held_ends(scenario: Scenario) -> None:
    scenario.publisher.publish("", "queue", b"body")
    assert names(scenario.publisher.client) == ["Connection.Blocked"]
    pipe = pipe_of(scenario.publisher.client)
    pipe.connection.close(ConnectionForced("enough"))
    scenario.publisher.client.expect_close(320)
    assert pipe.link.closing == 0.0, "its close-ok is heard"
    assert scenario.other.drain("queue") == []


def test_nothing_is_said_to_who_was_told_the_end_but_the_end(scenario: Scenario) -> None:
    pipe = pipe_of(scenario.publisher.client)
    pipe.connection.close(ConnectionForced("enough"))
    scenario.publisher.publish("", "queue", b"body")
    scenario.publisher.client.expect_close(320)
    assert scenario.publisher.client.arrived() == [] and pipe.link.closing == 0.0


def test_a_publish_before_the_connection_is_open_is_an_error_even_now(scenario: Scenario) -> None:
    client = logged_in(scenario.node)
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
