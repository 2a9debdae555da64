"""Declaration and deletion of exchanges."""

from typing import Any

import pytest
from pamqp.commands import Exchange, Queue

from tests.support.amqp_client import Channel
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


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"exchange_type": "fanout"},
            "'type' for exchange '{}' in vhost '/': received 'fanout' but current is 'direct'",
        ),
        ({"durable": True}, "'durable' for exchange '{}' in vhost '/': received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete' for exchange '{}' in vhost '/': received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for exchange '{}' in vhost '/': received 'true' but current is 'false'"),
    ],
)
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


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        (Exchange.Declare, {"exchange_type": "direct", "durable": True}),
        (Exchange.Declare, {"exchange_type": "direct", "passive": True}),
        (Exchange.Delete, {}),
        (Queue.Bind, {"routing_key": "k"}),
        (Queue.Unbind, {"routing_key": "k"}),
        (Exchange.Bind, {"destination": "amq.direct", "routing_key": "k"}),
        (Exchange.Bind, {"source": "amq.direct", "routing_key": "k"}),
        (Exchange.Unbind, {"destination": "amq.direct", "routing_key": "k"}),
    ],
)
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
