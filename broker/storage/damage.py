"""The messages that damaged records of the log had, and their queues, as far as that is still known.

Each message that is first written to a segment has the next id. Therefore the ids before and after a damaged part tell
how many messages it had. Its bytes may still name the queues, because most damage is in the body of a message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from . import log_records

QUEUES_SHOWN = 5
UNKNOWN = "a queue that is not known"


@dataclass(slots=True)
class DamagedPart:
    """The bytes between two sound records; new messages in it had the ids from `first_id` up to `end_id`."""

    line: int  # its place in the report
    first_id: int
    end_id: int
    most_ids: int  # that its bytes have room for; the last one may be cut
    claims: dict[int, tuple[int, ...]] = field(default_factory=dict)  # id -> queues, as the bytes still have them


class Damage:
    """All damaged parts of a log, in their order."""

    __slots__ = ("parts", "_first_ids", "_claimed", "_settled")

    def __init__(self) -> None:
        self.parts: list[DamagedPart] = []
        self._first_ids: list[int] = []
        self._claimed: set[int] = set()  # the ids of all claims
        self._settled: dict[int, set[int]] = {}  # id of a message in a damaged part -> queues that settled it later

    def add(self, line: int, next_id: int, data: bytes, at: int, end: int, end_id: int) -> None:
        """Add the part of `data` from `at` to `end`, which follows the message before `next_id`.

        Its messages have ids below `end_id`. No byte is read twice: a body may have the bytes of many records that
        claim to be large.
        """
        most_ids = 1 + (end - at) // log_records.MESSAGE_BYTES
        if self.parts and self.parts[-1].first_id == next_id:  # what is between the two parts tells no id
            most_ids += self.parts[-1].most_ids
        part = DamagedPart(line, next_id, next_id, most_ids)
        self.parts.append(part)
        self._first_ids.append(next_id)
        while at >= 0:
            claimed = log_records.claimed_message(data, at, end)
            at += 1
            if claimed is not None and claimed[0] < end_id:
                id_, part.claims[id_], at = claimed
                self._claimed.add(id_)
            at = data.find(log_records.MAGIC_BYTES, at, end)

    def end(self, next_id: int, end_id: int) -> None:
        """Note that `end_id` followed where `next_id` was due, perhaps because of the last part."""
        part = self.parts[-1] if self.parts else None
        if part is not None and part.first_id == next_id < end_id:
            part.end_id = min(end_id, next_id + part.most_ids)

    def settle(self, queue: int, ids: Iterable[int]) -> None:
        """Note that a queue settled messages."""
        for id_ in ids:
            at = bisect_right(self._first_ids, id_) - 1
            if id_ in self._claimed or at >= 0 and id_ < self.parts[at].end_id:
                self._settled.setdefault(id_, set()).add(queue)

    def describe(
        self,
        report: list[str],
        is_missing: Callable[[int], bool],
        exists: Callable[[int], bool],
        next_queue: int,
        names: Mapping[int, str],
    ) -> None:
        """Complete the line of each part: how many messages it had that queues still want, and which queues.

        `is_missing` says whether a message is live without a record, and `exists` whether a queue does. No queue ever
        had the number `next_queue` or one above.
        """
        counted: set[int] = set()
        end_id = 0  # of the parts so far
        for part in self.parts:
            count = 0
            queues: Counter[str] = Counter()
            for id_ in chain(part.claims, range(max(part.first_id, end_id), part.end_id)):
                if id_ in counted or not is_missing(id_):
                    continue
                counted.add(id_)
                settled, claims = self._settled.get(id_, set()), part.claims.get(id_)
                if claims is None or max(claims, default=0) >= next_queue:
                    wanting = [] if settled else [0]
                else:
                    wanting = [number for number in claims if number not in settled and exists(number)]
                queues.update(names.get(number, UNKNOWN) for number in wanting)
                count += bool(wanting)
            end_id = max(end_id, part.end_id)
            report[part.line] += with_messages(part, count, queues)


def with_messages(part: DamagedPart, count: int, queues: Counter[str]) -> str:
    """Return the end of the line of a part with this number of messages, which `queues` want, each so many of them."""
    if not count:
        had = part.claims or part.end_id > part.first_id
        return "; no queue wants a message of it" if had else "; it had no message, but settled ones may come back"
    shown = queues.most_common(QUEUES_SHOWN)
    of = f" of {shown[0][0]}"
    if len(queues) > 1:
        more = f", others of {len(queues) - len(shown)} queues" if len(queues) > len(shown) else ""
        of = f" ({', '.join(f'{number} of {name}' for name, number in shown)}{more})"
    messages, them = (f"{count} messages", "them") if count > 1 else ("1 message", "it")
    by = ", by what is left of it" if queues.keys() != {UNKNOWN} else ""
    return f", with {messages}{of}{by}: restore a backup if you need {them}"
