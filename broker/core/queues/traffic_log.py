"""The port of a traffic log: it is called with each batch of messages that enters or leaves a queue.

A virtual host has one or None; None costs a look at one attribute per batch. It is called where the counters of
`statistics` are, before the queue or the client gets the messages. Callers keep no list that they pass, and
implementations must not change one.
"""

from collections import deque
from collections.abc import Container, Sequence
from typing import Protocol

from ..messages.message import Message
from .queue_settings import QueueSettings
from .route_target import Targets

# Sources of messages that no client has published here (`enqueued`, also MOVED), and reasons for the requeueing and the
# removal of messages.
DEAD_LETTERED, DELAYED, MADE = "dlx", "delayed", "made"
NACK, REJECT, RECOVER, CHANNEL = "nack", "reject", "recover", "channel"
PURGED, DELETED, MOVED = "purged", "deleted", "moved"
CYCLE, REFUSED = "cycle", "refused"  # why a dead letter is dropped
COMMIT = 1  # the number of all publishes of a transaction: its channel publishes nothing until they are confirmed


class Origin:
    """The channel of a publish or a delivery, as the firehose and the traffic log record it.

    connection, channel, vhost, user  names of the connection, the virtual host and the user; the number of the channel
    upstream, link                    of a federation link: the upstream's name, and the queue that it consumes there
    unconfirmed                       the traffic log's record of unconfirmed publishes, or None
    """

    __slots__ = ("connection", "channel", "vhost", "user", "upstream", "link", "unconfirmed", "__weakref__")

    def __init__(self, connection: str, channel: int, vhost: str, user: str) -> None:
        self.connection = connection
        self.channel = channel
        self.vhost = vhost
        self.user = user
        self.upstream = ""
        self.link = ""
        self.unconfirmed: deque[tuple[int, int, int]] | None = None


class LoggedQueue(Protocol):
    """A queue as a traffic log sees it. `number` identifies a durable queue in the journal; 0 for all others."""

    name: str
    number: int
    vhost: str
    settings: QueueSettings
    deleted: bool
    unacked: int


class TrafficLog:
    """A recorder of each batch of messages that enters or leaves a queue. This base class records nothing.

    `Message.seq` is the recorder's own number of a message, or 0. A copy that has none yet has the negative number of
    the message that it was made of.
    """

    __slots__ = ()

    def publishing(self, origin: Origin, messages: list[Message], alike: bool, number: int) -> None:
        """A client publishes messages; `published` follows. `alike` messages have the same properties and size.

        `number` is the confirm number of the first of them on its channel, COMMIT in a transaction, otherwise 0.
        """

    def published(self, targets: Targets, returned: bool = False) -> None:
        """The messages of the last `publishing` were offered to all of these targets, their whole route.

        Without targets they are dropped, or `returned` to the publisher.
        """

    def discarded(self, origin: Origin, message: Message, reason: str) -> None:
        """A federation link drops a message, which has too many hops or is a duplicate."""

    def confirmed(self, origin: Origin, first: int, last: int, refused: Container[int]) -> None:
        """The publishes `first` to `last` are confirmed, except for those `refused`, which are nacked.

        Those of a transaction are confirmed by its commit, and those of an internal publisher once they are durable.
        """

    def enqueued(self, queues: Sequence[LoggedQueue], messages: list[Message], source: str) -> None:
        """Messages enter each of these queues.

        `source` is empty for those of the last `publishing`, and for a message that was published in an earlier turn
        to so many queues that it enters some of them now.
        """

    def made(self, messages: list[Message]) -> None:
        """The broker makes messages that get copies for several queues; each copy counts as the same message."""

    def delivered(
        self,
        origin: Origin,
        tag: str,
        queue: LoggedQueue,
        messages: list[Message],
        position: int,
        step: int,
        redelivered: bool,
        no_ack: bool,
    ) -> None:
        """Messages are delivered to the consumer with this tag, or to basic.get if it is empty.

        Positions are those of `Consumer.deliver`. HOT: bench A-M.
        """

    def needs_content(self, tag: str, queue: LoggedQueue) -> bool:
        """Return whether `settled` needs the contents of messages of this consumer (`delivered`)."""
        return False

    def settled(self, origin: Origin, tag: str, queue: LoggedQueue, messages: list[Message], acked: bool) -> None:
        """A client acknowledges messages, which leave the queue, or nacks or rejects them. HOT: bench B, D, I, L.

        After a nack or reject a call of `requeued` or `left` follows for each message.
        """

    def requeued(self, queue: LoggedQueue, message: Message, reason: str) -> None:
        """A message returns to its queue. The reason is NACK, REJECT, RECOVER, or CHANNEL if that was closed."""

    def left(self, queue: LoggedQueue, messages: list[Message], reason: str) -> None:
        """Messages leave the queue. The reason is one of dead-lettering (`x_death`), PURGED, DELETED or MOVED.

        Of PURGED and DELETED ones that are not in memory only `seq` and an average length are given.
        """

    def unrouted(self, queue: LoggedQueue, messages: list[Message], reason: str) -> None:
        """Messages that left the queue are dropped.

        Its dead letter exchange does not exist, or leads to no queue. Or the reason is CYCLE: all queues that it leads
        to had them before; or REFUSED: the only one is full.
        """

    def cleared(self, queue: LoggedQueue) -> None:
        """All ready messages leave the queue; calls of `left` follow, perhaps for many turns."""
