"""Delayed messages: which are delayed and for how long, their order, and their storage in the journal."""

import errno
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from pamqp.commands import Exchange, Queue

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import MemoryMetadata
from tests.support.amqp_client import Channel
from tests.support.clock import FakeClock, fake_clock
from tests.support.queues import routed
from tests.support.session import SlowJournal, connected, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.delayed import DROP_COST, DROP_SLICE, RETRY_MS, DelayedExchange
from warren.broker.core.exchanges.exchange_context import RecoveredMessages
from warren.broker.core.jobs.scheduler import TURN_COST, Job, Scheduler
from warren.broker.core.messages.journal_port import RecoveredQueue
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues.route_target import RouteTarget
from warren.broker.core.vhost.vhost import VHost
from warren.broker.storage.journal import Journal

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata

ON = {"x-delayed-exchange": True}
LONGEST_MS = (1 << 32) - 1


class PromptJournal(SlowJournal):
    """A journal that is durable as soon as it is asked."""

    def ticket(self) -> int:
        self.seal()
        self.commit(self.sealed)
        return self.durable


@pytest.fixture(params=["memory", "journal"])
def node(request: pytest.FixtureRequest) -> Node:
    return new_node(PromptJournal() if request.param == "journal" else None)


@pytest.fixture
def channel(node: Node) -> Channel:
    channel = connected(node).channel()
    channel.exchange("x", "direct", arguments=ON)
    channel.declare("q")
    channel.bind("q", "x", "k")
    return channel


def send(channel: Channel, delay: object, body: bytes = b"", key: str = "k", **properties: Any) -> None:
    headers = {**properties.pop("headers", {}), **({"x-delay": delay} if delay is not None else {})}
    channel.publish("x", key, body, {"headers": headers, **properties})


def pass_ms(node: Node, ms: int) -> None:
    fake_clock(node.clock).advance(ms)


def held(node: Node) -> int:
    type_ = node.vhosts["/"].exchanges["x"].type
    assert isinstance(type_, DelayedExchange)
    return type_.messages_delayed


def test_a_message_is_delivered_when_it_is_due_and_no_earlier(node: Node, channel: Channel) -> None:
    send(channel, 1000, b"later")
    channel.nothing("q")
    pass_ms(node, 999)
    assert (channel.count("q"), held(node)) == (0, 1)
    pass_ms(node, 1)
    assert (channel.drain("q"), held(node)) == ([b"later"], 0)


@pytest.mark.parametrize(
    "delay", [None, 0, -5, "", "soon", "-5", 1.5, True, [100], LONGEST_MS + 1, str(LONGEST_MS + 1)]
)
def test_a_message_without_a_delay_is_routed_at_once_and_unchanged(channel: Channel, delay: object) -> None:
    send(channel, delay, b"now", headers={"other": "x"})
    got = channel.get("q")
    assert got is not None and got.headers.get("x-delay") == delay


@pytest.mark.parametrize(
    ("kind", "value", "left"),
    [("b", 100, ("b", -100)), ("B", 200, ("l", -200)), ("s", 200, ("s", -200)), ("u", 200, ("l", -200)),
     ("I", 200, ("I", -200)), ("i", 200, ("l", -200)), ("l", 200, ("l", -200)), ("S", b"200", ("S", b"-200"))],
)  # fmt: skip
def test_the_delay_may_be_of_any_type_of_integer_or_text_and_is_negated(kind: str, value: Any, left: Any) -> None:
    node = new_node()
    vhost = node.vhosts["/"]
    vhost.declare_exchange("x", "fanout", arguments=Table.of(ON))
    queue = vhost.declare_queue("q")
    vhost.bind("x", queue, "", Table.EMPTY)
    headers = Table(Table.encode_items([("a", ("I", 1)), ("x-delay", (kind, value)), ("b", ("I", 2))]))
    publish(vhost, framed(RoutingAddress("x", ""), Properties(headers=headers, message_id="m"), b"body"))
    assert queue.ready == 0
    pass_ms(node, 200)
    got = queue.get(True)
    assert got is not None
    assert got[1].headers.get("x-delay") == left and len(got[1].headers) == 3
    assert (got[1].properties.message_id, got[1].body, got[1].address.exchange) == ("m", b"body", "x")


