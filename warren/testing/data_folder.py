"""The data folder of a broker for tests: what is durable survives a kill of the broker in it, until the tests end."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

PREFIX = "warren-testing-"
OWNER = "owner"  # a file beside the data, which the process of the tests has locked
DATA = "data"


class DataFolder:
    """A new folder for the data at `path`; `remove` or the end of this process removes it.

    If the process and its broker are both killed, the next one that makes a folder removes it.
    """

    def __init__(self) -> None:
        remove_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        new = folder / f"{OWNER}.new"
        owner = lock(new, os.O_CREAT)
        assert owner is not None
        new.rename(folder / OWNER)  # only now, as it is locked, do other processes look at it
        self.path = folder / DATA
        self.remove = weakref.finalize(self, remove, folder, owner, os.getpid())


def remove(folder: Path, owner: int, maker: int) -> None:
    """Remove a folder, in the process that has made it and not in one that was forked from it."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owner)


def remove_abandoned() -> None:
    """Remove the folders that no process has locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # of a folder that is being made or removed, or is another user's
            owner = lock(folder / OWNER)
            if owner is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(owner)


def lock(path: Path, flags: int = 0) -> int | None:
    """Lock a file and return its descriptor, or None if another process has locked it. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
