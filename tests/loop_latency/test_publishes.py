"""Publishes hold no step of the loop, however much each of them costs: routes, copies, properties, frames."""

from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support import codec
from tests.support.in_process import socket_of
from warren.broker.amqp.field_table import Table
from warren.broker.core.exchanges.router import FEW
from warren.broker.core.jobs.unfinished_publishes import LIMIT_BYTES
from warren.broker.core.messages.message import Message
from warren.broker.core.queues import ready_messages
from warren.broker.core.queues.route_target import PER_MESSAGE_COST, RouteTarget
from warren.broker.core.vhost.vhost import VHost
from warren.broker.net import transport
from warren.broker.session.methods import publish
from warren.broker.session.methods.publish import may_take_long

from .broker import MeasuredPeer, StepMeter

QUEUES = 2_000
PUBLISHES = 150
Messages = list[Message]
Targets = tuple[RouteTarget, ...]
NO_LIMIT = {"x-max-length": 0}  # such queues keep nothing, so that the test needs little memory


def frames(exchange: str, key: str, properties: dict[str, object] | None = None, body: bytes = b"x") -> bytes:
    publish = {"exchange": exchange, "routing_key": key, "mandatory": False, "immediate": False}
    content = codec.header_frame(1, len(body), properties or {}) + codec.body_frames(1, body, 1 << 17)
    return codec.method_frame(1, Basic.Publish, publish) + content


def bound(peer: MeasuredPeer, exchange: str, type_: str, key: str = "k", count: int = QUEUES) -> None:
    vhost = peer.node.vhosts["/"]
    vhost.declare_exchange(exchange, type_)
    for number in range(count):
        vhost.bind(exchange, vhost.declare_queue(f"q{number}", arguments=Table.of(NO_LIMIT)), key, Table.EMPTY)


def send(peer: MeasuredPeer, meter: StepMeter, data: bytes, transactional: bool = False) -> None:
    """Send it as one read of a channel with confirms or with a transaction, and check that all is published."""
    client = peer.connect()
    channel = client.channel()
    if transactional:
        channel.transact()
    else:
        channel.confirm()
    meter.begin()
    socket_of(client).incoming += data
    peer.settle()
    if transactional:
        channel.commit()
    peer.wait(0)


SHAPES = ["one key", "many keys", "CC", "headers"]


def publishes(exchange: str, shape: str) -> bytes:
    """Publishes that are one run, a mixed run, routed one by one, and a run with different headers."""
    if shape == "one key":
        return frames(exchange, "k") * PUBLISHES
    if shape == "many keys":
        return b"".join([frames(exchange, f"k{number % 50}") for number in range(PUBLISHES)])
    if shape == "CC":
        return frames(exchange, "k", {"headers": {"CC": ["k", "l"]}}) * PUBLISHES
    return b"".join([frames(exchange, "k", {"headers": {"n": "x" * (n % 7)}}) for n in range(PUBLISHES)])


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("type_", ["fanout", "x-consistent-hash"])
def test_publishes_to_very_many_queues(
    peer: MeasuredPeer, step_meter: StepMeter, type_: str, shape: str, transactional: bool
) -> None:
    bound(peer, "x", type_, "7")
    data = publishes("x", shape)
    for _ in step_meter.attempts():
        send(peer, step_meter, data, transactional)
    expected = PUBLISHES * (QUEUES if type_ == "fanout" else 1)
    assert sum(queue.published for queue in peer.node.vhosts["/"].queues.values()) % expected == 0


@pytest.mark.pure("it replaces a method of a compiled class")
@pytest.mark.parametrize("shape", ["one key", "many keys", "headers"])
@pytest.mark.parametrize("queues", [400, QUEUES])
def test_publishes_to_very_many_queues_are_enqueued_together(peer: MeasuredPeer, queues: int, shape: str) -> None:
    """Each queue gets them in few parts, so that it is pumped few times, though the routes are searched one by one."""
    bound(peer, "x", "fanout", count=queues)
    vhost = peer.node.vhosts["/"]
    enqueue, pushes = vhost.enqueue, 0

    def count(messages: Messages, body_bytes: int, persistent: bool, targets: Targets, *rest: Any, **more: Any) -> Any:
        nonlocal pushes
        pushes += len(targets)
        return enqueue(messages, body_bytes, persistent, targets, *rest, **more)

    vhost.enqueue = count  # type: ignore[method-assign]
    send(peer, StepMeter(), publishes("x", shape))
    assert sum(queue.published for queue in vhost.queues.values()) == PUBLISHES * queues
    assert pushes <= 4 * queues


