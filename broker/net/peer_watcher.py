"""The watcher of sockets that are not read: an event loop notices a closed peer only by reading."""

import asyncio
import select
from collections.abc import Callable

LOOK_S = 2.0  # between two polls of all watched sockets
# Linux only. Without it only a connection that is closed in both directions is noticed.
PEER_CLOSED = getattr(select, "POLLRDHUP", 0)


class PeerCloseWatcher:
    """A poll of sockets for closed peers. Descriptors must be forgotten before they are closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, descriptor: int, closed: Callable[[], None]) -> None:
        """Call `closed` once, after the peer has closed its end or the connection has broken."""
        self._callbacks[descriptor] = closed
        self._poll.register(descriptor, PEER_CLOSED)
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _look(self) -> None:
        self._timer = None
        for descriptor, _ in self._poll.poll(0):
            closed = self._callbacks.get(descriptor)
            self.forget(descriptor)
            if closed is not None:
                closed()
        if self._callbacks:
            self._timer = self._loop.call_later(LOOK_S, self._look)
