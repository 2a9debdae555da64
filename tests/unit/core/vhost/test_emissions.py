"""Order and completeness of what exchange types emit and release, while other jobs run between its slices."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.in_process import InProcessPeer
from tests.support.queues import limit_dead_letters, routed
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.definitions.importer import import_definitions
from warren.broker.core.exchanges.exchange_context import Emission
from warren.broker.core.jobs.scheduler import STORE_SHIFT
from warren.broker.core.messages.binding import Binding
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost import emissions
from warren.broker.core.vhost.vhost import VHost
from warren.plugins.exchanges import recent_history
from warren.plugins.exchanges.presence import PresenceExchange
from warren.plugins.exchanges.recent_history import DEFAULT_LENGTH, RecentHistoryExchange

KEPT = 10_000  # more than are delivered in one turn
LISTENERS = 4_000
LENGTH = "x-recent-history-length"


@pytest.fixture
def peer() -> Iterator[InProcessPeer]:
    made = InProcessPeer()
    made.node.registry.register("x-presence", PresenceExchange)
    made.node.registry.register("x-recent-history", RecentHistoryExchange)
    yield made
    made.close()


@pytest.fixture
def vhost(peer: InProcessPeer) -> VHost:
    return peer.node.vhosts["/"]


def publish(vhost: VHost, exchange: str, body: bytes, delay_ms: int = 0) -> None:
    headers = Table.of({"x-delay": delay_ms} if delay_ms else {})
    message = framed(RoutingAddress(exchange, "k"), Properties(headers=headers), body)
    found = routed(vhost, vhost.exchanges[exchange], ("k",), message).targets
    if found:
        vhost.enqueue([message], len(body), False, found)


def bodies(queue: Queue) -> list[int]:
    found = []
    while (got := queue.get(True)) is not None:
        found.append(int(got[1].body))
    return found


def notices(queue: Queue) -> list[str]:
    found = []
    while (got := queue.get(True)) is not None:
        headers = got[1].headers
        found.append(f"{headers.text('action')} {headers.text('key')}")
    return found


def between_slices(vhost: VHost, *calls: Callable[[], None]) -> None:
    """Make each of these calls between two steps of the jobs that run already."""

    def job() -> Iterator[int]:
        for call in calls:
            call()
            yield 500

    vhost.scheduler.start("calls", job())


# Recent history


def history(vhost: VHost, count: int = KEPT) -> None:
    vhost.declare_exchange("h", "x-recent-history", arguments=Table.of({LENGTH: 2 * KEPT}))
    for number in range(count):
        publish(vhost, "h", b"%d" % number)


def test_messages_published_while_the_history_is_delivered_follow_it_once(peer: InProcessPeer, vhost: VHost) -> None:
    history(vhost)
    queue = vhost.declare_queue("q")
    vhost.bind("h", queue, "", Table.EMPTY)
    assert 0 < queue.ready < KEPT
    between_slices(vhost, *[lambda n=n: publish(vhost, "h", b"%d" % (KEPT + n)) for n in range(50)])
    peer.settle()
    publish(vhost, "h", b"%d" % (KEPT + 50))
    assert bodies(queue) == list(range(KEPT + 51))


def test_a_history_that_grows_shorter_meanwhile_has_no_gap_at_its_end(peer: InProcessPeer, vhost: VHost) -> None:
    history(vhost, 2 * KEPT)
    queue = vhost.declare_queue("q")
    vhost.bind("h", queue, "", Table.EMPTY)

    def publish_many() -> None:
        for number in range(2 * KEPT, 3 * KEPT):
            publish(vhost, "h", b"%d" % number)

    between_slices(vhost, publish_many)
    peer.settle()
    found = bodies(queue)
    assert found == sorted(set(found)) and found[-2 * KEPT :] == list(range(KEPT, 3 * KEPT))


@pytest.mark.parametrize("ends", [False, True], ids=["stays", "is deleted"])
def test_a_queue_that_is_bound_twice_gets_the_history_twice_and_newer_messages_once(
    peer: InProcessPeer, vhost: VHost, ends: bool
) -> None:
    history(vhost)
    queue = vhost.declare_queue("q")
    vhost.bind("h", queue, "one", Table.EMPTY)
    vhost.bind("h", queue, "two", Table.EMPTY)
    calls = [lambda n=n: publish(vhost, "h", b"%d" % (KEPT + n)) for n in range(100)]
    if ends:
        calls.insert(50, lambda: vhost.unbind("h", queue, "one", Table.EMPTY))
    between_slices(vhost, *calls)
    peer.settle()
    found = bodies(queue)
    assert [found.count(number) for number in (KEPT - 1, KEPT, KEPT + 49, KEPT + 99)] == [2, 1, 1, 1]
    assert len(found) == 2 * KEPT + 100
    vhost.unbind("h", queue, "two", Table.EMPTY)
    if not ends:
        vhost.unbind("h", queue, "one", Table.EMPTY)
    publish(vhost, "h", b"0")
    assert not queue.ready, "a binding is still counted"


def test_a_binding_that_is_deleted_meanwhile_gets_no_more_of_the_history(peer: InProcessPeer, vhost: VHost) -> None:
    history(vhost)
    queue = vhost.declare_queue("q")
    vhost.bind("h", queue, "", Table.EMPTY)
    vhost.unbind("h", queue, "", Table.EMPTY)
    peer.settle()
    publish(vhost, "h", b"0")
    assert queue.ready < KEPT


def test_a_deleted_exchange_delivers_its_history_and_a_deleted_queue_ends_it(peer: InProcessPeer, vhost: VHost) -> None:
    history(vhost)
    queue, other = vhost.declare_queue("q"), vhost.declare_queue("other")
    vhost.bind("h", queue, "", Table.EMPTY)
    vhost.bind("h", other, "", Table.EMPTY)
    vhost.delete_exchange("h")
    vhost.delete_queue(other)
    peer.settle()
    assert bodies(queue) == list(range(KEPT))
    assert not vhost.emitting and not vhost.unbinding_jobs


def test_a_history_of_large_messages_is_bounded_by_its_bytes_but_never_shorter_than_the_default(
    vhost: VHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_history, "HISTORY_BYTES", 100_000)
    vhost.declare_exchange("h", "x-recent-history", arguments=Table.of({LENGTH: 1_000}))
    for _ in range(100):
        publish(vhost, "h", b"%0990d" % 0)
    few, many = vhost.declare_queue("few"), vhost.declare_queue("many")
    vhost.bind("h", few, "", Table.EMPTY)
    assert DEFAULT_LENGTH < few.ready < 100
    for _ in range(100):
        publish(vhost, "h", bytes(50_000).replace(b"\0", b"0"))
    vhost.bind("h", many, "", Table.EMPTY)
    vhost.scheduler.finish_all()
    assert many.ready == DEFAULT_LENGTH


def test_bind_ok_and_later_publishes_of_the_client_follow_the_history(peer: InProcessPeer, vhost: VHost) -> None:
    history(vhost)
    channel = peer.connect().channel()
    channel.declare("q")
    channel.bind("q", "h")
    assert vhost.queues["q"].ready == KEPT
    channel.publish("h", "k", b"%d" % KEPT)
    peer.settle()
    assert bodies(vhost.queues["q"]) == list(range(KEPT + 1))


# Presence


def presence(vhost: VHost, count: int = LISTENERS) -> list[Queue]:
    vhost.declare_exchange("p", "x-presence")
    listeners = [vhost.declare_queue(f"l{number}") for number in range(count)]
    for listener in listeners:
        vhost.bind("p", listener, "", Table.EMPTY)
    vhost.scheduler.finish_all()
    return listeners


def test_each_listener_gets_the_notices_in_the_order_of_the_changes(peer: InProcessPeer, vhost: VHost) -> None:
    listeners = presence(vhost)
    queue = vhost.declare_queue("q")
    for key in "ab":
        vhost.bind("p", queue, key, Table.EMPTY)
        vhost.unbind("p", queue, key, Table.EMPTY)
    assert vhost.emitting
    late = vhost.declare_queue("late")
    vhost.bind("p", queue, "c", Table.EMPTY)
    vhost.bind("p", late, "", Table.EMPTY)
    vhost.delete_queue(listeners.pop())
    vhost.delete_queue(queue)
    vhost.delete_exchange("p")
    peer.settle()
    expected = ["bind a", "unbind a", "bind b", "unbind b", "bind c", "unbind c"]
    assert {tuple(notices(listener)) for listener in listeners} == {tuple(expected)}
    assert notices(late) == expected[4:]
    assert not vhost.emitting and not vhost.unbinding_jobs


def test_a_stop_sends_all_notices_before(peer: InProcessPeer, vhost: VHost) -> None:
    listeners = presence(vhost)
    queue = vhost.declare_queue("q")
    for number in range(5):
        vhost.bind("p", queue, f"k{number}", Table.EMPTY)
    vhost.delete_queue(queue)
    peer.node.finish()
    assert {listener.ready for listener in listeners} == {10}


def test_a_client_waits_until_its_notices_and_those_before_them_are_enqueued(
    peer: InProcessPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emissions, "LIMIT_BYTES", 1)
    listeners = presence(vhost)
    other = vhost.declare_queue("other")
    channel = peer.connect().channel()
    channel.declare("q")
    for number in range(5):
        vhost.bind("p", other, f"k{number}", Table.EMPTY)
    assert vhost.emissions_of("p") is not None
    channel.bind("q", "p", "mine")
    assert {listener.ready for listener in listeners} == {6}
    channel.unbind("q", "p", "mine")
    assert notices(listeners[-1])[-2:] == ["bind mine", "unbind mine"]


def test_a_queue_with_presences_is_declared_again_when_all_have_ended(peer: InProcessPeer, vhost: VHost) -> None:
    listeners = presence(vhost, 100)
    channel = peer.connect().channel()
    channel.declare("q")
    for number in range(300):
        vhost.bind("p", vhost.queues["q"], f"k{number}", Table.EMPTY)
    peer.settle()
    channel.delete("q")
    channel.declare("q")
    assert not vhost.unbinding_jobs and not vhost.queues["q"].incoming
    channel.bind("q", "p", "again")
    assert notices(listeners[0])[-2:] == ["unbind k299", "bind again"]


def test_an_import_makes_bindings_as_fast_as_their_notices_are_enqueued(
    peer: InProcessPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emissions, "LIMIT_BYTES", 1)
    listeners = presence(vhost)
    vhost.declare_queue("q")
    binding = {"source": "p", "destination": "q", "destination_type": "queue", "arguments": {}}
    import_definitions(peer.node, {"bindings": [{**binding, "routing_key": f"k{n}"} for n in range(10)]}, "/")
    assert {listener.ready for listener in listeners} == {10}


def test_after_a_failed_emission_the_next_follow_and_the_client_goes_on(peer: InProcessPeer, vhost: VHost) -> None:
    listeners = presence(vhost)
    exchange = vhost.exchanges["p"]

    def failing() -> Iterator[Emission]:
        yield Emission((), ())
        raise RuntimeError

    vhost.emit(exchange, exchange.type.on_bind(binding(vhost, "a")))
    vhost.emit(exchange, exchange.type.on_bind(binding(vhost, "b")))
    vhost.emit(exchange, failing())
    calls: list[str] = []
    queue = vhost.emissions_of("p")
    assert queue is not None
    queue.when_enqueued(lambda: calls.append("done"))
    vhost.emit(exchange, exchange.type.on_bind(binding(vhost, "c")))
    peer.settle()
    assert calls == ["done"] and not vhost.emitting
    assert notices(listeners[-1]) == ["bind a", "bind b", "bind c"]


def binding(vhost: VHost, key: str) -> Binding:
    return Binding("p", vhost.declare_queue("some"), key, Table.EMPTY)


# Delayed messages


@pytest.mark.parametrize("ending", ["deleted", "stopped", "left"])
def test_a_delayed_message_reaches_all_queues_or_none_when_its_exchange_ends(
    peer: InProcessPeer, vhost: VHost, ending: str
) -> None:
    vhost.declare_exchange("d", "fanout", arguments=Table.of({"x-delayed-exchange": True}))
    queues = [vhost.declare_queue(f"q{number}") for number in range(LISTENERS)]
    for queue in queues:
        vhost.bind("d", queue, "", Table.EMPTY)
    cut: list[int] = []

    def end_it() -> Iterator[int]:
        while not (ready := sum(queue.ready for queue in queues)):
            yield 100
        cut.append(ready)
        if ending == "deleted":
            vhost.delete_exchange("d")
        elif ending == "stopped":
            peer.node.finish()

    peer.clock.call_at(peer.clock.now_ms() + 1_000, lambda: vhost.scheduler.start("end", end_it()))
    for number in range(8):
        publish(vhost, "d", b"%d" % number, 1_000)
    peer.clock.advance(1_000)
    peer.settle()
    assert cut[0] % LISTENERS, "no message is cut"
    count = -(-cut[0] // LISTENERS) if ending == "deleted" else 8
    received = {tuple(bodies(queue)) for queue in queues}
    count = -(-cut[0] // LISTENERS) if ending == "deleted" else 8
    assert received == {tuple(range(count))}


def test_messages_of_the_broker_are_dropped_while_too_many_wait(vhost: VHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emissions, "LIMIT_BYTES", 1)
    exchange = vhost.exchanges["amq.fanout"]
    queue = vhost.declare_queue("q")
    vhost.bind("amq.fanout", queue, "", Table.EMPTY)

    def publish(body: bytes) -> bool:
        return vhost.publish(exchange, framed(RoutingAddress("amq.fanout", ""), Properties(), body))

    def emitted() -> Iterator[Emission]:
        for number in range(2):
            if number:
                assert not publish(b"2")
            yield Emission([queue], [framed(RoutingAddress("amq.fanout", ""), Properties(), b"%d" % number)])

    vhost.emit(exchange, emitted())
    vhost.scheduler.finish_all()
    assert publish(b"3")
    assert bodies(queue) == [0, 1, 3] and not vhost.emitting


def test_messages_that_are_enqueued_at_once_cost_what_their_bodies_do(vhost: VHost) -> None:
    body = bytes(4 << 20)
    queue, message = vhost.declare_queue("q", durable=True), framed(RoutingAddress("", "q"), Properties(), body)
    steps = emissions.deliver_in_slices(vhost, [queue], [message])
    assert sum(steps) >= len(body) >> STORE_SHIFT
    assert queue.ready == 1


@pytest.fixture
def full(vhost: VHost, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue that must not reject more messages; it has one dead letter for the queue `letters`."""
    limit_dead_letters(monkeypatch, MANY=0)
    given = {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""}
    queue = vhost.declare_queue("full", arguments=Table.of(given | {"x-dead-letter-routing-key": "letters"}))
    vhost.declare_queue("letters")
    queue.outbox.awaits_journal = True
    vhost.enqueue([framed(RoutingAddress("", "full"), Properties(), b"0")], 1, False, (queue,))
    assert queue.must_not_reject
    return queue