def test_mixed_publishes_to_very_many_queues_stay_in_order_and_a_refused_one_ends_them(peer: MeasuredPeer) -> None:
    """Runs to very many queues, to one queue and to none follow each other; the topology changes meanwhile."""
    bound(peer, "x", "fanout", count=500)
    vhost = peer.node.vhosts["/"]
    for queue in ("kept", "other"):
        vhost.bind("x", vhost.declare_queue(queue), "", Table.EMPTY)
    client = peer.connect()
    channel = client.channel()
    kinds = ["x", "x", "", "x", "amq.fanout"]
    bodies = [b"%03d" % number for number in range(300)]
    publishing = [
        frames(kinds[number % 5], "kept" if not kinds[number % 5] else f"k{number % 70}", body=body)
        for number, body in enumerate(bodies)
    ]
    socket_of(client).incoming += b"".join(publishing) + frames("missing", "k")
    peer.settle()
    vhost.delete_queue(vhost.queues["other"])
    peer.wait(0)
    kept = [message.body for message in vhost.queues["kept"].ready_messages.default.fresh]
    assert kept == [body for number, body in enumerate(bodies) if number % 5 != 4]
    assert vhost.queues["q0"].published == 3 * len(bodies) // 5
    channel.expect_close(404)


@pytest.mark.parametrize("shape", SHAPES)
def test_publishes_through_very_many_exchanges(peer: MeasuredPeer, step_meter: StepMeter, shape: str) -> None:
    vhost = peer.node.vhosts["/"]
    for number in range(QUEUES):
        vhost.declare_exchange(f"x{number}", "fanout")
        if number:
            vhost.bind(f"x{number - 1}", vhost.exchanges[f"x{number}"], "", Table.EMPTY)
    vhost.bind(f"x{QUEUES - 1}", vhost.declare_queue("q"), "", Table.EMPTY)
    for _ in step_meter.attempts():
        send(peer, step_meter, publishes("x0", shape))
    assert vhost.queues["q"].ready % PUBLISHES == 0


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 50}])
def test_very_many_publishes_that_are_enqueued_one_by_one(
    step_meter: StepMeter, arguments: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has another time to live. They come in one piece on a connection whose earlier input took little time."""
    monkeypatch.setattr(transport, "FIRST_PIECE", transport.MAX_PIECE)
    data = b"".join([frames("", "q", {"expiration": f"{number}", "priority": 5}) for number in range(10_000, 14_500)])
    for peer in step_meter.peers():
        peer.node.vhosts["/"].declare_queue("q", durable=True, arguments=Table.of(arguments))
        send(peer, step_meter, data)
        assert peer.node.vhosts["/"].queues["q"].published == 4_500


def test_methods_between_publishes_whose_dead_letters_go_to_very_many_queues(step_meter: StepMeter) -> None:
    """Queues are pumped before each of them."""
    for peer in step_meter.peers():
        bound(peer, "letters", "fanout", count=400)
        arguments = NO_LIMIT | {"x-dead-letter-exchange": "letters"}
        peer.node.vhosts["/"].declare_queue("q", arguments=Table.of(arguments))
        cancel = codec.method_frame(1, Basic.Cancel, {"consumer_tag": "unknown", "nowait": True})
        send(peer, step_meter, (frames("", "q", body=b"") + cancel) * 40)
        assert peer.node.vhosts["/"].queues["q0"].published == 40


def test_the_order_of_publishes_stays_where_the_rest_waits_for_a_later_turn(peer: MeasuredPeer, vhost: VHost) -> None:
    bound(peer, "x", "fanout", count=100)
    kept = vhost.declare_queue("kept")
    vhost.bind("x", kept, "", Table.EMPTY)
    client = peer.connect()
    channel = client.channel()
    channel.confirm()
    bodies = [b"%04d" % number for number in range(1_000)]
    socket_of(client).incoming += b"".join([frames("x", f"k{int(body) // 100 % 2}", body=body) for body in bodies])
    peer.wait(0)
    assert [message.body for message in kept.ready_messages.default.fresh] == bodies
    assert channel.confirms(range(1, 1_001)) == (set(range(1, 1_001)), set())


def test_a_body_in_frames_of_one_byte_is_moved_on_and_delivered_as_one(
    peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost
) -> None:
    """The message is dead-lettered, fetched and delivered on another channel, each of which copies the body."""
    size = 100_000
    vhost.declare_queue("dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    vhost.declare_queue("q", arguments=Table.of(letters))
    publish = codec.method_frame(1, Basic.Publish, {"exchange": "", "routing_key": "q"})
    one = codec.body_frames(1, b"x", 1 << 17)
    for _ in step_meter.attempts():
        client = peer.connect()
        client.channel()
        step_meter.begin()
        socket_of(client).incoming += publish + codec.header_frame(1, size, {}) + one * size
        peer.settle()
        channel = client.channel()
        channel.reject_next("q")
        content = channel.get("dead")
        assert content is not None and content.body == b"x" * size
        client.close()


def test_the_confirms_of_very_many_publishes_of_which_every_other_is_refused(
    peer: MeasuredPeer, step_meter: StepMeter
) -> None:
    """They become due together, as after a disk that has stood still."""
    client = peer.connect()
    channel = client.channel()
    channel.confirm()
    connection = peer.server.connections[socket_of(client).transport]
    session = connection.channels[channel.number]
    confirms = session.confirms
    count = 30_000
    first = 1
    for _ in step_meter.attempts():
        for _ in range(count // 2):
            confirms.refused(0)
            confirms.published(1, 0, 0)
        step_meter.begin()
        peer.loop.call_soon(session.send_confirms)
        peer.wait(0)
        settled = channel.confirms(range(first, first + count))
        assert settled == (set(range(first + 1, first + count, 2)), set(range(first, first + count, 2)))
        first += count


@pytest.mark.pure("it lowers a constant of the core, so that few messages are needed")
def test_publishes_to_many_queues_that_page_them_out(
    step_meter: StepMeter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each queue stores a copy of each message, once the memory for messages is used up."""
    monkeypatch.setattr(ready_messages, "PAGE_ABOVE", 0)
    for peer in step_meter.stored_peers(tmp_path, message_memory_bytes=1):
        vhost = peer.node.vhosts["/"]
        for number in range(400):
            vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}"), "", Table.EMPTY)
        client = peer.connect()
        client.channel()
        socket_of(client).incoming += frames("amq.fanout", "") * 2
        peer.settle()
        step_meter.begin()
        socket_of(client).incoming += frames("amq.fanout", "") * 100
        peer.settle()
        assert vhost.queues["q0"].paged and vhost.queues["q0"].ready == 102


