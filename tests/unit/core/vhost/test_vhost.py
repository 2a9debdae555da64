"""Virtual hosts: declaring, finding, binding and deleting, and notification of observers."""

from collections.abc import Callable
from typing import Any

import pytest

from warren.broker.amqp.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.exchanges.route_cache import RouteCache
from warren.broker.core.messages.binding import Binding
from warren.broker.core.messages.message import ByteCount, RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues.consumers import Consumer
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.observer import Observer
from warren.broker.core.vhost.vhost import VHost


class Recorder(Observer):
    """An observer that records notifications, and checks that the virtual host shows the change already."""

    def __init__(self, node: Node) -> None:
        self.vhost = node.vhosts["/"]
        self.notifications: list[tuple[str, str]] = []

    def exchange_declared(self, exchange: Exchange) -> None:
        assert exchange.name in self.vhost.exchanges
        self.notifications.append(("exchange +", exchange.name))

    def exchange_deleted(self, exchange: Exchange) -> None:
        assert exchange.name not in self.vhost.exchanges
        self.notifications.append(("exchange -", exchange.name))

    def queue_declared(self, queue: Queue) -> None:
        assert queue.name in self.vhost.queues
        self.notifications.append(("queue +", queue.name))

    def queue_deleted(self, queue: Queue) -> None:
        assert queue.name not in self.vhost.queues
        self.notifications.append(("queue -", queue.name))

    def binding_added(self, vhost: str, binding: Binding) -> None:
        self.notifications.append(("binding +", f"{binding.source}-{binding.routing_key}-{binding.destination.name}"))

    def binding_removed(self, vhost: str, binding: Binding) -> None:
        self.notifications.append(("binding -", f"{binding.source}-{binding.routing_key}-{binding.destination.name}"))

    def consumers_changed(self, queue: Queue) -> None:
        self.notifications.append(("consumers", f"{queue.name} {len(queue.consumers)}"))


class ConsumerWithoutRoom(Consumer):
    cancellations = 0

    def room(self, body_bytes: int) -> int:
        return 0

    def cancelled(self) -> None:
        self.cancellations += 1


@pytest.fixture
def notifications(node: Node) -> list[tuple[str, str]]:
    recorder = Recorder(node)
    node.observers.add(recorder)
    return recorder.notifications


def queue(vhost: VHost, name: str = "q", owner: object = None, **changed: Any) -> Queue:
    fields = {"durable": False, "exclusive": owner is not None, "auto_delete": False, "arguments": Table.EMPTY}
    return vhost.declare_queue(name, owner=owner, **{**fields, **changed})


def exchange(vhost: VHost, name: str = "x", type_: str = "direct", **changed: Any) -> Exchange:
    fields = {"durable": False, "auto_delete": False, "internal": False, "arguments": Table.EMPTY}
    return vhost.declare_exchange(name, type_, **{**fields, **changed})


def test_predeclared_exchanges(vhost: VHost) -> None:
    types = {name: each.type_name for name, each in vhost.exchanges.items()}
    assert types == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.topic": "topic",
        "amq.rabbitmq.trace": "topic",
        "amq.rabbitmq.event": "topic",
    }
    assert all(each.durable and not each.auto_delete for each in vhost.exchanges.values())
    assert vhost.exchanges["amq.rabbitmq.trace"].internal


