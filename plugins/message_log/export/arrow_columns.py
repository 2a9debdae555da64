"""Records as Arrow columns, converted by batch: only the few records with details are handled one by one."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warren.broker.amqp.field_table import text_of
from warren.broker.plugin import Properties

from ..file_format import schema
from ..file_format.arrow_schema import ARROW
from . import pipe_format as pipe
from .decoded_names import Tables, constant, dictionary
from .message_identity import first_queue
from .record_buffer import escape_text

Numbers = np.ndarray[Any, Any]

SEGMENT = np.dtype(
    [("kind", "u1"), ("flags", "<u2"), ("pad", "u1")]
    + [(name, "<u4") for name in ("count", "size", "routed", "origin", "queue", "address", "tag", "reason")]
    + [(name, "<i8") for name in ("row", "mono_ns", "seq")]
)
ORIGINS_KEPT = 100_000
ARRIVING = (pipe.KINDS[schema.PUBLISH], pipe.KINDS[schema.FED_IN])
OF_PUBLISHERS = (pipe.KINDS[schema.FED_IN], pipe.KINDS[schema.CONFIRM])  # whose link is that of their origin


class Boot(msgspec.Struct, frozen=True):
    """One run of a broker, with the values that all its records share.

    `begun_ns` is on its monotonic clock; `headers` are the names of exported headers.
    """

    node: str
    boot_id: str
    begun_ns: int
    sample_rate: float
    headers: tuple[str, ...]


class Batches:
    """The batches that were received and are not written yet. `lost` is the broker's latest count of lost records.

    `stored` is the last batch of the store's log that was durable when the last of them was sent.

    `next_row` and `last_us` are the number after the last row that was received, and the time of that row; `since_s` is
    when the first of the batches was received, on the monotonic clock.
    """

    def __init__(self, boot: Boot) -> None:
        self.lost = self.stored = 0
        self.rows = 0
        self.next_row = 0
        self.last_us: int | None = None
        self.since_s = 0.0
        self._boot = boot
        self._tables = Tables()
        self._first_of: dict[int, int] = {}  # the first message of each chain of copies, by the latest copies
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._segments: list[Numbers] = []
        self._anchors: list[int] = []
        self._runs: tuple[list[bytes], ...] = ([], [], [], [], [])

    @staticmethod
    def begins_anew(payload: bytes) -> bool:
        """Return whether the batch assigns new codes, so that earlier batches must be taken first."""
        return bool(pipe.BATCH_HEAD.unpack_from(payload)[3])

    def add(self, payload: bytes) -> None:
        anchor_ns, self.lost, self.stored, anew, *lengths = pipe.BATCH_HEAD.unpack_from(payload)
        if anew:
            self._tables.clear()
        runs, at = [], pipe.BATCH_HEAD.size
        for length in lengths:
            runs.append(payload[at : at + length])
            at += length
        self._tables.add(msgspec.json.decode(runs[0]))
        if not self._segments:
            self.since_s = time.monotonic()
        segments = np.frombuffer(runs[1], SEGMENT)
        self._segments.append(segments)
        self._anchors.append(anchor_ns)
        for gathered, run in zip(self._runs, runs[2:], strict=True):
            gathered.append(run)
        counts = segments["count"].astype(np.int64)
        counts += np.where(segments["flags"] & pipe.ENQUEUED, counts, 0)
        self.rows += int(counts.sum())
        self.next_row = max(self.next_row, int(np.max(segments["row"] + counts)))
        self.last_us = (int(segments["mono_ns"].max()) + anchor_ns) // 1000

    def take(self) -> dict[str, pa.Array]:
        """Take all batches as columns of `schema.EVENTS`, sorted by queue and time, without all-null columns."""
        anchors = np.repeat(np.array(self._anchors, np.int64), [len(segments) for segments in self._segments])
        seqs, sizes, routed, addresses, details = (b"".join(run) for run in self._runs)
        rows = Rows(np.concatenate(self._segments), anchors)
        columns = self._columns(rows, np.frombuffer(seqs, "<i8"), np.frombuffer(sizes, "<i4"))
        columns["routed"] = self._routed(rows, np.frombuffer(routed, "<i4"))
        columns |= self._names(rows, np.frombuffer(addresses, "<u4"))
        columns |= self._details(rows, details)
        if "source_seq" in columns:
            columns["origin_us"] = self._origins(columns["msg_seq"], columns["source_seq"])
        self._clear()
        return {name: column for name, column in columns.items() if column.null_count < len(column)}

    def _origins(self, numbers: pa.Array, sources: pa.Array) -> pa.Array:
        """Return the time from the receipt of the first message of each chain of copies to the copy, null if unknown.

        The number of a message has its time. Only the latest ORIGINS_KEPT copies are known to be some: the copy of an
        older copy begins a chain.
        """
        column: list[int | None] = [None] * len(sources)
        places = pc.indices_nonzero(sources.is_valid()).to_pylist()
        copies = [(numbers[place].as_py(), sources[place].as_py(), place) for place in places]
        for number, source, place in sorted(copies):
            first = self._first_of[number] = self._first_of.get(source, source)
            if first < pipe.UNTIMED > number:
                column[place] = max((number >> pipe.SEQ_SHIFT) - (first >> pipe.SEQ_SHIFT), 0)
        for number in list(islice(self._first_of, max(len(self._first_of) - ORIGINS_KEPT, 0))):
            del self._first_of[number]
        return pa.array(column, pa.int64())

    def _columns(self, rows: Rows, seqs: Numbers, sizes: Numbers) -> dict[str, pa.Array]:
        of, count, boot = rows.segments, rows.total, self._boot
        kind, flags, mono_ns = of["kind"], of["flags"], of["mono_ns"]
        seq = rows.differing(pipe.SEQS, rows.each(of["seq"]) + rows.within, seqs)
        size = rows.differing(pipe.SIZES, rows.each(of["size"].astype(np.int32)), sizes)
        lat_us = np.maximum(rows.each((mono_ns - boot.begun_ns) // 1000) - (seq >> pipe.SEQ_SHIFT), 0)
        untimed = seq >= pipe.UNTIMED
        return {
            "schema": pa.array(np.full(count, schema.SCHEMA, np.int16)),
            "ts_us": pa.array(rows.each((mono_ns + rows.anchors) // 1000)).cast(ARROW["timestamp"]),
            "mono_ns": pa.array(rows.each(mono_ns)),
            "row": pa.array(rows.each(of["row"]) + rows.within),
            "msg_seq": pa.array(seq),
            "size": rows.masked(size, kind == pipe.KINDS[schema.CONFIRM]),
            "persistent": rows.masked(rows.each(flags & pipe.PERSISTENT > 0), ~np.isin(kind, ARRIVING)),
            "durable": rows.masked(rows.each(flags & pipe.DURABLE > 0), kind != pipe.KINDS[schema.ENQUEUE]),
            "redelivered": pa.array(rows.each(flags & pipe.REDELIVERED > 0)),
            "no_ack": pa.array(rows.each(flags & pipe.NO_ACK > 0)),
            "chan": self._channels(rows, of["origin"]),
            "lat_us": pa.array(lat_us, mask=untimed if untimed.any() else None),
            "sample_rate": pa.array(np.full(count, boot.sample_rate, np.float32)),
        }

    def _names(self, rows: Rows, addresses: Numbers) -> dict[str, pa.Array]:
        of, count = rows.segments, rows.total
        words = self._tables.values(pipe.WORDS, "word")
        return {
            "node": constant(self._boot.node, count),
            "boot_id": constant(self._boot.boot_id, count),
            "vhost": self._vhosts(rows),
            "event": dictionary(list(schema.EVENT_NAMES), of["kind"], rows.counts),
            "consumer_tag": dictionary(words, of["tag"], rows.counts),
            "reason": dictionary(words, of["reason"], rows.counts),
            "link": self._links(rows, of["origin"], of["queue"]),
            **self._addresses(rows, addresses),
            **self._named(pipe.QUEUES, ("queue",), of["queue"], rows.counts),
            **self._named(pipe.ORIGINS, ("conn_id", "user", "upstream"), of["origin"], rows.counts),
        }

    def _named(self, table: int, names: tuple[str, ...], codes: Numbers, counts: Numbers) -> dict[str, pa.Array]:
        return {name: dictionary(self._tables.values(table, name), codes, counts) for name in names}

    def _addresses(self, rows: Rows, addresses: Numbers) -> dict[str, pa.Array]:
        codes, counts = rows.segments["address"], rows.counts
        if len(addresses):
            codes, counts = rows.differing(pipe.ADDRESSED, rows.each(codes), addresses), np.ones(rows.total, np.int64)
        return self._named(pipe.ADDRESSES, ("exchange", "routing_key"), codes, counts)

    def _vhosts(self, rows: Rows) -> pa.Array:
        """Return the virtual host of the queue, or of the publisher if there is no queue."""
        of_queues, of_origins = self._tables.values(pipe.QUEUES, "vhost"), self._tables.values(pipe.ORIGINS, "vhost")
        queue = rows.segments["queue"]
        codes = np.where(queue > 0, queue, rows.segments["origin"] + len(of_queues))
        return dictionary([*of_queues, *of_origins], codes, rows.counts)

    def _links(self, rows: Rows, origin: Numbers, queue: Numbers) -> pa.Array:
        """Return the upstream queue of the link: at the upstream the row's queue, downstream the link's."""
        of_queues, of_origins = self._tables.values(pipe.QUEUES, "queue"), self._tables.values(pipe.ORIGINS, "link")
        kind, flags = rows.segments["kind"], rows.segments["flags"]
        codes = np.where((kind == pipe.KINDS[schema.FED_OUT]) | (flags & pipe.LINKED > 0), queue, 0)
        codes = np.where(np.isin(kind, OF_PUBLISHERS), origin + len(of_queues), codes)
        return dictionary([*of_queues, *of_origins], codes, rows.counts)

    def _channels(self, rows: Rows, origin: Numbers) -> pa.Array:
        numbers = np.array([number or 0 for number in self._tables.values(pipe.ORIGINS, "chan")], np.int32)
        return rows.masked(rows.each(numbers[origin]), origin == 0)

    def _routed(self, rows: Rows, routed: Numbers) -> pa.Array:
        of = rows.segments
        values = rows.differing(pipe.ROUTED, rows.each(of["routed"].astype(np.int32)), routed)
        return rows.masked(values, ~np.isin(of["kind"], ARRIVING))

    def _details(self, rows: Rows, content: bytes) -> dict[str, pa.Array]:
        """Return the columns of values that only some records have."""
        columns: dict[str, list[Any]] = {}
        at = 0
        places = rows.places() if content else {}
        while at < len(content):
            row, count, what, length = pipe.DETAIL.unpack_from(content, at)
            at += pipe.DETAIL.size
            for name, value in self._read(what, content[at : at + length]):
                column = columns.setdefault(name, [None] * rows.total)
                for index in range(row, row + count):
                    column[places[index]] = value
            at += length
        types = {column.name: ARROW[column.type] for column in schema.EVENT_COLUMNS}
        return {name: pa.array(column, types[name]) for name, column in columns.items()}

    def _read(self, what: int, content: bytes) -> list[tuple[str, Any]]:
        if what == pipe.IDENTITY:
            return [("identity", content.decode())]
        if what == pipe.HOPS:
            return [("hops", content[0])]
        if what == pipe.SOURCE:
            queue = first_queue(content[pipe.SOURCE_BYTES :])
            fields: list[tuple[str, Any]] = [("source_seq", int.from_bytes(content[: pipe.SOURCE_BYTES], "little"))]
            return fields + ([("first_queue", escape_text(queue))] if queue is not None else [])
        assert what == pipe.PROPERTIES
        properties = Properties.decode(content)
        values = [("message_id", properties.message_id), ("correlation", properties.correlation_id)]
        fields = [(name, escape_text(value)) for name, value in values if value is not None]
        if properties.priority is not None:
            fields.append(("priority", min(properties.priority, 127)))
        if properties.headers is not None and self._boot.headers:
            headers = properties.headers
            there = [(name, escape_text(text_of(headers.get(name)))) for name in self._boot.headers if name in headers]
            if there:
                fields.append(("headers", there))
        return fields


class Rows:
    """The rows of segments, sorted by queue. `within` is the index of each row in its segment."""

    def __init__(self, segments: Numbers, anchors: Numbers) -> None:
        self._given = segments
        source, segments = spread(segments)
        order = np.argsort(segments["queue"], kind="stable")
        self.segments = segments[order]
        self.anchors = anchors[source[order]]
        self.counts = self.segments["count"]
        self.total = int(self.counts.sum())
        ends = np.cumsum(self.counts, dtype=np.int64)
        self.within = np.arange(self.total, dtype=np.int64) - np.repeat(ends - self.counts, self.counts)
        self._source = source[order]  # the index of each segment before sorting

    def each(self, values: Numbers) -> Numbers:
        """Repeat the value of each segment for all its rows."""
        return np.repeat(values, self.counts)

    def masked(self, values: Numbers, unknown: Numbers) -> pa.Array:
        """Return values of rows as an array that is null in segments of unknown values."""
        return pa.array(values, mask=self.each(unknown) if unknown.any() else None)

    def differing(self, flag: int, values: Numbers, run: Numbers) -> Numbers:
        """Replace the values of rows in segments with `flag` by those in `run`, which are in the original order."""
        flagged = self._given["flags"] & flag > 0
        if not flagged.any():
            return values
        counts = np.where(flagged, self._given["count"], 0)
        starts = (np.cumsum(counts, dtype=np.int64) - counts)[self._source]
        here = self.each(flagged[self._source])
        values[here] = run[(self.each(starts) + self.within)[here]]
        return values

    def places(self) -> dict[int, int]:
        """Return the index of each row by its number."""
        numbers = self.each(self.segments["row"]) + self.within
        return dict(zip(numbers.tolist(), range(self.total), strict=True))


def spread(segments: Numbers) -> tuple[Numbers, Numbers]:
    """Add a segment of enqueues for each one with ENQUEUED. Returns the original index of each, and the segments."""
    both = np.flatnonzero(segments["flags"] & pipe.ENQUEUED)
    everything = np.arange(len(segments))
    if not len(both):
        return everything, segments
    entering = segments[both]
    entering["kind"] = pipe.KINDS[schema.ENQUEUE]
    entering["row"] += entering["count"]
    entering["origin"] = 0
    arriving = segments.copy()
    arriving["queue"][both] = 0
    return np.concatenate([everything, both]), np.concatenate([arriving, entering])
