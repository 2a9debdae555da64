"""Scenarios 33 to 41: what the exchange here is bound for, the one upstream is bound for, and no more.

What a link does with one channel it does with two; those that are marked run with both.
"""

import random
import threading
import time
from typing import Any

import pytest

from tests.support.codec import Typed
from tests.support.federation import Place, fields
from tests.support.polling import WITHIN_S, until, until_steady
from warren.broker.amqp.field_table import Table
from warren.broker.core.vhost.vhost import VHost
from warren.federation.exchange_link import ExchangeLink
from warren.federation.upstream.errors import LinkError

from .conftest import NewProxy

pytestmark = pytest.mark.sockets

modes = pytest.mark.parametrize("mode", ["multiple", "single"])
CROWD = 3_000
ROUND_TRIP_S = 0.05  # one binding after the other would take CROWD of these, longer than a test may


def link(up: Place, down: Place, type_: str = "topic", **settings: Any) -> None:
    down.ch.exchange("fed.x", type_)
    down.link("^fed", up.inside, **settings)


@modes
def test_without_a_binding_here_nothing_is_brought(up: Place, down: Place, mode: str) -> None:
    link(up, down, channel_use_mode=mode)
    up.ch.publish("fed.x", "k", b"for nobody")
    up.ch.sync()
    assert up.ready(down.upstream_queue()) == 0 and up.bindings("fed.x") == []
    here = down.listener("fed.x", "k")
    up.bound("fed.x", "k")
    up.ch.publish("fed.x", "k", b"for somebody")
    assert down.bodies(here, 1) == [b"for somebody"]
    assert down.row()["forwarded"] == 1


@modes
def test_a_bound_key_is_bound_upstream_and_messages_flow(up: Place, down: Place, mode: str) -> None:
    link(up, down, channel_use_mode=mode, max_hops=3)
    here = down.listener("fed.x", "k")
    up.bound("fed.x", "k")
    ((destination, key, arguments),) = up.bindings("fed.x")
    assert (destination, key) == (f"{down.upstream_queue()} B", "k")
    entry = [
        ("cluster-name", ("S", "a")),
        ("vhost", ("S", down.vhost)),
        ("exchange", ("S", f"{down.vhost}:fed.x B")),
        ("hops", ("s", 3)),
    ]
    assert fields(arguments) == [("x-bound-from", ("A", [("F", entry)]))]
    up.ch.publish("fed.x", "k", b"flows")
    assert down.bodies(here, 1) == [b"flows"]
    down.ch.unbind(here, "fed.x", "k")
    up.bound("fed.x")


def test_a_binding_ends_with_its_queue_however_that_ends(up: Place, down: Place) -> None:
    link(up, down)
    owner = down.connect()
    channel = owner.channel()
    channel.declare("exclusive", exclusive=True)
    channel.bind("exclusive", "fed.x", "exclusive")
    channel.declare("expires", arguments={"x-expires": 100})
    used = channel.consume("expires")
    channel.bind("expires", "fed.x", "expires")
    down.listener("fed.x", "deleted", queue="deleted")
    down.ch.exchange("inner", "fanout")
    down.ch.bind_exchange("inner", "fed.x", "inner")
    up.bound("fed.x", "deleted", "exclusive", "expires", "inner")
    channel.cancel(used)
    owner.close()
    down.ch.delete("deleted")
    down.ch.delete_exchange("inner")
    up.bound("fed.x")


@modes
def test_a_binding_to_an_exchange_is_one_as_well(up: Place, down: Place, mode: str) -> None:
    link(up, down, channel_use_mode=mode)
    down.ch.exchange("inner", "fanout")
    down.ch.bind_exchange("inner", "fed.x", "a.#")
    here = down.listener("inner", "not of the first hop")
    up.bound("fed.x", "a.#")
    up.ch.publish("fed.x", "a.b", b"through both")
    assert down.bodies(here, 1) == [b"through both"]
    down.ch.unbind_exchange("inner", "fed.x", "a.#")
    up.bound("fed.x")


@pytest.mark.parametrize("match", ["any", "all", "any-with-x", "all-with-x"])
def test_headers_are_matched_upstream_as_they_are_here(up: Place, down: Place, match: str) -> None:
    link(up, down, "headers")
    here = down.ch.declare("here").queue
    down.ch.bind(here, "fed.x", arguments={"x-match": match, "one": 1, "two": Typed("l", 2)})
    up.bound("fed.x", "")
    ((_, _, arguments),) = up.bindings("fed.x")
    assert fields(arguments)[:3] == [("x-match", ("S", match)), ("one", ("I", 1)), ("two", ("l", 2))]
    for body, sent in ((b"both", {"one": 1, "two": 2}), (b"one", {"one": 1}), (b"none", {"one": 2})):
        up.ch.publish("fed.x", "", body, {"headers": sent})
    expected = [b"both", b"one"] if match.startswith("any") else [b"both"]
    assert down.bodies(here, len(expected)) == expected
    assert down.row()["forwarded"] == len(expected)


