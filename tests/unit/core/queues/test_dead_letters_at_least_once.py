"""Dead letters at least once: a message stays in its queue until each target has taken its dead letter."""

from typing import Any

import pytest
from pamqp.commands import Queue as QueueMethods
from pytest import MonkeyPatch

from tests.support.amqp_client import Channel
from tests.support.clock import fake_clock
from tests.support.queues import limit_dead_letters
from tests.support.session import SlowJournal, SureJournal, connected, new_node, statistics_of
from tests.support.traced_memory import traced_memory
from warren.broker.core.counters.statistics import AT_LEAST_ONCE, AT_MOST_ONCE, CONFIRMED
from warren.broker.core.queues import dead_lettering, ready_messages
from warren.broker.core.queues.dead_lettering import QUICK_RETRY_MS, RETRY_MS, UNCONFIRMED
from warren.broker.core.queues.queue import Queue
from warren.plugins.exchanges.presence import PresenceExchange

QUORUM = {"x-queue-type": "quorum"}
AT_LEAST_ONCE_ARGUMENTS = QUORUM | {
    "x-overflow": "reject-publish",
    "x-dead-letter-exchange": "dlx",
    "x-dead-letter-strategy": "at-least-once",
    "x-message-ttl": 10,
}
ONE = {**QUORUM, "x-max-length": 1, "x-overflow": "reject-publish"}


class House:
    """A quorum queue `source` with dead letters to an exchange, and the queue `letters` bound to it."""

    def __init__(self, journal: SlowJournal | None = None, letters: Any = QUORUM, **arguments: Any) -> None:
        self.journal = journal or SureJournal()
        self.node = new_node(self.journal)
        self.clock = fake_clock(self.node.clock)
        self.ch: Channel = connected(self.node).channel()
        self.ch.exchange("dlx", "fanout", durable=True)
        if letters:
            self.letters(**letters)
        self.ch.declare("source", durable=True, arguments=AT_LEAST_ONCE_ARGUMENTS | arguments)
        self.source = self.node.vhosts["/"].queues["source"]

    def letters(self, name: str = "letters", **arguments: Any) -> None:
        self.ch.declare(name, durable=True, arguments=arguments)
        self.ch.bind(name, "dlx")

    def publish(self, count: int) -> None:
        self.ch.fill("source", *[b"%d" % number for number in range(count)])

    def kept(self, name: str = "source") -> int:
        """Return the number of messages of a queue in the journal."""
        number = self.node.vhosts["/"].queues[name].number
        return sum(1 for kept, _ in self.journal.live if kept == number)

    def counted(self, strategy: str, reason: str) -> int:
        return statistics_of(self.node).dead_lettered.get(("quorum", strategy, reason), 0)


def queue_with(**arguments: Any) -> Queue:
    return House(**{f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}).source


def test_messages_that_a_full_queue_rejects_stay_until_it_has_room() -> None:
    house = House(letters=ONE)
    house.publish(3)
    house.clock.advance(100)
    assert (house.ch.count("letters"), house.kept(), len(house.source.outbox)) == (1, 2, 2)
    bodies = []
    for _ in range(3):
        bodies += house.ch.drain("letters")
        house.clock.advance(RETRY_MS)
    assert bodies == [b"0", b"1", b"2"] and not house.kept() and not len(house.source.outbox)
    assert house.counted(AT_LEAST_ONCE, "expired") == house.counted(AT_LEAST_ONCE, CONFIRMED) == 3
    assert not house.counted(AT_MOST_ONCE, "expired")


def test_retries_wait_for_the_journal() -> None:
    house = House(letters=ONE)
    house.publish(3)
    house.clock.advance(100)
    assert house.ch.drain("letters") == [b"0"]
    house.journal.much = True
    house.clock.advance(10 * RETRY_MS)
    assert house.ch.count("letters") == 0
    house.journal.catch_up()
    house.clock.advance(1)
    assert house.ch.drain("letters") == [b"1"]


def test_messages_follow_soon_once_a_full_target_has_room_again() -> None:
    house = House(letters={**QUORUM, "x-max-length": 10, "x-overflow": "reject-publish"})
    house.publish(500)
    house.clock.advance(RETRY_MS)
    bodies = []
    begun_ms = house.clock.now_ms()
    while len(bodies) < 500 and house.clock.now_ms() < begun_ms + 2 * RETRY_MS:
        bodies += house.ch.drain("letters")
        house.clock.advance(QUICK_RETRY_MS)
    assert bodies == [b"%d" % number for number in range(500)] and not house.kept()


