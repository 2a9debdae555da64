"""Declaration and deletion of exchanges."""

from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.support.amqp_client import Channel, Content
from tests.support.peer import Name

PREDECLARED = {"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers",
               "amq.match": "headers"}  # fmt: skip
ON_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


def is_missing(ch: Channel, exchange: str) -> bool:
    """Whether an exchange does not exist."""
    probe = ch.client.channel()
    probe.send(Exchange.Declare, exchange=exchange, passive=True)
    reply = probe.next()
    return bool(reply.name == "Channel.Close" and reply.reply_code == 404)


@pytest.mark.parametrize(("exchange", "kind"), PREDECLARED.items())
def test_the_exchanges_of_the_standard_exist(ch: Channel, exchange: str, kind: str) -> None:
    ch.exchange(exchange, kind, passive=True)
    ch.exchange(exchange, kind, durable=True)
    ch.refused(406, Exchange.Declare, exchange=exchange, exchange_type=kind)


def test_a_passive_declare_does_not_look_at_type_or_flags(ch: Channel) -> None:
    ch.exchange("amq.rabbitmq.trace", "nonsense", passive=True)
    ch.exchange("amq.fanout", "direct", passive=True, auto_delete=True)


@pytest.mark.parametrize("fields", [{}, {"durable": True}, {"auto_delete": True}, {"internal": True}])
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_an_equal_declaration_succeeds(ch: Channel, name: Name, kind: str, fields: dict[str, bool]) -> None:
    ch.exchange(exchange := name("exchange"), kind, **fields)
    ch.exchange(exchange, kind, **fields)


@pytest.mark.parametrize(("fields", "text"), [
    (
        {"exchange_type": "fanout"},
        "'type' for exchange '{}' in vhost '/': received 'fanout' but current is 'direct'",
    ),
    ({"durable": True}, "'durable' for exchange '{}' in vhost '/': received 'true' but current is 'false'"),
    ({"auto_delete": True}, "'auto_delete' for exchange '{}' in vhost '/': received 'true' but current is 'false'"),
    ({"internal": True}, "'internal' for exchange '{}' in vhost '/': received 'true' but current is 'false'"),
])  # fmt: skip
def test_a_different_declaration_is_refused(ch: Channel, name: Name, fields: dict[str, Any], text: str) -> None:
    ch.exchange(exchange := name("exchange"))
    closed = ch.refused(406, Exchange.Declare, **{"exchange": exchange, "exchange_type": "direct", **fields})
    assert closed.reply_text == "PRECONDITION_FAILED - inequivalent arg " + text.format(exchange)


def test_arguments_without_meaning_do_not_matter(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), arguments={"nonsense": "x"})
    ch.exchange(exchange, arguments={"other": 1})
    ch.exchange(exchange)


@pytest.mark.parametrize("second", [{}, {"alternate-exchange": "amq.direct"}])
def test_the_alternate_exchange_does_matter(ch: Channel, name: Name, second: dict[str, str]) -> None:
    ch.exchange(exchange := name("exchange"), arguments={"alternate-exchange": "amq.fanout"})
    ch.exchange(exchange, arguments={"alternate-exchange": "amq.fanout"})
    closed = ch.refused(406, Exchange.Declare, exchange=exchange, exchange_type="direct", arguments=second)
    assert "inequivalent arg 'alternate-exchange'" in closed.reply_text


def test_an_alternate_exchange_that_is_no_name_is_refused(ch: Channel, name: Name) -> None:
    arguments = {"alternate-exchange": 5}
    ch.refused(406, Exchange.Declare, exchange=name("exchange"), exchange_type="direct", arguments=arguments)


def test_line_ends_in_names_are_dropped(ch: Channel, name: Name) -> None:
    exchange = name("exchange")
    ch.exchange(f"\r{exchange[:4]}\n\n{exchange[4:]}\r\n")
    ch.exchange(exchange, passive=True)
    ch.declare(queue := name("queue"))
    ch.bind(queue, exchange + "\n", "key")
    ch.call(Queue.Unbind, queue=queue, exchange=exchange + "\n", routing_key="key")
    ch.call(Exchange.Delete, exchange=exchange + "\r\n")
    assert is_missing(ch, exchange)


@pytest.mark.parametrize(("method", "fields"), [
    (Exchange.Declare, {"exchange_type": "direct", "durable": True}),
    (Exchange.Declare, {"exchange_type": "direct", "passive": True}),
    (Exchange.Delete, {}),
    (Queue.Bind, {"routing_key": "k"}),
    (Queue.Unbind, {"routing_key": "k"}),
    (Exchange.Bind, {"destination": "amq.direct", "routing_key": "k"}),
    (Exchange.Bind, {"source": "amq.direct", "routing_key": "k"}),
    (Exchange.Unbind, {"destination": "amq.direct", "routing_key": "k"}),
])  # fmt: skip
def test_the_default_exchange_cannot_be_touched(ch: Channel, queue: str, method: type, fields: dict[str, Any]) -> None:
    named = {"queue": queue} if method in (Queue.Bind, Queue.Unbind) else {}
    assert ch.refused(403, method, **named, **fields).reply_text == ON_DEFAULT