def publish(vhost: VHost, message: Message) -> bool:
    """Publish, and return whether the confirm waits for the journal."""
    queues = routed(vhost, vhost.exchanges["x"], (message.address.routing_key,), message).targets
    return vhost.enqueue([message], message.body_bytes, message.persistent, queues).stored


def test_messages_are_released_by_deadline_and_then_in_order(node: Node, channel: Channel) -> None:
    for delay, body in ((300, b"d"), (100, b"a"), (200, b"b"), (300, b"e"), (200, b"c")):
        send(channel, delay, body)
    channel.sync()
    pass_ms(node, 100)
    send(channel, 200, b"f")
    channel.sync()
    pass_ms(node, 1000)
    assert channel.drain("q") == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_thousands_with_the_same_deadline_are_released_in_order_and_in_slices(node: Node, channel: Channel) -> None:
    bodies = [b"%d" % number for number in range(1800)]
    for body in bodies:
        send(channel, 100, body)
    channel.sync()
    pass_ms(node, 100)
    assert channel.drain("q") == bodies


def test_a_due_message_is_routed_by_the_bindings_at_that_time(node: Node, channel: Channel) -> None:
    channel.declare("late")
    send(channel, 100, b"x", key="new")
    send(channel, 100, b"y", key="k")
    channel.sync()
    channel.bind("late", "x", "new")
    channel.call(Queue.Unbind, queue="q", exchange="x", routing_key="k")
    pass_ms(node, 100)
    assert channel.drain("late") == [b"x"]
    assert channel.drain("q") == []


def test_cc_applies_to_a_due_message(node: Node, channel: Channel) -> None:
    channel.declare("copy")
    channel.bind("copy", "x", "cc")
    send(channel, 100, b"x", key="k", headers={"CC": ["cc"]})
    channel.sync()
    pass_ms(node, 100)
    assert channel.drain("q") == channel.drain("copy") == [b"x"]


def test_an_unroutable_due_message_goes_to_the_alternate_exchange_or_is_dropped(node: Node) -> None:
    channel = connected(node).channel()
    channel.declare("rest")
    channel.bind("rest", "amq.fanout")
    for alternate in ({}, {"alternate-exchange": "amq.fanout"}):
        channel.exchange("x", "direct", arguments={**ON, **alternate})
        send(channel, 100, b"lost" if not alternate else b"saved")
        channel.sync()
        pass_ms(node, 100)
        channel.call(Exchange.Delete, exchange="x")
    assert channel.drain("rest") == [b"saved"]


def test_a_due_message_is_routed_through_exchanges_and_delayed_once(node: Node, channel: Channel) -> None:
    channel.exchange("y", "fanout", arguments=ON)
    channel.call(Exchange.Bind, source="x", destination="y", routing_key="k")
    channel.call(Exchange.Bind, source="y", destination="x", routing_key="k")
    channel.declare("end")
    channel.bind("end", "y")
    send(channel, 100, b"x")
    channel.sync()
    pass_ms(node, 100)
    assert channel.drain("q") == channel.drain("end") == [b"x"]


def test_a_message_from_another_exchange_is_delayed(node: Node, channel: Channel) -> None:
    channel.call(Exchange.Bind, source="amq.fanout", destination="x")
    channel.declare("at once")
    channel.bind("at once", "amq.fanout")
    channel.publish("amq.fanout", "k", b"x", {"headers": {"x-delay": 100}, "delivery_mode": 2})
    assert channel.drain("at once") == [b"x"] and channel.drain("q") == []
    pass_ms(node, 100)
    assert channel.drain("q") == [b"x"]


