"""A journal that keeps nothing: every message is as durable as it will ever be the moment it is appended."""

from collections.abc import Callable

from ..core.message import Message
from ..core.ports import Journal


class MemoryJournal(Journal):
    durable = 0

    def ticket(self) -> int:
        return 0

    def append(self, queue: str, position: int, message: Message) -> None: ...

    def settle(self, queue: str, position: int) -> None: ...

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        raise AssertionError("there is nothing to wait for")
