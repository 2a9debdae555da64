"""The journal of one queue, and the numbers that identify durable queues in the journal."""

from __future__ import annotations

from ..messages.journal_port import Journal
from ..messages.message import Message, SharedMessage, ShedMessage, total_bytes


class QueueNumbers:
    """The numbers of durable queues and exchanges. `next` is the next one; none is used twice."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 1

    def take(self) -> int:
        """Return the next number."""
        self.next += 1
        return self.next - 1


class QueueJournal:
    """The messages of one queue in the journal, and their totals.

    number      of the queue in the journal; 0 for a queue that is not durable, of which only paged messages are stored
    count       persistent messages that are ready or unacknowledged
    body_bytes  the sum of their bodies

    After a purge while messages of both delivery modes are unacknowledged, the totals may be too large by those.
    """

    __slots__ = ("number", "count", "body_bytes", "_journal")

    def __init__(self, journal: Journal, number: int) -> None:
        self.number = number
        self.count = 0
        self.body_bytes = 0
        self._journal = journal

    # Persistent messages of a durable queue

    def settle(self, messages: list[Message], body_bytes: int = -1, moved: bool = False) -> None:
        """Settle messages, except for those that are not stored for this queue.

        `body_bytes` is the sum of all their bodies, or -1 if unknown. `moved` messages were stored anew for other
        queues in this batch (`Journal.settle_moved`). HOT: bench D.
        """
        stored = [message for message in messages if message.persistent]
        if moved:
            for message in stored:
                self._journal.settle_moved(self.number, message.id)
        elif stored:
            self._journal.settle_many(self.number, stored)
        self.count -= len(stored)
        self.body_bytes -= body_bytes if body_bytes >= 0 and len(stored) == len(messages) else total_bytes(stored)

    def count_delivery(self, message: Message, attempts: int) -> None:
        """Record the number of requeues of the message, if it is stored."""
        if self.number and message.persistent:
            self._journal.record_delivery_count(self.number, message.id, attempts)

    def forget(self) -> None:
        """Record that the queue is deleted; its messages need no settlement records from now on."""
        if self.number:
            self._journal.queue_deleted(self.number)

    # Purged messages, which `purge` subtracts from the totals at once

    def purge(self, count: int, body_bytes: int) -> None:
        """Reduce the totals to unacknowledged messages, of which there are at most these."""
        self.count = min(self.count, count)
        self.body_bytes = min(self.body_bytes, body_bytes)

    def settle_purged(self, messages: list[Message]) -> None:
        """Settle purged messages, as far as they are stored for this queue; the totals no longer count them."""
        if self.number:
            stored = [message for message in messages if message.persistent]
            if stored:
                self._journal.settle_many(self.number, stored)

    def settle_pages(self, ids: list[int]) -> None:
        """Settle purged messages that are only in the journal."""
        for id_ in ids:
            self._journal.settle(self.number, id_)

    # Paging

    def page_out(self, messages: list[Message]) -> list[int]:
        """Store messages that the journal does not have yet; return the id of each.

        Messages that were not stored for this queue are stored for no queue, and do not survive a restart. One that
        went to several queues is not stored again if the journal still has it of another one.
        """
        ids: list[int] = []
        loose: list[Message] = []
        places: list[int] = []
        for message in messages:
            id_ = message.id if self.number and message.persistent else self._held_page(message)
            if not id_:
                places.append(len(ids))
                loose.append(message.copy_for_queue())
            ids.append(id_)
        if loose:
            self._journal.append([], loose)
            for place, page in zip(places, loose, strict=True):
                ids[place] = page.id
                if isinstance(page, SharedMessage):
                    page.note_page(page.id)
        return ids

    def _held_page(self, message: Message) -> int:
        """Return the id under which the journal has the message for no queue, and keeps it for this one too; or 0."""
        page = message.stored_page() if isinstance(message, SharedMessage) else 0
        return page if page and self._journal.hold(page) else 0

    def page_in(self, message: Message, seq: int) -> Message:
        """Return a message that was read back with the `seq` and the headers that it had before it was paged out.

        Drop the journal's copy if it was stored for paging only.
        """
        message.seq = seq
        if not (self.number and message.persistent):
            self._journal.settle(0, message.id)
            message.id = 0
        return message.with_delivery_count(message.state) if message.state and message.state.attempts else message

    def drop_pages(self, messages: list[Message]) -> None:
        """Drop the journal's copies of those messages of which it alone had the content, if stored for that only."""
        for message in messages:
            if isinstance(message, ShedMessage) and not (self.number and message.persistent):
                self._journal.settle(0, message.id)

    @property
    def read_cost(self) -> int:
        """The bytes that all reads of the node have cost so far, each by itself as much as `Journal.read_cost`."""
        return self._journal.read_bytes + self._journal.reads * self._journal.read_cost

    def read(self, ids: list[int]) -> list[Message | None]:
        """Read messages, as far as `Journal.read` does."""
        return self._journal.read(ids, self.number)

    def read_all(self, ids: list[int]) -> list[Message | None]:
        """Read messages, as far as `Journal.read_all` does."""
        return self._journal.read_all(ids, self.number)
