"""The deletion of queues and exchanges with very many bindings."""

import pytest

from tests.support.in_process import InProcessPeer
from tests.support.queues import routed
from warren.broker.amqp.field_table import Table
from warren.broker.core.definitions.exporter import export_definitions
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.exchanges.router import NOTHING
from warren.broker.core.jobs.scheduler import TURN_COST
from warren.broker.core.messages.binding import Binding
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.observer import Observer
from warren.broker.core.vhost.vhost import BINDINGS, VHost, unbinding_cost

MANY = 20 * BINDINGS
TYPES = ["topic", "direct", "fanout", "headers"]


@pytest.fixture
def vhost() -> VHost:
    return InProcessPeer().node.vhosts["/"]


class Ends(Observer):
    def __init__(self) -> None:
        self.unbound_keys: list[str] = []
        self.gone: list[str] = []

    def binding_removed(self, vhost: str, binding: object) -> None:
        self.unbound_keys.append(binding.routing_key)  # type: ignore[attr-defined]

    def exchange_deleted(self, exchange: Exchange) -> None:
        self.gone.append(exchange.name)


class Place:
    """An exchange and a queue with MANY bindings between them, and another queue that is bound to the exchange."""

    def __init__(self, type_: str = "topic", auto_delete: bool = False, durable: bool = False) -> None:
        self.peer = InProcessPeer()
        self.vhost = self.peer.node.vhosts["/"]
        self.ends = Ends()
        self.peer.node.observers.add(self.ends)
        self.vhost.declare_exchange("x", type_, durable=durable, auto_delete=auto_delete)
        for name in ("q", "other"):
            self.vhost.declare_queue(name, durable=durable)
        self.bind()
        self.vhost.bind("x", self.vhost.queues["other"], "k1", Table.EMPTY)

    def bind(self) -> None:
        for number in range(MANY):
            self.vhost.bind("x", self.vhost.queues["q"], f"k{number}", Table.EMPTY)


@pytest.mark.parametrize("type_", TYPES)
def test_a_deleted_queue_gets_nothing_while_its_bindings_are_dropped_in_slices(type_: str) -> None:
    place = Place(type_)
    exchange = place.vhost.exchanges["x"]
    place.vhost.delete_queue(place.vhost.queues["q"])
    assert "q" not in place.vhost.queues
    assert 0 < len(place.ends.unbound_keys) < MANY
    if type_ != "headers":  # which routes by the message
        assert [queue.name for queue in routed(place.vhost, exchange, ("k1",), NOTHING).targets] == ["other"]
    if type_ in ("topic", "direct"):
        assert routed(place.vhost, exchange, (f"k{MANY - 1}",), NOTHING).targets == ()
    place.peer.settle()
    assert len(place.ends.unbound_keys) == MANY and not place.vhost.unbinding_jobs
    assert [one.destination.name for one in place.vhost.exchanges["x"].outgoing.values()] == ["other"]


@pytest.mark.parametrize("type_", TYPES)
def test_a_deleted_exchange_disappears_at_once_and_its_bindings_in_slices(type_: str) -> None:
    place = Place(type_)
    place.vhost.delete_exchange("x")
    assert "x" not in place.vhost.exchanges and place.ends.gone == ["x"]
    assert 0 < len(place.ends.unbound_keys) < MANY
    place.peer.settle()
    assert len(place.ends.unbound_keys) == MANY + 1
    assert not place.vhost.queues["q"].incoming and not place.vhost.queues["other"].incoming


@pytest.mark.parametrize("what", ["queue", "exchange"])
def test_what_is_declared_again_under_the_name_keeps_the_bindings_that_are_made_then(what: str) -> None:
    place = Place(durable=True)
    if what == "queue":
        place.vhost.delete_queue(place.vhost.queues["q"])
        place.vhost.declare_queue("q", durable=True)
    else:
        place.vhost.delete_exchange("x")
        place.vhost.declare_exchange("x", "topic", durable=True)
    assert not place.vhost.unbinding_jobs
    place.bind()
    before = len(place.ends.unbound_keys)
    place.peer.settle()
    assert len(place.ends.unbound_keys) == before, "a binding of the new one was dropped"
    assert len(place.vhost.queues["q"].incoming) == MANY


