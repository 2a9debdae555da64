"""What a service gets of the broker it runs in, and what the broker asks of a service (docs/plugins.md).

A service runs on the broker's loop, beside its connections. All that it does to the node it does between two awaits and
inside of `Host.acting`, so nobody sees half of it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..amqp.errors import unknown_vhost
from ..config import Config, SSLOptions
from ..core.access.users import InternalUser, User
from ..core.node.node import Node
from ..core.telemetry.event_exchange import INTERNAL
from ..core.vhost.vhost import VHost
from ..net.connection_limits import Pool
from ..net.listener import Listener
from ..net.server import Server
from ..net.tls import TLS
from ..runtime.resource_monitor import Resources
from ..runtime.supervisor import Supervisor
from ..session.connection import Connection
from ..session.internal_publisher import InternalPublisher
from ..session.operator_channel import OperatorChannel
from ..session.settings import Settings
from ..session.transport import Peer
from .definition_import import Imports
from .feature_flags import PLUGINS, PLUGINS_OF_SERVICES, PLUGINS_OF_TYPES
from .node_control import NodeControl

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from .local_socket import LocalListener, LocalServer

PRODUCT = "Warren"
DISTRIBUTION = "warrenmq"
INSIDE = "inside"  # in the name of a connection, in place of an address


@cache
def product_version() -> str:
    """The version of the distribution, whatever version the broker announces to clients."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0.0.0"


class Listening:
    """An address that the broker is bound to. `protocol` is RabbitMQ's word for what is spoken there, such as amqp/ssl;
    `tls` is None where that is plain."""

    __slots__ = ("protocol", "host", "port", "tls")

    def __init__(self, protocol: str, address: str, tls: TLS | None = None) -> None:
        """`address` is a host, in brackets if it has colons, and a port."""
        host, _, port = address.rpartition(":")
        self.protocol = protocol
        self.host = host.strip("[]")
        self.port = int(port)
        self.tls = tls


class Command:
    """A command of `warren` that a plugin brings, such as the analysis of what was exported. Made without arguments.

    `about` is its line in the help. Its libraries are imported in `run`: the class is loaded also to show the help.
    """

    about = ""

    def add_options(self, parser: ArgumentParser) -> None:
        """Say what it takes."""

    def run(self, options: Namespace) -> int:
        """Returns the exit status."""
        raise NotImplementedError


