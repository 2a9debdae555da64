"""The calls between a virtual host and an exchange type, and the registry of types."""

from collections.abc import Iterable

import pytest

from tests.support.clock import fake_clock
from tests.support.queues import Taker, routed
from tests.support.session import new_node
from warren.broker.amqp.errors import Invalid, PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.definitions.importer import import_definitions
from warren.broker.core.exchanges.built_in import new_registry
from warren.broker.core.exchanges.exchange_context import Emission, ExchangeContext
from warren.broker.core.exchanges.exchange_type import ExchangeType, Registry, Sink
from warren.broker.core.exchanges.fanout import FanoutExchange
from warren.broker.core.messages.binding import Binding, Destination
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.route_target import ACCEPTED, EnqueueResult
from warren.broker.core.vhost.vhost import VHost

MESSAGE = framed(RoutingAddress("x", "k"), Properties(), b"body")


class RecordingExchange(ExchangeType):
    """An exchange type that records its calls."""

    fixed_arguments = ("colour",)
    by_name: dict[str, "RecordingExchange"] = {}  # noqa: RUF012  the last one made of each name

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self.log: list[str] = []
        self.by_name[name] = self

    def compose(self, registry: Registry) -> None:
        inner = self.arguments.text("inner")
        if inner is not None:
            registry.create(inner, self.name, Table.EMPTY)

    def on_created(self, context: ExchangeContext) -> None:
        self.context = context
        self.log.append(f"attached, durable {context.durable}")

    def validate_binding(self, routing_key: str, arguments: Table, destination_type: str) -> None:
        if destination_type == self.arguments.text("refuses"):
            raise PreconditionFailed(f"no {destination_type} for {routing_key}")
        self.log.append(f"checked {destination_type}")

    def on_bind(self, binding: Binding) -> Iterable[Emission]:
        self.binding = binding
        return ()

    def on_unbind(self, binding: Binding) -> Iterable[Emission]:
        assert binding is self.binding
        self.log.append("unbound")
        return ()

    def on_deleted(self) -> None:
        self.log.append("deleted")


class Counting(Sink):
    """A sink that counts messages."""

    count = 0

    def handle(self, messages: list[Message]) -> EnqueueResult:
        self.count += len(messages)
        return ACCEPTED


class Swallowing(FanoutExchange):
    """An exchange type that routes messages to all bound destinations and to a sink."""

    def on_created(self, context: ExchangeContext) -> None:
        self.sink = Counting(context)

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return [*super().route(keys, message), self.sink]


@pytest.fixture
def node() -> Node:
    node = new_node()
    node.registry.register("x-recording", RecordingExchange)
    node.registry.register("x-swallowing", Swallowing)
    return node


def recording(vhost: VHost, **arguments: object) -> RecordingExchange:
    vhost.declare_exchange("x", "x-recording", durable=True, arguments=Table.of(arguments))
    return RecordingExchange.by_name["x"]


def queue(vhost: VHost, name: str = "q", **arguments: object) -> Queue:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return vhost.declare_queue(name, durable=True, arguments=Table.of(named))


def test_a_type_is_called_from_the_creation_to_the_deletion_of_its_exchange(vhost: VHost) -> None:
    made, destination = recording(vhost), queue(vhost)
    vhost.bind("x", destination, "k", Table.EMPTY)
    vhost.unbind("x", destination, "k", Table.EMPTY)
    vhost.bind("x", destination, "k", Table.EMPTY)
    vhost.delete_exchange("x")
    checked = "checked classic"
    assert made.log == ["attached, durable True", checked, "unbound", checked, "deleted"]


def test_a_type_validates_a_binding_with_the_type_of_its_destination(vhost: VHost) -> None:
    made = recording(vhost, refuses="quorum")
    vhost.bind("x", vhost.exchanges["amq.fanout"], "k", Table.EMPTY)
    with pytest.raises(PreconditionFailed, match="no quorum for k"):
        vhost.bind("x", queue(vhost, x_queue_type="quorum"), "k", Table.EMPTY)
    assert made.log[1:] == ["checked exchange"]
    assert len(vhost.exchanges["x"].outgoing) == 1 and not vhost.queues["q"].incoming


@pytest.mark.parametrize("there", [True, False])
def test_an_import_is_refused_as_a_whole_where_a_type_refuses_a_binding(node: Node, vhost: VHost, there: bool) -> None:
    if there:
        queue(vhost, x_queue_type="quorum")
    document = {
        "exchanges": [{"vhost": "/", "name": "x", "type": "x-recording", "arguments": {"refuses": "quorum"}}],
        "queues": [{"vhost": "/", "name": "q", "arguments": {"x-queue-type": "quorum"}}],
        "bindings": [{"vhost": "/", "source": "x", "destination": "q", "destination_type": "queue"}],
    }
    with pytest.raises(Invalid, match="no quorum for"):
        import_definitions(node, document)
    assert "x" not in vhost.exchanges


