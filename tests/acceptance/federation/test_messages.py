"""Scenarios 42 to 51, but for a broker that is killed: what a message is after a link, and which way it goes."""

import time
from typing import Any

import pytest
from pamqp.commands import Basic

from tests.support import codec
from tests.support.amqp_client import Client
from tests.support.codec import Typed
from tests.support.federation import Place, fields, headers
from tests.support.polling import STEADY_S, until, until_steady
from warren.broker.amqp.properties import Properties

from .conftest import NewProxy

pytestmark = pytest.mark.sockets

MANY = 30_000
RETRIES_A_SECOND = 20


def settled(up: Place, down: Place) -> None:
    """Wait until everything is acknowledged upstream."""
    queue = down.upstream_queue()
    until(lambda: up.ready(queue) + up.unacked(queue) == 0, f"{queue} is empty")


HEADERS = {
    "bool": Typed("t", True),
    "byte": Typed("b", -1),
    "unsigned byte": Typed("B", 255),
    "short": Typed("s", -2),
    "unsigned short": Typed("u", 65535),
    "int": Typed("I", -3),
    "unsigned int": Typed("i", 1 << 31),
    "long": Typed("l", 1),
    "float": Typed("f", 1.5),
    "double": Typed("d", 0.1),
    "decimal": Typed("D", (2, 314)),
    "string": Typed("S", "text"),
    "bytes": Typed("x", b"octets"),
    "array": Typed("A", [Typed("l", 1), Typed("S", "two"), Typed("A", [])]),
    "timestamp": Typed("T", 1_700_000_000),
    "table": Typed("F", {"inner": Typed("s", 7)}),
    "void": Typed("V"),
}
PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": HEADERS,
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "correlation",
    "reply_to": "reply",
    "expiration": "60000",
    "message_id": "id",
    "timestamp": 1_700_000_001,
    "type": "type",
    "app_id": "app",
    "cluster_id": "cluster",
}


@pytest.mark.parametrize("way", ["inside", "uri"])
def test_a_message_is_the_same_after_a_link_but_for_where_it_was(up: Place, down: Place, way: str) -> None:
    uri = up.inside if way == "inside" else up.through(up.site.port, "?heartbeat=7")
    here = down.linked(up, uri)
    there = up.listener("fed.x", "k")
    body = bytes(range(256)) * 2000
    up.ch.publish("fed.x", "k", body, PROPERTIES)
    message, original = down.get(here), up.get(there)
    assert (message.body, message.method.exchange, message.method.routing_key) == (body, "fed.x", "k")
    sent, came = Properties.decode(original.property_bytes), Properties.decode(message.property_bytes)
    for name in Properties.FIELDS:
        if name != "headers":
            assert getattr(came, name) == getattr(sent, name) == PROPERTIES.get(name), name
    assert sent.headers is not None and came.headers is not None
    entry = [
        ("uri", ("S", f"amqp://127.0.0.1:{up.site.port}/{up.vhost}" if way == "uri" else up.inside)),
        ("exchange", ("S", "fed.x")),
        ("redelivered", ("t", False)),
        ("cluster-name", ("S", "a")),
        ("vhost", ("S", up.vhost)),
    ]
    more = dict(fields(came.headers))
    assert more.pop("x-received-from") == ("A", [("F", entry)])
    assert list(more.items()) == fields(sent.headers)


