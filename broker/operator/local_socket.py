"""The unix socket in the data folder, where the HTTP API needs no password.

Its mode (0600) and the uid of the peer replace the password: the node's own user and root are admitted. It is
independent of the listeners on TCP and of their connection limits.
"""

import fcntl
import os
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Protocol

from ..config import Config
from ..control_socket import NAME, address_in
from ..net.connection_limits import ConnectionLimits, Pool
from ..net.listener import Listener, SocketOptions
from ..runtime.supervisor import Report, Supervisor

CONNECTIONS_LIMIT = 256
PREFIX = "warren-"  # of the folders of nodes in memory
ROOT = 0
CREDENTIALS = struct.Struct("3i")  # of Linux: pid, uid, gid


class LocalServer(Protocol):
    """The server at the socket."""

    async def close(self) -> None: ...


class LocalListener(Listener):
    """A listening unix socket that accepts connections of the node's own user and of root."""

    def __init__(self, listening: socket.socket, report: Report, supervisor: Supervisor) -> None:
        pool = Pool("at the unix socket", CONNECTIONS_LIMIT, CONNECTIONS_LIMIT)
        super().__init__(SocketOptions(), report, supervisor, ConnectionLimits(CONNECTIONS_LIMIT, report), pool=pool)
        listening.setblocking(False)
        self.sockets.append(listening)

    def _admit(self, accepted: socket.socket, address: tuple[object, ...]) -> None:
        if peer_uid(accepted) in (os.geteuid(), ROOT):
            super()._admit(accepted, address)
        else:
            accepted.close()


class LocalSocket:
    """The socket of a node, open from `open` to `close`.

    It is in the data folder, or in a new folder for a node in memory. `serve` starts a server at a listener, or returns
    None if no service serves the socket.
    """

    def __init__(
        self,
        config: Config,
        report: Report,
        supervisor: Supervisor,
        serve: Callable[[Listener], LocalServer | None],
    ) -> None:
        self._config = config
        self._report = report
        self._supervisor = supervisor
        self._serve = serve
        self._folder: Path | None = None
        self._unlock: Callable[[], None] = nothing  # releases the lock on the folder of a node in memory
        self._server: LocalServer | None = None

    def open(self) -> dict[str, list[str]]:
        """Open and serve the socket, and return its path for the event `ready`. A node runs without it on failure."""
        config = self._config
        try:
            folder = self._new_folder() if config.memory else Path(config.data_dir)
            listening = bind(folder)
        except OSError as error:
            self._report("no_control_socket", "warning", {"reason": error.strerror or str(error)})
            return {}
        self._folder = folder
        listener = LocalListener(listening, self._report, self._supervisor)
        self._server = self._serve(listener)
        if self._server is None:
            listener.close()
            self.unlink()
            return {}
        return {"control": [str(folder / NAME)]}

    def _new_folder(self) -> Path:
        """Return a new folder, which is locked until `unlink`. Raises OSError."""
        remove_stale(Path(gettempdir()))
        folder = Path(mkdtemp(prefix=PREFIX))
        locked = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._unlock = partial(os.close, locked)
        fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return folder

    def unlink(self) -> None:
        """Remove the path while the folder is still locked by this node; connections stay."""
        folder, self._folder = self._folder, None
        if folder is not None:
            (folder / NAME).unlink(missing_ok=True)
            if self._config.memory:
                folder.rmdir()
            self._unlock()

    async def close(self) -> None:
        """Close the connections, by which clients notice the end of the node."""
        self.unlink()
        if self._server is not None:
            await self._server.close()
            self._server = None


def nothing() -> None:
    """Release nothing: the lock on a data folder is not this one."""


def remove_stale(folder: Path) -> None:
    """Remove the folders, below this one, of nodes in memory that were killed: nobody locks them any more."""
    for path in folder.glob(f"{PREFIX}*/{NAME}"):
        with suppress(OSError), ExitStack() as undo:
            locked = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            undo.callback(os.close, locked)
            if path.stat().st_uid != os.geteuid():
                continue
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_refused(path):  # a program that locks nothing may listen there
                path.unlink()
                path.parent.rmdir()


def is_refused(path: Path) -> bool:
    """Return whether nobody listens at the socket. Raises OSError if that is unknown, or its queue is full."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connecting:
        connecting.setblocking(False)
        try:
            connecting.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False


def peer_uid(accepted: socket.socket) -> int:
    """Return the user id of the process at the other end, or -1 if the system does not report it."""
    try:
        credentials = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    except OSError:
        return -1
    uid: int = CREDENTIALS.unpack(credentials)[1]
    return uid


def bind(folder: Path) -> socket.socket:
    """Return a listening socket in the folder, for this user alone. Raises OSError.

    It replaces the socket of a killed node: the folder is locked, so no other process listens in it.
    """
    (folder / NAME).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # so that it has this mode from the start
    try:
        with address_in(folder) as name:
            listening.bind(name)
        listening.listen()
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(mask)
    return listening
