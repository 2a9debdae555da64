"""Corner cases of x-presence: summaries, messages that return through exchanges, relayed properties, large numbers."""

import time

import pytest

from tests.support.clock import FakeClock
from tests.support.queues import Delivery, Taker, taken
from tests.support.session import SlowJournal, new_node
from tests.support.speed import within, without_collector
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.exchange_type import UpstreamExchange
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.route_target import RouteTarget
from warren.broker.core.vhost.vhost import VHost
from warren.plugins.exchanges.delayed_message import DelayedMessageExchange
from warren.plugins.exchanges.presence import PresenceExchange, wants_summary

ZEROS = [(kind, 0) for kind in "bBsuIilL"] + [("f", 0.0), ("d", -0.0), ("D", (2, 0)), ("t", False)]
OTHERS = [("I", 1), ("b", -1), ("d", 0.1), ("D", (0, 1)), ("t", True), ("V", None), ("S", b"0"), ("S", b"false"),
          ("A", []), ("F", Table.EMPTY), ("T", 0), ("x", b"\0")]  # fmt: skip


@pytest.fixture
def vhost() -> VHost:
    return new_vhost()


def new_vhost() -> VHost:
    node = new_node()
    node.registry.register("x-presence", PresenceExchange)
    node.registry.register("x-delayed-message", DelayedMessageExchange)
    node.vhosts["/"].declare_exchange("p", "x-presence")
    return node.vhosts["/"]


def queue(vhost: VHost, name: str, **arguments: object) -> Queue:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return vhost.declare_queue(name, arguments=Table.of(named))


def relaying(vhost: VHost, name: str) -> None:
    vhost.declare_exchange(name, "x-presence", arguments=Table.of({"x-presence-relay": True}))


def publish(vhost: VHost, exchange: str, key: str = "k", body: bytes = b"body") -> int:
    """Publish a message. Returns the number of queues that get it."""
    message = framed(RoutingAddress(exchange, key), Properties(), body)
    queues = targets(vhost, exchange, message)
    vhost.enqueue([message], len(body), False, queues)
    return len(queues)


def targets(vhost: VHost, exchange: str, message: Message) -> tuple[RouteTarget, ...]:
    """Return the targets of a client's publish."""
    search = vhost.search(vhost.exchanges[exchange], (message.address.routing_key,), message, published=True)
    assert search.run()
    return search.targets


def notices(queue: Queue) -> list[str]:
    """Return notices in the form `bind q k`."""
    texts = []
    for message in taken(queue):
        headers = message.headers
        texts.append(" ".join(headers.text(key) or "" for key in ("action", "queue", "key")))
    return texts


@pytest.mark.parametrize("value", ZEROS, ids=repr)
def test_a_zero_of_any_numeric_type_and_false_want_no_summary(value):
    assert not wants_summary(value)


@pytest.mark.parametrize("value", [*OTHERS, None], ids=repr)
def test_anything_else_wants_one(value):
    assert wants_summary(value)


def test_a_consumer_gets_the_notice_of_an_expired_queue_without_waiting_for_other_traffic(vhost):
    listener, someone = queue(vhost, "listener"), queue(vhost, "someone", x_expires=500)
    vhost.bind("p", listener, "", Table.EMPTY)
    vhost.bind("p", someone, "k", Table.EMPTY)
    assert notices(listener) == ["bind someone k"]
    log: list[Delivery] = []
    listener.add_consumer(Taker("1", listener, log, False, 0, 10))
    assert isinstance(listener.host.clock, FakeClock)
    listener.host.clock.advance(500)
    assert [message.headers.text("action") for _, _, message, _ in log] == ["unbind"]


def test_a_queue_that_listens_and_is_present_hears_of_itself_but_not_of_its_end(vhost):
    both, other = queue(vhost, "both"), queue(vhost, "other")
    vhost.bind("p", both, "k", Table.EMPTY)
    vhost.bind("p", both, "", Table.EMPTY)
    vhost.bind("p", other, "", Table.EMPTY)
    vhost.bind("p", both, "l", Table.EMPTY)
    assert notices(both) == notices(other) == ["bind both k", "bind both l"]
    vhost.delete_queue(both)
    assert notices(other) == ["unbind both k", "unbind both l"]
    assert both.ready == 0


def test_a_queue_that_listens_by_two_bindings_is_told_once_and_until_both_are_gone(vhost):
    listener, someone = queue(vhost, "l"), queue(vhost, "q")
    vhost.bind("p", listener, "", Table.EMPTY)
    vhost.bind("p", listener, "", Table.of({"n": 1}))
    vhost.bind("p", someone, "k", Table.EMPTY)
    vhost.unbind("p", listener, "", Table.EMPTY)
    vhost.unbind("p", someone, "k", Table.EMPTY)
    assert notices(listener) == ["bind q k", "unbind q k"]
    vhost.unbind("p", listener, "", Table.of({"n": 1}))
    vhost.bind("p", someone, "k", Table.EMPTY)
    assert notices(listener) == []


