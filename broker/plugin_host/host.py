"""The plugin API: the host that a service gets, and the interface that a service implements (docs/plugins.md).

A service runs on the broker's event loop. It changes the node only inside `Host.acting` and without an await there, so
its changes are atomic for all others.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from .. import compilation
from ..amqp.errors import ConnectionForced, NotNow, unknown_vhost
from ..config import Config, SSLOptions
from ..core.access.users import InternalUser, User
from ..core.messages.journal_port import BEHIND, DISK_FULL, StorageStatus
from ..core.node.node import Node
from ..core.telemetry.event_exchange import INTERNAL
from ..core.telemetry.resource_alarms import MEMORY
from ..core.vhost.vhost import VHost
from ..net.connection_limits import Pool
from ..net.listener import Listener
from ..net.server import Server
from ..net.tls import TLS
from ..operator.definition_import import Imports
from ..operator.feature_flags import PLUGINS, PLUGINS_OF_SERVICES, PLUGINS_OF_TYPES
from ..operator.node_control import NodeControl
from ..runtime.resource_monitor import Resources
from ..runtime.supervisor import Supervisor
from ..session.connection import Connection
from ..session.internal_publisher import InternalPublisher
from ..session.management_channel import ManagementChannel
from ..session.settings import Settings
from ..session.transport import Peer

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from ..operator.local_socket import LocalServer
    from .standby_host import StandbyHost

FULL_LOOK_S = 0.1  # between two looks whether a full disk has room
INSIDE = "inside"  # in the name of a connection, in place of an address


class Listening:
    """An address that the broker listens at.

    `protocol` is RabbitMQ's name, such as amqp/ssl; `tls` is None without TLS.
    """

    __slots__ = ("protocol", "host", "port", "tls")

    def __init__(self, protocol: str, address: str, tls: TLS | None = None) -> None:
        """`address` is a host, in brackets if it has colons, and a port."""
        host, _, port = address.rpartition(":")
        self.protocol = protocol
        self.host = host.strip("[]")
        self.port = int(port)
        self.tls = tls


class Command:
    """Base class of commands that plugins add to `warren`. Constructed without arguments.

    `about` is its line in the help. Import libraries in `run`, as the class is loaded for the help too.
    """

    about = ""

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options of the command."""

    def run(self, options: Namespace) -> int:
        """Run the command and return its exit status."""
        raise NotImplementedError


def command_failed(command: str, text: str, status: int) -> int:
    """Print why a command of `warren` failed, and return its exit status."""
    print(f"warren {command}: {text}", file=sys.stderr)
    return status


