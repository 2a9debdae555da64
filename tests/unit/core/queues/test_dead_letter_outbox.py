"""Dead letters are published in slices, in order, and are never lost on the way; their memory is limited."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from pamqp.commands import Basic as BasicMethods
from pamqp.commands import Queue as QueueMethods
from pytest import MonkeyPatch

from tests.support import codec
from tests.support.amqp_client import Channel, Silence
from tests.support.clock import FakeClock, fake_clock
from tests.support.queues import OutboxWatcher, limit_dead_letters
from tests.support.queues import ready_messages as list_ready
from tests.support.session import SlowJournal, SureJournal, connected, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.core.access.passwords import hash_password
from warren.broker.core.jobs.scheduler import TURN_COST
from warren.broker.core.messages.message import Message
from warren.broker.core.node.node import Node
from warren.broker.core.queues import dead_letter_budget, dead_lettering, queue, ready_messages
from warren.broker.core.queues.dead_letter_budget import ALL_BYTES, USER_BYTES, WOKEN, DeadLetterBudget
from warren.broker.core.queues.waiting_outboxes import LOOK_MS
from warren.broker.core.telemetry.resource_alarms import DISK
from warren.plugins.exchanges.recent_history import RecentHistoryExchange

MANY = 3 * queue.SLICE
SOME = 5 * dead_lettering.SLICE
NUMBERS = [b"%d" % number for number in range(SOME)]
DURABLE = {"delivery_mode": 2}


def new_messages(node: Node) -> list[Message]:
    """Return ten messages, as queues have them."""
    ch: Channel = connected(node).channel()
    ch.declare("store")
    ch.fill("store", *[b"%d" % number for number in range(10)])
    stored = [one.copy_for_queue() for one in list_ready(node.vhosts["/"].queues["store"])]
    ch.delete("store")
    return stored


class House:
    """A queue with or without a dead letter exchange, on a journal that checks each settlement."""

    def __init__(self, dead_letters: bool = True, **arguments: Any) -> None:
        self.journal = SureJournal()
        self.node = new_node(self.journal)
        self.clock = fake_clock(self.node.clock)
        self.ch: Channel = connected(self.node).channel()
        self.ch.declare("letters", durable=True)
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        if dead_letters:
            given |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
        self.ch.declare("queue", durable=True, arguments=given)
        self.queue = self.node.vhosts["/"].queues["queue"]

    def reject_some(self) -> None:
        """Publish SOME messages, which are their numbers, and reject all of them together."""
        self.ch.fill("queue", *NUMBERS, **DURABLE)
        self.ch.consume("queue")
        self.ch.deliveries(SOME)
        self.ch.nack(0, multiple=True, requeue=False)

    def kept(self, name: str) -> int:
        """Return the number of messages of a queue in the journal."""
        number = self.node.vhosts["/"].queues[name].number
        return sum(1 for kept, _ in self.journal.live if kept == number)


def chain(node: Node, length: int, **arguments: Any) -> Channel:
    """Declare queues named by numbers, each the dead letter queue of the one before. The last has none."""
    ch: Channel = connected(node).channel()
    for number in range(length):
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        given |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": str(number + 1)}
        ch.declare(str(number), arguments=given)
    ch.declare(str(length))
    return ch


@pytest.mark.parametrize("dead_letters", [False, True])
def test_many_messages_that_expire_at_once_are_dead_lettered_in_slices(dead_letters: bool) -> None:
    house = House(dead_letters, message_ttl=1000)
    house.ch.fill("queue", *[b"x"] * MANY, **DURABLE)
    left = [house.queue.ready]

    def look() -> None:
        if house.queue.ready != left[-1]:  # a timer changes nothing if the turn's budget is spent
            left.append(house.queue.ready)

    house.clock.after_each = look
    house.clock.advance(1000)
    assert left == [MANY, MANY - queue.SLICE, MANY - 2 * queue.SLICE, 0]
    assert house.kept("queue") == 0
    assert house.ch.count("letters") == house.kept("letters") == (MANY if dead_letters else 0)


@pytest.mark.parametrize("dead_letters", [False, True])
def test_many_messages_beyond_a_new_limit_are_dead_lettered_in_slices(dead_letters: bool) -> None:
    house = House(dead_letters)
    house.ch.fill("queue", *[b"x"] * MANY, **DURABLE)
    house.node.policies.set("/", "limit", "^queue$", {"max-length": 10})
    assert house.ch.count("queue") == MANY - queue.SLICE
    house.clock.advance(1)
    assert house.ch.count("queue") == house.kept("queue") == 10
    assert house.ch.count("letters") == house.kept("letters") == (MANY - 10 if dead_letters else 0)


def test_many_messages_rejected_at_once_are_dead_lettered_in_slices() -> None:
    house = House()
    house.reject_some()
    assert house.ch.count("letters") == dead_lettering.SLICE
    assert house.kept("queue") == SOME - dead_lettering.SLICE, "messages in the outbox stay in the journal"
    house.clock.advance(1)
    assert house.ch.count("letters") == SOME and house.kept("queue") == 0


def test_dead_letters_wait_for_the_journal_in_their_order_and_make_no_attempts_meanwhile() -> None:
    house = House()
    house.ch.fill("queue", *NUMBERS, **DURABLE)
    house.ch.consume("queue")
    house.ch.deliveries(SOME)
    house.journal.much = True
    house.ch.nack(0, multiple=True, requeue=False)
    house.clock.advance(10_000)
    assert house.ch.count("letters") == 0 and house.kept("queue") == SOME
    house.journal.catch_up()
    house.clock.advance(1)
    assert house.kept("queue") == 0
    assert house.ch.drain("letters") == NUMBERS


@pytest.mark.parametrize("fields", [{}, DURABLE])
@pytest.mark.parametrize("header", [{}, {"headers": {"h": "v" * 4_000}}])
def test_the_messages_of_any_queue_that_wait_for_the_journal_are_limited_in_bytes(
    monkeypatch: MonkeyPatch, fields: dict[str, Any], header: dict[str, Any]
) -> None:
    limit_dead_letters(monkeypatch, MANY_BYTES=1 << 16)
    house = House()
    given = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    house.ch.declare("transient", arguments=given)
    transient = house.node.vhosts["/"].queues["transient"]
    house.ch.publish("", "queue", b"waited for", DURABLE)
    house.journal.much = True
    for number in range(100):
        house.ch.publish("", "transient", b"%3d" % number + bytes(0 if header else 4_000), fields | header)
        house.clock.advance(1)
    assert 14 < len(transient.outbox) < 18 and transient.ready == 100 - len(transient.outbox)
    house.journal.catch_up()
    house.clock.advance(1)
    assert [int(body[:3]) for body in house.ch.drain("letters")] == list(range(99)) and transient.ready == 1
    assert not transient.outbox.many and not transient.outbox.held_bytes


@pytest.mark.parametrize("fields, policy", [({"expiration": "500"}, {"max-length": 100}), ({}, {"max-length": 0})])
def test_what_queues_drop_at_once_does_not_exceed_the_limit_of_all_dead_letters(
    monkeypatch: MonkeyPatch, fields: dict[str, Any], policy: dict[str, Any]
) -> None:
    limit_dead_letters(monkeypatch, ALL_BYTES=1 << 16, SOME_BYTES=1 << 13)
    monkeypatch.setattr(ready_messages, "SLICE_BYTES", 1 << 15)
    house = House()
    names = [f"queue{number}" for number in range(10)]
    for name in names:
        house.ch.declare(
            name, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
        )
        house.ch.fill(name, *[bytes(4_000)] * 20, **DURABLE, **fields)
    house.journal.much = True
    house.node.policies.set("/", "drop", "^queue.", policy)
    house.clock.advance(1_000)
    assert 1 << 16 < house.queue.host.ledger.dead_letters.total < (1 << 16) + len(names) * ((1 << 13) + 4_100)
    house.journal.catch_up()
    house.clock.advance(1_000)
    assert house.ch.count("letters") == 20 * len(names) and not house.queue.host.ledger.dead_letters.total


def test_short_messages_count_with_the_memory_that_each_takes(monkeypatch: MonkeyPatch) -> None:
    limit_dead_letters(monkeypatch, MANY_BYTES=1 << 16)
    house = House(max_length=1_000)
    house.ch.publish("", "letters", b"waited for", DURABLE)
    house.journal.much = True
    house.ch.fill("queue", *[b""] * 1_300)
    house.clock.advance(1)
    assert (1 << 16) // 500 < len(house.queue.outbox) < (1 << 16) // 400
    house.journal.catch_up()
    house.clock.advance(1)
    assert house.ch.count("letters") == 301


def test_messages_that_a_client_gets_and_rejects_are_limited_in_bytes(monkeypatch: MonkeyPatch) -> None:
    limit_dead_letters(monkeypatch, MANY_BYTES=1 << 16)
    house = House()
    house.ch.fill("queue", *[bytes(4_000)] * 50, **DURABLE)
    house.ch.publish("", "letters", b"waited for", DURABLE)
    house.journal.much = True
    while house.queue.outbox.held_bytes <= 1 << 16:
        house.ch.reject_next("queue")
    left = house.queue.ready
    house.ch.send(BasicMethods.Get, queue="queue")
    house.clock.advance(5_000)
    assert house.queue.ready == left > 30
    assert connected(house.node).channel().get("queue") and house.queue.ready == left - 1, "it cannot be rejected"
    house.journal.catch_up()
    house.clock.advance(100)
    assert isinstance(house.ch.next().method, BasicMethods.GetOk) and house.queue.ready == left - 2
    assert house.ch.count("letters") == 50 - left + 1


def test_a_get_with_automatic_acknowledgement_gets_the_messages_before_the_first_that_cannot_expire(
    monkeypatch: MonkeyPatch,
) -> None:
    limit_dead_letters(monkeypatch, MANY_BYTES=1 << 16)
    house = House()
    house.ch.fill("queue", *[bytes(1 << 16), b"first"], **DURABLE)
    house.ch.fill("queue", b"expires", expiration="1000")
    house.ch.fill("queue", b"behind")
    house.journal.much = True
    house.ch.reject_next("queue")
    message = house.ch.get("queue")
    assert message is not None and message.body == b"first"
    house.clock.advance(1_000)
    house.ch.send(BasicMethods.Get, queue="queue", no_ack=True)
    house.clock.advance(10_000)
    house.ch.expect_close(506)
    house.journal.catch_up()
    house.clock.advance(1)
    assert connected(house.node).channel().drain("queue") == [b"behind"]


@pytest.mark.parametrize("gets", [False, True])
def test_a_user_whose_messages_do_not_wait_consumes_while_those_of_another_are_too_many(
    monkeypatch: MonkeyPatch, gets: bool
) -> None:
    limit_dead_letters(monkeypatch, ALL_BYTES=40_000, USER_BYTES=20_000, SOME_BYTES=1_000)
    house = House()
    users = house.node.users
    users.add("other", hash_password("other", b"salt"))
    users.set_permission("other", "/", ".*", ".*", ".*")
    other = connected(house.node, "other").channel()
    other.declare("its own", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"})
    other.fill("its own", *[bytes(4_000)] * 20)
    house.ch.fill("queue", *[bytes(4_000)] * 20)
    house.ch.publish("", "letters", b"waited for", DURABLE)
    house.ch.consume("queue")
    house.ch.deliveries(20)
    house.journal.much = True
    house.ch.nack(0, multiple=True, requeue=False)
    house.ch.sync()
    queue = house.node.vhosts["/"].queues["its own"]
    if gets:
        for _ in range(5):
            other.reject_next("its own")
        other.send(BasicMethods.Get, queue="its own")
    else:
        other.qos(1)
        other.consume("its own")
        for number in range(20):
            delivery = other.delivery()
            if number % 4 == 3:
                other.reject(delivery.tag, requeue=False)
            else:
                other.ack(delivery.tag)
        other.publish("", "its own", bytes(4_000))
    house.clock.advance(1_000)
    assert queue.ready == (15 if gets else 1), "no more is delivered, as these could be rejected, too"
    house.journal.catch_up()
    house.clock.advance(1_000)
    assert isinstance(other.next().method, BasicMethods.GetOk if gets else BasicMethods.Deliver)
    assert house.ch.count("letters") == 26 and queue.ready == (14 if gets else 0)
    house.ch.get("its own", no_ack=False)
    house.ch.consume("its own")
    assert queue.outbox.account != house.queue.outbox.account, "its publishers do not wait for those of its consumers"
    assert not queue.host.ledger.dead_letters.of("other") and not queue.host.ledger.dead_letters.of("guest")


def test_a_queue_counts_for_the_user_who_declared_it_first() -> None:
    """Consumers declare the queues of others: these would wait for dead letters of the consumer's own queues."""
    house = House(max_length=0)
    users = house.node.users
    users.add("other", hash_password("other", b"salt"))
    users.set_permission("other", "/", ".*", ".*", ".*")
    outbox, budget = house.queue.outbox, house.queue.host.ledger.dead_letters
    arguments = {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    connected(house.node, "other").channel().declare("queue", durable=True, arguments=arguments)
    house.journal.much = True
    house.ch.publish("", "queue", b"message")
    house.ch.sync()
    assert outbox.account == "guest" and budget.of("guest") == outbox.held_bytes > 0 and not budget.of("other")
    outbox.charge("other")
    assert budget.of("guest") == outbox.held_bytes and not budget.of("other")


def test_a_publisher_whose_messages_a_queue_rejects_waits_for_the_journal_as_their_dead_letters_do() -> None:
    house = House(max_length=1, overflow="reject-publish-dlx")
    house.ch.publish("", "queue", b"stays", DURABLE)
    house.journal.much = True
    sent = [b"%d" % number for number in range(20)]
    for body in sent:
        house.ch.publish("", "queue", body, DURABLE)
        house.clock.advance(1)
    assert len(house.queue.outbox) < 3
    house.journal.catch_up()
    house.clock.advance(1)
    assert house.ch.drain("letters") == sent


def test_dead_letters_wait_while_the_disk_is_full_and_queues_with_many_bindings_are_deleted_meanwhile() -> None:
    house = House(message_ttl=10)
    house.ch.fill("queue", *NUMBERS, **DURABLE)
    house.ch.declare("other", durable=True)
    for number in range(5_000):
        house.ch.bind("letters", "amq.direct", str(number))
        house.ch.bind("other", "amq.direct", str(number))
    house.node.alarms.set(DISK)
    house.clock.advance(10_000)
    assert house.ch.count("letters") == 0 and house.kept("queue") == SOME
    house.ch.send(QueueMethods.Delete, queue="other")
    house.clock.advance(1)
    assert house.ch.next().name == "Queue.DeleteOk", "it waits for space to be deleted"
    house.node.alarms.clear(DISK)
    house.clock.advance(1)
    assert house.kept("queue") == 0
    assert house.ch.drain("letters") == NUMBERS


def test_no_due_message_is_delivered_while_other_due_messages_wait() -> None:
    house = House(False, message_ttl=1000)
    house.ch.fill("queue", *[b"x"] * MANY)
    house.clock.advance(999)
    house.ch.send(BasicMethods.Get, queue="queue", no_ack=True)
    assert house.ch.next().body == b"x"
    house.clock._now_ms += 1  # all others are due, and no timer has run
    house.ch.send(BasicMethods.Get, queue="queue", no_ack=True)
    with pytest.raises(Silence):
        house.ch.next()
    house.clock.advance(1000)
    assert house.ch.next().name == "Basic.GetEmpty"


def test_messages_beyond_the_limit_are_dropped_as_fast_as_they_are_published() -> None:
    house = House(max_length=10)
    house.ch.fill("queue", *[b"x"] * SOME)
    assert (house.ch.count("queue"), house.ch.count("letters")) == (10, SOME - 10)


def test_a_persistent_message_that_a_durable_queue_refuses_is_dead_lettered_and_settled_nowhere() -> None:
    house = House(max_length=1, overflow="reject-publish-dlx")
    house.ch.fill("queue", b"stays", b"refused", **DURABLE)
    assert (house.kept("queue"), house.kept("letters"), house.ch.count("letters")) == (1, 1, 1)
    assert (house.queue.outbox.persistent_count, house.queue.outbox.persistent_bytes) == (0, 0)


def test_a_consumer_that_rejects_everything_gets_no_more_until_the_outbox_has_drained() -> None:
    house = House()
    given_up = 2 * dead_lettering.MANY
    house.ch.fill("queue", *[b"x"] * given_up)
    house.ch.consume("queue", consumer_tag="refuses")
    house.ch.deliveries(given_up)
    house.ch.nack(0, multiple=True, requeue=False)
    publisher = connected(house.node).channel()
    seen: list[tuple[bool, int]] = []

    def turned() -> None:
        if house.queue.outbox.many and not seen:
            publisher.publish("", "queue", b"next")
        if house.queue.outbox.many or seen:
            seen.append((house.queue.outbox.many, house.queue.ready))

    house.clock.after_each = turned
    house.clock.advance(1)
    assert len(seen) > 2
    assert all(ready for many, ready in seen if many), "nothing is delivered while the outbox has too many"
    assert house.ch.delivery().body == b"next"
    assert house.ch.count("letters") == given_up


def test_the_outbox_of_a_deleted_queue_is_dead_lettered() -> None:
    house = House()
    house.reject_some()
    house.ch.call(QueueMethods.Delete, queue="queue")
    house.clock.advance(0)
    assert house.ch.count("letters") == SOME and not house.journal.left
    house.clock.advance(1)
    assert house.ch.count("letters") == SOME


def test_outboxes_are_published_before_the_node_stops() -> None:
    house = House()
    house.reject_some()
    house.ch.sync()
    house.journal.much = True
    assert not house.node.finish() and house.kept("letters") == dead_lettering.SLICE
    house.journal.catch_up()
    assert house.node.finish()
    assert house.kept("letters") == SOME and not house.kept("queue")


@pytest.mark.parametrize("divided", [False, True])
def test_dead_letters_for_a_full_queue_wait_while_too_many_that_it_rejected_are_there(
    divided: bool, monkeypatch: MonkeyPatch
) -> None:
    """Many queues give it theirs faster than it publishes them."""
    limit_dead_letters(monkeypatch, MANY=50, SLICE=2, MANY_BYTES=1 << 30, ALL_BYTES=1 << 30)
    house = House(max_length=0, overflow="reject-publish-dlx")
    queues = house.node.vhosts["/"].queues
    exchange = "amq.topic" if divided else "amq.headers"
    house.ch.bind("queue", exchange, "#")
    for number in range(250 if divided else 0):
        house.ch.declare(f"other{number}", arguments={"x-max-length": 0})
        house.ch.bind(f"other{number}", exchange, "#")
    for number in range(20):
        house.ch.declare(f"giver{number}", arguments={"x-max-length": 0, "x-dead-letter-exchange": exchange})
        house.ch.bind(f"giver{number}", "amq.fanout")
    watcher = OutboxWatcher(queues["letters"], house.queue.outbox)
    for number in range(20):
        house.ch.publish("amq.fanout", "", b"%d" % number)
    house.clock.advance(1_000)
    assert watcher.count == 400 and 40 < watcher.longest < 60
    assert not any(len(queues[f"giver{number}"].outbox) for number in range(20))


def test_publishers_wait_for_a_full_queue_that_publishes_to_one_which_waits_for_it(monkeypatch: MonkeyPatch) -> None:
    """They would fill the other one without end, as what they publish goes on at once."""
    limit_dead_letters(monkeypatch, MANY=5, SLICE=8, MANY_BYTES=1 << 30, ALL_BYTES=1 << 30)
    node = new_node()
    ch: Channel = connected(node).channel()
    for name, other in (("one", "two"), ("two", "one")):
        given = {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
        ch.declare(name, arguments=given | {"x-dead-letter-routing-key": other})
    queues = node.vhosts["/"].queues
    one, two = queues["one"], queues["two"]
    for full in (one, two):
        full.outbox.add(new_messages(node), "maxlen", queued=False)
    one.outbox.publish_slice(0)
    assert one.outbox.awaited is two and one.must_not_reject
    two.outbox.publish_slice(0)
    assert not two.outbox.many and len(two.outbox) and two.must_not_reject and len(one.outbox) == 18
    one.schedule_pump()
    two.schedule_pump()
    node.pump()
    fake_clock(node.clock).advance(1_000)
    assert not one.must_not_reject and not two.must_not_reject and not one.host.ledger.dead_letters.full_outboxes
    assert one.outbox.awaited is None and two.outbox.passes_to is None and not one.host.ledger.dead_letters.total


@pytest.mark.parametrize("as_first", [False, True])
def test_dead_letters_that_wait_for_a_full_queue_go_to_a_new_one_of_its_name(
    as_first: bool, monkeypatch: MonkeyPatch
) -> None:
    """Both if they wait with the route of the last one, and if the first of them was searched before."""
    limit_dead_letters(monkeypatch, MANY=5, SLICE=8, MANY_BYTES=1 << 30, ALL_BYTES=1 << 30)
    node = new_node()
    ch: Channel = connected(node).channel()
    queues = node.vhosts["/"].queues
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "x"})
    ch.declare("giver", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"})
    giver = queues["giver"]
    if not as_first:
        giver.outbox.add(new_messages(node)[:1], "maxlen")
        giver.outbox.publish_slice(0)
    for _ in range(3):
        queues["full"].outbox.add(new_messages(node), "maxlen", queued=False)
    giver.outbox.add(new_messages(node), "maxlen")
    giver.outbox.publish_slice(0)
    assert giver.outbox.awaited is queues["full"] and len(giver.outbox) == 10
    node.scheduler.charge(TURN_COST)  # so that the dead letters of the deleted queue leave later
    node.vhosts["/"].delete_queue(queues["full"])
    node.vhosts["/"].declare_queue("full")
    fake_clock(node.clock).advance(1_000)
    assert giver.outbox.awaited is None and ch.count("full") == 10


@pytest.mark.parametrize("deleted", [False, True])
def test_dead_letters_that_wait_for_a_full_queue_follow_a_change_of_bindings(
    deleted: bool, monkeypatch: MonkeyPatch
) -> None:
    limit_dead_letters(monkeypatch, MANY=5)
    house = House(max_length=0, overflow="reject-publish-dlx")
    full, vhost = house.queue.outbox, house.node.vhosts["/"]
    full.awaits_journal = True
    full.add(new_messages(house.node), "maxlen", queued=False)
    house.ch.bind("queue", "amq.fanout")
    house.ch.declare("giver", arguments={"x-max-length": 0, "x-dead-letter-exchange": "amq.fanout"})
    house.ch.fill("giver", b"one", b"two")
    giver = vhost.queues["giver"].outbox
    assert giver.awaited is house.queue and len(giver) == 2
    if deleted:
        house.ch.delete("giver")
    for number in range(20):
        house.ch.bind("queue", "amq.fanout", f"{number}")
        house.clock.advance(2 * LOOK_MS)
        assert giver.awaited is house.queue and len(full._when_fewer) == 1, "it waits again"
    house.ch.declare("other")
    house.ch.bind("other", "amq.fanout")
    for key in ("", *map(str, range(20))):
        vhost.unbind("amq.fanout", house.queue, key, Table.EMPTY)
    house.clock.advance(2 * LOOK_MS)
    assert house.ch.drain("other") == [b"one", b"two"] and not len(giver)
    full.awaits_journal = False
    house.queue.schedule_pump()
    house.node.pump()
    house.clock.advance(2 * LOOK_MS)
    assert not full.is_awaited and not house.node.ledger.dead_letters.total
    assert not [timer for timer in house.clock._timers if not timer.cancelled]


def test_a_queue_that_dead_letters_of_deleted_queues_held_back_goes_on_when_they_have_left() -> None:
    """Also if its own last dead letter left meanwhile, after which nothing else would make it go on."""
    house = House()
    budget, account = house.queue.host.ledger, house.queue.outbox.account
    house.ch.fill("queue", b"1", b"2")
    house.ch.qos(1)
    house.ch.consume("queue")
    assert house.ch.delivery().body == b"1" and account
    budget.dead_letters.add(account, ALL_BYTES, ALL_BYTES, house.clock)
    house.ch.send(BasicMethods.Reject, delivery_tag=1, requeue=False)
    house.clock.advance(1_000)
    assert house.ch.count("letters") == 1 and house.queue.ready == 1
    assert not [timer for timer in house.clock._timers if not timer.cancelled], "it looks again when there is room"
    budget.dead_letters.add(account, -ALL_BYTES, -ALL_BYTES, house.clock)
    house.node.pump()
    assert house.ch.delivery().body == b"2"
    house.clock.advance(1_000)
    assert not [timer for timer in house.clock._timers if not timer.cancelled]


@pytest.mark.parametrize("deleted", ["before", "at once", "by a job"])
def test_dead_letters_of_deleted_queues_that_wait_are_published_before_the_node_stops(
    deleted: str, monkeypatch: MonkeyPatch
) -> None:
    limit_dead_letters(monkeypatch, MANY=5, SLICE=8, MANY_BYTES=1 << 30, ALL_BYTES=1 << 30)
    node = new_node()
    ch: Channel = connected(node).channel()
    vhost = node.vhosts["/"]
    given = {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    ch.declare("full", arguments=given | {"x-dead-letter-routing-key": "letters"})
    ch.declare("giver", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"})
    ch.declare("letters")
    full, giver = vhost.queues["full"], vhost.queues["giver"]
    for each, queued in ((full, False), (giver, True)):
        each.outbox.add(new_messages(node), "maxlen", queued)
    full.outbox.awaits_journal = True
    giver.outbox.publish_slice(0)
    assert giver.outbox.awaited is full

    def job() -> Iterator[int]:
        yield 1
        vhost.delete_queue(giver)

    if deleted != "before":
        node.scheduler.charge(TURN_COST)
    if deleted == "by a job":
        node.scheduler.start("the end of a connection", job())
    else:
        vhost.delete_queue(giver)
    assert node.finish() and not len(giver.outbox) and vhost.queues["letters"].ready == 20


def test_a_queue_waits_for_one_of_a_circle_in_which_it_is_not() -> None:
    node = new_node()
    ch: Channel = connected(node).channel()
    for name in ("one", "two", "outside"):
        ch.declare(name)
    one, two, outside = (node.vhosts["/"].queues[name] for name in ("one", "two", "outside"))
    one.outbox.awaited, two.outbox.passes_to = two, one
    assert dead_lettering.waits_for(one, two) and dead_lettering.waits_for(two, one)
    assert not dead_lettering.waits_for(one, outside)


@pytest.mark.parametrize("end", ["deleted", "other overflow", "fewer of the user", "fewer of the node"])
@pytest.mark.parametrize("empty", [False, True])
def test_who_waits_for_a_queue_goes_on_when_it_may_reject_more_or_rejects_nothing_more(
    empty: bool, end: str, monkeypatch: MonkeyPatch
) -> None:
    """The queue is full, or has no dead letters, and its user and the node have too many."""
    by_levels = empty or end.startswith("fewer")
    all_bytes, user_bytes = 100_000, 10_000
    many = 1_000 if by_levels else 5
    limit_dead_letters(monkeypatch, MANY=many, ALL_BYTES=all_bytes, USER_BYTES=user_bytes, SOME_BYTES=0)
    house = House(max_length=0)
    house.node.policies.set("/", "overflow", "^queue$", {"overflow": "reject-publish-dlx"})
    budget = house.node.ledger.dead_letters
    budget.add("guest", user_bytes + 1, user_bytes + 1, house.clock)
    budget.add("others", all_bytes, 0, house.clock)
    outbox, called = house.queue.outbox, list[int]()
    outbox.awaits_journal = True
    if not empty:
        outbox.add(new_messages(house.node)[:7], "maxlen", queued=False)
    for number in range(3 * WOKEN):
        house.queue.when_may_reject(partial(called.append, number))
    house.clock.advance(10_000)
    assert not called and house.queue.must_not_reject and outbox.full is not empty
    house.node.scheduler.disk_alarm(True)  # so that the dead letters stay
    if end == "deleted":
        house.node.vhosts["/"].delete_queue(house.queue)
    elif end == "fewer of the user":
        budget.add("guest", -user_bytes - 1, -user_bytes - 1, house.clock)
    elif end == "fewer of the node":
        budget.add("others", -all_bytes, 0, house.clock)
    else:
        house.node.policies.set("/", "overflow", "^queue$", {"overflow": "drop-head"})
    assert called == list(range(WOKEN)) and not house.queue.must_not_reject
    house.clock.advance(1)
    assert called == list(range(3 * WOKEN)) and len(outbox) == (0 if empty else 7)


def test_a_queue_that_is_held_back_and_has_letters_goes_on_when_there_are_fewer(monkeypatch: MonkeyPatch) -> None:
    limit_dead_letters(monkeypatch, ALL_BYTES=1_000, USER_BYTES=100, SOME_BYTES=0)
    house = House()
    house.ch.fill("queue", b"1", b"2", b"3")
    budget = house.node.ledger.dead_letters
    budget.add("guest", 1_000, 1_000, house.clock)
    house.queue.outbox.add(new_messages(house.node)[:1], "rejected")
    house.queue.outbox.awaited = house.node.vhosts["/"].queues["letters"]
    house.ch.send(BasicMethods.Consume, queue="queue", consumer_tag="c")
    house.clock.advance(10_000)
    assert house.queue.ready == 3 and not house.queue.outbox.publishable
    budget.add("guest", -1_000, -1_000, house.clock)
    house.node.pump()
    assert house.queue.ready == 0


@pytest.mark.parametrize("end", ["deleted", "its last letter leaves"])
def test_a_queue_that_passes_to_another_one_may_be_deleted(end: str, monkeypatch: MonkeyPatch) -> None:
    """Others that wait for the full one go on all the same."""
    limit_dead_letters(monkeypatch, MANY=5)
    node = new_node()
    ch: Channel = connected(node).channel()
    queues = node.vhosts["/"].queues
    given = {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    for name in ("passing", "full"):
        ch.declare(name, arguments=given | {"x-dead-letter-routing-key": "letters"})
    ch.declare("letters")
    passing, full, called = queues["passing"].outbox, queues["full"].outbox, list[int]()
    full.awaits_journal = True
    full.add(new_messages(node), "maxlen", queued=False)
    if end != "deleted":
        passing.awaits_journal = True
        passing.add(new_messages(node)[:1], "maxlen", queued=False)
    passing.passes_to = queues["full"]
    passing._set_full(True)
    full.when_fewer(passing._pass_no_longer)
    full.when_fewer(partial(called.append, 1))
    node.vhosts["/"].delete_queue(queues["passing"])
    fake_clock(node.clock).advance(1_000)
    full.awaits_journal = False
    queues["full"].schedule_pump()
    node.pump()
    fake_clock(node.clock).advance(1_000)
    assert called == [1] and not node.ledger.dead_letters.full_outboxes and not len(full)


def test_a_chain_of_very_many_queues_that_pass_to_each_other_ends_without_recursion() -> None:
    node = new_node()
    ch: Channel = connected(node).channel()
    queues = node.vhosts["/"].queues
    for number in range(2_000):
        ch.declare(f"{number}")
    chain_ = [queues[f"{number}"].outbox for number in range(2_000)]
    for outbox, following in pairwise(chain_):
        outbox.passes_to = following._queue
        outbox._set_full(True)
        following.when_fewer(outbox._pass_no_longer)
    chain_[-1].wake()
    fake_clock(node.clock).advance(10_000)
    assert not node.ledger.dead_letters.full_outboxes and chain_[0].passes_to is None


def test_who_waits_for_a_queue_that_passes_to_another_one_is_rarely_called_before_that_has_fewer() -> None:
    """They are more than are called in one turn. Those that publish are not called at all: they would wait again."""
    house = House(max_length=0, overflow="reject-publish-dlx")
    house.ch.declare("other")
    outbox, other = house.queue.outbox, house.node.vhosts["/"].queues["other"].outbox
    outbox.passes_to = other._queue
    outbox._set_full(True)
    other.when_fewer(outbox._pass_no_longer)
    called: list[int] = []
    waited: list[int] = []

    def wait_again(number: int) -> None:
        waited.append(number)
        if outbox.full:
            outbox.when_fewer(partial(wait_again, number))

    for number in range(3 * WOKEN):
        house.queue.when_may_reject(partial(called.append, number))
        outbox.when_fewer(partial(wait_again, number))
    outbox.wake()
    house.clock.advance(10_000)
    assert not called and WOKEN <= len(waited) <= 101 * WOKEN
    other.wake()
    house.clock.advance(dead_lettering.PASS_MS + 1)
    assert called == list(range(3 * WOKEN)) and not outbox.is_awaited


def test_a_queue_whose_dead_letters_go_elsewhere_by_a_policy_passes_to_no_other_any_more() -> None:
    house = House(max_length=0, overflow="reject-publish-dlx")
    house.ch.declare("other")
    outbox, called = house.queue.outbox, list[int]()
    outbox.passes_to = house.node.vhosts["/"].queues["other"]
    outbox._set_full(True)
    house.queue.when_may_reject(partial(called.append, 1))
    house.node.policies.set("/", "limit", "^queue$", {"max-length": 5})
    house.clock.advance(dead_lettering.PASS_MS)
    assert called and not house.queue.must_not_reject and not house.node.ledger.dead_letters.full_outboxes


@pytest.mark.parametrize("changed", ["", "policy", "queue"])
def test_an_exchange_keeps_a_waiting_dead_letter_once(changed: str, monkeypatch: MonkeyPatch) -> None:
    limit_dead_letters(monkeypatch, MANY=5)
    house = House(max_length=1)
    house.node.registry.register("x-recent-history", RecentHistoryExchange)
    vhost = house.node.vhosts["/"]
    house.ch.exchange("history", "x-recent-history")
    house.ch.declare(
        "full", arguments={"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "amq.topic"}
    )
    full = vhost.queues["full"]
    full.outbox.awaits_journal = True
    full.outbox.add(new_messages(house.node)[:7], "maxlen", queued=False)
    assert full.outbox_full
    house.ch.bind("full", "history")
    house.node.policies.set("/", "dead letters", "^waiting$", {"dead-letter-exchange": "history", "max-length": 1})
    house.ch.declare("waiting")
    house.ch.fill("waiting", b"first", b"second")
    waiting = vhost.queues["waiting"]
    for _ in range(20):
        house.clock.advance(100)
        assert waiting.outbox.awaited is full
        waiting.outbox.wait_no_longer()
        house.node.pump()
    if changed == "queue":
        house.ch.delete("full")
        house.ch.declare("full")
        house.ch.bind("full", "history")
    if changed == "policy":
        to_letters = {"dead-letter-exchange": "", "dead-letter-routing-key": "letters", "max-length": 1}
        house.node.policies.set("/", "dead letters", "^waiting$", to_letters)
        house.clock.advance(1)
        assert house.ch.drain("letters") == [b"first"]
    if changed != "queue":
        full.outbox.awaits_journal = False
        full.schedule_pump()
    house.node.pump()
    house.clock.advance(1_000)
    assert not len(waiting.outbox) and house.ch.drain("full") == [b"first"] * {"": 1, "policy": 0, "queue": 1}[changed]
    house.ch.declare("replayed")
    house.ch.bind("replayed", "history")
    assert house.ch.drain("replayed") == [b"first"] * (changed != "policy"), "else it went another way"


@pytest.mark.parametrize("length", [1, 2, 3])
def test_full_queues_in_a_circle_do_not_wait_for_each_other(length: int, monkeypatch: MonkeyPatch) -> None:
    """Each dead-letters what it rejects to the next one, which is what all of them wait for, and to another queue."""
    limit_dead_letters(monkeypatch, MANY=5, SLICE=20, MANY_BYTES=1 << 30, ALL_BYTES=1 << 30)
    node = new_node()
    ch: Channel = connected(node).channel()
    ch.declare("letters")
    for number in range(length):
        ch.exchange(f"from{number}", "fanout")
        given = {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": f"from{number}"}
        ch.declare(f"queue{number}", arguments=given)
        ch.bind("letters", f"from{number}")
    for number in range(length):
        ch.bind(f"queue{(number + 1) % length}", f"from{number}")
    ch.exchange("all", "fanout")
    for number in range(length):
        ch.bind(f"queue{number}", "all")
    publish = codec.method_frame(ch.number, BasicMethods.Publish, {"exchange": "all"}) + codec.header_frame(
        ch.number, 0
    )
    ch.client.raw(100 * publish)
    fake_clock(node.clock).advance(1_000)
    assert ch.count("letters") == 100 * length * length, "each message is rejected by each queue, once on its way"


@pytest.mark.parametrize(
    "length, arguments", [(300, {"max_length": 0, "overflow": "reject-publish-dlx"}), (100, {"message_ttl": 0})]
)
def test_a_long_chain_of_queues_passes_messages_on_to_its_end(length: int, arguments: dict[str, Any]) -> None:
    node = new_node(SlowJournal())
    ch = chain(node, length, **arguments)
    ch.fill("0", *[b"%d" % number for number in range(50)])
    fake_clock(node.clock).advance(0)
    assert ch.drain(f"{length}") == [b"%d" % number for number in range(50)]


def test_each_letter_has_the_properties_and_the_route_of_its_time() -> None:
    """Messages that are alike share them only while nothing changes."""
    node = new_node()
    ch: Channel = connected(node).channel()

    def policy(key: str) -> None:
        policies = {"dead-letter-exchange": "amq.direct", "dead-letter-routing-key": key}
        node.policies.set("/", "letters", "^queue$", policies)

    def bound(key: str, *names: str) -> None:
        for name in names:
            ch.declare(name)
            ch.bind(name, "amq.direct", key)

    def letters(**properties: Any) -> dict[str, list[Any]]:
        """Reject a message twice, and return the first entry of x-death of the letters that each queue got."""
        for _ in range(2):
            ch.fill("queue", b"x", **properties)
            ch.reject_next("queue")
        names = sorted(node.vhosts["/"].queues.keys() & {"a", "b"})
        found = {name: [ch.get(name) for _ in range(ch.count(name))] for name in names}
        return {name: [letter.headers["x-death"][0] for letter in each] for name, each in found.items()}

    def counts(**properties: Any) -> dict[str, int]:
        return {name: len(each) for name, each in letters(**properties).items()}

    ch.declare("queue")
    policy("k")
    bound("k", "a")
    assert counts() == {"a": 2}
    bound("k", "b")
    assert counts() == {"a": 2, "b": 2}
    ch.unbind("a", "amq.direct", "k")
    assert counts() == {"a": 0, "b": 2}
    ch.delete("b")
    ch.declare("b")
    assert counts() == {"a": 0, "b": 0}
    bound("other", "a")
    policy("other")
    before = letters()["a"]
    fake_clock(node.clock).advance(5_000)
    after = letters()["a"]
    assert len(before) == len(after) == 2
    assert {(letter["time"] - before[0]["time"]).total_seconds() for letter in after} == {5}
    assert [letter["routing-keys"] for letter in after] == [["queue"]] * 2
    ch.exchange("x", "fanout")
    ch.bind("queue", "x")
    ch.publish("x", "mine")
    ch.reject_next("queue")
    assert ch.get("a").headers["x-death"][0]["routing-keys"] == ["mine"]
    assert counts(headers={"one": 1}) == counts(headers={"one": 2}) == {"a": 2, "b": 0}


def test_very_many_targets_of_a_dead_letter_are_looked_at_in_steps(monkeypatch: MonkeyPatch) -> None:
    """They are asked whether they are full, and close no cycle: 100,000 in one step took 57 ms."""
    limit_dead_letters(monkeypatch, MANY=0)
    house = House()
    vhost = house.node.vhosts["/"]
    message = new_messages(house.node)[0]
    full = Table.of({"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""})
    targets = tuple([vhost.declare_queue(f"q{number}", arguments=full) for number in range(5 * dead_lettering.LOOKS)])
    for target in targets:
        vhost.bind("amq.fanout", target, "", Table.EMPTY)
        target.outbox.awaits_journal = True
        target.outbox.add([message], "maxlen", queued=False)
    letter = dead_lettering.DeadLetter(message, "expired")
    costs = []
    while letter.targets is None:
        costs.append(letter.find_targets(vhost.queues["queue"], "amq.fanout", 0, dead_lettering.LOOKS // 2))
    assert letter.targets == targets and len(letter.full) >= dead_lettering.FULL_LOOKS
    assert len(costs) > 5 and max(costs) < 2 * dead_lettering.LOOKS


class Budget:
    """A budget, and those that it has called since the last look."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ledger = DeadLetterBudget()
        self._called: list[str] = []

    def add(self, account: str, count: int, loose: bool = True) -> None:
        self.ledger.add(account, count, count * loose, self.clock)

    def wait(self, account: str, count: int = 1) -> None:
        for _ in range(count):
            self.ledger.when_fewer(account, partial(self._called.append, account))

    def called(self) -> list[str]:
        called = self._called.copy()
        self._called.clear()
        return called


def test_it_is_full_for_a_user_with_many_loose_bytes_while_the_node_has_too_many() -> None:
    each = Budget()
    each.add("many", USER_BYTES + 1)
    each.add("few", USER_BYTES)
    each.add("waits for targets", ALL_BYTES - 2 * USER_BYTES - 2, loose=False)
    assert not each.ledger.is_full("many") and not each.ledger.full_outboxes
    each.add("waits for targets", 1, loose=False)
    assert [each.ledger.is_full(name) for name in ("many", "few", "waits for targets")] == [True, False, False]
    assert each.ledger.full_outboxes == 1
    each.add("", 2 * USER_BYTES)
    assert not each.ledger.is_full(""), "queues whose users are not known share no bound"
    each.add("", -2 * USER_BYTES)
    each.add("few", -1)
    assert not each.ledger.is_full("many") and not each.ledger.full_outboxes and each.ledger.has_many_loose("many")


@pytest.mark.parametrize("falls", ["of the node", "of the user"])
def test_who_waits_is_called_some_at_a_time_and_only_for_a_user_for_whom_there_is_room(falls: str) -> None:
    each = Budget()
    for account in ("one", "two"):
        each.add(account, ALL_BYTES)
        each.wait(account, 3 * WOKEN)
    each.add("one", -1)
    each.clock.advance(1_000)
    assert not each.called()
    if falls == "of the node":
        for account in ("one", "two"):
            each.add(account, -ALL_BYTES + USER_BYTES)
        assert len(each.called()) == WOKEN
        each.clock.advance(1)
        assert sorted(each.called()) == sorted([*["one"] * 2 * WOKEN, *["two"] * 3 * WOKEN])
    else:
        each.add("one", -ALL_BYTES + USER_BYTES)
        for _ in range(50):
            each.add("one", -1)
        assert each.called() == ["one"] * WOKEN, "all these calls are in one turn"
        each.clock.advance(1)
        assert each.called() == ["one"] * 2 * WOKEN
    assert not each.clock._timers or all(timer.cancelled for timer in each.clock._timers)


def test_who_waits_again_when_called_and_whose_user_has_many_again_is_called_later() -> None:
    each = Budget()
    each.add("one", ALL_BYTES)

    def fill() -> None:
        each.add("one", ALL_BYTES)
        each.ledger.when_fewer("one", fill)

    each.ledger.when_fewer("one", fill)
    each.wait("one", WOKEN)
    for _ in range(3):
        each.add("one", -ALL_BYTES)
        each.clock.advance(1)
        assert each.ledger.is_full("one")
    assert len(each.called()) == WOKEN


def test_deleted_queues_that_were_held_back_are_forgotten_and_others_pumped_in_turns(monkeypatch: MonkeyPatch) -> None:
    limit_dead_letters(monkeypatch, ALL_BYTES=1, USER_BYTES=0)
    node = new_node()
    ch = connected(node).channel()
    budget, waiting = node.ledger.dead_letters, node.ledger.dead_letters._waiting
    clock = fake_clock(node.clock)
    budget.add("guest", 1, 1, clock)
    held = {"x-max-length": 1, "x-dead-letter-exchange": "amq.fanout"}
    ch.declare("no letters", arguments={"x-max-length": 1})
    for number in range(3 * WOKEN):
        ch.declare(f"queue{number}", arguments=held)
    for name in ("no letters", *(f"queue{number}" for number in range(3 * WOKEN))):
        ch.fill(name, b"1", b"2")
    assert ch.count("no letters") == 1 and ch.count("queue0") == 2
    assert [len(functions) for functions in waiting.values()] == [3 * WOKEN]
    for number in range(WOKEN):
        ch.delete(f"queue{number}")
    assert [len(functions) for functions in waiting.values()] == [2 * WOKEN]
    clock.advance(60_000)
    assert ch.count(f"queue{WOKEN}") == 2 and not [timer for timer in clock._timers if not timer.cancelled]
    budget.add("guest", -1, -1, clock)
    node.pump()
    ready = [node.vhosts["/"].queues[f"queue{number}"].ready for number in range(WOKEN, 3 * WOKEN)]
    assert ready == [*[1] * WOKEN, *[2] * WOKEN] and dead_letter_budget.WOKEN == WOKEN
    clock.advance(1)
    node.pump()
    assert ch.count(f"queue{3 * WOKEN - 1}") == 1 and not waiting
