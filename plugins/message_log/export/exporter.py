"""The exporter: sends the log of messages, snapshots of queues and metrics of one run of the broker to the writer."""

import asyncio
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from warren.broker.config import MessageLogExport
from warren.broker.core.metadata.records import Change, StoredVHost
from warren.broker.core.queues.traffic_log import TrafficLog
from warren.broker.core.vhost.observer import Observer
from warren.broker.plugin import Child, Host

from ..file_format import schema
from . import broker_metrics
from .message_recorder import MessageRecorder
from .node_state import LastExport, last_export
from .pipe_format import BATCH, BOOT, METRICS, SNAPSHOT
from .record_buffer import RecordBuffer
from .snapshots import SLICE, ChangedQueues, ChangeLog, Snapshot, Snapshots
from .writer_process import Outlet, WriterEnded

FLUSH_S = 0.1  # the longest time before records are sent to the writer
LOOK_S = 1.0  # between two samples of the queues' utilisation


class Export(Observer):
    """The export of one run: `begin` attaches the log to the virtual hosts, `end` detaches it and awaits the writer.

    A writer that ends by itself is started again, and continues the same boot. Records wait in the buffer meanwhile.
    The records that the writer had received and not finished are lost, and counted.
    """

    def __init__(self, host: Host, config: MessageLogExport, resumed: bool = False) -> None:
        """`resumed` is true if this process has exported before: queues may have messages from the time between."""
        self._resumed = resumed
        self._host = host
        self._config = config
        self._directory = Path(config.directory).absolute()
        self.boot_id = secrets.token_hex(6)
        self._buffer = RecordBuffer(config.buffer_bytes, self._soon)
        changed = ChangedQueues()
        self._recorder = MessageRecorder(self._buffer, config.sample_one_in, bool(config.headers), changed)
        self._log: TrafficLog = ChangeLog(changed)  # the log of each exported virtual host
        stored = not host.config.memory
        self._snapshots = Snapshots(host.node, self._buffer, self._sample_rate, changed, stored)
        self._outlet = Outlet(host.report, host.supervisor)
        self._connected = False  # a writer takes records
        self._restarts = 0
        self._first_frames: list[list[bytes | bytearray]] = []  # the first snapshot, until it is in a file
        self._last = last_export(host.data_directory, str(self._directory), host.node.name)
        self._looks = 0
        self._tasks: list[Child] = []
        self._flushing: asyncio.Handle | None = None
        self._running = False

    @property
    def _sample_rate(self) -> float:
        return 1 / self._config.sample_one_in

    def status(self) -> dict[str, object]:
        return {
            "running": self._running,
            "boot_id": self.boot_id,
            "directory": str(self._directory),
            "records": self._buffer.row,
            "lost_records": self._buffer.lost + self._outlet.lost_records,
            "waiting_bytes": self._outlet.waiting_bytes,
            "writer_restarts": self._restarts,
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
        await self._outlet.start()
        self._note()
        self._connected = self._running = True
        self._attach_all()
        self._host.node.observers.add(self, self._snapshots)
        await self._prepare_snapshot()
        # Nothing else runs between attaching the recorder and the first snapshot, so they agree exactly.
        self._log = self._recorder
        self._attach_all()
        self._send_boot(False)
        snapshot = self._snapshots.take(schema.START)
        await self._send_snapshot(snapshot, self._first_frames)
        await self._send_metrics()
        keep = self._host.supervisor.keep
        self._tasks = [
            keep("message_log_flush", self._flush_often),
            keep("message_log_snapshots", self._look_often),
            keep("message_log_export", self._keep_writer),
        ]

    def _send_boot(self, continued: bool) -> None:
        """Send the first frame of a writer."""
        config = self._config
        task = {
            "node": self._host.node.name,
            "boot_id": self.boot_id,
            "begun_ns": self._recorder.begun_ns,
            "sample_rate": self._sample_rate,
            "headers": config.headers,
            "directory": str(self._directory),
            "file_bytes": config.file_bytes,
            "file_age_s": config.file_age_s,
            "retention_days": config.retention_days,
            "resumed": self._resumed,
            "vhosts": self._config.vhosts,
            "continued": continued,
            "recovery": self._host.node.journal.recovery,
            "exported": (self._last.boot_id, self._last.at_us) if self._last is not None else None,
        }
        self._outlet.send(BOOT, [msgspec.json.encode(task)])

    async def _keep_writer(self) -> None:
        """Start another writer if the last one has ended, and wait for its end.

        Raises WriterEnded, or OSError if none can be started; the supervisor then calls again, with growing delays.
        """
        if not self._connected:
            await self._resume()
        await self._outlet.ended()
        self._connected = False
        raise WriterEnded("the records that it had not finished are lost")

    async def _resume(self) -> None:
        """Start a writer that continues this boot. Raises OSError, WriterEnded."""
        await self._outlet.start()
        self._send_boot(True)
        ready = await self._outlet.ready()
        self._buffer.resume(ready.written)
        self._connected = True
        self._restarts += 1
        if not ready.started:
            for frame in self._first_frames:
                self._outlet.send(SNAPSHOT, frame)
        self._looks = -1  # the next look takes a snapshot
        fields = {"boot_id": self.boot_id, "lost_records": self._buffer.lost}
        self._host.report("message_log_restarted", "warning", fields)

    def configured(self, change: Change) -> None:
        if change.put and isinstance(change.record, StoredVHost):
            self._attach(change.record.name)

    def _attach_all(self) -> None:
        for name in self._host.node.vhosts:
            self._attach(name)

    def _attach(self, name: str) -> None:
        if self._running and (not self._config.vhosts or name in self._config.vhosts):
            self._host.node.vhosts[name].traffic_log = self._log

    # Sending

    def _soon(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = None
        if not self._outlet.connected:
            self._connected = False
        if not self._connected:
            return  # the records wait in the buffer
        pieces = self._buffer.take(self._host.node.journal.position().durable)
        if pieces:
            self._outlet.send(BATCH, pieces)
        self._buffer.waiting_bytes = self._outlet.waiting_bytes

    async def _flush_often(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            self._flush()

    async def _look_often(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            queues = self._snapshots.queues()
            while queues:
                self._snapshots.utilisation.look(queues[-SLICE:])
                del queues[-SLICE:]
                await asyncio.sleep(0)
            self._looks += 1
            if self._outlet.started:
                self._first_frames = []
            behind = self._outlet.waiting_bytes > self._config.buffer_bytes
            if self._connected and self._looks % schema.SNAPSHOT_S == 0 and not behind:
                await self._prepare_snapshot()
                snapshot = self._snapshots.take(schema.PERIODIC)
                self._flush()  # the records that it counts are sent before it
                await self._send_snapshot(snapshot)
                await self._send_metrics()

    def _note(self) -> None:
        """Note in the data folder that this boot exports: the next one thus knows if its files are lost."""
        directory, node, at_us = str(self._directory), self._host.node.name, time.time_ns() // 1000
        with suppress(OSError):  # the store says more about a folder that cannot be written to
            LastExport(directory, node, self.boot_id, at_us).save(self._host.data_directory)

    async def _prepare_snapshot(self) -> None:
        for _ in self._snapshots.prepare():
            await asyncio.sleep(0)

    async def _send_snapshot(self, snapshot: Snapshot, kept: list[list[bytes | bytearray]] | None = None) -> None:
        for frame in snapshot.frames():
            self._outlet.send(SNAPSHOT, frame)
            if kept is not None:
                kept.append(frame)
            await asyncio.sleep(0)

    async def _send_metrics(self) -> None:
        self._outlet.send(METRICS, [msgspec.json.encode(broker_metrics.rows(self._host))])
        federation = self._host.services.get(broker_metrics.FEDERATION)
        for rows in broker_metrics.link_rows(federation, self._buffer.links):
            if rows:
                self._outlet.send(METRICS, [msgspec.json.encode(rows)])
            await asyncio.sleep(0)

    # The end

    def _detach(self) -> None:
        self._running = False
        for vhost in self._host.node.vhosts.values():
            vhost.traffic_log = None
        for observer in (self, self._snapshots):
            if observer in self._host.node.observers:
                self._host.node.observers.remove(observer)
        for task in self._tasks:
            task.cancel()
        if self._flushing is not None:
            self._flushing.cancel()

    async def end(self) -> None:
        """End the export, and wait until all records are written."""
        if self._running:
            for task in self._tasks:
                task.cancel()  # so that no task prepares another snapshot
            for task in self._tasks:
                await task.ended()
            if not (self._connected and self._outlet.connected):
                try:
                    await self._outlet.kill()  # a writer that was not ready yet
                    await self._resume()
                except (OSError, WriterEnded) as error:
                    self._host.report("message_log_not_written", "error", {"reason": str(error)})
            await self._prepare_snapshot()
        if self._running:
            self._flush()
            snapshot = self._snapshots.take(schema.STOP)
            self._detach()
            await self._send_snapshot(snapshot)
            await self._send_metrics()
            self._note()
        await self._outlet.stop()
