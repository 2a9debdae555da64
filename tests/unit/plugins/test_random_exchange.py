"""x-random and x-local-random: who is chosen how often, and what may be bound."""

from collections import Counter

import pytest

from tests.support.queues import routed
from tests.support.session import new_node
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.vhost.vhost import VHost
from warren.plugins.exchanges.random_exchange import LocalRandomExchange, RandomExchange

MESSAGE = framed(RoutingAddress("x", "k"), Properties(), b"")
QUORUM = Table.of({"x-queue-type": "quorum"})
ROUNDS = 4000


@pytest.fixture
def vhost() -> VHost:
    node = new_node()
    node.registry.register("x-random", RandomExchange)
    node.registry.register("x-local-random", LocalRandomExchange)
    vhost = node.vhosts["/"]
    for type_ in ("random", "local-random"):
        vhost.declare_exchange(type_, f"x-{type_}")
    return vhost


def bind(vhost: VHost, exchange: str, name: str, key: str = "", arguments: Table = Table.EMPTY) -> None:
    vhost.bind(exchange, vhost.declare_queue(name), key, arguments)


def chosen(vhost: VHost, exchange: str) -> Counter[str]:
    """Route ROUNDS messages with one key, each to one queue at most. Returns how many each queue gets."""
    got: Counter[str] = Counter()
    for _ in range(ROUNDS):
        search = routed(vhost, vhost.exchanges[exchange], ("k",), MESSAGE)
        assert len(search.targets) <= 1 and not search.stable
        got.update(queue.name for queue in search.targets)
    return got


@pytest.mark.parametrize("exchange", ["random", "local-random"])
def test_each_queue_is_as_likely_as_any_other(vhost, exchange):
    for name in "abcd":
        bind(vhost, exchange, name)
    got = chosen(vhost, exchange)
    assert set(got) == set("abcd") and all(850 < many < 1150 for many in got.values())


@pytest.mark.parametrize("exchange", ["random", "local-random"])
def test_nothing_bound_routes_to_nothing(vhost, exchange):
    bind(vhost, exchange, "a")
    vhost.delete_queue(vhost.queues["a"])
    assert routed(vhost, vhost.exchanges[exchange], ("k",), MESSAGE).targets == ()


@pytest.mark.parametrize("exchange", ["random", "local-random"])
def test_what_is_unbound_is_not_chosen_any_more(vhost, exchange):
    for name in "abcde":
        bind(vhost, exchange, name)
    for name in "aec":
        vhost.delete_queue(vhost.queues[name])
        assert set(chosen(vhost, exchange)) == set(vhost.queues)


def test_a_queue_that_is_bound_twice_gets_twice_as_much(vhost):
    bind(vhost, "random", "a", "k1")
    bind(vhost, "random", "a", "k2")
    bind(vhost, "random", "b", "k1")
    assert 1.7 < (got := chosen(vhost, "random"))["a"] / got["b"] < 2.35
    vhost.unbind("random", vhost.queues["a"], "k1", Table.EMPTY)
    assert 0.85 < (got := chosen(vhost, "random"))["a"] / got["b"] < 1.18


def test_a_local_queue_that_is_bound_twice_gets_no_more(vhost):
    for number in range(4):
        bind(vhost, "local-random", "a", arguments=Table.of({"n": number}))
    bind(vhost, "local-random", "b")
    assert 0.85 < (got := chosen(vhost, "local-random"))["a"] / got["b"] < 1.18


def test_a_random_exchange_may_lead_to_exchanges(vhost):
    vhost.declare_exchange("inner", "fanout")
    bind(vhost, "inner", "a")
    vhost.bind("random", vhost.exchanges["inner"], "", Table.EMPTY)
    assert chosen(vhost, "random")["a"] == ROUNDS


def test_the_key_of_a_local_binding_must_be_empty(vhost):
    with pytest.raises(PreconditionFailed) as caught:
        bind(vhost, "local-random", "a", "key")
    assert caught.value.text == "Non empty binding 'key' key not permitted"


def test_a_local_binding_leads_to_no_quorum_queue(vhost):
    queue = vhost.declare_queue("q", durable=True, arguments=QUORUM)
    with pytest.raises(PreconditionFailed) as caught:
        vhost.bind("local-random", queue, "", Table.EMPTY)
    assert caught.value.text == "Queue type quorum not valid for this exchange type"


def test_a_local_binding_leads_to_no_exchange(vhost):
    with pytest.raises(PreconditionFailed) as caught:
        vhost.bind("local-random", vhost.exchanges["amq.fanout"], "", Table.EMPTY)
    assert caught.value.text == "Destination not found"
