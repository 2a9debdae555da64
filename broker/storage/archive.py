"""The file of a backup: a tar archive, which is written and read as a stream, with these files in this order.

    backup.json      the format, and what the backup is of
    metadata.jsonl   the rows of the metadata (`metadata`), in each line a JSON array of kind and record
    checkpoint       the checkpoint of the log
    log/NUMBER.log   the segments of the log
    SHA256SUMS       the checksums of the files before it, as `sha256sum --check` reads them

A backup that was given up has ERROR, with the reason, in place of SHA256SUMS. Every bit of the archive is verified: the
headers must be those that `header` makes, the filling after a file must be zero, and nothing may follow the end.
"""

import json
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from tarfile import GNU_FORMAT, HeaderError, TarInfo
from typing import Protocol

from .errors import StorageFault

FORMAT = 1
ABOUT, ROWS, CHECKPOINT, LOG, SUMS, ERROR = (
    "backup.json", "metadata.jsonl", "checkpoint", "log/", "SHA256SUMS", "ERROR",
)  # fmt: skip
BLOCK_BYTES = 512
GZIP = b"\x1f\x8b"  # the beginning of a compressed file
END = bytes(2 * BLOCK_BYTES)
PIECE_BYTES = 256 << 10  # written and read at once
SMALL_BYTES = 64 << 10  # the limit of backup.json and ERROR


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, count: int, /) -> bytes:
        """Return at least one byte, and at most `count`; none at the end."""


class NoBackup(StorageFault):
    """The file is no whole backup that this version can read."""


def header(name: str, size: int, time_s: int) -> bytes:
    """Return the header of a file in the archive."""
    info = TarInfo(name)
    info.size, info.mtime, info.mode = size, time_s, 0o600
    return info.tobuf(GNU_FORMAT)


def filling(size: int) -> bytes:
    """Return the zeros between a file of this size and the next header."""
    return bytes(-size % BLOCK_BYTES)