def test_a_delayed_message_is_neither_returned_nor_forgotten_by_a_transaction(node: Node, channel: Channel) -> None:
    channel.publish("x", "nobody", b"x", {"headers": {"x-delay": 10}}, mandatory=True)
    channel.nothing()
    channel.transact()
    send(channel, 100, b"back")
    channel.rollback()
    send(channel, 100, b"x")
    assert held(node) == 1
    channel.commit()
    assert held(node) == 2
    pass_ms(node, 100)
    assert channel.drain("q") == [b"x"]


def test_the_time_to_live_begins_when_it_is_due(node: Node, channel: Channel) -> None:
    send(channel, 1000, b"x", expiration="50")
    channel.sync()
    pass_ms(node, 1049)
    assert channel.count("q") == 1
    pass_ms(node, 1)
    assert channel.count("q") == 0


def test_a_duplicate_is_dropped_when_it_is_published_and_the_original_is_not_when_it_is_due(node: Node) -> None:
    channel = connected(node).channel()
    channel.exchange("x", "fanout", arguments={**ON, "x-message-deduplication": True})
    channel.declare("q")
    channel.bind("q", "x")
    for body in (b"first", b"second"):
        send(channel, 100, body, headers={"x-deduplication-header": "same"})
    channel.sync()
    pass_ms(node, 100)
    assert channel.drain("q") == [b"first"]


def test_a_redeclaration_must_have_the_same_arguments(node: Node, channel: Channel) -> None:
    channel.exchange("x", "direct", arguments=ON)
    connected(node).channel().refused(406, Exchange.Declare, exchange="x", exchange_type="direct", arguments={})
    connected(node).channel().refused(
        406, Exchange.Declare, exchange="y", exchange_type="direct", arguments={"x-delayed-exchange": 1}
    )


# What is stored


@pytest.fixture
def journal() -> SlowJournal:
    return SlowJournal()


def durable(journal: SlowJournal) -> tuple[Node, Channel]:
    node = new_node(journal)
    channel = connected(node).channel()
    channel.exchange("x", "fanout", durable=True, arguments=ON)
    channel.declare("q", durable=True)
    channel.bind("q", "x")
    channel.confirm()
    return node, channel


def test_a_persistent_message_is_confirmed_when_it_is_stored_and_a_transient_one_at_once(journal: SlowJournal) -> None:
    _, channel = durable(journal)
    send(channel, 100)
    assert channel.confirms([1]) == ({1}, set())
    send(channel, 100, delivery_mode=2)
    channel.nothing()
    journal.commit(journal.ticket())
    assert channel.confirms([2]) == ({2}, set())


def test_a_due_message_is_stored_for_the_queue_in_place_of_the_exchange(journal: SlowJournal) -> None:
    node, channel = durable(journal)
    number = node.vhosts["/"].exchanges["x"].number
    for mode in (1, 2):
        send(channel, 100, b"%d" % mode, delivery_mode=mode)
    channel.sync()
    assert [queue for queue, _ in journal.live] == [number] and len(journal.loose) == 1
    pass_ms(node, 100)
    assert [queue for queue, _ in journal.live] == [node.vhosts["/"].queues["q"].number] and not journal.loose
    assert channel.drain("q") == [b"1", b"2"]
    channel.sync()
    assert not journal.live


