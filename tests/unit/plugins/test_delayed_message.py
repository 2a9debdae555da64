"""x-delayed-message: its inner type without a socket, and its held messages over restarts with one."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pamqp.commands import Exchange
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess
from tests.support.clock import FakeClock
from tests.support.listening_server import ListeningServer
from tests.support.pika_client import channel_at, taken
from tests.support.queues import limit_dead_letters, ready_messages, routed
from tests.support.session import connected, new_node
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.delayed import LOOKS, RETRY_MS, ROOM_MS, Delay
from warren.broker.core.exchanges.router import SEARCH_COST
from warren.broker.core.jobs.long_routes import Place
from warren.broker.core.jobs.scheduler import Job
from warren.broker.core.messages.message import Message, RoutingAddress, framed
from warren.broker.core.node.node import Node
from warren.broker.core.queues.queue import Queue
from warren.broker.core.queues.route_target import EnqueueResult
from warren.broker.core.vhost import emissions
from warren.broker.core.vhost.exchange_host import ExchangeHost
from warren.plugins.exchanges.delayed_message import DelayedMessageExchange
from warren.plugins.exchanges.modulus_hash import ModulusHashExchange
from warren.plugins.exchanges.recent_history import RecentHistoryExchange

HOUR_MS = 3_600_000
PATIENCE_S = 60.0
REFUSED = "Invalid argument, 'x-delayed-type' must be an existing exchange type"


@pytest.fixture
def node() -> Node:
    node = new_node()
    node.registry.register("x-delayed-message", DelayedMessageExchange)
    node.registry.register("x-modulus-hash", ModulusHashExchange)
    node.registry.register("x-recent-history", RecentHistoryExchange)
    return node


def declare(node: Node, **arguments: object) -> None:
    table = Table.of({key.replace("_", "-"): value for key, value in arguments.items()})
    node.vhosts["/"].declare_exchange("x", "x-delayed-message", arguments=table)


def bound(node: Node, name: str, key: str, arguments: Table = Table.EMPTY) -> Queue:
    vhost = node.vhosts["/"]
    queue = vhost.declare_queue(name)
    vhost.bind("x", queue, key, arguments)
    return queue


def full_queue(node: Node, name: str, source: str = "x", limit: int = 1, **declared: Any) -> Queue:
    """Bind a queue that must not reject more, as its dead letter outbox waits for the journal, and fill it."""
    vhost = node.vhosts["/"]
    full = {"x-max-length": limit, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    queue = vhost.declare_queue(name, arguments=Table.of(full), **declared)
    vhost.bind(source, queue, "", Table.EMPTY)
    queue.outbox.awaits_journal = True
    vhost.enqueue([framed(RoutingAddress("", ""), Properties(), b"")] * (limit + 1), 0, False, (queue,))
    return queue


def clock_of(node: Node) -> FakeClock:
    assert isinstance(node.clock, FakeClock)
    return node.clock


def publish(node: Node, key: str, **headers: object) -> None:
    vhost = node.vhosts["/"]
    table = Table.of({"x-delay": 100, **headers})
    message = framed(RoutingAddress("x", key), Properties(headers=table), b"")
    vhost.enqueue([message], 0, False, routed(vhost, vhost.exchanges["x"], (key,), message).targets)


@pytest.mark.parametrize("way", ["alone", "with others", "deduplicated", "kept as history", "many"])
def test_due_messages_wait_for_a_queue_that_must_not_reject_more_unless_others_get_them(
    node: Node, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """All that are due later wait behind the first one, which is not read before one of its queues has room."""
    others = way == "with others"
    limit_dead_letters(monkeypatch, MANY=0)
    declare(node, x_delayed_type="direct")
    vhost, clock = node.vhosts["/"], clock_of(node)
    full = {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    queue = vhost.declare_queue("full", arguments=Table.of(full | {"x-dead-letter-routing-key": "letters"}))
    letters = vhost.declare_queue("letters")
    if way in ("deduplicated", "kept as history"):
        type_ = "fanout" if way == "deduplicated" else "x-recent-history"
        vhost.declare_exchange("between", type_, arguments=Table.of({"x-message-deduplication": way == "deduplicated"}))
        vhost.bind("x", vhost.exchanges["between"], "full", Table.EMPTY)
        vhost.bind("between", queue, "", Table.EMPTY)
    else:
        vhost.bind("x", queue, "full", Table.EMPTY)
    if others:
        bound(node, "with it", "full")
    if way == "many":
        for number in range(LOOKS):
            vhost.bind("x", vhost.declare_queue(f"full{number}", arguments=queue.arguments), "full", Table.EMPTY)
            vhost.queues[f"full{number}"].outbox.awaits_journal = True
            vhost.enqueue(
                [framed(RoutingAddress("", ""), Properties(), b"")], 0, False, (vhost.queues[f"full{number}"],)
            )
    other = bound(node, "other", "other")
    queue.outbox.awaits_journal = True
    for number in range(20):
        publish(node, "full", **{"number": f"{number}", "x-deduplication-header": f"{number}"})
        publish(node, "other")
    clock.advance(100)
    assert len(queue.outbox) == 1 and not letters.ready and other.ready == (20 if others else 1)
    assert not others or vhost.queues["with it"].ready == 20
    clock.advance(60_000)
    assert len(queue.outbox) == 1 and vhost.exchanges["x"].type.messages_delayed == (0 if others else 38)
    queue.outbox.awaits_journal = False
    queue.schedule_pump()
    node.pump()
    clock.advance(25 * ROOM_MS)  # as each fills the queue again
    assert other.ready == 20
    found = [message.properties.headers for message in ready_messages(letters)]
    numbers = [headers.text("number") for headers in found if headers is not None]
    if way == "kept as history":
        assert len(vhost.exchanges["between"].type._kept) == 20, "each is kept once"
    assert numbers == [f"{number}" for number in range(1 if others else 20)]


@pytest.mark.parametrize("end", ["the last of very many has room", "another one is bound"])
def test_a_waiting_message_is_routed_again_after_some_time(
    node: Node, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    limit_dead_letters(monkeypatch, MANY=0)
    declare(node, x_delayed_type="fanout")
    vhost, clock = node.vhosts["/"], clock_of(node)
    queues = [full_queue(node, f"q{number}") for number in range(LOOKS + 1)]
    publish(node, "")
    clock.advance(1_000)
    if end == "another one is bound":
        free = bound(node, "free", "")
    else:
        free = queues[-1]
        vhost.delete_queue(free)
        free = bound(node, free.name, "")
    clock.advance(RETRY_MS)
    assert free.ready == 1 and not vhost.exchanges["x"].type.messages_delayed


@pytest.mark.parametrize("between", ["", "fanout", "deduplicating", "x-recent-history"])
@pytest.mark.parametrize("end", ["room", "bound", "unbound"])
def test_the_length_of_a_waiting_message_delays_it_no_more_when_one_of_very_many_queues_has_room(
    node: Node, monkeypatch: pytest.MonkeyPatch, between: str, end: str
) -> None:
    """Nor is it read meanwhile, counted as a duplicate, or kept again by an exchange on its way."""
    limit_dead_letters(monkeypatch, MANY=0)
    declare(node, x_delayed_type="fanout")
    vhost, clock = node.vhosts["/"], clock_of(node)
    source = "between" if between else "x"
    if between:
        type_ = "fanout" if between == "deduplicating" else between
        arguments = {"x-message-deduplication": True} if between == "deduplicating" else {}
        vhost.declare_exchange("between", type_, arguments=Table.of(arguments))
        vhost.bind("x", vhost.exchanges["between"], "", Table.EMPTY)
    queues = [full_queue(node, f"q{number}", source) for number in range(LOOKS + 1)]
    headers = Table.of({"x-delay": 100, "x-deduplication-header": "once"})
    message = framed(RoutingAddress("x", ""), Properties(headers=headers), bytes(1 << 20))
    vhost.enqueue([message], 1 << 20, False, routed(vhost, vhost.exchanges["x"], ("",), message).targets)
    reads: list[int] = []
    read = Delay._read

    def count(delay: Delay, entries: list[int], place: Place | None) -> list[Message | None]:
        reads.append(clock.now_ms())
        return read(delay, entries, place)

    monkeypatch.setattr(Delay, "_read", count)
    clock.advance(3 * RETRY_MS // 2)
    assert len(reads) == 1
    free = queues[-1] if end == "room" else vhost.declare_queue("other")
    if end == "room":
        free.purge()
        free.outbox.awaits_journal = False
        free.schedule_pump()
        node.pump()
    elif end == "bound":
        vhost.bind(source, free, "", Table.EMPTY)
    else:
        for queue in queues:
            vhost.unbind(source, queue, "", Table.EMPTY)
    clock.advance(RETRY_MS)
    assert not vhost.exchanges["x"].type.messages_delayed and len(reads) == 2
    assert free.ready == (end != "unbound")
    if between == "x-recent-history":
        assert len(vhost.exchanges["between"].type._kept) == 1
    if between == "deduplicating":
        assert not vhost.exchanges["between"].type.deduplication.duplicates


def test_a_due_message_reaches_the_queue_with_room_though_that_is_full_when_others_are_enqueued(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is long, so that each durable queue has a step of its own."""
    limit_dead_letters(monkeypatch, MANY=0)
    declare(node, x_delayed_type="fanout")
    vhost, clock = node.vhosts["/"], clock_of(node)
    full = {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    queues = [vhost.declare_queue(f"q{number}", durable=True, arguments=Table.of(full)) for number in range(5)]
    for queue in queues:
        vhost.bind("x", queue, "", Table.EMPTY)
        queue.outbox.awaits_journal = True

    def fill(some: list[Queue]) -> None:
        for queue in some:
            while not queue.must_not_reject:
                vhost.enqueue([framed(RoutingAddress("", ""), Properties(), b"")], 0, False, (queue,))

    fill(queues[:4])
    message = framed(
        RoutingAddress("x", ""), Properties(headers=Table.of({"x-delay": 100}), delivery_mode=2), bytes(2 << 20)
    )
    vhost.enqueue([message], 2 << 20, True, routed(vhost, vhost.exchanges["x"], ("",), message).targets)
    enqueue = emissions.enqueue

    def enqueue_and_fill(*arguments: Any) -> EnqueueResult:
        result = enqueue(*arguments)
        fill(queues)
        return result

    monkeypatch.setattr(emissions, "enqueue", enqueue_and_fill)
    clock.advance(10_000)
    assert queues[4].ready_bytes == 2 << 20 and not vhost.exchanges["x"].type.messages_delayed


def costs_of_jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the costs of all steps of jobs of exchanges are added."""
    steps: list[int] = []
    start = ExchangeHost.start

    def counted(job: Job) -> Job:
        for cost in job:
            steps.append(cost)
            yield cost

    monkeypatch.setattr(ExchangeHost, "start", lambda host, job, appends=True: start(host, counted(job), appends))
    return steps


@pytest.mark.parametrize("between", ["", "fanout", "x-recent-history"])
def test_the_targets_of_a_due_message_are_searched_in_short_steps_and_none_is_kept(
    node: Node, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    """Also while all of them are full. Very many exchanges would keep very many of them, which no limit counts."""
    limit_dead_letters(monkeypatch, MANY=0)
    declare(node, x_delayed_type="fanout")
    vhost, clock = node.vhosts["/"], clock_of(node)
    if between:
        vhost.bind("x", vhost.declare_exchange("between", between), "", Table.EMPTY)
    source = "between" if between else "x"
    for number in range(6_000):
        full_queue(node, f"q{number}", source, limit=0)
    steps = costs_of_jobs(monkeypatch)
    publish(node, "")
    vhost.search(vhost.exchanges[source], ("",), framed(RoutingAddress("x", ""), Properties(), b""), peeks=True).run()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        clock.advance(1_000)
        after_release = len(steps)
        clock.advance(RETRY_MS)
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
    assert vhost.exchanges["x"].type.messages_delayed == 1 and len(steps) > after_release > 0
    assert max(steps) <= 2 * SEARCH_COST


def test_a_due_message_by_itself_counts_at_what_it_takes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Timer, job and read take 70 us or more: 10,000 exchanges made turns of 30 ms."""
    declare(node, x_delayed_type="fanout")
    queue = bound(node, "q", "")
    steps = costs_of_jobs(monkeypatch)
    publish(node, "")
    clock_of(node).advance(100)
    assert queue.ready == 1 and sum(steps) >= 70


def test_an_exchange_keeps_no_long_properties_of_the_last_message(node: Node) -> None:
    """Very many exchanges would keep very much, which no limit counts."""
    declare(node, x_delayed_type="fanout")
    vhost, clock = node.vhosts["/"], clock_of(node)
    held = vhost.exchanges["x"].type._delay
    for delay, long in ((100, True), (0, True), (100, False)):
        publish(node, "", **{"x-delay": delay, "text": "x" * (100_000 if long else 10)})
        assert len(held._last_properties) < 200 and bool(held._last_properties) is not long
    clock.advance(1_000)
    assert not vhost.exchanges["x"].type.messages_delayed


@pytest.mark.parametrize("between", ["fanout", "x-recent-history"])
@pytest.mark.parametrize("end", ["queue deleted", "queue bound", "exchange deleted"])
def test_a_due_message_that_waits_is_routed_by_the_bindings_at_the_time_when_it_goes_on(
    node: Node, monkeypatch: pytest.MonkeyPatch, between: str, end: str
) -> None:
    """An exchange on its way keeps it then, and once."""
    limit_dead_letters(monkeypatch, MANY=0)
    declare(node, x_delayed_type="fanout")
    vhost, clock = node.vhosts["/"], clock_of(node)
    vhost.declare_exchange("between", between, arguments=Table.of({"x-message-deduplication": True}))
    vhost.bind("x", vhost.exchanges["between"], "", Table.EMPTY)
    queue = full_queue(node, "full", "between", limit=0)
    publish(node, "", **{"x-deduplication-header": "once"})
    clock.advance(10_000)
    other = vhost.declare_queue("other")
    vhost.bind("between", other, "", Table.EMPTY)
    assert not other.ready, "no exchange keeps a message that waits"
    if end == "queue deleted":
        vhost.delete_queue(queue)
    elif end == "exchange deleted":
        vhost.delete_exchange("x")
    else:
        queue.outbox.awaits_journal = False
        queue.schedule_pump()
        node.pump()
    clock.advance(2 * ROOM_MS)
    assert other.ready == (end != "exchange deleted")
    assert between == "fanout" or len(vhost.exchanges["between"].type.inner._kept) == other.ready
    assert end == "exchange deleted" or not vhost.exchanges["x"].type.messages_delayed


@pytest.mark.parametrize("type_", [None, "", "no-such", "x-delayed-message", 5])
def test_a_missing_or_unknown_inner_type_is_refused(node: Node, type_: object) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        declare(node, **{"x-delayed-type": type_} if type_ is not None else {})
    assert refused.value.text == REFUSED


def test_another_declaration_has_to_name_the_same_inner_type(node: Node) -> None:
    declare(node, x_delayed_type="direct")
    declare(node, x_delayed_type="direct")
    channel = connected(node).channel()
    channel.refused(
        406, Exchange.Declare, exchange="x", exchange_type="x-delayed-message", arguments={"x-delayed-type": "topic"}
    )


@pytest.mark.parametrize(
    ("type_", "key", "arguments", "sent"),
    [
        ("direct", "k", {}, "k"),
        ("fanout", "", {}, "anything"),
        ("topic", "a.*", {}, "a.b"),
        ("headers", "", {"x-match": "all", "colour": "red"}, ""),
        ("x-modulus-hash", "", {}, "anything"),
    ],
)
def test_it_routes_as_its_inner_type(node: Node, type_: str, key: str, arguments: dict[str, str], sent: str) -> None:
    declare(node, x_delayed_type=type_)
    queue = bound(node, "q", key, Table.of(arguments))
    other = bound(node, "other", "else", Table.of({"x-match": "all", "colour": "blue"}))
    publish(node, sent, colour="red")
    assert queue.ready + other.ready == 0
    clock_of(node).advance(100)
    if type_ in ("direct", "topic", "headers"):
        assert (queue.ready, other.ready) == (1, 0)
    elif type_ == "fanout":
        assert (queue.ready, other.ready) == (1, 1)
    else:
        assert queue.ready + other.ready == 1


def test_what_is_held_can_be_counted_on_the_type(node: Node) -> None:
    declare(node, x_delayed_type="fanout")
    for _ in range(3):
        publish(node, "")
    type_ = node.vhosts["/"].exchanges["x"].type
    assert isinstance(type_, DelayedMessageExchange) and type_.messages_delayed == 3


# Over a socket


def declared(channel: BlockingChannel) -> None:
    channel.exchange_declare("late", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "late", "k")


def send(channel: BlockingChannel, body: bytes, delay: Any, mode: int = 2) -> None:
    properties = pika.BasicProperties(headers={"x-delay": delay}, delivery_mode=mode)
    channel.basic_publish("late", "k", body, properties, mandatory=True)


def consume_until(channel: BlockingChannel, count: int, seconds: float) -> list[bytes]:
    """Consume from q until it has delivered `count` messages. Returns their bodies."""
    bodies: list[bytes] = []
    for method, _, body in channel.consume("q", auto_ack=True, inactivity_timeout=seconds):
        if method is None:
            break
        bodies.append(body)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


@pytest.fixture
def standing() -> Iterator[ListeningServer]:
    """A broker whose clock is moved only by a test."""
    listening = ListeningServer()
    listening.node.registry.register("x-delayed-message", DelayedMessageExchange)
    yield listening
    listening.close()


@pytest.mark.sockets
def test_messages_come_in_the_order_of_their_time_on_time_and_without_x_death(standing: ListeningServer) -> None:
    clock = standing.node.clock
    assert isinstance(clock, FakeClock)
    with channel_at(("127.0.0.1", standing.listen())) as channel:
        declared(channel)
        channel.confirm_delivery()
        for body, delay in ((b"slow", 400), (b"quick", 200), (b"now", 0)):
            send(channel, body, delay)
        came = []
        for ms in (0, 199, 1, 199, 1):
            standing.call(clock.advance, ms)
            came.append([(body, properties.headers) for _, properties, body in taken(channel, "q")])
    assert came == [[(b"now", {"x-delay": 0})], [], [(b"quick", {"x-delay": -200})], [], [(b"slow", {"x-delay": -400})]]


@pytest.mark.sockets
def test_messages_and_their_times_survive_a_restart(daemon: BrokerProcess, restart: Callable[..., None]) -> None:
    with channel_at(daemon.address) as channel:
        declared(channel)
        channel.confirm_delivery()
        for number in range(200):
            send(channel, b"%d" % number, 2 * HOUR_MS if number % 2 else HOUR_MS)
        send(channel, b"transient", HOUR_MS, mode=1)
        send(channel, b"soon", 50)
    restart()
    with channel_at(daemon.address) as channel:
        assert consume_until(channel, 1, PATIENCE_S) == [b"soon"]
        assert consume_until(channel, 1, 0.1) == []
    restart(clock_ahead_s=HOUR_MS / 1000)
    with channel_at(daemon.address) as channel:
        assert consume_until(channel, 100, PATIENCE_S) == [b"%d" % number for number in range(0, 200, 2)]
        assert consume_until(channel, 1, 0.1) == []


@pytest.mark.sockets
def test_what_a_deleted_exchange_held_does_not_return(daemon: BrokerProcess) -> None:
    with channel_at(daemon.address) as channel:
        declared(channel)
        channel.confirm_delivery()
        send(channel, b"dropped", 1_500)  # longer than the deletion takes on a busy machine
        channel.exchange_delete("late")
        declared(channel)
        send(channel, b"kept", 1_600)
    daemon.kill()
    daemon.start()
    with channel_at(daemon.address) as channel:
        assert consume_until(channel, 2, 2) == [b"kept"]