def test_a_target_that_is_full_again_is_tried_ever_less_often() -> None:
    house = House(letters=ONE)
    house.publish(100)
    house.clock.advance(RETRY_MS)
    house.ch.drain("letters")
    turns: list[int] = []
    house.clock.after_each = lambda: turns.append(1)
    house.clock.advance(4 * RETRY_MS)
    assert house.ch.count("letters") == 1 and len(turns) < 40


@pytest.mark.parametrize("exchange", ["dlx", "missing"])
def test_messages_without_a_target_stay_until_there_is_one(exchange: str) -> None:
    house = House(letters=None, **{"x-dead-letter-exchange": exchange})
    house.publish(2)
    house.clock.advance(10 * RETRY_MS)
    assert house.kept() == 2 and not house.source.ready
    house.ch.exchange(exchange, "fanout", durable=True)
    house.ch.declare("letters", durable=True)
    house.ch.bind("letters", exchange)
    house.clock.advance(RETRY_MS)
    assert house.ch.drain("letters") == [b"0", b"1"] and not house.kept()


def test_a_full_queue_does_not_keep_a_message_from_other_queues_which_get_it_once() -> None:
    house = House(letters=ONE)
    house.letters("others")
    house.publish(2)
    house.clock.advance(3 * RETRY_MS)
    assert (house.ch.count("letters"), house.ch.count("others"), house.kept()) == (1, 2, 1)
    house.ch.drain("letters")
    house.clock.advance(RETRY_MS)
    assert (house.ch.count("letters"), house.ch.count("others"), house.kept()) == (1, 2, 0)


def test_a_message_is_settled_when_its_earlier_copies_are_durable_and_not_before() -> None:
    house = House(SlowJournal(), letters=ONE)
    house.letters("others")
    house.publish(2)
    house.clock.advance(10)
    house.journal.seal()  # the batch with the copy for `others` is being written
    house.ch.drain("letters")
    house.clock.advance(2 * RETRY_MS)
    assert house.ch.count("letters") == 1 and house.kept() == 1
    house.journal.commit(house.journal.ticket())
    house.clock.advance(RETRY_MS)
    assert not house.kept() and house.ch.count("others") == 2


def test_many_messages_that_cannot_be_published_cost_a_few_attempts_at_each_retry() -> None:
    house = House(letters=None)
    house.publish(5000)
    attempts: list[object] = []
    search = house.node.vhosts["/"].search_from
    house.node.vhosts["/"].search_from = lambda *route: (attempts.append(route), search(*route))[1]  # type: ignore[method-assign]
    turns: list[int] = []
    house.clock.after_each = lambda: turns.append(1)
    house.clock.advance(10)
    assert len(attempts) == UNCONFIRMED and house.kept() == 5000
    turns.clear()
    house.clock.advance(4 * RETRY_MS)
    assert len(attempts) == 5 * UNCONFIRMED and len(turns) < 20
    house.letters()
    house.clock.advance(RETRY_MS)
    assert house.ch.count("letters") == 5000 and not house.kept()