@pytest.mark.parametrize("way", ["time to live", "expiration", "transaction"])
def test_a_long_message_that_each_of_many_queues_stores(step_meter: StepMeter, tmp_path: Path, way: str) -> None:
    body = bytes(2 << 20)
    properties: dict[str, object] = {"delivery_mode": 2}
    if way == "expiration":
        properties["expiration"] = "60000"
    arguments = {"x-message-ttl": 60_000} if way != "expiration" else {}
    for peer in step_meter.stored_peers(tmp_path):
        vhost = peer.node.vhosts["/"]
        for number in range(20):
            queue = vhost.declare_queue(f"q{number}", durable=True, arguments=Table.of(arguments))
            vhost.bind("amq.fanout", queue, "", Table.EMPTY)
        peer.settle()
        step_meter.begin()
        send(peer, step_meter, frames("amq.fanout", "k", properties, body), way == "transaction")
        assert {queue.ready for queue in vhost.queues.values()} == {1}


def test_a_transaction_of_publishes_to_very_many_queues(peer: MeasuredPeer, step_meter: StepMeter) -> None:
    bound(peer, "x", "fanout", count=10_000)
    data = frames("x", "k") * 100
    for _ in step_meter.attempts():
        client = peer.connect()
        channel = client.channel()
        channel.transact()
        step_meter.begin()
        socket_of(client).incoming += data
        peer.settle()
        peer.wait(0)
        channel.rollback()
        client.close()


KEYS = [f"{number:0120}" for number in range(1_000)]  # as many as one header takes


