"""Circles of full queues, each of which keeps dead letters at least once for the next one.

Kept letters count for the limits of their queue, so each queue of a circle would wait for ever for room in the next.
Therefore each passes one letter to the next at the same time, which changes the number of messages in none of them, and
lets none in from outside.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .dead_lettering import DeadLetter
    from .queue import Queue

MOST_QUEUES = 100  # that are searched for a circle, each with `dead_lettering.UNCONFIRMED` letters
MOST_BYTES = 16 << 20  # of the letters of a circle, which are passed on in one step
LETTERS_SHIFT = 1  # to look at 2 letters costs 1 (`jobs.scheduler`)


class Pass(NamedTuple):
    """A letter that one queue of a circle passes to the next one."""

    giver: Queue
    letter: DeadLetter
    taker: Queue


def find_circle(source: Queue, letter: DeadLetter, first: Queue) -> tuple[list[Pass], int]:
    """Return what the queues of a circle pass on, which begins with the letter from `source` to `first`; and the cost.

    The list is empty if there is no circle, or it or the search would be too long.
    """
    found = {first: Pass(source, letter, first)}
    sizes = {first: len(letter.message.frames)}  # of all letters on the way to a queue
    pending = deque([first])
    cost = 1
    while pending and source not in found and len(found) < MOST_QUEUES:
        queue = pending.popleft()
        taken = found[queue].letter
        cost += 1 + (len(queue.outbox.unconfirmed) >> LETTERS_SHIFT)
        for waiting in queue.outbox.unconfirmed:
            taker = waiting.waits_for
            if taker is None or taker in found or not exchanges(queue, waiting, taken):
                continue
            size = sizes[queue] + len(waiting.message.frames)
            if size <= MOST_BYTES and (taker is not source or exchanges(source, letter, waiting)):
                found[taker] = Pass(queue, waiting, taker)
                sizes[taker] = size
                pending.append(taker)
    if source not in found or first is source and not exchanges(source, letter, letter):
        return [], cost
    circle = [found[source]]
    while circle[-1].giver is not source:
        circle.append(found[circle[-1].giver])
    return circle[::-1], cost


def exchanges(queue: Queue, given: DeadLetter, taken: DeadLetter) -> bool:
    """Return whether a full queue may pass on one letter as it takes another.

    That may be longer, as long as the queue does not exceed twice its limit of bytes.
    """
    settings, growth = queue.settings, taken.message.body_bytes - given.message.body_bytes
    if queue.deleted or not settings.dead_letters_at_least_once:
        return False
    total = queue.ready_messages.body_bytes + queue.outbox.persistent_bytes + growth
    return growth <= 0 or settings.max_bytes < 0 or total <= 2 * settings.max_bytes
