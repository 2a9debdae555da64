"""The memory that messages take in the whole node, by what holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ..jobs.long_routes import LongRoutes
from .dead_letter_budget import DeadLetterBudget


class Ledger:
    """The bytes of messages in memory, by what holds them: bodies, long headers, and OVERHEAD for each message.

    OVERHEAD is for the object with its short header. A message in several queues counts in each of them.

    queued_bytes   of messages that are ready or unacknowledged. `exceeded` says that they are above the limit; queues
                   then page out what they get.
    unacked_bytes  of those that are unacknowledged, but for
    shed_bytes     what is left of messages that were delivered and whose contents only the journal has: SHED for each
    dead_letters   of those that wait to be dead-lettered
    long_routes    of the routes of dead letters and delayed messages that are under way
    readings       of delayed messages that are read and not released yet

    Of all connections together, as they were when they were sampled last: `arriving_bytes` of contents of which a part
    has come, `output_bytes` that wait for their sockets, `transaction_bytes` of publishes in transactions.

    `when_held` is called after deliveries and after messages were paged out, while the limit is exceeded; `shedding`
    says that contents of unacknowledged messages are leaving memory since (`shedding`).
    """

    __slots__ = (
        *("limit_bytes", "queued_bytes", "unacked_bytes", "shed_bytes", "exceeded", "when_held", "shedding"),
        *("dead_letters", "long_routes", "readings"),
        *("arriving_bytes", "output_bytes", "transaction_bytes"),
    )
    OVERHEAD: ClassVar[int] = 300
    SHED: ClassVar[int] = 60
    FAR: ClassVar[int] = 8 << 20
    FARTHEST: ClassVar[int] = 16 << 20
    LITTLE: ClassVar[int] = 1 << 20

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.queued_bytes = self.unacked_bytes = self.shed_bytes = 0
        self.when_held: Callable[[], None] = lambda: None
        self.exceeded = self.shedding = False
        self.arriving_bytes = self.output_bytes = self.transaction_bytes = 0
        self.dead_letters = DeadLetterBudget()
        self.long_routes = LongRoutes()
        self.readings = LongRoutes()

    @property
    def ready_bytes(self) -> int:
        """The bytes of messages that are ready."""
        return self.queued_bytes - self.unacked_bytes - self.shed_bytes

    def far_exceeded(self, held_bytes: int) -> bool:
        """Whether deliveries of a queue must wait for contents to leave memory.

        They do if the limit is exceeded by FAR, or by FARTHEST if consumers of the queue hold LITTLE of it in memory.
        """
        excess_bytes = self.queued_bytes - self.limit_bytes
        return excess_bytes > (self.FAR if held_bytes > self.LITTLE else self.FARTHEST)

    def add(self, count: int, content_bytes: int) -> None:
        """Count ready messages that came; both numbers are negative for messages that left. HOT: bench A-M."""
        self.queued_bytes += content_bytes + count * self.OVERHEAD
        self.exceeded = self.queued_bytes > self.limit_bytes

    def add_unacked(self, count: int, content_bytes: int) -> None:
        """Count deliveries that were made; both numbers are negative for those that ended. HOT: bench B, D, I, L."""
        held_bytes = content_bytes + count * self.OVERHEAD
        self.unacked_bytes += held_bytes
        self.queued_bytes += held_bytes
        self.exceeded = self.queued_bytes > self.limit_bytes

    def shed(self, count: int) -> None:
        """Count messages of which only a row is in memory, beside `add_unacked`; negative for rows that are gone."""
        self.shed_bytes += count * self.SHED
        self.queued_bytes += count * self.SHED
        self.exceeded = self.queued_bytes > self.limit_bytes

    def save(self, saved_bytes: int) -> None:
        """Count what was saved as messages were packed; negative for messages that were unpacked."""
        self.queued_bytes -= saved_bytes
        self.exceeded = self.queued_bytes > self.limit_bytes
