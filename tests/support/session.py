"""A session without a transport: the real state machine over a port that only records calls.

What `net/` does when output is taken and input is held back is left to the test, and an error of ours comes out of
`receive` as it is. `SlowJournal` is a disk on which nothing is safe before the test says so.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from warren.broker.amqp.field_table import Table
from warren.broker.core.access.passwords import SHA256, Hashing, hash_password
from warren.broker.core.access.users import InternalUser, User, Users
from warren.broker.core.counters.statistics import Statistics
from warren.broker.core.messages.journal_port import BEHIND, Journal
from warren.broker.core.messages.message import Message
from warren.broker.core.messages.message_state import MessageState
from warren.broker.core.metadata.records import Change
from warren.broker.core.node.node import Node
from warren.broker.session.connection import Connection
from warren.broker.session.management_channel import ManagementChannel
from warren.broker.session.settings import Settings
from warren.broker.session.transport import Peer, TransportPort

from .amqp_client import Client, Silence
from .clock import FakeClock


class SlowJournal(Journal):
    """A journal in memory whose batches are on disk when a test says so, and of which any number may be sealed before.

    `live` are, by queue and id, the messages that a restart would bring back; `loose` those that were stored for no
    queue, only to be read again, and `held` how many hold them beside the first; `left` what deleted queues have not
    let go of yet. A message is stored once, with all its queues, and each of them settles it once.
    """

    def __init__(self) -> None:
        self.durable = 0
        self.live: dict[tuple[int, int], Message] = {}
        self.loose: dict[int, Message] = {}
        self.held: Counter[int] = Counter()
        self.left: set[tuple[int, int]] = set()
        self.much = False  # has gathered, so that publishers are to wait
        self.stored = 0
        self.reads = 0
        self.attempts: dict[tuple[int, int], int] = {}
        self._gone: set[int] = set()
        self._filling = 1
        self._added = False
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    @property
    def sealed(self) -> int:
        """The last sealed batch."""
        return self._filling - 1

    def ticket(self) -> int:
        return self._filling if self._added else self._filling - 1

    def room(self) -> int:
        return BEHIND if self.much and not self.alarm else super().room()

    def append(self, queues: list[int], messages: list[Message]) -> None:
        assert messages and 0 not in queues and len(set(queues)) == len(queues) and not self._gone & set(queues)
        for message in messages:
            assert not message.id, "stored twice"
            self.stored += 1
            message.id = self.stored
            values = message.address, message.frames, message.channel, message.body_bytes, message.largest_frame
            stored = Message(*values, message.persistent)
            stored.id, stored.state = message.id, message.state and message.state.copy()
            for queue in queues:
                assert message.persistent
                self.live[queue, message.id] = stored
            if not queues:
                self.loose[message.id] = stored
        self._added = True

    def record_delivery_count(self, queue: int, id_: int, attempts: int) -> None:
        assert attempts > 0
        self.attempts[queue, id_] = attempts
        self._added = True

    def hold(self, id_: int) -> bool:
        self.held[id_] += id_ in self.loose
        return id_ in self.loose

    def settle(self, queue: int, id_: int) -> None:
        if self.held[id_]:
            self.held[id_] -= 1
        elif id_ in self.loose:  # a queue that drops what it has not read back does not know which of it is loose
            del self.loose[id_]
        elif queue in self._gone:
            self.left.remove((queue, id_))
        else:
            del self.live[queue, id_]
        self._added = True

    def settle_many(self, queue: int, messages: list[Message]) -> None:
        for message in messages:
            self.settle(queue, message.id)

    def queue_deleted(self, queue: int) -> None:
        assert queue and queue not in self._gone
        self._gone.add(queue)
        left = [key for key in self.live if key[0] == queue]
        for key in left:
            del self.live[key]
        self.left.update(left)
        self._added = True

    def change(self, change: Change) -> None:
        self._added = True

    def read(self, ids: list[int], queue: int = 0) -> list[Message | None]:
        """Return copies of the messages, as a disk does."""
        self.reads += 1
        stored = self.loose | {id_: message for (_, id_), message in self.live.items()}
        messages: list[Message | None] = []
        for id_ in ids:
            copy = stored[id_].copy_for_queue()
            copy.id = id_
            if (queue, id_) in self.attempts:
                copy.state = copy.state.copy() if copy.state is not None else MessageState()
                copy.state.attempts = self.attempts[queue, id_]
            messages.append(copy)
        return messages

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        assert self.durable < ticket <= self._filling, "nothing to wait for"
        assert not self._waiting or self._waiting[-1][0] <= ticket
        self._waiting.append((ticket, fn))

    def seal(self) -> None:
        """Begin another batch, unless this one is empty; it is not on disk yet."""
        if self._added:
            self._filling += 1
            self._added = False

    def commit(self, batch: int) -> None:
        """Declare all batches up to this one to be on disk."""
        if batch == self._filling:
            self.seal()
        assert batch < self._filling, "there is no such batch"
        self.durable = max(self.durable, batch)
        while self._waiting and self._waiting[0][0] <= batch:
            self._waiting.pop(0)[1]()


class SureJournal(SlowJournal):
    """A journal in memory whose records are on disk at once, unless it has gathered too much."""

    def ticket(self) -> int:
        return super().ticket() if self.much else self.durable

    def catch_up(self) -> None:
        """Have all that has gathered on disk, so that publishers go on."""
        batch, self.much = self.ticket(), False
        self.commit(batch)


class QuietLink(TransportPort):
    """A transport port that records calls. `held`: reading is paused; `closing`: the delay in seconds of the close."""

    def __init__(self) -> None:
        self.held = False
        self.holds = 0
        self.asked = False  # to take output
        self.closing: float | None = None
        self.log: list[tuple[str, dict[str, object]]] = []

    def flush_soon(self) -> None:
        self.asked = True

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
    """The client's end of a session. Output is taken when the client reads, not before."""

    def __init__(self, node: Node, settings: Settings) -> None:
        self.link = QuietLink()
        self.connection = Connection(node, settings, Peer("127.0.0.1", 50000, "127.0.0.1", 5672, True), self.link)

    def send(self, data: bytes) -> None:
        self.connection.receive(data)

    def receive(self, wait_ms: int | None = None) -> bytes:
        while self.link.asked:
            self.link.asked = False
            data = b"".join(self.connection.take_output())
            self.connection.flushed()
            if data:
                return data
        if self.link.closing is not None:
            return b""
        raise Silence("nothing came")

    def close(self) -> None:
        self.connection.lost("gone")


