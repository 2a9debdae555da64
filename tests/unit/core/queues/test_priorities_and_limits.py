"""A queue with priorities, deadlines and limits, compared with a list; publishing to several of these together."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.clock import fake_clock
from tests.support.hypothesis_settings import examples
from tests.support.queues import Delivery, NoVHost, Taker, new_queue
from tests.support.session import SlowJournal, connected, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.messages.message_state import MessageState
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.traffic_log import MADE
from warren.broker.core.vhost.vhost import VHost

HIGHEST = 3


class Entry:
    """A message in the model. Entries compare by their positions in the queue."""

    def __init__(self, number: int, level: int, deadline_ms: int, instant: bool) -> None:
        self.number = number
        self.location = (-level, number)
        self.deadline_ms = deadline_ms
        self.instant = instant


class RulesMachine(RuleBasedStateMachine):
    """Messages are published with and without priority and expiration, taken, returned and acknowledged."""

    @initialize(limit=st.sampled_from([0, 3, 10]), ttl_ms=st.sampled_from([0, 50]))
    def declare(self, limit: int, ttl_ms: int) -> None:
        arguments: dict[str, object] = {"x-max-priority": HIGHEST, "x-dead-letter-exchange": "dlx"}
        if limit:
            arguments["x-max-length"] = limit
        if ttl_ms:
            arguments["x-message-ttl"] = ttl_ms
        self.limit, self.ttl_ms = limit, ttl_ms
        self.queue: Queue = new_queue(arguments=Table.of(arguments))
        assert isinstance(self.queue.host, NoVHost)
        self.host, self.clock = self.queue.host, fake_clock(self.queue.host.clock)
        self.ready: list[Entry] = []
        self.out: dict[int, tuple[Entry, int, Message]] = {}
        self.dead: list[tuple[int, str]] = []
        self.log: list[Delivery] = []
        self.taker = Taker("c", self.queue, self.log, False, 0, 0)
        self.queue.add_consumer(self.taker)
        self.numbers = 0
        self.known: dict[int, Entry] = {}

    @rule(priority=st.none() | st.integers(0, 5), ttl_ms=st.none() | st.sampled_from([0, 20, 100]), size=st.just(8))
    def publish(self, priority: int | None, ttl_ms: int | None, size: int) -> None:
        self.settle_time()
        number = self.numbers = self.numbers + 1
        properties = Properties(priority=priority, delivery_mode=2)
        message = framed(RoutingAddress("", "q"), properties, number.to_bytes(size, "big"))
        if ttl_ms is not None:
            message.state = MessageState(ttl_ms)
        self.queue.accept([message], MADE, False)
        self.host.pump()
        shortest = min([ttl for ttl in (ttl_ms, self.ttl_ms or None) if ttl is not None], default=-1)
        deadline_ms = self.clock.now_ms() + shortest if shortest >= 0 else 0
        entry = self.known[number] = Entry(number, min(priority or 0, HIGHEST), deadline_ms, not shortest)
        self.ready.append(entry)
        self.ready.sort(key=lambda each: each.location)
        self.model_pump(fresh=entry)

    @rule(count=st.integers(1, 4))
    def credit(self, count: int) -> None:
        self.settle_time()
        self.taker.credit += count
        self.queue.wake(self.taker)
        self.queue.schedule_pump()
        self.host.pump()
        self.model_pump()

    @precondition(lambda self: self.out)
    @rule(data=st.data(), back=st.booleans())
    def settle(self, data: st.DataObject, back: bool) -> None:
        self.settle_time()
        number = data.draw(st.sampled_from(sorted(self.out)))
        entry, position, message = self.out.pop(number)
        if back:
            self.queue.requeue(position, message)
            self.ready.append(entry)
            self.ready.sort(key=lambda each: each.location)
        else:
            self.queue.settle([message])
        self.host.pump()
        self.model_pump()

    @rule(ms=st.sampled_from([1, 10, 30, 80]))
    def wait(self, ms: int) -> None:
        end_ms = self.clock.now_ms() + ms
        for now_ms in range(self.clock.now_ms() + 1, end_ms + 1):
            self.clock.advance(1)
            assert self.clock.now_ms() == now_ms
            self.model_pump()

    def settle_time(self) -> None:
        self.log.clear()

    def fronts(self) -> list[Entry]:
        """Return the first message of each priority; only these expire."""
        seen: dict[int, Entry] = {}
        for entry in self.ready:
            seen.setdefault(entry.location[0], entry)
        return list(seen.values())

    def model_pump(self, fresh: Entry | None = None) -> None:
        """Expire, deliver and drop as the queue just did. `fresh` is delivered even if its TTL is 0."""
        now_ms = self.clock.now_ms()
        taken = iter(list(self.log))
        self.log.clear()
        while True:
            due = [each for each in self.fronts() if each is not fresh and 0 < each.deadline_ms <= now_ms]
            for entry in due:
                self.ready.remove(entry)
                self.dead.append((entry.number, "expired"))
            if due:
                continue
            delivery = next(taken, None)
            if delivery is None:
                break
            _, position, message, _ = delivery
            entry = self.known[int.from_bytes(message.body, "big")]
            assert entry is self.ready[0], "the highest priority, then the oldest"
            del self.ready[0]
            self.out[entry.number] = entry, position, message
        while self.limit and len(self.ready) > self.limit:
            self.dead.append((self.ready.pop(0).number, "maxlen"))
        while due := [each for each in self.fronts() if 0 < each.deadline_ms <= now_ms]:
            for entry in due:
                self.ready.remove(entry)
                self.dead.append((entry.number, "expired"))

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.queue.ready == len(self.ready) and self.queue.unacked == len(self.out)
        assert self.queue.ready_bytes == 8 * len(self.ready)
        assert not (self.taker.credit and self.ready), "a consumer with room is served"
        dead = [(int.from_bytes(message.body, "big"), reason) for message, reason in self.host.dead]
        # A message with a TTL of 0 that is also beyond the limit is dropped for either reason.
        zero = {number for number, entry in self.known.items() if self.limit and entry.instant}
        assert sorted((number, reason)[: 1 if number in zero else 2] for number, reason in dead) == sorted(
            (number, reason)[: 1 if number in zero else 2] for number, reason in self.dead
        )


TestRulesAgainstTheirModel = RulesMachine.TestCase
TestRulesAgainstTheirModel.settings = examples(60)


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
    vhost.pump()
    fake_clock(vhost.clock).advance(1001)
    assert [queue.ready for queue in (*plain, timed)] == [100] * 10 + [0]


def test_a_message_that_one_queue_of_a_route_rejects_reaches_the_others() -> None:
    vhost = vhost_with(SlowJournal())
    plain = declared(vhost, "plain")
    full = declared(vhost, "full", max_length=1, overflow="reject-publish")
    receipt = vhost.enqueue(persistent(3), 12, True, (plain, full))
    assert receipt.stored and receipt.refused == {1, 2}
    assert (plain.ready, full.ready) == (3, 1)


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
    vhost.pump()
    fake_clock(vhost.clock).advance(1001)
    assert not any(queue.ready for queue in queues)
