"""Metadata that outlives the process once `apply` returns, and a power cut once `sync` does."""

from random import Random

from warren.broker.core.metadata.records import Change, StoredQueue


class MemoryMetadata:
    """`queues` are the numbers of those that there are."""

    def __init__(self) -> None:
        self.queues: set[int] = set()
        self._since: list[set[int]] = []  # what they were, from the last sync on

    def apply(self, changes: list[Change]) -> None:
        self._since.append(set(self.queues))
        for change in changes:
            assert isinstance(change.record, StoredQueue)
            if change.put:
                self.queues.add(change.record.number)
            else:
                self.queues.discard(change.record.number)

    def sync(self) -> None:
        self._since = []

    def power_loss(self, random: Random) -> None:
        """Any of the last transactions are gone, and all that came after them."""
        self.queues = random.choice([*self._since, self.queues])
        self._since = []
