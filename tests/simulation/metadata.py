"""Metadata that is durable the moment `apply` returns, and outlives the process."""

from broker.core.definitions import Change, StoredQueue


class MemoryMetadata:
    """`queues` are the numbers of those that there are. `before` may raise, as the disk's."""

    def __init__(self) -> None:
        self.queues: set[int] = set()

    def apply(self, changes: list[Change]) -> None:
        for change in changes:
            assert isinstance(change.record, StoredQueue)
            if change.put:
                self.queues.add(change.record.number)
            else:
                self.queues.discard(change.record.number)
