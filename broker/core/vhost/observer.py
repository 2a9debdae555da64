"""The observers of a node's topology and stored settings: federation, presence, management, the recorder, events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..metadata.records import ChangeObserver

if TYPE_CHECKING:
    from ..exchanges.exchange import Exchange
    from ..messages.binding import Binding
    from ..metadata.records import Change
    from ..queues.queue import Queue


class Observer(ChangeObserver):
    """An observer of changes of the topology and of stored settings. It is notified after each took effect."""

    def exchange_declared(self, exchange: Exchange) -> None: ...

    def exchange_deleted(self, exchange: Exchange) -> None: ...

    def queue_declared(self, queue: Queue) -> None: ...

    def queue_deleted(self, queue: Queue) -> None: ...

    def binding_added(self, vhost: str, binding: Binding) -> None: ...

    def binding_removed(self, vhost: str, binding: Binding) -> None: ...

    def consumers_changed(self, queue: Queue) -> None: ...

    def policy_changed(self, target: Queue | Exchange) -> None:
        """Another policy, or a changed one, now applies to the target."""


class Observers(ChangeObserver):
    """The observers of a node, in the order in which they were added. Each is notified of each change."""

    __slots__ = ("_observers",)

    def __init__(self) -> None:
        self._observers: tuple[Observer, ...] = ()

    def __len__(self) -> int:
        return len(self._observers)

    def __contains__(self, observer: object) -> bool:
        return observer in self._observers

    def __iter__(self) -> Iterator[Observer]:
        return iter(self._observers)

    def add(self, *observers: Observer) -> None:
        """Notify these observers too, from the next notification on."""
        self._observers += observers

    def remove(self, observer: Observer) -> None:
        """Do not notify this observer any more. ValueError if it was not added."""
        at = self._observers.index(observer)
        self._observers = self._observers[:at] + self._observers[at + 1 :]

    def configured(self, change: Change) -> None:
        for observer in self._observers:
            observer.configured(change)
