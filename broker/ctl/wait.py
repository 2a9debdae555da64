"""`wait` and `await_startup`: until a node has started; the former for as long as its process lives."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .command import ANY_NODE, Request
from .command_line import complaint
from .exit_status import UNAVAILABLE_STATUS, USAGE_STATUS, Failed, Unreachable

if TYPE_CHECKING:
    from .node import Node

POLL_S = 0.1  # between attempts
APPLICATIONS = "applications 'rabbit_and_plugins'"  # as scripts look for it


class Waiting:
    """`until` is when it has been long enough, by the monotonic clock; None is never."""

    def __init__(self, request: Request, line: list[str], timeout_s: float | None, say: Callable[[str], None]) -> None:
        self._request = request
        self._line = line
        self._until = time.monotonic() + timeout_s if timeout_s is not None else None
        self._say = say

    def connected(self, connect: Callable[[], Node]) -> Node:
        """Raises Failed, TimeoutError."""
        if self._request.command == "await_startup":
            return self._connected(connect, lambda: True)
        pid = self._pid()
        node = self._request.option("node", ANY_NODE)
        self._say(f"Waiting for erlang distribution on node '{node}' while OS process '{pid}' is running")
        remote = self._connected(connect, lambda: is_running(pid))
        self._say(f"Waiting for {APPLICATIONS} to start on node '{remote.name}'")
        self._say(f"{APPLICATIONS.capitalize()} are running on node '{remote.name}'")
        return remote

    def _connected(self, connect: Callable[[], Node], alive: Callable[[], bool]) -> Node:
        while alive():
            try:
                return connect()
            except Unreachable:
                self._pause()
        raise Failed(UNAVAILABLE_STATUS, "Error:\nprocess_not_running")

    def _pid(self) -> int:
        """Raises Failed, TimeoutError."""
        given = self._request.options.get("pid")
        if given is not None and self._request.arguments:
            raise self._wrong('"Cannot specify both pid and pidfile"')
        if given is not None:
            return self._number(str(given))
        if not self._request.arguments:
            raise self._wrong('"No pid or pidfile specified"')
        file = Path(self._request.arguments[0])
        self._say(f"Waiting for pid file '{file}' to appear")
        while True:
            try:
                text = file.read_text(encoding="ascii", errors="replace").strip()
            except FileNotFoundError:
                text = ""
            except OSError as error:
                raise Failed(UNAVAILABLE_STATUS, f"Error:\ncannot read {file}: {error.strerror}") from None
            if text:
                pid = self._number(text)
                self._say(f"pid is {pid}")
                return pid
            self._pause()

    def _pause(self) -> None:
        """Raises TimeoutError."""
        if self._until is not None and time.monotonic() > self._until:
            raise TimeoutError
        time.sleep(POLL_S)

    def _number(self, text: str) -> int:
        """Of a process. Raises Failed."""
        if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
            raise self._wrong(f"Invalid options for this command:\n--pid : {text}")
        return int(text)

    def _wrong(self, text: str) -> Failed:
        from .catalogue import COMMANDS

        return Failed(USAGE_STATUS, complaint(text, self._line, COMMANDS[self._request.command]))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's, and there
        return True
    return True
