"""The memory of responses that clients have not read."""

from __future__ import annotations

from types import TracebackType

from ...http.responses import HTTPError, not_now
from .quota import Quota

FREE_BYTES = 64 << 10  # of each response, which do not count, so that short ones are never refused


class Unread:
    """The bytes of one response, from when they are made until the client has read them.

    They count against the limits of the node and of the source address. A response alone may exceed them.
    """

    __slots__ = ("_counted", "_quota", "_size", "_source")

    def __init__(self, quota: Quota, source: str) -> None:
        self._quota = quota
        self._source = source
        self._size = 0
        self._counted = 0

    def __enter__(self) -> Unread:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._quota.release(self._source, self._counted)

    def check(self) -> None:
        """Raises HTTPError (503) if a longer response would be refused."""
        if not self._has_room(1):
            raise too_many()

    def grow(self, more: int) -> None:
        """Add bytes that were made. Raises HTTPError (503) if they are too many."""
        self.resize(self._size + more)

    def resize(self, size: int, refuse: bool = True) -> None:
        """Set the size of the response. Raises HTTPError (503) if it is too long, unless it must not be refused."""
        more = max(0, size - FREE_BYTES) - self._counted
        if more > 0 and refuse and not self._has_room(more):
            self.resize(0)  # at once, so that others need not be refused
            raise too_many()
        self._quota.add(self._source, more)
        self._counted += more
        self._size = size

    def _has_room(self, more: int) -> bool:
        return self._quota.has_room(self._source, more, self._counted)


def too_many() -> HTTPError:
    return not_now("too many bytes of responses wait for clients to read them")
