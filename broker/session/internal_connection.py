"""Connections from within the broker: one channel without a client, for the HTTP API and for links of federation."""

from __future__ import annotations

from collections.abc import Callable

from ..amqp.errors import AMQPError
from ..core.access.users import User
from ..core.node.node import Node
from ..core.queues.queue import Queue
from ..core.vhost.vhost import VHost, allow_new
from .channel import Channel
from .channel_host import CLOSED, RUNNING, ChannelHost
from .settings import Settings
from .transport import Peer, TransportPort

NUMBER = 1  # of the channel

Report = Callable[[str, str, dict[str, object]], None]


class InternalTransport(TransportPort):
    """Transport of a connection without a client: output is dropped, and nothing is held back."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def flush_soon(self) -> None: ...

    def running(self, heartbeat_s: int) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def close(self, after_s: float) -> None: ...

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        self._report(event, level, fields)


class InternalConnection(ChannelHost):
    """The host of one channel without a client; it is open from the start."""

    __slots__ = ()

    def __init__(
        self, node: Node, settings: Settings, peer: Peer, transport: TransportPort, user: User, vhost: VHost
    ) -> None:
        super().__init__(node, settings, peer, transport)
        self.user, self.login_name, self.vhost = user, user.name, vhost
        self.state = RUNNING

    def throttle(self, queue: Queue) -> None:
        if queue not in self.publisher_throttle.queues:
            queue.held_publishers.hold(self)
            if self.publisher_throttle.add(queue):
                self.transport.hold()

    def close(self, error: AMQPError) -> None:
        self.state = CLOSED
        self.transport.close(0.0)

    def open_channel(self) -> Channel:
        """Open the channel, which its caller has to end: it is none of `channels`."""
        channel = Channel(self, NUMBER)
        channel.check_new = allow_new
        return channel

    def end_channel(self, channel: Channel) -> None:
        """End the channel; messages that it has not settled are requeued, and no queue holds the connection."""
        channel.end()
        self.confirming.clear()
        self.stalled.clear()
        for queue in self.publisher_throttle.queues:
            queue.held_publishers.forget(self)
