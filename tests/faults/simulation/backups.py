"""Backups of simulated processes, which are read in parts while the processes work, and restored to simulated disks."""

from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from random import Random
from typing import TYPE_CHECKING, TypeVar, cast

import pytest

from tests.faults.simulation.definitions import MemoryDefinitions
from tests.faults.simulation.disk import SimulatedDisk, Stopped
from tests.faults.simulation.metadata import MemoryMetadata
from warren.broker.core.messages.journal_port import Journal
from warren.broker.storage import backup as storage_backup
from warren.broker.storage.archive import NoBackup, Reader
from warren.broker.storage.checkpoint import RESTORING
from warren.broker.storage.restore import write_store

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata

FACTS: dict[str, object] = {"version": "1.2.3", "node": "warren@test"}
INTERRUPTED = 0.2  # the share of restores of which one ends in the middle first
M = TypeVar("M", MemoryMetadata, MemoryDefinitions)


class Backup:
    """A backup of a journal, whose pieces are kept in memory.

    begun  its moment is durable, so that it can be read
    ended  all of it is read
    lost   the reason for which the journal has given it up, or empty
    """

    def __init__(self, journal: Journal) -> None:
        self.begun = self.ended = False
        backup = journal.backup(self._begin)
        assert isinstance(backup, storage_backup.Backup)
        self.lost = ""
        self._backup = backup
        self._pieces = backup.pieces(FACTS)
        self._archive = bytearray()
        self._ahead = b""  # the next piece of it, so that the end is known with the last one

    def _begin(self) -> None:
        self.begun = True

    def read(self) -> None:
        """Read the next piece, and end the backup after the last one."""
        assert self.begun and not self.ended
        self._archive += self._ahead
        piece = next(self._pieces, None)
        self._ahead = piece or b""
        if piece is None:
            self.ended, self.lost = True, self._backup.lost
            self._backup.end()

    def leave(self) -> None:
        """Check that it is none yet, as the process ends."""
        assert not self.ended
        with suppress(Stopped):
            self._pieces.close()
        disk, metadata = SimulatedDisk(Random(1)), MemoryDefinitions()
        with pytest.raises(NoBackup):
            write_store(Reader(BytesIO(self._archive)), disk, cast("Metadata", metadata), [])

    def restored(self, random: Random, make: Callable[[], M], report: list[str]) -> tuple[SimulatedDisk, M]:
        """Restore it to a new disk and new metadata, and return what is left of them after a power cut.

        `report` gets a line for each damage before the backup. Raises NoBackup if it was given up.
        """
        calls = random.randrange(60) if random.random() < INTERRUPTED else 0
        disk, metadata = self._restored(random, make(), report, calls)
        if disk.load_checkpoint() != RESTORING:
            return disk, metadata
        assert calls, "the mark is left"
        return self._restored(random, make(), report, 0)

    def _restored(self, random: Random, metadata: M, report: list[str], calls: int) -> tuple[SimulatedDisk, M]:
        """Restore it; the process ends in this call to the disk, and nowhere for 0."""
        disk = SimulatedDisk(random)
        disk.save_checkpoint(RESTORING)

        def before(what: str, name: str) -> None:
            nonlocal calls
            calls -= 1
            if not calls:
                raise Stopped

        disk.before = before
        with suppress(Stopped):
            report[:] = []
            write_store(Reader(BytesIO(self._archive)), disk, cast("Metadata", metadata), report)
        metadata.power_loss(random)
        return disk.power_loss(random), metadata
