"""The event exchange. The fields and their types are those that RabbitMQ sends."""

from collections.abc import Callable

import pytest
from pamqp.commands import Exchange, Queue

from tests.support.amqp_client import Channel
from tests.support.in_process import InProcessPeer
from tests.support.users import set_tags
from warren.broker.amqp.field_table import Table, Value
from warren.broker.amqp.properties import Properties
from warren.broker.core.access.passwords import hash_password
from warren.broker.core.telemetry.event_fields import HEADERS_LIMIT_BYTES

pytestmark = pytest.mark.in_process("looks at events of the whole broker")

Fields = dict[str, Value]
Happened = list[tuple[str, Fields]]


def text(value: str) -> Value:
    return ("S", value.encode())


class Listener:
    """A consumer of the event exchange with these binding keys. `last` is the only event that has arrived."""

    def __init__(self, broker: InProcessPeer, *keys: str) -> None:
        self.channel = broker.connect().channel()
        self.queue = self.channel.declare("", exclusive=True).queue
        for key in keys:
            self.channel.bind(self.queue, "amq.rabbitmq.event", key)
        self.take()

    def take(self) -> Happened:
        found: Happened = []
        while (event := self.channel.get(self.queue)) is not None:
            properties = Properties.decode(event.property_bytes)
            assert event.body == b"" and event.method.exchange == "amq.rabbitmq.event"
            assert properties.delivery_mode == 2 and properties.headers is not None
            fields = dict(properties.headers.items())
            kind, at_ms = fields.pop("timestamp_in_ms")
            assert kind == "l" and isinstance(at_ms, int) and properties.timestamp == at_ms // 1000
            found.append((event.method.routing_key, fields))
        return found

    def last(self, name: str) -> Fields:
        ((key, fields),) = self.take()
        assert key == name
        return fields

    def names(self) -> list[str]:
        return [name for name, _ in self.take()]


@pytest.fixture
def listen(broker: InProcessPeer) -> Callable[..., Listener]:
    return lambda *keys: Listener(broker, *keys)


def act(broker: InProcessPeer, deed: Callable[[], object]) -> None:
    """Make a change as an operator."""
    broker.node.events.actor = "rmq-cli"
    deed()
    broker.node.events.actor = "rmq-internal"
    broker.node.pump()


HASH = hash_password("u", b"salt")
CLI = text("rmq-cli")
GUEST = text("guest")


def test_a_queue_is_created_and_deleted(listen: Callable[..., Listener], ch: Channel) -> None:
    events = listen("queue.*")
    ch.declare("q", durable=True, arguments={"x-max-length": 5})
    assert events.last("queue.created") == {
        "name": text("q"),
        "vhost": text("/"),
        "type": text("rabbit_classic_queue"),
        "durable": ("t", True),
        "auto_delete": ("t", False),
        "exclusive": ("t", False),
        "owner_pid": text(""),
        "arguments": ("A", [text('{<<"x-max-length">>,signedint,5}')]),
        "user_who_performed_action": GUEST,
    }
    ch.declare("q", passive=True)
    assert events.take() == []
    ch.call(Queue.Delete, queue="q")
    assert events.last("queue.deleted") == {
        "name": text("q"), "vhost": text("/"), "user_who_performed_action": GUEST
    }  # fmt: skip


