"""The few file calls that the log makes, so that a simulated disk can stand in for a real one in the tests.

A file only grows at its end. What `write` has returned from survives a killed process; what `sync` has returned from
survives a power cut, and with it, after `sync_folder`, the file's name.
"""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path


class File:
    """An open file of the log. Every call may raise OSError."""

    size = 0  # octets

    def write(self, data: bytes) -> None:
        """Append all of it, or, where that fails, nothing."""
        raise NotImplementedError

    def sync(self) -> None:
        """Once this returns, what was written survives a power cut. A failure is final: nothing can be known then."""
        raise NotImplementedError

    def read(self, offset: int, octets: int) -> bytes:
        """As many as there are."""
        raise NotImplementedError

    def truncate(self, octets: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Disk:
    """One folder with the files of a log."""

    def open(self, name: str, create: bool) -> File:
        """Raises FileNotFoundError, or FileExistsError for one that is to be created and is there."""
        raise NotImplementedError

    def names(self) -> list[str]:
        raise NotImplementedError

    def remove(self, name: str) -> None:
        raise NotImplementedError

    def rename(self, old: str, new: str) -> None:
        """In place of a file of the new name, if there is one; at no moment is there none."""
        raise NotImplementedError

    def sync_folder(self) -> None:
        """Once this returns, files that were created, renamed and removed stay so."""
        raise NotImplementedError

    def free_bytes(self) -> int:
        raise NotImplementedError

    def salt(self) -> int:
        """32 bits that nobody can guess, for a new log."""
        raise NotImplementedError


class FolderFile(File):
    """`durable` files are synced; others are as safe as the operating system keeps them."""

    def __init__(self, path: Path, flags: int, durable: bool) -> None:
        self._descriptor = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._durable = durable
        try:
            self.size = os.fstat(self._descriptor).st_size
        except OSError:
            os.close(self._descriptor)
            raise

    def write(self, data: bytes) -> None:
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

    def read(self, offset: int, octets: int) -> bytes:
        return os.pread(self._descriptor, max(octets, 0), offset)

    def truncate(self, octets: int) -> None:
        os.ftruncate(self._descriptor, octets)
        self.size = octets

    def close(self) -> None:
        os.close(self._descriptor)


class FolderDisk(Disk):
    """A real folder; `durable` is False where the log need not survive a power cut."""

    def __init__(self, folder: Path, durable: bool) -> None:
        self._folder = folder
        self._durable = durable
        new = not folder.exists()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if new and durable:
            for parent in (folder.parent, folder.parent.parent):
                sync_folder(parent)

    def open(self, name: str, create: bool) -> File:
        return FolderFile(self._folder / name, os.O_CREAT | os.O_EXCL if create else 0, self._durable)

    def names(self) -> list[str]:
        return sorted(os.listdir(self._folder))

    def remove(self, name: str) -> None:
        os.unlink(self._folder / name)

    def rename(self, old: str, new: str) -> None:
        os.replace(self._folder / old, self._folder / new)

    def sync_folder(self) -> None:
        if self._durable:
            sync_folder(self._folder)

    def free_bytes(self) -> int:
        status = os.statvfs(self._folder)
        return status.f_bavail * status.f_frsize

    def salt(self) -> int:
        return secrets.randbits(32)


def sync_data(descriptor: int) -> None:
    """What was written to the file is durable once this returns.

    Raises OSError with EIO, whatever the reason: a full disk is none to wait for here, as the second sync may succeed
    although the octets are gone.
    """
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        raise OSError(errno.EIO, f"not synced: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Sync the folder, so that files made, renamed and removed stay so. Raises OSError; EIO where the sync fails."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(errno.EIO, f"not synced: {error.strerror}", str(folder)) from error
    finally:
        os.close(descriptor)