@pytest.mark.parametrize("what", ["queue", "exchange"])
def test_what_many_deletions_delete_at_once_is_bounded_in_a_turn(what: str) -> None:
    """Each of them has two bindings that are deleted at once; a client deletes very many for a short method each."""
    peer = InProcessPeer()
    vhost, ends = peer.node.vhosts["/"], Ends()
    peer.node.observers.add(ends)
    arguments = Table.of({f"{number}": None for number in range(600)})
    for number in range(30):
        queue = vhost.declare_queue(f"q{number}")
        vhost.declare_exchange(f"x{number}", "headers")
        for key in ("one", "two"):
            vhost.bind(f"x{number}", queue, key, arguments)
    peer.settle()
    for number in range(30):
        if what == "queue":
            vhost.delete_queue(vhost.queues[f"q{number}"])
        else:
            vhost.delete_exchange(f"x{number}")
    at_once = len(ends.unbound_keys)
    assert 0 < at_once * unbinding_cost(Binding("x", vhost.exchanges[""], "", arguments)) < 2 * TURN_COST
    peer.settle()
    assert len(ends.unbound_keys) == 60 and not vhost.unbinding_jobs


def test_an_auto_delete_exchange_is_deleted_after_the_last_slice_of_its_bindings() -> None:
    place = Place(auto_delete=True)
    place.vhost.unbind("x", place.vhost.queues["other"], "k1", Table.EMPTY)
    place.vhost.delete_queue(place.vhost.queues["q"])
    assert place.ends.gone == []
    place.peer.settle()
    assert place.ends.gone == ["x"]


def test_definitions_leave_out_bindings_to_what_has_been_deleted() -> None:
    place = Place()
    place.vhost.delete_queue(place.vhost.queues["q"])
    assert place.vhost.unbinding_jobs
    bindings = export_definitions(place.peer.node, "/")["bindings"]
    assert isinstance(bindings, list) and [one["destination"] for one in bindings] == ["other"]


def test_a_virtual_host_that_is_made_again_is_not_touched_by_what_was_in_the_old_one() -> None:
    place = Place()
    place.vhost.delete_queue(place.vhost.queues["q"])
    node = place.peer.node
    node.delete_vhost("/")
    node.add_vhost("/")
    dropped = len(place.ends.unbound_keys)
    assert dropped == MANY + 1
    place.peer.settle()
    assert len(place.ends.unbound_keys) == dropped


def chain(vhost: VHost) -> Queue:
    """Return a queue that is bound to the last of MANY auto-delete exchanges, each bound to the one before."""
    for number in range(MANY):
        vhost.declare_exchange(f"x{number}", "fanout", auto_delete=True)
        if number:
            vhost.bind(f"x{number}", vhost.exchanges[f"x{number - 1}"], "", Table.EMPTY)
    queue = vhost.declare_queue("q")
    vhost.bind("x0", queue, "", Table.EMPTY)
    return queue


def test_an_exchange_that_is_bound_again_before_its_deletion_ends_a_chain_of_deletions(vhost: VHost) -> None:
    vhost.delete_queue(chain(vhost))
    assert vhost.unbinding_jobs and "x0" not in vhost.exchanges
    other = vhost.declare_queue("other")
    vhost.bind(f"x{MANY - 2}", other, "", Table.EMPTY)
    vhost.scheduler.finish_all()
    assert not vhost.unbinding_jobs
    assert f"x{MANY - 3}" not in vhost.exchanges and {f"x{MANY - 2}", f"x{MANY - 1}"} <= set(vhost.exchanges)


def test_a_queue_is_declared_again_after_the_chain_of_deletions(vhost: VHost) -> None:
    vhost.delete_queue(chain(vhost))
    vhost.declare_queue("q")
    assert not vhost.unbinding_jobs and f"x{MANY - 1}" not in vhost.exchanges


def test_a_deleted_virtual_host_ends_a_chain_of_deletions() -> None:
    peer = InProcessPeer()
    peer.node.add_vhost("v")
    vhost = peer.node.vhosts["v"]
    vhost.delete_queue(chain(vhost))
    peer.node.delete_vhost("v")
    peer.settle()
    peer.wait(0)
    assert not vhost.exchanges and not vhost.unbinding_jobs and not len(peer.node.scheduler)


def test_a_bug_in_a_chain_of_deletions_leaves_no_waiting_client() -> None:
    class Failing(Observer):
        def exchange_deleted(self, exchange: Exchange) -> None:
            assert exchange.name != f"x{MANY // 2}"

    peer = InProcessPeer()
    vhost = peer.node.vhosts["/"]
    peer.node.observers.add(Failing())
    vhost.delete_queue(chain(vhost))
    calls: list[str] = []
    vhost.when_unbound(Queue.kind, "q", lambda: calls.append("unbound"))
    peer.settle()
    peer.wait(0)
    assert calls == ["unbound"] and not vhost.unbinding_jobs
    vhost.declare_queue("q")
