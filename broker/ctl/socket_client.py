"""The command line's end of the control socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ..control import place

Frame = dict[str, object]
ANY_NODE = "rabbit@localhost"  # by which every node goes


class Unreachable(Exception):
    """There is no node at the socket, or not any more; the text is one line."""


class Remote(Protocol):
    """A node that can be asked. `name` is what it calls itself."""

    name: str

    def ask(self, request: Frame) -> Iterator[Frame]:
        """All frames of the answer, the last one too. Raises Unreachable, TimeoutError."""
        ...

    def wait_for_end(self) -> None:
        """Of the node. Raises TimeoutError."""

    def close(self) -> None: ...


class RemoteNode:
    """A node at its control socket, connected to."""

    def __init__(self, folder: Path, timeout_s: float | None) -> None:
        """Raises Unreachable, TimeoutError."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._stream = self._socket.makefile("rb")
        try:
            self._connect(folder)
            self.name = str(self._read().get("node", ""))
        except (Unreachable, TimeoutError):
            self.close()
            raise

    def _connect(self, folder: Path) -> None:
        try:
            with place.address(folder) as address:
                self._socket.connect(address)
        except TimeoutError:
            raise
        except OSError as error:
            raise Unreachable(f"{(folder / place.NAME).absolute()}: {error.strerror or error}") from None

    def ask(self, request: Frame) -> Iterator[Frame]:
        """All frames of the answer, the last one too. Raises Unreachable, TimeoutError."""
        try:
            self._socket.sendall(place.framed(request))
        except TimeoutError:
            raise
        except OSError as error:
            raise Unreachable(error.strerror or str(error)) from None
        while True:
            frame = self._read()
            yield frame
            if "end" in frame or "error" in frame:
                return

    def wait_for_end(self) -> None:
        """Of the node. Raises TimeoutError."""
        try:
            self._stream.read(1)
        except TimeoutError:
            raise
        except OSError:
            return

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _read(self) -> Frame:
        try:
            (size,) = place.LENGTH.unpack(self._exactly(place.LENGTH.size))
            frame = json.loads(self._exactly(size))
        except TimeoutError:
            raise
        except OSError as error:
            raise Unreachable(error.strerror or str(error)) from None
        assert isinstance(frame, dict)
        return frame

    def _exactly(self, size: int) -> bytes:
        octets = self._stream.read(size)
        if len(octets) < size:
            raise Unreachable("the node has gone")
        return octets
