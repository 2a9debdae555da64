"""Disk and File: the file calls that the log makes, on a real folder or, in the tests, on a simulated disk.

A file only grows at its end. Bytes survive a killed process once `write` or, on a store where they gather, `commit` has
returned, and a power cut once `sync` has; so does the file's name once `sync_folder` has.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from ..core.messages.ports import FULL, IN_FLIGHT

UNFINISHED_NAME = "unfinished"  # a file beside a log that `warren copy` has begun to write
RESERVE_NAME = "reserve"
RESERVE_BYTES = 16 << 20  # more than a journal has buffered when the disk is found full (`journal.BUFFER_LIMIT`)
RESERVE_PART_BYTES = 4 << 20  # spent at once: other processes may take what is free and not used yet


class File:
    """An open file of the log. Every call may raise OSError."""

    size = 0  # bytes

    def write(self, data: bytes | bytearray) -> None:
        """Append all of it, or nothing if that fails."""
        raise NotImplementedError

    def sync(self) -> None:
        """Make what was written survive a power cut. A failure is final: what is on the disk is unknown then."""
        raise NotImplementedError

    def read(self, offset: int, count: int) -> bytes:
        """Return the bytes at `offset`: fewer than `count` at the end of the file."""
        raise NotImplementedError

    def truncate(self, size: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Disk:
    """One folder with the files of a log.

    in_flight  batches of a journal that may be written or synced at a time
    """

    in_flight = IN_FLIGHT

    def open(self, name: str, create: bool) -> File:
        """Open or create a file. Raises FileNotFoundError, or FileExistsError for a file to create that exists."""
        raise NotImplementedError

    def names(self) -> list[str]:
        raise NotImplementedError

    def remove(self, name: str) -> None:
        raise NotImplementedError

    def rename(self, old: str, new: str) -> None:
        """Rename atomically; a file with the new name is replaced."""
        raise NotImplementedError

    def sync_folder(self) -> None:
        """Make the creation, renaming and removal of files survive a power cut."""
        raise NotImplementedError

    def commit(self) -> None:
        """Make what was written survive a killed process, if `write` alone does not."""

    def free_bytes(self) -> int:
        """Return the free space, without that of a reserve that is spent."""
        raise NotImplementedError

    def reserve(self) -> None:
        """Allocate space for what must be written to get a full disk free, if there is room and none is reserved."""

    def spend_reserve(self) -> bool:
        """Free a part of the reserved space; return False if none is left. Any thread may call this."""
        return False

    def salt(self) -> int:
        """Return 32 bits that nobody can guess, for a new log."""
        raise NotImplementedError


def write_with_reserve(disk: Disk, write: Callable[[], object]) -> None:
    """Call `write`, and again after a part of the reserve is spent, as long as the disk is full. Raises OSError."""
    while True:
        try:
            write()
            return
        except OSError as error:
            if error.errno not in FULL or not disk.spend_reserve():
                raise


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


class FolderDisk(Disk):
    """A real folder. Without `durable` nothing in it is synced."""

    def __init__(self, folder: Path, durable: bool) -> None:
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


def contents(disk: Disk, name: str) -> bytes:
    """Return all bytes of a file. Raises OSError."""
    file = disk.open(name, False)
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def sync_data(descriptor: int) -> None:
    """Make durable what was written to the file.

    Raises OSError, always with EIO: this must not be tried again even on a full disk, as a second sync may succeed
    although the bytes are lost.
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


class UntouchedFile(FolderFile):
    """A file that recovery can read but not change."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...


class UntouchedFolder(FolderDisk):
    """A folder that recovery can read but not change."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, False)
        self._path = folder

    def open(self, name: str, create: bool) -> File:
        assert not create
        return UntouchedFile(self._path / name, os.O_RDONLY | os.O_NONBLOCK, False)  # a pipe would wait for a writer

    def remove(self, name: str) -> None: ...
