"""A store on PostgreSQL as the daemon uses it: taken over at the start, watched while the broker runs."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from ..config import Config
from ..core.messages.journal_port import StorageStatus
from ..core.node.node import Node
from ..core.telemetry.resource_alarms import STORE
from ..net.fair_turns import OutputGuard
from ..storage.postgresql.address import parse
from ..storage.postgresql.store import PostgreSQLStore
from ..storage.postgresql.watch import Watch

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def open_remote(config: Config) -> PostgreSQLStore:
    """Connect to the configured store and verify it. Raises StorageFault, OSError."""
    storage = config.storage
    address = parse(storage.url, storage.password_file, storage.schema)
    return PostgreSQLStore(address, config.node, storage.lease_s)


class RemoteStorage(OutputGuard):
    """The watched store of a running node. The alarm of the store is set while nothing can be stored."""

    def __init__(self, store: PostgreSQLStore, node: Node, config: Config, lost: Callable[[Exception], None]) -> None:
        """Start to watch."""
        self._store = store
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._reason = ""  # why nothing can be stored now
        self._stored = node.replication.status  # apart from this reason
        self._warned = ""  # the last warning that was logged
        self._confirming = False  # the output may have confirms
        self._lost = lost
        self.expect_flush = lambda: None
        self._warn()
        self._watch = Watch(store, config.storage.retry_s, self._from_thread, self._lost_from_thread)
        self._watch.start()
        store.opened()

    def status(self) -> StorageStatus:
        status = self._stored()
        return replace(status, warning=self._reason) if self._reason else status

    def owned(self) -> bool:
        """Whether no other broker can own the store by now, and confirms may be added to the output in this turn."""
        certain = self._store.ownership.certain()
        if certain:
            self._confirming = True
            self.expect_flush()  # also if nothing is added: later output without confirms need not be dropped
        return certain

    def alone(self) -> bool:
        """Whether no other broker can act as the owner of the store."""
        return self._store.ownership.alone()

    def may_send(self) -> bool:
        """Whether no other broker can own the store by now, or the output has no confirms."""
        if not self._confirming or self._store.ownership.certain():
            return True
        log.warning("output_dropped", reason="the broker stood still for longer than its lease while it sent confirms")
        return False

    def sent(self) -> None:
        self._confirming = False

    def stop(self) -> None:
        self._watch.stop()

    def _from_thread(self, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._changed, reason)

    def _lost_from_thread(self, error: Exception) -> None:
        self._loop.call_soon_threadsafe(self._lost, error)

    def _changed(self, reason: str) -> None:
        if bool(reason) != bool(self._reason):
            log.error("store_unavailable", reason=reason) if reason else log.info("store_available")
        self._reason = reason
        if reason:
            self._node.alarms.set(STORE)
        else:
            self._node.alarms.clear(STORE)
            self._warn()

    def delayed(self) -> None:
        """Set the alarm at once after a commit that failed; the watch clears it."""
        self._changed(self._reason or "PostgreSQL cannot be reached")

    def _warn(self) -> None:
        """Log a guarantee that is weaker than it may seem, once."""
        guarantee = self._store.guarantee
        if guarantee.warning != self._warned:
            self._warned = guarantee.warning
            if guarantee.warning:
                log.warning("weak_guarantee", guarantee=guarantee.text, means=guarantee.warning)
