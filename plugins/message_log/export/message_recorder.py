"""The message recorder: writes the events of messages into the record buffer, as segments of equal records.

No object is made for a record. Messages that are published together have consecutive numbers, so one segment is enough
for any number of messages and queues; for deliveries and acknowledgements, each message adds its number, and its size
if sizes differ.
"""

import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from itertools import groupby
from operator import attrgetter

from warren.broker.core.queues.route_target import Targets
from warren.broker.core.queues.traffic_log import CHANNEL, RECOVER, LoggedQueue, Origin, TrafficLog
from warren.broker.plugin import Message, RoutingAddress, Sink

from ..file_format import schema
from .message_identity import decoded_properties, hops, identity
from .pipe_format import (
    DURABLE,
    ENQUEUED,
    HOPS,
    IDENTITY,
    KINDS,
    LINKED,
    NO_ACK,
    PERSISTENT,
    PROPERTIES,
    REDELIVERED,
    SEQ_SHIFT,
    SOURCE,
    SOURCE_BYTES,
    UNTIMED,
)
from .queue_runs import QueueRun, QueueRuns
from .record_buffer import RecordBuffer
from .sampling import Run, Sampling
from .snapshots import ChangedQueues

PUBLISH, RETURN, CONFIRM, ENQUEUE, DELIVER, ACK, NACK, REQUEUE, EXPIRE, DROP, DEAD_LETTER, UNROUTED, FED_IN, FED_OUT = (
    KINDS[name] for name in schema.EVENT_NAMES
)

NACKED = "nack"  # the reason of a negative confirm
REFUSED, HELD = "refused", "held"  # the reasons of a routed publish that entered no queue
GET = "get"  # the reason of a delivery without a consumer: basic.get
NEVER_DEAD_LETTERED = ("deleted", "purged", "moved")
# Prefixes: queues from which exchange links consume, and tags of the consumers of queue links.
LINK_QUEUE, LINK_TAG = "federation: ", "federation-link-"
FLAGS_AT = 19  # the place of the property flags in the frames of a message
HOPS_MAX = 127

persistence = attrgetter("persistent")

NONE_LOGGED: list[Message] = []


