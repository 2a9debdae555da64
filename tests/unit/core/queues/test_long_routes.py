"""Letters with long routes hold memory in few queues at a time: others wait their turn, and none is lost."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from pytest import MonkeyPatch

from tests.support.amqp_client import Channel
from tests.support.clock import fake_clock
from tests.support.queues import limit_dead_letters, message, new_queue, ready_messages
from tests.support.session import SureJournal, connected, new_node
from tests.support.traced_memory import traced_memory
from warren.broker.amqp.field_table import Table
from warren.broker.core.exchanges import delayed
from warren.broker.core.jobs import long_routes, scheduler
from warren.broker.core.jobs.long_routes import LIMIT_BYTES, LongRoutes, Place
from warren.broker.core.jobs.scheduler import TURN_COST
from warren.broker.core.messages.message import Message
from warren.broker.core.queues import dead_lettering
from warren.broker.core.queues.dead_lettering import DeadLetter, DeadLetterOutbox
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost import exchange_host

SOURCES, TARGETS = 6, 40
STRATEGIES = pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])


class Crowd:
    """Source queues whose messages expire at the same time, and whose letters go to many targets, with one place."""

    def __init__(self, strategy: str, monkeypatch: MonkeyPatch) -> None:
        for name, value in {"SLICE_COST": 5, "REST_COST": 5, "PART_COST": 15, "SHORT_BYTES": 0}.items():
            monkeypatch.setattr(dead_lettering, name, value)
        monkeypatch.setattr(long_routes, "LIMIT_BYTES", 1)
        self.journal = SureJournal()
        self.node = new_node(self.journal)
        self.vhost = self.node.vhosts["/"]
        self.queues = self.vhost.queues
        self.routes = self.vhost.ledger.long_routes
        self.ch: Channel = connected(self.node).channel()
        self.ch.exchange("dlx", "fanout", durable=True)
        for number in range(TARGETS):
            self.ch.declare(f"target{number}", durable=True)
            self.ch.bind(f"target{number}", "dlx")
        arguments = {"x-queue-type": "quorum", "x-dead-letter-strategy": strategy, "x-message-ttl": 10}
        arguments |= {"x-dead-letter-exchange": "dlx", "x-overflow": "reject-publish"}
        for number in range(SOURCES):
            self.ch.declare(f"source{number}", durable=True, arguments=arguments)
        self.outboxes = [self.queues[f"source{number}"].outbox for number in range(SOURCES)]
        self.clock = fake_clock(self.node.clock)
        self.clock.after_each = self._look

    def _look(self) -> None:
        assert sum(map(is_under_way, self.outboxes)) <= 1

    def expire(self, letters: int = 1) -> None:
        """Have letters expire in all sources, and publish them until some wait for a place."""
        for number in range(SOURCES):
            self.ch.fill(f"source{number}", *[b"%d %d" % (number, each) for each in range(letters)])
        self.until(lambda: sum(outbox.awaits_place for outbox in self.outboxes) == SOURCES - 1)
        assert any(map(is_under_way, self.outboxes))

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(10_000):
            if condition():
                return
            self.clock.run_next(self.clock.now_ms() + 10)
        raise AssertionError("never")

    def check(self, letters: int = 1) -> None:
        """Let everything end: each target got each letter once, and nothing is held or kept any more."""
        self.clock.advance(1_000)
        expected = Counter(b"%d %d" % (number, each) for number in range(SOURCES) for each in range(letters))
        for name, queue in self.queues.items():
            if name.startswith("target"):
                assert Counter(bodies(queue)) == expected, name
        self.check_ended()

    def check_ended(self) -> None:
        assert not any(map(len, self.outboxes)) and not self.vhost.ledger.dead_letters.total
        assert not self.routes.held_bytes and not self.routes._waiting and not len(self.node.scheduler)


def is_under_way(outbox: DeadLetterOutbox) -> bool:
    """Whether it holds a long route."""
    forwarded = outbox.forwarded[0] if outbox.forwarded else None
    letters = [letter for letter in (outbox._first, forwarded) if letter and letter.copy is not letter.message]
    return any(letter.long for letter in letters)


def bodies(queue: Queue) -> list[bytes]:
    return [bytes(message.body) for message in ready_messages(queue)]


@STRATEGIES
@pytest.mark.parametrize("event", ["purge", "unbind", "disk", "journal", "stop"])
def test_each_letter_that_waits_is_published_once(event: str, strategy: str, monkeypatch: MonkeyPatch) -> None:
    crowd = Crowd(strategy, monkeypatch)
    crowd.expire(letters=3)
    if event == "purge":
        for number in range(SOURCES):
            crowd.vhost.queues[f"source{number}"].purge()
    elif event == "unbind":
        crowd.ch.declare("other")
        crowd.ch.bind("other", "amq.fanout")
    elif event == "disk":
        crowd.node.scheduler.disk_alarm(True)
        crowd.clock.advance(1_000)
        assert any(map(len, crowd.outboxes))
        crowd.node.scheduler.disk_alarm(False)
    elif event == "journal":
        crowd.journal.much = True
        crowd.clock.advance(1_000)
        assert any(map(len, crowd.outboxes))
        crowd.journal.catch_up()
    else:
        crowd.clock._timers.clear()
        assert crowd.node.finish()
        assert not any(map(len, crowd.outboxes))
    crowd.check(letters=3)


@STRATEGIES
@pytest.mark.parametrize("stops", [False, True])
def test_letters_of_deleted_queues_wait_as_well(stops: bool, strategy: str, monkeypatch: MonkeyPatch) -> None:
    crowd = Crowd(strategy, monkeypatch)
    crowd.expire(letters=3)
    crowd.node.scheduler.charge(TURN_COST)  # so that their letters leave later
    for number in range(SOURCES):
        crowd.ch.delete(f"source{number}")
    assert sum(outbox.awaits_place for outbox in crowd.outboxes) == SOURCES - 1
    if stops:
        assert crowd.node.finish()
    crowd.check(letters=3)
    assert not any(hasattr(outbox, "_queue") for outbox in crowd.outboxes)


@STRATEGIES
def test_letters_wait_no_longer_when_their_exchange_is_deleted(strategy: str, monkeypatch: MonkeyPatch) -> None:
    crowd = Crowd(strategy, monkeypatch)
    crowd.expire(letters=3)
    crowd.ch.delete_exchange("dlx")
    crowd.clock.advance(1_000)
    assert not crowd.routes.held_bytes and not crowd.routes._waiting
    if strategy == "at-most-once":
        crowd.check_ended()
    else:
        assert all(len(outbox.unconfirmed) == 3 for outbox in crowd.outboxes)


@STRATEGIES
def test_letters_go_on_when_their_targets_are_deleted(strategy: str, monkeypatch: MonkeyPatch) -> None:
    crowd = Crowd(strategy, monkeypatch)
    crowd.expire(letters=3)
    for number in range(1, TARGETS):
        crowd.ch.delete(f"target{number}")
    crowd.check(letters=3)


def test_a_letter_that_waits_for_a_full_queue_leaves_its_place_to_others(monkeypatch: MonkeyPatch) -> None:
    crowd = Crowd("at-most-once", monkeypatch)
    full = Table.of({"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""})
    target = crowd.vhost.declare_queue("full", arguments=full)
    crowd.vhost.bind("dlx", target, "", Table.EMPTY)
    crowd.expire()
    limit_dead_letters(monkeypatch, MANY=0)
    target.outbox.awaits_journal = True
    target.outbox.add(ready_messages(crowd.queues["target0"])[:1], "maxlen", queued=False)
    crowd.until(lambda: sum(outbox.awaited is target for outbox in crowd.outboxes) == SOURCES - 1)
    assert not crowd.routes.held_bytes and not crowd.routes._waiting
    target.outbox.awaits_journal = False
    target.schedule_pump()
    crowd.node.pump()
    crowd.check()


@STRATEGIES
def test_a_policy_may_change_while_letters_wait_for_a_place(strategy: str, monkeypatch: MonkeyPatch) -> None:
    crowd = Crowd(strategy, monkeypatch)
    crowd.expire(letters=3)
    crowd.node.policies.set("/", "limit", "^source", {"max-length": 5})
    crowd.check(letters=3)


def test_a_failure_leaves_the_place_to_others(monkeypatch: MonkeyPatch) -> None:
    crowd = Crowd("at-most-once", monkeypatch)
    crowd.expire()
    [first] = [outbox for outbox in crowd.outboxes if is_under_way(outbox)]

    def fail(*arguments: object) -> int:
        raise ValueError("a bug")

    monkeypatch.setattr(dead_lettering.DeadLetter, "next_targets", fail)
    crowd.until(lambda: not is_under_way(first))
    monkeypatch.undo()
    crowd.clock.advance(5_000)
    assert not crowd.routes.held_bytes and not crowd.routes._waiting


@pytest.mark.parametrize("kind", ["letters", "delayed"])
def test_very_many_long_routes_take_little_memory_at_a_time(kind: str, monkeypatch: MonkeyPatch) -> None:
    """They took 100 bytes for each of their targets in each source: 1,500 with 20,000 targets took 1.9 GB."""
    monkeypatch.setattr(long_routes, "LIMIT_BYTES", 1)
    sources, targets = 20, 1_000
    node = new_node()
    vhost, ch = node.vhosts["/"], connected(node).channel()
    for number in range(targets):
        queue = vhost.declare_queue(f"target{number}", arguments=Table.of({"x-max-length": 0}))
        vhost.bind("amq.fanout", queue, "", Table.EMPTY)
    for number in range(sources):
        if kind == "letters":
            letters = Table.of({"x-dead-letter-exchange": "amq.fanout"})
            vhost.declare_queue(f"source{number}", arguments=letters)
            ch.publish("", f"source{number}", b"", {"expiration": "10"})
        else:
            ch.exchange(f"source{number}", "fanout", arguments={"x-delayed-exchange": True})
            ch.bind_exchange("amq.fanout", f"source{number}")
            ch.publish(f"source{number}", "", b"", {"headers": {"x-delay": 10}})
    with traced_memory() as memory:
        fake_clock(node.clock).advance(100)
    assert memory.peak_bytes < 400 << 10
    assert not vhost.ledger.long_routes.held_bytes and not vhost.ledger.long_routes._waiting


@pytest.mark.parametrize("event", ["", "delete", "stop", "full"])
def test_delayed_messages_with_long_routes_wait_for_a_place(event: str, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(long_routes, "LIMIT_BYTES", 1)
    monkeypatch.setattr(exchange_host, "SHORT_BYTES", 0)
    monkeypatch.setattr(exchange_host, "FORWARD_COST", 5)
    monkeypatch.setattr(delayed, "STEP_COST", 1)
    node = new_node()
    vhost, ch = node.vhosts["/"], connected(node).channel()
    routes, clock = vhost.ledger.long_routes, fake_clock(node.clock)
    for number in range(TARGETS):
        ch.declare(f"target{number}")
        ch.bind(f"target{number}", "amq.fanout")
    for number in range(SOURCES):
        ch.exchange(f"source{number}", "fanout", arguments={"x-delayed-exchange": True})
        ch.bind_exchange("amq.fanout", f"source{number}")
        for _ in range(2):
            ch.publish(f"source{number}", "", b"%d" % number, {"headers": {"x-delay": 10}})
    if event == "full":
        monkeypatch.setattr(exchange_host, "without_full", lambda budget, targets: ())
    clock.advance(9)
    monkeypatch.setattr(scheduler, "TURN_COST", 1)
    node.scheduler.charge(TURN_COST)  # so that all of them begin in the same turn
    while len(routes._waiting) < SOURCES - 1:
        assert clock.run_next(clock.now_ms() + 1_000)
    expected = Counter({b"%d" % number: 2 for number in range(SOURCES)})
    if event == "delete":
        for number in range(SOURCES):
            vhost.delete_exchange(f"source{number}")
    elif event == "stop":
        assert node.finish()
    elif event == "full":
        clock.advance(30_000)
        assert not routes.held_bytes and not routes._waiting and not ch.count("target0")
        monkeypatch.undo()
    clock.advance(60_000)
    arrived = Counter(bodies(vhost.queues["target0"]))
    assert arrived == expected if event != "delete" else arrived <= expected
    assert all(Counter(bodies(vhost.queues[f"target{number}"])) == arrived for number in range(TARGETS))
    assert not routes.held_bytes and not routes._waiting and not len(node.scheduler)


def test_owners_of_long_routes_get_places_in_turn() -> None:
    routes = LongRoutes()
    first = Place(LIMIT_BYTES, "many")
    assert routes.begin(first, lambda: None)
    given: list[str] = []
    waiting = [Place(LIMIT_BYTES, "many") for _ in range(100)]
    waiting += [Place(LIMIT_BYTES, "one"), Place(LIMIT_BYTES, "other")]
    for number, place in enumerate(waiting):
        assert not routes.begin(place, partial(given.append, f"{place.owner} {number}"))
    routes.end(first)
    for held in (0, 100, 101, 1):
        assert waiting[held].held
        routes.end(waiting[held])
    assert given == ["many 0", "one 100", "other 101", "many 1", "many 2"]
    for place in waiting:
        routes.end(place)
    assert not routes.held_bytes and len(given) == len(waiting)


def test_a_letter_forgets_deleted_targets_that_have_taken_it() -> None:
    letter = DeadLetter(message(), "rejected")
    there, deleted = new_queue(number=1), new_queue(number=2)
    letter.confirmed.update((there, deleted))
    deleted.deleted = True
    letter.end_attempt()
    assert letter.takers == (there,)


@pytest.mark.parametrize("event", ["", "delete", "stop"])
def test_due_messages_of_many_exchanges_are_read_one_after_the_other(event: str, monkeypatch: MonkeyPatch) -> None:
    """Each was in memory twice until all were released: 60 of 8 MB took 960 MB."""
    monkeypatch.setattr(long_routes, "LIMIT_BYTES", exchange_host.READING_BYTES + 1)
    monkeypatch.setattr(delayed, "STEP_COST", 1)
    node = new_node(SureJournal())
    vhost, ch, clock = node.vhosts["/"], connected(node).channel(), fake_clock(node.clock)
    vhost.bind("amq.fanout", vhost.declare_queue("q"), "", Table.EMPTY)
    for number in range(5):
        ch.exchange(f"x{number}", "fanout", durable=True, arguments={"x-delayed-exchange": True})
        ch.bind_exchange("amq.fanout", f"x{number}")
        ch.publish(f"x{number}", "", b"%d" % number, {"headers": {"x-delay": 10}, "delivery_mode": 2})
    held: list[int] = []
    read = exchange_host.ExchangeHost.read

    def counted(host: exchange_host.ExchangeHost, ids: list[int]) -> list[Message | None]:
        held.append(vhost.ledger.readings.held_bytes)
        return read(host, ids)

    monkeypatch.setattr(exchange_host.ExchangeHost, "read", counted)
    clock.run_next(clock.now_ms() + 10)
    if event == "delete":
        vhost.delete_exchange("x3")
    elif event == "stop":
        assert node.finish()
    clock.advance(1000)
    assert sorted(ch.drain("q")) == [b"%d" % number for number in range(5) if event != "delete" or number != 3]
    assert max(held) <= long_routes.LIMIT_BYTES and not vhost.ledger.readings.held_bytes
