"""The lock on a data folder, which one process holds as long as it runs.

The operating system releases it when the process ends, so a killed broker leaves no lock.
"""

import fcntl
import os
from pathlib import Path

NAME = "lock"
IN_USE_STATUS = 73  # EX_CANTCREAT of sysexits.h


class InUse(Exception):
    """Another process holds the folder. The text is one line for the operator."""


def lock(folder: Path) -> int:
    """Lock the folder, which is created if missing, and return the descriptor of the lock. Raises InUse, OSError."""
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        take(descriptor, folder)
        if is_file(descriptor, folder / NAME):
            break
        os.close(descriptor)  # a start that failed has removed the file meanwhile
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def is_file(descriptor: int, path: Path) -> bool:
    """Return whether the open file is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def take(descriptor: int, folder: Path) -> None:
    """Lock an open file, or close it. Raises InUse, OSError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise InUse(f"{folder.absolute()} is in use by another broker (pid {holder or 'unknown'})") from None
    except OSError:
        os.close(descriptor)
        raise
