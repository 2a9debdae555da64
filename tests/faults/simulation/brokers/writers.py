"""The writer processes of the exports of a world: the real writer, without a process, at the end of a simulated pipe.

The files are real ones in a temporary folder. A writer can be killed between two frames, or at a sync of a file, which
may also fail as on a full disk. One whose broker was killed reads what is in the pipe and finishes its files.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from tests.faults.simulation.brokers.loop import SimulatedLoop, Source, VirtualTime
from tests.faults.simulation.disk import Stopped
from warren.broker.config.config import MessageLogExport
from warren.plugins.message_log.export import writer as program

if TYPE_CHECKING:
    from tests.faults.simulation.brokers.broker import Broker

PIPE_BYTES = 1 << 16  # that the system holds of a pipe
START_S = 0.05  # the longest start of a process
KILLED = -9
MEMORY = "/dev/shm"  # a file system without a disk, on Linux


class Exports:
    """The exports of all brokers of a world, drawn from the seed.

    writers   all processes so far, in the order of their starts
    pause_s   the longest time between two reads of a writer
    full      the disk of the exports has no room; `filled`: at any time
    """

    def __init__(self, random: Random, time: VirtualTime, trace: Callable[[str], None]) -> None:
        self.random = random
        self.time = time
        self.trace = trace
        self.writers: list[WriterProcess] = []
        self.sample_one_in = random.choice((1, 1, 1, 1, 3))
        self.buffer_bytes = random.choice((64 << 20, 64 << 20, 64 << 20, 1 << 13))
        self.pause_s = random.choice((0.01, 0.01, 0.01, 3.0))
        self.file_age_s = random.choice((2, 300, 300))
        self.full = self.filled = False
        self._syncs_left: int | None = None  # before a writer is killed at one
        self._turn: WriterProcess | None = None  # the writer that works

    @property
    def prompt(self) -> bool:
        """Whether writers read at once what brokers send, and have room for it."""
        return self.pause_s < START_S and self.buffer_bytes > PIPE_BYTES

    def config(self) -> MessageLogExport:
        return MessageLogExport(
            enabled=True,
            directory=self.folder.as_posix(),
            buffer_bytes=self.buffer_bytes,
            sample_one_in=self.sample_one_in,
            file_age_s=self.file_age_s,
        )

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Context in which the writers work, and ids of boots follow from the seed."""
        before = program.report, os.fsync, secrets.token_hex
        with TemporaryDirectory(prefix="warren-exports-", dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
            self.folder = Path(folder)
            program.report, os.fsync = self._report, self._sync  # type: ignore[assignment]
            secrets.token_hex = lambda count=None: f"{self.random.getrandbits(48):012x}"
            try:
                yield
            finally:
                program.report, os.fsync, secrets.token_hex = before
                for writer in self.writers:
                    writer.die()

    @contextmanager
    def turn(self, writer: WriterProcess) -> Iterator[None]:
        """Context in which a writer works. Raises Stopped if it is killed."""
        self._turn = writer
        try:
            yield
        finally:
            self._turn = None

    def _report(self, event: str, **fields: object) -> None:
        assert self._turn is not None
        self._turn.say(event, fields)

    def _sync(self, file: int) -> None:
        if self._turn is None:  # a broker notes its boot in its data folder, on another disk
            return
        if self._syncs_left is not None:
            self._syncs_left -= 1
            if self._syncs_left < 0:
                self._syncs_left = None
                raise Stopped
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(self) -> None:
        self.full = self.filled = True

    def heal(self) -> None:
        self.full, self._syncs_left = False, None

    def kill_later(self, syncs: int) -> None:
        """Kill a writer at a later sync of a file."""
        self._syncs_left = syncs

    def of(self, broker: Broker) -> list[WriterProcess]:
        """Return the writers of a broker that run."""
        return [writer for writer in self.writers if writer.broker is broker and writer.returncode is None]


class Pipe(asyncio.WriteTransport):
    """The broker's end of the pipe. `sent` is in the pipe, `waiting` in the broker's memory."""

    def __init__(self, loop: SimulatedLoop, lost: Callable[[Exception | None], None]) -> None:
        super().__init__()
        self.sent = bytearray()
        self.waiting = bytearray()
        self.closed = False
        self._loop = loop
        self._lost = lost

    def write(self, data: Any) -> None:
        if not self.closed and not self._loop.dead:
            self.waiting += data
            self.flow()

    def flow(self) -> None:
        """Move what the pipe has room for from the broker's memory."""
        count = max(0, PIPE_BYTES - len(self.sent))
        self.sent += self.waiting[:count]
        del self.waiting[:count]

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class WriterProcess(asyncio.SubprocessTransport, Source):
    """A writer process, and the broker's view of it.

    returncode  None while it runs
    boot_id     known after its first frame
    process     the loop of the broker's process
    killed      it has not finished its files
    """

    def __init__(self, exports: Exports, broker: Broker, loop: SimulatedLoop, protocol: Any) -> None:
        super().__init__()
        self.broker = broker
        self.returncode: int | None = None
        self.boot_id = ""
        self.process = loop
        self.killed = False
        self._exports = exports
        self._loop = loop
        self._protocol = protocol
        self._pipe = Pipe(loop, self._pipe_lost)
        self._output = asyncio.ReadTransport()
        self._gathered = bytearray()
        self._writer: program.Writer | None = None
        self._free_s = exports.time.now_s
        self._look_s = inf
        self._waiters: list[asyncio.Future[int]] = []
        exports.writers.append(self)
        loop.sources.append(self)
        protocol.connection_made(self)

    # Of the broker

    def get_pid(self) -> int:
        return 0

    def get_pipe_transport(self, fd: int) -> Any:
        return {0: self._pipe, 1: self._output}.get(fd)

    def get_returncode(self) -> int | None:
        return self.returncode

    def close(self) -> None: ...

    def kill(self) -> None:
        self.end(KILLED)

    async def _wait(self) -> int:
        if self.returncode is None:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            return await waiter
        return self.returncode

    def say(self, event: str, fields: dict[str, object]) -> None:
        """Print a report."""
        line = msgspec.json.encode({"event": event} | fields) + b"\n"
        if not self._loop.dead:
            self._loop.call_soon(self._protocol.pipe_data_received, 1, line)

    def _pipe_lost(self, error: Exception | None) -> None:
        self._protocol.pipe_connection_lost(0, error)

    # The process

    @property
    def due_s(self) -> float:
        if self._pipe.sent or self._pipe.closed:
            return self._free_s if self._free_s < self._look_s else self._look_s
        return self._look_s

    def run(self) -> None:
        """Read from the pipe, or look at the age of files."""
        now_s = self._exports.time.now_s
        if self.returncode is not None or self.due_s > now_s:
            return
        with self._working():
            if self._look_s <= now_s and self._writer is not None:
                self._look_s = now_s + program.LOOK_S
                self._writer.look()
            if self._free_s > now_s:
                return
            self._free_s = now_s + self._exports.pause_s * self._exports.random.random() ** 3
            self._read()
            self._pipe.flow()
            if self._pipe.closed and not self._pipe.sent and self._finish():
                self.end(0)

    def finish(self) -> bool:
        """Read what a killed broker has left in the pipe, and finish all files. Returns False if that is to wait."""
        self._exports.time.wall_s = self.broker.wall_s
        if self.returncode is not None:
            return True
        with self._working():
            while self._pipe.sent:
                self._read()
            if not self._finish():
                return False
            self.end(0)
        return True

    @contextmanager
    def _working(self) -> Iterator[None]:
        try:
            with self._exports.turn(self):
                yield
        except Stopped:
            self.end(KILLED)

    def _read(self) -> None:
        self._gathered += self._pipe.sent
        self._pipe.sent.clear()
        for frame in program.take_frames(self._gathered):
            if self._writer is not None:
                self._writer.take(*frame)
                continue
            self._writer = program.begin(*frame)
            self.boot_id = self._writer.task.boot_id
            self._look_s = self._exports.time.now_s + program.LOOK_S

    def _finish(self) -> bool:
        if self._writer is None:
            return True
        if self._writer.lock():
            self._writer.end()
            return True
        self._free_s = self._exports.time.now_s + program.LOCK_LOOK_S
        return False

    def end(self, status: int) -> None:
        """End the process, and let the broker know."""
        if self.returncode is not None:
            return
        self.killed = status != 0
        self._exports.trace(f"the writer of {self.broker.name} has ended with {status}")
        self.die(status)
        if not self._loop.dead:
            lost = BrokenPipeError() if self._pipe.waiting else None
            for function, *arguments in (
                (self._pipe_lost, lost), (self._protocol.pipe_connection_lost, 1, None),
                (self._protocol.process_exited,), *((each.set_result, status) for each in self._waiters),
            ):  # fmt: skip
                self._loop.call_soon(function, *arguments)

    def die(self, status: int = KILLED) -> None:
        """End the process at once, and close its files as the system does."""
        if self.returncode is not None:
            return
        self.returncode = status
        if self in self._loop.sources:
            self._loop.sources.remove(self)
        if self._writer is None:
            return
        part = self._writer._part
        if part is not None:
            part._file.abandoned = True
            with contextlib.suppress(OSError, pa.ArrowException):
                part._writer.close()
            part._file.close()
        self._writer._state.close()

    def leave(self) -> None:
        """The broker was killed: nothing that it has not sent arrives."""
        self._pipe.closed = True
        self._pipe.waiting.clear()
        if self in self._loop.sources:
            self._loop.sources.remove(self)
