"""Metadata that survives a killed process once `apply` has returned, and a power cut once `sync` has."""

from random import Random
from typing import TYPE_CHECKING, cast

from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage.disk import Disk
from warren.broker.storage.journal import SEGMENT_BYTES, Journal

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata


class MemoryMetadata:
    """The numbers of the queues that exist, and the highest number ever."""

    unsynced = True

    def __init__(self) -> None:
        self.queues: set[int] = set()
        self.highest = 0
        self._since: list[tuple[set[int], int]] = []  # their states since the last sync

    def apply(self, changes: list[Change]) -> None:
        self._since.append((set(self.queues), self.highest))
        for change in changes:
            assert isinstance(change.record, StoredQueue)
            if change.put:
                self.queues.add(change.record.number)
                self.highest = max(self.highest, change.record.number)
            else:
                self.queues.discard(change.record.number)

    def sync(self) -> None:
        self._since = []

    def power_loss(self, random: Random) -> None:
        """Lose any number of the last transactions."""
        self.queues, self.highest = random.choice([*self._since, (self.queues, self.highest)])
        self._since = []


def journal_on(disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> Journal:
    """Return a journal on this disk whose metadata is in memory."""
    return Journal(disk, cast("Metadata", MemoryMetadata()), segment_bytes)
