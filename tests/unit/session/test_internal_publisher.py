"""The internal publisher: its messages are treated like those of clients."""

import random
from collections.abc import Callable, Container, Iterator
from typing import Any

import pytest

from tests.support.amqp_client import Channel
from tests.support.clock import FakeClock, fake_clock
from tests.support.session import SlowJournal, connected, dial, new_node
from warren.broker.amqp.errors import AccessRefused, Invalid, NotFound, SyntaxFault
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import content_frames
from warren.broker.amqp.properties import Properties
from warren.broker.core.access.users import INTERNAL_NAME
from warren.broker.core.exchanges.exchange_context import ExchangeContext
from warren.broker.core.exchanges.exchange_type import ExchangeType, UpstreamExchange
from warren.broker.core.exchanges.router import Route
from warren.broker.core.messages.binding import Destination
from warren.broker.core.messages.message import Message
from warren.broker.core.node.node import Node
from warren.broker.core.queues.flow_control import HOLD_ABOVE
from warren.broker.core.queues.route_target import ACCEPTED, DURABLE, EnqueueResult, RouteTarget
from warren.broker.core.queues.traffic_log import Origin, TrafficLog
from warren.broker.core.vhost.tracer import Tracer
from warren.broker.session.internal_publisher import Content, InternalPublisher, PublishResult
from warren.broker.session.methods import publish
from warren.broker.session.publisher_throttle import HOLD_MS
from warren.broker.session.settings import Settings

NAME = "Federation link (upstream: up, policy: p)"


class Scenario:
    """A node with a queue `q`, an internal publisher, and the functions to call at the end of the turn."""

    def __init__(self, **settings: Any) -> None:
        self.journal = SlowJournal()
        self.node: Node = new_node(self.journal)
        self.soon: list[Callable[[], None]] = []
        self.commits = 0
        self.released = 0
        self.channel: Channel = connected(self.node).channel(1)
        self.channel.declare("q", durable=True)
        self.vhost = self.node.vhosts["/"]
        self.inflow = InternalPublisher(
            self.node, Settings(Table.EMPTY, **settings), self.vhost, NAME, self._report, self.soon.append, self._commit
        )
        self.inflow.on_release = self._release

    def _report(self, event: str, level: str, fields: dict[str, object]) -> None: ...

    def _commit(self) -> None:
        self.commits += 1

    def _release(self) -> None:
        self.released += 1

    def turn(self) -> None:
        """Run the functions of the end of the turn."""
        while self.soon:
            self.soon.pop(0)()

    def messages(self, queue: str = "q") -> list[Message]:
        """Take and return the ready messages of a queue."""
        taken = []
        while (found := self.vhost.queues[queue].get(True)) is not None:
            taken.append(found[1])
        return taken


@pytest.fixture
def scenario() -> Iterator[Scenario]:
    scenario = Scenario()
    yield scenario
    scenario.inflow.close()


def content(body: bytes = b"body", channel: int = 3, cut: int = 0, **properties: Any) -> Content:
    """Return a content as frames of a channel, with body frames of `cut` bytes or a single one."""
    whole = content_frames(channel, b"\x00\x00", body)[len(content_frames(channel, b"\x00\x00", b"")) :]
    if cut:
        pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
        whole = b"".join(
            b"\x03" + channel.to_bytes(2, "big") + len(piece).to_bytes(4, "big") + piece + b"\xce" for piece in pieces
        )
    return Properties(**properties).encode(), len(body), whole


def test_contents_arrive_in_order_with_their_properties_and_bodies(scenario: Scenario) -> None:
    contents = [content(b"%d" % number, correlation_id=f"{number}") for number in range(3)]
    contents += [content(b"long" * 3, cut=5), content(b""), content(b"other channel", channel=9)]
    taken = scenario.inflow.publish("", "q", contents)
    assert (taken.ticket, taken.refused, taken.invalid) == (0, frozenset(), {})
    messages = scenario.messages()
    assert [message.body for message in messages] == [b"0", b"1", b"2", b"long" * 3, b"", b"other channel"]
    assert [message.property_bytes for message in messages] == [raw for raw, _, _ in contents]
    assert {(message.address.exchange, message.address.routing_key) for message in messages} == {("", "q")}


def test_a_consumer_gets_what_was_published_whatever_frames_it_can_take(scenario: Scenario) -> None:
    small = dial(scenario.node).open(frame_max=4096).channel(1)
    small.declare("small")
    small.consume("small", no_ack=True)
    body = bytes(range(256)) * 64
    scenario.inflow.publish("", "small", [content(body, cut=10_000), content(body), content(b"x", content_type="t")])
    scenario.turn()
    assert [small.delivery().body for _ in range(3)] == [body, body, b"x"]