def test_an_exchange_is_created_bound_and_deleted(listen: Callable[..., Listener], ch: Channel) -> None:
    events = listen("exchange.*", "binding.*")
    ch.exchange("x", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    assert events.last("exchange.created") == {
        "name": text("x"),
        "vhost": text("/"),
        "type": text("topic"),
        "durable": ("t", True),
        "auto_delete": ("t", False),
        "internal": ("t", False),
        "arguments": ("A", [text('{<<"alternate-exchange">>,longstr,<<"amq.fanout">>}')]),
        "policy": text(""),
        "user_who_performed_action": GUEST,
    }
    ch.declare("q")
    ch.bind("q", "x", "a.#", arguments={"u": 1})
    bound = {
        "vhost": text("/"),
        "source_name": text("x"),
        "source_kind": text("exchange"),
        "destination_name": text("q"),
        "destination_kind": text("queue"),
        "routing_key": text("a.#"),
        "arguments": ("A", [text('{<<"u">>,signedint,1}')]),
        "user_who_performed_action": GUEST,
    }
    assert events.last("binding.created") == bound
    ch.call(Exchange.Delete, exchange="x")
    exchange = {"name": text("x"), "vhost": text("/"), "user_who_performed_action": GUEST}
    assert events.take() == [("binding.deleted", bound), ("exchange.deleted", exchange)]


def test_a_connection_and_its_channels_come_and_go(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("connection.*", "channel.*")
    client = broker.connect()
    created = events.last("connection.created")
    pid, name = created["pid"], created["name"]
    assert created["name"] == text("127.0.0.1:50000 -> 127.0.0.1:5672")
    assert created["client_properties"][0] == "A" and created["connected_at"][0] == "l"
    assert {key: created[key] for key in ("user", "vhost", "type", "protocol", "auth_mechanism")} == {
        "user": GUEST, "vhost": text("/"), "type": text("network"), "protocol": text("{0,9,1}"),
        "auth_mechanism": text("PLAIN"),
    }  # fmt: skip
    assert {key: created[key] for key in ("host", "peer_host", "port", "peer_port", "frame_max", "timeout")} == {
        "host": text("{127,0,0,1}"), "peer_host": text("{127,0,0,1}"), "port": ("l", 5672), "peer_port": ("l", 50000),
        "frame_max": ("l", 131072), "timeout": ("l", 0),
    }  # fmt: skip
    client.channel()
    opened = events.last("channel.created")
    assert opened == {
        "pid": opened["pid"],
        "name": ("S", bytes(name[1]) + b" (1)"),  # type: ignore[call-overload]
        "connection": pid,
        "number": ("l", 1),
        "user": GUEST,
        "vhost": text("/"),
        "user_who_performed_action": GUEST,
    }
    client.close()
    (first, channel), (second, connection) = events.take()
    assert (first, second) == ("channel.closed", "connection.closed")
    assert channel["pid"] == opened["pid"] and connection["pid"] == pid and connection["name"] == name


def test_a_consumer_comes_and_goes(listen: Callable[..., Listener], ch: Channel) -> None:
    events = listen("consumer.*")
    ch.declare("q")
    ch.qos(7)
    ch.consume("q", consumer_tag="c", arguments={"x-priority": 3})
    created = events.last("consumer.created")
    assert created == {
        "consumer_tag": text("c"),
        "queue": text("q"),
        "vhost": text("/"),
        "channel": created["channel"],
        "exclusive": ("t", False),
        "ack_required": ("t", True),
        "prefetch_count": ("l", 7),
        "arguments": ("A", [text('{<<"x-priority">>,signedint,3}')]),
        "user_who_performed_action": GUEST,
    }
    ch.cancel("c")
    deleted = events.last("consumer.deleted")
    wanted = ("consumer_tag", "queue", "vhost", "channel", "user_who_performed_action")
    assert deleted == {key: created[key] for key in wanted}
    ch.consume("q")
    ch.call(Queue.Delete, queue="q")
    assert events.names() == ["consumer.created", "consumer.deleted"]
    ch.consume("amq.rabbitmq.reply-to", no_ack=True)
    assert events.names() == []


def test_a_login_succeeds_or_fails(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("user.authentication.*")
    broker.connect()
    success = events.last("user.authentication.success")
    assert success == {
        "name": GUEST,
        "connection_type": text("network"),
        "connection_name": text("127.0.0.1:50000 -> 127.0.0.1:5672"),
        "host": text("{127,0,0,1}"),
        "peer_host": text("{127,0,0,1}"),
        "peer_port": ("l", 50000),
        "protocol": text("{0,9,1}"),
        "auth_mechanism": text("PLAIN"),
        "ssl": ("t", False),
    }
    client = broker.dial()
    client.start()
    client.login("PLAIN", "\0guest\0wrong")
    client.expect_close(403)
    failure = events.last("user.authentication.failure")
    assert failure.pop("error") == text("user 'guest' - invalid credentials") and failure == success


def test_policies_are_told_with_what_they_change(
    broker: InProcessPeer, listen: Callable[..., Listener], ch: Channel
) -> None:
    ch.declare("q")
    events = listen("policy.#", "*.policy.#", "parameter.#")
    act(broker, lambda: broker.node.policies.set("/", "p", "^q", {"max-length": 3}, 2, "queues"))
    policy: Fields = {
        "pattern": text("^q"),
        "definition": ("F", Table(Table.encode_items([("max-length", ("l", 3))]))),
        "priority": ("l", 2),
        "apply-to": text("queues"),
        "user_who_performed_action": CLI,
    }
    queue: Fields = {"name": text("q"), "vhost": text("/"), "type": text("rabbit_classic_queue")}
    assert events.take() == [
        ("queue.policy.updated", queue | policy),
        ("policy.set", {"name": text("p"), "vhost": text("/")} | policy),
    ]
    act(broker, lambda: broker.node.policies.clear("/", "p"))
    cleared: Fields = {"name": text("p"), "vhost": text("/"), "user_who_performed_action": CLI}
    assert events.take() == [
        ("queue.policy.cleared", queue | {"user_who_performed_action": CLI}),
        ("policy.cleared", cleared),
    ]
    act(broker, lambda: broker.node.policies.set("/", "o", "^q", {"max-length": 3}, operator=True))
    act(broker, lambda: broker.node.policies.clear("/", "o", operator=True))
    assert sorted(events.names()) == [
        "operator.policy.cleared", "parameter.cleared", "parameter.set", "policy.set", "queue.policy.cleared",
        "queue.policy.updated",
    ]  # fmt: skip


def test_limits_are_parameters_and_limits(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("#")
    act(broker, lambda: broker.node.parameters.set("/", "vhost-limits", "limits", {"max-queues": 10}))
    value: Fields = {"value": ("F", Table(Table.encode_items([("max-queues", ("l", 10))])))}
    common: Fields = {"vhost": text("/"), "name": text("limits"), "user_who_performed_action": CLI}
    assert events.take() == [
        ("parameter.set", common | {"component": text("vhost-limits")} | value),
        ("vhost.limits.set", common | {"max-queues": ("l", 10)}),
    ]
    act(broker, lambda: broker.node.parameters.clear("/", "vhost-limits", "limits"))
    assert events.take() == [
        ("parameter.cleared", common | {"component": text("vhost-limits")}),
        ("vhost.limits.cleared", common),
    ]


def test_events_have_no_passwords(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("parameter.set")
    uri = {"uri": "amqp://bob:secret@there"}
    act(broker, lambda: broker.node.parameters.set_global("g", uri))
    hidden: Fields = {"value": ("F", Table(Table.encode_items([("uri", text("amqp://bob:[redacted]@there"))])))}
    assert events.last("parameter.set")["value"] == hidden["value"]
    assert broker.node.parameters.globals()["g"] == uri


def test_global_parameters_are_told(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("parameter.*")
    act(broker, lambda: broker.node.parameters.set_global("g", [1, "a"]))
    common: Fields = {"component": text("global"), "name": text("g"), "user_who_performed_action": CLI}
    assert events.last("parameter.set") == common | {"value": ("A", [("l", 1), text("a")])}
    act(broker, lambda: broker.node.parameters.set_global("g", [""] * HEADERS_LIMIT_BYTES))
    assert events.last("parameter.set") == common, "without a value that headers have no room for"
    act(broker, lambda: broker.node.parameters.clear_global("g"))
    assert events.last("parameter.cleared") == common


def test_a_vhost_comes_with_its_exchanges_and_goes_with_them(
    broker: InProcessPeer, listen: Callable[..., Listener]
) -> None:
    events = listen("#")
    act(broker, lambda: broker.node.add_vhost("v", "hello", ("a", "b")))
    happened = events.take()
    assert [name for name, _ in happened] == ["exchange.created"] * 7 + ["vhost.created"]
    assert happened[-1][1] == {
        "name": text("v"),
        "description": text("hello"),
        "tags": text("a,b"),
        "default_queue_type": text("undefined"),
        "tracing": ("t", False),
        "cluster_state": ("F", Table.of({broker.node.name: "running"})),
        "user_who_performed_action": CLI,
    }
    act(broker, lambda: broker.node.update_vhost("v", "other"))
    assert events.take() == []
    act(broker, lambda: broker.node.delete_vhost("v"))
    assert sorted(events.names()) == ["exchange.deleted"] * 7 + ["vhost.deleted"]


def test_users_are_told_by_what_has_changed(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    users = broker.node.users
    events = listen("user.#")
    act(broker, lambda: users.add("u", HASH))
    assert events.last("user.created") == {"name": text("u"), "user_who_performed_action": CLI}
    act(broker, lambda: set_tags(users, "u", ("management",)))
    assert events.last("user.tags.set")["tags"] == ("A", [text("management")])
    act(broker, lambda: users.clear_password("u"))
    assert events.last("user.password.cleared") == {"name": text("u"), "user_who_performed_action": CLI}
    act(broker, lambda: broker.node.limits.set_user("u", {"max-channels": 10}))
    limits = events.last("user.limits.set")
    assert limits["max-channels"] == ("l", 10) and limits["username"] == text("u")
    act(broker, lambda: users.delete("u"))
    assert events.names() == ["user.deleted"]


def test_permissions_are_told(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    users = broker.node.users
    users.add("u", HASH)
    events = listen("permission.#", "topic.permission.#")
    common: Fields = {"user": text("u"), "vhost": text("/"), "user_who_performed_action": CLI}
    act(broker, lambda: users.set_permission("u", "/", "c", "w", "r"))
    rights: Fields = {"configure": text("c"), "write": text("w"), "read": text("r")}
    assert events.last("permission.created") == common | rights
    act(broker, lambda: users.set_topic_permission("u", "/", "amq.topic", "w", "r"))
    topic = common | {"exchange": text("amq.topic")}
    assert events.last("topic.permission.created") == topic | {"write": text("w"), "read": text("r")}
    act(broker, lambda: users.clear_topic_permission("u", "/"))
    assert events.last("topic.permission.deleted") == topic
    act(broker, lambda: users.clear_permission("u", "/"))
    assert events.last("permission.deleted") == common


def test_alarms_are_told(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("alarm.*")
    act(broker, lambda: broker.node.alarms.set("memory"))
    fields = {"source": text("memory"), "node": text(broker.node.name)}
    broker.node.alarms.clear("memory")
    assert events.take() == [("alarm.set", fields), ("alarm.cleared", fields)]


def test_the_event_exchange_is_durable_and_internal_and_in_the_default_vhost_alone(broker: InProcessPeer) -> None:
    broker.add_vhost("other")
    exchange = broker.node.vhosts["/"].exchanges["amq.rabbitmq.event"]
    assert exchange.durable and exchange.internal and exchange.type_name == "topic"
    assert "amq.rabbitmq.event" not in broker.node.vhosts["other"].exchanges


def test_nothing_is_built_when_nobody_listens(broker: InProcessPeer, ch: Channel) -> None:
    events = broker.node.events
    assert not events.has_receivers
    ch.declare("q")
    ch.bind("q", "amq.rabbitmq.event", "queue.created")
    assert events.has_receivers
    ch.declare("r")
    ch.declare("q", passive=True)
    assert ch.count("q") == 1


def test_what_a_timer_does_was_done_by_the_broker_itself(
    broker: InProcessPeer, listen: Callable[..., Listener], ch: Channel
) -> None:
    ch.declare("q", arguments={"x-expires": 1000})
    events = listen("queue.deleted")
    broker.wait(3000)
    assert events.last("queue.deleted")["user_who_performed_action"] == text("rmq-internal")


def test_an_event_does_not_wait_for_somebody_to_do_something_else(broker: InProcessPeer, ch: Channel) -> None:
    ch.declare("q")
    ch.bind("q", "amq.rabbitmq.event", "vhost.created")
    ch.consume("q")
    broker.node.add_vhost("v")
    broker.wait(0)
    assert ch.delivery().method.routing_key == "vhost.created"


def test_a_value_that_would_not_fit_a_frame_is_not_told(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    listener = listen("parameter.set")
    broker.node.parameters.set_global("long", "x" * 200_000)
    assert listener.last("parameter.set") == {
        "component": text("global"), "name": text("long"), "user_who_performed_action": text("rmq-internal"),
    }  # fmt: skip
    broker.node.parameters.set_global("large", 1 << 80)
    assert listener.last("parameter.set")["value"] == text(str(1 << 80))
