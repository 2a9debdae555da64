"""The store of a node: journal, metadata, and the state recovered from them."""

from __future__ import annotations

import gc
from pathlib import Path

import structlog

from ..config import Config
from ..core.messages.ports import Journal, RecoveredQueue
from ..core.metadata.records import Definitions
from ..storage.disk import FolderDisk
from ..storage.folder_lock import lock
from ..storage.journal import Journal as SegmentJournal
from ..storage.memory_journal import MemoryJournal
from ..storage.metadata_store import Metadata

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Store:
    """Durable storage of a node: its journal, its metadata, and the contents of both at the start.

    metadata, definitions   None if nothing is stored
    queues                  recovered messages by queue number
    next_queue              above all numbers in the journal, which without syncs may name queues that metadata lacks
    """

    def __init__(self, config: Config) -> None:
        """Open the data folder and recover the journal. Raises StorageFault, InUse, OSError."""
        self.journal: Journal = MemoryJournal()
        self.metadata: Metadata | None = None
        self.definitions: Definitions | None = None
        self.queues: dict[int, RecoveredQueue] = {}
        self.next_queue = 1
        self._disk: FolderDisk | None = None
        if config.memory:
            return
        folder = Path(config.data_dir)
        lock(folder)  # as long as this process runs
        durable = config.sync == "fsync"
        self.metadata = Metadata(folder / "meta.sqlite", durable)
        self.definitions = self.metadata.load()
        self._disk = FolderDisk(folder / "log", durable)
        journal = SegmentJournal(self._disk, self.metadata)
        gc.disable()  # recovery makes no cycles, and collections would take longer than reading
        self.queues = journal.recover(self.definitions.numbers)
        gc.enable()
        self.next_queue = journal.next_queue
        for line in journal.report:
            log.warning("log_damaged", what=line)
        journal.reader.log = lambda line: log.error("cannot_read_log", what=line)
        self.journal = journal

    def free_bytes(self) -> int:
        """Return the free bytes of the disk; a number above any disk if nothing is stored."""
        return self._disk.free_bytes() if self._disk is not None else 1 << 62

    def close(self) -> None:
        """Close the files. Everything must be durable already."""
        if self.metadata is not None:
            self.journal.close()
            self.metadata.close()
