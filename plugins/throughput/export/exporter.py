"""The exporter: sends the log of messages, snapshots of queues and metrics of one run of the broker to the writer."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

import msgspec

from warren.broker.config import Throughput
from warren.broker.core.metadata.records import Change, StoredVHost
from warren.broker.core.queues.message_log import MessageLog
from warren.broker.core.vhost.observer import Observer
from warren.broker.plugin import Child, Host

from ..file_format import schema
from . import broker_metrics
from .message_recorder import MessageRecorder
from .pipe_format import BATCH, BOOT, ROWS
from .record_buffer import RecordBuffer
from .snapshots import SLICE, Changed, ChangeLog, Snapshot, Snapshots
from .writer_process import Outlet

FLUSH_S = 0.1  # the longest time before records are sent to the writer
LOOK_S = 1.0  # between two samples of the queues' utilisation


class Export(Observer):
    """The export of one run: `begin` attaches the log to the virtual hosts, `end` detaches it and awaits the writer."""

    def __init__(self, host: Host, config: Throughput, resumed: bool = False) -> None:
        """`resumed`: this process has exported before."""
        self._resumed = resumed
        self._host = host
        self._config = config
        self._directory = Path(config.directory).absolute()
        self.boot_id = secrets.token_hex(6)
        self._buffer = RecordBuffer(config.buffer_bytes, self._soon)
        changed = Changed()
        self._recorder = MessageRecorder(self._buffer, config.sample_one_in, bool(config.headers), changed)
        self._log: MessageLog = ChangeLog(changed)  # the log of each exported virtual host
        stored = not host.config.memory
        self._snapshots = Snapshots(host.node, self._buffer, self._sample_rate, changed, stored)
        self._outlet = Outlet(host.report, host.supervisor, self._ended)
        self._tasks: list[Child] = []
        self._flushing: asyncio.Handle | None = None
        self._running = False
        self._failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def _sample_rate(self) -> float:
        return 1 / self._config.sample_one_in

    def status(self) -> dict[str, object]:
        return {
            "running": self._running,
            "boot_id": self.boot_id,
            "directory": str(self._directory),
            "records": self._buffer.row,
            "lost_records": self._buffer.lost,
            "waiting_bytes": self._outlet.waiting_bytes,
        }

    def prepare(self) -> None:
        """Make the folders. Raises OSError."""
        for table in schema.TABLES:
            folder = self._directory / table
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise OSError(f"{folder} cannot be written to")

    async def begin(self) -> None:
        """Start the writer and attach the log. Raises OSError."""
        config, node = self._config, self._host.node
        await self._outlet.start()
        self._running = True
        self._attach_all()
        node.observers.add(self, self._snapshots)
        await self._prepare_snapshot()
        # Nothing else runs between attaching the recorder and the first snapshot, so they agree exactly.
        self._log = self._recorder
        self._attach_all()
        task = {
            "node": node.name,
            "boot_id": self.boot_id,
            "begun_ns": self._recorder.begun_ns,
            "sample_rate": self._sample_rate,
            "headers": config.headers,
            "directory": str(self._directory),
            "file_bytes": config.file_bytes,
            "file_age_s": config.file_age_s,
            "retention_days": config.retention_days,
            "resumed": self._resumed,
            "vhosts": config.vhosts,
        }
        self._outlet.send(BOOT, [msgspec.json.encode(task)])
        snapshot = self._snapshots.take(schema.START)
        self._send_metrics()
        await self._send_snapshot(snapshot)
        keep = self._host.supervisor.keep
        self._tasks = [
            keep("throughput_flush", self._flush_often),
            keep("throughput_snapshots", self._look_often),
        ]

    def configured(self, change: Change) -> None:
        if change.put and isinstance(change.record, StoredVHost):
            self._attach(change.record.name)

    def _attach_all(self) -> None:
        for name in self._host.node.vhosts:
            self._attach(name)

    def _attach(self, name: str) -> None:
        if self._running and (not self._config.vhosts or name in self._config.vhosts):
            self._host.node.vhosts[name].message_log = self._log

    # Sending

    def _soon(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = None
        pieces = self._buffer.take()
        if pieces:
            self._outlet.send(BATCH, pieces)
        self._buffer.waiting_bytes = self._outlet.waiting_bytes

    async def _flush_often(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            self._flush()

    async def _look_often(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(LOOK_S)
            queues = self._snapshots.queues()
            while queues:
                self._snapshots.utilisation.look(queues[-SLICE:])
                del queues[-SLICE:]
                await asyncio.sleep(0)
            looks += 1
            behind = self._outlet.waiting_bytes > self._config.buffer_bytes
            if looks % schema.SNAPSHOT_S == 0 and not behind:  # a writer that is behind gets no snapshots
                await self._prepare_snapshot()
                snapshot = self._snapshots.take(schema.PERIODIC)
                self._flush()  # the records that it counts are sent before it
                await self._send_snapshot(snapshot)
                self._send_metrics()

    async def _prepare_snapshot(self) -> None:
        for _ in self._snapshots.prepare():
            await asyncio.sleep(0)

    async def _send_snapshot(self, snapshot: Snapshot) -> None:
        for rows in snapshot.slices():
            self._send(schema.QUEUE_STATS, rows)
            await asyncio.sleep(0)

    def _send_metrics(self) -> None:
        self._send(schema.METRICS, broker_metrics.rows(self._host, self._buffer.names.links()))

    def _send(self, table: str, rows: list[dict[str, object]]) -> None:
        if rows:
            self._outlet.send(ROWS, [msgspec.json.encode((table, rows))])

    # The end

    def _detach(self) -> None:
        self._running = False
        for vhost in self._host.node.vhosts.values():
            vhost.message_log = None
        for observer in (self, self._snapshots):
            if observer in self._host.node.observers:
                self._host.node.observers.remove(observer)
        for task in self._tasks:
            task.cancel()
        if self._flushing is not None:
            self._flushing.cancel()

    def _ended(self, status: int) -> None:
        """Stop recording, since the writer has ended by itself and records would only fill the memory."""
        self._detach()
        reason = f"the writer ended with status {status}"
        self._host.report("throughput_ended", "error", {"reason": reason})
        if not self._failure.done():
            self._failure.set_result(reason)

    @property
    def over(self) -> bool:
        """Whether the writer has ended by itself."""
        return self._failure.done()

    async def failed(self) -> str:
        """Wait until the writer ends by itself. Returns the reason."""
        return await asyncio.shield(self._failure)

    async def end(self) -> None:
        """End the export, and wait until all records are written."""
        if self._running:
            for task in self._tasks:
                task.cancel()  # none may prepare another snapshot
            await self._prepare_snapshot()
        if self._running:
            self._flush()
            snapshot = self._snapshots.take(schema.STOP)
            self._send_metrics()
            self._detach()
            await self._send_snapshot(snapshot)
        await self._outlet.stop()
