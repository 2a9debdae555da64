"""Links in the moments between: one after the other with the same names, a start that was cut short, a channel that the
upstream closes; nothing is lost, left behind, or tried without a pause."""

import gc
from typing import Any
from weakref import ref

import pytest

from tests.support.federation import Place
from tests.support.polling import until, until_steady
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.vhost.observer import Observer
from warren.federation.exchange_link import ExchangeLink
from warren.federation.link import Link
from warren.federation.queue_link import QueueLink

from .conftest import NewProxy

pytestmark = pytest.mark.sockets

UNKNOWN_TAG = 1 << 40  # of a delivery that never was
CONSUMING = 1  # the first channel of a connection


def link_of(down: Place) -> Link:
    (found,) = [link for key, link in down.site.federation.links.items() if key.vhost == down.vhost]
    return found


def close_consuming_channel(down: Place) -> None:
    """The upstream does, by a mistake of the link's."""
    link = link_of(down)
    assert isinstance(link, (ExchangeLink, QueueLink)) and link._connection is not None
    down.site.loop.call(link._connection.transport.ack, CONSUMING, UNKNOWN_TAG, False)


# What comes after a link with the same names


def test_a_link_starts_when_all_before_it_have_ended(up: Place, down: Place, proxied: NewProxy) -> None:
    proxy = proxied(up.site)
    down.linked(up, up.through(proxy.port))
    first = link_of(down)
    proxy.delay_s = 0.3  # so that it takes a while to clean up
    service = down.site.federation

    def change(hops: int) -> None:
        down.upstream("u0", up.through(proxy.port), max_hops=hops)
        down.site.loop.call(service._tick)

    down.clear_policy()
    down.site.loop.call(service._tick)
    assert not first.is_over
    down.policy("^fed", {"federation-upstream-set": "all"})
    down.site.loop.call(service._tick)
    second = link_of(down)
    change(2)
    third = link_of(down)
    assert second is not first and third is not second
    assert not first.is_over and not second.is_over
    until(lambda: first.is_over, "the first has ended")
    proxy.delay_s = 0.0
    down.running()
    assert second.is_over and up.queues() == [down.upstream_queue()] and down.row()["reconnects"] == 0


def test_a_link_that_never_got_there_removes_what_the_one_before_it_left(
    up: Place, down: Place, proxied: NewProxy
) -> None:
    proxy = proxied(up.site)
    down.linked(up, up.through(proxy.port))
    proxy.silence()
    down.upstream("u0", up.through(proxy.port), max_hops=2)
    until(lambda: link_of(down).spec.settings.max_hops == 2, "the next")
    down.clear_policy()
    down.site.loop.call(down.site.federation._tick)
    assert down.upstream_queue() in up.queues() and not down.rows()
    proxy.restore()
    until(lambda: not up.queues(), lambda: f"no queues: {up.queues()}")
    assert up.exchanges() == ["fed.x"]


def test_a_link_that_has_ended_is_not_kept(up: Place, down: Place) -> None:
    down.linked(up)
    service = down.site.federation
    first = ref(link_of(down))
    restart(down)

    def gone() -> bool:
        down.site.loop.call(service._tick)
        gc.collect()
        return first() is None

    until(gone, "the first is gone")


# A start that was cut short


def test_a_start_that_was_cut_short_before_the_queue_was_bound_leaves_no_gap(up: Place, down: Place) -> None:
    here = down.linked(up)
    names = {letter: f"{down.upstream_queue()} {letter}" for letter in "AB"}
    restart(down)
    assert up.exchanges() == ["fed.x", names["A"]]  # so the next is B, of which there is only this:
    up.ch.exchange(names["B"], "x-federation-upstream", durable=True, internal=True, arguments={"x-max-hops": 1})
    witness = Witness(up, down.upstream_queue())
    up.site.loop.call(up.site.node.observers.add, witness)
    try:
        restart(down)
    finally:
        up.site.loop.call(up.site.node.observers.remove, witness)
    assert witness.fed and all(witness.fed)
    up.ch.publish("fed.x", "k", b"after")
    assert down.get(here).body == b"after"


class Witness(Observer):
    """Notes, after each deletion of an exchange upstream, whether publishes still reach the queue."""

    def __init__(self, up: Place, queue: str) -> None:
        self.fed: list[bool] = []
        self._vhost = up.site.node.vhosts[up.vhost]
        self._queue = queue

    def exchange_deleted(self, exchange: Exchange) -> None:
        exchanges = self._vhost.exchanges
        internal = [exchanges[one.destination.name] for one in exchanges["fed.x"].outgoing.values()]
        ends = [one.destination.name for each in internal for one in each.outgoing.values()]
        self.fed.append(self._queue in ends)


def restart(down: Place) -> None:
    before = link_of(down)
    assert down.site.loop.call(lambda: down.site.federation.restart(before.spec.key.id))
    until(lambda: link_of(down) is not before, "another link")
    down.running()


# A channel that the upstream closes


@pytest.mark.parametrize("mode", ["single", "multiple"])
def test_a_link_whose_channel_the_upstream_closes_begins_anew(up: Place, down: Place, mode: str) -> None:
    here = down.linked(up, channel_use_mode=mode)
    close_consuming_channel(down)
    until(lambda: down.row()["reconnects"] == 1, lambda: str(down.row()))
    down.running()
    up.ch.publish("fed.x", "k", b"after")
    assert down.get(here).body == b"after"


def test_a_queue_link_whose_channel_the_upstream_closes_begins_anew(up: Place, down: Place) -> None:
    down.ch.declare("fed.q")
    down.link("^fed", up.inside)
    wanting = down.channel()
    wanting.consume("fed.q", no_ack=True)
    until(lambda: down.row()["state"] == "flowing", lambda: str(down.row()))
    close_consuming_channel(down)
    until(lambda: down.row()["reconnects"] == 1, lambda: str(down.row()))
    down.running()
    up.ch.fill("fed.q", b"after")
    assert wanting.deliveries(1)[0].body == b"after"


# A link that runs and breaks, and runs and breaks


def test_a_queue_link_that_may_not_consume_says_so_and_tries_with_pauses(up: Place, down: Place) -> None:
    up.site.add_user("writer", {up.vhost: (".*", ".*", "^$")})
    down.ch.declare("fed.q")
    up.ch.declare("fed.q")
    down.link("^fed", up.through(up.site.port, user="writer:writer"), reconnect_delay=0.5)
    down.channel().consume("fed.q", no_ack=True)
    until(lambda: "ACCESS_REFUSED" in down.row()["error"], lambda: str(down.row()))
    before = down.row()["reconnects"]
    until_steady(lambda: None, 1.5)
    assert 1 <= down.row()["reconnects"] - before <= 8  # two for each pause


# Queues that go with their last consumer


def test_a_queue_that_goes_with_its_consumer_is_not_left_for_a_moment(up: Place, down: Place) -> None:
    arguments: dict[str, Any] = {"auto_delete": True}
    up.ch.declare("fed.q", **arguments)
    down.ch.declare("fed.q", **arguments)
    down.link("^fed", up.inside)
    first = down.channel()
    first.qos(1)
    first.consume("fed.q")
    until(lambda: down.row()["state"] == "flowing", lambda: str(down.row()))
    queue = up.queue("fed.q")
    second = down.channel()
    second.qos(1000)
    second.consume("fed.q")  # far more is wanted now
    up.ch.fill("fed.q", *(b"%d" % number for number in range(50)))
    first.deliveries(1)
    second.deliveries(49)
    assert up.queue("fed.q") is queue and down.row()["reconnects"] == 0
