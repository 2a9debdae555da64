"""Connections from within the broker: one channel without a client, for the HTTP API and for links of federation."""

from __future__ import annotations

from collections.abc import Callable

from ..core.access.users import User
from ..core.node.node import Node
from ..core.vhost.vhost import VHost, allow_new
from .channel import Channel
from .channel_host import RUNNING
from .connection import Connection
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


class InternalConnection(Connection):
    """A connection without client and handshake: it is open from the start, and has one channel.

    A Connection, because a channel needs most of one: limits, flow control, suspension for the journal, events.
    """

    __slots__ = ()

    def __init__(
        self, node: Node, settings: Settings, peer: Peer, transport: TransportPort, user: User, vhost: VHost
    ) -> None:
        super().__init__(node, settings, peer, transport)
        self.user, self.login_name, self.vhost = user, user.name, vhost
        self.state = RUNNING
        self._handshake = None

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
