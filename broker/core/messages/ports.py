"""The four small ports through which effects leave the core. Each has a real implementation and a fake in the tests."""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .binding import Binding
from .message import Message

if TYPE_CHECKING:
    from ..exchanges.exchange import Exchange
    from ..metadata.records import Change
    from ..queues.queue import Queue

# The process, or the system, has no file or memory to spare now: it is tried again, as nothing is wrong with the disk.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
FULL = (errno.ENOSPC, errno.EDQUOT)  # a disk without room is one to wait for; any other failure of one is final


class Timer:
    """What `Clock.call_at` hands out."""

    def cancel(self) -> None:
        raise NotImplementedError


class Clock:
    """Time. `now_ms` never goes back while the node runs, and starts from wall time, in milliseconds since 1970: a
    deadline by it can be stored and holds after a restart. `timestamp_s` is wall time."""

    def now_ms(self) -> int:
        raise NotImplementedError

    def timestamp_s(self) -> int:
        raise NotImplementedError

    def call_at(self, when_ms: int, fn: Callable[[], None]) -> Timer:
        raise NotImplementedError


class Pages:
    """The id and place of each stored message of one queue, in order: 16 bytes a message."""

    __slots__ = ("ids", "places")

    def __init__(self) -> None:
        self.ids = array("Q")
        self.places = array("Q")

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.ids, self.places, strict=True)

    def __getitem__(self, part: slice) -> list[tuple[int, int]]:
        return list(zip(self.ids[part], self.places[part], strict=True))

    def append(self, id_: int, place: int) -> None:
        self.ids.append(id_)
        self.places.append(place)


class Batch:
    """What a journal makes durable together."""

    number: int

    def commit(self) -> None:
        """On another thread. Raises OSError: of a full disk, and may be called again; or any other, and is lost."""
        raise NotImplementedError


class Journal:
    """Where the messages of durable queues are kept.

    What is appended belongs to the batch that is now being filled, whose number is `ticket()`. A batch is durable once
    `durable` has reached its number. Queues are known by a number that is never given twice; 0 is none.

    A batch that has messages, or says what became of some, is on the disk then, with all that was declared before. One
    of nothing but declarations is safe from a killed process, and from a power cut only after `sync`, or after a batch
    with messages: no confirm has depended on it until then.

    What it has moved since the start of the broker is counted, in octets of files and in messages.
    """

    durable: int
    written_bytes = 0
    read_bytes = 0
    reads = 0  # of a file, each of many messages if it can
    read_messages = 0

    @property
    def written_messages(self) -> int:
        """Copies for the sake of compaction too."""
        return 0

    @property
    def read_errors(self) -> int:
        """Reads of a file that the disk refused, each time that a message or a copy needed one."""
        return 0

    @property
    def damaged_records(self) -> int:
        """Records that were read and are not what was written, each time that they were read."""
        return 0

    def ticket(self) -> int:
        """The batch that is being filled, or the last one, when nothing has been added since."""
        raise NotImplementedError

    def behind(self) -> bool:
        """Whether more has gathered than should: who adds to it is to wait until it is durable."""
        return False

    def append(self, queues: list[int], messages: list[Message]) -> None:
        """Store each message, once for all these queues. It gets its `id` and `place`, and must have had none."""
        raise NotImplementedError

    def settle(self, queue: int, id_: int, place: int) -> None:
        """The queue is done with the message: acknowledged, dropped or purged."""
        raise NotImplementedError

    def settle_moved(self, queue: int, id_: int, place: int) -> None:
        """Settle a message whose copies for other queues were appended since the last `seal`, in one step with them:
        a power cut may keep any part of a batch, and the message or its copies have to be there."""
        self.settle(queue, id_, place)

    def count(self, queue: int, id_: int, place: int, attempts: int) -> None:
        """The message has come back to this queue so often, which `read` and a restart remember. It only grows."""
        raise NotImplementedError

    def gone(self, queue: int) -> None:
        """The queue was deleted; what it settles from now on needs no record of its own."""
        raise NotImplementedError

    def change(self, change: Change) -> None:
        """Something durable was declared or deleted."""
        raise NotImplementedError

    def seal(self) -> Batch | None:
        """What has gathered since the last batch; None when it is nothing, or when that one is not committed yet."""
        raise NotImplementedError

    def unsynced(self) -> bool:
        """Whether a power cut could still take declarations back."""
        return False

    def sync(self) -> None:
        """The next batch is to put that right."""
        raise NotImplementedError

    def committed(self, number: int) -> None:
        """The batch's `commit` has returned."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is outstanding, and nothing follows."""
        raise NotImplementedError

    def read(self, pages: list[tuple[int, int]], queue: int = 0) -> list[Message | None]:
        """Stored messages by id and place, in this order, each with the attempts that this queue counted.

        A page that was read is used up: the message says where it is kept now. None is for a page that the disk does
        not give, or that was damaged; it may be read again later, and the journal has logged where it is. The list ends
        in front of such a page that follows one that could be read: what is missing at the end was not tried. It is
        empty where the system has no descriptor or memory to spare for a read now: nothing is wrong with any page then.
        """
        raise NotImplementedError

    def read_all(self, pages: list[tuple[int, int]], queue: int = 0) -> list[Message | None]:
        """Likewise, to the end, whatever cannot be read on the way, or until the system has nothing to spare."""
        messages = self.read(pages, queue)
        while 0 < len(messages) < len(pages):
            read = self.read(pages[len(messages) :], queue)
            if not read:
                break
            messages += read
        return messages

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        """Call `fn` once `durable` has reached the ticket; it has not yet. Calls come in the order of tickets."""
        raise NotImplementedError


