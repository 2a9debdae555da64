"""The memory that messages take in the whole node, by what holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ..jobs.long_routes import LongRoutes
from ..messages.message import ByteCount, Message, SharedMessage, header_bytes_of, shared_message, total_bytes
from .dead_letter_budget import DeadLetterBudget


class Ledger:
    """The bytes of messages in memory, by what holds them: bodies, long headers, and OVERHEAD or UNACKED for each.

    OVERHEAD is for the object with its short header. A message of several queues counts once, with its frames and
    ALONE, until the last one that has it lets it go, and ENTRY for each queue that has it in memory; ALONE in addition
    if its state is of this queue alone.

    queued_bytes   of messages that are ready or unacknowledged
    shared         of messages of several queues, without ENTRY for each of those
    addresses      of exchange and routing key of messages, once for all that share them, if no cached route has them
    exceeded       these and `queued_bytes` are above the limit: queues page out what they get
    unacked_bytes  of messages that are unacknowledged, but for `shared` and
    shed_bytes     what is left of messages that were delivered and whose contents only the journal has: SHED for each
    handed_bytes   contents of messages of several queues in each of those where they are unacknowledged
    dead_letters   of those that wait to be dead-lettered
    long_routes    of the routes of dead letters and delayed messages that are under way
    readings       of delayed messages that are read and not released yet

    Of all connections together, as they were when they were sampled last: `arriving_bytes` of contents of which a part
    has come, `output_bytes` that wait for their sockets, `transaction_bytes` of publishes in transactions.

    `when_held` is called after deliveries and publishes to queues, while the limit is exceeded; `shedding`
    says that contents of unacknowledged messages are leaving memory since (`shedding`). `paged_out` says that messages
    were stored as queues page them out, since a publisher has set it to False.
    """

    __slots__ = (
        *("limit_bytes", "_own_bytes", "shared", "addresses", "unacked_bytes", "shed_bytes", "handed_bytes"),
        *("when_held", "shedding", "paged_out"),
        *("dead_letters", "long_routes", "readings"),
        *("arriving_bytes", "output_bytes", "transaction_bytes"),
    )
    OVERHEAD: ClassVar[int] = 300
    UNACKED: ClassVar[int] = 380  # in place of OVERHEAD: an entry of its channel, with its tag and position
    SHED: ClassVar[int] = 60
    ENTRY: ClassVar[int] = 100  # about: a queue takes 8 bytes for a ready one, 180 for an unacknowledged one
    ALONE: ClassVar[int] = SharedMessage.ALONE  # with one ENTRY as much as OVERHEAD
    FAR: ClassVar[int] = 8 << 20
    FARTHEST: ClassVar[int] = 16 << 20
    LITTLE: ClassVar[int] = 1 << 20

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._own_bytes = self.unacked_bytes = self.shed_bytes = self.handed_bytes = 0
        self.shared = ByteCount()
        self.addresses = ByteCount()
        self.when_held: Callable[[], None] = lambda: None
        self.shedding = self.paged_out = False
        self.arriving_bytes = self.output_bytes = self.transaction_bytes = 0
        self.dead_letters = DeadLetterBudget()
        self.long_routes = LongRoutes()
        self.readings = LongRoutes()

    @property
    def queued_bytes(self) -> int:
        """The bytes of messages that are ready or unacknowledged."""
        return self._own_bytes + self.shared.total

    @property
    def excess_bytes(self) -> int:
        """The memory that they and their addresses take above the limit, negative below it."""
        return self._own_bytes + self.shared.total + self.addresses.total - self.limit_bytes

    @property
    def exceeded(self) -> bool:
        """Whether `excess_bytes` is above 0. HOT: bench A-M."""
        return self._own_bytes + self.shared.total + self.addresses.total > self.limit_bytes

    @property
    def ready_bytes(self) -> int:
        """The bytes of messages that are ready, but for `shared`."""
        return self._own_bytes - self.unacked_bytes - self.shed_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes that leave memory if all unacknowledged messages are shed, at most."""
        return self.unacked_bytes + min(self.handed_bytes, self.shared.total) + self.addresses.total

    def far_exceeded(self, held_bytes: int) -> bool:
        """Whether deliveries of a queue must wait for contents to leave memory.

        They do if the limit is exceeded by FAR, or by FARTHEST if consumers of the queue hold LITTLE of it in memory.
        """
        return self.excess_bytes > (self.FAR if held_bytes > self.LITTLE else self.FARTHEST)

    def add(self, count: int, content_bytes: int) -> None:
        """Count ready messages that came; both numbers are negative for messages that left. HOT: bench A-M."""
        self._own_bytes += content_bytes + count * self.OVERHEAD

    def add_unacked(self, count: int, content_bytes: int) -> None:
        """Count deliveries that were made; both numbers are negative for those that ended. HOT: bench B, D, I, L."""
        held_bytes = content_bytes + count * self.UNACKED
        self.unacked_bytes += held_bytes
        self._own_bytes += held_bytes

    def shed(self, count: int) -> None:
        """Count messages of which only a row is in memory, beside `add_unacked`; negative for rows that are removed."""
        self.shed_bytes += count * self.SHED
        self._own_bytes += count * self.SHED

    def save(self, saved_bytes: int) -> None:
        """Count what was saved as messages were packed; negative for messages that were unpacked."""
        self._own_bytes -= saved_bytes

    # Messages of several queues

    def share(self, messages: list[Message]) -> list[Message]:
        """Return the messages as ones that several queues may get: copies, unless they are that already."""
        if number_of_shared(messages) == len(messages):
            return messages
        return [
            message
            if isinstance(message, SharedMessage)
            else shared_message(message, self.shared, len(message.frames) + self.ALONE)
            for message in messages
        ]

    def add_shared(self, count: int) -> None:
        """Count ready messages of several queues that came to one; negative for messages that left."""
        self._own_bytes += count * self.ENTRY

    def remove(self, messages: list[Message], content_bytes: int) -> None:
        """Count ready messages that left, some of which are perhaps of several queues. HOT: bench G.

        `content_bytes` is the sum of their bodies and long headers.
        """
        shared = number_of_shared(messages)
        if shared == len(messages):
            self.add_shared(-shared)
            return
        self._own_bytes -= shared * self.ENTRY
        self.add(shared - len(messages), -own_bytes(messages) if shared else -content_bytes)

    def hand(self, messages: list[Message], content_bytes: int, sign: int = 1) -> None:
        """Count deliveries of messages some of which are perhaps of several queues; `sign` is -1 for those that ended.

        `content_bytes` is as in `remove`.
        """
        shared = number_of_shared(messages)
        own = 0 if shared == len(messages) else own_bytes(messages) if shared else content_bytes
        entry_bytes = sign * shared * self.ENTRY
        self.handed_bytes += sign * (content_bytes - own)
        self.unacked_bytes += entry_bytes
        self._own_bytes += entry_bytes
        self.add_unacked(sign * (len(messages) - shared), sign * own)


def number_of_shared(messages: list[Message]) -> int:
    """Return how many of the messages are of several queues. HOT: bench G."""
    return list(map(type, messages)).count(SharedMessage)


def own_bytes(messages: list[Message]) -> int:
    """Return the sum of the bodies and long headers of those messages that one queue alone got."""
    own = [message for message in messages if not isinstance(message, SharedMessage)]
    return total_bytes(own) + header_bytes_of(own)