class MessageRecorder(TrafficLog):
    """The recorder of all events of messages. With `one_in` above 1, one in `one_in` messages is recorded, completely.

    The number of a message is the time at which the broker got it, in microseconds since `begun_ns`, so that its age
    needs no other field.
    """

    __slots__ = (
        *("buffer", "begun_ns", "_one_in", "_decoded_properties", "_now_ns", "_next", "_next_untimed", "_sampling"),
        *("_messages", "_logged", "_runs", "_alike", "_first", "_row", "_mono_ns", "_origin", "_queues", "_routes_of"),
        *("_changed", "_sources", "_queue_runs", "_unacked"),
    )

    def __init__(
        self,
        buffer: RecordBuffer,
        one_in: int,
        headers: bool,
        changed: ChangedQueues,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        """`now_ns` is the monotonic clock, or None for that of the system."""
        self.buffer = buffer
        self._changed = changed
        self._now_ns = now_ns or time.monotonic_ns
        self.begun_ns = self._now_ns() - 1000  # no message has the number 0
        self._one_in = one_in
        self._sampling = Sampling(one_in)
        self._decoded_properties = decoded_properties(headers)
        self._next = 0  # the next number of a message
        self._next_untimed = UNTIMED
        # The messages that are being published, None if none of them is recorded; and those recorded, with numbers from
        # `_first` and rows from `_row`. `_queues` accepted all of them, `_routes_of` counts other routes by number.
        self._messages: list[Message] | None = None
        self._logged = NONE_LOGGED
        self._runs: list[Run] = []  # the places of `_logged` in `_messages`
        self._queue_runs = QueueRuns(one_in > 1)
        self._unacked: dict[LoggedQueue, int] = {}  # the maximum of unacknowledged recorded messages of a sample
        self._alike = False
        self._first = self._row = self._mono_ns = 0
        self._origin: Origin | None = None
        self._queues: Sequence[LoggedQueue] = ()
        self._routes_of: dict[int, int] = {}
        self._sources: dict[int, int] = {}  # the originals of the copies that were numbered last

    # Publishing

    def publishing(self, origin: Origin, messages: list[Message], alike: bool, number: int) -> None:
        """Record the event. HOT: the export, load A."""
        logged = messages
        if self._one_in > 1:
            self._runs = runs = self._sampling.runs(len(messages))
            if not runs:
                return
            logged = [message for place, length in runs for message in messages[place : place + length]]
        else:
            self._runs = [(0, len(messages))]
        count = len(logged)
        self._mono_ns = mono_ns = self._now_ns()
        first = (mono_ns - self.begun_ns) // 1000 << SEQ_SHIFT
        if first < self._next:
            first = self._next
        self._next = first + count
        if count == 1:
            logged[0].seq = first
            alike = True
        else:
            for seq, message in enumerate(logged, first):
                message.seq = seq
        self._messages, self._logged, self._alike, self._first, self._origin = messages, logged, alike, first, origin
        self._row = self.buffer.row
        self.buffer.row += count
        if number:
            if origin.unconfirmed is None:
                origin.unconfirmed = deque()
            for place, length in self._runs:
                origin.unconfirmed.append((number + place, first, length))
                first += length

    def published(self, targets: Targets, returned: bool = False) -> None:
        """Record the event. HOT: the export, load A."""
        origin, logged, entered = self._origin, self._logged, self._queues
        if self._messages is None or origin is None:
            return
        if returned:
            seqs, sizes = self._numbers_and_sizes(logged)
            self._add(RETURN, None, seqs, sizes, origin=self.buffer.names.origin(origin), addressed=logged)
        self._messages, self._queues = None, ()
        kind = FED_IN if origin.link else PUBLISH
        row, first = self._row, self._first
        if self._alike and (entered or not targets):
            self._published(kind, origin, logged, row, first, entered)
        else:
            # A message that entered none of its queues has a reason; no search is needed if all entered.
            why = "" if entered or not targets else HELD if all(isinstance(one, Sink) for one in targets) else REFUSED
            routes_of = self._routes_of
            for _, run in groupby(logged, (lambda one: (one.persistent, one.seq in routes_of)) if why else persistence):
                messages = list(run)
                reason = why if messages[0].seq not in routes_of else ""
                self._published(kind, origin, messages, row, first, entered, reason)
                row += len(messages)
                first += len(messages)
            if not self._alike:
                for place, queue in enumerate(entered):
                    self._enqueued(queue, row + place * len(logged))
        if self._routes_of:
            self._routes_of = {}
        self._logged = NONE_LOGGED  # without this the last messages stay in memory until the next publish

    def _published(
        self,
        kind: int,
        origin: Origin,
        messages: list[Message],
        row: int,
        first: int,
        queues: Sequence[LoggedQueue],
        reason: str = "",
    ) -> None:
        """Record messages that are all persistent or all transient; if they are all, also that they are in `queues`."""
        count, buffer, message, alike = len(messages), self.buffer, messages[0], self._alike
        names = buffer.names
        flags = PERSISTENT if message.persistent else 0
        routes: Sequence[int] = ()
        if self._routes_of:
            routes = [len(queues) + self._routes_of.get(seq, 0) for seq in range(first, first + count)]
        queue = 0
        if alike and queues:
            flags |= ENQUEUED | DURABLE if queues[0].number else ENQUEUED
            queue = names.queue(queues[0].vhost, queues[0].name)
        sizes: Sequence[int] = ()
        addresses: Sequence[int] = ()
        if not alike:
            sizes = [one.body_bytes for one in messages]
            addresses = names.addresses(messages)
        added = buffer.add(
            kind, flags, count, self._mono_ns, row, first, message.body_bytes, len(queues), names.origin(origin), queue,
            names.address(message.address), 0, names.word(reason), (), sizes, routes, addresses,
        )  # fmt: skip
        if alike and queues:
            for place, other in enumerate(queues[1:], 1):
                self._enqueued(other, row + (place + 1) * count)
        if added:
            self._add_properties(messages[:1] if alike else messages, count if alike else 1, row)
            if kind == FED_IN:
                self._identify(messages, row)
                self._count_hops(messages, row)

    def _enqueued(self, queue: LoggedQueue, row: int) -> None:
        """Record that the messages being published are in `queue`."""
        buffer, logged = self.buffer, self._logged
        message, names = logged[0], buffer.names
        sizes: Sequence[int] = ()
        addresses: Sequence[int] = ()
        if not self._alike:
            sizes = [one.body_bytes for one in logged]
            addresses = names.addresses(logged)
        code, address = names.queue(queue.vhost, queue.name), names.address(message.address)
        flags = DURABLE if queue.number else 0
        buffer.add(
            ENQUEUE, flags, len(logged), self._mono_ns, row, self._first, message.body_bytes, 0, 0, code, address, 0, 0,
            (), sizes, (), addresses,
        )  # fmt: skip

    def _add_properties(self, messages: list[Message], count: int, row: int) -> None:
        """Add the properties that the writer decodes, each of `count` records."""
        for index, message in enumerate(messages):
            frames = message.frames
            if (frames[FLAGS_AT] << 8 | frames[FLAGS_AT + 1]) & self._decoded_properties:
                self.buffer.add_detail(row + index, count, PROPERTIES, message.property_bytes)

    def _add_origins(self, copies: list[Message], row: int) -> None:
        """Add the origins of messages that no client published: their properties and sources."""
        self._add_properties(copies, 1, row)
        for index, message in enumerate(copies):
            source = self._sources.get(message.seq)
            if source is not None:
                origin = source.to_bytes(SOURCE_BYTES, "little") + message.property_bytes
                self.buffer.add_detail(row + index, 1, SOURCE, origin)

    def discarded(self, origin: Origin, message: Message, reason: str) -> None:
        self._number([message])
        seqs, sizes = self._numbers_and_sizes([message])
        names, row = self.buffer.names, self.buffer.row
        if self._add(FED_IN, None, seqs, sizes, origin=names.origin(origin), addressed=[message], reason=reason):
            self._identify([message], row)
            self._count_hops([message], row)

    def confirmed(self, origin: Origin, first: int, last: int, refused: Container[int]) -> None:
        """Record the event. HOT: the export, load D."""
        waiting = origin.unconfirmed
        while waiting and waiting[0][0] <= last:
            number, seq, there = waiting.popleft()
            count = min(there, last - number + 1)
            if count < there:
                waiting.appendleft((number + count, seq + count, there - count))
            if refused:
                nacked = [number + index in refused for index in range(count)]
                if not origin.link:  # which brings them again
                    self._confirm(origin, [seq + index for index, refusal in enumerate(nacked) if refusal], NACKED)
                self._confirm(origin, [seq + index for index, refusal in enumerate(nacked) if not refusal], "")
                continue
            buffer = self.buffer
            code = buffer.names.origin(origin)
            buffer.add(CONFIRM, 0, count, self._now_ns(), buffer.row, seq, 0, 0, code, 0, 0, 0, 0)
            buffer.row += count

    def _confirm(self, origin: Origin, seqs: list[int], reason: str) -> None:
        self._add(CONFIRM, None, seqs, [0], origin=self.buffer.names.origin(origin), reason=reason)

    # Queues

    def enqueued(self, queues: Sequence[LoggedQueue], messages: list[Message], source: str) -> None:
        """Record the event. HOT: the export, load A."""
        changed = self._changed.queues
        if changed is not None:
            changed.update(queues)
        published = not source
        if published and messages is self._messages:
            self._queues = queues
            self.buffer.row += len(queues) * len(self._logged)
            seq, size = self._first, self._logged[0].body_bytes if self._alike else -1
            for place, length in self._runs:
                for queue in queues:
                    self._queue_runs.add(queue, place, length, seq, size)
                seq += length
            return
        if not queues or published and not messages[0].seq and self._messages is None:
            return  # none of the messages being published is recorded
        if source:
            self._number(messages)
        if self._one_in > 1:
            for place, message in enumerate(messages):
                if message.seq:
                    for queue in queues:
                        self._queue_runs.add(queue, place, 1, message.seq, message.body_bytes)
        seqs, sizes = self._numbers_and_sizes(messages)
        if not seqs:
            return
        recorded = [message for message in messages if message.seq] if self._one_in > 1 else messages
        for queue in queues:
            row = self.buffer.row
            flags = DURABLE if queue.number else 0
            if self._add(ENQUEUE, queue, seqs, sizes, flags, addressed=recorded, reason=source) and source:
                self._add_origins([message for message in recorded if message.seq], row)
            if published and self._messages is not None:
                for seq in seqs:
                    self._routes_of[seq] = self._routes_of.get(seq, 0) + 1

    def made(self, messages: list[Message]) -> None:
        if self._one_in == 1:  # otherwise a copy is sampled as a message of its own
            self._number(messages)

    def _number(self, messages: list[Message]) -> None:
        """Number messages that no client published and that have no number yet."""
        fresh = [message for message in messages if message.seq <= 0]
        if not fresh:
            return
        sources = {id(message): -message.seq for message in fresh}
        for message in fresh:
            message.seq = 0
        if self._one_in > 1:
            fresh = [one for place, length in self._sampling.runs(len(fresh)) for one in fresh[place : place + length]]
        first = max(self._next, (self._now_ns() - self.begun_ns) // 1000 << SEQ_SHIFT)
        self._next = first + len(fresh)
        self._sources = {}
        for seq, message in enumerate(fresh, first):
            message.seq = seq
            if sources[id(message)]:
                self._sources[seq] = sources[id(message)]

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
        """Record the event. HOT: the export, load A."""
        changed = self._changed.queues
        if changed is not None:
            changed.add(queue)
        names = self.buffer.names
        flags = (REDELIVERED if redelivered else 0) | (NO_ACK if no_ack else 0)
        runs = self._queue_runs.take(queue, position, len(messages)) if step == 1 and len(messages) > 1 else None
        if runs is not None and self._one_in > 1 and not runs:
            return
        if is_link(tag, queue):
            flags |= LINKED
        if runs is not None and (self._one_in > 1 or covers(runs, len(messages))) and numbered(runs, messages):
            buffer, now_ns = self.buffer, self._now_ns()
            codes = names.origin(origin), names.queue(queue.vhost, queue.name), 0, names.word(tag), 0
            count = 0
            for place, length, seq, size in runs:
                row, buffer.row = buffer.row, buffer.row + length
                sizes = () if size >= 0 else [message.body_bytes for message in messages[place : place + length]]
                buffer.add(DELIVER, flags, length, now_ns, row, seq, max(size, 0), 0, *codes, (), sizes)
                count += length
        else:
            seqs, sizes = self._numbers_and_sizes(messages)
            count = len(seqs)
            reason = "" if tag else GET
            self._add(DELIVER, queue, seqs, sizes, flags, names.origin(origin), (), names.word(tag), reason)
        if self._one_in > 1 and count and not no_ack:
            self._unacked[queue] = self._unacked.get(queue, 0) + count

    def needs_content(self, tag: str, queue: LoggedQueue) -> bool:
        return is_link(tag, queue)

    def settled(self, origin: Origin, tag: str, queue: LoggedQueue, messages: list[Message], acked: bool) -> None:
        """Record the event. HOT: the export, load D."""
        changed = self._changed.queues
        if changed is not None:
            changed.add(queue)
        if self._one_in > 1 and queue not in self._unacked:
            return
        seqs, sizes = self._numbers_and_sizes(messages)
        self._settled(queue, len(seqs))
        names, row = self.buffer.names, self.buffer.row
        linked = acked and is_link(tag, queue)
        kind = FED_OUT if linked else ACK if acked else NACK
        added = self._add(kind, queue, seqs, sizes, 0, names.origin(origin), (), names.word(tag))
        if linked and added:
            self._identify([message for message in messages if message.seq], row)

    def _settled(self, queue: LoggedQueue, count: int) -> None:
        """Count the recorded messages of a sample that are settled."""
        if self._one_in > 1 and count and queue in self._unacked:
            self._unacked[queue] -= count
            if self._unacked[queue] <= 0:
                del self._unacked[queue]

    def requeued(self, queue: LoggedQueue, message: Message, reason: str) -> None:
        self._changed.add(queue)
        seqs, sizes = self._numbers_and_sizes([message])
        if reason in (CHANNEL, RECOVER):  # otherwise `settled` was called
            self._settled(queue, len(seqs))
        self._add(REQUEUE, queue, seqs, sizes, reason=reason)

    def left(self, queue: LoggedQueue, messages: list[Message], reason: str) -> None:
        self._changed.add(queue)
        seqs, sizes = self._numbers_and_sizes(messages)
        kind = EXPIRE if reason == "expired" else DROP
        if queue.settings.dead_letter_exchange is not None and reason not in NEVER_DEAD_LETTERED:
            kind = DEAD_LETTER
        self._add(kind, queue, seqs, sizes, reason=reason)
        if queue.deleted and not queue.unacked:
            self._unacked.pop(queue, None)  # the last messages were requeued by a closed channel

    def unrouted(self, queue: LoggedQueue, messages: list[Message], reason: str) -> None:
        exchange, key = queue.settings.dead_letter_exchange or "", queue.settings.dead_letter_key
        for own_key, run in groupby(messages, lambda message: message.address.routing_key):
            seqs, sizes = self._numbers_and_sizes(list(run))
            address = RoutingAddress(exchange, own_key if key is None else key)
            addressed = [Message(address, b"", 0, 0, 0, False)]
            self._add(UNROUTED, queue, seqs, sizes, addressed=addressed, reason=reason)

    def cleared(self, queue: LoggedQueue) -> None:
        self._changed.add(queue)
        self._queue_runs.forget(queue)

    # Records

    def _numbers_and_sizes(self, messages: list[Message]) -> tuple[list[int], list[int]]:
        """Return the numbers of the recorded messages, and their sizes in bytes. HOT: the export, load A."""
        if len(messages) == 1 and messages[0].seq:
            return [messages[0].seq], [messages[0].body_bytes]
        if self._one_in > 1:
            messages = [message for message in messages if message.seq]
        seqs = [message.seq for message in messages]
        if not all(seqs):
            for message in messages:
                message.seq = message.seq or self._untimed()
            seqs = [message.seq for message in messages]
        return seqs, [message.body_bytes for message in messages]

    def _untimed(self) -> int:
        """Return a number for a message that is older than the log, or was read from the disk."""
        self._next_untimed += 1
        return self._next_untimed

    def _add(
        self,
        kind: int,
        queue: LoggedQueue | None,
        seqs: list[int],
        sizes: list[int],
        flags: int = 0,
        origin: int = 0,
        addressed: Sequence[Message] = (),
        tag: int = 0,
        reason: str = "",
    ) -> bool:
        """Add a record for each message; `sizes` may have one for all. Returns whether there was room.

        The records have the addresses of the messages `addressed`, if any.

        HOT: the export, load A. Callers that are not hot name the arguments from `flags` on.
        """
        count = len(seqs)
        if not count:
            return False
        buffer = self.buffer
        row, buffer.row = buffer.row, buffer.row + count
        size = sizes[0]
        code = buffer.names.queue(queue.vhost, queue.name) if queue is not None else 0
        why = buffer.names.word(reason) if reason else 0
        address = buffer.names.address(addressed[0].address) if addressed else 0
        if count == 1:
            return buffer.add(kind, flags, 1, self._now_ns(), row, seqs[0], size, 0, origin, code, address, tag, why)
        differing = sizes if sizes.count(size) < len(sizes) else ()
        addresses = buffer.names.addresses(addressed) if addressed else ()
        return buffer.add(
            kind, flags, count, self._now_ns(), row, 0, size, 0, origin, code, address, tag, why,
            seqs, differing, (), addresses,
        )  # fmt: skip

    def _identify(self, messages: list[Message], row: int) -> None:
        """Add the identities, by which messages are found on the other side of the link."""
        for index, message in enumerate(messages):
            self.buffer.add_detail(row + index, 1, IDENTITY, identity(message).encode("utf-8", "backslashreplace"))

    def _count_hops(self, messages: list[Message], row: int) -> None:
        for index, message in enumerate(messages):
            self.buffer.add_detail(row + index, 1, HOPS, bytes((min(hops(message), HOPS_MAX),)))


def covers(runs: Sequence[QueueRun], count: int) -> bool:
    """Return whether the runs have all of so many messages."""
    return sum([length for _, length, _, _ in runs]) == count


def numbered(runs: Sequence[QueueRun], messages: list[Message]) -> bool:
    """Whether messages have the numbers of the runs, by the ends of each: the others came and stayed between them."""
    for place, length, seq, _ in runs:
        if messages[place].seq != seq or messages[place + length - 1].seq != seq + length - 1:
            return False
    return True


def is_link(tag: str, queue: LoggedQueue) -> bool:
    """Whether the consumer with this tag is a federation link. HOT: the export, load A."""
    return tag.startswith(LINK_TAG) or queue.name.startswith(LINK_QUEUE)
