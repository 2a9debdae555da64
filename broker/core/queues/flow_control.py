"""Flow control of publishers: a queue holds them back while its consumers do not keep up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from .queue import Queue

# Publishers to a queue with consumers are held back above the first mark, until the queue falls to the second, in
# messages and in bytes: enough to keep a consumer busy for some milliseconds; little enough to bound memory and
# latency, and to stay in the processor's cache.
HOLD_ABOVE, HOLD_ABOVE_BYTES = 8_000, 4 << 20
RELEASE_BELOW, RELEASE_BELOW_BYTES = 2_000, 1 << 20


@mypyc_attr(allow_interpreted_subclasses=True)
class Publisher:
    """A publishing connection, as the queues see it that hold it back: a port that sessions implement."""

    __slots__ = ()

    @property
    def ended(self) -> bool:
        """True if the connection is closed; its consumers and exclusive queues are removed in slices."""
        return False

    def drained(self, queue: Queue) -> None:
        """Continue publishing: the queue has drained or was deleted."""
        raise NotImplementedError

    def disowned(self, queue: Queue) -> None:
        """Forget an exclusive queue of this connection, which was deleted."""


class HeldPublishers:
    """The publishers that are held back until one queue has drained."""

    __slots__ = ("_queue", "held")
    __deletable__ = ("_queue",)  # `Queue.break_cycles`

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.held: list[Publisher] = []

    def hold(self, publisher: Publisher) -> None:
        """Hold the publisher back, and call `Publisher.drained` when the queue has drained."""
        if publisher not in self.held:
            self.held.append(publisher)

    def forget(self, publisher: Publisher) -> None:
        """Remove a publisher that has closed."""
        if publisher in self.held:
            self.held.remove(publisher)

    def release_if_drained(self) -> None:
        """Release all if the queue has drained or has no consumers."""
        queue = self._queue
        content_bytes = queue.ready_messages.content_bytes
        if (queue.ready < RELEASE_BELOW and content_bytes < RELEASE_BELOW_BYTES) or not len(queue.consumers):
            self.release()

    def release(self) -> None:
        held = self.held
        self.held = []
        for publisher in held:
            publisher.drained(self._queue)
