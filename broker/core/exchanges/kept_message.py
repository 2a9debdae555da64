"""Messages that exchanges keep as they route them. The journal stores each once, for all exchanges on its way."""

from __future__ import annotations

from collections.abc import Callable

from ..jobs.scheduler import STORE_SHIFT
from ..messages.binding import Destination
from ..messages.journal_port import Journal
from ..messages.message import Message


class KeptMessage(Destination):
    """A message that an exchange keeps, and adds to the destinations. That of a durable exchange is stored.

    number   of the exchange in the journal, or 0
    message  a copy of its own
    dropped  whether the exchange has dropped it, which may be before it is stored

    With `on_kept` the exchange keeps it when that is called with it: not if the message has to wait, or is refused for
    now, and will be routed again.
    """

    __slots__ = ("number", "message", "dropped", "_on_kept")

    def __init__(self, number: int, message: Message, on_kept: Callable[[KeptMessage], None] | None = None) -> None:
        super().__init__("")
        self._on_kept = on_kept
        self.number = number
        self.message = message
        self.dropped = False

    def keep(self) -> None:
        """Have the exchange keep it."""
        if self._on_kept is not None:
            self._on_kept(self)


def store_kept(journal: Journal, kept: list[KeptMessage]) -> int:
    """Store a message once for all durable exchanges that still keep it; return the cost (`jobs.scheduler`)."""
    kept = [one for one in kept if one.number and not one.dropped]
    if not kept:
        return 0
    stored = kept[0].message
    stored.persistent = True
    journal.append([one.number for one in kept], [stored])
    for one in kept:
        one.message.id, one.message.persistent = stored.id, True
    return len(kept) + (len(stored.frames) >> STORE_SHIFT)