@pytest.mark.parametrize("slice_", [1, 10])
def test_a_deleted_exchange_leaves_no_message_and_no_timer(
    journal: SlowJournal, slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.broker.core.exchanges.delayed.DROP_SLICE", slice_)
    node, channel = durable(journal)
    for mode in (1, 2, 1, 2):
        send(channel, 100, delivery_mode=mode)
    channel.send(Exchange.Delete, exchange="x")
    pass_ms(node, 0)
    assert not journal.live and not journal.loose and not journal.left
    assert all(timer.cancelled for timer in fake_clock(node.clock)._timers)


def test_very_many_messages_of_a_deleted_exchange_are_dropped_in_turns(journal: SlowJournal) -> None:
    """A client may delete very many such exchanges together."""
    node, channel = durable(journal)
    for _ in range(2_000):
        send(channel, 100, delivery_mode=2)
    type_ = node.vhosts["/"].exchanges["x"].type
    assert isinstance(type_, DelayedExchange)
    node.vhosts["/"].delete_exchange("x")
    assert 2_000 - TURN_COST // DROP_COST - DROP_SLICE <= type_.messages_delayed < 2_000
    pass_ms(node, 0)
    assert not type_.messages_delayed and not journal.live and not journal.loose


def test_a_plain_exchange_has_no_number(journal: SlowJournal) -> None:
    node = new_node(journal)
    for name, arguments in (("plain", {}), ("once", {"x-message-deduplication": True})):
        node.vhosts["/"].declare_exchange(name, "fanout", durable=True, arguments=Table.of(arguments))
        assert node.vhosts["/"].exchanges[name].number == 0
    node.vhosts["/"].declare_exchange("gone", "fanout", arguments=Table.of(ON))
    assert node.vhosts["/"].exchanges["gone"].number == 0


class Restarting:
    """A broker on the real journal, whose exchange `x` and queue `q` are durable and have the numbers 1 and 2."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.clock = FakeClock()
        self.start()

    def start(self) -> None:
        self.journal = Journal(self.disk, cast("Metadata", MemoryMetadata()), 4096)
        self.recovered = self.journal.recover({1, 2})
        node = new_node(self.journal)
        scheduler = Scheduler(self.clock, self.journal)
        self.failures: list[object] = []
        scheduler.report = lambda event, level, fields: self.failures.append(fields["exc_info"])
        self.vhost = VHost("/", replace(node.services, clock=self.clock, scheduler=scheduler))
        exchange = self.vhost.declare_exchange("x", "fanout", durable=True, arguments=Table.of(ON), number=1)
        self.queue = self.vhost.declare_queue("q", durable=True, number=2)
        self.vhost.bind("x", self.queue, "", Table.EMPTY)
        exchange.type.restore(RecoveredMessages(self.recovered.get(1) or RecoveredQueue(), {}))

    def crash(self) -> None:
        self.disk = self.disk.crash()
        self.clock = FakeClock(self.clock.now_ms())
        self.start()

    def send(self, body: bytes, delay_ms: int, mode: int = 2) -> None:
        headers = Table.of({"x-delay": delay_ms})
        publish(self.vhost, framed(RoutingAddress("x", ""), Properties(headers=headers, delivery_mode=mode), body))

    def commit(self) -> None:
        while (batch := self.journal.seal()) is not None:
            batch.write()
            batch.sync()
            self.journal.committed(batch.number)

    def due(self, ms: int) -> list[bytes]:
        """Return the messages that arrived after this time."""
        self.clock.advance(ms)
        bodies = []
        while (got := self.queue.get(True)) is not None:
            bodies.append(got[1].body)
        self.commit()
        return bodies


def test_a_restart_restores_persistent_messages_with_deadline_and_order() -> None:
    broker = Restarting()
    for body, delay_ms in ((b"c", 3000), (b"a", 1000), (b"b", 1000), (b"d", 3000)):
        broker.send(body, delay_ms)
    broker.send(b"transient", 3000, mode=1)
    broker.commit()
    broker.crash()
    broker.send(b"e", 3000)
    assert broker.due(999) == []
    assert broker.due(1) == [b"a", b"b"]
    broker.crash()
    assert broker.due(2000) == [b"c", b"d", b"e"]
    broker.crash()
    assert broker.due(10_000) == []


def test_restored_messages_are_dropped_with_their_exchange_and_no_other_is() -> None:
    broker = Restarting()
    for body, delay_ms in ((b"a", 3000), (b"stays", 0), (b"b", 1000), (b"c", 2000)):
        broker.send(body, delay_ms)
    broker.commit()
    broker.crash()
    broker.vhost.delete_exchange("x")
    broker.clock.advance(0)
    assert sum(segment.live for segment in broker.journal.segments.values()) == 1


def compacted(broker: Restarting) -> list[bytes]:
    """Have compaction move those of 400 messages that wait for ten seconds; return their bodies."""
    dice = Random(7)
    kept = []
    for number in range(400):
        body = b"%05d" % number + bytes(100)
        keep = number % 8 == 0
        broker.send(body, 10_000 if keep else dice.randrange(1, 50))
        if keep:
            kept.append(body)
    broker.commit()
    assert len(broker.due(50)) == 350
    for _ in range(200):  # batches, before each of which compaction has a turn
        broker.send(b"", 1)
        broker.due(1)
    assert 1 not in broker.journal.segments
    return kept


def test_messages_that_compaction_has_moved_keep_their_order() -> None:
    broker = Restarting()
    kept = compacted(broker)
    broker.send(b"last", 10_000 - 250)
    broker.commit()
    broker.crash()
    assert broker.due(10_000) == [*kept, b"last"]


def test_a_damaged_message_delays_no_other() -> None:
    broker = Restarting()
    for body in (b"a", b"c", b"b"):
        broker.send(body, 1000)
    broker.commit()
    (name,) = [name for name in broker.disk.names() if name.endswith(".log")]
    data = broker.disk.content(name)
    broker.disk.put(name, data.replace(b"\x00\x00\x00\x01c\xce", b"\x00\x00\x00\x01?\xce"))
    assert broker.due(1000) == [b"a", b"b"]


class Refusal(Exception):
    """The exception of a failing release."""


def test_a_message_whose_release_fails_delays_no_other_and_is_tried_again() -> None:
    broker = Restarting()
    for body in (b"a", b"poison", b"b"):
        broker.send(body, 1000)
    broker.send(b"later", 3000)
    broker.commit()
    type_ = broker.vhost.exchanges["x"].type
    assert isinstance(type_, DelayedExchange) and type_._delay is not None
    release, failing = type_._delay._release, True

    def failing_release(message: Message) -> Job:
        if failing and message.body == b"poison":
            raise Refusal
        return release(message)

    type_._delay._release = failing_release
    assert broker.due(1000) == [b"a", b"b"]
    assert [type(failure) for failure in broker.failures] == [Refusal]
    assert broker.due(2000) == [b"later"]
    assert type_.messages_delayed == 1
    failing = False
    assert broker.due(RETRY_MS) == [b"poison"]
    assert type_.messages_delayed == 0


def test_messages_that_were_moved_and_whose_release_fails_are_dropped_with_their_exchange() -> None:
    broker = Restarting()
    compacted(broker)
    type_ = broker.vhost.exchanges["x"].type
    assert isinstance(type_, DelayedExchange) and type_._delay is not None

    def failing_release(message: Message, targets: tuple[RouteTarget, ...]) -> Job:
        raise Refusal

    type_._delay._release = failing_release
    broker.clock.advance(9_000)
    for number in range(100):
        broker.send(b"stays %d" % number, 0)
    for _ in range(50):
        broker.clock.advance(1_000)
    assert len(broker.failures) >= 50
    assert type_.messages_delayed == 50, "all were read, and none was released"
    broker.vhost.delete_exchange("x")
    broker.clock.advance(0)
    broker.commit()
    stored = [message.id for message in broker.queue.ready_messages.default.fresh]
    assert sum(segment.live for segment in broker.journal.segments.values()) == len(stored) == 100
    broker.crash()
    assert list(broker.recovered[2]) == stored


def test_unreadable_messages_are_tried_again_and_delay_no_other() -> None:
    broker = Restarting()
    for body in (b"a", b"b", b"c"):
        broker.send(body, 1000)
        broker.commit()
    broker.crash()
    broker.send(b"later", 3000)

    def fail(what: str, name: str) -> None:
        if what == "read":
            raise OSError(errno.EIO, "injected", name)

    broker.disk.before = fail
    assert broker.due(1000) == broker.due(2000) == []
    assert any("00000001.log" in line and "offset" in line for line in broker.journal.report)
    broker.disk.before = None
    broker.journal.reader.now_s = lambda: 1e9
    assert broker.due(RETRY_MS) == [b"a", b"b", b"c", b"later"]
