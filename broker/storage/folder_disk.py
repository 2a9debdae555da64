"""The log in a folder, real or, in tests, simulated: a file for each segment, and one for the checkpoint.

Bytes survive a killed process once `write` has returned, and a power cut once `sync` has; so does the file's name once
`sync_folder` has. A new checkpoint is written beside the old one, synced, and renamed over it.
"""

import errno
import os
import secrets
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from .checkpoint import NAME
from .disk import RESERVE_BYTES, Disk, Moment
from .metadata import Metadata
from .segment import name_of, number_of

NEW_NAME = "checkpoint.new"
OPEN_FILES = 64  # for reading, at once: a backlog may have more segments than a process may open files
RESERVE_NAME = "reserve"
RESERVE_PART_BYTES = 4 << 20  # spent at once: other processes may take what is free and not used yet


class File(Protocol):
    """An open file of the log. Every call may raise OSError."""

    size: int  # bytes

    def write(self, data: bytes | bytearray) -> None:
        """Append all of it, or nothing if that fails."""

    def sync(self) -> None:
        """Make the written bytes survive a power cut. A failure is final: the contents of the disk are unknown then."""

    def read(self, offset: int, count: int) -> bytes:
        """Return the bytes at `offset`: fewer than `count` at the end of the file."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class FileDisk(Disk):
    """A log in the files of one folder, over the calls of a file system. All may raise OSError."""

    tears = True

    def __init__(self) -> None:
        self._readers: OrderedDict[int, File] = OrderedDict()  # of the loop, by number, in the order of their last use
        self._number = 0  # the segment to which bytes are appended
        self._writers: dict[int, File] = {}  # its file, for each slot; the workers use them

    def open(self, name: str, create: bool) -> File:
        """Open or create a file. Raises FileNotFoundError, or FileExistsError for a file to create that exists."""
        raise NotImplementedError

    def names(self) -> list[str]:
        raise NotImplementedError

    def remove(self, name: str) -> None:
        raise NotImplementedError

    def rename(self, old: str, new: str) -> None:
        """Rename atomically; a file with the new name is replaced."""

    def sync_folder(self) -> None:
        """Make the creation, renaming and removal of files survive a power cut."""

    def segments(self) -> dict[int, int]:
        sizes = {}
        for number in sorted(number for number in map(number_of, self.names()) if number is not None):
            with closing(self.open(name_of(number), False)) as file:
                sizes[number] = file.size
        return sizes

    def read(self, number: int, offset: int, count: int) -> bytes:
        """Read with a file object of the loop; the workers have others, because a file object has the file's size."""
        file = self._readers.get(number)
        if file is None:
            file = self._readers[number] = self.open(name_of(number), False)
            if len(self._readers) > OPEN_FILES:
                close_read(self._readers.popitem(last=False)[1])
        else:
            self._readers.move_to_end(number)
        return file.read(offset, count)

    def append(self, number: int, start: int, data: bytes | bytearray, slot: int) -> None:
        """Append with one file object; each slot syncs another one.

        The system reports a lost write once to each of them: a second sync by the same one could succeed.
        """
        if number != self._number:
            self._close_writers()
            self._writers[0] = self.open(name_of(number), not start)
            self._number = number
        if slot not in self._writers:  # before the write, as a file object reports no loss from before it
            self._writers[slot] = self.open(name_of(number), False)
        if not start:  # in a second attempt too, if a shortage of descriptors failed the first here
            self.sync_folder()
        file = self._writers[0]
        if file.size != start:
            text = f"the file has {file.size} bytes where {start} were written"
            raise OSError(errno.EIO, text, name_of(number))
        file.write(data)

    def sync(self, slot: int) -> None:
        self._writers[slot].sync()

    def keep(self, lengths: dict[int, int]) -> None:
        self._close_writers()
        self.sync_folder()
        for number, length in lengths.items():  # bytes that a killed process has written may not be durable yet, either
            with closing(self.open(name_of(number), False)) as file:
                if file.size > length:
                    file.truncate(length)
                file.sync()

    def drop(self, numbers: Iterable[int]) -> list[int]:
        for number in numbers:
            with suppress(FileNotFoundError):  # nothing was written to it, or a full disk interrupted this before
                self.remove(name_of(number))
        self.sync_folder()
        return []

    def forget(self, number: int) -> None:
        if number in self._readers:
            close_read(self._readers.pop(number))

    def load_checkpoint(self) -> bytes | None:
        try:
            with closing(self.open(NAME, False)) as file:
                return file.read(0, file.size)
        except FileNotFoundError:
            return None

    def save_checkpoint(self, data: bytes) -> None:
        with suppress(FileNotFoundError):
            self.remove(NEW_NAME)
        with closing(self.open(NEW_NAME, True)) as file:
            file.write(data)
            file.sync()
        self.rename(NEW_NAME, NAME)
        self.sync_folder()

    def moment(self, lengths: dict[int, int], metadata: Metadata) -> Callable[[], Moment]:
        rows, log = metadata.moment(), self.reader()

        def close() -> None:
            rows.close()
            log.close()

        try:
            moment = Moment(lengths, self.load_checkpoint() or b"", rows, log, close)
        except (OSError, MemoryError):
            close()
            raise
        return lambda: moment

    def reader(self) -> Disk:
        """Return another object for the same segments, of which another thread may read."""
        raise NotImplementedError

    def close(self) -> None:
        while self._readers:
            close_read(self._readers.popitem()[1])
        self._close_writers()

    def _close_writers(self) -> None:
        files, self._writers, self._number = self._writers, {}, 0  # first: even after an error no file is closed twice
        for file in files.values():
            file.close()


