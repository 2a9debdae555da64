"""State of messages after a restart: priorities, deadlines, deaths and delivery counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.amqp_client import Client, Content
from tests.support.broker_process import BrokerProcess

from .test_restarted import confirmed, restart

__all__ = ["restart"]  # the fixture

pytestmark = pytest.mark.sockets
HOUR_S = 3600


def one(content: Content | None) -> Content:
    assert content is not None
    return content


def test_messages_come_in_the_order_of_their_priorities(client: Client, restart: Callable[[], Client]) -> None:
    client.channel().declare("ranked", durable=True, arguments={"x-max-priority": 5})
    for number, priority in enumerate((0, 3, 5, 3, 9, 0)):
        confirmed(client, "ranked", [b"%d" % number], {"delivery_mode": 2, "priority": priority})
    assert restart().channel().drain("ranked") == [b"2", b"4", b"1", b"3", b"0", b"5"]


def test_a_deadline_is_kept_and_what_passed_it_while_the_broker_was_down_is_dead_lettered(
    client: Client, daemon: BrokerProcess, restart: Callable[[], Client]
) -> None:
    channel = client.channel()
    channel.declare("dead", durable=True)
    channel.declare("later", durable=True)
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.declare("short", durable=True, arguments=dead_letters)
    confirmed(client, "short", [b"short"], {"delivery_mode": 2, "expiration": "100"})
    confirmed(client, "later", [b"later"], {"delivery_mode": 2, "expiration": str(HOUR_S * 1000)})
    channel = restart().channel()
    channel.consume("dead")
    dead = channel.delivery()
    (death,) = dead.headers["x-death"]
    assert (dead.body, death["reason"], death["queue"], death["original-expiration"]) == (
        b"short",
        "expired",
        "short",
        "100",
    )
    assert channel.count("short") == 0
    assert channel.count("later") == 1
    daemon.clock_ahead_s = HOUR_S
    assert restart().channel().get("later") is None


def test_a_history_of_deaths_goes_on_after_a_restart(client: Client, restart: Callable[[], Client]) -> None:
    channel = client.channel()
    for name, other in (("one", "two"), ("two", "one")):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
        channel.declare(name, durable=True, arguments=arguments)
    confirmed(client, "one", [b"x"])
    channel.reject_next("one")
    channel.reject_next("two")
    confirmed(client, "two", [b"behind it"])
    channel = restart().channel()
    channel.reject_next("one")
    channel.reject_next("two")  # the one that came second
    again = one(channel.get("two"))
    deaths = {death["queue"]: death["count"] for death in again.headers["x-death"]}
    assert deaths == {"one": 2, "two": 1}


def test_deliveries_are_counted_on_to_the_limit(client: Client, restart: Callable[[], Client]) -> None:
    channel = client.channel()
    channel.declare("counted", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 3})
    confirmed(client, "counted", [b"poison"])
    for _ in range(2):
        channel.reject(one(channel.get("counted", no_ack=False)).tag)
    confirmed(client, "counted", [b"good"])  # behind the counts in the journal
    channel = restart().channel()
    content = one(channel.get("counted", no_ack=False))
    assert (content.body, content.headers["x-delivery-count"]) == (b"poison", 2)
    channel.reject(content.tag)
    content = one(channel.get("counted", no_ack=False))
    assert (content.body, content.headers["x-delivery-count"]) == (b"poison", 3)
    channel.reject(content.tag)
    assert channel.drain("counted") == [b"good"]
