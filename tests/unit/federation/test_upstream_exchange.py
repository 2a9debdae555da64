"""The exchange type x-federation-upstream."""

import gc
from binascii import crc32
from typing import Any

import pytest
from pamqp.commands import Tx

from tests.support import queues
from tests.support.clock import FakeClock
from tests.support.in_process import InProcessPeer
from tests.support.queues import routed, taken
from tests.support.session import SlowJournal, new_node
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.vhost import VHost
from warren.federation import upstream_exchange
from warren.federation.deduplication import identity_from_header
from warren.federation.upstream_exchange import FederationUpstreamExchange

TYPE = "x-federation-upstream"
ARGUMENTS: dict[str, object] = {
    "x-max-hops": ("l", 2),
    "x-downstream-name": "down",
    "x-downstream-vhost": "/",
    "x-internal-purpose": "federation",
}


@pytest.fixture
def journal() -> SlowJournal:
    return SlowJournal()


@pytest.fixture
def node(journal: SlowJournal) -> Node:
    node = new_node(journal)
    node.registry.register(TYPE, FederationUpstreamExchange)
    return node


@pytest.fixture
def vhost(node: Node) -> VHost:
    vhost = node.vhosts["/"]
    vhost.declare_exchange("x", "topic", durable=True)
    return vhost


def declare(vhost: VHost, name: str, **changed: object) -> None:
    arguments = {**ARGUMENTS, **{key.replace("_", "-"): value for key, value in changed.items()}}
    given = Table.of({key: value for key, value in arguments.items() if value is not None})
    vhost.declare_exchange(name, TYPE, durable=True, auto_delete=True, internal=True, arguments=given)


def downstream(vhost: VHost, name: str, *keys: str, **changed: object) -> Queue:
    """The queue of a link that is bound for these keys."""
    declare(vhost, f"{name} B", **changed)
    queue = vhost.declare_queue(name, durable=True)
    vhost.bind(f"{name} B", queue, "", Table.EMPTY)
    for key in keys or ("#",):
        vhost.bind("x", vhost.exchanges[f"{name} B"], key, Table.EMPTY)
    return queue


def publish(vhost: VHost, key: str = "k", body: bytes = b"body", **properties: Any) -> int:
    return queues.publish(vhost, "x", key, body, **properties)


def came_from(*entries: tuple[str, str]) -> Table:
    return Table.of({"x-received-from": [{"cluster-name": name, "vhost": vhost} for name, vhost in entries]})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "Argument x-max-hops missing"),
        ("2", "Argument x-max-hops must be of type long, not longstr"),
        (2.0, "Argument x-max-hops must be of type long, not double"),
    ],
)
def test_max_hops_has_to_be_a_number(vhost: VHost, value: object, message: str) -> None:
    with pytest.raises(PreconditionFailed, match=message):
        declare(vhost, "ix", x_max_hops=value)


def test_max_hops_may_be_of_any_width_and_has_to_be_the_same_again(vhost: VHost) -> None:
    declare(vhost, "ix", x_max_hops=("b", 2))
    declare(vhost, "ix", x_max_hops=("l", 2), x_downstream_name="other")
    with pytest.raises(PreconditionFailed, match="x-max-hops"):
        declare(vhost, "ix", x_max_hops=3)


def test_one_that_is_deleted_is_freed(vhost: VHost) -> None:
    declare(vhost, "ix", x_max_hops=2)
    gc.collect()
    gc.disable()
    try:
        vhost.delete_exchange("ix")
        assert not [one for one in gc.get_objects() if isinstance(one, FederationUpstreamExchange)]
    finally:
        gc.enable()


def test_it_is_a_fanout_for_what_may_go_there(vhost: VHost) -> None:
    queue = downstream(vhost, "q")
    publish(vhost)
    publish(vhost, headers=came_from(("a", "/")))
    publish(vhost, headers=came_from(("b", "/"), ("a", "/")))  # two hops
    publish(vhost, headers=came_from(("down", "/")))  # has been there
    publish(vhost, headers=came_from(("down", "other")))
    assert [len(message.headers) for message in taken(queue)] == [0, 1, 1]


def test_peers_that_do_not_say_who_they_are_get_all_that_has_hops_left(vhost: VHost) -> None:
    queue = downstream(vhost, "q", x_downstream_vhost=None)
    publish(vhost, headers=came_from(("down", "/")))
    publish(vhost, headers=came_from(("b", "/"), ("a", "/")))
    assert len(taken(queue)) == 1


def test_two_internal_exchanges_of_one_queue_deliver_one_copy(vhost: VHost) -> None:
    queue = downstream(vhost, "q", "k", "#")
    declare(vhost, "q A")
    vhost.bind("q A", queue, "", Table.EMPTY)
    vhost.bind("x", vhost.exchanges["q A"], "k", Table.EMPTY)
    publish(vhost)
    assert len(taken(queue)) == 1


def test_an_exchange_that_lost_its_queue_routes_nowhere(vhost: VHost) -> None:
    queue = downstream(vhost, "q", x_deduplicate=True)
    exchange = vhost.exchanges["q B"]
    vhost.delete_queue(queue)
    assert "q B" not in vhost.exchanges
    assert exchange.type.route(("k",), framed(RoutingAddress("x", "k"), Properties(), b"")) == []


# Identities


