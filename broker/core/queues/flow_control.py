"""Flow control of publishers: a queue holds them back while its consumers do not keep up."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from .route_target import RouteTarget

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

    def drained(self, queue: RouteTarget) -> None:
        """Continue publishing: the queue has drained or was deleted."""

    def disowned(self, queue: RouteTarget) -> None:
        """Forget an exclusive queue of this connection, which was deleted."""


class HeldPublishers:
    """The publishers that are held back until one queue has drained."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: list[Publisher] = []

    def hold(self, publisher: Publisher) -> None:
        """Hold the publisher back, and call `Publisher.drained` when the queue has drained."""
        if publisher not in self.held:
            self.held.append(publisher)

    def forget(self, publisher: Publisher) -> None:
        """Remove a publisher that has closed."""
        if publisher in self.held:
            self.held.remove(publisher)

    def release(self, queue: RouteTarget) -> None:
        """Release all publishers of the queue."""
        held = self.held
        self.held = []
        for publisher in held:
            publisher.drained(queue)
