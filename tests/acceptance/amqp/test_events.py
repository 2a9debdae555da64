"""The event exchange. The fields and their types are those that RabbitMQ sends."""

from collections.abc import Callable

import pytest
from pamqp.commands import Queue

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


def typed(values: dict[str, object], by: str = "guest") -> Fields:
    """These fields with the types of texts, truths and integers, and the user who caused the event, if any."""
    if by:
        values = values | {"user_who_performed_action": by}
    types = {str: lambda value: text(value), bool: lambda value: ("t", value), int: lambda value: ("l", value)}
    return {name: types[type(value)](value) if type(value) in types else value for name, value in values.items()}


def cli(values: dict[str, object]) -> Fields:
    """The fields of an event that an operator has caused."""
    return typed(values, "rmq-cli")


def terms(*values: str) -> Value:
    return ("A", [text(value) for value in values])


def table(*items: tuple[str, Value]) -> Value:
    return ("F", Table(Table.encode_items(items)))


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


def test_a_queue_is_created_and_deleted(listen: Callable[..., Listener], ch: Channel) -> None:
    events = listen("queue.*")
    ch.declare("q", durable=True, arguments={"x-max-length": 5})
    queue = {"name": "q", "vhost": "/"}
    flags = {"durable": True, "auto_delete": False, "exclusive": False, "owner_pid": ""}
    more = {"type": "rabbit_classic_queue", "arguments": terms('{<<"x-max-length">>,signedint,5}')}
    assert events.last("queue.created") == typed(queue | flags | more)
    ch.declare("q", passive=True)
    assert events.take() == []
    ch.delete("q")
    assert events.last("queue.deleted") == typed(queue)


