"""Where the control socket lies, and the frames on it: an octet count of four octets, then that much JSON."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct

NAME = "ctl.sock"
FRAME_LIMIT = 256 << 20  # octets: definitions of a large broker are one frame
ADDRESS_LIMIT = 100  # octets of a path that every system takes as an address

LENGTH = Struct(">I")


@contextmanager
def address(folder: Path) -> Iterator[str]:
    """Of the socket in that folder, while it is bound or connected to: a long path goes by the folder's descriptor.

    Raises OSError.
    """
    whole = str(folder / NAME)
    if len(os.fsencode(whole)) <= ADDRESS_LIMIT:
        yield whole
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)


def bind(folder: Path) -> socket.socket:
    """A listening socket there, for this user alone; one that a dead node left goes. Raises OSError.

    The folder is the node's own: nobody else who lives listens in it.
    """
    (folder / NAME).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # from its first moment on
    try:
        with address(folder) as name:
            listening.bind(name)
        listening.listen()
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(mask)
    return listening


def framed(value: object) -> bytes:
    octets = json.dumps(value, separators=(",", ":")).encode()
    return LENGTH.pack(len(octets)) + octets
