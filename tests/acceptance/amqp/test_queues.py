"""Declaration of queues."""

from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel
from tests.support.codec import Typed
from tests.support.peer import Name

INTEGERS = "bBsuIil"
KNOWN = {
    "x-message-ttl": (60000, 70000), "x-expires": (60000, 70000), "x-max-length": (10, 20),
    "x-max-length-bytes": (1000, 2000), "x-dead-letter-exchange": ("amq.fanout", "amq.direct"),
    "x-max-priority": (5, 6), "x-overflow": ("drop-head", "reject-publish"),
    "x-single-active-consumer": (True, False),
}  # fmt: skip


def differs(arg: str, queue: str, received: str, current: str) -> str:
    text = f"arg '{arg}' for queue '{queue}' in vhost '/': received '{received}' but current is '{current}'"
    return f"PRECONDITION_FAILED - inequivalent {text}"


def test_a_queue_without_a_name_is_given_one(ch: Channel) -> None:
    names = {ch.declare("", exclusive=True).queue for _ in range(10)}
    assert len(names) == 10
    assert all(name.startswith("amq.gen-") and len(name) == 30 for name in names)
    for queue in names:
        ch.publish("", queue, b"body")
        assert ch.drain(queue) == [b"body"]


def test_the_given_name_can_be_looked_up_and_not_declared(ch: Channel) -> None:
    queue = ch.declare("", exclusive=True).queue
    assert ch.declare(queue, passive=True).queue == queue
    closed = ch.refused(403, Queue.Declare, queue=queue, exclusive=True)
    assert closed.reply_text == f"ACCESS_REFUSED - queue name '{queue}' contains reserved prefix 'amq.*'"


def test_declare_ok_counts_what_is_ready_and_who_consumes(ch: Channel, queue: str) -> None:
    for _ in range(3):
        ch.publish("", queue, b"body")
    ch.sync()
    assert ch.get(queue, no_ack=False) is not None
    found = ch.declare(queue)
    assert (found.queue, found.message_count, found.consumer_count) == (queue, 2, 0)
    ch.qos(1)
    ch.consume(queue)
    ch.consume(queue)
    ch.deliveries(2)
    found = ch.declare(queue, passive=True)
    assert (found.message_count, found.consumer_count) == (0, 2)


@pytest.mark.parametrize("arg", ["durable", "auto_delete"])
def test_a_queue_is_not_declared_again_with_other_properties(ch: Channel, queue: str, arg: str) -> None:
    assert ch.refused(406, Queue.Declare, queue=queue, **{arg: True}).reply_text == differs(arg, queue, "true", "false")


@pytest.mark.parametrize("first", [True, False])
def test_a_queue_is_not_declared_again_with_another_exclusiveness(ch: Channel, name: Name, first: bool) -> None:
    ch.declare(queue := name("queue"), exclusive=first)
    closed = ch.refused(405, Queue.Declare, queue=queue, exclusive=not first)
    assert f" - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'." in closed.reply_text


def test_an_exclusive_queue_is_as_durable_as_one_likes(ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), durable=True, exclusive=True)
    ch.declare(queue, durable=True, exclusive=True)
    ch.declare(queue, durable=False, exclusive=True)


def test_unknown_arguments_do_not_matter(ch: Channel, name: Name) -> None:
    ch.declare(queue := name("queue"), arguments={"assumed-to-be-semantically-void": "x"})
    ch.declare(queue, arguments={"assumed-to-be-semantically-void": "y"})
    ch.declare(queue)


@pytest.mark.parametrize("arg", KNOWN)
def test_known_arguments_do_matter(ch: Channel, name: Name, arg: str) -> None:
    first, second = KNOWN[arg]
    ch.declare(queue := name("queue"), arguments={arg: first})
    ch.declare(queue, arguments={arg: first})
    for other in ({arg: second}, {}):
        closed = ch.client.channel().refused(406, Queue.Declare, queue=queue, arguments=other)
        assert f"inequivalent arg '{arg}' for queue '{queue}' in vhost '/': received " in closed.reply_text


def test_the_dead_letter_routing_key_does_matter(ch: Channel, name: Name) -> None:
    dead = {"x-dead-letter-exchange": "amq.fanout"}
    ch.declare(queue := name("queue"), arguments={**dead, "x-dead-letter-routing-key": "a"})
    ch.refused(406, Queue.Declare, queue=queue, arguments={**dead, "x-dead-letter-routing-key": "b"})


