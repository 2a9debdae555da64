"""The release of the messages of a purged or deleted queue, possibly millions, as a job.

The messages are no longer visible. The job frees their memory and settles them in the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..jobs.scheduler import SLICE, Job
from ..messages.message import Message, header_bytes_of, shed_message, total_bytes
from .fifo import Removed

if TYPE_CHECKING:
    from .queue import Queue


def release(queue: Queue, removed: list[Removed], average_bytes: int, reason: str, finished: Callable[[], None]) -> Job:
    """Release removed messages, and call `finished`. `average_bytes` is the average length of a body."""
    for fifo in removed:
        while fifo.fresh:
            fresh = fifo.fresh
            yield _settle(queue, [fresh.popleft() for _ in range(min(SLICE, len(fresh)))], reason)
        while fifo.packed.count:
            yield _settle(queue, fifo.packed.take(), reason)
        while fifo.returned:
            returned = fifo.returned[-SLICE:]
            del fifo.returned[-SLICE:]
            yield _settle(queue, [message for _, message, _ in returned], reason)
        while len(fifo.backlog):
            queue.host.left_paged(queue, fifo.backlog.seqs(SLICE), average_bytes, reason)
            ids = fifo.backlog.take(SLICE)
            queue.journal.settle_pages(ids)
            yield len(ids)
        for rows in fifo.apart:
            while len(rows):
                some = [shed_message(*values) for _, values, _ in rows.take(SLICE)]
                queue.host.left_paged(queue, [message.seq for message in some], average_bytes, reason)
                queue.journal.settle_pages([message.id for message in some])
                yield len(some)
    finished()


def _settle(queue: Queue, messages: list[Message], reason: str) -> int:
    """Release messages that are in memory; return their number."""
    host = queue.host
    host.left(queue, messages, reason)
    host.ledger.add(-len(messages), -total_bytes(messages) - header_bytes_of(messages))
    queue.journal.settle_purged(messages)
    return len(messages)
