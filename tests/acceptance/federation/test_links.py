"""Scenarios 16 to 25, 28 and 31: what a link makes upstream, and when it comes and goes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.federation import UPSTREAM_TYPE, Place, Site, fields
from tests.support.loop_thread import LoopThread
from tests.support.polling import until, until_steady
from warren.broker.amqp.field_table import Table
from warren.federation import exchange_link
from warren.federation.upstream.channel import UpstreamChannel

from .conftest import NewPlaces

pytestmark = pytest.mark.sockets

ALL = {"federation-upstream-set": "all"}


def internals(up: Place, name: str) -> list[str]:
    return [exchange for exchange in up.exchanges() if exchange.startswith(f"{name} ")]


def flows(up: Place, down: Place, exchange: str = "fed.x", body: bytes = b"flows") -> None:
    """A message published upstream comes here, where a queue is bound just for that."""
    queue = down.listener(exchange, "flow")
    up.bound(exchange, "flow")
    up.ch.publish(exchange, "flow", body)
    assert down.get(queue).body == body
    down.ch.delete(queue)
    up.bound(exchange)


def test_a_link_makes_the_queue_the_internal_exchange_and_the_exchange(up: Place, down: Place) -> None:
    arguments = {"alternate-exchange": "amq.fanout"}
    down.ch.exchange("fed.x", "topic", durable=True, arguments=arguments)
    down.link("^fed", up.inside)
    name = down.upstream_queue()
    assert up.queues() == [name] and up.exchanges() == ["fed.x", f"{name} B"]
    queue, internal, exchange = up.queue(name), up.exchange(f"{name} B"), up.exchange("fed.x")
    assert queue is not None and internal is not None and exchange is not None
    assert (queue.durable, queue.owner, queue.auto_delete) == (True, None, False)
    assert dict(fields(queue.arguments)) == {
        "x-internal-purpose": ("S", "federation"),
        "x-queue-type": ("S", "classic"),
    }
    assert internal.type_name == UPSTREAM_TYPE
    assert (internal.durable, internal.auto_delete, internal.internal) == (True, True, True)
    assert dict(fields(internal.arguments)) == {
        "x-max-hops": ("l", 1),
        "x-downstream-name": ("S", "a"),
        "x-downstream-vhost": ("S", down.vhost),
        "x-internal-purpose": ("S", "federation"),
    }
    assert up.bindings(f"{name} B") == [(name, "", Table.EMPTY)]
    assert (exchange.type_name, exchange.durable, exchange.auto_delete, exchange.internal) == (
        *("topic", True, False, False),
    )
    assert exchange.arguments == Table.of(arguments)


def test_flags_of_the_exchange_are_taken_over(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "headers", auto_delete=True)
    down.listener("fed.x")
    down.link("^fed", up.inside)
    exchange = until(lambda: up.exchange("fed.x"), "the exchange upstream")
    assert (exchange.type_name, exchange.durable, exchange.auto_delete) == ("headers", False, True)


def test_without_a_path_the_virtual_host_is_the_one_of_the_exchange(everywhere: list[Place]) -> None:
    up, down, _ = everywhere
    down.ch.exchange("fed.x", "fanout")
    down.link("^fed", f"amqp://127.0.0.1:{up.site.port}")
    assert up.queues() == ["federation: fed.x -> b"]


def test_a_name_that_is_too_long_is_told(up: Place, down: Place) -> None:
    down.ch.exchange("fed." + "x" * 230, "fanout")
    down.federate("^fed", up.inside)
    assert "255" in down.down()["error"]


@pytest.mark.parametrize("type_", ["classic", "quorum"])
def test_the_queue_is_of_the_type_that_was_chosen(up: Place, down: Place, type_: str) -> None:
    down.ch.exchange("fed.x", "topic")
    down.link("^fed", up.inside, queue_type=type_)
    queue = up.queue(down.upstream_queue())
    assert queue is not None and queue.settings.type == type_
    flows(up, down)


def test_expires_and_message_ttl_are_arguments_of_the_queue(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.link("^fed", up.inside, expires=60_000, message_ttl=5_000)
    queue = up.queue(down.upstream_queue())
    arguments = dict(fields(queue.arguments))
    assert (arguments["x-expires"], arguments["x-message-ttl"]) == (("l", 60_000), ("l", 5_000))


def test_an_exchange_that_is_there_may_be_of_another_type(up: Place, down: Place) -> None:
    up.ch.exchange("fed.x", "fanout", durable=True)
    down.ch.exchange("fed.x", "topic")
    here = down.listener("fed.x", "a.*")
    down.link("^fed", up.inside)
    up.bound("fed.x", "a.*")
    for key in ("b", "a.b"):
        up.ch.publish("fed.x", key, key.encode())
    assert down.get(here).body == b"a.b"


ENDS: dict[str, Callable[[Place], None]] = {
    "the policy is cleared": lambda down: down.clear_policy(),
    "the policy federates no more": lambda down: down.policy("^fed", {"max-length": 5}),
    "the policy is for other names": lambda down: down.policy("^other", ALL),
    "another policy comes before it": lambda down: down.policy("^fed", {"max-length": 5}, "other", 9),
    "the upstream is deleted": lambda down: down.clear_upstream("u0"),
    "the policy names another upstream": lambda down: down.policy("^fed", {"federation-upstream": "none"}),
    "the exchange is deleted": lambda down: down.ch.delete_exchange("fed.x"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_link_that_is_not_wanted_any_more_takes_its_things_along(
    up: Place, down: Place, end: Callable[[Place], None]
) -> None:
    down.ch.exchange("fed.x", "fanout")
    down.link("^fed", up.inside)
    end(down)
    down.without_links()
    until(lambda: (up.queues(), up.exchanges()) == ([], ["fed.x"]), lambda: f"{up.queues()} {up.exchanges()}")


def test_a_policy_that_begins_to_federate_starts_a_link(up: Place, down: Place) -> None:
    down.ch.exchange("fed.x", "direct")
    down.policy("^fed", {"alternate-exchange": "amq.fanout"})
    down.upstream("u0", up.inside)
    down.policy("^fed", {"alternate-exchange": "amq.fanout", **ALL})
    down.running()
    flows(up, down)
    down.clear_policy()
    down.without_links()
    down.policy("^fed", ALL)
    down.running()
    flows(up, down)


@pytest.mark.parametrize("end", [ENDS["the policy is cleared"], ENDS["the upstream is deleted"]])
def test_what_a_link_leaves_behind_where_it_is_told_to_keeps_buffering(
    up: Place, down: Place, end: Callable[[Place], None]
) -> None:
    down.ch.exchange("fed.x", "fanout")
    here = down.listener("fed.x")
    down.link("^fed", up.uri, resource_cleanup_mode="never")
    up.bound("fed.x", "")
    end(down)
    down.without_links()
    until(lambda: not up.site.connections("Federation link (upstream: u0, policy: federate)"), "no connection")
    for number in range(3):
        up.ch.publish("fed.x", "", b"%d" % number)
    up.counted(down.upstream_queue(), 3)
    down.link("^fed", up.uri, resource_cleanup_mode="never")
    assert down.bodies(here, 3) == [b"0", b"1", b"2"]
    assert len(internals(up, down.upstream_queue())) == 1


@pytest.mark.parametrize("count", [3, 2000], ids=["bindings", "bindings in many turns"])
def test_the_queue_of_a_deleted_exchange_keeps_collecting(up: Place, down: Place, count: int) -> None:
    down.ch.exchange("fed.x", "direct")
    here = down.listener("fed.x", "0")
    for number in range(1, count):
        down.ch.bind(here, "fed.x", str(number))
    down.link("^fed", up.uri, resource_cleanup_mode="never")
    up.bound("fed.x", *map(str, range(count)))
    down.ch.delete_exchange("fed.x")
    down.without_links()
    until(lambda: not up.site.connections("Federation link (upstream: u0, policy: federate)"), "no connection")
    up.bound("fed.x", *map(str, range(count)))
    for number in (0, count - 1):
        up.ch.publish("fed.x", str(number), b"%d" % number)
    up.counted(down.upstream_queue(), 2)
    down.ch.exchange("fed.x", "direct")
    for number in (0, count - 1):
        down.ch.bind(here, "fed.x", str(number))
    down.running()
    assert down.bodies(here, 2) == [b"0", b"%d" % (count - 1)]


def test_of_an_exchange_that_comes_and_goes_one_link_is_left(up: Place, down: Place) -> None:
    down.federate("^fed", up.inside)
    for number in range(50):
        down.ch.exchange("fed.x", "fanout")
        if number % 10 == 5:
            until(down.rows, "a link")
        if number % 10 == 9:
            down.running()
        down.ch.delete_exchange("fed.x")
    down.ch.exchange("fed.x", "fanout")
    here = down.listener("fed.x")
    down.running()
    queue = down.upstream_queue()
    until(lambda: (up.queues(), len(up.exchanges())) == ([queue], 2), lambda: f"{up.queues()} {up.exchanges()}")
    up.bound("fed.x", "")
    until_steady(lambda: (down.rows(), up.queues(), up.exchanges()))
    down.running()
    assert (up.queues(), len(up.exchanges())) == ([down.upstream_queue()], 2)
    up.ch.publish("fed.x", "", b"once")
    up.ch.publish("fed.x", "", b"more")
    assert down.bodies(here, 2) == [b"once", b"more"]


def test_federation_that_is_switched_off_moves_nothing_until_it_is_on_again(own: Site) -> None:
    up, down = own.place(), own.place()
    down.ch.exchange("fed.x", "fanout")
    here = down.listener("fed.x")
    down.ch.declare("fed.q")
    up.ch.declare("fed.q", arguments={})
    down.link("^fed", up.inside, count=2)
    up.bound("fed.x", "")
    own.loop.run(own.stop_federating())
    up.ch.publish("fed.x", "", b"buffered")
    up.ch.fill("fed.q", b"waits")
    consumer = down.channel()
    consumer.consume("fed.q", no_ack=True)
    until_steady(lambda: (down.ready(here), up.ready("fed.q"), up.ready(down.upstream_queue())))
    assert (down.ready(here), up.ready("fed.q"), up.ready(down.upstream_queue())) == (0, 1, 1)
    own.loop.run(own.begin_federating())
    down.running(2)
    assert down.bodies(here, 1) == [b"buffered"]
    assert consumer.delivery().body == b"waits"


def test_of_several_uris_one_that_answers_is_enough(here: NewPlaces) -> None:
    up, *downs = here(5)
    for down in downs:  # in random order, so that some begin with the dead one
        down.ch.exchange("fed.x", "fanout")
        down.upstream("u0", ["amqp://127.0.0.1:1", up.uri], reconnect_delay=60)
        down.policy("^fed", ALL)
    for down in downs:
        (row,) = down.running()
        assert row["uri"] == f"amqp://127.0.0.1:{up.site.port}/{up.vhost}"


def test_another_name_of_the_cluster_is_another_name_of_the_queue(loop: LoopThread, own: Site) -> None:
    up, down = own.place(), own.place()
    down.ch.exchange("fed.x", "fanout")
    down.link("^fed", up.inside)
    assert up.queues() == [f"federation: fed.x -> own:{down.vhost}:fed.x"]
    down.act(own.node.parameters.set_global, "cluster_name", "renamed")
    renamed = f"federation: fed.x -> renamed:{down.vhost}:fed.x"
    until(lambda: up.queues() == [renamed], lambda: f"{renamed}: {up.queues()}")
    down.running()
    internal = up.exchange(internals(up, renamed)[0])
    assert internal is not None and ("x-downstream-name", ("S", "renamed")) in fields(internal.arguments)
    assert len(up.exchanges()) == 2


def test_a_link_looks_at_its_objects_upstream_over_one_channel(own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_link, "BACKLOG_S", 0.005)
    declare, looks = UpstreamChannel.declare_queue, [0]

    async def count(channel: UpstreamChannel, name: str, **how: Any) -> tuple[int, int]:
        looks[0] += how.get("passive", False)
        return await declare(channel, name, **how)

    monkeypatch.setattr(UpstreamChannel, "declare_queue", count)
    up, down = own.place(), own.place()
    down.ch.exchange("fed.x", "topic")
    down.link("^fed", up.inside)
    until(lambda: looks[0] > 1, "it has looked")
    opened, so_far = own.node.churn.channel_created, looks[0]
    until(lambda: looks[0] > so_far + 10, "it looks again")
    assert own.node.churn.channel_created == opened