@pytest.mark.parametrize("kept", [3, KEPT])
def test_a_full_queue_gets_no_history_and_holds_none_up(
    peer: InProcessPeer, vhost: VHost, full: Queue, kept: int
) -> None:
    vhost.declare_exchange("x", "x-recent-history", arguments=Table.of({LENGTH: kept}))
    for number in range(kept):
        publish(vhost, "x", b"%d" % number)
    other = vhost.declare_queue("other")
    for queue in (full, other):
        vhost.bind("x", queue, "k", Table.EMPTY)
    vhost.delete_exchange("x")
    peer.clock.advance(1_000)
    assert bodies(other) == list(range(kept)) and len(full.outbox) == 1
    assert not vhost.unbinding_jobs and not vhost.emitting and not len(vhost.scheduler)


def test_events_leave_out_a_full_queue(peer: InProcessPeer, vhost: VHost, full: Queue) -> None:
    other = vhost.declare_queue("other")
    exchange = vhost.exchanges["amq.fanout"]
    for queue in (full, other):
        vhost.bind("amq.fanout", queue, "", Table.EMPTY)
    for number in range(10):
        assert vhost.publish(exchange, framed(RoutingAddress("amq.fanout", ""), Properties(), b"%d" % number))
        vhost.scheduler.disk_alarm(number == 5)  # those that follow are enqueued in slices
    vhost.scheduler.disk_alarm(False)
    peer.clock.advance(1)
    assert bodies(other) == list(range(10)) and len(full.outbox) == 1


