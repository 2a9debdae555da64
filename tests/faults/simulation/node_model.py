"""The promises to the clients of a simulated node: each message that a queue accepted, and its fate."""

from warren.broker.core.messages.journal_port import Journal

NEVER = 1 << 62  # a ticket that no batch has


class Entry:
    """A message in one queue, or in that queue's dead letters.

    `ticket` is the journal's when the message was accepted, `settled` when it was settled. `moves` messages are stored
    anew on their way, so that a crash may leave both copies. A message that is not `certain` may exist or not.
    `removed` messages belong to a purge or deletion that is not answered yet. A message of a long commit is not
    `ordered`, as it may be enqueued before or after those of others.
    """

    __slots__ = (
        *("number", "arrival", "ticket", "persistent", "priority", "moves", "due_ms", "certain", "delivered", "out"),
        *("settled", "removed", "ordered"),
    )

    def __init__(self, number: int, arrival: int, ticket: int, persistent: bool, moves: bool, due_ms: int) -> None:
        self.number = number
        self.arrival = arrival
        self.ticket = ticket
        self.persistent = persistent
        self.priority = 0
        self.moves = moves
        self.due_ms = due_ms
        self.certain = True
        self.delivered = False  # the next delivery is a redelivery
        self.out = False  # unacknowledged
        self.settled = 0
        self.removed = False
        self.ordered = True

    def survives(self, durable: int, crashed: bool) -> bool:
        """Return whether it may exist after a stop, which makes its fate certain."""
        if not self.persistent:
            return False
        if self.settled and self.settled <= durable and not (self.moves and crashed):
            return False
        if self.settled or self.removed or self.ticket > durable:
            self.certain = False
        self.settled = 0
        self.out = self.removed = False
        self.delivered = True
        return True


class Unanswered:
    """A commit without an answer, of which all must be there after a stop, or nothing.

    `stored` and `settled` are queues and numbers of messages, without those that others may have settled or removed.
    """

    def __init__(self, stored: list[tuple[str, int]], settled: list[tuple[str, int]]) -> None:
        self.stored = stored
        self.settled = settled

    def check(self, found: dict[str, set[int]]) -> str:
        stored = {message: message[1] in found.get(message[0], ()) for message in self.stored}
        settled = {message: message[1] not in found.get(message[0], ()) for message in self.settled}
        parts = f"of a commit {stored} are stored, {settled} are settled"
        assert len({*stored.values(), *settled.values()}) < 2, parts
        return parts


class Model:
    """The entries by queue and number. Dead letters count as in the queue that they were published to."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[int, Entry]] = {}
        self.bodies: list[bytes] = []
        # The deduplication caches of this process, by exchange, key and the header's value.
        # With the time of expiry.
        self.seen: dict[tuple[str, str, int], tuple[list[Entry], float]] = {}
        self.crashed = False
        self.refused = False  # a read has failed in this process
        self._arrivals = 0

    def take(self, queue: str, number: int, journal: Journal, persistent: bool, moves: bool, due_ms: int) -> Entry:
        self._arrivals += 1
        entry = Entry(number, self._arrivals, journal.ticket(), persistent, moves, due_ms)
        self.entries.setdefault(queue, {})[number] = entry
        return entry

    def restart(self, durable: int, crashed: bool) -> None:
        self.crashed = self.crashed or crashed
        self.seen = {}
        self.refused = False
        for queue, entries in self.entries.items():
            self.entries[queue] = {n: each for n, each in entries.items() if each.survives(durable, self.crashed)}

    def deliver(self, queue: str, number: int, body: bytes, redelivered: bool, now_ms: int) -> Entry:
        """Check and record that a consumer has got this message."""
        name = f"message {number} of {queue}"
        entry = self.entries.get(queue, {}).get(number)
        assert entry is not None, f"{name} was never enqueued, was rolled back, or was settled"
        assert body == self.bodies[number], f"{name} has another body"
        assert now_ms >= entry.due_ms, f"{name} is delivered too early"
        if not (entry.moves and self.crashed):
            assert not entry.out and not entry.settled and not entry.removed, f"{name} is delivered twice"
            assert entry.moves or redelivered == entry.delivered, f"{name}: redelivered is {redelivered}"
        entry.certain = entry.certain or not entry.moves
        entry.delivered = entry.out = True
        return entry
