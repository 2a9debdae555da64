"""The release of what a purge, or the end of a queue, removed from it, as a job: there may be millions.

Nobody can see these messages any more. What is left to do is to give up their memory and what the journal keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..jobs.scheduler import SLICE, Job
from ..messages.message import Message, total_bytes
from .fifo import Removed

if TYPE_CHECKING:
    from .queue import Queue


def release(queue: Queue, removed: list[Removed], average_bytes: int, reason: str, finished: Callable[[], None]) -> Job:
    """`finished` is called when all is settled in the journal; `average_bytes` is that of a body."""
    for fifo in removed:
        while fifo.fresh:
            fresh = fifo.fresh
            yield _settle(queue, [fresh.popleft() for _ in range(min(SLICE, len(fresh)))], reason)
        while fifo.returned:
            returned = fifo.returned[-SLICE:]
            del fifo.returned[-SLICE:]
            yield _settle(queue, [message for _, message, _ in returned], reason)
        while len(fifo.backlog):
            queue.host.left_paged(queue, fifo.backlog.seqs(SLICE), average_bytes, reason)
            pages = fifo.backlog.take(SLICE)
            queue.journal.settle_pages(pages)
            yield len(pages)
    finished()


def _settle(queue: Queue, messages: list[Message], reason: str) -> int:
    """Messages that are in memory; how many they are."""
    host = queue.host
    host.left(queue, messages, reason)
    host.budget.add(-len(messages), -total_bytes(messages))
    queue.journal.settle_purged(messages)
    return len(messages)
