"""The writer process and the pipe to it."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from warren.broker.runtime.supervisor import Supervisor

from .pipe_format import HEAD, NODE_TAKEN, NOT_WRITTEN, READY, STARTED

MODULE = "warren.plugins.message_log.export.writer"
STOP_WAIT_S = 30.0  # without progress, until a writer that should end is killed
READY_WAIT_S = 60.0  # the time for a writer that continues a boot to read the files

PRINTED = "message_log_writer_printed"  # the event of a line that is not a report of the writer
LEVELS = {READY: "debug", STARTED: "debug", NODE_TAKEN: "error"}  # of reports that are no warnings
SHOWN_BYTES = 1000  # the maximum of logged characters of such a line

Report = Callable[[str, str, dict[str, object]], None]


class WriterEnded(Exception):
    """An error: the process that writes the files has ended by itself."""


class Ready(msgspec.Struct):
    """The first report of a writer: the events of this boot in finished files, and whether its start is in one."""

    written: int
    started: bool


class Outlet:
    """The writer process and its pipe.

    `lost_records` is the number of records that this process has reported as not written; `started` is true once the
    first snapshot is in a file.
    """

    def __init__(self, report: Report, supervisor: Supervisor) -> None:
        self.lost_records = 0
        self.started = False
        self._report = report
        self._supervisor = supervisor
        self._process: Process | None = None
        self._pipe: asyncio.StreamWriter | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Start the process; frames that are sent meanwhile wait. Raises OSError."""
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self.lost_records = 0
        # The process imports the same modules as this one, whatever is in the current folder.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        arguments = ("-P", "-m", MODULE)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=PIPE, stdout=PIPE, stderr=None, env=environment
        )
        self._pipe = self._process.stdin
        self._watching = self._supervisor.run("message_log_writer", self._watch(self._process))

    async def _watch(self, process: Process) -> None:
        """Log the writer's output until it ends. Too long lines are dropped, so that its end is noticed."""
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
        self._pipe = None
        if not self._ready.done():
            self._ready.set_exception(WriterEnded("it ended before it was ready"))
            self._ready.exception()  # maybe no task waits for it
        if status or not self._stopping:
            self._report("message_log_ended", "error", {"reason": f"the writer ended with status {status}"})
        self._over.set()

    async def ready(self) -> Ready:
        """Wait for the writer's first report. Raises WriterEnded if the process ends before, or takes too long."""
        try:
            async with asyncio.timeout(READY_WAIT_S):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            await self.kill()
            raise WriterEnded("it was not ready in time") from None

    async def kill(self) -> None:
        """End the process, if it runs."""
        if self._process is not None and self._pipe is not None:
            self._process.kill()
            await self.ended()

    async def ended(self) -> None:
        """Wait until the process has ended."""
        await self._over.wait()

    @property
    def connected(self) -> bool:
        """Whether the process runs."""
        return self._pipe is not None

    def _log(self, line: bytes) -> None:
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            event = str(fields.pop("event"))
        except (msgspec.DecodeError, KeyError):
            text = line[:SHOWN_BYTES].decode("utf-8", "backslashreplace").rstrip("\n")
            self._report(PRINTED, "warning", {"line": text})
            return
        if event == READY and not self._ready.done():
            self._ready.set_result(msgspec.convert(fields, Ready))
            self.started = self._ready.result().started
        elif event == STARTED:
            self.started = True
        elif event == NOT_WRITTEN:
            self.lost_records += fields["records"]
        self._report(event, LEVELS.get(event, "warning"), fields)

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes that the writer has not read yet."""
        return self._pipe.transport.get_write_buffer_size() if self._pipe is not None else 0

    def send(self, what: int, pieces: Iterable[bytes | bytearray]) -> None:
        """Send a frame (`pipe_format`)."""
        if self._pipe is None or self._pipe.is_closing():
            return
        parts = list(pieces)
        self._pipe.write(b"".join([HEAD.pack(what, sum(map(len, parts))), *parts]))

    async def stop(self) -> None:
        """Close the pipe and wait until the writer has written everything, as long as it makes progress."""
        self._stopping = True
        if self._pipe is not None:
            self._pipe.close()
        if self._watching is None or self._process is None:
            return
        progress = self.waiting_bytes, processor_time(self._process.pid)
        while not (await asyncio.wait([self._watching], timeout=STOP_WAIT_S))[0]:
            before, progress = progress, (self.waiting_bytes, processor_time(self._process.pid))
            if progress == before:
                reason = "the writer made no progress at the end: what it had not finished is lost"
                self._report(NOT_WRITTEN, "error", {"reason": reason, "waiting_bytes": self.waiting_bytes})
                self._process.kill()
                await self._watching


def processor_time(pid: int) -> list[str]:
    """Return the processor time of a process, as the system counts it, or an empty list where it is not known."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return []
