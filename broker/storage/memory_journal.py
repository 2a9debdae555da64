"""A journal that stores nothing: confirms need not wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.messages.journal_port import Journal
from ..core.messages.message import Message

if TYPE_CHECKING:
    from ..core.metadata.records import Change


class MemoryJournal(Journal):
    durable = 0

    def ticket(self) -> int:
        return 0

    def append(self, queues: list[int], messages: list[Message]) -> None: ...

    def hold(self, id_: int) -> bool:
        return False

    def settle(self, queue: int, id_: int) -> None: ...

    def settle_many(self, queue: int, messages: list[Message]) -> None: ...

    def record_delivery_count(self, queue: int, id_: int, attempts: int) -> None: ...

    def queue_deleted(self, queue: int) -> None: ...

    def change(self, change: Change) -> None: ...

    def seal(self) -> None:
        return None

    def close(self) -> None: ...

    def committed(self, number: int) -> None:
        raise AssertionError("nothing was sealed")

    def read(self, ids: list[int], queue: int = 0) -> list[Message | None]:
        raise AssertionError("nothing was stored")

    def when_durable(self, ticket: int, fn: Callable[[], None]) -> None:
        raise AssertionError("there is nothing to wait for")