def test_a_queue_with_too_many_waiting_messages_waits_without_work(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(dead_lettering, "MANY", 50)
    house = House(letters=None)
    house.publish(100)
    house.clock.advance(10)
    house.publish(20)
    turns: list[int] = []
    house.clock.after_each = lambda: turns.append(1)
    house.clock.advance(3 * RETRY_MS)
    assert len(turns) < 20 and house.kept() == 120
    house.letters()
    house.clock.advance(RETRY_MS)
    assert house.ch.count("letters") == 120 and not house.kept()


def limit_bytes(monkeypatch: MonkeyPatch, many: int, all_queues: int, some: int, at_once: int) -> None:
    limit_dead_letters(monkeypatch, MANY_BYTES=many, ALL_BYTES=all_queues, SOME_BYTES=some)
    monkeypatch.setattr(ready_messages, "SLICE_BYTES", at_once)


@pytest.mark.parametrize("count", [UNCONFIRMED - 2, 2 * UNCONFIRMED])
@pytest.mark.parametrize("header", [0, 4_000])
def test_messages_that_no_target_takes_are_limited_in_bytes_and_all_of_them_arrive_once_it_does(
    monkeypatch: MonkeyPatch, count: int, header: int
) -> None:
    """They are limited too if all of them are unconfirmed, few but long, and if they expire at the same time."""
    limit_bytes(monkeypatch, 1 << 16, 1 << 20, 1 << 13, 1 << 13)
    house = House(letters=ONE)
    house.ch.publish("", "letters")
    fields = {"delivery_mode": 2, "headers": {"h": "v" * header}}
    for number in range(count):
        house.ch.publish("", "source", b"%2d" % number + bytes(4_000 - header), fields)
    house.clock.advance(RETRY_MS)
    outbox = house.source.outbox
    assert 1 << 16 < outbox.held_bytes < (1 << 16) + (1 << 13) + 5_000 and not outbox.waiting
    assert house.source.ready + len(outbox) == house.kept() == count
    house.ch.drain("letters")
    numbers = []
    for _ in range(2 * count):
        house.clock.advance(RETRY_MS)
        numbers += [int(body[:2]) for body in house.ch.drain("letters")]
    assert numbers == list(range(count))
    assert not house.kept() and not outbox.held_bytes and not house.source.host.ledger.dead_letters.total


def test_messages_of_all_queues_that_no_target_takes_are_limited_in_bytes(monkeypatch: MonkeyPatch) -> None:
    limit_bytes(monkeypatch, 1 << 15, 1 << 16, 1 << 13, 1 << 15)
    house = House(letters=ONE)
    house.ch.publish("", "letters")
    names = ["source", *[f"other{number}" for number in range(7)]]
    for name in names:
        house.ch.declare(name, durable=True, arguments=AT_LEAST_ONCE_ARGUMENTS)
        house.ch.fill(name, *[bytes(4_000)] * 20)
        house.clock.advance(100)
    assert 1 << 16 < house.source.host.ledger.dead_letters.total < (1 << 16) + len(names) * ((1 << 13) + 4_100)
    assert [house.kept(name) for name in names] == [20] * len(names)
    house.letters("letters2")
    house.ch.delete("letters")
    house.clock.advance(2 * RETRY_MS)
    assert house.ch.count("letters2") == 20 * len(names) and not any(house.kept(name) for name in names)


def test_messages_that_wait_for_a_retry_are_in_memory_once() -> None:
    house = House(letters=ONE)
    house.ch.fill("letters", b"full")
    house.ch.fill("source", *[bytes(100_000)] * 20)
    with traced_memory() as memory:
        house.clock.advance(3 * RETRY_MS)
    assert len(house.source.outbox.unconfirmed) == 20 and memory.held_bytes < 200_000


def test_a_consumer_gets_the_other_messages_once_targets_have_taken_those_that_are_too_many(
    monkeypatch: MonkeyPatch,
) -> None:
    limit_bytes(monkeypatch, 9_000, 1 << 20, 1 << 13, 1 << 13)
    house = House(letters=ONE, **{"x-message-ttl": 60_000_000})
    house.ch.publish("", "letters")
    consumer = connected(house.node).channel()
    consumer.qos(4)
    consumer.consume("source")
    house.ch.fill("source", *[bytes(4_000)] * 8)
    consumer.deliveries(4)
    consumer.nack(0, multiple=True, requeue=False)
    house.clock.advance(2 * RETRY_MS)
    assert house.source.ready == 4 and len(house.source.outbox) == 4
    for _ in range(3):
        house.ch.drain("letters")
        house.clock.advance(RETRY_MS)
    assert len(consumer.deliveries(4)) == 4 and house.source.unacked == 4


def test_waiting_messages_count_for_the_length_limits() -> None:
    house = House(letters=None, **{"x-max-length": 3})
    house.ch.confirm()
    house.publish(3)
    house.clock.advance(10)
    assert house.ch.confirms([1, 2, 3]) == ({1, 2, 3}, set())
    house.ch.publish("", "source")
    assert house.ch.confirms([4]) == (set(), {4})


@pytest.mark.parametrize("limit", [{"x-max-length": 1}, {"x-max-length-bytes": 1}])
def test_a_message_that_returns_to_its_own_queue_needs_no_room_beside_itself(limit: dict[str, int]) -> None:
    house = House(letters=None, **{"x-message-ttl": 60_000, "x-dead-letter-exchange": "", **limit})
    house.publish(1)
    house.ch.reject_next("source")
    assert (house.ch.count("source"), len(house.source.outbox), house.kept()) == (1, 0, 1)


class Ring:
    """Quorum queues, each with dead letters at least once for the next one, and the last one with some for `to`."""

    def __init__(self, queues: int, to: str = "0", **arguments: Any) -> None:
        self.house = House(letters=None)
        self.ch = self.house.ch
        self.ch.confirm()
        self.names = [str(number) for number in range(queues)]
        for name, key in zip(self.names, [*self.names[1:], to], strict=True):
            address = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": key, "x-message-ttl": 60_000}
            self.ch.declare(name, durable=True, arguments=AT_LEAST_ONCE_ARGUMENTS | address | arguments)

    @property
    def held(self) -> list[int]:
        """The numbers of messages of the queues, with those that they keep."""
        queues = self.house.node.vhosts["/"].queues
        return [queues[name].ready + len(queues[name].outbox) for name in self.names]

    @property
    def held_bytes(self) -> list[int]:
        queues = self.house.node.vhosts["/"].queues
        return [queues[name].ready_bytes + queues[name].outbox.persistent_bytes for name in self.names]

    def publish(self, count: int, *names: str, body: bytes = b"x") -> None:
        """Publish this number of messages to each of these queues, or to all."""
        for name in names or self.names:
            self.ch.fill(name, *[body] * count)

    def advance(self) -> None:
        self.house.clock.advance(2 * RETRY_MS)

    def reject(self, count: int, *names: str) -> None:
        """Reject this number of messages of each of these queues, or of all, at the same time."""
        for name in names or self.names:
            for _ in range(count):
                self.ch.get(name, no_ack=False)
        self.ch.nack(0, multiple=True, requeue=False)
        self.advance()


@pytest.mark.parametrize("queues, to", [(2, "missing"), (8, "missing"), (2, "0"), (3, "0")])
def test_queues_whose_dead_letters_expire_again_hold_no_more_than_their_limits(queues: int, to: str) -> None:
    ring = Ring(queues, to, **{"x-max-length": 3, "x-message-ttl": 1})
    for _ in range(40):
        ring.publish(2, *ring.names[: 1 if to == "missing" else None])
        ring.house.clock.advance(RETRY_MS)
    assert ring.held == [3] * queues


@pytest.mark.parametrize("queues", [1, 2, 3])
def test_rejected_messages_of_full_queues_in_a_circle_go_round_and_none_enters(queues: int) -> None:
    ring = Ring(queues, **{"x-max-length": 3})
    for _ in range(5):
        ring.publish(5)
        assert ring.held == [3] * queues
        ring.reject(3)
        assert ring.held == [3] * queues
        assert [ring.ch.count(name) for name in ring.names] == ring.held


@pytest.mark.parametrize("queues", [1, 2, 3])
def test_rejected_messages_do_not_wait_for_each_other_where_they_exceed_the_limits(queues: int) -> None:
    """Unacknowledged messages do not count for the limits."""
    ring = Ring(queues, **{"x-max-length": 2})
    for _ in range(3):
        ring.publish(2)
        for name in ring.names:
            assert [ring.ch.get(name, no_ack=False) for _ in range(2)]
    ring.reject(0)
    got = 0
    for _ in range(6):
        got += sum(len(ring.ch.drain(name)) for name in ring.names)
        ring.advance()
    assert got == 6 * queues and ring.held == [0] * queues


def test_a_circle_with_dead_letters_that_cannot_go_on_holds_no_more_than_its_limits() -> None:
    """Both queues keep messages that have expired in the other one too, beside rejected ones for the other."""
    ring = Ring(2, **{"x-max-length": 6, "x-message-ttl": 2 * RETRY_MS})
    for _ in range(20):
        ring.publish(2)
        ring.reject(1)
        assert max(ring.held) <= 6
    assert ring.held == [6, 6]


@pytest.mark.parametrize("queues", [1, 2, 3])
def test_queues_in_a_circle_pass_on_too_many_bytes_of_dead_letters(monkeypatch: MonkeyPatch, queues: int) -> None:
    limit_bytes(monkeypatch, 1 << 13, 1 << 13, 1 << 12, 1 << 13)
    ring = Ring(queues, **{"x-max-length": 10, "x-message-ttl": 60_000_000})
    ring.publish(10, body=bytes(4_000))
    ring.reject(8)
    consumer = connected(ring.house.node).channel()
    for name in ring.names:
        consumer.consume(name)
    ring.advance()
    assert consumer.deliveries(10 * queues) and not ring.house.source.host.ledger.dead_letters.total


def test_copies_of_a_fanout_in_a_circle_do_not_exceed_the_limits() -> None:
    ring = Ring(3, **{"x-max-length": 4, "x-dead-letter-exchange": "dlx"})
    for name in ring.names:
        ring.ch.bind(name, "dlx")
    for _ in range(20):
        ring.publish(2)
        ring.reject(2)
        assert max(ring.held) <= 4


def test_queues_in_a_circle_do_not_gather_bytes_of_longer_messages() -> None:
    ring = Ring(2, **{"x-max-length-bytes": 100})
    ring.publish(100, "1", body=b"1")
    ring.reject(100, "1")
    for _ in range(50):
        ring.publish(1, "0", body=b"x" * 90)
        ring.reject(1)
        assert max(ring.held_bytes) <= 200


@pytest.mark.parametrize("queues, waits", [(5, False), (6, True)])
def test_a_search_for_a_circle_is_bounded(monkeypatch: MonkeyPatch, queues: int, waits: bool) -> None:
    monkeypatch.setattr(dead_lettering, "MOST_QUEUES", 5)
    ring = Ring(queues, **{"x-max-length": 1})
    ring.publish(1)
    ring.reject(1)
    assert {ring.ch.count(name) for name in ring.names} == {0 if waits else 1} and ring.held == [1] * queues


def test_a_circle_does_not_exchange_too_many_bytes_at_once(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(dead_lettering, "MOST_BYTES", 1000)
    ring = Ring(2, **{"x-max-length": 2})
    ring.publish(1, body=b"x" * 900)
    ring.publish(1, body=b"x" * 100)
    ring.reject(2)
    assert [ring.ch.count(name) for name in ring.names] == [1, 1] and ring.held == [2, 2]
    assert ring.ch.drain("0") + ring.ch.drain("1") == [b"x" * 100] * 2


def test_a_purge_spares_waiting_messages_and_a_deletion_ends_them() -> None:
    house = House(letters=ONE)
    house.publish(40)
    house.clock.advance(10)
    house.ch.call(QueueMethods.Purge, queue="source")
    assert house.kept() == 39 == house.source.journal.count
    house.ch.delete("source")
    house.clock.advance(10)
    assert house.ch.count("letters") == 1 and not house.journal.left


def test_a_stop_publishes_no_more_again_than_a_retry() -> None:
    """Another target has room, and would get all of them again at each start."""
    house = House(letters=ONE)
    house.letters("others")
    house.publish(200)
    house.clock.advance(10)
    before = house.ch.count("others")
    house.node.finish()
    assert house.kept() == 199 and house.ch.count("others") - before <= UNCONFIRMED


def test_rejected_messages_and_those_beyond_the_delivery_limit_wait_too() -> None:
    house = House(letters=ONE, **{"x-message-ttl": 60_000, "x-delivery-limit": 0})
    house.publish(3)
    for _ in range(2):
        house.ch.reject_next("source")
    consumer = connected(house.node)
    assert consumer.channel().get("source", no_ack=False)
    consumer.vanish()
    house.clock.advance(RETRY_MS)
    assert (house.ch.count("letters"), house.kept(), house.source.ready) == (1, 2, 0)
    for _ in range(2):
        house.ch.drain("letters")
        house.clock.advance(RETRY_MS)
    assert not house.kept()


def test_a_policy_may_set_and_end_the_strategy() -> None:
    house = House(letters=None, **{"x-dead-letter-strategy": "at-most-once"})
    house.node.policies.set("/", "once", "source", {"dead-letter-strategy": "at-least-once"})
    assert not house.source.settings.dead_letters_at_least_once, "the argument has precedence"
    house.ch.delete("source")
    house.ch.declare("source", durable=True, arguments=QUORUM)
    policy = {"overflow": "reject-publish", "dead-letter-exchange": "dlx", "dead-letter-strategy": "at-least-once"}
    house.node.policies.set("/", "once", "source", {**policy, "message-ttl": 10})
    house.source = house.node.vhosts["/"].queues["source"]
    house.publish(40)
    house.clock.advance(10)
    assert house.kept() == 40
    house.node.policies.set("/", "once", "source", {**policy, "dead-letter-strategy": "at-most-once"})
    house.clock.advance(10)
    assert house.kept() == 0 == house.source.journal.count


@pytest.mark.parametrize(
    "arguments", [{"overflow": "drop-head"}, {"overflow": "reject-publish-dlx"}, {"queue_type": "classic"}]
)
def test_other_queues_fall_back_to_at_most_once(arguments: dict[str, str]) -> None:
    assert not queue_with(**arguments).settings.dead_letters_at_least_once


def test_an_unknown_strategy_is_refused() -> None:
    channel = connected(new_node()).channel()
    arguments = {**QUORUM, "x-dead-letter-strategy": "foo"}
    channel.refused(406, QueueMethods.Declare, queue="q", durable=True, arguments=arguments)


@pytest.mark.parametrize("between", [False, True])
def test_a_relay_is_no_target(between: bool) -> None:
    """A message that only a relay would take stays, as if there were no target."""
    house = House(letters=None)
    house.node.registry.register("x-presence", PresenceExchange)
    house.ch.exchange("p", "x-presence", durable=True, arguments={"x-presence-relay": True})
    house.ch.bind_exchange("p", "dlx")
    house.ch.declare("listener", durable=True)
    if between:
        house.ch.exchange("between", "fanout", durable=True)
        house.ch.bind("listener", "between")
        house.ch.bind_exchange("between", "p")
    else:
        house.ch.bind("listener", "p")
    house.ch.drain("listener")
    house.publish(2)
    house.clock.advance(2 * RETRY_MS)
    assert house.kept() == 2
    house.letters("others")
    house.clock.advance(2 * RETRY_MS)
    assert house.ch.drain("others") == [b"0", b"1"] and not house.kept()
    assert not house.ch.count("listener")


def test_targets_that_have_taken_messages_are_limited_and_count_and_get_each_once(monkeypatch: MonkeyPatch) -> None:
    """Each of 32 messages of each queue kept a set of them, of 2 MB for 20,000, which nothing counted."""
    monkeypatch.setattr(dead_lettering, "MANY_TAKERS", 20)
    house = House(letters=ONE)
    for number in range(15):
        house.letters(f"other{number}", **QUORUM)
    house.publish(6)
    house.clock.advance(2 * RETRY_MS)
    outbox = house.source.outbox
    assert [len(letter.takers) for letter in outbox.unconfirmed] == [15, 15] and len(outbox) == 5
    assert not any(letter.confirmed for letter in outbox.unconfirmed)
    message_bytes = sum(len(message.frames) for message, _, _ in outbox.waiting) // len(outbox.waiting)
    held_bytes = 5 * (message_bytes + dead_lettering.OVERHEAD) + 2 * 15 * dead_lettering.TAKER_BYTES
    assert outbox.held_bytes == house.node.ledger.dead_letters.total == held_bytes
    arrived = list[bytes]()
    for _ in range(6):
        arrived += house.ch.drain("letters")
        house.clock.advance(2 * RETRY_MS)
    expected = [b"%d" % number for number in range(6)]
    assert sorted(arrived) == expected
    assert all(sorted(house.ch.drain(f"other{number}")) == expected for number in range(15))
    assert not outbox.held_bytes and not house.node.ledger.dead_letters.total


def test_a_message_that_all_targets_have_taken_holds_none_of_them_until_its_copies_are_durable() -> None:
    house = House(SlowJournal(), letters=ONE)
    house.letters("other", **QUORUM)
    house.publish(2)
    house.clock.advance(100)
    [letter] = house.source.outbox.unconfirmed
    assert len(letter.takers) == 1
    assert house.ch.drain("letters") == [b"0"]
    house.clock.advance(2 * RETRY_MS)
    assert letter.accepted and not letter.takers and not letter.confirmed and len(house.source.outbox) == 1
    house.journal.commit(house.journal.ticket())
    house.clock.advance(2 * RETRY_MS)
    assert house.ch.drain("letters") == [b"1"] and house.ch.drain("other") == [b"0", b"1"]
    assert not len(house.source.outbox)


@pytest.mark.parametrize("end", ["source", "target", "stop"])
def test_the_targets_that_have_taken_messages_count_no_more_at_the_end(end: str) -> None:
    house = House(letters=ONE)
    house.letters("other", **QUORUM)
    house.publish(3)
    house.clock.advance(100)
    assert len(house.source.outbox.unconfirmed) == 2
    if end == "source":
        house.ch.delete("source")
    elif end == "target":
        house.ch.delete("letters")
    else:
        assert house.node.finish()
        house.ch.delete("letters")
    house.clock.advance(2 * RETRY_MS)
    assert house.ch.drain("other")[:3] == [b"0", b"1", b"2"]
    assert not house.node.ledger.dead_letters.total and not house.source.outbox._takers