def test_the_inner_type_must_exist(node: Node, vhost: VHost) -> None:
    with pytest.raises(PreconditionFailed, match="unknown exchange type 'x-none'"):
        recording(vhost, inner="x-none")
    document = {"exchanges": [{"vhost": "/", "name": "x", "type": "x-recording", "arguments": {"inner": "x-none"}}]}
    with pytest.raises(Invalid, match="unknown exchange type 'x-none'"):
        import_definitions(node, document)
    assert "x" not in vhost.exchanges
    recording(vhost, inner="direct")


def test_the_arguments_that_a_type_fixes_must_be_given_again(vhost: VHost) -> None:
    recording(vhost, colour="red", size=1)
    recording(vhost, colour="red", size=2)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'colour' for exchange 'x' in vhost '/'"):
        recording(vhost, colour="blue")


def test_a_message_to_a_sink_counts_as_routed_and_other_destinations_get_it(vhost: VHost) -> None:
    exchange = vhost.declare_exchange("x", "x-swallowing")
    search = routed(vhost, exchange, ("k",), None)
    found, stable = search.targets, search.stable
    assert len(found) == 1 and stable
    assert not vhost.enqueue([MESSAGE, MESSAGE], 8, False, found).stored
    vhost.bind("x", destination := queue(vhost), "", Table.EMPTY)
    persistent = framed(RoutingAddress("x", "k"), Properties(delivery_mode=2), b"body")
    assert vhost.enqueue([persistent], 4, True, routed(vhost, exchange, ("k",), None).targets).stored
    assert isinstance(exchange.type, Swallowing)
    assert (exchange.type.sink.count, destination.ready) == (3, 1)


def test_messages_delivered_by_a_timer_reach_consumers_at_once(vhost: VHost) -> None:
    context, destination = recording(vhost).context, queue(vhost)
    came: list[tuple[str, int, Message, bool]] = []
    destination.add_consumer(Taker("c", destination, came, True, 0, 10))
    context.call_at(context.clock.now_ms() + 10, lambda: context.deliver([destination], [MESSAGE, MESSAGE]) and None)
    fake_clock(vhost.clock).advance(9)
    assert came == []
    fake_clock(vhost.clock).advance(1)
    assert [message.body for _, _, message, _ in came] == [b"body", b"body"]


def test_delivered_messages_remain_the_callers(vhost: VHost) -> None:
    """A queue changes the state of a message it gets; the same message must be usable for another queue later."""
    context = recording(vhost).context
    hasty, patient = queue(vhost, "hasty", x_message_ttl=1000), queue(vhost, "patient")
    context.deliver([hasty], [MESSAGE])
    context.deliver([hasty, patient], [MESSAGE])
    assert MESSAGE.state is None and (hasty.ready, patient.ready) == (2, 1)
    vhost.pump()
    fake_clock(vhost.clock).advance(1000)
    assert (hasty.ready, patient.ready) == (0, 1)


def test_a_deleted_queue_gets_nothing(vhost: VHost) -> None:
    context, destination = recording(vhost).context, queue(vhost)
    vhost.delete_queue(destination)
    assert not context.deliver([destination], [MESSAGE]).stored
    assert destination.ready == 0


class EchoExchange(ExchangeType):
    pass


@pytest.fixture
def registry() -> Registry:
    return new_registry()


def test_the_registry_lists_the_distribution_of_each_type(registry):
    registry.register("x-echo", EchoExchange, "echoes 1.0")
    assert registry.distributions() == [
        ("direct", ""),
        ("fanout", ""),
        ("headers", ""),
        ("topic", ""),
        ("x-echo", "echoes 1.0"),
    ]


@pytest.mark.parametrize(
    ("type_name", "text"), [("x-none", "unknown exchange type 'x-none'"), ("", "invalid exchange type ''")]
)
def test_an_unknown_type_is_refused(registry, type_name, text):
    with pytest.raises(PreconditionFailed) as caught:
        registry.create(type_name, "x", Table.EMPTY)
    assert caught.value.text == text


def test_a_type_needs_a_valid_and_unused_name(registry):
    for name in ("", "x" * 256):
        with pytest.raises(ValueError, match="1 to 255 octets"):
            registry.register(name, EchoExchange)
    with pytest.raises(ValueError, match="taken, it is built in"):
        registry.register("direct", EchoExchange)
    registry.register("x-echo", EchoExchange, "echoes 1.0")
    with pytest.raises(ValueError, match=r"taken, echoes 1\.0"):
        registry.register("x-echo", EchoExchange, "others 2.0")
