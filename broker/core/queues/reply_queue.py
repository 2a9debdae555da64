"""The queue of a direct reply-to consumer (`amq.rabbitmq.reply-to`)."""

from __future__ import annotations

from ..messages.message import Message, total_bytes
from .queue import Queue
from .x_death import MAXLEN


class ReplyQueue(Queue):
    """A queue without bindings for direct reply-to, which exists as long as its one consumer.

    It keeps at most LIMIT replies that the consumer does not read, and drops newer ones: direct reply-to promises
    delivery at most once.
    """

    __slots__ = ()
    internal = True
    LIMIT = 10_000  # messages

    def push(self, messages: list[Message], body_bytes: int, shared: bool = False) -> None:
        super().push(*self._fitting(messages, body_bytes), shared)

    def push_at(self, level: int, messages: list[Message], body_bytes: int, shared: bool = False) -> None:
        super().push_at(level, *self._fitting(messages, body_bytes), shared)

    def _fitting(self, messages: list[Message], body_bytes: int) -> tuple[list[Message], int]:
        free = max(self.LIMIT - self.ready, 0)
        if len(messages) <= free:
            return messages, body_bytes
        self.host.left(self, messages[free:], MAXLEN)
        messages = messages[:free]
        return messages, total_bytes(messages)
