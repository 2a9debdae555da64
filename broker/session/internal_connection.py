"""Connections from within the broker: one channel without a client, for the HTTP API and for links of federation."""

from collections.abc import Callable

from ..amqp.errors import AMQPError
from ..core.access.users import User
from ..core.node.node import Node
from ..core.vhost.vhost import VHost, allow_new
from .channel import Channel
from .channel_host import CLOSED, RUNNING, ChannelHost
from .settings import Settings
from .transport import Peer, TransportPort

NUMBER = 1  # of the channel

Report = Callable[[str, str, dict[str, object]], None]


class InternalTransport(TransportPort):
    """The transport of a connection without a client: it has nothing but the log."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        self._report(event, level, fields)


class InternalConnection(ChannelHost):
    """A connection with one channel and no client: it is open until `close`, drops output, and is never held back."""

    __slots__ = ("_channel",)

    def __init__(self, node: Node, settings: Settings, peer: Peer, report: Report, user: User, vhost: VHost) -> None:
        super().__init__(node, settings, peer, InternalTransport(report))
        self.user, self.login_name, self.vhost = user, user.name, vhost
        self.state = RUNNING
        self._channel = Channel(self, NUMBER)
        self._channel.object_check = allow_new

    def send(self, frames: bytes) -> None:
        """Drop frames: there is no client."""

    def request_flush(self) -> None:
        """Do nothing: no input waits for the output."""

    @property
    def always_read(self) -> bool:
        return True  # each publish is asked for by a request of its own

    def job_failed(self) -> None:
        self.state = CLOSED
        self.request_flush()

    def close(self, error: AMQPError | None = None) -> None:
        """End the channel; messages that it has not settled are requeued."""
        self._channel.end()
        del self._channel  # a cycle
        self.confirming.clear()
        self.stalled.clear()
