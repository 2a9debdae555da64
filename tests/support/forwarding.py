"""A forwarder of federation between a fake upstream and a real node, on a running event loop."""

import asyncio
from typing import Any, cast

from warren.broker.amqp.field_table import Table
from warren.broker.amqp.framing import content_frames
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.message import Message
from warren.broker.core.node.node import Node
from warren.broker.session.internal_publisher import InternalPublisher
from warren.broker.session.settings import Settings
from warren.federation.forwarder import Forwarder
from warren.federation.link_status import LinkStatus
from warren.federation.upstream.delivery_parser import Delivery
from warren.federation.upstream.transport import UpstreamTransport

from .amqp_client import Channel
from .clock import FakeClock
from .session import SlowJournal, connected, new_node

CHANNEL = 1
KEYS = Table.of({"CC": [f"{number:x}" for number in range(1_000)]})  # headers of a message with as many more keys


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

    def hold(self) -> None:
        self.paused = True

    def release(self) -> None:
        self.paused = False


class Forwarding:
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

    def lengthen(self, exchanges: int = 150) -> None:
        """Route the messages of `x` to `q` through many exchanges, for which one with `KEYS` takes several turns."""
        vhost = self.vhost
        vhost.delete_exchange("x")
        names = ["x", *[f"x{number}" for number in range(1, exchanges)]]
        made = [vhost.declare_exchange(name, "topic") for name in names]
        for name, end in zip(names, [*made[1:], vhost.queues["q"]], strict=True):
            vhost.bind(name, end, "#", Table.EMPTY)

    async def turn(self) -> None:
        """Run a turn of the jobs, and one of the loop."""
        assert isinstance(self.node.clock, FakeClock)
        self.node.clock.run_next(self.node.clock.now_ms())
        await asyncio.sleep(0)

    def messages(self) -> list[Message]:
        """Take all ready messages out of the queue."""
        taken = []
        while (found := self.vhost.queues["q"].get(True)) is not None:
            taken.append(found[1])
        return taken

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages()]

    def addresses(self) -> list[tuple[str, str]]:
        """Take all ready messages out of the queue, and return their exchanges and routing keys."""
        return [(message.address.exchange, message.address.routing_key) for message in self.messages()]

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