def identities(queue: Queue) -> list[bytes]:
    return [identity_from_header(message.property_bytes, crc32(message.body)) for message in taken(queue)]


def test_all_downstreams_of_a_publish_get_it_with_one_identity(vhost: VHost) -> None:
    queues = [downstream(vhost, name, x_deduplicate=True) for name in ("q1", "q2", "q3")]
    here = vhost.declare_queue("here")
    vhost.bind("x", here, "#", Table.EMPTY)
    assert publish(vhost, body=b"one", message_id="m") == 4
    publish(vhost, body=b"two")
    found = [identities(queue) for queue in queues]
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == 2 and all(found[0])
    assert identities(here) == [b"", b""], "who consumes here gets what was published"


def test_messages_are_not_kept_alive_by_their_identity(node: Node, vhost: VHost) -> None:
    queue, clock = downstream(vhost, "q", x_deduplicate=True), node.clock
    assert isinstance(clock, FakeClock)
    for _ in range(2):
        publish(vhost, body=b"once")
        assert len(taken(queue)) == 1
        assert upstream_exchange._identities._messages
        clock.advance(1)
        assert not upstream_exchange._identities._messages


def test_without_being_asked_it_changes_nothing(vhost: VHost) -> None:
    asked, unasked = downstream(vhost, "q1", x_deduplicate=True), downstream(vhost, "q2")
    publish(vhost, message_id="m", headers=Table.of({"a": ("s", 1)}))
    (one,), (other,) = taken(asked), taken(unasked)
    assert other.properties.headers == Table.of({"a": ("s", 1)})
    assert one.properties.message_id == "m" and one.headers.get("a") == ("s", 1)
    assert one.body == other.body == b"body" and one.address.routing_key == "k"


def test_a_message_keeps_the_identity_that_it_has_and_goes_any_number_of_hops(vhost: VHost) -> None:
    first, second = downstream(vhost, "q1", x_deduplicate=True), downstream(vhost, "q2", x_deduplicate=True)
    publish(vhost)
    (message,) = taken(first)
    far = came_from(("d", "/"), ("c", "/"), ("b", "/"), ("a", "/"))
    headers = message.headers.with_items(far.items())
    taken(second)
    publish(vhost, headers=headers)
    (again,) = taken(second)
    assert again.headers == headers
    publish(vhost, headers=message.headers.with_items(came_from(("down", "/")).items()))
    assert len(taken(second)) == 0, "but not where it has been"


def test_something_else_under_its_headers_is_another_message(vhost: VHost) -> None:
    queue = downstream(vhost, "q", x_deduplicate=True)
    publish(vhost)
    (message,) = taken(queue)
    publish(vhost, body=b"an answer", headers=message.headers)
    (answer,) = taken(queue)
    assert len(answer.headers) == 1 and answer.headers != message.headers


def test_a_persistent_message_is_confirmed_when_the_copy_is_stored(vhost: VHost, journal: SlowJournal) -> None:
    queue = downstream(vhost, "q", x_deduplicate=True)
    message = framed(RoutingAddress("x", "k"), Properties(delivery_mode=2, expiration="5000"), b"body")
    queues = routed(vhost, vhost.exchanges["x"], ("k",), message).targets
    receipt = vhost.enqueue([message], 4, True, queues)
    assert receipt.stored
    assert [stored.body for stored in journal.live.values()] == [b"body"]
    (found,) = taken(queue)
    assert found.persistent and found.properties.expiration == "5000"


@pytest.fixture
def broker() -> InProcessPeer:
    broker = InProcessPeer()
    if TYPE not in broker.node.registry.names():
        broker.node.registry.register(TYPE, FederationUpstreamExchange)
    return broker


@pytest.mark.parametrize("transactional", [False, True])
def test_a_cached_route_does_not_ignore_hops(broker: InProcessPeer, transactional: bool) -> None:
    vhost = broker.node.vhosts["/"]
    vhost.declare_exchange("x", "topic", durable=True)
    queue = downstream(vhost, "down", "key")
    ch = broker.connect().channel()
    if transactional:
        ch.call(Tx.Select)
    none = Table.EMPTY
    away, there, far = came_from(("other", "/")), came_from(("down", "/")), came_from(("other", "/"), ("third", "/"))
    sent = [none, none, away, there, none, Table.of({"a": "b"}), there, there, far, away, none, Table.of({"a": 1}), far]
    for number, headers in enumerate(sent):
        ch.publish("x", "key", str(number).encode(), Properties(headers=headers).encode())
    if transactional:
        ch.call(Tx.Commit)
    broker.settle()
    went = [str(number).encode() for number, headers in enumerate(sent) if headers not in (there, far)]
    assert ch.drain("down") == went
    vhost.unbind("down B", queue, "", Table.EMPTY)
    ch.publish("x", "key", b"nowhere")
    assert ch.drain("down") == []


def test_what_deduplicates_gives_each_message_an_identity_though_others_are_alike(broker: InProcessPeer) -> None:
    vhost = broker.node.vhosts["/"]
    vhost.declare_exchange("x", "topic", durable=True)
    downstream(vhost, "plain", "key")
    downstream(vhost, "down", "key", x_deduplicate=True)
    ch = broker.connect().channel()
    for _ in range(3):
        ch.publish("x", "key", b"body")
    broker.settle()
    assert len(set(identities(vhost.queues["down"]))) == 3
    assert identities(vhost.queues["plain"]) == [b""] * 3
