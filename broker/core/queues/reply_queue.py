"""The queue of a direct reply-to consumer (spec/core.md 12)."""

from __future__ import annotations

from ..messages.message import Message
from .queue import Queue
from .x_death import MAXLEN


class VolatileQueue(Queue):
    """It has no bindings, and keeps nothing beyond its consumer.

    What its consumer does not read piles up here to a limit; the newest replies beyond it are dropped, as the promise
    of direct reply-to is at most once.
    """

    __slots__ = ()
    LIMIT = 10_000  # messages

    def push(self, messages: list[Message], body_bytes: int) -> None:
        super().push(*self._fitting(messages, body_bytes))

    def push_at(self, level: int, messages: list[Message], body_bytes: int) -> None:
        super().push_at(level, *self._fitting(messages, body_bytes))

    def _fitting(self, messages: list[Message], body_bytes: int) -> tuple[list[Message], int]:
        free = self.LIMIT - self.ready
        if len(messages) <= free:
            return messages, body_bytes
        self.home.left(self, messages[max(free, 0) :], MAXLEN)
        messages = messages[: max(free, 0)]
        return messages, sum(message.body_bytes for message in messages)
