"""One request of `warrenctl`, what it reaches of the daemon, and what it may answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..core.events import INTERNAL

if TYPE_CHECKING:
    from ..config import Config, Sources
    from ..core.node import Node
    from ..core.users import User
    from ..core.vhost import VHost
    from ..net.resources import Resources
    from ..net.server import Server
    from ..session.connection import Connection

ACTOR = "rmq-cli"  # under this name events tell who did it

# Exit statuses of sysexits.h, as RabbitMQ's tools use them.
USAGE, DATA, NO_USER, UNAVAILABLE, SOFTWARE, TIMEOUT = 64, 65, 67, 69, 70, 75


class Refused(Exception):
    """What ends `warrenctl` with a status other than 0; the text is what it prints.

    `bare` is without the word Error in front; a status of USAGE is printed with the usage of the command.
    """

    def __init__(self, status: int, text: str, bare: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.bare = bare


class Rows:
    """A list: its columns, and rows that are made as they are written."""

    __slots__ = ("columns", "rows")

    def __init__(self, columns: list[str], rows: Iterable[Sequence[object]]) -> None:
        self.columns = columns
        self.rows = rows


class Daemon:
    """The running broker. `listen` opens the listeners for AMQP anew, None where it cannot; `stop` ends the daemon."""

    def __init__(
        self,
        node: Node,
        config: Config,
        server: Server,
        resources: Resources,
        listen: Callable[[], Coroutine[object, object, object]],
        stop: Callable[[], None],
        sources: Sources,
    ) -> None:
        self.node = node
        self.config = config
        self.server = server
        self.resources = resources
        self.listen = listen
        self.stop = stop
        self.config_files = sources.files
        self.log = config.log  # as it is now
        self.started_ms = node.clock.now_ms()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """What is done within is told as the command line's, delivered and stored."""
        self.node.events.actor = ACTOR
        try:
            yield
        finally:
            self.node.events.actor = INTERNAL
            self.node.pump()
            self.server.commit_soon()

    def connections(self) -> list[Connection]:
        """Those that have opened a virtual host, by their numbers."""
        return [one for one in self.server.connections.values() if one.vhost is not None]


class Call:
    """`arguments` are the positional ones; `options` are by their long names, without dashes in front."""

    __slots__ = ("daemon", "node", "command", "vhost_name", "arguments", "options")

    def __init__(self, daemon: Daemon, command: str, arguments: list[str], options: dict[str, str | bool]) -> None:
        self.daemon = daemon
        self.node = daemon.node
        self.command = command
        self.arguments = arguments
        self.options = options
        self.vhost_name = self.text("vhost") or self.node.default_vhost

    def text(self, option: str, default: str = "") -> str:
        value = self.options.get(option, default)
        return value if isinstance(value, str) else default

    def flag(self, option: str) -> bool:
        return bool(self.options.get(option))

    def whole(self, option: str, default: int) -> int:
        """Raises Refused for what is no whole number."""
        return whole(self.text(option, str(default)), option)

    def vhost(self) -> VHost:
        """Raises Refused (65)."""
        vhost = self.node.vhosts.get(self.vhost_name)
        if vhost is None:
            raise Refused(DATA, f"Virtual host '{self.vhost_name}' does not exist", bare=True)
        return vhost

    def user(self, name: str) -> User:
        """Raises Refused (67)."""
        user = self.node.users.get(name)
        if user is None:
            raise Refused(NO_USER, f'User "{name}" does not exist')
        return user

    def document(self, text: str) -> object:
        """The value of an argument that is JSON. Raises Refused (69)."""
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refused(UNAVAILABLE, f"JSON decoding error. Reason: {error}") from None
        return value


def whole(text: str, name: str) -> int:
    """Raises Refused (64)."""
    try:
        return int(text)
    except ValueError:
        raise Refused(USAGE, f"{name} should be an integer, actually was {text}") from None


class Report:
    """Something that is told as text, and as a value where a machine reads it."""

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: object) -> None:
        self.text = text
        self.value = value


Answer = object
"""None for nothing to say, Rows, a Report, or a value of JSON."""

Handler = Callable[[Call], "Answer | asyncio.Future[Answer]"]