def test_alike_contents_are_taken_as_one_run(scenario: Scenario) -> None:
    taken = scenario.inflow.publish("", "q", [content(b"%03d" % number) for number in range(500)])
    assert taken.ticket == 0
    assert [message.body for message in scenario.messages()] == [b"%03d" % number for number in range(500)]


def test_it_is_delivered_and_stored_once_at_the_end_of_the_turn(scenario: Scenario) -> None:
    scenario.channel.consume("q", no_ack=True)
    for _ in range(3):
        scenario.inflow.publish("", "q", [content()])
    assert len(scenario.soon) == 1 and not scenario.commits
    scenario.turn()
    assert scenario.channel.delivery().body == b"body"
    assert [scenario.commits, len(scenario.soon)] == [1, 0]


def test_the_ticket_is_due_when_the_journal_has_the_messages(scenario: Scenario) -> None:
    taken = scenario.inflow.publish("", "q", [content(delivery_mode=2), content(delivery_mode=2)])
    assert taken.ticket == scenario.journal.ticket() > 0
    counted = scenario.vhost.statistics.publishing
    assert counted.confirm == 0
    scenario.journal.seal()
    scenario.journal.commit(taken.ticket)
    assert counted.confirm == counted.publish == 2


def test_the_traffic_log_has_confirms_in_order_once_all_before_is_durable(scenario: Scenario) -> None:
    found: list[int] = []

    class Log(TrafficLog):
        def confirmed(self, origin: Origin, first: int, last: int, refused: Container[int]) -> None:
            found.append(last)

    scenario.inflow.publish("", "q", [content()])
    scenario.vhost.traffic_log = Log()
    scenario.inflow.publish("", "q", [content(), content()])
    assert found == [3], "it need not be stored"
    taken = scenario.inflow.publish("", "q", [content(delivery_mode=2)])
    scenario.inflow.publish("", "q", [content()])
    assert found == [3]
    scenario.journal.seal()
    scenario.journal.commit(taken.ticket)
    assert found == [3, 4, 5]