@pytest.mark.parametrize(
    ("key", "properties", "count"),
    [
        ("none", {"headers": {"CC": ["durable"]}, "delivery_mode": 2}, 100),
        ("none", {"headers": {"CC": ["unique"]}}, 100),
        ("none", {"headers": {"CC": ["very many"]}}, 100),
        ("durable", {"headers": {"h": "CC" + "v" * 120_000}}, 5),
        ("unique", {"headers": {"CC": KEYS}}, 5),
        ("unique", {"expiration": "60000", "headers": {"CC": ["unique"]}}, 500),
        ("none", {"headers": {"h": "v"}}, 2_000),
        ("durable", {"delivery_mode": 2}, 500),
    ],
)
def test_no_look_at_what_waits_for_unfinished_publishes_holds_a_turn(
    peer: MeasuredPeer, step_meter: StepMeter, key: str, properties: dict[str, object], count: int
) -> None:
    vhost, unfinished = peer.node.vhosts["/"], peer.node.unfinished_of("guest")
    vhost.declare_exchange("x", "direct")
    for number in range(FEW):
        # Each durable queue has a record of its own.
        durable = Table.of({"x-message-ttl": 1_000_000 + number, "x-max-length": 1})
        vhost.bind("x", vhost.declare_queue(f"d{number}", durable=True, arguments=durable), "durable", Table.EMPTY)
    for number in range(30):
        unique = Table.of({"x-message-deduplication": True, **NO_LIMIT})
        vhost.bind("x", vhost.declare_queue(f"u{number}", arguments=unique), "unique", Table.EMPTY)
    bound(peer, "many", "fanout")
    vhost.bind("x", vhost.exchanges["many"], "very many", Table.EMPTY)
    for _ in step_meter.attempts():
        before = vhost.exchanges["x"].publish_in
        unfinished.begin(LIMIT_BYTES)
        send(peer, step_meter, frames("x", key, properties) * count)
        unfinished.end(LIMIT_BYTES)
        peer.wait(0)
        assert vhost.exchanges["x"].publish_in == before + count and not unfinished.full


def test_of_publishes_that_wait_only_those_are_looked_at_that_are_next(
    peer: MeasuredPeer, step_meter: StepMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    vhost, unfinished = peer.node.vhosts["/"], peer.node.unfinished_of("guest")
    vhost.declare_exchange("x", "fanout")
    for number in range(FEW // PER_MESSAGE_COST):
        queue = vhost.declare_queue(f"q{number}", arguments=Table.of({"x-overflow": "reject-publish", **NO_LIMIT}))
        vhost.bind("x", queue, "", Table.EMPTY)
    looks = 0

    def look(*arguments: Any) -> bool:
        nonlocal looks
        looks += 1
        return may_take_long(*arguments)

    monkeypatch.setattr(publish, "may_take_long", look)
    unfinished.begin(LIMIT_BYTES)
    send(peer, step_meter, frames("x", "") * PUBLISHES)
    assert vhost.exchanges["x"].publish_in == PUBLISHES == looks


COSTLY = "^[0-9].*(x+x+)+[yz]|^[0-9]"  # 1.5 ms for a name of 250 characters


@pytest.mark.parametrize("part", ["topic", "name"])
def test_searches_of_patterns_of_permissions(peer: MeasuredPeer, step_meter: StepMeter, part: str) -> None:
    """No key or name is that of a search before."""
    users, vhost = peer.node.users, peer.node.vhosts["/"]
    if part == "topic":
        users.set_topic_permission("guest", "/", "amq.topic", COSTLY, "")
    else:
        users.set_permission("guest", "/", COSTLY, ".*", ".*")
    made: list[str] = []
    for _ in step_meter.attempts():
        names = [f"{len(made) + number:05}".ljust(250, "x") for number in range(100)]
        made.extend(names)
        client = peer.connect()
        client.channel()
        step_meter.begin()
        if part == "topic":
            socket_of(client).incoming += b"".join([frames("amq.topic", name) for name in names])
        else:
            declares = [{"queue": name, "nowait": True} for name in names]
            socket_of(client).incoming += b"".join([codec.method_frame(1, Queue.Declare, each) for each in declares])
        peer.settle()
        assert vhost.exchanges["amq.topic"].publish_in + len(vhost.queues) == len(made)
        client.close()
