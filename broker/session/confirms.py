"""Publisher confirms of one channel, sent in order and several at once.

A publish is confirmed once all its queues have taken it; a persistent one to a durable queue, once the journal's batch
is on disk. Batches become durable in order, so the confirms of a channel are in order too, and one basic.ack with
`multiple` confirms all publishes since the last one. A publish that a queue refused gets its basic.nack in this order.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr

from ..amqp.framing import FRAME_END, METHOD
from ..wire import method_encoder

NACKS_LIMIT: Final = 2_000  # in one write, about


@mypyc_attr(allow_interpreted_subclasses=True)
class Confirms:
    """Outstanding confirms of a channel. Publishes are numbered from 1."""

    __slots__ = ("next", "last_settled", "last_sent", "confirmed", "_waiting", "_refused")

    def __init__(self) -> None:
        self.next = 1  # number of the next publish
        self.last_settled = 0  # publishes up to this number are safe or refused
        self.last_sent = 0  # publishes up to this number were acked or nacked to the client
        self.confirmed = 0  # count of those that were acked
        self._waiting: deque[tuple[int, int]] = deque()  # journal ticket, its last publish
        self._refused: deque[int] = deque()  # publishes that a queue did not take

    def published(self, count: int, ticket: int, durable: int) -> bool:
        """Add `count` publishes, and return whether they are the first that wait for the batch `ticket`.

        `durable` is the last durable batch.
        """
        self.next += count
        if ticket <= durable and not self._waiting:
            self.last_settled = self.next - 1
            return False
        if self._waiting and self._waiting[-1][0] >= ticket:
            self._waiting[-1] = (self._waiting[-1][0], self.next - 1)
            return False
        self._waiting.append((ticket, self.next - 1))
        return True

    @property
    def unconfirmed(self) -> int:
        """Number of publishes without an ack or nack so far."""
        return self.next - 1 - self.last_sent

    @property
    def has_refusals(self) -> bool:
        """Whether a nack is still to be sent."""
        return len(self._refused) > 0

    def refusals(self) -> frozenset[int]:
        """Return the publishes whose nack is still to be sent."""
        return frozenset(self._refused)

    def refused(self, durable: int) -> None:
        """Add a publish that a queue did not take."""
        self._refused.append(self.next)
        self.published(1, 0, durable)

    def committed(self, durable: int) -> None:
        """Settle the publishes that wait for batches up to `durable`."""
        while self._waiting and self._waiting[0][0] <= durable:
            self.last_settled = self._waiting.popleft()[1]

    def drain_frames(self, channel: int) -> bytes:
        """Return the frames of the acks and nacks that are due, empty if none is.

        At most NACKS_LIMIT of them are nacks; then more are due.
        """
        if self.last_settled == self.last_sent:
            return b""
        frames: list[bytes] = []
        while self._refused and self._refused[0] <= self.last_settled:
            if len(frames) >= 2 * NACKS_LIMIT:
                return b"".join(frames)
            first = last = self._refused.popleft()
            while self._refused and self._refused[0] == last + 1 and last < self.last_settled:
                last = self._refused.popleft()
            if first - 1 > self.last_sent:
                frames.append(self._encode(channel, method_encoder.ACK, first - 1))
            frames.append(self._encode(channel, method_encoder.NACK, last))
        if self.last_settled > self.last_sent:
            frames.append(self._encode(channel, method_encoder.ACK, self.last_settled))
        return b"".join(frames)

    @property
    def due(self) -> bool:
        """Whether acks or nacks are due."""
        return self.last_settled > self.last_sent

    def _encode(self, channel: int, method: int, last: int) -> bytes:
        multiple = last - self.last_sent > 1
        if method == method_encoder.ACK:
            self.confirmed += last - self.last_sent
        self.last_sent = last
        return method_encoder.acknowledgement(METHOD, channel, 13, method, last, multiple, FRAME_END)
