"""What became of a publish."""

from __future__ import annotations


class EnqueueResult:
    """What became of messages that were published together: whether the journal has any of them to make durable, and
    which of them (by index) some queue refused."""

    __slots__ = ("stored", "refused")

    def __init__(self, stored: bool, refused: frozenset[int] = frozenset()) -> None:
        self.stored = stored
        self.refused = refused


DURABLE, ACCEPTED = EnqueueResult(True), EnqueueResult(False)
