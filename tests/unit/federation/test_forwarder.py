"""The forwarder publishes deliveries in order, and acknowledges them when they are safe, not before: whatever
a queue refuses, whatever the disk is busy with, whatever ends in between."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.forwarding import KEYS, Forwarding, delivery
from tests.support.polling import until_async
from warren.broker.core.exchanges.fanout import FanoutExchange
from warren.broker.core.jobs.scheduler import Job
from warren.federation.forwarder import WAITING_BYTES
from warren.federation.upstream.delivery_parser import Delivery


@pytest.fixture
async def house() -> AsyncIterator[Forwarding]:
    house = Forwarding()
    yield house
    house.forwarder.close()


async def test_what_is_safe_at_once_is_acknowledged_at_once(house: Forwarding) -> None:
    house.forwarder.take([delivery(1), delivery(2)])
    assert house.transport.acked == [2] and house.bodies() == [b"1", b"2"]


async def test_what_has_to_be_stored_is_acknowledged_when_it_is(house: Forwarding) -> None:
    house.forwarder.take([delivery(1, delivery_mode=2)])
    house.forwarder.take([delivery(2)])
    assert house.transport.acked == []
    house.journal.commit(house.journal.ticket())
    assert house.transport.acked == [2]


async def test_each_delivery_keeps_its_own_key(house: Forwarding) -> None:
    house.channel.bind("q", "x", "other")
    keys = [b"k", b"other", b"unbound", b"k", b"other \xff"]
    house.forwarder.take([delivery(tag, key=key) for tag, key in enumerate(keys, 1)])
    assert house.transport.acked == [5] and house.status.forwarded == 5
    assert house.addresses() == [("x", "k"), ("x", "other"), ("x", "k")]


async def test_what_drains_into_a_queue_keeps_the_exchanges_and_keys_that_it_had(house: Forwarding) -> None:
    house.forwarder.drain_into = house.vhost.queues["q"]
    addresses = [(b"x", b"1"), (b"y", b"1"), (b"y", b"2"), (b"", b"q")]
    some = [delivery(tag, key=key)._replace(exchange=exchange) for tag, (exchange, key) in enumerate(addresses, 1)]
    house.forwarder.take(some)
    assert house.transport.acked == [4]
    assert house.addresses() == [(exchange.decode(), key.decode()) for exchange, key in addresses]


async def test_what_becomes_safe_after_the_link_has_ended_is_not_acknowledged(house: Forwarding) -> None:
    house.forwarder.take([delivery(1, delivery_mode=2)])
    house.forwarder.close()
    house.journal.commit(house.journal.ticket())
    assert house.transport.acked == []


async def test_those_that_a_queue_took_beside_one_that_it_refused_are_acknowledged_with_it(house: Forwarding) -> None:
    definition = {"max-length-bytes": 10, "overflow": "reject-publish"}
    house.node.policies.set("/", "full", "^q$", definition, 0, "queues")
    house.channel.fill("q", b"x" * 5)
    house.forwarder.take([delivery(1, b"1" * 6), delivery(2, b"2"), delivery(3, b"3")])
    assert house.transport.acked == []
    await until_async(lambda: house.status.nacked >= 2)
    house.node.policies.clear("/", "full")
    await until_async(lambda: house.transport.acked and house.transport.acked[-1] == 3)


async def test_when_there_is_nothing_to_publish_to_nothing_that_comes_later_is_taken(house: Forwarding) -> None:
    house.channel.delete_exchange("x")
    house.forwarder.take([delivery(1)])
    assert house.lost == ["NOT_FOUND - no exchange 'x' in vhost '/'"] and house.transport.acked == []
    house.channel.exchange("x", "direct")  # by somebody else, before the link has ended
    house.channel.bind("q", "x", "k")
    house.forwarder.take([delivery(2)])
    assert house.transport.acked == [] and house.bodies() == []


async def test_of_messages_without_a_body_no_more_wait_than_of_others(house: Forwarding) -> None:
    house.node.alarms.set("memory")
    text, tag = "x" * 200, 0
    while not house.transport.paused and tag < WAITING_BYTES // 200:
        house.forwarder.take([delivery(tag + at, b"", correlation_id=text) for at in range(1, 501)])
        tag += 500
    assert house.transport.paused
    house.node.alarms.clear("memory")
    await until_async(lambda: house.transport.acked and house.transport.acked[-1] == tag)
    assert not house.transport.paused and len(house.bodies()) == tag


async def test_properties_that_nobody_can_read_end_nothing(house: Forwarding) -> None:
    broken = delivery(1)._replace(properties=b"\x20\x00\x00\x00\x00\x09\x01aZ")  # headers of an unknown type
    house.forwarder.take([broken, delivery(2)])
    house.forwarder.take([delivery(3), delivery(4)._replace(properties=broken.properties)])
    assert house.transport.acked[-1] == 3 and house.bodies() == [b"2", b"3"]
    assert house.transport.rejected == [1, 4] and house.status.dropped_invalid == 2


async def test_too_large_messages_are_rejected_and_later_ones_forwarded(house: Forwarding) -> None:
    reasons: list[str] = []
    house.forwarder.rejected = reasons.append
    huge = delivery(2)._replace(body_bytes=(16 << 20) + 1, body_frames=b"")
    house.forwarder.take([delivery(1), huge, delivery(3, delivery_mode=2), delivery(4, correlation_id="c" * 200)])
    wide = delivery(6)._replace(properties=b"\x20\x00" + (200_000).to_bytes(4, "big") + b"\1a" * 100_000)
    house.forwarder.take([delivery(5), wide])
    assert house.transport.rejected == [2, 6] and house.status.dropped_invalid == 2
    assert house.transport.acked == []
    house.journal.commit(house.journal.ticket())
    assert house.transport.acked[-1] == 5 and house.bodies() == [b"1", b"3", b"4", b"5"]
    assert "larger than configured" in reasons[0] and "do not fit a frame" in reasons[1]


async def test_what_is_rejected_alone_is_not_acknowledged_as_well(house: Forwarding) -> None:
    huge = delivery(1)._replace(body_bytes=(16 << 20) + 1, body_frames=b"")
    house.forwarder.take([huge, huge._replace(tag=2)])
    assert (house.transport.rejected, house.transport.acked) == ([1, 2], [])
    house.forwarder.take([delivery(3)])
    assert house.transport.acked == [3]


async def test_a_time_that_nobody_can_read_ends_nothing(house: Forwarding) -> None:
    house.forwarder.take([delivery(1)._replace(properties=b"\x00\x40\x00")])
    assert house.transport.rejected == [1]


# Deliveries whose publish takes several turns

MODES = ["on-confirm", "on-publish", "no-ack"]
TURNS = 1_000  # at most


async def several_turns(house: Forwarding) -> list[Delivery]:
    """Let the forwarder take deliveries until the publish of the second one is under way."""
    house.lengthen()
    deliveries = [delivery(tag, headers=KEYS if tag in (2, 4) else None, delivery_mode=2) for tag in range(1, 6)]
    house.forwarder.take(deliveries[:3])
    house.forwarder.take(deliveries[3:])
    await asyncio.sleep(0)
    assert house.inflow.held and house.vhost.queues["q"].ready == 1
    return deliveries


@pytest.mark.parametrize("ack_mode", MODES)
async def test_deliveries_that_take_several_turns_keep_their_order_and_are_acknowledged_in_it(ack_mode: str) -> None:
    house = Forwarding(ack_mode)
    await several_turns(house)
    queue = house.vhost.queues["q"]
    seen = set()
    for _ in range(TURNS):
        await house.turn()
        seen.add(queue.ready)
        assert max(house.transport.acked, default=0) <= queue.ready
        if ack_mode == "on-confirm":
            assert max(house.transport.acked, default=0) <= house.journal.durable
        if queue.ready == 5:
            break
    assert seen >= {1, 3, 5}, "those behind are published once it is"
    house.journal.commit(house.journal.ticket())
    await house.turn()
    assert house.bodies() == [b"1", b"2", b"3", b"4", b"5"]
    assert (house.transport.acked or [5])[-1] == 5 and (ack_mode != "no-ack" or not house.transport.acked)
    assert house.status.forwarded == house.status.confirmed == 5 and not house.transport.paused
    house.forwarder.close()


async def test_a_link_that_stops_during_a_publish_acknowledges_no_more(house: Forwarding) -> None:
    undone: list[Delivery] = []
    house.forwarder._undo = undone.append
    deliveries = await several_turns(house)
    house.forwarder.close()
    assert undone[-1] is deliveries[1], "else its repeat would be dropped"
    for _ in range(TURNS):
        await house.turn()
    house.journal.commit(house.journal.ticket())
    assert not house.transport.acked and house.bodies() == [b"1"]


async def test_an_exchange_that_is_deleted_during_a_publish_ends_the_link(house: Forwarding) -> None:
    await several_turns(house)
    house.vhost.delete_exchange("x")
    house.journal.commit(house.journal.ticket())
    for _ in range(TURNS):
        await house.turn()
    assert house.lost == ["NOT_FOUND - no exchange 'x' in vhost '/'"] and house.transport.acked == [1]


async def test_queues_that_are_deleted_during_a_publish_get_nothing_and_the_others_all(house: Forwarding) -> None:
    house.channel.declare("other")
    house.lengthen()
    house.vhost.bind("x149", house.vhost.declare_queue("other"), "#", house.vhost.queues["q"].arguments)
    house.forwarder.take([delivery(1, headers=KEYS), delivery(2)])
    await house.turn()
    house.vhost.delete_queue(house.vhost.queues["other"])
    await until_turns(house, lambda: house.transport.acked == [1, 2])
    assert house.bodies() == [b"1", b"2"]


async def test_a_queue_that_refuses_after_a_long_search_gets_the_message_later_and_once(house: Forwarding) -> None:
    house.lengthen()
    house.forwarder.take([delivery(1, headers=KEYS), delivery(2)])
    await house.turn()
    house.channel.fill("q", b"x")
    house.limit(1)
    await until_turns(house, lambda: house.status.nacked == 1)
    assert house.transport.acked == []
    house.node.policies.clear("/", "full")
    house.forwarder.retry_soon()
    await until_turns(house, lambda: bool(house.transport.acked) and house.transport.acked[-1] == 2)
    assert house.bodies() == [b"x", b"1", b"2"]


async def test_a_publish_that_fails_by_a_bug_ends_the_link(house: Forwarding) -> None:
    house.node.registry.register("x-broken", BrokenExchange)
    house.lengthen(2)
    house.vhost.delete_exchange("x")
    house.vhost.declare_exchange("x", "x-broken")
    house.forwarder.take([delivery(1), delivery(2)])
    await until_turns(house, lambda: bool(house.lost))
    assert house.transport.acked == [] and house.bodies() == []


class BrokenExchange(FanoutExchange):
    """An exchange type that fails after some steps of its search."""

    def search(self, *arguments: object) -> Job:
        yield from [10_000] * 10
        raise ZeroDivisionError


async def until_turns(house: Forwarding, condition: Callable[[], bool]) -> None:
    for _ in range(TURNS):
        if condition():
            return
        await house.turn()
    raise AssertionError("not in so many turns")
