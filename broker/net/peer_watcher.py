"""Watcher of sockets that are not read: an event loop notices the end of a stream by reading only."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

LOOK_S = 2.0  # one system call for all that are watched
# Where the system tells a peer's end without a read; elsewhere only a socket that is broken both ways is seen.
ENDED = getattr(select, "POLLRDHUP", 0)


class PeerCloseWatcher:
    """Notices that peers have closed, by polling. Descriptors must be forgotten before they are closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._poll = select.poll()
        self._gone: dict[int, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, descriptor: int, gone: Callable[[], None]) -> None:
        """Call `gone` once, when the peer has closed its end or the connection has broken."""
        self._gone[descriptor] = gone
        self._poll.register(descriptor, ENDED)
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor."""
        if self._gone.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _look(self) -> None:
        self._timer = None
        for descriptor, _ in self._poll.poll(0):
            gone = self._gone.get(descriptor)
            self.forget(descriptor)
            if gone is not None:
                gone()
        if self._gone:
            self._timer = self._loop.call_later(LOOK_S, self._look)
