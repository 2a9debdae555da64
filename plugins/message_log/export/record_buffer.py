"""The buffer of records for the writer process, as packed byte arrays without a Python object for each record."""

import time
from collections.abc import Callable, Sequence
from struct import pack
from weakref import WeakSet

import msgspec

from warren.broker.core.queues.traffic_log import Origin

from .name_codes import Names
from .pipe_format import ADDRESSED, BATCH_HEAD, DETAIL, ENQUEUED, ROUTED, SEGMENT, SEQS, SIZES

SOON_BYTES = 1 << 20  # a larger batch is sent at once, not after FLUSH_S


class RecordBuffer:
    """The records of the next batch.

    `row` is the number of the next record; `dropped` counts records that did not fit, `unwritten` those that a writer
    received and never wrote; `waiting_bytes`, which the owner sets, is the size of batches that were taken and are not
    written yet. `soon` is called once a batch exceeds SOON_BYTES. `links` are the origins of federation links that
    forwarded something, while they exist. `_named_row` is the first record with the present names.
    """

    __slots__ = (
        "row",
        "dropped",
        "unwritten",
        "_taken",
        "waiting_bytes",
        "names",
        "links",
        "_limit_bytes",
        "_step_bytes",
        "_soon",
        "_new_names",
        "_named_row",
        "_full",
        "_segments",
        "_seqs",
        "_sizes",
        "_routed",
        "_addresses",
        "_details",
        "_held_bytes",
        "_soon_at",
    )

    def __init__(self, limit_bytes: int, soon: Callable[[], None]) -> None:
        self.row = 0
        self.dropped = 0
        self.unwritten = 0
        self._taken = 0  # the number of records that were taken so far
        self.waiting_bytes = 0
        self.links: WeakSet[Origin] = WeakSet()
        self._limit_bytes = limit_bytes
        self._step_bytes = min(SOON_BYTES, limit_bytes // 2)
        self._soon = soon
        self.names = Names(self._hold, self.links)
        self._new_names = True
        self._named_row = 0
        self._full = False  # there was no room for a name, so no record is added until the next batch
        self._clear()

    @property
    def lost(self) -> int:
        """The number of records that are in no file and never will be."""
        return self.dropped + self.unwritten

    def resume(self, written: int) -> None:
        """Continue with another writer. Of the taken records, `written` are in files, and the others are lost."""
        self.unwritten = self._taken - written
        self.waiting_bytes = 0
        self.names.renew()

    def _clear(self) -> None:
        self._segments = bytearray()
        self._seqs = bytearray()
        self._sizes = bytearray()
        self._routed = bytearray()
        self._addresses = bytearray()
        self._details = bytearray()
        self._held_bytes = 0  # the size of the above
        self._soon_at = self._step_bytes

    def take(self, stored: int = 0) -> list[bytes | bytearray]:
        """Take the batch, in pieces to be joined, or an empty list if there are no records.

        `stored` is the last durable batch of the store's log.
        """
        full, self._full = self._full, False
        if not self._segments:
            if full:  # a batch of names alone
                self._assign_anew()
                self._clear()
            return []
        news = [
            (table, *[escape_text(value) if isinstance(value, str) else value for value in entry])
            for table, entry in self.names.news
        ]
        runs: list[bytes | bytearray] = [msgspec.json.encode(news)]
        runs += [self._segments, self._seqs, self._sizes, self._routed, self._addresses, self._details]
        anchor_ns = time.time_ns() - time.monotonic_ns()
        head = BATCH_HEAD.pack(anchor_ns, self.lost, stored, self._new_names, *map(len, runs))
        self._taken = self.row - self.dropped
        self.names.news.clear()
        self._new_names = False
        if self.names.outgrown(self.row - self._named_row):
            self._assign_anew()
        self._clear()
        return [head, *runs]

    def _assign_anew(self) -> None:
        """Remove all names: each gets a new code when it occurs again."""
        self.names, self._named_row, self._new_names = Names(self._hold, self.links), self.row, True

    def _hold(self, size: int) -> bool:
        """Reserve room for a name, which is sent with the batch; without room, no record is added until the next one.

        Otherwise a record that is dropped would leave its names in memory.
        """
        if self._full or self._held_bytes + size + self.waiting_bytes > self._limit_bytes:
            self._full, self._soon_at = True, 0
            return False
        self._held_bytes += size
        return True

    def _room(self) -> bool:
        """Return whether there is room for more. Calls `soon` if the batch is large."""
        if self._full or self._held_bytes + self.waiting_bytes > self._limit_bytes:
            return False
        self._soon_at = self._held_bytes + self._step_bytes
        self._soon()
        return True

    def add(
        self,
        kind: int,
        flags: int,
        count: int,
        mono_ns: int,
        row: int,
        first: int,
        size: int,
        routed: int,
        origin: int,
        queue: int,
        address: int,
        tag: int,
        reason: int,
        seqs: Sequence[int] = (),
        sizes: Sequence[int] = (),
        routes: Sequence[int] = (),
        addresses: Sequence[int] = (),
    ) -> bool:
        """Add a segment of `count` records from `row` on, or twice as many with the flag ENQUEUED.

        Their messages have the numbers `seqs`, or consecutive ones from `first`; `size` is the body size of all in
        bytes, unless `sizes` has them; `routed` the number of queues, unless `routes` has them; origin, queue, address,
        tag and reason are codes of `names`, as are `addresses` if they differ. Returns whether there was room.
        HOT: the export, load A.
        """
        if self._held_bytes >= self._soon_at and not self._room():
            self.dropped += count << (flags & ENQUEUED > 0)
            return False
        self._held_bytes += SEGMENT.size
        if seqs:
            flags |= SEQS
            self._held_bytes += 8 * count
            self._seqs += pack(f"<{count}q", *seqs)
        if sizes:
            flags |= SIZES
            self._held_bytes += 4 * count
            self._sizes += pack(f"<{count}i", *sizes)
        if routes:
            flags |= ROUTED
            self._held_bytes += 4 * count
            self._routed += pack(f"<{count}i", *routes)
        if addresses:
            flags |= ADDRESSED
            self._held_bytes += 4 * count
            self._addresses += pack(f"<{count}I", *addresses)
        self._segments += SEGMENT.pack(
            kind, flags, count, size, routed, origin, queue, address, tag, reason, row, mono_ns, first
        )
        return True

    def add_detail(self, row: int, count: int, what: int, value: bytes) -> None:
        """Add a value of `count` records from `row` on."""
        self._held_bytes += DETAIL.size + len(value)
        self._details += DETAIL.pack(row, count, what, len(value)) + value


def escape_text(text: str) -> str:
    """Escape the bytes of a text that are not UTF-8, because Parquet has only UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
