"""The content of a message that went to several queues."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from .message_state import MessageState


@mypyc_attr(acyclic=True)
class SharedContent:
    """The content of a message that several queues got: each has the message, or a copy with a state of its own.

    The journal stores it once for all of those that keep its id only, if they have the message in the same state.
    """

    __slots__ = ("_page", "_page_values")

    def __init__(self) -> None:
        self._page = 0  # the id of the last record for no queue, which may be gone
        self._page_values: object = None

    def page(self, state: MessageState | None) -> int:
        """Return the id under which a message in this state was stored for no queue, or 0; it may be gone."""
        return self._page if self._page and values(state) == self._page_values else 0

    def paged(self, id_: int, state: MessageState | None) -> None:
        """Note that the message was stored for no queue, in this state."""
        self._page, self._page_values = id_, values(state)


def values(state: MessageState | None) -> object:
    return state.values() if state is not None else None