@modes
@pytest.mark.parametrize("seed", range(3))
def test_bindings_made_while_the_link_starts_are_neither_lost_nor_left(
    up: Place, down: Place, seed: int, mode: str
) -> None:
    dice = random.Random(seed)
    down.ch.exchange("fed.x", "topic")
    for number in range(5):
        down.ch.declare(f"q{number}")

    def change(vhost: VHost) -> None:
        for _ in range(dice.randint(1, 40)):
            act = vhost.bind if dice.random() < 0.6 else vhost.unbind
            act("fed.x", vhost.queues[f"q{dice.randrange(5)}"], f"k{dice.randrange(30)}", Table.EMPTY)

    down.federate("^fed", up.uri, channel_use_mode=mode)
    changes = 0
    while changes < 60 or not any(row["status"] == "running" for row in down.rows()):
        down.act(change, down.site.node.vhosts[down.vhost])
        changes += 1
        assert changes < 5000, down.rows()
    wanted = sorted({key for _, key, _ in down.bindings("fed.x")})
    up.bound("fed.x", *wanted)
    until_steady(lambda: up.keys("fed.x"))
    assert up.keys("fed.x") == wanted
    assert down.row()["reconnects"] == 0


@modes
def test_bindings_that_changed_while_the_link_was_down_are_put_right(
    up: Place, down: Place, proxied: NewProxy, mode: str
) -> None:
    proxy = proxied(up.site)
    down.ch.exchange("fed.x", "topic")
    here = down.listener("fed.x", "kept", "dropped")
    down.link("^fed", up.through(proxy.port), channel_use_mode=mode)
    up.bound("fed.x", "dropped", "kept")
    letters = ["B"]
    for number in range(3):
        proxy.cut()
        down.down()
        down.ch.unbind(here, "fed.x", "dropped" if number == 0 else f"new{number - 1}")
        down.ch.bind(here, "fed.x", f"new{number}")
        proxy.restore()
        down.running()
        up.bound("fed.x", "kept", f"new{number}")
        (internal,) = [name for name in up.exchanges() if name.startswith(down.upstream_queue())]
        letters.append(internal[-1])
    assert letters == ["B", "A", "B", "A"]


@modes
@pytest.mark.parametrize("executed", [True, False], ids=["executed", "not_executed"])
def test_a_key_stays_bound_where_the_link_breaks_while_it_deletes_the_old_exchange(
    up: Place, down: Place, mode: str, executed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = ExchangeLink._delete_exchange
    up.ch.exchange("fed.x", "direct")
    source = up.look(lambda vhost: vhost.exchanges["fed.x"])
    bound: list[int] = []
    breaks = [LinkError("it broke")]

    async def broken_delete(link: ExchangeLink, connection: Any, name: str) -> None:
        broken = bool(bound) and bool(breaks)
        if executed or not broken:
            await delete(link, connection, name)
        bound.append(len(source.outgoing))
        if broken:
            raise breaks.pop()

    down.linked(up, up.uri, channel_use_mode=mode)
    monkeypatch.setattr(ExchangeLink, "_delete_exchange", broken_delete)
    for count in range(3):
        up.act(lambda: up.site.host.close_connections(lambda one: one.client_name.startswith("Federation"), "bye"))
        until(lambda count=count: down.row()["reconnects"] > count, lambda: str(down.row()))
        down.running()
    assert not breaks and len(bound) >= 4
    assert min(bound) > 0, bound
    up.bound("fed.x", "k")


def test_a_key_that_stays_bound_misses_nothing_and_nothing_comes_twice(
    up: Place, down: Place, proxied: NewProxy
) -> None:
    proxy = proxied(up.site)
    here = down.linked(up, up.through(proxy.port))
    publisher = Publisher(up)
    for _ in range(4):
        proxy.cut()
        down.down()
        publisher.start()
        until(lambda: up.ready(down.upstream_queue()) > 0, "a message that waits")
        proxy.restore()
        down.running()
        down.counted(here, publisher.stop())
        until(lambda: down.row()["unconfirmed"] == 0, lambda: str(down.row()))
        until(lambda: up.unacked(down.upstream_queue()) == 0, "all acknowledged")
    assert down.ch.drain(here) == [b"%d" % number for number in range(publisher.published)]


class Publisher:
    """A publisher of consecutive numbers, until it is stopped."""

    def __init__(self, place: Place, exchange: str = "fed.x", key: str = "k") -> None:
        self.published = 0
        self._channel = place.channel()
        self._at = (exchange, key)
        self._going = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._going = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Return the number of published messages, once the broker has them all."""
        self._going = False
        assert self._thread is not None
        self._thread.join(WITHIN_S)
        self._channel.sync()
        return self.published

    def _run(self) -> None:
        while self._going:
            self._channel.publish(*self._at, b"%d" % self.published)
            self.published += 1
            time.sleep(0.001)


@pytest.mark.parametrize("nowait", [True, False])
def test_many_bindings_cross_a_slow_line_while_messages_flow(
    up: Place, down: Place, proxied: NewProxy, nowait: bool
) -> None:
    proxy = proxied(up.site)
    proxy.delay_s = ROUND_TRIP_S / 2
    down.ch.exchange("fed.x", "direct")
    here = down.listener("fed.x", "first")
    crowd = str(down.ch.declare("crowd").queue)
    down.link("^fed", up.through(proxy.port), bind_nowait=nowait)
    up.bound("fed.x", "first")

    def bind(vhost: VHost) -> None:
        for number in range(CROWD):
            vhost.bind("fed.x", vhost.queues[crowd], f"k{number}", Table.EMPTY)

    down.look(bind)
    flowed = 0
    for number in range(CROWD):
        up.ch.publish("fed.x", "first", b"%d" % number)
        assert down.get(here).body == b"%d" % number
        if len(up.keys("fed.x")) == CROWD + 1:
            break
        flowed += 1
    # A message crosses the line once and a binding there and back: bindings that cross it one after the other would
    # leave time for two messages each.
    assert 0 < flowed < CROWD // 2, "messages while the bindings were on their way"
    up.ch.publish("fed.x", f"k{CROWD - 1}", b"the last")
    assert down.get(crowd).body == b"the last"