class Writer:
    """An archive that is written now."""

    def __init__(self) -> None:
        self._time_s = int(time.time())
        self._sums = ""

    def file(self, name: str, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a file of the archive. Raises StorageFault if the pieces have another size, and errors of the pieces.

        Before that the rest of the file is zeros, so `failure` may follow.
        """
        yield header(name, size, self._time_s)
        digest, left_bytes = sha256(), size
        try:
            for piece in pieces:
                digest.update(piece)
                yield piece[:left_bytes]
                left_bytes -= len(piece)
            if left_bytes:
                raise StorageFault(f"{name}: {size - left_bytes} bytes were read in place of {size}")
        except (OSError, StorageFault, MemoryError):
            while left_bytes > 0:
                yield bytes(min(left_bytes, PIECE_BYTES))
                left_bytes -= PIECE_BYTES
            yield filling(size)
            raise
        yield filling(size)
        self._sums += f"{digest.hexdigest()}  {name}\n"

    def about(self, facts: dict[str, object]) -> Iterator[bytes]:
        """Yield the first file."""
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._time_s))
        text = json.dumps({"format": FORMAT, "created": created, **facts}, indent=1).encode() + b"\n"
        return self.file(ABOUT, len(text), [text])

    def end(self) -> Iterator[bytes]:
        """Yield the last file of a whole backup, and the end."""
        return self._last(SUMS, self._sums)

    def failure(self, reason: str) -> Iterator[bytes]:
        """Yield the last file of a backup that was given up, and the end."""
        return self._last(ERROR, reason)

    def _last(self, name: str, text: str) -> Iterator[bytes]:
        data = text.encode("utf-8", "backslashreplace")
        yield header(name, len(data), self._time_s) + data + filling(len(data)) + END


class Reader:
    """An archive that is read from a stream. `about` has what backup.json says."""

    def __init__(self, stream: Readable) -> None:
        """Read the first file. Raises NoBackup, and any error of the stream."""
        self._stream = stream
        self._ahead = b""  # read already
        self._sums = ""
        self._name = ""  # of the file that is being read
        self._left_bytes = 0  # of it
        self.size = 0  # bytes of the archive that were read
        start = b""
        try:
            start = self._exactly(len(GZIP))
            info = parsed(start + self._exactly(BLOCK_BYTES - len(start)))
        except NoBackup:
            info = None
        if info is None or info.name != ABOUT or info.size > SMALL_BYTES:
            compressed = "it is compressed: gzip -dc FILE | warren restore - ..."
            raise NoBackup(compressed if start == GZIP else "this is no backup of Warren")
        try:
            self.about: dict[str, object] = json.loads(b"".join(self._pieces(info)))
            format_ = self.about["format"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise NoBackup(f"{ABOUT} is damaged: take another backup") from None
        if format_ != FORMAT:
            version = self.about.get("version", "another version")
            raise NoBackup(f"of format {format_}, this version reads {FORMAT}: restore it with Warren {version}")

    def files(self) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """Yield name, size and contents of each file after the first, but for the last; read all of each.

        Raises NoBackup, also at the end if a checksum differs, and any error of the stream.
        """
        while True:
            at = self.size
            info = parsed(self._exactly(BLOCK_BYTES))
            if info is None:
                raise NoBackup(f"damaged at offset {at}")
            if info.name == ERROR and info.size <= SMALL_BYTES:
                reason = b"".join(self._pieces(info)).decode("utf-8", "replace")
                raise NoBackup(f"the backup was given up: {reason}")
            if info.name == SUMS:
                return self._check_end(info)
            yield info.name, info.size, self._pieces(info)
            assert not self._left_bytes, "the file was read to its end"

    def _check_end(self, info: TarInfo) -> None:
        sums = self._sums
        read = b"".join(self._pieces(info)).decode("ascii", "replace") if info.size == len(sums) else ""
        for line in sums.splitlines():
            if line not in read.splitlines():
                raise NoBackup(f"{line.partition('  ')[2]} is damaged: its checksum differs")
        if read != sums:
            raise NoBackup(f"{SUMS} is damaged, or files are missing")
        self._name = "its end"
        if self._exactly(len(END)) != END or self._any():
            raise NoBackup("damaged at its end")

    def _pieces(self, info: TarInfo) -> Iterator[bytes]:
        """Yield the contents of a file, and add its checksum."""
        digest, self._name, self._left_bytes = sha256(), info.name, info.size
        while self._left_bytes:
            piece = self._exactly(min(self._left_bytes, PIECE_BYTES))
            self._left_bytes -= len(piece)
            digest.update(piece)
            if not self._left_bytes:
                self._fill(info.size)
            yield piece
        if not info.size:
            self._fill(0)
        self._sums += f"{digest.hexdigest()}  {info.name}\n" if info.name != SUMS else ""

    def _fill(self, size: int) -> None:
        zeros = filling(size)
        if self._exactly(len(zeros)) != zeros:
            raise NoBackup(f"damaged after {self._name}")

    def _exactly(self, count: int) -> bytes:
        data = self._ahead
        self._ahead = b""
        parts = [data]
        missing = count - len(data)
        while missing > 0:
            part = self._stream.read(missing)
            if not part:
                where = f", in {self._name}" if self._name else ""
                raise NoBackup(f"it ends too early{where}: the backup is not whole")
            parts.append(part)
            missing -= len(part)
        self.size += count
        return b"".join(parts)

    def _any(self) -> bool:
        """Whether there is a further byte."""
        self._ahead = self._stream.read(1)
        return bool(self._ahead)


def parsed(block: bytes) -> TarInfo | None:
    """Return the file with this header, or None for any other block than `header` makes."""
    try:
        info = TarInfo.frombuf(block, "utf-8", "strict")
        same = header(info.name, info.size, int(info.mtime)) == block
    except (HeaderError, ValueError):
        return None
    return info if same else None