def test_bindings_that_differ_in_arguments_are_told_of_one_by_one(vhost):
    listener, someone = queue(vhost, "l"), queue(vhost, "q")
    vhost.bind("p", listener, "", Table.EMPTY)
    vhost.bind("p", someone, "k", Table.EMPTY)
    vhost.bind("p", someone, "k", Table.of({"n": 1}))
    vhost.unbind("p", someone, "k", Table.of({"n": 1}))
    assert notices(listener) == ["bind q k", "bind q k", "unbind q k"]


def test_what_a_listener_with_a_time_to_live_makes_of_a_notice_is_its_own(vhost):
    someone, hasty, patient = queue(vhost, "q"), queue(vhost, "hasty", x_message_ttl=10), queue(vhost, "patient")
    vhost.bind("p", someone, "k", Table.EMPTY)
    vhost.bind("p", hasty, "", Table.EMPTY)
    vhost.bind("p", patient, "", Table.EMPTY)
    vhost.clock.advance(20)  # type: ignore[attr-defined]
    assert notices(hasty) == []
    assert notices(patient) == ["bind q k"]


def test_an_exchange_that_listens_routes_what_it_is_told(vhost):
    vhost.declare_exchange("f", "fanout")
    far, someone = queue(vhost, "far"), queue(vhost, "q")
    vhost.bind("f", far, "", Table.EMPTY)
    vhost.bind("p", someone, "k", Table.EMPTY)
    vhost.bind("p", vhost.exchanges["f"], "", Table.EMPTY)
    vhost.unbind("p", someone, "k", Table.EMPTY)
    assert notices(far) == ["bind q k", "unbind q k"]


def test_a_relay_counts_as_routed_only_where_somebody_listens(vhost):
    relaying(vhost, "r")
    assert publish(vhost, "r") == 0
    listener, someone = queue(vhost, "l"), queue(vhost, "q")
    vhost.bind("r", someone, "k", Table.EMPTY)
    assert publish(vhost, "r") == 0
    vhost.bind("r", listener, "", Table.of({"x-presence-exchange-summary": False}))
    assert publish(vhost, "r") == 1
    (message,) = taken(listener)
    assert (message.headers.text("action"), message.headers.text("key"), message.body) == ("message", "k", b"body")
    assert taken(someone) == []


def test_a_relay_is_persistent_where_the_message_was():
    node = new_node(SlowJournal())
    node.registry.register("x-presence", PresenceExchange)
    vhost = node.vhosts["/"]
    relaying(vhost, "r")
    listener = vhost.declare_queue("l", durable=True)
    vhost.bind("r", listener, "", Table.EMPTY)
    message = framed(RoutingAddress("r", "k"), Properties(delivery_mode=2), b"")
    assert vhost.enqueue([message], 0, True, targets(vhost, "r", message)).stored
    (relayed,) = taken(listener)
    assert relayed.persistent and relayed.id


def test_what_a_relay_is_told_by_way_of_other_exchanges_bears_its_own_name(vhost):
    relaying(vhost, "r")
    listener = queue(vhost, "l")
    vhost.bind("r", listener, "", Table.EMPTY)
    vhost.bind("amq.fanout", vhost.exchanges["r"], "", Table.EMPTY)
    assert publish(vhost, "amq.fanout", "some.key") == 1
    (message,) = taken(listener)
    assert (message.address.exchange, message.address.routing_key) == ("r", "some.key")
    assert message.headers.text("exchange") == "r"


def test_relays_that_listen_to_each_other_and_to_themselves_relay_what_clients_publish_alone(vhost):
    relaying(vhost, "r")
    relaying(vhost, "s")
    listener = queue(vhost, "l")
    for source, destination in (("r", "r"), ("r", "s"), ("s", "r"), ("s", "s")):
        vhost.bind(source, vhost.exchanges[destination], "", Table.EMPTY)
    for relay in ("r", "s"):
        vhost.bind(relay, listener, "", Table.EMPTY)
    publish(vhost, "r")
    assert [each.headers.text("exchange") for each in taken(listener)] == ["r"]
    vhost.bind("r", queue(vhost, "q"), "k", Table.EMPTY)
    assert [each.headers.text("action") for each in taken(listener)] == ["bind"]


def test_a_chain_of_relays_with_two_ways_each_relays_a_publish_once(vhost):
    listener = queue(vhost, "l")
    for number in range(40):  # 2 ** 40 messages, if each relayed what the one before has relayed
        relaying(vhost, f"r{number}")
        vhost.bind(f"r{number}", listener, "", Table.EMPTY)
        for way in ("a", "b"):
            vhost.declare_exchange(f"{way}{number}", "fanout")
            vhost.bind(f"r{number}", vhost.exchanges[f"{way}{number}"], "", Table.EMPTY)
            if number:
                vhost.bind(f"{way}{number - 1}", vhost.exchanges[f"r{number}"], "", Table.EMPTY)
    assert publish(vhost, "r0") == 1
    assert [each.headers.text("exchange") for each in taken(listener)] == ["r0"]
    assert publish(vhost, "a0") == 1
    assert [each.headers.text("exchange") for each in taken(listener)] == ["r1"]