LEAVES_OUT = Table.of({"nobody": "knows"})


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"durable": True}, "arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'"),
        ({"auto_delete": True}, "inequivalent arg 'auto_delete' for queue 'q'"),
        ({"arguments": Table.of({"x-max-length": 6})}, "'x-max-length' .*: received '6' but current is '5'"),
        (
            {"arguments": Table.EMPTY},
            "'x-max-length' .*: received none but current is the value '5' of type 'signedint'",
        ),
    ],
)
def test_a_queue_declared_otherwise_is_refused(vhost: VHost, changed: dict[str, Any], text: str) -> None:
    arguments = Table.of({"x-max-length": 5})
    queue(vhost, arguments=arguments)
    with pytest.raises(PreconditionFailed, match=text):
        queue(vhost, **{"arguments": arguments, **changed})
    queue(vhost, arguments=Table.of({"nobody": "knows", "x-max-length": ("b", 5), "x-queue-type": "classic"}))


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"type_": "topic"}, "arg 'type' for exchange 'x' in vhost '/': received 'topic' but current is 'direct'"),
        ({"durable": True}, "inequivalent arg 'durable'"),
        ({"auto_delete": True}, "inequivalent arg 'auto_delete'"),
        ({"internal": True}, "inequivalent arg 'internal'"),
        ({"arguments": Table.of({"alternate-exchange": "y"})}, "received the value 'y' of type 'longstr' but .* none"),
    ],
)
def test_an_exchange_declared_otherwise_is_refused(vhost: VHost, changed: dict[str, Any], text: str) -> None:
    exchange(vhost)
    with pytest.raises(PreconditionFailed, match=text):
        exchange(vhost, **changed)
    exchange(vhost, arguments=LEAVES_OUT)


@pytest.mark.parametrize("name, error", [("", "not permitted on the default exchange"), ("amq.new", "reserved prefix")])
def test_names_that_nobody_may_declare(vhost: VHost, name: str, error: str) -> None:
    with pytest.raises(AccessRefused, match=error):
        exchange(vhost, name)


@pytest.mark.parametrize("name", ["", "amq.direct", "amq.rabbitmq.trace", "amq.unknown"])
def test_exchanges_that_nobody_may_delete(vhost: VHost, name: str) -> None:
    with pytest.raises(AccessRefused):
        vhost.delete_exchange(name)


def test_an_exclusive_queue_is_its_owners_and_transient(vhost: VHost) -> None:
    mine, other = object(), object()
    made = queue(vhost, owner=mine, durable=True)
    assert not made.durable and queue(vhost, owner=mine, durable=True) is made
    for attempt in (
        lambda: queue(vhost, owner=other),
        lambda: queue(vhost, owner=mine, exclusive=False),
        lambda: vhost.owned_queue("q", other),
    ):
        with pytest.raises(ResourceLocked, match="cannot obtain exclusive access to locked queue 'q' in vhost '/'"):
            attempt()
    queue(vhost, "open")
    with pytest.raises(ResourceLocked):
        queue(vhost, "open", owner=mine)


def test_unknown_objects_are_not_found(vhost: VHost) -> None:
    made = queue(vhost)
    for attempt, text in (
        (lambda: vhost.queue("no"), "no queue 'no' in vhost '/'"),
        (lambda: vhost.owned_queue("no", None), "no queue 'no' in vhost '/'"),
        (lambda: vhost.exchange("no"), "no exchange 'no' in vhost '/'"),
        (lambda: vhost.bind("no", made, "", Table.EMPTY), "no exchange 'no' in vhost '/'"),
    ):
        with pytest.raises(NotFound, match=text):
            attempt()
    vhost.unbind("no", made, "", Table.EMPTY)
    vhost.delete_exchange("no", if_unused=True)


def test_deleting_asks_first_whether_a_queue_is_empty_then_whether_it_is_used(vhost: VHost) -> None:
    made = queue(vhost)
    consumer = ConsumerWithoutRoom("c", None, False, False, 0)
    made.add_consumer(consumer)
    made.push([framed(RoutingAddress("", "q"), Properties(), b"body")], 4)
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' not empty"):
        vhost.delete_queue(made, if_unused=True, if_empty=True)
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' in use"):
        vhost.delete_queue(made, if_unused=True)
    assert vhost.delete_queue(made) == 1
    assert (consumer.cancellations, vhost.queues, made.deleted, made.ready) == (1, {}, True, 0)
    assert vhost.delete_queue(made) == 0 and consumer.cancellations == 1