def test_what_a_queue_refuses_is_named(scenario: Scenario) -> None:
    scenario.channel.declare("short", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    taken = scenario.inflow.publish("", "short", [content(b"%d" % number) for number in range(4)])
    assert taken.refused == {2, 3}
    assert [message.body for message in scenario.messages("short")] == [b"0", b"1"]


def test_no_queue_gets_what_another_would_refuse_nor_what_came_behind_it(scenario: Scenario) -> None:
    limits = {"x-max-length-bytes": 5, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "amq.fanout"}
    scenario.channel.declare("short", arguments=limits)
    scenario.channel.declare("dead")
    scenario.channel.bind("dead", "amq.fanout")
    for queue in ("q", "short"):
        scenario.channel.bind(queue, "amq.direct", "k")
    contents = [content(b"1"), content(b"too long"), content(b"3")]
    assert scenario.inflow.publish("amq.direct", "k", contents).refused == {1, 2}
    for queue in ("q", "short"):
        assert [message.body for message in scenario.messages(queue)] == [b"1"]
    scenario.channel.delete("short")
    assert not scenario.inflow.publish("amq.direct", "k", contents[1:]).refused
    assert [message.body for message in scenario.messages()] == [b"too long", b"3"]
    scenario.turn()
    assert scenario.messages("dead") == []


class CountingTracer(Tracer):
    """A tracer that counts what is published."""

    count = 0

    def published(
        self, origin: Origin, message: Message, keys: tuple[str, ...], queues: tuple[RouteTarget, ...]
    ) -> None:
        self.count += 1


@pytest.mark.parametrize("way", ["headers", "CC", "tracer", "deduplicating"])
def test_attempts_by_uncached_routes_give_no_queue_what_another_refuses(scenario: Scenario, way: str) -> None:
    """Messages that are routed one by one are offered to all queues of their route, or to none."""
    channel = scenario.channel
    arguments = {"x-message-deduplication": True, "x-cache-size": 10} if way == "deduplicating" else {}
    channel.exchange("x", "headers" if way == "headers" else "direct", arguments=arguments)
    channel.declare("short", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.bind("q", "x", "k", arguments={"x-match": "all"})
    channel.bind("short", "x", "other" if way == "CC" else "k", arguments={"x-match": "all"})
    tracer = CountingTracer()
    if way == "tracer":
        scenario.vhost.add_tracer(tracer)
    headers: dict[str, Any] = {"CC": ["other"]} if way == "CC" else {}
    contents = [
        content(b"%d" % number, headers=Table.of({**headers, "x-deduplication-header": str(number)}))
        for number in range(3)
    ]
    assert scenario.inflow.publish("x", "k", contents).refused == {1, 2}
    for _ in range(5):
        assert scenario.inflow.publish("x", "k", contents[1:]).refused == {0, 1}
    assert [message.body for message in scenario.messages()] == [b"0"]
    assert len(scenario.messages("short")) == 1
    assert scenario.inflow.publish("x", "k", contents[1:]).refused == {1}
    assert [message.body for message in scenario.messages()] == [b"1"]
    assert tracer.count == (2 if way == "tracer" else 0)


def test_what_no_client_could_publish_is_named_and_the_others_go_on() -> None:
    scenario = Scenario(max_message_size=100)
    contents = [
        content(b"first"),
        content(b"x" * 101),
        content(b"bad", expiration="soon"),
        (b"\x20\x00\xff", 3, content(b"cut")[2]),
        (b"", 3, content(b"cut")[2]),
        content(b"last"),
        content(b"worse", expiration="-1"),
    ]
    taken = scenario.inflow.publish("", "q", contents)
    assert set(taken.invalid) == {1, 2, 3, 4, 6}
    assert "larger than configured max size 100" in taken.invalid[1]
    assert "invalid expiration 'soon'" in taken.invalid[2]
    assert [message.body for message in scenario.messages()] == [b"first", b"last"]


@pytest.mark.parametrize("room, problem", [(1, ""), (3, "PRECONDITION_FAILED - invalid expiration 'soon': no_integer")])
def test_what_is_put_ends_before_what_is_invalid_or_has_no_room(scenario: Scenario, room: int, problem: str) -> None:
    scenario.channel.declare("short", arguments={"x-max-length": room})
    contents = [content(b"0"), content(b"1"), content(b"bad", expiration="soon"), content(b"3")]
    taken = scenario.inflow.put(scenario.vhost.queues["short"], "", "short", contents)
    assert (taken.count, taken.invalid, taken.problem) == (4, {}, problem)
    assert taken.refused == frozenset(range(min(room, 2), 4))
    assert [message.body for message in scenario.messages("short")] == [b"0", b"1"][:room]


def test_the_problem_of_what_is_put_is_not_that_of_a_later_content(scenario: Scenario) -> None:
    scenario.channel.declare("short", arguments={"x-max-length": 1})
    contents = [content(b"0"), content(b"1"), (b"", 3, content(b"cut")[2])]
    taken = scenario.inflow.put(scenario.vhost.queues["short"], "", "short", contents)
    assert taken.refused == {1, 2} and not taken.problem, "the first of them has no room"


def test_indexes_of_refusals_count_what_is_invalid_before_them(scenario: Scenario) -> None:
    scenario.channel.declare("short", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    bad = content(b"bad", expiration="soon")
    taken = scenario.inflow.publish("", "short", [bad, content(b"0"), bad, content(b"1"), bad, content(b"2")])
    assert sorted(taken.invalid) == [0]
    assert sorted(taken.refused) == [2, 3, 4, 5]


def test_no_queue_gets_what_is_behind_a_content_whose_copy_is_refused(scenario: Scenario) -> None:
    scenario.channel.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    copied = content(b"0", headers=Table.of({"CC": ["full"]}))
    assert scenario.inflow.publish("", "q", [copied, content(b"1"), content(b"2", priority=1)]).refused == {0, 1, 2}
    assert not scenario.messages()


QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "head": {"x-max-length": 3},
    "full": {"x-max-length": 4, "x-overflow": "reject-publish"},
    "short-lived": {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "plain"},
    "priorities": {"x-max-priority": 3},
}
WORDS = ("a", "b", "c", "d")


def any_content(dice: random.Random) -> Content:
    """Return a content of any kind: plain, invalid, with more keys, priorities or a time to live, large or empty."""
    kinds: list[dict[str, Any]] = [
        *[{}, {}, {}, {"delivery_mode": 2}, {"priority": dice.randrange(5)}, {"expiration": "0"}],
        *[{"expiration": "soon"}, {"headers": Table.of({"CC": ["a.b", "plain"]})}, {"headers": Table.of({"BCC": 1})}],
    ]
    body = b"%d " % dice.getrandbits(32) + bytes(dice.choice((0, 0, 10, 2_000)))
    return content(body, dice.choice((3, 3, 4)), dice.choice((0, 0, 7)), **dice.choice(kinds))


def published(seed: int, each: bool) -> tuple[object, ...]:
    """Publish random contents with random keys, until one is refused: together, or one by one."""
    dice = random.Random(seed)
    scenario = Scenario(max_message_size=1_500)
    if dice.random() < 0.2:
        scenario.vhost.add_tracer(CountingTracer())
    scenario.channel.exchange("x", dice.choice(("topic", "topic", "direct")))
    scenario.channel.exchange("y", "headers")
    for name, arguments in QUEUES.items():
        scenario.channel.declare(name, arguments=arguments)
        if name != "full" or dice.random() < 0.5:
            for _ in range(dice.randrange(3)):
                pattern = ".".join(dice.choices((*WORDS, "*", "#"), k=2))
                scenario.channel.bind(name, dice.choice(("x", "x", "x", "y")), pattern)
    if dice.random() < 0.2:
        scenario.vhost.bind("x", scenario.vhost.exchange("y"), "#", Table.EMPTY)
    keys = [".".join(dice.choices(WORDS, k=2)) for _ in range(40)]
    contents = [any_content(dice) for _ in keys]
    result = PublishResult()
    while result.count < len(keys) and not result.refused:
        at = result.count
        if each:
            added = scenario.inflow.publish_each("x", keys[at:], contents[at:])
        else:
            added = scenario.inflow.publish("x", keys[at], contents[at : at + 1])
        if not added.count:  # the turn has no more time
            scenario.turn()
        result.add(added)
    scenario.turn()
    queues = {
        name: [(one.body, one.address.routing_key, one.property_bytes) for one in scenario.messages(name)]
        for name in QUEUES
    }
    confirmed = scenario.vhost.statistics.publishing.confirm
    end = min(result.refused, default=result.count)
    invalid = sorted(item for item in result.invalid.items() if item[0] < end)
    return end, invalid, queues, confirmed


@pytest.mark.parametrize("seeds", [range(at, at + 25) for at in range(0, 100, 25)], ids=str)
def test_contents_with_keys_of_their_own_fare_as_if_published_one_by_one(seeds: range) -> None:
    for seed in seeds:
        assert published(seed, each=True) == published(seed, each=False), seed


@pytest.mark.pure("replaces a function, which compiled callers do not look up")
def test_contents_with_keys_of_their_own_are_enqueued_together(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario.channel.exchange("x", "topic")
    scenario.channel.bind("q", "x", "#")
    keys = [f"k.{number % 50}" for number in range(500)]
    calls: list[int] = []
    enqueue = publish.enqueue

    def counted(channel: Channel, route: Route, messages: list[Message], *rest: Any) -> EnqueueResult:
        calls.append(len(messages))
        return enqueue(channel, route, messages, *rest)

    monkeypatch.setattr(publish, "enqueue", counted)
    taken = scenario.inflow.publish_each("x", keys, [content(b"%d" % number) for number in range(500)])
    assert (taken.count, calls) == (500, [500])
    assert [message.address.routing_key for message in scenario.messages()] == keys


def test_what_is_put_with_addresses_of_its_own_keeps_them_and_ends_where_there_is_no_room(scenario: Scenario) -> None:
    scenario.channel.declare("short", arguments={"x-max-length": 3})
    addresses = [(f"x{number // 2}", f"k{number}") for number in range(5)]
    contents = [content(b"%d" % number) for number in range(5)]
    for queue, kept in (("q", 5), ("short", 3)):
        taken = scenario.inflow.put_each(scenario.vhost.queues[queue], addresses, contents)
        assert (taken.count, taken.refused) == (5, frozenset(range(kept, 5)))
        found = [(one.address.exchange, one.address.routing_key) for one in scenario.messages(queue)]
        assert found == addresses[:kept]


def test_a_missing_exchange_takes_nothing(scenario: Scenario) -> None:
    with pytest.raises(NotFound, match="no exchange 'gone'"):
        scenario.inflow.publish("gone", "q", [content()])
    with pytest.raises(NotFound, match="no exchange 'gone'"):
        scenario.inflow.publish_each("gone", ["q", "r"], [content(), content()])
    with pytest.raises(AccessRefused, match="internal"):
        scenario.inflow.publish("amq.rabbitmq.trace", "q", [content()])
    with pytest.raises(Invalid):
        scenario.inflow.publish("", "k" * 256, [content()])
    assert not scenario.soon


def test_routing_looks_at_carbon_copies_bindings_and_time_to_live(scenario: Scenario) -> None:
    scenario.channel.declare("copy")
    scenario.channel.bind("copy", "amq.topic", "a.*")
    headers = Table.of({"CC": ["a.b"]})
    scenario.inflow.publish("amq.topic", "other", [content(headers=headers)])
    scenario.inflow.publish("amq.topic", "a.c", [content(expiration="10")])
    scenario.turn()
    assert scenario.vhost.queues["copy"].ready == 2
    assert isinstance(scenario.node.clock, FakeClock)
    scenario.node.clock.advance(11)
    assert len(scenario.messages("copy")) == 1


def test_a_route_is_forgotten_when_a_binding_changes(scenario: Scenario) -> None:
    scenario.inflow.publish("amq.direct", "k", [content(b"nobody's")])
    scenario.channel.bind("q", "amq.direct", "k")
    scenario.inflow.publish("amq.direct", "k", [content(b"ours")])
    assert [message.body for message in scenario.messages()] == [b"ours"]
    assert scenario.vhost.statistics.publishing.drop_unroutable == 1


def test_any_user_id_is_taken_and_a_user_with_the_internal_users_name_gains_nothing(scenario: Scenario) -> None:
    taken = scenario.inflow.publish("amq.direct", "q", [content(user_id="somebody")])
    assert not taken.invalid
    assert INTERNAL_NAME not in scenario.vhost.routes


def test_the_firehose_names_the_link(scenario: Scenario) -> None:
    scenario.channel.declare("traced")
    scenario.channel.bind("traced", "amq.rabbitmq.trace", "publish.#")
    scenario.node.set_tracing("/", True)
    scenario.inflow.publish("", "q", [content()])
    [copy] = scenario.messages("traced")
    assert copy.headers.text("connection") == NAME


@pytest.mark.parametrize("drains", [True, False])
def test_consumers_that_have_too_much_hold_it_until_they_drain_or_for_a_while(scenario: Scenario, drains: bool) -> None:
    scenario.channel.declare("busy")
    scenario.channel.qos(1)
    scenario.channel.consume("busy")
    scenario.inflow.publish("", "busy", [content() for _ in range(HOLD_ABOVE + 10)])
    assert scenario.inflow.held and not scenario.released
    if drains:
        scenario.vhost.queues["busy"].purge()
    else:
        fake_clock(scenario.node.clock).advance(HOLD_MS + 1)
    assert not scenario.inflow.held and scenario.released == 1


def test_it_is_held_while_the_journal_is_behind(scenario: Scenario) -> None:
    scenario.journal.much = True
    taken = scenario.inflow.publish("", "q", [content(delivery_mode=2)])
    assert scenario.inflow.held
    scenario.journal.much = False
    scenario.journal.seal()
    scenario.journal.commit(taken.ticket)
    assert not scenario.inflow.held and scenario.released == 1


# What a type takes


class Keeper(ExchangeType):
    """An exchange type that keeps federated messages; their bodies decide the result."""

    def on_created(self, context: ExchangeContext) -> None:
        self.kept: list[Message] = []

    def on_federated(self, message: Message, upstream: UpstreamExchange) -> EnqueueResult:
        if message.body == b"bad":
            raise SyntaxFault("bad headers")
        self.kept.append(message)
        return {b"stored": DURABLE, b"refused": EnqueueResult(False, frozenset({0}))}.get(message.body, ACCEPTED)

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return []


def test_where_it_brings_the_type_is_given_what_is_published_and_says_what_became_of_it(scenario: Scenario) -> None:
    scenario.node.registry.register("x-keeper", Keeper)
    type_ = scenario.vhost.declare_exchange("k", "x-keeper").type
    assert isinstance(type_, Keeper)
    some = [content(body, delivery_mode=2) for body in (b"plain", b"bad", b"refused", b"plain")]
    scenario.inflow.publish("k", "key", some)
    assert type_.kept == []
    scenario.inflow.brings_from = UpstreamExchange("a", "/", "k")
    taken = scenario.inflow.publish("k", "key", [*some, (b"\xff", 0, b"")])
    assert [(one.body, one.persistent, one.address.routing_key) for one in type_.kept] == [
        (b"plain", True, "key"),
        (b"refused", True, "key"),
        (b"plain", True, "key"),
    ]
    assert (taken.ticket, taken.refused, sorted(taken.invalid)) == (0, {2}, [1, 4])
    scenario.channel.publish("", "q", b"", {"delivery_mode": 2})
    scenario.channel.sync()
    assert (
        scenario.inflow.publish("k", "key", [content(b"stored", delivery_mode=2)]).ticket == scenario.journal.ticket()
    )
    scenario.vhost.delete_exchange("k")
    with pytest.raises(NotFound):
        scenario.inflow.publish("k", "key", some)
