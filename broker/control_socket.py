"""The address of the unix socket in the data folder of a node."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "ctl.sock"
ADDRESS_LIMIT = 100  # bytes of a path that each system accepts as the address of a unix socket


@contextmanager
def address_in(folder: Path) -> Iterator[str]:
    """Context with the address of the socket in a folder; too long a path is replaced by the folder's descriptor.

    Raises OSError.
    """
    path = str(folder / NAME)
    if len(os.fsencode(path)) <= ADDRESS_LIMIT:
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)