def statistics_of(node: Node) -> Statistics:
    """The sum of the counters of all virtual hosts."""
    total = Statistics()
    for _ in node.sum_statistics(total):
        pass
    return total


def new_node(journal: Journal | None = None, hashing: Hashing | None = None) -> Node:
    """A node with the vhost `/` and the user guest."""
    users = Users(frozenset(), hashing, algorithm=SHA256)
    node = Node("node", "cluster", FakeClock(), journal or Journal(), users)
    node.add_vhost("/")
    users.add("guest", hash_password("guest", b"salt"))
    users.set_permission("guest", "/", ".*", ".*", ".*")
    return node


def dial(node: Node, **settings: Any) -> Client:
    """Open a connection without a handshake."""
    return Client(SessionPipe(node, Settings(Table.EMPTY, **settings)))


def logged_in(node: Node, user: str = "guest", **settings: Any) -> Client:
    """Open a connection up to its tuning. The password is the name of the user."""
    client = dial(node, **settings)
    client.start()
    client.login("PLAIN", f"\0{user}\0{user}")
    client.tune()
    return client


def connected(node: Node, user: str = "guest", **settings: Any) -> Client:
    """Open a connection, with its handshake. The password is the name of the user."""
    return dial(node, **settings).open(user, user)


def operator_channel(
    node: Node, user: User | InternalUser | None = None, settings: Settings | None = None
) -> ManagementChannel:
    """A channel in the virtual host `/`, as of a request over HTTP; of an operator, unless it is of a user."""
    there = Peer("127.0.0.1", 50000, "127.0.0.1", 15672, True)
    settings = settings or Settings(Table.EMPTY)
    return ManagementChannel(node, settings, user or InternalUser("/"), node.vhosts["/"], there, lambda *_: None)


def pipe_of(client: Client) -> SessionPipe:
    assert isinstance(client.pipe, SessionPipe)
    return client.pipe
