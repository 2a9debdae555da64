"""What the broker has told, and the writer has not taken yet: parallel runs of octets, and no thing for each record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from struct import pack

import msgspec

from .name_codes import Names
from .pipe_format import BATCH_HEAD, DETAIL, ENQUEUED, ROUTED, SEGMENT, SEQS, SIZES

SOON_BYTES = 1 << 20  # what is to be taken at once, without waiting for its time


class Buffer:
    """`row` is the number of the next record, `lost` how many there was no room for. `waiting_bytes` is what was taken
    and is still on its way; `soon` is told, once, when there is much to take.
    """

    __slots__ = (
        "row",
        "lost",
        "waiting_bytes",
        "names",
        "_limit_bytes",
        "_step_bytes",
        "_soon",
        "_new_names",
        "_segments",
        "_seqs",
        "_sizes",
        "_routed",
        "_details",
        "_held_bytes",
        "_soon_at",
    )

    def __init__(self, limit_bytes: int, soon: Callable[[], None]) -> None:
        self.row = 0
        self.lost = 0
        self.waiting_bytes = 0
        self.names = Names()
        self._limit_bytes = limit_bytes
        self._step_bytes = min(SOON_BYTES, limit_bytes // 2)
        self._soon = soon
        self._new_names = True
        self._clear()

    def _clear(self) -> None:
        self._segments = bytearray()
        self._seqs = bytearray()
        self._sizes = bytearray()
        self._routed = bytearray()
        self._details = bytearray()
        self._held_bytes = 0  # of all these
        self._soon_at = self._step_bytes

    def take(self) -> list[bytes | bytearray]:
        """The pieces of a batch; none where there is nothing. Whatever comes later is another."""
        if not self._segments:
            return []
        news = [
            (table, *[told(value) if isinstance(value, str) else value for value in entry])
            for table, entry in self.names.news
        ]
        runs: list[bytes | bytearray] = [msgspec.json.encode(news)]
        runs += [self._segments, self._seqs, self._sizes, self._routed, self._details]
        anchor_ns = time.time_ns() - time.monotonic_ns()
        head = BATCH_HEAD.pack(anchor_ns, self.lost, self._new_names, *map(len, runs))
        self.names.news.clear()
        self._new_names = self.names.full
        if self._new_names:
            self.names = Names()
        self._clear()
        return [head, *runs]

    def _room(self) -> bool:
        """There is much to take; whether there may be more."""
        if self._held_bytes + self.waiting_bytes > self._limit_bytes:
            return False
        self._soon_at = self._held_bytes + self._step_bytes
        self._soon()
        return True

    def note(
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
    ) -> bool:
        """So many records from `row` on, or twice as many (ENQUEUED); False where there is no room. Their messages are
        `seqs`, or numbered on from `first`. HOT: the export, load A."""
        if self._held_bytes >= self._soon_at and not self._room():
            self.lost += count << (flags & ENQUEUED > 0)
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
        self._segments += SEGMENT.pack(
            kind, flags, count, size, routed, origin, queue, address, tag, reason, row, mono_ns, first
        )
        return True

    def detail(self, row: int, count: int, what: int, octets: bytes) -> None:
        """Of so many records from `row` on."""
        self._held_bytes += DETAIL.size + len(octets)
        self._details += DETAIL.pack(row, count, what, len(octets)) + octets


def told(text: str) -> str:
    """Text that was no UTF-8 is told with escapes, as Parquet has no other."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