def test_a_binding_is_one_however_often_it_is_made(vhost: VHost, notifications: list[tuple[str, str]]) -> None:
    source, made = exchange(vhost), queue(vhost)
    for arguments in (Table.of({"a": 1, "b": 2}), Table.of({"b": 2, "a": 1}), Table.of({"a": 1})):
        vhost.bind("x", made, "k", arguments)
    assert len(source.outgoing) == len(made.incoming) == 2
    vhost.unbind("x", made, "k", Table.EMPTY)
    vhost.unbind("x", made, "other", Table.of({"a": 1}))
    assert len(source.outgoing) == 2
    vhost.unbind("x", made, "k", Table.of({"a": 1}))
    assert len(source.outgoing) == len(made.incoming) == 1
    assert notifications[2:] == [("binding +", "x-k-q")] * 2 + [("binding -", "x-k-q")]


def test_a_cycle_of_auto_delete_exchanges_is_deleted_when_it_is_cut(vhost: VHost) -> None:
    before = set(vhost.exchanges)
    for name in "abc":
        exchange(vhost, name, "fanout", auto_delete=True)
    for source, destination in ("ab", "bc", "ca", "aa"):
        vhost.bind(source, vhost.exchanges[destination], "", Table.EMPTY)
    vhost.unbind("b", vhost.exchanges["c"], "", Table.EMPTY)
    assert "b" not in vhost.exchanges and {"a", "c"} < set(vhost.exchanges), "`a` is still bound to itself"
    vhost.unbind("a", vhost.exchanges["a"], "", Table.EMPTY)
    assert set(vhost.exchanges) == before


def test_an_exchange_in_use_is_kept_if_unused_was_asked(vhost: VHost) -> None:
    exchange(vhost)
    exchange(vhost, "y")
    vhost.bind("x", vhost.exchanges["y"], "", Table.EMPTY)
    vhost.delete_exchange("y", if_unused=True)
    assert not vhost.exchanges["x"].outgoing, "a binding whose destination it is does not make it used"
    vhost.bind("x", queue(vhost), "", Table.EMPTY)
    with pytest.raises(PreconditionFailed, match="exchange 'x' in vhost '/' in use"):
        vhost.delete_exchange("x", if_unused=True)
    vhost.delete_exchange("x")
    assert "x" not in vhost.exchanges and not vhost.queues["q"].incoming


def test_an_auto_delete_queue_is_deleted_with_its_last_consumer(vhost: VHost) -> None:
    made = queue(vhost, auto_delete=True)
    vhost.consumers_changed(made)
    assert "q" in vhost.queues, "it has had no consumer yet"
    consumers = [ConsumerWithoutRoom(name, None, False, False, 0) for name in "ab"]
    for consumer in consumers:
        made.add_consumer(consumer)
    for consumer, left in zip(consumers, (True, False), strict=True):
        made.consumers.remove(consumer)
        vhost.consumers_changed(made)
        assert ("q" in vhost.queues) == left


CHANGES: list[Callable[[VHost], object]] = [
    lambda vhost: queue(vhost, "new"),
    lambda vhost: exchange(vhost, "new"),
    lambda vhost: vhost.delete_queue(vhost.queues["q"]),
    lambda vhost: vhost.delete_exchange("x"),
    lambda vhost: vhost.bind("x", vhost.queues["q"], "other", Table.EMPTY),
    lambda vhost: vhost.unbind("x", vhost.queues["q"], "k", Table.EMPTY),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_clears_the_cached_routes(vhost: VHost, change: Callable[[VHost], object]) -> None:
    exchange(vhost)
    vhost.bind("x", queue(vhost), "k", Table.EMPTY)
    remembered = vhost.routes.setdefault("guest", RouteCache(ByteCount()))
    remembered[b"publish"] = None  # type: ignore[assignment]
    change(vhost)
    assert remembered == {} and vhost.routes["guest"] is remembered
