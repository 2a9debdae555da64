"""`wait` and `await_startup`: retry until the node has started; `wait` also gives up when its process ends."""

import math
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..system_errors import file_error, read_text
from .call import Call
from .command import ANY_NODE
from .errors import DATA, UNAVAILABLE, USAGE, CommandError, ExitError, Unreachable

POLL_S = 0.1  # between attempts
APPLICATIONS = "applications 'rabbit_and_plugins'"  # the text that scripts search for


def connect_when_started(
    call: Call, timeout_s: float | None, print_line: Callable[[str], None], connect: Callable[[], None]
) -> None:
    """Connect once the node answers. Raises CommandError (64), ExitError, TimeoutError."""
    until_s = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
    pid = None
    if call.command == "wait":
        pid = pid_of(call, until_s, print_line)
        node = call.text("node", ANY_NODE)
        print_line(f"Waiting for erlang distribution on node '{node}' while OS process '{pid}' is running")
    while not call.node:
        if pid is not None and not is_running(pid):
            raise ExitError(UNAVAILABLE, "Error:\nprocess_not_running")
        try:
            connect()
        except Unreachable:
            pause(until_s)
    if pid is not None:
        print_line(f"Waiting for {APPLICATIONS} to start on node '{call.node}'")
        print_line(f"{APPLICATIONS.capitalize()} are running on node '{call.node}'")


def pid_of(call: Call, until_s: float, print_line: Callable[[str], None]) -> int:
    """Return the process id of --pid or the pid file, once it exists. Raises CommandError, ExitError, TimeoutError."""
    given, files = "pid" in call.options, call.arguments
    if given == bool(files):
        text = "Cannot specify both pid and pidfile" if given else "No pid or pidfile specified"
        raise CommandError(USAGE, f'"{text}"', argument=True)
    text = call.text("pid")
    if files:
        print_line(f"Waiting for pid file '{Path(files[0])}' to appear")
        while not (text := text_in(Path(files[0]))):
            pause(until_s)
    pid = process_id(text)
    if pid is None:
        raise CommandError(USAGE, f"Invalid options for this command:\n--pid : {text}", argument=True)
    if files:
        print_line(f"pid is {pid}")
    return pid


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
    until_s = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
    while is_running(pid):
        pause(until_s)


def pause(until_s: float) -> None:
    """Raises TimeoutError after `until_s`."""
    if time.monotonic() > until_s:
        raise TimeoutError
    time.sleep(POLL_S)


def is_running(pid: int) -> bool:
    """Whether a process runs; one whose threads have all ended does not, even if its parent has not waited for it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):  # not Linux, or a seccomp filter
        return exists(pid)
    try:
        watched = select.poll()
        watched.register(descriptor, select.POLLIN)
        return not watched.poll(0)
    finally:
        os.close(descriptor)


def exists(pid: int) -> bool:
    try:
        with suppress(PermissionError):  # the process exists and belongs to another user
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
