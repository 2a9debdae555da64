"""Bindings between exchanges, internal exchanges, and the alternate exchange."""

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.support.amqp_client import Channel, Content
from tests.support.peer import Name


def test_an_internal_exchange_is_reached_only_by_way_of_another(ch: Channel, queue: str, name: Name) -> None:
    ch.exchange(inner := name("inner"), "fanout", internal=True)
    ch.exchange(outer := name("outer"), "fanout")
    ch.bind(queue, inner)
    ch.bind_exchange(inner, outer)
    ch.publish(outer, "key", b"body")
    message = ch.get(queue)
    assert message is not None and message.body == b"body"
    assert (message.method.exchange, message.method.routing_key) == (outer, "key")
    ch.publish(inner, "key", b"refused")
    closed = ch.expect_close(403)
    assert closed.reply_text == f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'"


def test_a_loop_of_exchanges_gives_each_queue_one_copy(ch: Channel, name: Name) -> None:
    exchanges, queues = [name(f"exchange-{at}") for at in range(3)], [name(f"queue-{at}") for at in range(3)]
    for exchange, queue in zip(exchanges, queues, strict=True):
        ch.exchange(exchange, "fanout")
        ch.declare(queue)
        ch.bind(queue, exchange)
        ch.bind_exchange(exchange, exchange)
    for at in range(3):
        ch.bind_exchange(exchanges[at - 1], exchanges[at])
    for exchange in exchanges:
        ch.publish(exchange, "key", b"body")
        assert [ch.drain(queue) for queue in queues] == [[b"body"]] * 3


def test_two_ways_to_a_queue_give_one_copy(ch: Channel, queue: str, name: Name) -> None:
    top, left, right = name("top"), name("left"), name("right")
    for exchange in (top, left, right):
        ch.exchange(exchange, "fanout")
    for side in (left, right):
        ch.bind_exchange(side, top)
        ch.bind(queue, side)
    ch.bind(queue, top)
    ch.publish(top, "key", b"body")
    assert ch.drain(queue) == [b"body"]


def test_each_exchange_on_the_way_routes_by_its_own_bindings(ch: Channel, queue: str, name: Name) -> None:
    ch.exchange(topic := name("topic"), "topic")
    ch.exchange(direct := name("direct"))
    ch.bind_exchange(direct, topic, "a.#")
    ch.bind(queue, direct, "a.b")
    for key in ("a.b", "a.c", "b.a"):
        ch.publish(topic, key, key.encode())
    assert ch.drain(queue) == [b"a.b"]


def test_exchange_bindings_are_made_and_removed_once(ch: Channel, queue: str, name: Name) -> None:
    ch.exchange(source := name("source"), "fanout")
    ch.exchange(destination := name("destination"), "fanout")
    ch.bind(queue, destination)
    for _ in range(2):
        ch.bind_exchange(destination, source)
    ch.publish(source, "", b"one")
    for _ in range(2):
        ch.call(Exchange.Unbind, destination=destination, source=source, routing_key="")
    ch.publish(source, "", b"none")
    assert ch.drain(queue) == [b"one"]


@pytest.mark.parametrize("missing", ["source", "destination"])
def test_an_exchange_is_not_bound_to_a_missing_one_and_unbound_without_complaint(ch: Channel, missing: str) -> None:
    ends = {"source": "amq.fanout", "destination": "amq.fanout", missing: "missing"}
    ch.call(Exchange.Unbind, **ends)
    assert ch.refused(404, Exchange.Bind, **ends).reply_text == "NOT_FOUND - no exchange 'missing' in vhost '/'"


def test_an_alternate_exchange_takes_only_what_finds_no_way(ch: Channel, name: Name) -> None:
    direct, lost = name("direct"), name("lost")
    ch.exchange(alternate := name("alternate"), "fanout")
    ch.exchange(exchange := name("exchange"), arguments={"alternate-exchange": alternate})
    ch.declare(direct)
    ch.declare(lost)
    ch.bind(direct, exchange, "known")
    ch.bind(lost, alternate)
    ch.publish(exchange, "known", b"known", mandatory=True)
    ch.publish(exchange, "unknown", b"unknown", mandatory=True)
    ch.nothing()
    assert ch.drain(direct) == [b"known"]
    message = ch.get(lost)
    assert message is not None and message.body == b"unknown"
    assert (message.method.exchange, message.method.routing_key) == (exchange, "unknown")
    assert ch.get(lost) is None


def test_a_missing_alternate_exchange_is_no_error_and_the_message_returns(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), arguments={"alternate-exchange": "missing"})
    ch.publish(exchange, "key", b"body", mandatory=True)
    returned = ch.next()
    assert isinstance(returned, Content) and isinstance(returned.method, Basic.Return)


def test_a_chain_of_alternates_is_followed_and_its_cycle_ends(ch: Channel, name: Name) -> None:
    chain = [name(f"exchange-{at}") for at in range(3)]
    for at, exchange in enumerate(chain):
        ch.exchange(exchange, arguments={"alternate-exchange": chain[(at + 1) % 3]})
    ch.declare(queue := name("queue"))
    ch.bind(queue, chain[2], "key")
    ch.publish(chain[0], "key", b"found", mandatory=True)
    ch.nothing()
    assert ch.drain(queue) == [b"found"]
    ch.publish(chain[0], "other", b"lost", mandatory=True)
    returned = ch.next()
    assert (returned.method.name, returned.body) == ("Basic.Return", b"lost")
    ch.call(Queue.Delete, queue=queue)


def test_an_exchange_that_leads_to_an_exchange_has_found_a_way(ch: Channel, name: Name) -> None:
    ch.exchange(alternate := name("alternate"), "fanout")
    ch.exchange(exchange := name("exchange"), "fanout", arguments={"alternate-exchange": alternate})
    ch.exchange(blind := name("blind"), "fanout")
    ch.declare(queue := name("queue"))
    ch.bind(queue, alternate)
    ch.bind_exchange(blind, exchange)
    ch.publish(exchange, "key", b"body")
    ch.sync()
    assert ch.drain(queue) == []
