"""The committer: the worker thread that makes the journal's batches durable, one by one, while the loop fills the next.

The loop seals a batch and passes it to the worker, which writes, syncs and calls back. Nothing else is shared, so there
is no lock. A batch is tried again if the disk is full or the system has no descriptor or memory for it. Any other
failure is final, because what is on the disk is unknown then: nothing is confirmed any more, and the process ends.
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
RETRY_S = 1.0  # until a full disk is checked again
SYNC_S = 0.05  # until declarations without later messages are synced


class Committer:
    """The worker thread, with callbacks:

    enough     returns whether the disk has enough free space; may raise OSError
    full       called with True if it has not, so that publishers stop while settlements can still be written
    failed     called once with the error after which the journal is lost
    took       called with the duration of each batch in seconds
    exhausted  called with the error when a batch is tried again for lack of a descriptor or memory
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
        self._checking: asyncio.TimerHandle | None = None
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
        """Seal what was added to the journal, unless a batch is outstanding. HOT: bench D."""
        if self._outstanding:
            return
        batch = self._journal.seal()
        if batch is not None:
            self._outstanding = True
            self._idle.clear()
            self._work.put(batch)

    async def stop(self) -> bool:
        """Make all that is buffered durable, and end the worker; return False if that takes too long."""
        self.commit_soon()
        try:
            await asyncio.wait_for(self._idle.wait(), STOP_WAIT_S)
        except TimeoutError:
            return False
        if self._syncing is not None:  # closing the journal also syncs
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
            except Exception as raised:  # a bug too: without the worker nothing would be confirmed
                error = raised
            self._loop.call_soon_threadsafe(self._done, batch, error, time.monotonic() - begun_s)

    # On the loop

    def _done(self, batch: Batch, error: Exception | None, seconds: float) -> None:
        if error is None:
            self._took(seconds)
            self._outstanding = False
            self._check_disk()
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

    def check_disk(self) -> None:
        """Check the free space, after a change of the limit or from time to time; each batch does so too."""
        if not self._outstanding:
            self._check_disk()

    def _check_disk(self) -> None:
        """Check the free space, and again every RETRY_S while there is not enough or it is unknown."""
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None
        enough = False
        with suppress(OSError):  # the alarm stays as it is
            enough = self._enough()
            self._full(not enough)
        if not enough:
            self._checking = self._loop.call_later(RETRY_S, self._check_disk)