class Service:
    """Something that runs beside AMQP, such as the HTTP API. Made once, without arguments.

    One that is `around` starts before those that are not, and stops after them: it sees all that they do.
    """

    around: ClassVar[bool] = False

    async def start(self, host: Host) -> None:
        """Before the node says that it is ready: whatever takes long is to be begun and not waited for.

        Raises OSError, or ValueError, with one line that says why the node cannot start.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """While AMQP is still served. Also after a `start` that failed."""
        raise NotImplementedError

    def serve_local(self, host: Host, listener: LocalListener) -> LocalServer | None:
        """Answer at the unix socket until the result is closed, also while services are stopped; None for a service
        that does not."""
        return None

    def status(self) -> object:
        """What other services show of this one, as JSON has it."""
        return None


class Host:
    """`services` are those that run, by the names of their entry points.

    `report` writes one line to the log: event, level, fields. `commit_soon` is told that the journal may have more.
    `supervisor` runs each task of a service that outlives a call. `turns` watches the turns of the event loop.
    `imports` import definitions. `control` starts and stops what the node serves.
    `tls` makes a context of files and raises OSError or ValueError; `config_files` were read at the start.
    """

    def __init__(
        self,
        node: Node,
        config: Config,
        settings: Settings,
        server: Server,
        resources: Resources,
        tls: Callable[[SSLOptions], TLS],
        config_files: list[str],
    ) -> None:
        self.node = node
        self.config = config
        self.settings = settings
        self.resources = resources
        self.report = server.report
        self.commit_soon = server.commit_soon
        self.supervisor: Supervisor = server.supervisor
        self.turns = server.turns
        self.tls = tls
        self.config_files = config_files
        self.started_ms = node.clock.now_ms()
        self.imports = Imports(node, server.supervisor, self.acting)
        self.services: dict[str, Service] = {}
        self.control = NodeControl(self, server)
        self._server = server
        self._bound: list[Listening] = []
        self._insiders = 0  # connections from within, since the start
        self._storing: tuple[int, asyncio.Event] | None = None  # the batch waited for last

    def configuration(self) -> str:
        """All of it, as rabbitmq.conf would have it; secrets are left out."""
        from ..config.printing import text_of  # only here: most never ask

        return text_of(self.config)

    def plugins(self) -> list[str]:
        """The plugins that this node runs, by RabbitMQ's names; what RabbitMQ has no name for has its own."""
        types = [name for name, distribution in self.node.registry.listed() if distribution]
        named = [name for name, service in PLUGINS_OF_SERVICES.items() if service in self.services]
        named += [name for name, type_ in PLUGINS_OF_TYPES.items() if type_ in types]
        others = {*self.services, *types} - {*PLUGINS_OF_SERVICES.values(), *PLUGINS_OF_TYPES.values()}
        return sorted((*PLUGINS, *named, *others))

    def known_plugins(self) -> list[str]:
        """The names of the plugins of RabbitMQ that a node may run."""
        return [*PLUGINS, *PLUGINS_OF_SERVICES, *PLUGINS_OF_TYPES]

    def event_loop(self) -> dict[str, object]:
        """How long its turns took, and the tasks of the node by name."""
        return {**self.turns.status(), "tasks": self.supervisor.status()}

    @property
    def data_directory(self) -> str:
        """The absolute path of the node's data; empty for a node in memory."""
        return "" if self.config.memory else str(Path(self.config.data_dir).absolute())

    # Connections

    def connections(self) -> list[Connection]:
        """All of them, those that are still opening too, the oldest first."""
        return list(self._server.connections.values())

    async def connect_inside(
        self, vhost: str, with_credentials: bool = False, user: User | None = None
    ) -> socket.socket:
        """One end of a connection to this very broker, over which AMQP is spoken as over any.

        With credentials the login is that of any client on this machine. Without, whatever login is sent is that of
        the user, without a password, or the node's own, which may do everything in that virtual host and nothing in
        any other. Raises OSError.
        """
        self._insiders += 1
        insider = None if with_credentials else user or InternalUser(vhost)
        return await self._server.connect_inside(Peer(INSIDE, self._insiders, INSIDE, 0, True, insider=insider))

    def close_connections(self, chosen: Callable[[Connection], bool], reason: str) -> int:
        """As an operator does, with 320 and this text; how many those were."""
        return self._server.close_connections(chosen, reason)

    # Doing

    @contextmanager
    def acting(self, actor: str) -> Iterator[None]:
        """What is done within is done by that user, or by one of RabbitMQ's names; consumers and the journal have it
        when this ends. Not to be held while something is awaited."""
        self.node.events.actor = actor
        try:
            yield
        finally:
            self.node.events.actor = INTERNAL
            self.node.pump()
            self.commit_soon()

    def channel(self, user: User, vhost: VHost, peer: Peer) -> OperatorChannel:
        """To act as this user may, who asks from there; it is to be closed."""
        return OperatorChannel(self.node, self.settings, user, vhost, peer, self.report)

    def inflow(self, vhost: str, name: str) -> InternalPublisher:
        """To publish into that virtual host as this node itself, under the name of a connection; it is to be closed.

        Raises Unknown.
        """
        there = self.node.vhosts.get(vhost)
        if there is None:
            raise unknown_vhost(vhost)
        soon = self._server.loop.call_soon
        return InternalPublisher(self.node, self.settings, there, name, self.report, soon, self.commit_soon)

    async def stored(self) -> None:
        """Until what was done so far is safe from the end of this process."""
        journal = self.node.journal
        ticket = journal.ticket()
        if ticket <= journal.durable:
            return
        if self._storing is None or self._storing[0] != ticket:
            # All that wait for the same batch share one event: however many give up, the journal keeps one callback.
            self._storing = ticket, asyncio.Event()
            journal.when_durable(ticket, self._storing[1].set)
            self.commit_soon()
        await self._storing[1].wait()

    # Listening

    async def bind(self, protocol: str, host: str, port: int, pool: Pool, tls: TLS | None = None) -> Listener:
        """A listener there, port 0 being any, that accepts nobody yet. Its connections count in the pool.

        Raises OSError.
        """
        server = self._server
        listener = Listener(server.socket_options, self.report, self.supervisor, server.limits, tls, pool)
        await listener.bind(host, port)
        self._bound += [Listening(protocol, address, tls) for address in listener.addresses]
        return listener

    def forget_bound(self) -> None:
        """All services have stopped: nobody listens at their addresses any more."""
        self._bound.clear()

    def listening(self) -> list[Listening]:
        """All addresses of the node, those for AMQP first."""
        return [
            Listening("amqp" if listener.tls is None else "amqp/ssl", address, listener.tls)
            for listener in self._server.listeners
            for address in listener.addresses
        ] + self._bound
