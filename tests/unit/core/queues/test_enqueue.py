"""Publishes to queues of different kinds, and of messages of different kinds."""

from __future__ import annotations

from tests.support.clock import FakeClock
from tests.support.session import SlowJournal, connected, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.messages.message_state import MessageState
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost.exchange_host import deliver
from warren.broker.core.vhost.vhost import VHost


def vhost_with(journal: SlowJournal) -> VHost:
    return new_node(journal).vhosts["/"]


def declared(vhost: VHost, name: str, **arguments: object) -> Queue:
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return vhost.declare_queue(name, durable=True, arguments=Table.of(given))


def persistent(count: int) -> list[Message]:
    return [framed(RoutingAddress("", "k"), Properties(delivery_mode=2), b"body") for _ in range(count)]


def test_a_queue_with_a_time_to_live_makes_the_others_store_nothing_anew() -> None:
    journal = SlowJournal()
    vhost = vhost_with(journal)
    plain = [declared(vhost, f"q{number}") for number in range(10)]
    timed = declared(vhost, "timed", message_ttl=1000)
    receipt = vhost.enqueue(persistent(100), 400, True, (*plain[:5], timed, *plain[5:]))
    assert receipt.stored and not receipt.refused
    assert journal.stored == 200  # once for all plain queues, once for the other
    assert [queue.ready for queue in (*plain, timed)] == [100] * 11
    assert all(message.state is None for message in plain[0].ready_messages.default.fresh)
    assert isinstance(vhost.clock, FakeClock)
    vhost.pump()
    vhost.clock.advance(1001)
    assert [queue.ready for queue in (*plain, timed)] == [100] * 10 + [0]


def test_a_message_that_one_queue_of_a_route_rejects_reaches_the_others() -> None:
    vhost = vhost_with(SlowJournal())
    plain = declared(vhost, "plain")
    full = declared(vhost, "full", max_length=1, overflow="reject-publish")
    receipt = vhost.enqueue(persistent(3), 12, True, (plain, full))
    assert receipt.stored and receipt.refused == {1, 2}
    assert (plain.ready, full.ready) == (3, 1)


def test_messages_that_are_delivered_together_expire_each_by_its_own_time() -> None:
    vhost = vhost_with(SlowJournal())
    queue = declared(vhost, "q")
    messages = persistent(4)
    messages[1].state = MessageState(1000)
    messages[3].state = MessageState(2000)
    assert deliver(vhost, [queue], messages).stored
    assert [queue.get(True) is not None for _ in range(1)] == [True]
    assert isinstance(vhost.clock, FakeClock)
    vhost.clock.advance(1500)
    vhost.pump()
    assert queue.ready == 2 and queue.expired == 1
    assert queue.get(True) is not None
    vhost.clock.advance(1000)
    vhost.pump()
    assert queue.ready == 0 and queue.expired == 2


def test_queues_that_keep_the_same_state_share_records_but_not_the_state() -> None:
    journal = SlowJournal()
    vhost = vhost_with(journal)
    alike = [declared(vhost, f"q{number}", message_ttl=1000, delivery_limit=9) for number in range(3)]
    other = declared(vhost, "other", message_ttl=2000)
    transient = vhost.declare_queue("transient", arguments=Table.of({"x-message-ttl": 1000}))
    limited = [declared(vhost, f"l{n}", message_ttl=1000, max_length=n, overflow="reject-publish") for n in (0, 9)]
    targets = (*alike, other, transient, *limited)
    receipt = vhost.enqueue(persistent(1), 4, True, targets)
    assert receipt.stored and receipt.refused == {0}
    assert journal.stored == 3 and len(journal.live) == 5
    assert [queue.journal.count for queue in targets] == [1, 1, 1, 1, 0, 0, 1]
    got = alike[0].get(False)
    assert got is not None
    alike[0].requeue(got[0], got[1])
    [first, second] = [queue.ready_messages.first_loaded() for queue in alike[:2]]
    assert first is not None and second is not None
    states = [fifo.pop()[1].state for fifo in (first, second)]
    assert [state.attempts for state in states if state is not None] == [1, 0]


def test_messages_with_a_time_to_live_of_zero_are_stored_once_for_queues_with_and_without_consumers() -> None:
    journal = SlowJournal()
    node = new_node(journal)
    vhost, channel = node.vhosts["/"], connected(node).channel()
    queues = [declared(vhost, f"q{number}") for number in range(5)]
    for name in ("q1", "q3"):
        channel.consume(name)
    messages = persistent(2)
    messages[0].state, messages[1].state = MessageState(1000), MessageState(0)
    assert vhost.enqueue(messages, 8, True, tuple(queues)).stored
    assert journal.stored == 2
    assert [queue.unacked for queue in queues] == [0, 2, 0, 2, 0] and len(channel.deliveries(4)) == 4
    assert isinstance(vhost.clock, FakeClock)
    vhost.pump()
    vhost.clock.advance(1001)
    assert not any(queue.ready for queue in queues)
