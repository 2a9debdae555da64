"""The promises of a journal: messages that must exist after a restart, messages that must not, and their order.

A message must exist once the batch that appended it is durable, and must not exist once the batch that settled it is.
Between the two a restart may find it or not. The same holds for counted delivery attempts. What a restart has found is
certain from then on, as a broker has shown it to consumers.
"""

from warren.broker.core.messages.journal_port import Commit
from warren.broker.core.messages.message import Message
from warren.broker.core.messages.message_state import MessageState

ALWAYS = 0  # a ticket that is durable from the start
NEVER = 1 << 62  # a ticket that no batch has


class Entry:
    """A message in one queue. `number` identifies its content; `appended` and `settled` are tickets.

    `attempts_recorded` has (ticket, attempts) of each record of delivery attempts.
    """

    __slots__ = ("number", "appended", "settled", "id", "message", "attempts_recorded")

    def __init__(self, number: int, appended: int, id_: int, message: Message | None) -> None:
        self.number = number
        self.appended = appended
        self.settled: int | None = None
        self.id = id_
        self.message = message  # if it is in memory
        self.attempts_recorded: list[tuple[int, int]] = []

    @property
    def attempts(self) -> int:
        return self.attempts_recorded[-1][1] if self.attempts_recorded else 0


class Queue:
    """A queue. `entries` are all messages appended in this process, in order."""

    __slots__ = ("number", "entries", "declared", "deleted")

    def __init__(self, number: int, declared: int) -> None:
        self.number = number
        self.entries: list[Entry] = []
        self.declared = declared
        self.deleted: int | None = None

    @property
    def held(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.settled is None]


class LongCommit:
    """A transaction over several batches: what it has stored and settled, and the ticket of its end."""

    __slots__ = ("commit", "stored", "settled", "ended")

    def __init__(self) -> None:
        self.commit = Commit()
        self.stored: list[tuple[Queue, Entry]] = []
        self.settled: list[tuple[Queue, Entry]] = []
        self.ended = NEVER

    def end(self, ticket: int) -> None:
        self.ended = ticket
        for _, entry in self.stored:
            entry.appended = ticket
        for _, entry in self.settled:
            entry.settled = ticket

    def check(self, found: dict[int, list[int]], durable: int) -> str:
        """Check that all of it or nothing is in what a start has found, by queue; return what shows which."""
        # What others have settled, or a deletion of the queue, shows nothing.
        shown = {
            f"{entry.number} of {queue.number} is stored": entry.number in found[queue.number]
            for queue, entry in self.stored
            if queue.deleted is None and entry.settled is None and queue.number in found
        }
        shown |= {
            f"{entry.number} of {queue.number} is settled": entry.number not in found[queue.number]
            for queue, entry in self.settled
            if queue.deleted is None and entry.appended <= durable and queue.number in found
        }
        number = self.commit.number
        assert len(set(shown.values())) < 2, f"a part of commit {number} is there: {shown}"
        if shown and self.ended > durable:
            assert self.ended < NEVER or not any(shown.values()), f"commit {number} has no end: {shown}"
        return f"commit {number}: {shown}"


Content = tuple[str, str, bytes, int, int, int, bool, int, int, bool]


def content(message: Message) -> Content:
    """Return all that a consumer sees of a message, and its state."""
    address = message.address
    state = message.state or MessageState()
    return (
        address.exchange,
        address.routing_key,
        message.frames,
        message.channel,
        message.body_bytes,
        message.largest_frame,
        message.persistent,
        state.level,
        state.deadline_ms,
        state.dead_lettered,
    )


def attempts_of(message: Message) -> int:
    return message.state.attempts if message.state is not None else 0


def check_attempts(entry: Entry, found: int, durable: int) -> None:
    """Check recovered attempts: no fewer than are durable, no more than were recorded."""
    least = max([0, *[attempts for ticket, attempts in entry.attempts_recorded if ticket <= durable]])
    assert least <= found <= entry.attempts, f"message {entry.number}: {found} attempts of {entry.attempts_recorded}"


def check(queue: Queue, found: list[int], durable: int) -> None:
    """Check that these messages, by number, may be in the queue after a stop when `durable` was reached."""
    place = {entry.number: index for index, entry in enumerate(queue.entries)}
    name = f"queue {queue.number}"
    unknown = [number for number in found if number not in place]
    assert not unknown, f"{name}: messages {unknown} never existed, or were settled before the last restart"
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
