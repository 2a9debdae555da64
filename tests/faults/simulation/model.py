"""What a journal has promised: which messages must be there after a restart, which must not, and in what order.

A message is promised to be there once the batch it was appended in is durable, and promised to be gone once the batch
it was settled in is. In between a restart may find it or not. So it is with the attempts that were counted for it. What
a restart has found is what there is from then on: a broker has shown it to consumers.
"""

from __future__ import annotations

from warren.broker.core.messages.message import Message
from warren.broker.core.messages.message_state import MessageState

ALWAYS = 0  # a ticket that is durable from the start
NEVER = 1 << 62  # one that no batch has


class Entry:
    """One message in one queue. `number` is its content's, `appended` and `settled` are tickets.

    `with_delivery_count` are tickets, and how many attempts were told then.
    """

    __slots__ = ("number", "appended", "settled", "id", "location", "message", "with_delivery_count")

    def __init__(self, number: int, appended: int, id_: int, place: int, message: Message | None) -> None:
        self.number = number
        self.appended = appended
        self.settled: int | None = None
        self.id = id_
        self.location = place
        self.message = message  # while it is in memory
        self.with_delivery_count: list[tuple[int, int]] = []

    @property
    def attempts(self) -> int:
        return self.with_delivery_count[-1][1] if self.with_delivery_count else 0

    @property
    def page(self) -> tuple[int, int]:
        """As the journal knows it now: what is in memory is shared by all queues, what was read back is not."""
        return (self.message.id, self.message.location) if self.message is not None else (self.id, self.location)


class Queue:
    """`entries` are all that were ever appended in this life, in order."""

    __slots__ = ("number", "entries", "declared", "deleted")

    def __init__(self, number: int, declared: int) -> None:
        self.number = number
        self.entries: list[Entry] = []
        self.declared = declared
        self.deleted: int | None = None

    @property
    def held(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.settled is None]


Content = tuple[str, str, bytes, int, int, int, bool, int, int, bool]


def content(message: Message) -> Content:
    """All that a message is to a consumer."""
    address = message.address
    life = message.state or MessageState()
    return (
        address.exchange,
        address.routing_key,
        message.frames,
        message.channel,
        message.body_bytes,
        message.largest_frame,
        message.persistent,
        life.level,
        life.deadline_ms,
        life.dead_lettered,
    )


def attempts_of(message: Message) -> int:
    return message.state.attempts if message.state is not None else 0


def check_attempts(entry: Entry, found: int, durable: int) -> None:
    """Whether it may be found with so many attempts: no fewer than were durable, no more than were told."""
    least = max([0, *[attempts for ticket, attempts in entry.with_delivery_count if ticket <= durable]])
    assert least <= found <= entry.attempts, f"message {entry.number}: {found} attempts of {entry.counted}"


def check(queue: Queue, found: list[int], durable: int) -> None:
    """Whether these messages, by number, are what may be in the queue after a stop when `durable` was reached."""
    place = {entry.number: index for index, entry in enumerate(queue.entries)}
    name = f"queue {queue.number}"
    unknown = [number for number in found if number not in place]
    assert not unknown, f"{name}: messages {unknown} were never there, or were settled before the last restart"
    assert len(set(found)) == len(found), f"{name}: twice in {found}"
    order = [place[number] for number in found]
    assert order == sorted(order), f"{name}: out of order: {found} of {[entry.number for entry in queue.entries]}"
    deleted = queue.deleted is not None and queue.deleted <= durable
    there = set(found)
    for entry in queue.entries:
        settled = deleted or entry.settled is not None and entry.settled <= durable
        if settled:
            assert entry.number not in there, f"{name}: message {entry.number} came back, its end was durable"
        elif entry.settled is None and queue.deleted is None and entry.appended <= durable:
            assert entry.number in there, f"{name}: message {entry.number} is LOST, it was durable"
