"""Scenario 106: a real RabbitMQ is our upstream."""

from typing import Any

import pytest

from tests.support.federation import Place, headers
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from tests.support.proxy import Proxy

from .rabbit import Rabbit

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(180)]

QUEUE = "federation: fed.x -> a:{vhost}:fed.x"


def linked(rabbit: Rabbit, down: Place, type_: str = "topic", **settings: Any) -> str:
    """A queue here that gets what is published there with the key k."""
    down.ch.exchange("fed.x", type_, durable=True)
    here = down.listener("fed.x", "k")
    down.federate("^fed", rabbit.uri, **settings)
    down.running()
    rabbit.bound("fed.x", "k")
    return here


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish", "no-ack"])
def test_messages_of_a_rabbitmq_come_here(rabbit: Rabbit, down: Place, mode: str) -> None:
    here = linked(rabbit, down, ack_mode=mode)
    there = rabbit.channel()
    for number in range(500):
        there.publish("fed.x", "k", b"%d" % number, {"headers": {"number": number}, "delivery_mode": 2})
    assert down.bodies(here, 500) == [b"%d" % number for number in range(500)]
    there.publish("fed.x", "k", b"", {"headers": {"mine": 1}})
    found = headers(down.get(here))
    entry = [
        ("uri", ("S", rabbit.uri)),
        ("exchange", ("S", "fed.x")),
        ("redelivered", ("t", False)),
        ("cluster-name", ("S", "rabbit")),
        ("vhost", ("S", "/")),
    ]
    assert found == {"mine": ("I", 1), "x-received-from": ("A", [("F", entry)])}
    queue = QUEUE.format(vhost=down.vhost)
    until(lambda: rabbit.ask("GET", f"/queues/%2f/{queue.replace(' ', '%20').replace('>', '%3E')}"), "the queue")


def test_the_internal_exchange_is_of_rabbitmqs_own_type(rabbit: Rabbit, down: Place) -> None:
    linked(rabbit, down, max_hops=2)
    (internal,) = [one for one in rabbit.ask("GET", "/exchanges/%2f") if one["name"].startswith("federation: ")]
    assert internal["type"] == "x-federation-upstream" and internal["internal"] and internal["auto_delete"]
    assert internal["name"] == QUEUE.format(vhost=down.vhost) + " B"
    assert internal["arguments"]["x-max-hops"] == 2 and internal["arguments"]["x-downstream-name"] == "a"
    (binding,) = rabbit.bindings("fed.x")
    (entry,) = binding["arguments"]["x-bound-from"]
    exchange = f"{down.vhost}:fed.x B"
    assert entry == {"cluster-name": "a", "vhost": down.vhost, "exchange": exchange, "hops": 2}
    assert "x-bound-from" in rabbit.run("rabbitmqctl", "-q", "list_bindings", "routing_key", "arguments")


def test_bindings_and_what_is_made_go_as_they_came(rabbit: Rabbit, down: Place) -> None:
    here = linked(rabbit, down)
    down.ch.bind(here, "fed.x", "#.z")
    rabbit.bound("fed.x", "#.z", "k")
    down.ch.unbind(here, "fed.x", "k")
    rabbit.bound("fed.x", "#.z")
    down.clear_policy()
    down.without_links()
    until(lambda: not rabbit.ask("GET", "/queues/%2f"), "no queue is left")
    until(lambda: not rabbit.bindings("fed.x"), lambda: str(rabbit.bindings("fed.x")))


def test_what_waits_at_a_rabbitmq_is_there_after_a_cut(rabbit: Rabbit, down: Place, loop: LoopThread) -> None:
    proxy = Proxy(loop, ("127.0.0.1", rabbit.port))
    try:
        down.ch.exchange("fed.x", "direct", durable=True)
        here = down.listener("fed.x", "k")
        down.federate("^fed", f"amqp://127.0.0.1:{proxy.port}/%2f")
        for round_ in range(3):
            down.running()
            rabbit.bound("fed.x", "k")
            proxy.cut()
            down.down()
            there = rabbit.channel()
            there.confirm()
            for number in range(100):
                there.publish("fed.x", "k", b"%d" % number)
            there.confirms(range(1, 101))
            proxy.restore()
            down.running()
            assert down.bodies(here, 100) == [b"%d" % number for number in range(100)], round_
    finally:
        proxy.close()


def test_a_queue_pulls_from_a_rabbitmq(rabbit: Rabbit, down: Place) -> None:
    there = rabbit.channel()
    there.declare("fed.q", durable=True)
    down.ch.declare("fed.q", durable=True)
    down.federate("^fed", rabbit.uri)
    down.running()
    for number in range(50):
        there.publish("", "fed.q", b"%d" % number)
    until(lambda: rabbit.ready("fed.q") == 50, "all there")
    wanting = down.channel()
    wanting.consume("fed.q", no_ack=True)
    assert [message.body for message in wanting.deliveries(50)] == [b"%d" % number for number in range(50)]

    def consumers() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = rabbit.ask("GET", "/consumers/%2f")
        return found

    (one,) = until(consumers, "the link's consumer")
    assert (one["consumer_tag"], one["arguments"]["x-priority"]) == ("federation-link-u0", -1)
    wanting.client.close()
    until(lambda: not consumers(), "nobody")
    there.publish("", "fed.q", b"stays")
    until(lambda: rabbit.ready("fed.q") == 1, "it stays")


def test_an_upstream_that_deletes_the_queue_gets_it_again(rabbit: Rabbit, down: Place) -> None:
    here = linked(rabbit, down)
    rabbit.channel().delete(QUEUE.format(vhost=down.vhost))
    until(lambda: down.row()["reconnects"] == 1, lambda: str(down.row()))
    down.running()
    rabbit.bound("fed.x", "k")
    rabbit.channel().publish("fed.x", "k", b"flows")
    assert down.get(here).body == b"flows"


def test_a_rabbitmq_without_federation_has_a_fanout_in_between(rabbit: Rabbit, down: Place) -> None:
    plugins = ("rabbitmq_federation_management", "rabbitmq_federation")
    rabbit.run("rabbitmq-plugins", "-q", "disable", *plugins)
    try:
        here = linked(rabbit, down)
        (internal,) = [one for one in rabbit.ask("GET", "/exchanges/%2f") if one["name"].startswith("federation: ")]
        assert internal["type"] == "fanout" and internal["arguments"] == {"x-internal-purpose": "federation"}
        there = rabbit.channel()
        there.publish("fed.x", "k", b"has hopped", {"headers": {"x-received-from": [{"uri": "amqp://far"}]}})
        there.publish("fed.x", "k", b"fresh")
        assert down.bodies(here, 1) == [b"fresh"]
        assert down.row()["dropped_max_hops"] == 1
        down.clear_policy()
        down.without_links()
    finally:
        rabbit.run("rabbitmq-plugins", "-q", "enable", *plugins)
