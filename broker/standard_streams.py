"""The standard output and the standard error of a command.

What cannot be printed is no error of the files that a command reads, and no result such as the verdict of
`warren doctor`: it ends the command in its own way, whatever else the command handles.
"""

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from select import select
from typing import Any, TextIO

from .system_errors import file_error

UNWRITTEN_STATUS = 74  # EX_IOERR of sysexits.h
INTERRUPTED_STATUS = 130  # as a shell reports a program that SIGINT has ended
BROKEN_PIPE_STATUS = 141  # as a shell reports a program that SIGPIPE has ended


class OutputError(Exception):
    """The standard output cannot be written. It is no OSError, which commands report for their files."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(file_error(cause, "standard output"))
        self.is_closed = cause.errno == errno.EPIPE  # by its reader, as `head` does


class Output(io.FileIO):
    """The standard output. What is left when a signal or an error ends a write is lost: perhaps nobody reads it."""

    _ended = False

    def write(self, data: Any) -> int:
        """Write what there is room for; wait if there is none. Raises OutputError."""
        if self._ended:
            return memoryview(data).nbytes
        try:
            written: int | None = super().write(data)
            while written is None:  # a program that has the same output has made it non-blocking
                select([], [self], [])
                written = super().write(data)
            return written
        except OSError as error:
            self._ended = True
            raise OutputError(error) from None
        except (KeyboardInterrupt, SystemExit):
            self._ended = True
            raise


class Messages(io.FileIO):
    """The standard error. What cannot be written is lost: the exit status says the same.

    So is what there is no room for, if it is non-blocking: the log of a broker waits for no reader.
    """

    def write(self, data: Any) -> int:
        written: int | None = None
        with suppress(OSError):
            written = super().write(data)
        return memoryview(data).nbytes if written is None else written


def run(program: str, command: Callable[[], int]) -> int:
    """Run a command and return its exit status, or that of an output that cannot be written."""
    with redirect_stdout(opened(sys.stdout, Output)), redirect_stderr(opened(sys.stderr, Messages)):
        try:
            try:
                return command()
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            return INTERRUPTED_STATUS
        except OutputError as error:
            if error.is_closed:
                return BROKEN_PIPE_STATUS
            print(f"{program}: {error}", file=sys.stderr)
            return UNWRITTEN_STATUS


def is_output(path: str) -> bool:
    """Whether a path is that of the standard output: `-`, or one that leads there, such as /dev/stdout."""
    if path == "-":
        return True
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except OSError:  # also if the standard output is a buffer in memory
        return False


def printable(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])


def opened(stream: TextIO | None, kind: type[io.FileIO]) -> TextIO:
    """Return a stream to the same descriptor; None is one that was closed before the start, and cannot be written."""
    if stream is None:
        closed = os.open(os.devnull, os.O_RDONLY)
        return io.TextIOWrapper(io.BufferedWriter(kind(closed, "w", closefd=False)), line_buffering=True)
    try:
        raw = kind(stream.fileno(), "w", closefd=False)
    except io.UnsupportedOperation:  # a buffer in memory, as tests have
        return stream
    assert isinstance(stream, io.TextIOWrapper)
    stream.flush()
    by_line = stream.line_buffering or stream.write_through  # the latter with PYTHONUNBUFFERED
    # Names of any language are printed to an output without their letters, such as one of ASCII.
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=by_line)
