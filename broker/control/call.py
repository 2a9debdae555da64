"""One request of `warrenctl` at the control socket, and what it reaches of the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from .. import logs
from ..config.config import Log
from .answers import Answer, no_user, no_vhost
from .question import Options, Question

if TYPE_CHECKING:
    from ..core.access.users import User
    from ..core.node.node import Node
    from ..core.vhost.vhost import VHost
    from ..hosting.host import Host
    from ..net.server import Server
    from ..session.connection import Connection

ACTOR = "rmq-cli"  # under this name events tell who did it


class Daemon:
    """The running broker.

    `listen` opens the listeners for AMQP anew and returns None where it cannot; `start_services` starts the services
    anew and returns whether it could; `stop` ends the daemon. The application, as RabbitMQ calls all that serves
    clients, is stopped between `stop_app` and `start_app`.
    """

    def __init__(
        self,
        host: Host,
        server: Server,
        listen: Callable[[], Coroutine[object, object, object]],
        stop: Callable[[], None],
        start_services: Callable[[], Coroutine[object, object, bool]],
    ) -> None:
        self.host = host
        self.server = server
        self.listen = listen
        self.stop = stop
        self.start_services = start_services
        self.app_is_stopped = False
        self.log = host.config.log  # as it is now

    def configure_log(self, log: Log) -> None:
        """Log as `log` says from now on, with files opened anew. Raises OSError; nothing has changed then."""
        logs.configure(log, node=self.host.node.name)
        self.log = log

    def acting(self) -> AbstractContextManager[None]:
        """What is done within is told as the command line's, delivered and stored."""
        return self.host.acting(ACTOR)

    def connections(self) -> list[Connection]:
        """Those that have opened a virtual host, the oldest first."""
        return [one for one in self.host.connections() if one.vhost is not None]


class Call(Question):
    """A question to this broker."""

    __slots__ = ("daemon", "host", "node", "vhost_name")

    def __init__(self, daemon: Daemon, command: str, arguments: list[str], options: Options) -> None:
        super().__init__(command, arguments, options)
        self.daemon = daemon
        self.host = daemon.host
        self.node: Node = daemon.host.node
        self.vhost_name = self.text("vhost") or self.node.default_vhost

    def vhost(self) -> VHost:
        """Raises Refused (65)."""
        vhost = self.node.vhosts.get(self.vhost_name)
        if vhost is None:
            raise no_vhost(self.vhost_name)
        return vhost

    def user(self, name: str) -> User:
        """Raises Refused (67)."""
        user = self.node.users.get(name)
        if user is None:
            raise no_user(name)
        return user


Handler = Callable[[Call], "Answer | Awaitable[Answer]"]
