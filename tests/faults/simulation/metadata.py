"""Metadata that survives a killed process once `apply` has returned, and a power cut once `sync` has."""

from random import Random
from typing import TYPE_CHECKING, cast

from warren.broker.core.metadata.records import Change, Definitions, StoredQueue, StoredVHost
from warren.broker.storage.disk import Disk
from warren.broker.storage.journal import SEGMENT_BYTES, Journal
from warren.broker.storage.metadata import HIGHEST, TABLES, RowsOfMoment, cells_of
from warren.broker.storage.postgresql.disk import RowsInMemory

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata


VHOST = StoredVHost("/")  # a broker has at least one


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
            if not isinstance(change.record, StoredQueue):
                assert isinstance(change.record, StoredVHost)
            elif change.put:
                self.queues.add(change.record.number)
                self.highest = max(self.highest, change.record.number)
            else:
                self.queues.discard(change.record.number)

    def load(self) -> Definitions:
        queues = [StoredQueue("/", f"q{number}", number, False, b"") for number in sorted(self.queues)]
        return Definitions(vhosts=[VHOST], queues=queues, next_queue=self.highest + 1)

    def moment(self) -> RowsOfMoment:
        return rows_of(self.load())

    def sync(self) -> None:
        self._since = []

    def power_loss(self, random: Random) -> None:
        """Lose any number of the last transactions."""
        self.queues, self.highest = random.choice([*self._since, (self.queues, self.highest)])
        self._since = []


def rows_of(definitions: Definitions) -> RowsOfMoment:
    """Return the rows of a table with these records."""
    records = [change.record for change in definitions.changes()]
    rows = [(TABLES[type(record)][0], cells_of(record, record.__slots__)) for record in records]
    return RowsInMemory([*rows, (HIGHEST, str(definitions.next_queue - 1))])


def journal_on(disk: Disk, segment_bytes: int = SEGMENT_BYTES) -> Journal:
    """Return a journal on this disk whose metadata is in memory."""
    return Journal(disk, cast("Metadata", MemoryMetadata()), segment_bytes)
