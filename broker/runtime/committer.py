"""The one worker thread: it makes the journal's batches durable, one after the other, while the loop fills the next.

The loop seals a batch and hands it over; the worker writes and syncs it, and calls back. Nothing else is shared, so
there is no lock. A disk that is full is tried again, and so is a batch for which the system has no descriptor or memory
to spare; any other failure of a write or a sync is final, because nobody
can know what of it is on the disk: nothing is confirmed any more, and the node ends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from ..core.messages.ports import EXHAUSTED, FULL, Batch, Journal

STOP_WAIT_S = 10.0  # for the last batch, when the node stops
RETRY_S = 1.0  # until a full disk is looked at again
SYNC_S = 0.05  # until declarations that no message depends on are synced


class Committer:
    """`enough` says whether the disk has room to spare; it may raise OSError. `full` is told when it has not, so that
    nothing more comes in while there is still room to write what becomes of the messages that are there. `failed` is
    told, once, that the journal is lost. `took` is told how many seconds each batch needed, `exhausted` why a batch is
    tried again, as there was no descriptor or memory for it.
    """

    def __init__(
        self,
        journal: Journal,
        enough: Callable[[], bool],
        full: Callable[[bool], None],
        failed: Callable[[Exception], None],
        took: Callable[[float], None] = lambda seconds: None,
        exhausted: Callable[[OSError], None] = lambda error: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._journal = journal
        self._enough = enough
        self._full = full
        self._looking: asyncio.TimerHandle | None = None
        self._syncing: asyncio.TimerHandle | None = None
        self._failed = failed
        self._took = took
        self._exhausted = exhausted
        self._work: SimpleQueue[Batch | None] = SimpleQueue()
        self._outstanding = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    def commit_soon(self) -> None:
        """Something may have been added to the journal. HOT: bench D."""
        if self._outstanding:
            return
        batch = self._journal.seal()
        if batch is not None:
            self._outstanding = True
            self._idle.clear()
            self._work.put(batch)

    async def stop(self) -> bool:
        """Make all that has gathered durable, and end the worker. False when the disk does not take it in time."""
        self.commit_soon()
        try:
            await asyncio.wait_for(self._idle.wait(), STOP_WAIT_S)
        except TimeoutError:
            return False
        if self._syncing is not None:  # closing the journal syncs as well
            self._syncing.cancel()
        self._work.put(None)
        self._thread.join()
        return True

    # On the worker

    def _run(self) -> None:
        while (batch := self._work.get()) is not None:
            error: Exception | None = None
            begun_s = time.monotonic()
            try:
                batch.commit()
            except Exception as raised:  # also a bug of ours: a worker that ended silently would confirm nothing more
                error = raised
            self._loop.call_soon_threadsafe(self._done, batch, error, time.monotonic() - begun_s)

    # On the loop

    def _done(self, batch: Batch, error: Exception | None, seconds: float) -> None:
        if error is None:
            self._took(seconds)
            self._outstanding = False
            self._look()
            self._journal.committed(batch.number)
            self.commit_soon()
            if self._syncing is None and self._journal.unsynced():
                self._syncing = self._loop.call_later(SYNC_S, self._sync)
            if not self._outstanding:
                self._idle.set()
        elif isinstance(error, OSError) and error.errno in FULL:
            self._full(True)
            self._loop.call_later(RETRY_S, self._work.put, batch)
        elif isinstance(error, OSError) and error.errno in EXHAUSTED:
            self._exhausted(error)
            self._loop.call_later(RETRY_S, self._work.put, batch)
        else:
            self._failed(error)

    def _sync(self) -> None:
        self._syncing = None
        self._journal.sync()
        self.commit_soon()

    def look(self) -> None:
        """The limit has changed, or nothing was written for a while. After each batch we look anyway."""
        if not self._outstanding:
            self._look()

    def _look(self) -> None:
        """Is there room to spare? While there is not, or nobody knows, look again by and by."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        enough = False
        with suppress(OSError):  # the alarm stays as it is
            enough = self._enough()
            self._full(not enough)
        if not enough:
            self._looking = self._loop.call_later(RETRY_S, self._look)
