"""A backup of a store while it is used: what it had at one moment, between two batches of the journal.

The moment is one at which the process could have been killed, so recovery reads a backup as it reads the log of a
killed broker. Segments only grow at their ends, and none of that moment is deleted before the end of the backup.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from ..core.messages import journal_port as port
from ..core.metadata.unfinished_import import UNFINISHED_IMPORT
from ..system_errors import file_error
from . import log_records
from .disk import Disk, Moment
from .errors import StorageFault
from .metadata import Metadata, RowsOfMoment
from .segment import name_of

if TYPE_CHECKING:
    from .archive import Writer

PIECE_BYTES = 256 << 10  # read at once
EVERY_SEGMENT = 1 << 62  # above the numbers of all
IMPORT = f'["{UNFINISHED_IMPORT}",'  # the beginning of the row of an import that has not ended


class Backup(port.Backup):
    """A backup of a store. `take` is called by a worker, `pieces` by another thread, and all others by the loop.

    waits  its moment is still to come
    held   segments up to this number are not deleted
    begun  called when its moment is durable
    lost   the reason for which segments may be deleted before its end, or empty
    """

    def __init__(
        self, disk: Disk, metadata: Metadata, begun: Callable[[], None], ended: Callable[[Backup, str], None]
    ) -> None:
        """`ended` is called at the end, with the reason."""
        self.waits = True
        self.held = EVERY_SEGMENT  # as the moment of a store may have later ones than are known when it is taken
        self.begun = begun
        self.lost = ""
        self._disk = disk
        self._metadata = metadata
        self._ended = ended
        self._open: Callable[[], Moment] | Exception = StorageFault("it has not begun")

    def take(self, lengths: dict[int, int]) -> None:
        """Note what is stored now, between two batches; a failure is one of the backup alone."""
        try:
            self._open = self._disk.moment(lengths, self._metadata)
        except (OSError, StorageFault, MemoryError) as error:
            self._open = error

    def pieces(self, facts: dict[str, object]) -> Generator[bytes, None, None]:
        from . import archive  # here: no other work of a broker needs it

        writer = archive.Writer()
        yield from writer.about(facts | {"log": log_records.VERSION})
        try:
            if isinstance(self._open, Exception):
                raise self._open
            moment = self._open()
            try:
                yield from self._files(writer, moment)
            finally:
                moment.close()
        except (OSError, StorageFault, MemoryError) as error:
            reason = file_error(error) if isinstance(error, OSError) else str(error) or "there is not enough memory"
            yield from writer.failure(self.lost or reason)
        else:
            yield from writer.end()

    def end(self) -> None:
        self._ended(self, "the backup has ended")

    def _files(self, writer: Writer, moment: Moment) -> Iterator[bytes]:
        from .archive import CHECKPOINT, LOG, ROWS

        self.held = max(moment.lengths, default=0)
        yield from writer.file(ROWS, sum(map(len, lines(moment.metadata))), lines(moment.metadata))
        saved, moment.checkpoint = moment.checkpoint, b""
        yield from writer.file(CHECKPOINT, len(saved), pieces_of(saved))
        for number, length in sorted(moment.lengths.items()):
            yield from writer.file(LOG + name_of(number), length, self._segment(moment.log, number, length))

    def _segment(self, log: Disk, number: int, length: int) -> Iterator[bytes]:
        step = log.read_ahead or PIECE_BYTES
        for at in range(0, length, step):
            if self.lost:
                raise StorageFault(self.lost)
            yield from pieces_of(log.read(number, at, min(step, length - at)))


def lines(metadata: RowsOfMoment) -> Iterator[bytes]:
    """Yield the lines of the metadata in pieces. Raises StorageFault."""
    piece = bytearray()
    for kind, record in metadata.rows():
        if record.startswith(IMPORT):
            raise StorageFault("an import of definitions is under way, or was interrupted: a part of them is here")
        piece += f'["{kind}",{record}]\n'.encode()
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def pieces_of(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]
