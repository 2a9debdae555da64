"""The interface of observers of the topology. Federation, presence, management and the recorder are observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..metadata.change_observer import ChangeObserver

if TYPE_CHECKING:
    from ..exchanges.exchange import Exchange
    from ..messages.binding import Binding
    from ..queues.queue import Queue


class Observer(ChangeObserver):
    """Notified of each change of the topology and of stored settings, after it took effect."""

    def exchange_declared(self, exchange: Exchange) -> None: ...

    def exchange_deleted(self, exchange: Exchange) -> None: ...

    def queue_declared(self, queue: Queue) -> None: ...

    def queue_deleted(self, queue: Queue) -> None: ...

    def bound(self, vhost: str, binding: Binding) -> None: ...

    def unbound(self, vhost: str, binding: Binding) -> None: ...

    def consumers_changed(self, queue: Queue) -> None: ...

    def policy_changed(self, target: Queue | Exchange) -> None:
        """Another policy, or another version of it, applies to the target and is in effect."""
