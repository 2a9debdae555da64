"""Messages of a fifo that are apart from its chunks: requeued ones, and those that could not be read."""

from __future__ import annotations

from heapq import heappop, heappush

from ..jobs.scheduler import SLICE
from ..messages.message import VALUES, Message, ShedMessage, shed_message
from .chunks import Chunk
from .ledger import Ledger
from .sorted_rows import SortedRows

READ_BYTES = 4 << 20  # of messages that are read back at once, but for the last one
NO_ROWS = SortedRows(VALUES)


class RequeuedMessages(Chunk):
    """Messages by position, or by another number that is given to them.

    heap        those in memory: (position, message, redelivered)
    rows        `ShedMessage.values` of those whose contents only the journal has, which the ledger counts
    rows_bytes  the sum of the bodies of these
    """

    __slots__ = ("heap", "rows", "rows_bytes", "_ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.count = self.body_bytes = self.saved_bytes = self.rows_bytes = 0
        self.heap: list[tuple[int, Message, bool]] = []
        self.rows = NO_ROWS  # very many queues may have one message each
        self._ledger = ledger

    def add(self, position: int, message: Message, redelivered: bool) -> None:
        heappush(self.heap, (position, message, redelivered))
        self.count += 1

    def add_row(self, number: int, message: ShedMessage) -> None:
        if self.rows is NO_ROWS:
            self.rows = SortedRows(VALUES)
        self.rows.add(number, message.values())
        self.rows_bytes += message.body_bytes
        self.count += 1
        self._ledger.shed(1)

    @property
    def first(self) -> int:
        """The lowest position; there must be a message."""
        return self.rows.first if self.row_first else self.heap[0][0]

    @property
    def row_first(self) -> bool:
        """Whether only the journal has the first message."""
        return self.count > len(self.heap) and (not self.heap or self.rows.first < self.heap[0][0])

    def pop(self) -> tuple[int, Message, bool]:
        """Remove and return the first message in memory."""
        self.count -= 1
        return heappop(self.heap)

    def peek_rows(self, limit: int) -> list[ShedMessage]:
        """Return the first messages that only the journal has, at most `limit`, as many as are to be read at once.

        Return none behind the first one in memory.
        """
        first: list[ShedMessage] = []
        left_bytes = READ_BYTES
        for number, values, _ in self.rows.peek(limit):
            if self.heap and number > self.heap[0][0] or left_bytes < 0:
                break
            first.append(shed_message(*values))
            left_bytes -= first[-1].content_bytes
        return first

    def take(self) -> list[Message]:
        taken = [message for _, message, _ in self.heap[-SLICE:]]
        del self.heap[-SLICE:]
        self.count -= len(taken)
        return taken

    def take_ids(self, limit: int) -> tuple[list[int], list[int]]:
        taken = [shed_message(*values) for _, values, _ in self.rows.take(limit)]
        self.rows_bytes -= sum([message.body_bytes for message in taken])
        self.count -= len(taken)
        self._ledger.shed(-len(taken))
        return [message.id for message in taken], [message.seq for message in taken]