class Consumer:
    """One consumer of one queue, as the queue sees it.

    `line` is what its deliveries are written to: consumers that share one see the order of all of them.
    `waiting` is the queue's own mark: the consumer had no room when last asked and has left the turn until it calls
    `Queue.wake`. `shares` says that what room it has is also that of other consumers. `unacked` counts what it has not
    settled.
    """

    __slots__ = ("tag", "queue", "line", "no_ack", "exclusive", "priority", "waiting", "shares", "unacked")

    def __init__(self, tag: str, queue: Queue, line: object, no_ack: bool, exclusive: bool, priority: int) -> None:
        self.tag = tag
        self.queue = queue
        self.line = line
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.waiting = False
        self.shares = False
        self.unacked = 0

    @property
    def ended(self) -> bool:
        """Whether its channel is over, though the queue still has it: the end follows in slices."""
        return False

    def finish(self) -> None:
        """Leave the queue now, as one that has `ended`; the queue delivers on when it has back what is out."""
        raise NotImplementedError

    def room(self, body_bytes: int) -> int:
        """How many messages with bodies of about that size can be delivered now, by credit and unsent octets."""
        raise NotImplementedError

    def deliver(self, messages: list[Message], position: int, step: int, redelivered: bool) -> None:
        """Take messages whose positions are position, position + step, and so on. There was room for all of them."""
        raise NotImplementedError

    def cancelled(self) -> None:
        """The queue is gone (or the right to read it); the queue has already forgotten this consumer."""
        raise NotImplementedError


class Publisher:
    """A connection that publishes, as a queue sees it that asked it to wait."""

    __slots__ = ()

    @property
    def ended(self) -> bool:
        """Whether it is over, though what it had is not gone yet: that follows in slices."""
        return False

    def drained(self, queue: Queue) -> None:
        """The queue has little left, or is gone: publish on."""
        raise NotImplementedError

    def disowned(self, queue: Queue) -> None:
        """A queue that this connection had exclusively is deleted."""


class Observer:
    """Told of every change of the topology, after it happened. Federation, presence and management are observers."""

    def exchange_declared(self, exchange: Exchange) -> None: ...

    def exchange_deleted(self, exchange: Exchange) -> None: ...

    def queue_declared(self, queue: Queue) -> None: ...

    def queue_deleted(self, queue: Queue) -> None: ...

    def bound(self, vhost: str, binding: Binding) -> None: ...

    def unbound(self, vhost: str, binding: Binding) -> None: ...

    def consumers_changed(self, queue: Queue) -> None: ...

    def policy_changed(self, target: Queue | Exchange) -> None:
        """Another policy, or another definition of it, now holds for this one; it works by it already."""

    def configured(self, change: Change) -> None:
        """A vhost, user, permission, topic permission or parameter (policies are parameters) was put or dropped."""
