"""The messages of one exchange that recovery found in the journal."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..messages.message import Message
from ..messages.message_state import NEVER
from ..messages.ports import RecoveredQueue

if TYPE_CHECKING:
    from .exchange_context import ExchangeContext


class RecoveredMessages:
    """The messages that an exchange type had stored when the broker stopped, in that order.

    ids           of the messages
    deadlines_ms  the deadline in the `MessageState` of each, NEVER for none. Messages with and without a deadline are
                  stored by different exchange types.

    `shared` has the messages that were read for other exchanges, by id.
    """

    __slots__ = ("ids", "deadlines_ms", "_shared")

    def __init__(self, recovered: RecoveredQueue, shared: dict[int, Message]) -> None:
        deadlines_ms = recovered.deadlines_ms
        self.ids = recovered.ids
        self.deadlines_ms = deadlines_ms if deadlines_ms is not None else array("Q", bytes(8 * len(recovered)))
        self._shared = shared

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield (deadline, id) of each message."""
        return zip(self.deadlines_ms, self.ids, strict=True)

    def read(self, context: ExchangeContext) -> list[Message]:
        """Return the messages without a deadline that can be read. Exchanges that keep the same one share it."""
        ids = [id_ for due_ms, id_ in self if due_ms == NEVER]
        unread = [id_ for id_ in ids if id_ not in self._shared]
        read = zip(unread, context.read(unread), strict=True)
        self._shared.update({id_: message for id_, message in read if message is not None})
        return [self._shared[id_] for id_ in ids if id_ in self._shared]
