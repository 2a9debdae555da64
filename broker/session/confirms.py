"""Publisher confirms of one channel (spec/core.md 10): which publishes are safe, told in order and several at once.

A publish is confirmed when all its queues took it, and, where one of them is durable and it is persistent, when the
journal's batch is on disk. Batches become durable in order, so the confirms of a channel are in order too, and one
basic.ack with `multiple` tells of all that became safe since the last one. What a queue refused is told in its turn,
with basic.nack.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar

from pamqp import commands

from ..amqp.errors import PreconditionFailed
from ..amqp.field_table import Table
from ..wire import method_encoder

if TYPE_CHECKING:
    from .channel import Channel


class Confirms:
    """Publishes are numbered from 1. `safe` is the last of those that are all decided, `told` the last one told.

    `confirmed` is how many of those told were not refused; `tells` is false where nobody is ever told.
    """

    __slots__ = ("next", "safe", "told", "confirmed", "_waiting", "_refused")

    tells: ClassVar[bool] = True

    def __init__(self) -> None:
        self.next = 1
        self.safe = 0
        self.told = 0
        self.confirmed = 0
        self._waiting: deque[tuple[int, int]] = deque()  # journal ticket, last publish of it
        self._refused: deque[int] = deque()  # publishes that a queue did not take

    def published(self, count: int, ticket: int, durable: int) -> bool:
        """So many more were published; True when they wait for the batch `ticket`, `durable` being the last on disk."""
        self.next += count
        if ticket <= durable and not self._waiting:
            self.safe = self.next - 1
            return False
        if self._waiting and self._waiting[-1][0] >= ticket:
            self._waiting[-1] = (self._waiting[-1][0], self.next - 1)
            return False
        self._waiting.append((ticket, self.next - 1))
        return True

    @property
    def refusing(self) -> bool:
        """Whether a refusal is still to be told."""
        return len(self._refused) > 0

    def refusals(self) -> list[int]:
        """The publishes whose refusal is still to be told."""
        return list(self._refused)

    def refused(self, durable: int) -> None:
        """One more was published, and some queue did not take it."""
        self._refused.append(self.next)
        self.published(1, 0, durable)

    def committed(self, durable: int) -> None:
        """Batches up to this one are on disk."""
        while self._waiting and self._waiting[0][0] <= durable:
            self.safe = self._waiting.popleft()[1]

    def take(self, channel: int) -> bytes:
        """The frames that tell the news, empty when there is none."""
        if self.safe == self.told:
            return b""
        frames = b""
        while self._refused and self._refused[0] <= self.safe:
            first = last = self._refused.popleft()
            while self._refused and self._refused[0] == last + 1 and last < self.safe:
                last = self._refused.popleft()
            if first - 1 > self.told:
                frames += self._tell(channel, method_encoder.ACK, first - 1)
            frames += self._tell(channel, method_encoder.NACK, last)
        if self.safe > self.told:
            frames += self._tell(channel, method_encoder.ACK, self.safe)
        return frames

    def _tell(self, channel: int, method: int, last: int) -> bytes:
        multiple = last - self.told > 1
        if method == method_encoder.ACK:
            self.confirmed += last - self.told
        self.told = last
        return method_encoder.acknowledgement(channel, method, last, multiple)


def select(channel: Channel, method: commands.Confirm.Select, arguments: Table) -> None:
    """Raises PreconditionFailed (406) on a transactional channel; may be repeated."""
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.nowait:
        channel.send(method_encoder.method(channel.number, method_encoder.CONFIRM_SELECT_OK))
