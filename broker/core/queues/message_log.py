"""The port for whoever keeps a log of every message: told of what becomes of them, a batch at a time.

A virtual host has one, or None: then each batch costs one look at an attribute, and no message anything. What is told
stands beside the counters that count the same (`statistics`). Messages are told of before the queue or the client has
them; nothing of what is told is kept by whoever tells, and no list may be changed by whoever is told.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from ..messages.message import Message
from .origin import Origin

if TYPE_CHECKING:
    from .queue import Queue

# Where messages come from that no client has published here (`enqueued`); and why one goes back to its queue.
DEAD_LETTERED, DELAYED, MADE = "dlx", "delayed", "made"
NACK, REJECT, RECOVER, CHANNEL = "nack", "reject", "recover", "channel"
PURGED, DELETED = "purged", "deleted"


class MessageLog:
    """`Message.seq` is the log's, to tell messages apart: 0 until it has given one."""

    __slots__ = ()

    def publishing(self, origin: Origin, messages: list[Message], alike: bool, number: int) -> None:
        """About to be given to queues; `published` follows. Those that are `alike` have the same properties and size.

        `number` is that of the first of them on its channel, where they are to be confirmed; else 0.
        """
        raise NotImplementedError

    def returned(self, origin: Origin, messages: list[Message]) -> None:
        """They go back to the publisher, as no queue is to have them."""
        raise NotImplementedError

    def published(self, queues: tuple[Queue, ...]) -> None:
        """These queues, all of those that `publishing` led to, had their chance to take what it told of."""
        raise NotImplementedError

    def discarded(self, origin: Origin, message: Message, reason: str) -> None:
        """A link has brought it, and it goes into no queue: it came too far, say, or twice."""
        raise NotImplementedError

    def confirmed(self, origin: Origin, first: int, last: int, refused: Container[int]) -> None:
        """The publisher is told of its publishes `first` to `last`: that they are safe, but for those `refused`."""
        raise NotImplementedError

    def enqueued(self, queues: tuple[Queue, ...], messages: list[Message], source: str) -> None:
        """Into each of these queues; `source` is empty for what `publishing` has told of."""
        raise NotImplementedError

    def made(self, messages: list[Message]) -> None:
        """No client has published them, and copies are to be made for several queues: the same message in each."""
        raise NotImplementedError

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
        """To the consumer with that tag; to a basic.get where it is empty. Positions are as `Consumer.deliver` has
        them. HOT: bench A-M."""
        raise NotImplementedError

    def acked(self, origin: Origin, tag: str, queue: Queue, messages: list[Message]) -> None:
        """They leave the queue. HOT: bench B, D, I, L."""
        raise NotImplementedError

    def refused(self, origin: Origin, tag: str, queue: Queue, message: Message) -> None:
        """By basic.nack or reject. What follows from it is told separately."""
        raise NotImplementedError

    def requeued(self, queue: Queue, message: Message, reason: str) -> None:
        """Back in its queue: NACK, REJECT, RECOVER, or the end of the CHANNEL."""
        raise NotImplementedError

    def left(self, queue: Queue, messages: list[Message], reason: str) -> None:
        """They leave the queue, for a reason of dead-lettering (`dead_letters`), PURGED or DELETED."""
        raise NotImplementedError

    def left_paged(self, queue: Queue, seqs: list[int], average_bytes: int, reason: str) -> None:
        """They leave the queue, PURGED or DELETED, and are not in memory: `Message.seq` of each."""
        raise NotImplementedError

    def cleared(self, queue: Queue) -> None:
        """All that is ready leaves it; `left` and `left_paged` follow, perhaps for many turns."""
        raise NotImplementedError