def close_read(file: File) -> None:
    """Close a file that was only read: a failure is harmless."""
    with suppress(OSError):
        file.close()


class FolderFile(File):
    """A file in a folder. Without `durable` it is never synced, and may not survive a power cut."""

    def __init__(self, path: Path, flags: int, durable: bool) -> None:
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._path = path
        self._durable = durable
        try:
            status = os.fstat(self._descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is no regular file", str(path))
            self.size = status.st_size
        except OSError:
            os.close(self._descriptor)
            raise

    def write(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._descriptor, view[done:], self.size + done)
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += done

    def sync(self) -> None:
        if self._durable:
            sync_data(self._descriptor)

    def read(self, offset: int, count: int) -> bytes:
        try:
            return os.pread(self._descriptor, max(count, 0), offset)
        except OSError as error:
            error.filename = str(self._path)
            raise

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def close(self) -> None:
        os.close(self._descriptor)


class FolderDisk(FileDisk):
    """A real folder. Without `durable` nothing in it is synced."""

    def __init__(self, folder: Path, durable: bool) -> None:
        super().__init__()
        self._folder = folder
        self._durable = durable
        new = not folder.exists()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if new and durable:
            for parent in (folder.parent, folder.parent.parent):
                sync_folder(parent)
        reserve = folder / RESERVE_NAME
        self._reserved_bytes = reserve.stat().st_size if reserve.exists() else 0

    def open(self, name: str, create: bool) -> File:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL if create else os.O_RDWR
        return FolderFile(self._folder / name, flags, self._durable)

    def reader(self) -> Disk:
        return UntouchedFolder(self._folder)

    def names(self) -> list[str]:
        return sorted(name for name in os.listdir(self._folder) if name != RESERVE_NAME)

    def remove(self, name: str) -> None:
        os.unlink(self._folder / name)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._folder / old, self._folder / new)

    def sync_folder(self) -> None:
        if self._durable:
            sync_folder(self._folder)

    def free_bytes(self) -> int:
        status = os.statvfs(self._folder)
        return max(status.f_bavail * status.f_frsize - (RESERVE_BYTES - self._reserved_bytes), 0)

    def reserve(self) -> None:
        if self._reserved_bytes == RESERVE_BYTES:
            return
        try:
            descriptor = os.open(self._folder / RESERVE_NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
                self._reserved_bytes = RESERVE_BYTES
            except OSError:
                os.ftruncate(descriptor, self._reserved_bytes)  # without a part of the rest
            finally:
                os.close(descriptor)
        except OSError:
            pass  # tried again with the next batch

    def spend_reserve(self) -> bool:
        left_bytes = self._reserved_bytes - RESERVE_PART_BYTES
        self._reserved_bytes = max(left_bytes, 0)
        try:
            if left_bytes > 0:
                os.truncate(self._folder / RESERVE_NAME, left_bytes)
            else:
                os.unlink(self._folder / RESERVE_NAME)
        except OSError:
            return False
        return True

    def salt(self) -> int:
        return secrets.randbits(32)


def sync_data(descriptor: int) -> None:
    """Make durable what was written to the file.

    Raises OSError, always with EIO: not even a full disk allows another attempt, which may succeed although the bytes
    are lost.
    """
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        raise OSError(errno.EIO, f"not synced: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make the creation, renaming and removal of its files durable. Raises OSError; EIO if the sync fails."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(errno.EIO, f"not synced: {error.strerror}", str(folder)) from error
    finally:
        os.close(descriptor)


class UntouchedFolder(FolderDisk):
    """A folder that recovery can read but not change."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, False)

    def open(self, name: str, create: bool) -> File:
        assert not create
        return FolderFile(self._folder / name, os.O_RDONLY | os.O_NONBLOCK, False)  # a pipe would wait for a writer

    def keep(self, lengths: dict[int, int]) -> None: ...

    def drop(self, numbers: Iterable[int]) -> list[int]:
        return []