def test_the_name_of_the_exchange_is_the_one_it_has_here(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    here = down.listener("fed.x")
    down.link("^fed", up.inside, exchange="other")
    up.bound("other", "")
    up.ch.publish("other", "", b"")
    message = down.get(here)
    ((_, entry),) = headers(message)["x-received-from"][1]
    assert dict(entry)["exchange"] == ("S", "fed.x") and message.method.exchange == "fed.x"


@pytest.mark.parametrize("trusted", [False, True])
def test_a_user_id_comes_along_where_it_is_trusted(up: Place, down: Place, trusted: bool) -> None:
    here = down.linked(up, trust_user_id=trusted)
    user = f"author-{up.vhost}"
    up.site.add_user(user, {up.vhost: (".*", ".*", ".*")})
    author = up.connect(user=user, password=user).channel()
    author.publish("fed.x", "k", b"signed", {"user_id": user, "message_id": "m"})
    came = Properties.decode(down.get(here).property_bytes)
    assert (came.user_id, came.message_id) == (user if trusted else None, "m")


@pytest.mark.parametrize("alternate", [False, True])
def test_what_nobody_here_wants_any_more_is_dropped_or_goes_to_the_alternate_exchange(
    up: Place, down: Place, proxied: NewProxy, alternate: bool
) -> None:
    """A message whose queue was unbound while it was on its way, and one behind it."""
    proxy = proxied(up.site)
    down.ch.exchange("fed.x", "direct", arguments={"alternate-exchange": "amq.fanout"} if alternate else {})
    lost = down.listener("amq.fanout")
    here = down.listener("fed.x", "gone", "stays")
    down.link("^fed", up.through(proxy.port))
    up.bound("fed.x", "gone", "stays")
    proxy.cut()
    down.down()
    up.ch.publish("fed.x", "gone", b"unwanted")
    up.ch.publish("fed.x", "stays", b"wanted")
    up.counted(down.upstream_queue(), 2)
    down.ch.unbind(here, "fed.x", "gone")
    proxy.restore()
    down.running()
    assert down.bodies(here, 1) == [b"wanted"]
    settled(up, down)
    assert down.row()["confirmed"] == 2
    assert down.ch.drain(lost) == ([b"unwanted"] if alternate else [])


# A broker that is killed is in test_broker_restarts.py


def test_what_was_not_acknowledged_comes_again_and_says_so(up: Place, down: Place, proxied: NewProxy) -> None:
    proxy = proxied(up.site)
    here = down.linked(up, up.through(proxy.port))
    full(down, here)
    publish(up, 3)
    until(lambda: up.unacked(down.upstream_queue()) == 3, "unacknowledged")
    proxy.blink()
    until(lambda: down.row()["reconnects"] == 1, "a break")
    emptied(down)
    down.counted(here, 3)
    for number in range(3):
        message = down.get(here)
        ((_, entry),) = headers(message)["x-received-from"][1]
        assert (message.body, dict(entry)["redelivered"]) == (b"%d" % number, ("t", True))


def full(down: Place, queue: str) -> None:
    """Make the queue refuse further messages."""
    down.policy(f"^{queue}$", {"max-length": 0, "overflow": "reject-publish"}, "full", apply_to="queues")


def emptied(down: Place) -> None:
    down.clear_policy("full")


def publish(up: Place, count: int) -> None:
    for number in range(count):
        up.ch.publish("fed.x", "k", b"%d" % number)


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish"])
def test_no_cut_of_the_line_loses_anything(up: Place, down: Place, proxied: NewProxy, mode: str) -> None:
    proxy = proxied(up.site)
    here = down.linked(up, up.through(proxy.port), ack_mode=mode)
    count = 0
    for _ in range(5):
        for _ in range(200):
            up.ch.publish("fed.x", "k", b"%d" % count)
            count += 1
        proxy.blink()
    up.ch.publish("fed.x", "k", b"last")
    down.running()
    settled(up, down)
    assert list(dict.fromkeys(down.ch.drain(here))) == [*(b"%d" % number for number in range(count)), b"last"]


def test_without_acknowledgements_none_is_sent(up: Place, down: Place) -> None:
    here = down.linked(up, ack_mode="no-ack", prefetch_count=5)
    queue = up.queue(down.upstream_queue())
    (consumer,) = up.look(lambda vhost: list(queue.consumers.all))
    assert consumer.no_ack
    hopped = {"headers": {"x-received-from": [{"uri": "amqp://elsewhere"}]}}
    for number in range(50):
        # Past the internal exchange, which would drop it.
        up.ch.publish("", down.upstream_queue(), b"has been somewhere", hopped)
        up.ch.publish("fed.x", "k", b"%d" % number)
    assert down.bodies(here, 50) == [b"%d" % number for number in range(50)]
    row = down.row()
    assert (row["status"], row["reconnects"], row["dropped_max_hops"]) == ("running", 0, 50)


def test_what_has_hopped_enough_is_dropped_and_acknowledged(up: Place, down: Place) -> None:
    here = down.linked(up, key="#", max_hops=2)
    origin = {"cluster-name": down.site.name, "vhost": down.vhost}
    for body, entries in ((b"two", [{"uri": "1"}, {"uri": "2"}]), (b"back", [origin]), (b"one", [{"uri": "1"}])):
        up.ch.publish("", down.upstream_queue(), body, {"headers": {"x-received-from": entries}})
    assert down.bodies(here, 1) == [b"one"]
    settled(up, down)
    row = down.row()
    assert (row["dropped_max_hops"], row["dropped_seen"], row["forwarded"]) == (1, 1, 1)


def test_what_a_full_queue_refuses_stays_upstream_and_is_not_tried_all_the_time(up: Place, down: Place) -> None:
    here = down.linked(up, prefetch_count=10)
    down.policy(f"^{here}$", {"max-length": 2, "overflow": "reject-publish"}, "full", apply_to="queues")
    publish(up, 20)
    down.counted(here, 2)
    until(lambda: down.row()["state"] == "blocked", lambda: str(down.row()))
    began_s, nacked = time.monotonic(), down.row()["nacked"]
    until_steady(lambda: down.ready(here), 3 * STEADY_S)
    tries = (down.row()["nacked"] - nacked) / (time.monotonic() - began_s)
    assert tries < RETRIES_A_SECOND
    assert up.ready(down.upstream_queue()) + up.unacked(down.upstream_queue()) == 18
    assert down.row()["reason"]
    bodies: list[bytes] = []

    def more() -> int:
        bodies.extend(down.ch.drain(here))
        return len(bodies)

    until(lambda: more() == 20, lambda: str(bodies))
    assert bodies == [b"%d" % number for number in range(20)]
    settled(up, down)


def test_no_more_than_the_prefetch_is_under_way(up: Place, down: Place) -> None:
    here = down.linked(up, prefetch_count=10)
    full(down, here)
    publish(up, 50)
    until(lambda: up.ready(down.upstream_queue()) + up.unacked(down.upstream_queue()) == 50, "all in the queue")
    until_steady(lambda: up.unacked(down.upstream_queue()))
    assert 1 <= up.unacked(down.upstream_queue()) <= 10
    emptied(down)
    down.counted(here, 50)
    settled(up, down)


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_while_this_broker_is_low_on_something_the_backlog_stays_upstream(
    everywhere: list[Place], resource: str
) -> None:
    up, down, _ = everywhere
    here = down.linked(up, up.uri, prefetch_count=10)
    alarms = down.site.node.alarms
    down.site.loop.call(alarms.set, resource)
    try:
        publish(up, 50)
        up.ch.sync()
        until(lambda: down.row()["state"] == "blocked", lambda: str(down.row()))
        assert resource in down.row()["reason"]
        (queue,) = up.queues()
        until_steady(lambda: down.ready(here))
        assert down.ready(here) == 0 and up.ready(queue) >= 40
    finally:
        down.site.loop.call(alarms.clear, resource)
    assert down.bodies(here, 50) == [b"%d" % number for number in range(50)]
    assert down.row()["state"] == "flowing"


@pytest.mark.timeout(120)
def test_many_messages_come_once_and_in_order(everywhere: list[Place]) -> None:
    up, down, _ = everywhere
    here = down.linked(up, up.uri)
    consumer = down.channel()
    consumer.consume(here, no_ack=True)
    method = codec.method_frame(up.ch.number, Basic.Publish, {"exchange": "fed.x", "routing_key": "k"})
    expected = [b"%06d" % number for number in range(MANY)]
    header = method + codec.header_frame(up.ch.number, len(expected[0]))
    for start in range(0, MANY, 1000):
        bodies = expected[start : start + 1000]
        up.ch.client.raw(b"".join([header + codec.frame(codec.BODY, up.ch.number, body) for body in bodies]))
    assert raw_bodies(consumer.client, MANY) == expected
    consumer.nothing(here)
    until(lambda: down.row()["confirmed"] == MANY, lambda: str(down.row()))
    assert down.row()["forwarded"] == MANY


def raw_bodies(client: Client, count: int) -> list[bytes]:
    """Return the bodies of `count` messages of one frame each, without parsing anything else."""
    data, at = bytearray(), 0
    bodies: list[bytes] = []
    while len(bodies) < count:
        data += client.pipe.receive(None)
        while len(data) - at > codec.FRAME_OVERHEAD:
            end = at + int.from_bytes(data[at + 3 : at + 7], "big") + codec.FRAME_OVERHEAD
            if end > len(data):
                break
            if data[at] == codec.BODY:
                bodies.append(bytes(data[at + 7 : end - 1]))
            at = end
    return bodies
