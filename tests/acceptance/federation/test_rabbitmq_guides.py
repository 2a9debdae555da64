"""Promises of RabbitMQ's guides to federated exchanges and queues that the files of their subjects do not test."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.federation import Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until, until_steady
from warren.broker.amqp.field_table import Table, Value

from .conftest import NewPlaces, NewProxy


def linked(up: Place, down: Place, type_: str = "direct", key: str = "k", uri: str = "", **arguments: Any) -> str:
    """A queue here that gets what is published upstream."""
    down.ch.exchange("fed.x", type_)
    here = f"of {type_}"
    down.ch.declare(here)
    down.ch.bind(here, "fed.x", key, arguments=arguments)
    down.link("^fed", uri or up.inside)
    up.bound("fed.x", key)
    return here


@pytest.mark.sockets
def test_upstreams_need_no_configuration(up: Place, down: Place) -> None:
    up.ch.exchange("fed.x", "direct")
    up.ch.declare("fed.q")
    before = up.exchange("fed.x"), up.queue("fed.q")
    down.ch.declare("fed.q")
    down.ch.exchange("fed.x", "direct")
    here = down.listener("fed.x", "k")
    down.link("^fed", up.inside, count=2)
    up.bound("fed.x", "k")
    up.ch.publish("fed.x", "k", b"copied")
    assert down.get(here).body == b"copied"
    wanting = down.channel()
    wanting.consume("fed.q", no_ack=True)
    up.ch.fill("fed.q", b"moved")
    assert wanting.deliveries(1)[0].body == b"moved"
    assert (up.exchange("fed.x"), up.queue("fed.q")) == before
    assert not up.act(up.site.node.parameters.all, up.vhost) and not up.rows()


@pytest.mark.sockets
def test_one_exchange_feeds_several_brokers(everywhere: list[Place]) -> None:
    up, *downs = everywhere
    queues = []
    for down in downs:
        down.ch.exchange("fed.x", "direct")
        queues.append(down.listener("fed.x", "k"))
        down.link("^fed", up.uri)
    up.bound("fed.x", "k", "k")
    up.ch.publish("fed.x", "k", b"for both")
    for down, queue in zip(downs, queues, strict=True):
        assert down.bodies(queue, 1) == [b"for both"]


@pytest.mark.sockets
def test_who_binds_does_not_wait_for_the_upstream(up: Place, down: Place, proxied: NewProxy) -> None:
    proxy = proxied(up.site)
    here = linked(up, down, uri=up.through(proxy.port))
    proxy.silence()
    down.ch.bind(here, "fed.x", "later")  # is answered
    assert up.keys("fed.x") == ["k"]
    proxy.restore()
    up.bound("fed.x", "k", "later")


@pytest.mark.sockets
def test_what_is_published_here_does_not_go_upstream(up: Place, down: Place) -> None:
    here = linked(up, down)
    there = up.listener("fed.x", "k")
    down.ch.publish("fed.x", "k", b"here alone")
    assert down.get(here).body == b"here alone"
    up.ch.publish("fed.x", "k", b"everywhere")
    assert down.get(here).body == b"everywhere"
    until_steady(lambda: up.ready(there))
    assert up.ch.drain(there) == [b"everywhere"]


@pytest.mark.sockets
def test_exchanges_that_no_policy_matches_stay_local(up: Place, down: Place) -> None:
    here = linked(up, down)
    for place in (up, down):
        place.ch.exchange("own.x", "direct")
    local = down.listener("own.x", "k")
    up.ch.publish("own.x", "k", b"stays")
    up.ch.publish("fed.x", "k", b"comes")
    assert down.get(here).body == b"comes"
    assert down.ready(local) == 0 and [row["name"] for row in down.rows()] == ["fed.x"]


TYPES: dict[str, tuple[str, dict[str, str]]] = {
    "direct": ("k", {}),
    "fanout": ("", {}),
    "topic": ("a.*.#", {}),
    "headers": ("", {"x-match": "any", "h": "v"}),
    "x-modulus-hash": ("k", {}),
    "x-consistent-hash": ("1", {}),
    "x-random": ("k", {}),
    "x-recent-history": ("", {}),
}


@pytest.mark.sockets
@pytest.mark.parametrize("type_", TYPES)
def test_every_type_can_be_federated(up: Place, down: Place, type_: str) -> None:
    key, arguments = TYPES[type_]
    here = linked(up, down, type_, key, **arguments)
    found = up.exchange("fed.x")
    assert found is not None and found.type_name == type_
    up.ch.publish("fed.x", "a.b.c" if type_ == "topic" else "k", b"routed", {"headers": {"h": "v"}})
    assert down.get(here).body == b"routed"
    if type_ == "topic":
        up.ch.publish("fed.x", "c.b", b"not for us")
        until_steady(lambda: down.ready(here))
        assert down.ready(here) == 0


@pytest.fixture
def old(loop: LoopThread) -> Iterator[Site]:
    """A broker that knows no priorities of consumers."""
    site = Site(loop, "old")
    settings = site.server.settings
    capabilities: Value = ("F", Table.of({"basic.nack": True, "exchange_exchange_bindings": True}))
    settings.server_properties = settings.server_properties.with_items([("capabilities", capabilities)])
    yield site
    site.close()


@pytest.mark.sockets
def test_an_upstream_without_consumer_priorities_feeds_no_queue(old: Site, here: NewPlaces) -> None:
    up, (down,) = old.place(), here(1)
    down.ch.declare("fed.q")
    down.ch.exchange("fed.x", "direct")
    bound = down.listener("fed.x", "k")
    down.federate("^fed", up.uri)
    until(lambda: {row["name"]: row["status"] for row in down.rows()} == {"fed.q": "error", "fed.x": "running"})
    assert "consumer_priorities" in down.row("fed.q")["error"]
    up.bound("fed.x", "k")
    up.ch.publish("fed.x", "k", b"an exchange needs none")
    assert down.get(bound).body == b"an exchange needs none"
    up.close()
