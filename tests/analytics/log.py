"""A log as a broker exports it, made by a model of a broker, so that the right reports are known."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from warren.plugins.message_log.export.boot_files import describe_file
from warren.plugins.message_log.export.manifest import Manifest
from warren.plugins.message_log.export.node_state import BootEnd, Content, state_path
from warren.plugins.message_log.export.pipe_format import UNTIMED
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.file_format.arrow_schema import ARROW

START = datetime(2026, 11, 22, 5, 30, tzinfo=UTC)
STEP_US = 1_000  # the time between two events

Values = dict[str, Any]


def arrow_schema(table: str, lost: int = 0, version: int = schema.SCHEMA) -> pa.Schema:
    """Return the Arrow schema that the exporter uses."""
    fields = [pa.field(column.name, ARROW[column.type], column.optional) for column in schema.TABLES[table]]
    return pa.schema(fields, {schema.SCHEMA_KEY: str(version), schema.LOST_KEY: str(lost)})


class Log:
    """One boot of one broker. Its methods are events; `write` makes a file of each table.

    `follow` names the boot before it, if this is not the first one. `ready` and `unacked` have the messages by queue;
    `counts` are the numbers of events. Each event is stored in a batch of its own.
    """

    def __init__(self, folder: Path, node: str = "rabbit@a", boot_id: str = "b1", start: datetime = START) -> None:
        self.folder = folder
        self.node = node
        self.boot_id = boot_id
        self.start = start
        self.vhost = "/"
        self.user = "guest"
        self.connection: str | None = None
        self.sample_rate = 1.0
        self.lost = 0
        self.now_us = 0
        self.wall_jump_us = 0  # the error of the wall clock since its jump
        self.row = 0
        self.sequence = 0
        self.ready: dict[str, list[int]] = {}
        self.unacked: dict[str, list[int]] = {}
        self.counts: Counter[str] = Counter()
        self.tables: dict[str, list[Values]] = {name: [] for name in schema.TABLES}
        self.batch = 0
        found = {"store": crc32(node.encode()), "recovered_batch": 0, "settling_batch": 0, "damage": 0}
        self.link: Values = {"retention_days": 14, **found}
        self.transient: set[str] = set()  # queues
        self.unattended: set[str] = set()  # queues
        self.consumers: dict[str, int] = {}  # by queue, if not 1
        self.recovered_before: dict[str, int] = {}  # by queue, if more than at the start
        self._messages = 0
        self._snapshots = 0
        self._stopped = False
        self._published: Counter[str] = Counter()
        self._delivered: Counter[str] = Counter()
        self._acked: Counter[str] = Counter()
        self._born: dict[int, int] = {}
        self._first: dict[int, tuple[int, str]] = {}  # the birth and the first queue of dead letters' first messages

    def follow(self, previous: Log) -> Log:
        """Link this boot to the one before, and return it."""
        at = previous._stamp()["ts_us"]
        self.link |= {"previous_boot": previous.boot_id, "previous_row": previous.row, "previous_at": at}
        names = ("previous_batch", "recovered_batch", "settling_batch")
        self.link |= dict.fromkeys(names, previous.batch)
        self.batch = previous.batch
        return self

    # Events

    def declare(self, *queues: str) -> None:
        for queue in queues:
            self.ready.setdefault(queue, [])
            self.unacked.setdefault(queue, [])

    def publish(self, *queues: str, event: str = schema.PUBLISH, **columns: Any) -> int:
        """Publish a message to some queues. Returns its number."""
        self.declare(*queues)
        number = self._new()
        reason = columns.get("reason")
        row = {"exchange": "x", "routing_key": "key", "size": 100, "persistent": True, **self._client(), **columns}
        self.event(event, number, **{"routed": len(queues), **row})
        if not reason:
            self._enter(number, queues, row)
        return number

    def dead_letter(self, number: int, queue: str, *targets: str, reason: str = "rejected", why: str = "") -> int:
        """Dead-letter a message. Returns the number of the copy, which enters `targets`, or is dropped for a reason."""
        self._take(number, queue)
        self.event(schema.DEAD_LETTER, number, queue=queue, reason=reason)
        if not targets:
            self.event(schema.UNROUTED, number, queue=queue, exchange="dead", routing_key="key", reason=why)
        self.declare(*targets)
        copy = self._new()
        born, first_queue = self._first[copy] = self._first.get(number, (self._born[number], queue))
        names = {"exchange": "dead", "routing_key": "key", "size": 100, "first_queue": first_queue}
        origin = {"source_seq": number, "origin_us": self._born[copy] - born}
        self._enter(copy, targets, {"reason": "dlx", **names, **origin})
        return copy

    def confirm(self, number: int, reason: str | None = None) -> None:
        self.event(schema.CONFIRM, number, reason=reason, user=self.user)

    def deliver(self, number: int, queue: str, no_ack: bool = False, redelivered: bool = False, **columns: Any) -> None:
        self.ready[queue].remove(number)
        self._delivered[queue] += 1
        if not no_ack:
            self.unacked[queue].append(number)
        columns |= {"queue": queue, "no_ack": no_ack, "redelivered": redelivered}
        self.event(schema.DELIVER, number, **columns, **self._client())

    def ack(self, number: int, queue: str, event: str = schema.ACK, **columns: Any) -> None:
        self.unacked[queue].remove(number)
        self._acked[queue] += 1
        self.event(event, number, queue=queue, user=self.user, **columns)

    def requeue(self, number: int, queue: str) -> None:
        self.unacked[queue].remove(number)
        self.ready[queue].insert(0, number)
        self.event(schema.REQUEUE, number, queue=queue, reason="nack")

    def drop(self, number: int, queue: str, reason: str = "maxlen") -> None:
        self._take(number, queue)
        self.event(schema.DROP, number, queue=queue, reason=reason)

    def expire(self, number: int, queue: str) -> None:
        self._take(number, queue)
        self.event(schema.EXPIRE, number, queue=queue, reason="expired")

    def recovered(self, queue: str, count: int) -> list[int]:
        """Add messages that were on the disk, before all events. Returns their numbers, which are very great."""
        self.declare(queue)
        numbers = [UNTIMED + self._new() for _ in range(count)]
        self._born.update(dict.fromkeys(numbers, self.now_us))
        self.ready[queue].extend(numbers)
        return numbers

    def round_trip(self, queue: str, **columns: Any) -> int:
        """Publish, confirm, deliver and acknowledge a message. Returns its number."""
        number = self.publish(queue, **columns)
        self.confirm(number)
        self.deliver(number, queue)
        self.ack(number, queue)
        return number

    # Rows and files

    def event(self, name: str, number: int, **columns: Any) -> None:
        self.now_us += STEP_US
        self.batch += 1
        born = self._born.get(number)
        self.counts[name] += 1
        row = {
            **self._stamp(),
            "row": self.row,
            "vhost": self.vhost,
            "event": name,
            "msg_seq": number,
            "sample_rate": self.sample_rate,
            "redelivered": False,
            "no_ack": False,
            "lat_us": None if born is None else self.now_us - born,
            **columns,
        }
        self.row += 1
        self.tables[schema.EVENTS].append(row)

    def snapshot(self, kind: str = schema.PERIODIC, **columns: Any) -> None:
        common = {
            **self._stamp(),
            "snapshot": self._snapshots,
            "kind": kind,
            "row": self.row,
            "lost_records": self.lost,
            "sample_rate": self.sample_rate,
        }
        rows = [{**common, **columns, **self._counts_of(queue)} for queue in self.ready]
        if kind == schema.START:
            for row in rows:
                row["recovered"] = self.recovered_before.get(row["queue"], row["ready"])
        link = {"durable_batch": self.batch, "last_batch": self.batch, **(self.link if kind == schema.START else {})}
        self.tables[schema.QUEUE_STATS] += [*rows, {**common, "queues": len(rows), **link}]
        self._snapshots += 1

    def metric(self, name: str, value: float, kind: str = schema.GAUGE, **columns: Any) -> None:
        self.tables[schema.METRICS].append(
            {**self._stamp(), "name": name, "value": value, "kind": kind, "labels": {}, **columns}
        )

    def begin(self, *queues: str) -> Log:
        """Take the snapshot of the start, which has these queues."""
        self.declare(*queues)
        self.snapshot(schema.START)
        return self

    def stop(self, *removed: int) -> list[Path]:
        """Take the snapshot of the stop, and write all files, as `write`."""
        self.snapshot(schema.STOP)
        return self.write(*removed)

    def write(self, *removed: int) -> list[Path]:
        """Write files of the new rows, without rows of the log with some numbers. Returns their paths."""
        self.tables[schema.EVENTS] = [row for row in self.tables[schema.EVENTS] if row["row"] not in removed]
        written = []
        for table, rows in self.tables.items():
            if rows:
                self._stopped |= table == schema.QUEUE_STATS and rows[-1]["kind"] == schema.STOP
                written.append(self._file(table, rows))
                rows.clear()
        self.sequence += 1
        save_state(self.folder, self.node, BootEnd(self.boot_id, self.row, 1, ended=self._stopped))
        return written

    def _file(self, table: str, rows: list[Values]) -> Path:
        first: datetime = rows[0]["ts_us"]
        folder = self.folder / table / f"dt={first:%Y-%m-%d}" / f"hour={first:%H}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / schema.file_name(self.node, self.boot_id, self.sequence)
        columns = arrow_schema(table, self.lost)
        pq.write_table(pa.Table.from_pylist(rows, columns), path, compression="zstd")
        listed(self.folder, path, self.node, self.boot_id)
        return path

    def _client(self) -> Values:
        return {"user": self.user, **({"conn_id": self.connection} if self.connection is not None else {})}

    def _stamp(self) -> Values:
        wall_us = int(self.start.timestamp() * 1_000_000) + self.now_us + self.wall_jump_us
        return {
            "schema": schema.SCHEMA,
            "ts_us": datetime.fromtimestamp(wall_us / 1e6, UTC),
            "mono_ns": self.now_us * 1000,
            "node": self.node,
            "boot_id": self.boot_id,
        }

    def _counts_of(self, queue: str) -> Values:
        return {
            "vhost": self.vhost,
            "queue": queue,
            "queue_type": "classic",
            "durable": queue not in self.transient,
            "unattended": queue in self.unattended,
            "ready": len(self.ready[queue]),
            "unacked": len(self.unacked[queue]),
            "consumers": self.consumers.get(queue, 1),
            "published": self._published[queue],
            "delivered": self._delivered[queue],
            "acked": self._acked[queue],
        }

    def _new(self) -> int:
        self._messages += 1
        self._born[self._messages] = self.now_us
        return self._messages

    def _enter(self, number: int, queues: tuple[str, ...], columns: Values) -> None:
        names = ("reason", "exchange", "routing_key", "size", "source_seq", "origin_us", "first_queue")
        chosen = {name: columns.get(name) for name in names}
        for queue in queues:
            self.ready[queue].append(number)
            self._published[queue] += 1
            self.event(schema.ENQUEUE, number, queue=queue, durable=queue not in self.transient, **chosen)

    def _take(self, number: int, queue: str) -> None:
        """Remove a message from the queue, ready or unacknowledged."""
        (self.unacked if number in self.unacked[queue] else self.ready)[queue].remove(number)


def save_state(folder: Path, node: str, newest: BootEnd) -> None:
    """Store the state of a node."""
    path = state_path(folder, node)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.encode(Content(node, newest)))


def listed(folder: Path, path: Path, node: str, boot_id: str) -> None:
    """Add a file to the manifest of its boot."""
    entry = describe_file(folder, path.relative_to(folder).as_posix())
    Manifest(folder, schema.manifest_name(node, boot_id)).add(entry)
