"""Detailed rates: counters between channels, exchanges and queues."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from pamqp.commands import Exchange, Queue

from tests.support.amqp_client import Channel
from tests.support.http import Api
from warren.broker.core.telemetry.detailed_rates import DetailedRates

NAME = "127.0.0.1:50000 -> 127.0.0.1:5672 (1)"
CHANNEL = f"/channels/{quote(NAME, safe='')}"


@pytest.fixture
def api() -> Iterator[Api]:
    """The HTTP API of a fresh broker with detailed rates."""
    made = Api(rates_mode="detailed")
    yield made
    made.close()


@pytest.fixture
def channel(api: Api) -> Channel:
    """A channel that published four messages to amq.fanout with two queues, and an unroutable one to amq.direct, and
    got and acknowledged some.
    """
    channel = api.peer.connect().channel()
    for queue in ("a", "b"):
        channel.declare(queue)
        channel.bind(queue, "amq.fanout")
    for _ in range(4):
        channel.publish("amq.fanout", "", b"x")
    channel.publish("amq.direct", "nobody", b"x")
    assert channel.get("a", no_ack=True) is not None
    channel.consume("b", consumer_tag="t")
    channel.ack(channel.delivery().method.delivery_tag)
    channel.sync()
    return channel


def counters_by_name(rows: Any, whose: str) -> dict[str, Any]:
    """Return the counters without rates, by the name of the other object."""
    return {
        row[whose]["name"]: {name: value for name, value in row["stats"].items() if not name.endswith("_details")}
        for row in rows
    }


def test_a_channel_shows_its_publishes_and_deliveries(api: Api, channel: Channel) -> None:
    one = api.get(CHANNEL).json
    assert counters_by_name(one["publishes"], "exchange") == {
        "amq.fanout": {"publish": 4, "return_unroutable": 0, "drop_unroutable": 0},
        "amq.direct": {"publish": 1, "return_unroutable": 0, "drop_unroutable": 1},
    }
    got = counters_by_name(one["deliveries"], "queue")
    assert (got["a"]["get_no_ack"], got["b"]["deliver"], got["b"]["ack"]) == (1, 4, 1)
    assert got["b"]["deliver_get"] == 4 and one["deliveries"][0]["queue"] == {"name": "a", "vhost": "/"}
    while channel.get("a", no_ack=True) is not None:
        pass
    got = counters_by_name(api.get(CHANNEL).json["deliveries"], "queue")
    assert (got["a"]["get_no_ack"], got["a"]["get_empty"]) == (4, 1)


def test_an_exchange_shows_its_publishers_and_destinations(api: Api, channel: Channel) -> None:
    one = api.get("/exchanges/%2F/amq.fanout").json
    assert counters_by_name(one["incoming"], "channel_details")[NAME]["publish"] == 4
    assert counters_by_name(one["outgoing"], "queue") == {"a": {"publish": 4}, "b": {"publish": 4}}
    assert api.get("/exchanges/%2F/amq.direct").json["outgoing"] == []


def test_a_queue_shows_its_sources_and_consumers(api: Api, channel: Channel) -> None:
    one = api.get("/queues/%2F/b").json
    assert counters_by_name(one["incoming"], "exchange") == {"amq.fanout": {"publish": 4}}
    ((details, stats),) = [(row["channel_details"], row["stats"]) for row in one["deliveries"]]
    assert (details["name"], details["user"], stats["deliver"], stats["ack"]) == (NAME, "guest", 4, 1)


def test_a_transaction_to_a_deleted_exchange_leaves_no_counters(api: Api, channel: Channel) -> None:
    breakdown, other = api.host.node.detailed_rates, channel.client.channel()
    assert breakdown is not None
    other.transact()
    channel.exchange("x", "fanout")
    channel.bind("a", "x")
    channel.sync()
    other.publish("x", "", b"x")
    other.sync()
    channel.call(Exchange.Delete, exchange="x")
    other.commit()
    assert api.peer.node.vhosts["/"].queues["a"].ready
    assert "x" not in [exchange.name for exchange in breakdown.routed]
    assert not any(exchange.name == "x" for rates in breakdown._channels for exchange in rates.exchanges)


def test_they_have_rates(api: Api, channel: Channel) -> None:
    for _ in range(2):
        api.sample()
        for _ in range(50):
            channel.publish("amq.fanout", "", b"x")
        api.peer.wait(5000)
    api.sample()
    (incoming,) = api.get("/queues/%2F/a").json["incoming"]
    assert incoming["stats"]["publish_details"]["rate"] == 10.0
    published = counters_by_name(api.get(CHANNEL).json["publishes"], "exchange")
    assert published["amq.fanout"]["publish"] == 104


def test_counters_of_deleted_and_closed_objects_are_dropped(api: Api, channel: Channel) -> None:
    breakdown = api.host.node.detailed_rates
    assert isinstance(breakdown, DetailedRates)
    channel.declare("c")
    channel.call(Exchange.Declare, exchange="x", exchange_type="fanout")
    channel.bind("c", "x")
    channel.publish("x", "", b"x")
    channel.sync()
    assert counters_by_name(api.get("/exchanges/%2F/x").json["outgoing"], "queue") == {"c": {"publish": 1}}
    channel.call(Queue.Delete, queue="c")
    assert api.get("/exchanges/%2F/x").json["outgoing"] == []
    channel.call(Exchange.Delete, exchange="x")
    assert "x" not in counters_by_name(api.get(CHANNEL).json["publishes"], "exchange")
    assert "x" not in [exchange.name for exchange in breakdown.routed]
    channel.close()
    assert api.get("/queues/%2F/b").json["deliveries"] == api.get("/exchanges/%2F/amq.fanout").json["incoming"] == []


def test_without_detailed_rates_nothing_of_it_is_counted() -> None:
    api = Api()
    channel = api.peer.connect().channel()
    channel.publish("amq.fanout", "", b"x")
    channel.sync()
    assert api.host.node.detailed_rates is None
    one = api.get(CHANNEL).json
    assert one["publishes"] == one["deliveries"] == []
    api.close()
