"""Files that commands write: each keeps its former content unless all of the new one is stored.

The new content is written to `.NAME.xxxxxxxx.new` beside it, which is locked meanwhile. One without a lock was left by
a command that was killed.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import BinaryIO

LONGEST_NAME_BYTES = 240  # of a file, so that the name of the new one is at most 255 bytes long


@contextmanager
def replacing(name: str, private: bool = False) -> Iterator[BinaryIO]:
    """Context with an open file, whose content becomes that of the file with this name. Raises OSError with its name.

    A link is followed, as by RabbitMQ. What is no file, such as a pipe, is written directly, and so is a file in a
    folder without the right to create others, unless the new file is `private`. Then its mode is 0600, otherwise that
    of the former file. What a killed command has left of a new file with this name is removed first.
    """
    try:
        with opened_beside(Path(name), private) as opened:
            yield opened
    except OSError as error:
        error.filename = name  # not that of the new file beside it
        raise


@contextmanager
def opened_beside(file: Path, private: bool) -> Iterator[BinaryIO]:
    place = Path(os.path.realpath(file))
    parts = Path(os.path.abspath(file)).parts
    system = parts[1:2] in (("dev",), ("proc",)) and parts[2:3] != ("shm",)  # /dev/stdout is a link to a file
    closed = not private and not os.access(place.parent, os.W_OK | os.X_OK)
    if system or (place.exists() and not place.is_file()) or closed:
        with file.open("wb") as opened:
            yield opened
        return
    former = place.stat() if place.exists() else None
    prefix = prefix_of(os.fsencode(place.name))
    remove_left(place.parent, prefix)
    descriptor, new = created(place.parent, prefix)
    try:
        with open(descriptor, "wb") as opened:
            yield opened
            opened.flush()
            if not private:
                set_mode(descriptor, former)
            os.fsync(descriptor)
            os.replace(new, place)  # before it is closed, and so without a lock
        sync_folder(place.parent)
    finally:
        Path(new).unlink(missing_ok=True)  # there is none if it has replaced the former one


def prefix_of(name: bytes) -> str:
    """Return the beginning of the names of new files for the file with this name."""
    if len(name) <= LONGEST_NAME_BYTES:
        return f".{os.fsdecode(name)}."
    from hashlib import sha256  # here: other commands do not need it

    return f".{sha256(name).hexdigest()}."


def created(folder: Path, prefix: str) -> tuple[int, str]:
    """Create a file with the mode 0600, as it may have hashes of passwords; return its locked descriptor and path."""
    from tempfile import mkstemp  # here: other commands do not need it

    while True:
        descriptor, new = mkstemp(".new", prefix, folder)
        with suppress(OSError):  # a file system without locks: nobody removes it
            flock(descriptor, LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, new
        os.close(descriptor)  # another command has removed it before it was locked


def remove_left(folder: Path, prefix: str) -> None:
    """Remove files that `created` has made, unless their commands still run."""
    named = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}\.new")
    with suppress(OSError):  # the folder cannot be listed
        for name in filter(named.fullmatch, os.listdir(folder)):
            with suppress(OSError):  # its command runs, or it is of another user, or no file
                descriptor = os.open(folder / name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    flock(descriptor, LOCK_EX | LOCK_NB)
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        os.unlink(folder / name)
                finally:
                    os.close(descriptor)


def set_mode(descriptor: int, former: os.stat_result | None) -> None:
    """Give a file owner and mode of the former one, or the mode of new files."""
    if former is None:
        os.fchmod(descriptor, 0o666 & ~umask())
        return
    with suppress(PermissionError):  # only root may give it to the former owner
        os.fchown(descriptor, former.st_uid, former.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(former.st_mode))


def sync_folder(folder: Path) -> None:
    """Make the new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """Return the mask of the process for the modes of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