def test_dead_letters_and_messages_of_the_broker_itself_are_not_relayed(vhost):
    relaying(vhost, "r")
    listener, others, unrouted = queue(vhost, "l"), queue(vhost, "others"), queue(vhost, "unrouted")
    vhost.bind("r", listener, "", Table.EMPTY)
    vhost.bind("amq.fanout", vhost.exchanges["r"], "", Table.EMPTY)
    vhost.bind("amq.fanout", others, "", Table.EMPTY)
    vhost.bind("amq.topic", unrouted, "#", Table.EMPTY)
    vhost.declare_exchange("d", "x-delayed-message", arguments=Table.of({"x-delayed-type": "fanout"}))
    vhost.bind("d", vhost.exchanges["r"], "", Table.EMPTY)
    source = queue(vhost, "source", x_message_ttl=0, x_dead_letter_exchange="amq.fanout")
    delayed = queue(vhost, "delayed", x_message_ttl=0, x_dead_letter_exchange="d")
    for dropped in (source, delayed):
        message = framed(RoutingAddress("", dropped.name), Properties(headers=Table.of({"x-delay": 5})), b"x")
        vhost.enqueue([message], 1, False, (dropped,))
    vhost.pump()
    vhost.clock.advance(10)
    assert vhost.publish(
        vhost.exchanges["amq.fanout"], framed(RoutingAddress("amq.fanout", ""), Properties(), b"event")
    )
    assert [each.body for each in taken(others)] == [b"x", b"event"]
    assert taken(listener) == []


def test_what_is_not_relayed_goes_to_the_alternate_exchange(vhost):
    arguments = Table.of({"x-presence-relay": True, "alternate-exchange": "amq.fanout"})
    vhost.declare_exchange("r", "x-presence", arguments=arguments)
    listener, unrouted = queue(vhost, "l"), queue(vhost, "unrouted")
    vhost.bind("r", listener, "", Table.EMPTY)
    vhost.bind("amq.fanout", unrouted, "", Table.EMPTY)
    vhost.publish(vhost.exchanges["r"], framed(RoutingAddress("r", "k"), Properties(), b"event"))
    publish(vhost, "r", body=b"publish")
    assert ([each.body for each in taken(unrouted)], [each.body for each in taken(listener)]) == (
        [b"event"],
        [b"publish"],
    )


UPSTREAM = UpstreamExchange("elsewhere", "/", "r")


@pytest.mark.parametrize("between", [False, True])
def test_what_a_link_brings_goes_to_no_listener_while_another_one_would_refuse_it(vhost, between):
    relaying(vhost, "r")
    first, full = queue(vhost, "first"), queue(vhost, "full", x_max_length=1, x_overflow="reject-publish")
    vhost.bind("r", first, "", Table.EMPTY)
    vhost.declare_exchange("between", "fanout")
    vhost.bind("between", full, "", Table.EMPTY)
    vhost.bind("r", vhost.exchanges["between"] if between else full, "", Table.EMPTY)
    path = ("A", [("F", Table.of({"cluster-name": "elsewhere", "vhost": "/"}))])
    headers = Table.of({"action": "message", "key": "k"}).with_items([("x-received-from", path)])
    message = framed(RoutingAddress("r", "k"), Properties(headers=headers), b"body")

    def bring():
        steps = vhost.exchanges["r"].type.on_federated(message, UPSTREAM)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value.refused

    assert not bring()
    assert [bring() for _ in range(3)] == [{0}] * 3
    assert (len(taken(first)), len(taken(full))) == (1, 1)
    assert not bring()
    assert (len(taken(first)), len(taken(full))) == (1, 1)


def test_whether_it_relays_must_be_said_again_and_be_a_bool(vhost):
    relaying(vhost, "r")
    relaying(vhost, "r")
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-presence-relay' for exchange 'r'"):
        vhost.declare_exchange("r", "x-presence")
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-presence-relay' for exchange 's': expected bool"):
        vhost.declare_exchange("s", "x-presence", arguments=Table.of({"x-presence-relay": 1}))
    assert "s" not in vhost.exchanges


@pytest.mark.parametrize(("listeners", "producers"), [(2, 1_998), (1_998, 2), (1_000, 1_000)])
def test_two_thousand_bind_in_less_than_a_fifth_of_a_second(listeners, producers):
    """Measure processor time of this thread. Presences first, so that each listener gets a summary of them all.

    The work is at most that for each pair: ten thousand, with 25 times as many pairs, bind in less than five seconds.
    """

    def bind_s() -> float:
        vhost = new_vhost()
        listening = [queue(vhost, f"l{number}") for number in range(listeners)]
        present = [queue(vhost, f"q{number}") for number in range(producers)]
        with without_collector():
            begin = time.thread_time()
            for each in present:
                vhost.bind("p", each, "here", Table.EMPTY)
            for each in listening:
                vhost.bind("p", each, "", Table.EMPTY)
            vhost.scheduler.finish_all()
            spent_s = time.thread_time() - begin
        assert {each.ready for each in listening} == {producers}
        return spent_s

    assert any(within(bind_s(), 0.2) for _ in range(3))
