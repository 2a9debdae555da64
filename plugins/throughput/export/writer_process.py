"""The writer process and the pipe to it."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from warren.broker.runtime.supervisor import Supervisor

from .pipe_format import HEAD

MODULE = "warren.plugins.throughput.export.writer"
STOP_WAIT_S = 30.0  # for the writer to finish its files when the node stops

PRINTED = "throughput_writer_printed"  # the event of a line that is not a report of the writer
SHOWN_BYTES = 1000  # of such a line that are logged

Report = Callable[[str, str, dict[str, object]], None]


class Outlet:
    """The writer process and its pipe. `ended` is called with the exit status if it ends by itself."""

    def __init__(self, report: Report, supervisor: Supervisor, ended: Callable[[int], None]) -> None:
        self._report = report
        self._supervisor = supervisor
        self._ended = ended
        self._process: Process | None = None
        self._pipe: asyncio.StreamWriter | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Start the process; frames that are sent meanwhile wait. Raises OSError."""
        # The process imports the same modules as this one, whatever is in the current folder.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        arguments = ("-P", "-m", MODULE)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=PIPE, stdout=PIPE, stderr=None, env=environment
        )
        self._pipe = self._process.stdin
        self._watching = self._supervisor.run("throughput_writer", self._watch(self._process))

    async def _watch(self, process: Process) -> None:
        """Log what the writer prints until it ends; no line, however long, prevents that its end is noticed."""
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than asyncio's limit of 64 KiB, and dropped
                self._report(PRINTED, "warning", {"line": "a line of more than 64 KiB"})
                continue
            if not line:
                break
            self._log(line)
        status = await process.wait()
        if not self._stopping:
            self._ended(status)

    def _log(self, line: bytes) -> None:
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            event = str(fields.pop("event"))
        except (msgspec.DecodeError, KeyError):
            text = line[:SHOWN_BYTES].decode("utf-8", "backslashreplace").rstrip("\n")
            self._report(PRINTED, "warning", {"line": text})
            return
        self._report(event, "warning" if fields else "debug", fields)

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes that the writer has not read yet."""
        return self._pipe.transport.get_write_buffer_size() if self._pipe is not None else 0

    def send(self, what: int, pieces: Iterable[bytes | bytearray]) -> None:
        """Send a frame (`pipe_format`)."""
        if self._pipe is None or self._pipe.is_closing():
            return
        given = list(pieces)
        self._pipe.write(b"".join([HEAD.pack(what, sum(map(len, given))), *given]))

    async def stop(self) -> None:
        """Close the pipe and wait until the writer has written everything, for STOP_WAIT_S at most."""
        self._stopping = True
        if self._pipe is not None:
            self._pipe.close()
        if self._watching is None or self._process is None:
            return
        done, _ = await asyncio.wait([self._watching], timeout=STOP_WAIT_S)
        if not done:
            self._process.kill()
            self._report("throughput_not_written", "error", {"reason": "the writer did not end in time"})
            await self._watching
