"""The port for a log of every message, which is called with each batch of messages that enters or leaves a queue.

A virtual host has one, or None: then each batch costs one look at an attribute, and no message anything. It is called
beside the counters that count the same (`statistics`), before the queue or the client gets the messages. Callers keep
no list that they pass, and implementations must not change one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import TYPE_CHECKING

from ..messages.message import Message
from .route_target import RouteTarget

if TYPE_CHECKING:
    from .queue import Queue

# Sources of messages that no client has published here (`enqueued`), and reasons for which one returns to its queue.
DEAD_LETTERED, DELAYED, MADE = "dlx", "delayed", "made"
NACK, REJECT, RECOVER, CHANNEL = "nack", "reject", "recover", "channel"
PURGED, DELETED = "purged", "deleted"


class Origin:
    """The channel that publishes or is delivered to, as the firehose and the message log record it.

    connection, channel, vhost, user  names of the connection, the virtual host and the user; the number of the channel
    upstream, link                    of a federation link: the upstream's name, and the queue there that it consumes
    unconfirmed                       the message log's notes until publishes are confirmed; None while it has none
    """

    __slots__ = ("connection", "channel", "vhost", "user", "upstream", "link", "unconfirmed")

    def __init__(self, connection: str, channel: int, vhost: str, user: str) -> None:
        self.connection = connection
        self.channel = channel
        self.vhost = vhost
        self.user = user
        self.upstream = ""
        self.link = ""
        self.unconfirmed: deque[tuple[int, int, int]] | None = None


class MessageLog:
    """A recorder of messages; this one ignores all of them.

    `Message.seq` is the recorder's own number for a message, 0 until it has given one.
    """

    __slots__ = ()

    def publishing(self, origin: Origin, messages: list[Message], alike: bool, number: int) -> None:
        """A client publishes messages; `published` follows. `alike` messages have the same properties and size.

        `number` is the confirm number of the first of them on its channel, 0 without confirms.
        """

    def returned(self, origin: Origin, messages: list[Message]) -> None:
        """Messages without a queue go back to the publisher."""

    def published(self, targets: tuple[RouteTarget, ...]) -> None:
        """The messages of the last `publishing` were offered to all of these targets, their whole route."""

    def discarded(self, origin: Origin, message: Message, reason: str) -> None:
        """A federation link drops a message, for one with too many hops, or a duplicate."""

    def confirmed(self, origin: Origin, first: int, last: int, refused: Container[int]) -> None:
        """The publishes `first` to `last` are confirmed, except for those `refused`, which are nacked."""

    def enqueued(self, queues: tuple[Queue, ...], messages: list[Message], source: str) -> None:
        """Messages enter each of these queues; `source` is empty for those of the last `publishing`."""

    def made(self, messages: list[Message]) -> None:
        """Messages of the broker itself get copies for several queues: each copy is the same message."""

    def delivered(
        self,
        origin: Origin,
        tag: str,
        queue: Queue,
        messages: list[Message],
        position: int,
        step: int,
        redelivered: bool,
        no_ack: bool,
    ) -> None:
        """Messages go to the consumer with that tag, or to a basic.get if it is empty.

        Positions are those of `Consumer.deliver`. HOT: bench A-M.
        """

    def acked(self, origin: Origin, tag: str, queue: Queue, messages: list[Message]) -> None:
        """Acknowledged messages leave the queue. HOT: bench B, D, I, L."""

    def refused(self, origin: Origin, tag: str, queue: Queue, message: Message) -> None:
        """A client nacks or rejects a message; `requeued` or `left` follows."""

    def requeued(self, queue: Queue, message: Message, reason: str) -> None:
        """A message returns to its queue; the reason is NACK, REJECT, RECOVER, or CHANNEL when that closes."""

    def left(self, queue: Queue, messages: list[Message], reason: str) -> None:
        """Messages leave the queue; the reason is one of dead-lettering (`x_death`), PURGED or DELETED."""

    def left_paged(self, queue: Queue, seqs: list[int], average_bytes: int, reason: str) -> None:
        """Messages that are not in memory leave the queue, PURGED or DELETED; `seqs` has each `Message.seq`."""

    def cleared(self, queue: Queue) -> None:
        """All ready messages leave the queue; `left` and `left_paged` follow, perhaps for many turns."""