def test_an_exchange_is_created_bound_and_deleted(listen: Callable[..., Listener], ch: Channel) -> None:
    events = listen("exchange.*", "binding.*")
    ch.exchange("x", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    exchange = {"name": "x", "vhost": "/"}
    flags = {"type": "topic", "durable": True, "auto_delete": False, "internal": False, "policy": ""}
    arguments = terms('{<<"alternate-exchange">>,longstr,<<"amq.fanout">>}')
    assert events.last("exchange.created") == typed(exchange | flags | {"arguments": arguments})
    ch.declare("q")
    ch.bind("q", "x", "a.#", arguments={"u": 1})
    ends = {"source_name": "x", "source_kind": "exchange", "destination_name": "q", "destination_kind": "queue"}
    more = {"vhost": "/", "routing_key": "a.#", "arguments": terms('{<<"u">>,signedint,1}')}
    bound = typed(ends | more)
    assert events.last("binding.created") == bound
    ch.delete_exchange("x")
    assert events.take() == [("binding.deleted", bound), ("exchange.deleted", typed(exchange))]


def test_a_connection_and_its_channels_come_and_go(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("connection.*", "channel.*")
    client = broker.connect()
    created = events.last("connection.created")
    pid, name = created["pid"], created["name"]
    assert created["name"] == text("127.0.0.1:50000 -> 127.0.0.1:5672")
    assert created["client_properties"][0] == "A" and created["connected_at"][0] == "l"
    origin = {"user": "guest", "vhost": "/", "type": "network", "protocol": "{0,9,1}", "auth_mechanism": "PLAIN"}
    hosts = {"host": "{127,0,0,1}", "peer_host": "{127,0,0,1}", "port": 5672, "peer_port": 50000}
    assert created.items() >= typed(origin | hosts | {"frame_max": 131072, "timeout": 0}, by="").items()
    client.channel()
    opened = events.last("channel.created")
    assert opened == typed(
        {"pid": opened["pid"], "connection": pid, "number": 1, "user": "guest", "vhost": "/"}
        | {"name": ("S", bytes(name[1]) + b" (1)")}  # type: ignore[call-overload]
    )
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
    consumer = {"consumer_tag": "c", "queue": "q", "vhost": "/", "channel": created["channel"]}
    flags = {"exclusive": False, "ack_required": True, "prefetch_count": 7}
    assert created == typed(consumer | flags | {"arguments": terms('{<<"x-priority">>,signedint,3}')})
    ch.cancel("c")
    assert events.last("consumer.deleted") == typed(consumer)
    ch.consume("q")
    ch.call(Queue.Delete, queue="q")
    assert events.names() == ["consumer.created", "consumer.deleted"]
    ch.consume("amq.rabbitmq.reply-to", no_ack=True)
    assert events.names() == []


def test_a_login_succeeds_or_fails(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("user.authentication.*")
    broker.connect()
    success = events.last("user.authentication.success")
    origin = {"name": "guest", "connection_name": "127.0.0.1:50000 -> 127.0.0.1:5672", "connection_type": "network"}
    hosts = {"host": "{127,0,0,1}", "peer_host": "{127,0,0,1}", "peer_port": 50000}
    assert success == typed(origin | hosts | {"protocol": "{0,9,1}", "auth_mechanism": "PLAIN", "ssl": False}, by="")
    client = broker.dial()
    client.start()
    client.login("PLAIN", "\0guest\0wrong")
    client.expect_close(403)
    failure = events.last("user.authentication.failure")
    assert failure.pop("error") == text("user 'guest' - invalid credentials") and failure == success


def test_policies_name_what_they_change(broker: InProcessPeer, listen: Callable[..., Listener], ch: Channel) -> None:
    ch.declare("q")
    events = listen("policy.#", "*.policy.#", "parameter.#")
    act(broker, lambda: broker.node.policies.set("/", "p", "^q", {"max-length": 3}, 2, "queues"))
    policy = {"pattern": "^q", "definition": table(("max-length", ("l", 3))), "priority": 2, "apply-to": "queues"}
    queue = {"name": "q", "vhost": "/", "type": "rabbit_classic_queue"}
    name = {"name": "p", "vhost": "/"}
    assert events.take() == [("queue.policy.updated", cli(queue | policy)), ("policy.set", cli(name | policy))]
    act(broker, lambda: broker.node.policies.clear("/", "p"))
    assert events.take() == [("queue.policy.cleared", cli(queue)), ("policy.cleared", cli(name))]
    act(broker, lambda: broker.node.policies.set("/", "o", "^q", {"max-length": 3}, operator=True))
    act(broker, lambda: broker.node.policies.clear("/", "o", operator=True))
    assert sorted(events.names()) == [
        "operator.policy.cleared", "parameter.cleared", "parameter.set", "policy.set", "queue.policy.cleared",
        "queue.policy.updated",
    ]  # fmt: skip


def test_limits_are_parameters_and_limits(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("#")
    act(broker, lambda: broker.node.parameters.set("/", "vhost-limits", "limits", {"max-queues": 10}))
    limits, component = {"vhost": "/", "name": "limits"}, {"component": "vhost-limits"}
    value = {"value": table(("max-queues", ("l", 10)))}
    assert events.take() == [
        ("parameter.set", cli(limits | component | value)), ("vhost.limits.set", cli(limits | {"max-queues": 10})),
    ]  # fmt: skip
    act(broker, lambda: broker.node.parameters.clear("/", "vhost-limits", "limits"))
    assert events.take() == [("parameter.cleared", cli(limits | component)), ("vhost.limits.cleared", cli(limits))]


def test_events_have_no_passwords(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("parameter.set")
    uri = {"uri": "amqp://bob:secret@there"}
    act(broker, lambda: broker.node.parameters.set_global("g", uri))
    assert events.last("parameter.set")["value"] == table(("uri", text("amqp://bob:[redacted]@there")))
    assert broker.node.parameters.globals()["g"] == uri


def test_global_parameters_have_a_value_if_it_fits(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("parameter.*")
    act(broker, lambda: broker.node.parameters.set_global("g", [1, "a"]))
    common = cli({"component": "global", "name": "g"})
    assert events.last("parameter.set") == common | {"value": ("A", [("l", 1), text("a")])}
    act(broker, lambda: broker.node.parameters.set_global("g", [""] * HEADERS_LIMIT_BYTES))
    assert events.last("parameter.set") == common, "without a value that headers have no room for"
    act(broker, lambda: broker.node.parameters.set_global("g", 1 << 80))
    assert events.last("parameter.set") == common | {"value": text(str(1 << 80))}
    act(broker, lambda: broker.node.parameters.clear_global("g"))
    assert events.last("parameter.cleared") == common


def test_a_vhost_comes_and_goes_with_its_exchanges(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    events = listen("#")
    act(broker, lambda: broker.node.add_vhost("v", "hello", ("a", "b")))
    happened = events.take()
    assert [name for name, _ in happened] == ["exchange.created"] * 7 + ["vhost.created"]
    described = {"name": "v", "description": "hello", "tags": "a,b", "default_queue_type": "undefined"}
    state = {"tracing": False, "cluster_state": ("F", Table.of({broker.node.name: "running"}))}
    assert happened[-1][1] == cli(described | state)
    act(broker, lambda: broker.node.update_vhost("v", "other"))
    assert events.take() == []
    act(broker, lambda: broker.node.delete_vhost("v"))
    assert sorted(events.names()) == ["exchange.deleted"] * 7 + ["vhost.deleted"]


def test_users_are_told_by_what_has_changed(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    users = broker.node.users
    events = listen("user.#")
    act(broker, lambda: users.add("u", HASH))
    assert events.last("user.created") == cli({"name": "u"})
    act(broker, lambda: set_tags(users, "u", ("management",)))
    assert events.last("user.tags.set")["tags"] == ("A", [text("management")])
    act(broker, lambda: users.clear_password("u"))
    assert events.last("user.password.cleared") == cli({"name": "u"})
    act(broker, lambda: broker.node.limits.set_user("u", {"max-channels": 10}))
    limits = events.last("user.limits.set")
    assert limits["max-channels"] == ("l", 10) and limits["username"] == text("u")
    act(broker, lambda: users.delete("u"))
    assert events.names() == ["user.deleted"]


def test_permissions_are_told(broker: InProcessPeer, listen: Callable[..., Listener]) -> None:
    users = broker.node.users
    users.add("u", HASH)
    events = listen("permission.#", "topic.permission.#")
    common = cli({"user": "u", "vhost": "/"})
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


def test_an_expiry_is_the_broker_s_action(broker: InProcessPeer, listen: Callable[..., Listener], ch: Channel) -> None:
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
