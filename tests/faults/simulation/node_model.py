"""What clients of a simulated node were promised: each message that a queue took, and what became of it."""

from __future__ import annotations

from warren.broker.core.messages.ports import Journal


class Entry:
    """One message in one queue, or in that queue's dead letters.

    `ticket` is the journal's when the message was taken, `settled` that of its end. `moves` says that the journal
    stores it anew on its way, so that a crash in the middle may leave both copies. A message that is not `certain` may
    be there or not. `removed` says that a purge or deletion of it is not answered yet.
    """

    __slots__ = (
        *("number", "arrival", "ticket", "persistent", "priority", "moves", "due_ms", "certain", "delivered", "out"),
        *("settled", "removed"),
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
        self.delivered = False  # so often that the next time is a redelivery
        self.out = False  # with a consumer
        self.settled = 0
        self.removed = False

    def survives(self, durable: int, crashed: bool) -> bool:
        """Whether it may be there after a stop; from then on it is known what is certain."""
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


class Model:
    """`entries` by queue and number; dead letters count as in the queue that they were published to."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[int, Entry]] = {}
        self.bodies: list[bytes] = []
        # What deduplication has taken in this life, by exchange, key and the header's value.
        # With the time at which it is forgotten.
        self.seen: dict[tuple[str, str, int], tuple[list[Entry], float]] = {}
        self.crashed = False
        self.refused = False  # the disk has refused a read in this life
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
        """A consumer has got this message."""
        name = f"message {number} of {queue}"
        entry = self.entries.get(queue, {}).get(number)
        assert entry is not None, f"{name} was never taken, refused, rolled back, or settled for good"
        assert body == self.bodies[number], f"{name} has another body"
        assert now_ms >= entry.due_ms, f"{name} comes too early"
        if not (entry.moves and self.crashed):
            assert not entry.out and not entry.settled and not entry.removed, f"{name} is delivered twice"
            assert entry.moves or redelivered == entry.delivered, f"{name}: redelivered is {redelivered}"
        entry.certain = entry.certain or not entry.moves
        entry.delivered = entry.out = True
        return entry
