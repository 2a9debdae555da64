"""The store of a node: journal, metadata, and the state recovered from them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from ..config import Config
from ..core.messages.journal_port import IN_MEMORY, POSTGRESQL, Journal, RecoveredQueue, StorageStatus
from ..core.metadata.records import Definitions
from ..storage.disk import Disk
from ..storage.folder_disk import FolderDisk
from ..storage.journal import Journal as SegmentJournal
from ..storage.metadata import Metadata
from ..storage.recovery import check_definitions, check_log
from ..storage.sqlite_metadata import SQLiteMetadata

if TYPE_CHECKING:
    from ..storage.postgresql.store import PostgreSQLStore

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Store:
    """Durable storage of a node: its journal, its metadata, and the contents of both at the start."""

    def __init__(self, config: Config, remote: PostgreSQLStore | None = None) -> None:
        """Open the store on PostgreSQL, which this broker owns, or the locked data folder, and recover the journal.

        Raises StorageFault, OSError.
        """
        self.journal = Journal()
        self.metadata: Metadata | None = None  # None if nothing is stored
        self.definitions: Definitions | None = None
        self.queues: dict[int, RecoveredQueue] = {}  # recovered messages by queue number
        self.next_queue = 1  # above all in the journal, which without syncs may name queues that metadata lacks
        self.remote = remote
        self._local = local_status(config)
        self._disk: Disk | None = None
        self._disk_full = False
        if config.memory:
            return
        if remote is not None:
            self._disk, self.metadata = remote.open(config.storage.retry_s)
        else:
            folder = Path(config.data_dir).absolute()  # as errors show it
            durable = config.sync == "fsync"
            self.metadata = SQLiteMetadata(folder / "meta.sqlite", durable)
            self._disk = FolderDisk(folder / "log", durable)
        with ExitStack() as opened:
            if remote is None:
                opened.callback(self.metadata.close)
            self._recover(self._disk, self.metadata)
            opened.pop_all()

    def _recover(self, disk: Disk, metadata: Metadata) -> None:
        """Read definitions and journal. Raises StorageFault, OSError."""
        self.definitions = metadata.load()
        for line in metadata.report:
            log.warning("log_damaged", what=line)
        check_definitions(disk, self.definitions)
        check_log(disk, self.definitions.numbers)
        journal = SegmentJournal(disk, metadata)
        gc.disable()  # recovery makes no cycles, and collections would take longer than reading
        try:
            found = self.definitions
            self.queues = journal.recover(found.numbers, found.next_queue - 1, found.names)
        finally:
            gc.enable()
        self.next_queue = journal.next_queue
        for line in journal.report:
            log.warning("log_damaged", what=line)
        journal.reader.log = lambda line: log.error("cannot_read_log", what=line)
        self.journal = journal

    def name_queues(self, name_of: Callable[[int], str]) -> None:
        """Have faults of the disk logged with the names of queues, which `name_of` returns by number."""
        if isinstance(self.journal, SegmentJournal):
            self.journal.reader.name_of = name_of

    @property
    def id(self) -> str:
        """The id of a store on PostgreSQL, which all its brokers share; empty for any other."""
        return self.remote.id if self.remote is not None else ""

    def status(self) -> StorageStatus:
        """Return the status of the storage; on PostgreSQL, as the server last said."""
        if self.remote is None:
            return self._local
        guarantee, place = self.remote.guarantee, self.remote.address.shown
        return StorageStatus(POSTGRESQL, guarantee.text, guarantee.warning, place, guarantee.replicated)

    def free_bytes(self) -> int:
        """Return the free bytes of the disk; a number above any disk if nothing is stored on this machine."""
        return self._disk.free_bytes() if self._disk is not None else 1 << 62

    def disk_full(self, full: bool) -> None:
        """Note whether the disk is full; if not, reserve space for the time when it is."""
        self._disk_full = full
        if not full and self._disk is not None:
            self._disk.reserve()

    def close(self) -> None:
        """Close the files. Everything must be durable already."""
        if self._disk is not None and not self._disk_full:
            while self._disk.spend_reserve():
                pass  # backups need not have it
        if self.metadata is not None:
            try:
                self.journal.close()
            finally:
                self.metadata.close()
        if self.remote is not None:
            self.remote.close()


def local_status(config: Config) -> StorageStatus:
    """Return the status of storage in the data folder, or in memory."""
    if config.memory:
        return IN_MEMORY
    folder = str(Path(config.data_dir).absolute())
    if config.sync == "os":
        warning = "confirmed messages may be lost when the machine stops"
        return StorageStatus("os", "no disk yet, in the operating system's memory", warning, folder)
    return StorageStatus("fsync", "the disk of this machine", "", folder)
