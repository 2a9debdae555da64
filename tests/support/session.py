"""A session without a transport: the real state machine over a link that only notes what it is asked.

What `net/` does when output is taken and input is held back is left to the test, and an error of ours comes out of
`receive` as it is. `SlowJournal` is a disk on which nothing is safe before the test says so.
"""

from collections.abc import Callable
from typing import Any

from broker.core.message import Message
from broker.core.node import Node
from broker.core.ports import Journal
from broker.core.users import Permission, User, Users, hash_password
from broker.session.connection import Connection
from broker.session.link import Link, Peer
from broker.session.settings import Settings
from broker.storage.memory import MemoryJournal
from broker.table import Table

from .amqp import Client
from .clock import FakeClock
from .received import Silence


class SlowJournal(Journal):
    """One batch is filled at a time. `live` are the messages that a restart would bring back."""

    def __init__(self) -> None:
        self.durable = 0
        self.live: dict[tuple[str, int], Message] = {}
        self._filling = 1
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def ticket(self) -> int:
        return self._filling

    def append(self, queue: str, position: int, message: Message) -> None:
        assert (queue, position) not in self.live, "a position is used twice"
        self.live[queue, position] = message

    def settle(self, queue: str, position: int) -> None:
        del self.live[queue, position]

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        assert self.durable < ticket <= self._filling, "nothing to wait for"
        assert not self._waiting or self._waiting[-1][0] <= ticket
        self._waiting.append((ticket, fn))

    def seal(self) -> None:
        """Begin another batch; the one before is not on disk yet."""
        self._filling += 1

    def commit(self, batch: int) -> None:
        """All batches up to this one are on disk."""
        if batch == self._filling:
            self.seal()
        self.durable = batch
        while self._waiting and self._waiting[0][0] <= batch:
            self._waiting.pop(0)[1]()


class QuietLink(Link):
    """`held` is whether the session wants to read, `closing` the seconds after which it wants to be closed."""

    def __init__(self) -> None:
        self.held = False
        self.holds = 0
        self.closing: float | None = None
        self.log: list[tuple[str, dict[str, object]]] = []

    def flush_soon(self) -> None: ...

    def running(self, heartbeat_s: int) -> None: ...

    def hold(self) -> None:
        self.held = True
        self.holds += 1

    def release(self) -> None:
        self.held = False

    def close(self, after_s: float) -> None:
        self.closing = after_s

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        self.log.append((event, fields))


class SessionPipe:
    """The client's end. Output is taken when the client looks for some, not before."""

    def __init__(self, node: Node, settings: Settings) -> None:
        self.link = QuietLink()
        self.connection = Connection(node, settings, Peer("127.0.0.1", 50000, "127.0.0.1", 5672, True), self.link)

    def send(self, data: bytes) -> None:
        self.connection.receive(data)

    def receive(self, wait_ms: int | None = None) -> bytes:
        data = b"".join(self.connection.take_output())
        if not data:
            if self.link.closing is not None:
                return b""
            raise Silence("nothing came")
        self.connection.flushed()
        return data

    def close(self) -> None:
        self.connection.lost("gone")


def new_node(journal: Journal | None = None) -> Node:
    """A node with the vhost `/` and the user guest."""
    users = Users(frozenset())
    guest = User("guest", hash_password("guest", b"salt"), frozenset())
    guest.permissions["/"] = Permission(".*", ".*", ".*")
    users.add(guest)
    node = Node("node", "cluster", FakeClock(), journal or MemoryJournal(), users)
    node.add_vhost("/")
    return node


def dial(node: Node, **settings: Any) -> Client:
    """A connection on which nothing was said."""
    return Client(SessionPipe(node, Settings(Table.EMPTY, **settings)))


def pipe_of(client: Client) -> SessionPipe:
    assert isinstance(client.pipe, SessionPipe)
    return client.pipe