def test_reserved_names_cannot_be_taken(ch: Channel) -> None:
    closed = ch.refused(403, Exchange.Declare, exchange="amq.foo", exchange_type="direct")
    assert closed.reply_text == "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'"


def test_the_exchanges_of_the_standard_cannot_be_deleted(ch: Channel) -> None:
    closed = ch.refused(403, Exchange.Delete, exchange="amq.fanout")
    text = "deletion of system exchange 'amq.fanout' in vhost '/' not allowed"
    assert closed.reply_text == f"ACCESS_REFUSED - {text}"


def test_deleting_twice_is_no_error(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    for _ in range(2):
        ch.call(Exchange.Delete, exchange=exchange)


def test_an_exchange_in_use_stays_if_only_the_unused_is_to_go(ch: Channel, queue: str, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    ch.bind(queue, exchange, "key")
    closed = ch.client.channel().refused(406, Exchange.Delete, exchange=exchange, if_unused=True)
    assert closed.reply_text == f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"
    ch.call(Queue.Unbind, queue=queue, exchange=exchange, routing_key="key")
    ch.call(Exchange.Delete, exchange=exchange, if_unused=True)


def test_being_a_destination_is_not_being_in_use(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"))
    ch.call(Exchange.Bind, destination=exchange, source="amq.fanout")
    ch.call(Exchange.Delete, exchange=exchange, if_unused=True)
    assert is_missing(ch, exchange)


@pytest.mark.parametrize("deleted", [False, True])
def test_an_auto_delete_exchange_goes_with_its_last_binding(ch: Channel, name: Name, deleted: bool) -> None:
    ch.exchange(exchange := name("exchange"), auto_delete=True)
    queues = [name("one"), name("two")]
    for queue in queues:
        ch.declare(queue)
        ch.bind(queue, exchange, "key")
    for queue in queues:
        assert not is_missing(ch, exchange)
        if deleted:
            ch.delete(queue)
        else:
            ch.unbind(queue, exchange, "key")
    assert is_missing(ch, exchange)


@pytest.mark.parametrize("loop", [False, True])
def test_auto_deletion_runs_along_chains_and_loops(ch: Channel, queue: str, name: Name, loop: bool) -> None:
    chain = [name(f"exchange-{at}") for at in range(4)]
    for exchange in chain:
        ch.exchange(exchange, "fanout", auto_delete=True)
    for source, destination in zip(chain, chain[1:], strict=False):
        ch.call(Exchange.Bind, destination=destination, source=source)
    if loop:
        ch.call(Exchange.Bind, destination=chain[0], source=chain[-1])
        ch.call(Exchange.Unbind, destination=chain[2], source=chain[1])
        # 0 -> 1 is cut off: 1 had its last binding as a source, then 0, then 3, then 2.
    else:
        ch.bind(queue, chain[-1])
        ch.call(Queue.Unbind, queue=queue, exchange=chain[-1], routing_key="")
    assert all(is_missing(ch, exchange) for exchange in chain)


def test_auto_deletion_stops_where_another_binding_is_left(ch: Channel, queue: str, name: Name) -> None:
    first, second = name("first"), name("second")
    for exchange in (first, second):
        ch.exchange(exchange, "fanout", auto_delete=True)
        ch.bind(queue, exchange)
    ch.call(Exchange.Bind, destination=second, source=first)
    ch.call(Queue.Unbind, queue=queue, exchange=second, routing_key="")
    assert is_missing(ch, second)
    assert not is_missing(ch, first)
    ch.publish(first, "", b"body")
    assert ch.drain(queue) == [b"body"]


def test_an_auto_delete_exchange_that_was_never_bound_stays(ch: Channel, name: Name) -> None:
    ch.exchange(exchange := name("exchange"), auto_delete=True)
    ch.call(Exchange.Bind, destination=exchange, source="amq.fanout")
    ch.call(Exchange.Unbind, destination=exchange, source="amq.fanout")
    assert not is_missing(ch, exchange)


def test_methods_that_wait_for_no_answer_get_none(ch: Channel, name: Name) -> None:
    exchange, other, queue = name("exchange"), name("other"), name("queue")
    for each in (exchange, other):
        ch.send(Exchange.Declare, exchange=each, exchange_type="fanout", nowait=True)
    ch.send(Queue.Declare, queue=queue, nowait=True)
    ch.send(Queue.Declare, queue=queue, nowait=True)
    ch.send(Queue.Bind, queue=queue, exchange=other, nowait=True)
    ch.send(Exchange.Bind, destination=other, source=exchange, nowait=True)
    ch.publish(exchange, "", b"body")
    ch.nothing()
    assert ch.count(queue) == 1
    ch.send(Queue.Purge, queue=queue, nowait=True)
    ch.send(Exchange.Unbind, destination=other, source=exchange, nowait=True)
    ch.send(Queue.Delete, queue=queue, nowait=True)
    ch.send(Exchange.Delete, exchange=exchange, nowait=True)
    ch.nothing()
    assert is_missing(ch, exchange) and not is_missing(ch, other)


def test_errors_come_even_where_no_answer_is_wanted(ch: Channel) -> None:
    ch.refused(404, Queue.Bind, queue="missing", exchange="amq.fanout", nowait=True)


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
