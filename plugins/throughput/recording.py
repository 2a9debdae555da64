"""The log of messages: what the broker tells, as records of batches.

Nothing is made here for a record that lasts beyond the batch it came in. What is published together is numbered on, and
so is said once, however many messages that are and however many queues they go to; of what is delivered and settled
the messages are looked at for their numbers and sizes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from itertools import groupby
from operator import attrgetter

from broker.plugin import Message, MessageLog, Origin, Queue

from . import schema
from .buffer import Buffer
from .content import hops, identity, wanted
from .stream import HOPS, IDENTITY, NO_ACK, PERSISTENT, PROPERTIES, REDELIVERED, SEQ_SHIFT, UNTIMED

REFUSED = "nack"  # the reason of a confirm that is none
GET = "get"  # of a delivery that no consumer had
NEVER_DEAD_LETTERED = ("deleted", "purged")
# How queues from which links of exchanges consume are called, and consumers of links of queues.
LINK_QUEUE, LINK_TAG = "federation: ", "federation-link-"
FLAGS_AT = 19  # of the properties, in the frames of a message
MOST_HOPS = 127

persistence = attrgetter("persistent")


class Batch:
    """What is being published: those of `messages` that are logged, numbered on from `first`, and `row` for the first.

    `routes` counts the queues that all of them went to, `routes_of` those that one of them, by its number, went to.
    """

    __slots__ = ("messages", "logged", "alike", "first", "row", "mono_ns", "origin", "address", "kind", "routes",
                 "routes_of")  # fmt: skip

    def __init__(
        self,
        messages: list[Message],
        logged: list[Message],
        alike: bool,
        first: int,
        row: int,
        mono_ns: int,
        origin: int,
        address: int,
        kind: str,
    ) -> None:
        self.messages = messages
        self.logged = logged
        self.alike = alike
        self.first = first
        self.row = row
        self.mono_ns = mono_ns
        self.origin = origin
        self.address = address
        self.kind = kind
        self.routes = 0
        self.routes_of: dict[int, int] = {}


class Recording(MessageLog):
    """With `one_in` above 1 only one message in so many is logged, with all that becomes of it.

    Messages are numbered by when the broker got them, in microseconds from `begun_ns` on, so that the number tells how
    old one is.
    """

    def __init__(
        self, buffer: Buffer, one_in: int, headers: bool, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.buffer = buffer
        self.begun_ns = now_ns() - 1000  # so that no message has the number 0
        self._one_in = one_in
        self._wanted = wanted(headers)
        self._now_ns = now_ns
        self._next = 0  # number of a message
        self._next_untimed = UNTIMED
        self._until = 0  # messages that come before the next one that is logged
        self._batch: Batch | None = None

    # Publishing

    def publishing(self, origin: Origin, messages: list[Message], alike: bool, number: int) -> None:
        """HOT: the export, load A."""
        offset, logged, one_in = 0, messages, self._one_in
        if one_in > 1:
            offset, logged = self._sample(messages)
            if not logged:
                return
        count = len(logged)
        mono_ns = self._now_ns()
        first = self._numbers(count, mono_ns)
        for seq, message in enumerate(logged, first):
            message.seq = seq
        buffer = self.buffer
        address = buffer.names.address(messages[0].address)
        kind = schema.FED_IN if origin.link else schema.PUBLISH
        code = buffer.names.origin(origin)
        self._batch = Batch(messages, logged, alike or count == 1, first, buffer.row, mono_ns, code, address, kind)
        buffer.row += count
        if number:
            if origin.unconfirmed is None:
                origin.unconfirmed = deque()
            origin.unconfirmed.append((number + offset, first, count))

    def _sample(self, messages: list[Message]) -> tuple[int, list[Message]]:
        """Which of them are logged, and how many come before the first."""
        offset, count = self._until, len(messages)
        logged = messages[offset :: self._one_in]
        self._until = offset + len(logged) * self._one_in - count
        return offset, logged

    def _numbers(self, count: int, mono_ns: int) -> int:
        """The first of so many, for messages that the broker gets now."""
        first = max(self._next, (mono_ns - self.begun_ns) // 1000 << SEQ_SHIFT)
        self._next = first + count
        return first

    def returned(self, origin: Origin, messages: list[Message]) -> None:
        if self._batch is not None:
            self._note_batch(self._batch, schema.RETURN, self._batch.origin, 0)

    def published(self) -> None:
        """HOT: the export, load A."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        row, first = batch.row, batch.first
        if batch.alike:
            self._published(batch, batch.logged, row, first)
            return
        for _, run in groupby(batch.logged, persistence):
            messages = list(run)
            self._published(batch, messages, row, first)
            row += len(messages)
            first += len(messages)

    def _published(self, batch: Batch, messages: list[Message], row: int, first: int) -> None:
        """Those that are all persistent, or all not."""
        count, buffer, frames = len(messages), self.buffer, messages[0].frames
        routes: Sequence[int] = ()
        if batch.routes_of:
            routes = [batch.routes + batch.routes_of.get(seq, 0) for seq in range(first, first + count)]
        noted = buffer.note(
            batch.kind, PERSISTENT if messages[0].persistent else 0, count, batch.mono_ns, row, first,
            messages[0].body_bytes, batch.routes, batch.origin, 0, batch.address, 0, 0,
            sizes=() if batch.alike else [message.body_bytes for message in messages], routes=routes,
        )  # fmt: skip
        if not noted:
            return
        if batch.alike:
            if (frames[FLAGS_AT] << 8 | frames[FLAGS_AT + 1]) & self._wanted:
                buffer.detail(row, count, PROPERTIES, messages[0].property_bytes)
        else:
            for index, message in enumerate(messages):
                frames = message.frames
                if (frames[FLAGS_AT] << 8 | frames[FLAGS_AT + 1]) & self._wanted:
                    buffer.detail(row + index, 1, PROPERTIES, message.property_bytes)
        if batch.kind == schema.FED_IN:
            self._identify(messages, row)
            for index, message in enumerate(messages):
                buffer.detail(row + index, 1, HOPS, bytes((min(hops(message), MOST_HOPS),)))

    def _note_batch(self, batch: Batch, kind: str, origin: int, queue: int) -> None:
        """A record for each that is logged. HOT: the export, load A."""
        buffer, count = self.buffer, len(batch.logged)
        sizes = () if batch.alike else [message.body_bytes for message in batch.logged]
        row, buffer.row = buffer.row, buffer.row + count
        size = batch.logged[0].body_bytes
        buffer.note(
            kind, 0, count, batch.mono_ns, row, batch.first, size, 0, origin, queue, batch.address, 0, 0, sizes=sizes
        )

    def confirmed(self, origin: Origin, first: int, last: int, refused: Container[int]) -> None:
        """HOT: the export, load D."""
        waiting, one_in = origin.unconfirmed, self._one_in
        while waiting and waiting[0][0] <= last:
            number, seq, there = waiting.popleft()
            count = min(there, (last - number) // one_in + 1)
            if count < there:
                waiting.appendleft((number + count * one_in, seq + count, there - count))
            if refused:
                told_no = [index for index in range(count) if number + index * one_in in refused]
                self._confirm(origin, [seq + index for index in told_no], REFUSED)
                self._confirm(origin, [seq + index for index in range(count) if index not in told_no], "")
                continue
            buffer = self.buffer
            code = buffer.names.origin(origin)
            buffer.note(schema.CONFIRM, 0, count, self._now_ns(), buffer.row, seq, 0, 0, code, 0, 0, 0, 0)
            buffer.row += count

    def _confirm(self, origin: Origin, seqs: list[int], reason: str) -> None:
        self._note(schema.CONFIRM, None, seqs, [0], origin=self.buffer.names.origin(origin), reason=reason)

    # Queues

    def enqueued(self, queues: tuple[Queue, ...], messages: list[Message], source: str) -> None:
        """HOT: the export, load A."""
        batch, names = self._batch, self.buffer.names
        if batch is not None and messages is batch.messages:
            batch.routes += len(queues)
            for queue in queues:
                self._note_batch(batch, schema.ENQUEUE, 0, names.queue(queue.vhost, queue.name))
            return
        if not queues or not source and batch is None:
            return  # of what is being published nothing is logged
        if source:
            self._number(messages)
        seqs, sizes = self._known(messages)
        alike = len({message.address.encoded for message in messages}) == 1
        address = names.address(messages[0].address) if alike else 0
        for queue in queues:
            self._note(schema.ENQUEUE, queue, seqs, sizes, address=address, reason=source)
            if batch is not None and not source:
                for seq in seqs:
                    batch.routes_of[seq] = batch.routes_of.get(seq, 0) + 1

    def made(self, messages: list[Message]) -> None:
        if self._one_in == 1:  # else each copy is another message
            self._number(messages)

    def _number(self, messages: list[Message]) -> None:
        """Those that no client has published, and that have no number yet."""
        fresh = self._sample([message for message in messages if not message.seq])[1]
        for seq, message in enumerate(fresh, self._numbers(len(fresh), self._now_ns())):
            message.seq = seq

    def delivered(
        self, origin: Origin, tag: str, queue: Queue, messages: list[Message], redelivered: bool, no_ack: bool
    ) -> None:
        """HOT: the export, load A."""
        seqs, sizes = self._known(messages)
        names = self.buffer.names
        flags = (REDELIVERED if redelivered else 0) | (NO_ACK if no_ack else 0)
        reason = "" if tag else GET
        self._note(schema.DELIVER, queue, seqs, sizes, flags, names.origin(origin), 0, names.word(tag), reason)

    def acked(self, origin: Origin, tag: str, queue: Queue, messages: list[Message]) -> None:
        """HOT: the export, load D."""
        seqs, sizes = self._known(messages)
        names, row = self.buffer.names, self.buffer.row
        linked = tag.startswith(LINK_TAG) or queue.name.startswith(LINK_QUEUE)
        kind = schema.FED_OUT if linked else schema.ACK
        noted = self._note(kind, queue, seqs, sizes, 0, names.origin(origin), 0, names.word(tag))
        if linked and noted:
            self._identify([message for message in messages if message.seq], row)

    def refused(self, origin: Origin, tag: str, queue: Queue, message: Message) -> None:
        seqs, sizes = self._known([message])
        names = self.buffer.names
        self._note(schema.NACK, queue, seqs, sizes, 0, names.origin(origin), 0, names.word(tag))

    def requeued(self, queue: Queue, message: Message, reason: str) -> None:
        seqs, sizes = self._known([message])
        self._note(schema.REQUEUE, queue, seqs, sizes, reason=reason)

    def left(self, queue: Queue, messages: list[Message], reason: str) -> None:
        seqs, sizes = self._known(messages)
        kind = schema.EXPIRE if reason == "expired" else schema.DROP
        if queue.rules.dead_letter_exchange is not None and reason not in NEVER_DEAD_LETTERED:
            kind = schema.DEAD_LETTER
        self._note(kind, queue, seqs, sizes, reason=reason)

    def cleared(self, queue: Queue, reason: str) -> None:
        lines = queue.lines
        self.left(queue, lines.resident(), reason)
        seqs = lines.paged_seqs()
        if self._one_in == 1:
            seqs = [seq or self._untimed() for seq in seqs]
        # Nobody knows the size of each without reading it.
        self._note(schema.DROP, queue, [seq for seq in seqs if seq], [lines.average_bytes], reason=reason)

    # Records

    def _known(self, messages: list[Message]) -> tuple[list[int], list[int]]:
        """The numbers of those that are logged, and their sizes. HOT: the export, load A."""
        seqs = [message.seq for message in messages]
        if not all(seqs):
            if self._one_in > 1:
                messages = [message for message in messages if message.seq]
            else:
                for message in messages:
                    message.seq = message.seq or self._untimed()
            seqs = [message.seq for message in messages]
        return seqs, [message.body_bytes for message in messages]

    def _untimed(self) -> int:
        """The number of a message that was there before the log was, or was read from the disk."""
        self._next_untimed += 1
        return self._next_untimed

    def _note(
        self,
        kind: str,
        queue: Queue | None,
        seqs: list[int],
        sizes: list[int],
        flags: int = 0,
        origin: int = 0,
        address: int = 0,
        tag: int = 0,
        reason: str = "",
    ) -> bool:
        """A record for each of these messages; `sizes` may be one for all. HOT: the export, load A."""
        count = len(seqs)
        if not count:
            return False
        buffer = self.buffer
        row, buffer.row = buffer.row, buffer.row + count
        size = sizes[0]
        return buffer.note(
            kind, flags, count, self._now_ns(), row, 0, size, 0, origin,
            buffer.names.queue(queue.vhost, queue.name) if queue is not None else 0, address, tag,
            buffer.names.word(reason), seqs, sizes if sizes.count(size) < len(sizes) else (),
        )  # fmt: skip

    def _identify(self, messages: list[Message], row: int) -> None:
        """What they are known by on the other side of the link."""
        for index, message in enumerate(messages):
            self.buffer.detail(row + index, 1, IDENTITY, identity(message).encode("utf-8", "backslashreplace"))
