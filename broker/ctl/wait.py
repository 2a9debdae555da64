"""`wait` and `await_startup`: retry until the node has started; `wait` also gives up when its process ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..system_errors import file_error, read_text
from .command import ANY_NODE
from .command_line import complaint
from .exit_status import DATA, UNAVAILABLE, USAGE, ExitError, Unreachable
from .request import Request

if TYPE_CHECKING:
    from .node import Node

POLL_S = 0.1  # between attempts
APPLICATIONS = "applications 'rabbit_and_plugins'"  # the text that scripts search for


class StartupWait:
    """Repeated attempts to connect, up to `timeout_s` seconds (None: forever)."""

    def __init__(
        self, request: Request, line: list[str], timeout_s: float | None, print_line: Callable[[str], None]
    ) -> None:
        self._request = request
        self._line = line
        self._until = time.monotonic() + timeout_s if timeout_s is not None else None
        self._print_line = print_line

    def connect(self, connect: Callable[[], Node]) -> Node:
        """Return the node once it answers. Raises ExitError, TimeoutError."""
        if self._request.command == "await_startup":
            return self._retry(connect, lambda: True)
        pid = self._pid()
        node = self._request.text("node", ANY_NODE)
        self._print_line(f"Waiting for erlang distribution on node '{node}' while OS process '{pid}' is running")
        remote = self._retry(connect, lambda: is_running(pid))
        self._print_line(f"Waiting for {APPLICATIONS} to start on node '{remote.name}'")
        self._print_line(f"{APPLICATIONS.capitalize()} are running on node '{remote.name}'")
        return remote

    def _retry(self, connect: Callable[[], Node], alive: Callable[[], bool]) -> Node:
        while alive():
            try:
                return connect()
            except Unreachable:
                self._pause()
        raise ExitError(UNAVAILABLE, "Error:\nprocess_not_running")

    def _pid(self) -> int:
        """Return the process id of --pid or the pid file, once it exists. Raises ExitError, TimeoutError."""
        given = self._request.options.get("pid")
        if given is not None and self._request.arguments:
            raise self._wrong('"Cannot specify both pid and pidfile"')
        if given is not None:
            return self._number(str(given))
        if not self._request.arguments:
            raise self._wrong('"No pid or pidfile specified"')
        file = Path(self._request.arguments[0])
        self._print_line(f"Waiting for pid file '{file}' to appear")
        while True:
            text = text_in(file)
            if text:
                pid = self._number(text)
                self._print_line(f"pid is {pid}")
                return pid
            self._pause()

    def _pause(self) -> None:
        """Raises TimeoutError."""
        if self._until is not None and time.monotonic() > self._until:
            raise TimeoutError
        time.sleep(POLL_S)

    def _number(self, text: str) -> int:
        """Return the text as a process id. Raises ExitError."""
        pid = process_id(text)
        if pid is None:
            raise self._wrong(f"Invalid options for this command:\n--pid : {text}")
        return pid

    def _wrong(self, text: str) -> ExitError:
        from .catalogue import COMMANDS

        return ExitError(USAGE, complaint(text, self._line, COMMANDS[self._request.command]))


def text_in(file: Path) -> str:
    """Return the text in a pid file, empty if it is not there. Raises ExitError."""
    try:
        return read_text(file, "ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ExitError(UNAVAILABLE, f"Error:\ncannot read {file_error(error, str(file))}") from None


def process_id(text: str) -> int | None:
    """Return the process id that a text is, or None."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 11 and 0 < int(text) < 1 << 31 else None


def pid_in(file: Path) -> int | None:
    """Return the process id in a pid file, or None if it is not there. Raises ExitError."""
    text = text_in(file)
    pid = process_id(text)
    if text and pid is None:
        raise ExitError(DATA, f"Error:\n{file} has no process id")
    return pid


def wait_for_exit(pid: int, timeout_s: float | None) -> None:
    """Wait until a process has ended. Raises TimeoutError."""
    until = time.monotonic() + timeout_s if timeout_s is not None else None
    while is_running(pid):
        if until is not None and time.monotonic() > until:
            raise TimeoutError
        time.sleep(POLL_S)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's, and there  # the process exists and belongs to another user
        return True
    return True
