"""Files that commands write: each keeps its former content unless all of the new one is stored."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(name: str, private: bool = False) -> Iterator[BinaryIO]:
    """Context with an open file, whose content becomes that of the file with this name. Raises OSError with its name.

    A link is followed, as by RabbitMQ. What is no file, such as a pipe, is written directly, and so is a file in a
    folder without the right to create others, unless the new file is `private`. Then its mode is 0600, otherwise that
    of the former file.
    """
    try:
        with opened_beside(Path(name), private) as opened:
            yield opened
    except OSError as error:
        error.filename = name  # not that of the new file beside it
        raise


@contextmanager
def opened_beside(file: Path, private: bool) -> Iterator[BinaryIO]:
    from tempfile import mkstemp  # here: other commands do not need it

    place = Path(os.path.realpath(file))
    parts = Path(os.path.abspath(file)).parts
    system = parts[1:2] in (("dev",), ("proc",)) and parts[2:3] != ("shm",)  # /dev/stdout is a link to a file
    closed = not private and not os.access(place.parent, os.W_OK | os.X_OK)
    if system or (place.exists() and not place.is_file()) or closed:
        with file.open("wb") as opened:
            yield opened
        return
    former = place.stat() if place.exists() else None
    descriptor, new = mkstemp(".new", ".", place.parent)  # mode 0600: it has hashes of passwords
    try:
        with open(descriptor, "wb") as opened:
            yield opened
            opened.flush()
            if not private:
                set_mode(descriptor, former)
            os.fsync(descriptor)
        os.replace(new, place)
        sync_folder(place.parent)
    finally:
        Path(new).unlink(missing_ok=True)  # there is none if it has replaced the former one


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
