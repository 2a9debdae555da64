"""The selection of a part of the input: files by folders and names, then rows by columns.

The check of conservation stays valid for the part:

- Of a time, it compares the first snapshot in it with the last one. What was in the queues before counts as there.
- Of virtual hosts and queues, it compares their queues; gaps are looked for in the rows of all.
- Arrivals by links are read of all virtual hosts, since the two ends of a link are mostly in different ones.
- Publishes are of no queue: a selection of queues keeps those of its virtual hosts, and does not compare how many
  queues each was routed to.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..file_format import schema
from .facts import Numbers, Table, numbers_of
from .input import HOUR

# Snapshots nearer to a limit are left out: the wall clock of events is corrected between batches by a few milliseconds.
MARGIN = timedelta(seconds=1)
COLUMNS = ("node", "boot_id", "snapshot", "ts_us", "vhost", "queue", "queues")  # by which rows are selected
SPAN = timedelta(hours=1)  # of a folder; a file begins in it, and ends in the next one at the latest


@dataclass(frozen=True)
class Selection:
    """The part of the input that is asked for: from `since` to `until` (exclusive), and names; empty for all."""

    since: datetime | None = None
    until: datetime | None = None
    nodes: tuple[str, ...] = ()
    vhosts: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self == Selection()

    @property
    def of_names(self) -> bool:
        return bool(self.vhosts or self.queues)

    @property
    def of_time(self) -> bool:
        return self.since is not None or self.until is not None

    def describe(self) -> dict[str, Any]:
        """Return it for report.json."""
        times = {name: at and at.isoformat() for name, at in (("since", self.since), ("until", self.until))}
        return {**times, "nodes": [*self.nodes], "vhosts": [*self.vhosts], "queues": [*self.queues]}

    def has_file(self, path: str) -> bool:
        """Return whether a file may have rows that are asked for, by its path."""
        name = path.rpartition("/")[2]
        if self.nodes and not any(name.startswith(f"part-{schema.safe_name(node)}-") for node in self.nodes):
            return False
        begun = HOUR.search(path)
        if begun is None:
            return True
        try:
            hour = datetime.fromisoformat(f"{begun[1]}T{begun[2]}+00:00")
            late = self.since is None or hour + 2 * SPAN > self.since
        except (ValueError, OverflowError):
            return True  # no hour: a file that is skipped
        return late and (self.until is None or hour < self.until)

    def rows(self, table: str, rows: pa.Table) -> pa.Table:
        """Return the rows of a table that are asked for, of events those of any virtual host and queue."""
        if self.is_whole or not rows.num_rows:
            return rows
        if table == schema.QUEUE_STATS:
            return self._snapshots(rows.filter(pa.array(self._times(rows, MARGIN))))
        return rows.filter(pa.array(self._times(rows)))

    def events(self, rows: pa.Table) -> pa.Table:
        """Return the events of the selected virtual hosts and queues."""
        return rows.filter(pa.array(self._names(Table(schema.EVENTS, rows))))

    def crossings(self, rows: pa.Table) -> pa.Table:
        """Return the events by which links are checked: those that are asked for, and all arrivals."""
        arrivals = numbers_of(pc.equal(rows["event"].cast(pa.string()), schema.FED_IN))
        return rows.filter(pa.array(self._names(Table(schema.EVENTS, rows)) | arrivals))

    def _times(self, rows: pa.Table, margin: timedelta = timedelta()) -> Numbers:
        """Return which rows are of the selected nodes and time."""
        wanted = np.ones(rows.num_rows, bool)
        if self.nodes:
            wanted &= numbers_of(pc.is_in(rows["node"].cast(pa.string()), pa.array(self.nodes)))
        if self.since is not None:
            wanted &= numbers_of(pc.greater_equal(rows["ts_us"], pa.scalar(self.since + margin, rows["ts_us"].type)))
        if self.until is not None:
            wanted &= numbers_of(pc.less(rows["ts_us"], pa.scalar(self.until - margin, rows["ts_us"].type)))
        return wanted

    def _names(self, table: Table) -> Numbers:
        """Return which rows are of the selected virtual hosts and queues, or of none."""
        wanted = np.ones(table.count, bool)
        for column, chosen in (("vhost", self.vhosts), ("queue", self.queues)):
            if chosen:
                named = numbers_of(pc.is_in(table[column].cast(pa.string()), pa.array(chosen)))
                wanted &= named | ~table.has(column)
        return wanted

    def _snapshots(self, rows: pa.Table) -> pa.Table:
        """Return the snapshots of the selected queues, as if there were no others."""
        if not self.of_names:
            return rows
        table = Table(schema.QUEUE_STATS, rows)
        closing, chosen = ~table.has("queue"), self._names(table)
        keys = list(zip(*(table[name].to_pylist() for name in ("node", "boot_id", "snapshot")), strict=True))
        every, some = Counter(compress(keys, ~closing)), Counter(compress(keys, ~closing & chosen))
        queues = [
            (some[key] if every[key] == number else -1) if is_closing else None
            for key, is_closing, number in zip(keys, closing, table.number("queues", -1), strict=True)
        ]
        column = pa.array(queues, pa.int32())
        place = rows.schema.get_field_index("queues")
        rows = rows.set_column(place, "queues", column) if place >= 0 else rows.append_column("queues", column)
        return rows.filter(pa.array(chosen))


ALL = Selection()
