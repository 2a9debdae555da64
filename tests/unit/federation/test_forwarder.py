"""The forwarder publishes deliveries in order, and acknowledges them when they are safe, not before: whatever
a queue refuses, whatever the disk is busy with, whatever ends in between."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, cast

from tests.support.amqp_client import Channel
from tests.support.polling import until_async
from tests.support.session import SlowJournal, connected, new_node
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import content_frames
from warren.broker.amqp.properties import Properties
from warren.broker.core.node.node import Node
from warren.broker.session.internal_publisher import InternalPublisher
from warren.broker.session.settings import Settings
from warren.federation.forwarder import WAITING_BYTES, Forwarder
from warren.federation.link_status import LinkStatus
from warren.federation.upstream.delivery_parser import Delivery
from warren.federation.upstream.transport import UpstreamTransport

CHANNEL = 1
WITHIN_S = 60.0


class FakeTransport:
    """`acked` are the delivery tags up to which all was acknowledged."""

    def __init__(self) -> None:
        self.acked: list[int] = []
        self.rejected: list[int] = []
        self.paused = False

    def ack(self, channel: int, tag: int, multiple: bool) -> None:
        assert multiple and channel == CHANNEL and tag > max(self.acked, default=0)
        assert tag not in self.rejected, "the upstream does not know the tag any more"
        self.acked.append(tag)

    def nack(self, channel: int, tag: int, requeue: bool) -> None:
        assert channel == CHANNEL and not requeue and tag not in self.rejected
        self.rejected.append(tag)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


class House:
    """A node with the exchange `x` and the queue `q`, which is bound to it with the key `k`."""

    def __init__(self, ack_mode: str = "on-confirm") -> None:
        self.journal = SlowJournal()
        self.node: Node = new_node(self.journal)
        self.channel: Channel = connected(self.node).channel(1)
        self.channel.declare("q", durable=True)
        self.channel.exchange("x", "direct")
        self.channel.bind("q", "x", "k")
        self.vhost = self.node.vhosts["/"]
        self.lost: list[str] = []
        self.transport = FakeTransport()
        self.status = LinkStatus(lambda: 0.0, lambda: None)
        loop = asyncio.get_running_loop()
        self.inflow = InternalPublisher(
            self.node, Settings(Table.EMPTY), self.vhost, "link", lambda *told: None, loop.call_soon, lambda: None
        )
        self.forwarder = Forwarder(
            self.node,
            self.inflow,
            cast(UpstreamTransport, self.transport),
            self.status,
            ack_mode,
            "x",
            None,
            passed,
            self.lost.append,
        )

    def bodies(self) -> list[bytes]:
        """Take all ready messages out of the queue."""
        taken = []
        while (found := self.vhost.queues["q"].get(True)) is not None:
            taken.append(found[1].body)
        return taken

    def limit(self, length: int) -> None:
        definition = {"max-length": length, "overflow": "reject-publish"}
        self.node.policies.set("/", "full", "^q$", definition, 0, "queues")


def passed(delivery: Delivery) -> bytes:
    return delivery.properties


def delivery(tag: int, body: bytes | None = None, key: bytes = b"k", **properties: Any) -> Delivery:
    body = b"%d" % tag if body is None else body
    empty = len(content_frames(CHANNEL, b"\x00\x00", b""))
    frames = content_frames(CHANNEL, b"\x00\x00", body)[empty:]
    return Delivery(CHANNEL, tag, False, b"x", key, Properties(**properties).encode(), len(body), frames, b"tag")


def on_a_loop(test: Callable[[House], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        async def work() -> None:
            house = House()
            await test(house)
            house.forwarder.close()

        asyncio.run(work())

    del run.__wrapped__  # whose argument pytest would take for a fixture
    return run


@on_a_loop
async def test_what_is_safe_at_once_is_acknowledged_at_once(house: House) -> None:
    house.forwarder.take([delivery(1), delivery(2)])
    assert house.transport.acked == [2] and house.bodies() == [b"1", b"2"]


@on_a_loop
async def test_what_has_to_be_stored_is_acknowledged_when_it_is(house: House) -> None:
    house.forwarder.take([delivery(1, delivery_mode=2)])
    house.forwarder.take([delivery(2)])
    assert house.transport.acked == []
    house.journal.commit(house.journal.ticket())
    assert house.transport.acked == [2]


@on_a_loop
async def test_what_becomes_safe_after_the_link_has_ended_is_not_acknowledged(house: House) -> None:
    house.forwarder.take([delivery(1, delivery_mode=2)])
    house.forwarder.close()
    house.journal.commit(house.journal.ticket())
    assert house.transport.acked == []


@on_a_loop
async def test_those_that_a_queue_took_beside_one_that_it_refused_are_acknowledged_with_it(house: House) -> None:
    definition = {"max-length-bytes": 10, "overflow": "reject-publish"}
    house.node.policies.set("/", "full", "^q$", definition, 0, "queues")
    house.channel.fill("q", b"x" * 5)
    house.forwarder.take([delivery(1, b"1" * 6), delivery(2, b"2"), delivery(3, b"3")])
    assert house.transport.acked == []
    await until_async(lambda: house.status.nacked >= 2)
    house.node.policies.clear("/", "full")
    await until_async(lambda: house.transport.acked and house.transport.acked[-1] == 3)


@on_a_loop
async def test_when_there_is_nothing_to_publish_to_nothing_that_comes_later_is_taken(house: House) -> None:
    house.channel.delete_exchange("x")
    house.forwarder.take([delivery(1)])
    assert house.lost == ["NOT_FOUND - no exchange 'x' in vhost '/'"] and house.transport.acked == []
    house.channel.exchange("x", "direct")  # by somebody else, before the link has ended
    house.channel.bind("q", "x", "k")
    house.forwarder.take([delivery(2)])
    assert house.transport.acked == [] and house.bodies() == []


@on_a_loop
async def test_of_messages_without_a_body_no_more_wait_than_of_others(house: House) -> None:
    house.node.alarms.set("memory")
    text, tag = "x" * 200, 0
    while not house.transport.paused and tag < WAITING_BYTES // 200:
        house.forwarder.take([delivery(tag + at, b"", correlation_id=text) for at in range(1, 501)])
        tag += 500
    assert house.transport.paused
    house.node.alarms.clear("memory")
    await until_async(lambda: house.transport.acked and house.transport.acked[-1] == tag)
    assert not house.transport.paused and len(house.bodies()) == tag


@on_a_loop
async def test_properties_that_nobody_can_read_end_nothing(house: House) -> None:
    broken = delivery(1)._replace(properties=b"\x20\x00\x00\x00\x00\x09\x01aZ")  # headers of an unknown type
    house.forwarder.take([broken, delivery(2)])
    house.forwarder.take([delivery(3), delivery(4)._replace(properties=broken.properties)])
    assert house.transport.acked[-1] == 3 and house.bodies() == [b"2", b"3"]
    assert house.transport.rejected == [1, 4] and house.status.dropped_invalid == 2


@on_a_loop
async def test_what_is_larger_than_clients_may_publish_or_get_here_is_rejected_and_the_others_go_on(
    house: House,
) -> None:
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


@on_a_loop
async def test_what_is_rejected_alone_is_not_acknowledged_as_well(house: House) -> None:
    huge = delivery(1)._replace(body_bytes=(16 << 20) + 1, body_frames=b"")
    house.forwarder.take([huge, huge._replace(tag=2)])
    assert (house.transport.rejected, house.transport.acked) == ([1, 2], [])
    house.forwarder.take([delivery(3)])
    assert house.transport.acked == [3]


@on_a_loop
async def test_a_time_that_nobody_can_read_ends_nothing(house: House) -> None:
    house.forwarder.take([delivery(1)._replace(properties=b"\x00\x40\x00")])
    assert house.transport.rejected == [1]
