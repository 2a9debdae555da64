"""Promises of RabbitMQ's guides to federated exchanges and queues that the files of their subjects do not test."""

from collections.abc import Iterator

import pytest

from tests.support.federation import Place, Site
from tests.support.loop_thread import LoopThread
from tests.support.polling import until, until_steady
from warren.broker.amqp.field_table import Table, Value

from .conftest import NewPlaces, NewProxy

pytestmark = pytest.mark.sockets


def test_who_binds_does_not_wait_for_the_upstream(up: Place, down: Place, proxied: NewProxy) -> None:
    proxy = proxied(up.site)
    here = down.linked(up, up.through(proxy.port))
    proxy.silence()
    down.ch.bind(here, "fed.x", "later")  # is answered
    assert up.keys("fed.x") == ["k"]
    proxy.restore()
    up.bound("fed.x", "k", "later")


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


@pytest.mark.parametrize("type_", TYPES)
def test_every_type_can_be_federated(up: Place, down: Place, type_: str) -> None:
    key, arguments = TYPES[type_]
    down.ch.exchange("fed.x", type_)
    here = str(down.ch.declare().queue)
    down.ch.bind(here, "fed.x", key, arguments=arguments)
    down.link("^fed", up.inside)
    up.bound("fed.x", key)
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