class Service:
    """Base class of services that run in the broker, such as the HTTP API. Constructed once, without arguments.

    Services with `around` start before all others, and before clients can connect, and stop after them, when all
    connections are closed and no timer runs any more.
    """

    around: ClassVar[bool] = False

    async def start(self, host: Host) -> None:
        """Start the service, before the node reports that it is ready. Long work must be started as a task.

        Raises OSError or ValueError with one line about why the node cannot start.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """Stop the service, while AMQP is still served. Also called after a `start` that failed."""
        raise NotImplementedError

    async def start_standby(self, host: StandbyHost, listener: Listener | None) -> bool:
        """Serve a standby, and the unix socket if there is a listener for it, until `stop`; return whether it does so.

        The service is constructed anew for the node once the standby has taken over. Raises OSError, ValueError.
        """
        return False

    def serve_local(self, host: Host, listener: Listener) -> LocalServer | None:
        """Serve the unix socket until the returned server is closed, even while services are stopped.

        Return None if this service does not serve it.
        """
        return None

    def status(self) -> object:
        """Return the status of the service as a JSON value, for other services."""
        return None


def watermarks(config: Config, resources: Resources) -> tuple[int, int]:
    """Return the limits of memory and of free disk space, in bytes.

    A limit of memory in bytes has precedence over a relative one, a relative one of the disk over one in bytes.
    """
    memory_bytes, relative = config.vm_memory_high_watermark_bytes, config.disk_free_limit_relative
    if memory_bytes is None:
        memory_bytes = resources.share(config.vm_memory_high_watermark)
    return memory_bytes, config.disk_free_limit_bytes if relative is None else resources.share(relative)


class Host:
    """The broker as a service sees it: node, configuration, connections, listeners, tasks and log.

    report        logs an event: name, level, fields
    commit_soon   makes the committer check the journal at the end of the turn
    supervisor    runs each task of a service that outlives a call
    turns         watches the turns of the event loop
    imports       imports definitions
    control       starts and stops what the node serves
    services      running services by the names of their entry points
    tls           makes a TLS context from files; raises OSError, ValueError
    alone         returns whether no other broker can act as this one now; None: there is never another
    config_files  files that the configuration was read from
    not_listening  protocols that are not served because their default port is taken, with the reason
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
        self.alone: Callable[[], bool] | None = None
        self.started_ms = node.clock.now_ms()
        self.imports = Imports(node, server.supervisor, self.acting, self.check_alarms)
        self.services: dict[str, Service] = {}
        self.control = NodeControl(node, config, server)
        self._server = server
        self.not_listening: dict[str, str] = {}
        self._bound: list[Listening] = []
        self._internal_connections = 0  # connections from within, since the start
        self._storing: tuple[int, asyncio.Event] | None = None  # the last batch that was waited for

    def now_ms(self) -> int:
        """Return the time of the node."""
        return self.node.clock.now_ms()

    def storage(self) -> StorageStatus:
        """Return the status of what stores messages."""
        return self.node.replication.status()

    def configuration(self) -> str:
        """Return the running configuration in the format of rabbitmq.conf, without secrets."""
        from ..config.printing import text_of  # here, because it is rarely needed

        return text_of(self.running_config())

    def running_config(self) -> Config:
        """Return the configuration in effect, with the changes of commands and reloads since the start."""
        config, resources, log = self.config, self.resources, self.control.log.log
        memory_bytes, disk_bytes = watermarks(config, resources)
        if resources.memory_limit_bytes != memory_bytes:
            config = replace(config, vm_memory_high_watermark_bytes=resources.memory_limit_bytes)
        if resources.disk_free_limit_bytes != disk_bytes:
            config = replace(
                config, disk_free_limit_bytes=resources.disk_free_limit_bytes, disk_free_limit_relative=None
            )
        return replace(config, log=log)

    def plugins(self) -> list[str]:
        """Return the plugins that this node runs, by RabbitMQ's names, or by their own if RabbitMQ has none."""
        types = [name for name, distribution in self.node.registry.distributions() if distribution]
        named = [name for name, service in PLUGINS_OF_SERVICES.items() if service in self.services]
        named += [name for name, type_ in PLUGINS_OF_TYPES.items() if type_ in types]
        others = {*self.services, *types} - {*PLUGINS_OF_SERVICES.values(), *PLUGINS_OF_TYPES.values()}
        return sorted((*PLUGINS, *named, *others))

    def known_plugins(self) -> list[str]:
        """Return RabbitMQ's names of all plugins that a node may run."""
        return [*PLUGINS, *PLUGINS_OF_SERVICES, *PLUGINS_OF_TYPES]

    def event_loop(self) -> dict[str, object]:
        """Return the durations of the loop's turns, and the tasks of the node by name."""
        return {**self.turns.status(), "tasks": self.supervisor.status()}

    @property
    def build(self) -> str:
        """The build of Warren that runs: `compiled`, or `pure Python` with the reason."""
        return compilation.DESCRIPTION

    @property
    def data_directory(self) -> str:
        """Absolute path of the data folder; empty for a node in memory."""
        return "" if self.config.memory else str(Path(self.config.data_dir).absolute())

    # Connections

    def connections(self) -> list[Connection]:
        """Return all AMQP connections, those in the handshake included, oldest first."""
        return list(self._server.connections.values())

    async def connect_inside(
        self, vhost: str, with_credentials: bool = False, user: User | None = None
    ) -> socket.socket:
        """Open a connection from within the process, and return the client's end of it.

        With credentials it logs in as any client on this machine. Without, every login is accepted as the given user,
        or as an internal user with all rights in this virtual host and none in others. Raises OSError.
        """
        self._internal_connections += 1
        internal_user = None if with_credentials else user or InternalUser(vhost)
        return await self._server.connect_inside(
            Peer(INSIDE, self._internal_connections, INSIDE, 0, True, internal_user=internal_user)
        )

    def close_connections(self, chosen: Callable[[Connection], bool], reason: str) -> int:
        """Close the chosen connections with 320 (connection-forced) and this text; return how many."""
        return self._server.close_connections(chosen, reason)

    def close_connection(self, connection: Connection, reason: str) -> None:
        """Close a connection as `close_connections` does, unless it has ended."""
        connection.close(ConnectionForced(reason))
        self.commit_soon()

    # Changes

    @contextmanager
    def acting(self, actor: str) -> Iterator[None]:
        """Context in which changes are attributed to a user, or to one of RabbitMQ's names for its own actions.

        At its end deliveries are made and the journal is committed. Do not await inside it.
        """
        self.node.events.actor = actor
        try:
            yield
        finally:
            self.node.events.actor = INTERNAL
            self.node.pump()
            self.commit_soon()

    def channel(self, user: User, vhost: VHost, peer: Peer) -> ManagementChannel:
        """Open a channel with the rights of a user; close it after use."""
        return ManagementChannel(
            self.node, self.settings, user, vhost, peer, self.report, partial(self.check_alarms, vhost=vhost.name)
        )

    def inflow(self, vhost: str, name: str) -> InternalPublisher:
        """Open an internal publisher into a virtual host, under the name of a connection; close it after use.

        Raises Unknown.
        """
        there = self.node.vhosts.get(vhost)
        if there is None:
            raise unknown_vhost(vhost)
        soon = self._server.loop.call_soon
        return InternalPublisher(self.node, self.settings, there, name, self.report, soon, self.commit_soon)

    async def stored(self) -> None:
        """Wait until all that was done so far is durable."""
        journal = self.node.journal
        ticket = journal.ticket()
        if ticket <= journal.durable:
            return
        if self._storing is None or self._storing[0] != ticket:
            # All that wait for the same batch share one event, so that the journal has one callback for each batch.
            self._storing = ticket, asyncio.Event()
            journal.when_durable(ticket, self._storing[1].set)
            self.commit_soon()
        await self._storing[1].wait()

    def check_alarms(self, size: int = 0, stored: bool = False, vhost: str = "") -> None:
        """Raises NotNow while memory is low, or the disk is too full for so many bytes or more objects of the vhost.

        It would declare something new, which AMQP clients wait for.
        """
        alarms = self.node.alarms
        if MEMORY in alarms.on() or alarms.refuses_new(size, vhost, stored):
            raise NotNow(f"nothing new can be declared now: the broker is {alarms.reason}")

    async def jobs_go_on(self) -> None:
        """Wait for the next turn of the loop, in which jobs go on; for longer while they wait for room."""
        room = self.node.journal.room()
        if room == DISK_FULL:
            await asyncio.sleep(FULL_LOOK_S)
            return
        if room == BEHIND:
            await self.stored()
        await asyncio.sleep(0)

    # Listening

    async def bind(self, protocol: str, host: str, port: int, pool: Pool, tls: TLS | None = None) -> Listener:
        """Bind a listener, with any free port for port 0, that does not accept yet. Its connections count in the pool.

        Raises OSError.
        """
        server = self._server
        listener = Listener(server.socket_options, self.report, self.supervisor, server.limits, tls, pool)
        await listener.bind(host, port)
        self._bound += [Listening(protocol, address, tls) for address in listener.addresses]
        return listener

    def forget_bound(self) -> None:
        """Forget the addresses of services, which have all stopped."""
        self._bound.clear()
        self.not_listening.clear()

    def listening(self) -> list[Listening]:
        """Return all addresses that the node listens at, AMQP first."""
        return [
            Listening("amqp" if listener.tls is None else "amqp/ssl", address, listener.tls)
            for listener in self._server.listeners
            for address in listener.addresses
        ] + self._bound