def test_the_classic_type_may_be_named_or_not(ch: Channel, name: Name) -> None:
    classic = {"x-queue-type": "classic"}
    ch.declare(plain := name("plain"), durable=True)
    ch.declare(plain, durable=True, arguments=classic)
    ch.declare(named := name("named"), durable=True, arguments=classic)
    ch.declare(named, durable=True)


def test_integers_of_any_width_are_equal(ch: Channel, name: Name) -> None:
    for arg in ("x-message-ttl", "x-max-length", "x-expires"):
        ch.declare(queue := name(arg), arguments={arg: Typed("b", 100)})
        for letter in INTEGERS:
            ch.declare(queue, arguments={arg: Typed(letter, 100)})


@pytest.mark.parametrize("other", [Typed("d", 100.0), Typed("f", 100.0), "100"])
def test_a_number_that_is_no_integer_is_not_equal(ch: Channel, name: Name, other: Any) -> None:
    ch.declare(queue := name("queue"), arguments={"x-message-ttl": 100})
    ch.refused(406, Queue.Declare, queue=queue, arguments={"x-message-ttl": other})


@pytest.mark.parametrize(
    "fields", [{"durable": True}, {"auto_delete": True}, {"exclusive": True}, {"arguments": {"x-queue-type": "quorum"}}]
)
def test_a_passive_declare_looks_at_the_name_only(ch: Channel, queue: str, fields: dict[str, Any]) -> None:
    assert ch.declare(queue, passive=True, **fields).queue == queue


def test_line_ends_in_names_are_dropped(ch: Channel, name: Name) -> None:
    queue = name("queue")
    assert ch.declare(f"{queue[:3]}\n{queue[3:]}\r\n").queue == queue
    ch.declare(queue, passive=True)
    ch.bind(queue + "\n", "amq.direct", queue)
    ch.call(Queue.Delete, queue=queue + "\n")
    ch.refused(404, Queue.Declare, queue=queue, passive=True)


@pytest.mark.parametrize(("arg", "value", "reason"), [
    ("x-expires", 0, "{value_zero,0}"),
    ("x-expires", -1, "{value_negative,-1}"),
    ("x-expires", "100", '"expected integer, got longstr"'),
    ("x-message-ttl", -1, "{value_negative,-1}"),
    ("x-message-ttl", "foobar", '"expected integer, got longstr"'),
    ("x-max-length", -1, "{value_negative,-1}"),
    ("x-max-length-bytes", "many", '"expected integer, got longstr"'),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-max-priority", -1, "{value_negative,-1}"),
    ("x-overflow", "spill", "invalid_overflow"),
    ("x-dead-letter-routing-key", "key", "routing_key_but_no_dlx_defined"),
])  # fmt: skip
def test_arguments_without_sense_are_refused(ch: Channel, name: Name, arg: str, value: Any, reason: str) -> None:
    queue = name("queue")
    closed = ch.refused(406, Queue.Declare, queue=queue, arguments={arg: value})
    assert closed.reply_text == f"PRECONDITION_FAILED - invalid arg '{arg}' for queue '{queue}' in vhost '/': {reason}"


@pytest.mark.parametrize("word", ["two words", "schöne 漢字", "a*b#c|d(e)", "quote'\"", "\t"])
def test_names_may_hold_any_character(ch: Channel, name: Name, word: str) -> None:
    assert ch.declare(queue := name(word)).queue == queue
    ch.publish("", queue, b"body")
    message = ch.call(Basic.Get, queue=queue, no_ack=True)
    assert (message.body, message.method.routing_key) == (b"body", queue)


NONSENSE: dict[str, list[Any]] = {
    "x-dead-letter-exchange": [144, Typed("V"), ["dlx"]],
    "x-max-priority": [-10, 260, "5", 5.0, True, Typed("V")],
    "x-message-ttl": ["200", 200.0, Typed("V"), [200], {"ttl": 200}, -1, 315360000001],
    "x-queue-mode": ["zzz", 1],
    "x-queue-type": ["nonsense"],
    "x-queue-version": [3, "2"],
    "x-single-active-consumer": ["yes", 1, 0, Typed("V")],
}


@pytest.mark.parametrize(("arg", "value"), [(arg, value) for arg, values in NONSENSE.items() for value in values])
def test_arguments_of_the_wrong_type_or_value_are_refused(ch: Channel, name: Name, arg: str, value: Any) -> None:
    ch.refused(406, Queue.Declare, queue=name("queue"), durable=True, arguments={arg: value})
