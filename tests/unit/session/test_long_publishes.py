"""Publishes whose search or queues take several turns of the loop: order, confirms, returns, and changes meanwhile."""

from collections.abc import Callable, Iterator

import pytest
from pamqp.commands import Basic, Tx

from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.clock import FakeTimer
from tests.support.in_process import InProcessPeer, socket_of
from tests.support.session import operator_channel
from warren.broker.amqp.errors import InternalFault, NotNow
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import content_frames
from warren.broker.amqp.properties import Properties
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.jobs.unfinished_publishes import LIMIT_BYTES
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.queues.queue import Queue
from warren.broker.core.telemetry.resource_alarms import MEMORY
from warren.broker.core.vhost.vhost import VHost
from warren.broker.session.management_channel import ManagementChannel

EXCHANGES = 40
COPIES = [f"{number:x}" for number in range(1_000)]
QUEUES = 3_500
KEEPS_NOTHING = Table.of({"x-max-length": 0})


class TurningPeer(InProcessPeer):
    """A broker that calls `between` with the number of each turn of its jobs, before it."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0
        self.between: Callable[[int], object] = lambda turn: None
        call_at = self.clock.call_at

        def counted_call_at(when_ms: int, fn: Callable[[], None]) -> FakeTimer:
            def call() -> None:
                self.turns += 1
                self.between(self.turns)
                fn()

            return call_at(when_ms, call)

        self.clock.call_at = counted_call_at  # type: ignore[method-assign]


@pytest.fixture
def peer() -> Iterator[TurningPeer]:
    made = TurningPeer()
    yield made
    made.close()


@pytest.fixture
def vhost(peer: TurningPeer) -> VHost:
    return peer.node.vhosts["/"]


def chain(vhost: VHost, *queues: str, length: int = EXCHANGES) -> list[Exchange]:
    """Direct exchanges, each bound to the one before, the last one to queues."""
    exchanges = [vhost.declare_exchange(f"x{number}", "direct") for number in range(length)]
    for source, destination in zip(exchanges, exchanges[1:], strict=False):
        vhost.bind(source.name, destination, "k", Table.EMPTY)
    for queue in queues:
        vhost.bind(exchanges[-1].name, vhost.declare_queue(queue), "k", Table.EMPTY)
    return exchanges


def fan(vhost: VHost, count: int = QUEUES, arguments: Table = KEEPS_NOTHING) -> list[Queue]:
    """Queues that are bound to amq.fanout."""
    queues = [vhost.declare_queue(f"q{number}", arguments=arguments) for number in range(count)]
    for queue in queues:
        vhost.bind("amq.fanout", queue, "", Table.EMPTY)
    return queues


def frames(exchange: str, key: str, body: bytes, copies: int = 0, mandatory: bool = False) -> bytes:
    publish = {"exchange": exchange, "routing_key": key, "mandatory": mandatory, "immediate": False}
    header = codec.header_frame(1, len(body), {"headers": {"CC": COPIES[:copies]}} if copies else {})
    return codec.method_frame(1, Basic.Publish, publish) + header + codec.body_frames(1, body, 1 << 17)


def send(peer: TurningPeer, channel: Channel, *publishes: bytes) -> None:
    peer.turns = 0
    socket_of(channel.client).incoming += b"".join(publishes)
    peer.settle()


def bodies(queue: Queue) -> list[bytes]:
    return [message.body for message in queue.ready_messages.default.fresh]


def test_the_publishes_of_a_connection_keep_their_order_around_a_long_one(peer: TurningPeer, vhost: VHost) -> None:
    chain(vhost, "q")
    vhost.bind("amq.direct", vhost.queues["q"], "k", Table.EMPTY)
    channel = peer.connect().channel()
    channel.confirm()
    plain = [frames("", "q", b"1"), frames("amq.direct", "k", b"2")]
    more = [frames("", "q", b"5"), frames("amq.direct", "k", b"6"), frames("", "q", b"7")]
    long = [frames("x0", "k", b"3", copies=1_000), frames("x0", "k", b"4", copies=1_000)]
    send(peer, channel, *plain, *long, *more)
    assert peer.turns > 4
    assert bodies(vhost.queues["q"]) == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert channel.confirms(range(1, 8)) == (set(range(1, 8)), set())


def test_other_connections_are_served_meanwhile(peer: TurningPeer, vhost: VHost) -> None:
    chain(vhost, "q")
    other, long = peer.connect().channel(), peer.connect().channel()

    def between(turn: int) -> None:
        if turn == 2:
            socket_of(other.client).incoming += frames("", "q", b"other")
            socket_of(other.client).feed()

    peer.between = between
    send(peer, long, frames("x0", "k", b"long", copies=1_000))
    assert bodies(vhost.queues["q"]) == [b"other", b"long"]


@pytest.mark.parametrize(("length", "keys"), [(EXCHANGES, 1_000), (13, 829), (1, 0)])
def test_no_deleted_queue_gets_a_message_in_any_turn(peer: TurningPeer, vhost: VHost, length: int, keys: int) -> None:
    """Turns end in a search, between a search and the queues, and between the parts of very many queues."""
    wide = not keys
    chain(vhost, "q", length=length)
    channel = peer.connect().channel()
    channel.confirm()
    last = 1 << 30
    turn = 0
    while turn <= last:
        turn += 1
        queue = vhost.declare_queue("deleted")
        vhost.bind("amq.fanout" if wide else "x0", queue, "k", Table.EMPTY)
        if turn == 1 and wide:
            fan(vhost, 9_000)
        published = 0

        def between(now: int, turn: int = turn, queue: Queue = queue) -> None:
            nonlocal published
            if now == turn:
                published = queue.published
                vhost.delete_queue(queue)

        exchange = "amq.fanout" if wide else "x0"
        peer.between = lambda now: None
        send(peer, channel, frames(exchange, "k", b"x", mandatory=True))  # whose route is cached
        peer.between = between
        send(peer, channel, frames(exchange, "k", b"x", keys, mandatory=True))
        assert queue.published == published or peer.turns < turn
        last = peer.turns
        if not queue.deleted:
            vhost.delete_queue(queue)
        assert channel.confirms([2 * turn - 1, 2 * turn]) == ({2 * turn - 1, 2 * turn}, set())
    assert turn > 2


@pytest.mark.parametrize("change", ["queue", "exchange", "unbound"])
def test_a_mandatory_message_returns_if_nothing_is_left_to_reach(peer: TurningPeer, vhost: VHost, change: str) -> None:
    chain(vhost, "q")
    vhost.declare_queue("after")

    def between(turn: int) -> None:
        if turn != 2:
            return
        if change == "queue":
            vhost.delete_queue(vhost.queues["q"])
        elif change == "exchange":
            vhost.delete_exchange(f"x{EXCHANGES - 1}")
        else:
            vhost.unbind(f"x{EXCHANGES - 1}", vhost.queues["q"], "k", Table.EMPTY)

    peer.between = between
    channel = peer.connect().channel()
    channel.confirm()
    long = frames("x0", "k", b"lost", copies=1_000, mandatory=True)
    send(peer, channel, frames("", "after", b"1"), long, frames("", "after", b"3"))
    first, returned, last = [channel.next() for _ in range(3)]
    assert isinstance(first, Basic.Ack) and first.delivery_tag == 1
    assert isinstance(returned.method, Basic.Return) and returned.body == b"lost"
    assert isinstance(last, Basic.Ack) and (last.delivery_tag, last.multiple) == (3, True)
    assert bodies(vhost.queues["after"]) == [b"1", b"3"]


def test_a_message_whose_connection_is_lost_during_the_search_is_dropped(peer: TurningPeer, vhost: VHost) -> None:
    chain(vhost, "q")
    client = peer.connect()
    channel = client.channel()
    peer.between = lambda turn: turn == 2 and socket_of(client).transport.connection_lost(None)
    send(peer, channel, frames("x0", "k", b"x", copies=1_000))
    assert not vhost.queues["q"].published and not len(peer.node.scheduler)
    assert not peer.node.open_connections


def test_nothing_is_published_after_the_end_of_an_operators_request(peer: TurningPeer, vhost: VHost) -> None:
    """The search is complete, and many queues are still to read a long header."""
    queues = fan(vhost, 50, Table.of({"x-message-deduplication": True}))
    properties = Properties(headers=Table.of({"CC": ["copy"], "x-deduplication-header": "v" * 100_000}))
    for ends in (True, False):
        operator = operator_of(peer)
        operator.publish("amq.fanout", "", properties, b"", in_slices=True)
        assert operator.busy
        if ends:
            operator.close()
        peer.wait(1)
        assert {queue.published for queue in queues} == {0 if ends else 1} and not len(peer.node.scheduler)


def test_a_message_that_is_in_some_of_its_queues_gets_into_all_others_after_the_loss_of_its_connection(
    peer: TurningPeer, vhost: VHost
) -> None:
    queues = fan(vhost)
    client = peer.connect()
    channel = client.channel()
    peer.between = lambda turn: turn == 1 and socket_of(client).transport.connection_lost(None)
    send(peer, channel, frames("amq.fanout", "", b"x"))
    assert {queue.published for queue in queues} == {1} and not peer.node.open_connections


def test_a_message_for_very_many_queues_is_counted_once_and_each_gets_it(peer: TurningPeer, vhost: VHost) -> None:
    queues = fan(vhost)
    channel = peer.connect().channel()
    channel.confirm()
    deleted = queues[-1]
    peer.between = lambda turn: turn == 1 and vhost.delete_queue(deleted)
    send(peer, channel, frames("amq.fanout", "", b"x"), frames("", "q0", b"y"))
    assert peer.turns > 0 and not deleted.published
    assert {queue.published for queue in queues[1:-1]} == {1} and queues[0].published == 2
    exchange = vhost.exchanges["amq.fanout"]
    assert (exchange.publish_in, exchange.publish_out) == (1, QUEUES - 1)
    assert vhost.statistics.publishing.publish == 2 and vhost.statistics.routed == QUEUES
    assert channel.confirms([1, 2]) == ({1, 2}, set())


def test_one_of_very_many_queues_that_rejects_makes_a_nack_and_the_others_keep_the_message(
    peer: TurningPeer, vhost: VHost
) -> None:
    limited = Table.of({"x-max-length": 1, "x-overflow": "reject-publish"})
    queues = fan(vhost, 1_100, limited)
    channel = peer.connect().channel()
    channel.confirm()
    channel.publish("", queues[-1].name, b"full")
    send(peer, channel, frames("amq.fanout", "", b"x"), frames("", "q0", b"refused"), frames("", "none", b""))
    assert channel.confirms(range(1, 5)) == ({1, 4}, {2, 3})
    assert [bodies(queue) for queue in (queues[0], queues[-2], queues[-1])] == [[b"x"], [b"x"], [b"full"]]


def test_a_route_whose_search_is_long_is_cached_once_it_is_found(peer: TurningPeer, vhost: VHost) -> None:
    for number in range(2_000):
        vhost.declare_exchange(f"f{number}", "fanout")
        if number:
            vhost.bind(f"f{number - 1}", vhost.exchanges[f"f{number}"], "", Table.EMPTY)
    queue = vhost.declare_queue("q")
    vhost.bind("f1999", queue, "", Table.EMPTY)
    channel = peer.connect().channel()
    [routes] = vhost.routes.values()
    send(peer, channel, frames("f0", "k", b"1"), frames("f0", "k", b"2"), frames("f0", "k", b"3"))
    [route] = routes.values()
    assert route.queues == (queue,) and route.search is None
    size_bytes = routes.size_bytes
    routes.pop(next(iter(routes)))
    assert routes.size_bytes == 0 < size_bytes
    assert bodies(queue) == [b"1", b"2", b"3"]
    # A change meanwhile: the route is used for the message that has waited for it, and forgotten.
    other = vhost.declare_queue("other")
    peer.between = lambda turn: vhost.bind("f0", other, "", Table.EMPTY) if peer.turns == 1 else None
    send(peer, channel, frames("f0", "k", b"4"), frames("f0", "k", b"5"))
    peer.between = lambda turn: None
    send(peer, channel, frames("f0", "k", b"6"))
    assert bodies(queue) == [b"1", b"2", b"3", b"4", b"5", b"6"] and bodies(other)[-2:] == [b"5", b"6"]


def test_a_transaction_has_long_publishes_in_their_order(peer: TurningPeer, vhost: VHost) -> None:
    chain(vhost, "q")
    channel = peer.connect().channel()
    channel.transact()
    send(peer, channel, frames("", "q", b"1"), frames("x0", "k", b"2", copies=1_000), frames("", "q", b"3"))
    assert peer.turns > 2 and not vhost.queues["q"].published
    channel.rollback()
    send(peer, channel, frames("x0", "k", b"4", copies=1_000), frames("", "q", b"5"))
    channel.commit()
    assert bodies(vhost.queues["q"]) == [b"4", b"5"]


def test_a_long_publish_beyond_the_limit_of_a_transaction_closes_the_channel(peer: TurningPeer, vhost: VHost) -> None:
    peer.settings(transaction_max_bytes=1_000)
    chain(vhost, "q")
    channel = peer.connect().channel()
    channel.transact()
    send(peer, channel, frames("x0", "k", b"1", copies=1_000), frames("", "q", b"2"))
    closed = channel.expect_close(406)
    assert (closed.class_id, closed.method_id) == (60, 40)
    assert not vhost.queues["q"].published


def test_the_stop_of_the_node_completes_a_long_publish(peer: TurningPeer, vhost: VHost) -> None:
    queues = fan(vhost)
    channel = peer.connect().channel()
    peer.between = lambda turn: peer.node.finish() if turn == 1 else None
    send(peer, channel, frames("amq.fanout", "", b"x"))
    assert {queue.published for queue in queues} == {1}


def test_what_comes_between_any_two_turns_of_a_job_is_served(peer: TurningPeer, vhost: VHost) -> None:
    """The last turn of the job pumps so many queues that it ends in a turn of its own."""
    queues = [vhost.declare_queue(f"q{number}", arguments=KEEPS_NOTHING) for number in range(2_000)]
    for queue in queues:
        vhost.bind("amq.topic", queue, "#", Table.EMPTY)
    vhost.declare_queue("q")
    channel = peer.connect().channel()
    socket = socket_of(channel.client)
    for before in range(1, 9):

        def between(turn: int, before: int = before) -> None:
            if turn == before:
                socket.incoming += frames("", "q", b"later")
                socket.feed()

        peer.between = between
        send(peer, channel, frames("amq.topic", "k", b"x", copies=500))
        assert vhost.queues["q"].ready == min(before, peer.turns), before


def test_a_limit_of_length_holds_in_answers_although_the_pump_is_due(peer: TurningPeer, vhost: VHost) -> None:
    short = vhost.declare_queue("short", arguments=Table.of({"x-max-length": 1}))
    channel = peer.connect().channel()

    def publish() -> None:
        """Publish two messages in a turn that has pumped as many queues as it may."""
        for number in (1, 2):
            message = Message(RoutingAddress("", "short"), content_frames(0, b"\0\0", b"%d" % number), 0, 1, 0, False)
            vhost.enqueue([message], 1, False, (short,))
        assert short.dirty and short.ready > 1

    publish()
    assert channel.declare("short", passive=True).message_count == 1
    publish()
    got = channel.get("short")
    assert got is not None and got.body == b"2"
    assert channel.get("short") is None
    publish()
    assert short.purge() == 1
    publish()
    assert vhost.delete_queue(short) == 1


def test_only_publishes_that_may_take_long_wait_for_others_of_the_same_user(peer: TurningPeer, vhost: VHost) -> None:
    fan(vhost)
    queue, exchange = vhost.declare_queue("few"), vhost.exchanges["amq.fanout"]
    peer.add_user("other")
    channel, other = peer.connect().channel(), peer.connect("other", "other").channel()
    unfinished = peer.node.unfinished_of("guest")
    unfinished.begin(LIMIT_BYTES)
    send(peer, channel, frames("", "few", b"short"))
    send(peer, channel, frames("amq.fanout", "", b"long"), frames("", "few", b"behind"))
    assert bodies(queue) == [b"short"] and exchange.publish_in == 0
    with pytest.raises(NotNow):
        operator_of(peer).publish("amq.fanout", "", Properties(), b"long")
    send(peer, other, frames("amq.fanout", "", b"long"))
    assert exchange.publish_in == 1, "of another user"
    unfinished.end(LIMIT_BYTES)
    peer.wait(0)
    assert exchange.publish_in == 2 and bodies(queue) == [b"short", b"behind"]


def operator_of(peer: TurningPeer) -> ManagementChannel:
    return operator_channel(peer.node, peer.node.users.find("guest"))


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("behind", ["", "exchange", "alternate"])
def test_very_many_queues_of_a_copy_are_awaited_too(peer: TurningPeer, vhost: VHost, header: str, behind: str) -> None:
    """The routing key itself leads to no queue, or to few."""
    queues = fan(vhost, 2_000)
    queue = vhost.declare_queue("few")
    alternate = Table.of({"alternate-exchange": "amq.fanout"} if behind == "alternate" else {})
    source = vhost.declare_exchange("source", "direct", arguments=alternate)
    vhost.bind("source", queue, "few", Table.EMPTY)
    if behind == "exchange":
        vhost.bind("source", vhost.exchanges["amq.fanout"], "all", Table.EMPTY)
    for each in queues if not behind else ():
        vhost.bind("source", each, "all", Table.EMPTY)
    # The alternate exchange gets only what reaches nothing at all.
    key = "none" if behind == "alternate" else "few"
    channel = peer.connect().channel()
    unfinished = peer.node.unfinished_of("guest")
    unfinished.begin(LIMIT_BYTES)
    copies: dict[str, object] = {header: ["all"]}
    channel.publish("source", key, b"1", {"headers": copies})
    channel.publish("", "few", b"2")
    peer.settle()
    assert not source.publish_in and not queue.ready
    with pytest.raises(NotNow):
        operator_of(peer).publish("source", key, Properties(headers=Table.of(copies)), b"3", in_slices=True)
    unfinished.end(LIMIT_BYTES)
    peer.wait(0)
    assert source.publish_in == 1 and {each.published for each in queues} == {1}
    assert bodies(queue)[-1] == b"2"


def few(vhost: VHost, *names: str) -> list[Queue]:
    queues = [vhost.declare_queue(name) for name in names]
    for queue in queues:
        vhost.bind("amq.direct", queue, "few", Table.EMPTY)
    return queues


def test_what_no_job_can_finish_waits_for_no_unfinished_publishes(peer: TurningPeer, vhost: VHost) -> None:
    queue, other = few(vhost, "few", "other")
    channel, transactional = peer.connect().channel(), peer.connect().channel()
    channel.confirm()
    transactional.transact()
    peer.node.unfinished_of("guest").begin(LIMIT_BYTES)
    long = b"x" * 1_500_000
    vhost.declare_queue("unique", arguments=Table.of({"x-message-deduplication": True}))
    channel.publish("", "unique", b"", {"headers": {"x-deduplication-header": "v" * 120_000}})
    assert channel.confirms([1]) == ({1}, set()) and vhost.queues["unique"].ready == 1
    channel.publish("", "few", long)
    assert channel.confirms([2]) == ({2}, set()), "it is stored in one queue"
    channel.publish("amq.direct", "none", b"copy", {"headers": {"CC": ["few"], "BCC": ["few"]}})
    channel.publish("", "few", b"expires", {"expiration": "60000"})
    assert channel.confirms([3, 4]) == ({3, 4}, set())
    new = [frames("amq.direct", f"new{number}", b"") for number in range(4)]
    send(peer, channel, *new, frames("", "few", b"behind"))
    assert channel.confirms(range(5, 10)) == (set(range(5, 10)), set())
    together = [frames("amq.direct", "few", b"y" * 10_000)] * 300
    send(peer, channel, *together)
    assert channel.confirms(range(10, 310)) == (set(range(10, 310)), set()), "parts of them are short"
    transactional.publish("", "few", b"committed")
    transactional.call(Tx.Commit)
    found = bodies(queue)
    assert found[:4] == [long, b"copy", b"expires", b"behind"] and found[-1] == b"committed" and len(found) == 305
    assert bodies(other)[:2] == [b"copy", b"y" * 10_000] and other.ready == 301


def test_what_comes_before_a_publish_that_waits_is_published_once(peer: TurningPeer, vhost: VHost) -> None:
    fan(vhost)
    [queue] = few(vhost, "few")
    channel = peer.connect().channel()
    channel.confirm()
    unfinished = peer.node.unfinished_of("guest")
    unfinished.begin(LIMIT_BYTES)
    alike = [frames("", "few", b"1"), frames("", "few", b"2")]
    send(peer, channel, *alike, frames("amq.fanout", "", b"long"), frames("", "few", b"3"), frames("none", "", b""))
    assert bodies(queue) == [b"1", b"2"]
    assert channel.confirms([1, 2]) == ({1, 2}, set())
    unfinished.end(LIMIT_BYTES)
    peer.wait(0)
    assert channel.confirms([3, 4]) == ({3, 4}, set()) and vhost.exchanges["amq.fanout"].publish_in == 1
    channel.expect_close(404)
    assert bodies(queue) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("key", ["", "other"], ids=["alike", "mixed"])
def test_an_alarm_loses_nothing_behind_the_first_publish_that_waits_for_unfinished_ones(
    peer: TurningPeer, vhost: VHost, key: str
) -> None:
    fan(vhost)
    [queue] = few(vhost, "few")
    channel = peer.connect().channel()
    channel.confirm()
    unfinished = peer.node.unfinished_of("guest")
    unfinished.begin(LIMIT_BYTES)
    peer.node.alarms.set(MEMORY)
    send(peer, channel, frames("amq.fanout", "", b""), *[frames("amq.fanout", key, b"")] * 19)
    unfinished.end(LIMIT_BYTES)
    peer.wait(0)
    peer.node.alarms.clear(MEMORY)
    send(peer, channel, frames("", "few", b"21"))
    peer.wait(0)
    assert vhost.exchanges["amq.fanout"].publish_in == 20 and bodies(queue) == [b"21"]
    assert channel.confirms(range(1, 22)) == (set(range(1, 22)), set())


def test_a_long_commit_waits_for_unfinished_publishes(peer: TurningPeer, vhost: VHost) -> None:
    fan(vhost)
    channel = peer.connect().channel()
    channel.transact()
    unfinished = peer.node.unfinished_of("guest")
    channel.publish("amq.fanout", "", b"1")
    channel.publish("amq.fanout", "", b"2")
    unfinished.begin(LIMIT_BYTES)
    channel.send(Tx.Commit)
    peer.settle()
    assert vhost.exchanges["amq.fanout"].publish_in == 0
    unfinished.end(LIMIT_BYTES)
    peer.wait(0)
    assert isinstance(channel.next(), Tx.CommitOk) and vhost.exchanges["amq.fanout"].publish_in == 2


def test_a_long_move_waits_for_unfinished_publishes_and_a_short_one_does_not(peer: TurningPeer, vhost: VHost) -> None:
    fan(vhost)
    [queue] = few(vhost, "few")
    vhost.bind("amq.direct", vhost.exchanges["amq.fanout"], "many", Table.EMPTY)
    channel = peer.connect().channel()
    source = vhost.declare_queue("source")
    vhost.bind("amq.topic", source, "#", Table.EMPTY)
    short, long = Properties(headers=Table.of({"CC": ["few"]})), Properties(headers=Table.of({"CC": ["many"]}))
    operator = operator_of(peer)
    for properties, body in ((short, b"1"), (long, b"2"), (short, b"3")):
        operator.publish("amq.topic", "none", properties, body)
    unfinished = peer.node.unfinished_of("guest")
    unfinished.begin(LIMIT_BYTES)
    step = operator.move("source", "amq.direct", None).step(3)
    assert step.moved == 1 and step.problem and not step.unfinished, "it says how many it has moved"
    with pytest.raises(NotNow):
        operator.move("source", "amq.direct", None).step(3)
    assert bodies(queue) == [b"1"] and source.ready == 2
    unfinished.end(LIMIT_BYTES)
    move = operator.move("source", "amq.direct", None)
    assert move.step(2).unfinished
    peer.wait(0)
    assert move.step(2).moved == 1 and move.step(1).moved == 1
    assert bodies(queue) == [b"1", b"3"] and channel.count("source") == 0


def test_a_connection_that_ends_while_it_waits_is_forgotten(peer: TurningPeer, vhost: VHost) -> None:
    fan(vhost)
    unfinished = peer.node.unfinished_of("guest")
    unfinished.begin(LIMIT_BYTES)
    waiting = [peer.connect().channel() for _ in range(3)]
    for channel in waiting:
        send(peer, channel, frames("amq.fanout", "", b"long"))
    assert len(unfinished._waiting) == 3
    socket_of(waiting[0].client).transport.connection_lost(None)
    peer.server.connections[socket_of(waiting[1].client).transport].close(InternalFault("a bug"))
    peer.settle()
    assert len(unfinished._waiting) == 1
    unfinished.end(LIMIT_BYTES)
    peer.wait(0)
    assert vhost.exchanges["amq.fanout"].publish_in == 1