def test_a_full_listener_refuses_what_is_relayed_at_once(peer: InProcessPeer, vhost: VHost, full: Queue) -> None:
    vhost.declare_exchange("p", "x-presence", arguments=Table.of({"x-presence-relay": True}))
    vhost.declare_exchange("between", "fanout")
    other = vhost.declare_queue("other")
    vhost.bind("between", full, "", Table.EMPTY)
    for destination in (vhost.exchanges["between"], other):
        vhost.bind("p", destination, "", Table.EMPTY)
    channel = peer.connect().channel()
    channel.confirm()
    for number in range(3):
        channel.publish("p", "k", b"%d" % number)
    assert channel.confirms((1, 2, 3)) == (set(), {1, 2, 3})
    assert [got[1].body for _ in range(4) if (got := other.get(True)) is not None][-3:] == [b"0", b"1", b"2"]
    assert len(full.outbox) == 1


@pytest.mark.parametrize("transactional", [False, True])
def test_relayed_messages_keep_their_order_and_are_refused_if_a_listener_refuses_them(
    peer: InProcessPeer, vhost: VHost, transactional: bool
) -> None:
    vhost.declare_exchange("p", "x-presence", arguments=Table.of({"x-presence-relay": True}))
    limits = {"x-max-length": 2, "x-overflow": "reject-publish"}
    for number in range(LISTENERS):
        arguments = Table.of(limits if number == LISTENERS - 1 else {})
        vhost.bind("p", vhost.declare_queue(f"q{number}", arguments=arguments), "", Table.EMPTY)
    channel = peer.connect().channel()
    if transactional:
        channel.transact()
    else:
        channel.confirm()
    published = 2 if transactional else 3
    for number in range(published):
        channel.publish("p", "k", b"%d" % number)
    if transactional:
        assert not vhost.queues["q0"].published
        channel.commit()
    else:
        assert channel.confirms((1, 2, 3)) == ({1, 2}, {3})
    assert bodies(vhost.queues["q0"]) == list(range(published))
    assert bodies(vhost.queues[f"q{LISTENERS - 1}"]) == [0, 1]
