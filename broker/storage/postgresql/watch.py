"""The watch of an owner over its store: a thread that writes the heartbeat and notices the loss of the server."""

import errno
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ConfirmedLost
from . import durability
from .database import COMMITS, READS
from .errors import Refused, Unreachable
from .ownership import BEAT_S
from .store import PostgreSQLStore
from .transactions import NOT_OWNER

STALL_S = 5.0  # after which a commit that waits for a standby server stops publishers
GUARANTEE_BEATS = 5  # between two checks of the settings of the server
DISK_FULL = "53100"


@dataclass(eq=False, repr=False)
class Watch:
    """The watch over a store, from `start` to `stop`. Its callbacks run in its thread."""

    _store: PostgreSQLStore
    _retry_s: float
    _changed: Callable[[str], None]  # called each beat, with the reason why nothing can be stored now, or an empty text
    _lost: Callable[[Exception], None]  # called once, with the error after which this broker no longer owns the store

    def __post_init__(self) -> None:
        self._failing_s: float | None = None  # since when
        self._beats = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            try:
                self._changed(self._beat())
            except Exception as error:  # a bug too: without heartbeats another broker takes over
                self._lost(error)
                return

    def _beat(self) -> str:
        """Write the heartbeat; return the reason why nothing can be stored, or "". Raises OSError, which is final."""
        store = self._store
        certain = store.transactions.certain
        try:
            owner = store.ownership.beat(certain)
            stored = store.ownership.committed()
            store.database.connect(READS)
            if self._beats % GUARANTEE_BEATS == 0:
                store.guarantee = durability.read(store.database)
            self._beats += 1
        except (Unreachable, Refused) as error:
            if isinstance(error, Refused) and error.sqlstate == DISK_FULL:
                return ""  # the commits report it
            return self._unreachable(error)
        if stored < certain:
            raise ConfirmedLost(stored, certain)
        if not owner:
            raise OSError(NOT_OWNER, "another broker has taken the store over")
        self._failing_s = None
        since_s = store.transactions.since_s
        if store.transactions.failing:
            return "PostgreSQL cannot be reached"
        if since_s is not None and time.monotonic() - since_s > STALL_S:
            return "PostgreSQL does not commit, maybe for want of a synchronous standby"
        return ""

    def _unreachable(self, error: Exception) -> str:
        now_s = time.monotonic()
        self._failing_s = self._failing_s if self._failing_s is not None else now_s
        if now_s - self._failing_s > self._retry_s:
            raise OSError(errno.EIO, f"PostgreSQL could not be reached for {self._retry_s:g} s: {error}") from error
        self._store.database.abandon(COMMITS)  # its commit would wait for an answer for ever
        return f"PostgreSQL cannot be reached: {error}"
