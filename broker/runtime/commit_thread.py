"""The committer: the worker threads that make the journal's batches durable while the loop fills the next.

The loop seals a batch and passes it to a worker, which writes, syncs and calls back. Batches are written one at a time,
in the order of their numbers, and synced side by side. A batch is tried again if the disk is full or the system has no
descriptor or memory for it, and no later batch is written before. Any other failure is final, because what is on the
disk is unknown then: nothing is written or confirmed any more, and the process ends.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

from ..core.messages.journal_port import BEHIND, DISK_FULL, EXHAUSTED, FULL, Batch, Journal

FINISH_S = 5.0  # for jobs and dead letters, when the node stops: a container gets ten seconds for all
STOP_WAIT_S = 10.0  # for the last batch, when the node stops
RETRY_S = 1.0  # until a full disk is checked again
OWNED_S = 0.05  # until the owner of the journal is checked again
SYNC_S = 0.05  # until declarations without later messages are synced, and the last batch is vouched for


@dataclass(eq=False, repr=False)
class Committer:
    """The worker threads, which begin at once, with callbacks. Raises MemoryError without memory for the threads."""

    _journal: Journal
    _enough: Callable[[], bool]  # whether the disk has room, also after the unwritten bytes; may raise OSError
    _full: Callable[[bool], None]  # whether it has none: publishers stop while settlements can still be written
    _failed: Callable[[Exception], None]  # called once, with the error after which the journal is lost
    _took: Callable[[float], None] = lambda seconds: None  # for each batch
    _exhausted: Callable[[OSError], None] = lambda error: None  # a batch is repeated for lack of resources
    _owned: Callable[[], bool] = lambda: True  # False while another broker may own the store; confirms wait meanwhile

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._checking: asyncio.TimerHandle | None = None
        self._syncing: asyncio.TimerHandle | None = None
        self._work: SimpleQueue[Batch | None] = SimpleQueue()
        self._outstanding = 0  # batches
        self._lost = False  # the journal, after a final failure
        self._idle = asyncio.Event()
        self._idle.set()
        self._given_up = threading.Event()  # by a stop that did not wait any longer
        self._turn = threading.Condition()  # of the batch that may be written
        self._next = self._journal.durable + 1  # its number
        workers = range(self._journal.in_flight)
        self._threads = [threading.Thread(target=self._run, name="committer", daemon=True) for _ in workers]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            raise MemoryError(str(error)) from error

    def commit_soon(self) -> None:
        """Seal what was added to the journal, unless each worker has a batch.

        While the journal is behind, the disk is checked first: very many publishers could add more than it can take.
        HOT: bench D.
        """
        if self._lost:
            return
        if self._journal.room() == BEHIND:
            self._check_disk()
        if self._outstanding == self._journal.in_flight:
            return
        batch = self._journal.seal()
        if batch is not None:
            self._outstanding += 1
            self._idle.clear()
            self._work.put(batch)

    async def finish(self, work: Callable[[], bool]) -> None:
        """Call `work` in each turn of the loop until it returns True, and wait while the journal is behind.

        Give up after FINISH_S, while the disk is full, or if a batch takes too long, as `stop` does.
        """
        journal = self._journal
        until_s = self._loop.time() + FINISH_S
        while not work() and self._loop.time() < until_s and journal.room() != DISK_FULL:
            self.commit_soon()
            if journal.room() != BEHIND:
                await asyncio.sleep(0)
                continue
            caught_up = asyncio.Event()
            journal.when_durable(journal.ticket(), caught_up.set)
            try:
                await asyncio.wait_for(caught_up.wait(), STOP_WAIT_S)
            except TimeoutError:
                return

    async def stop(self) -> bool:
        """Make all that is buffered durable, and end the workers; return False if that takes too long.

        Nothing is outstanding when this returns: the last checkpoint says that the original of each copied message is
        dead, so the copy has to be in the log.
        """
        try:
            async with asyncio.timeout(STOP_WAIT_S):
                self.commit_soon()
                while not self._idle.is_set():
                    await self._idle.wait()
                    self.commit_soon()  # additions since the last batch ended
        except TimeoutError:
            self._given_up.set()
            return False
        for timer in (self._checking, self._syncing):  # closing the journal also syncs
            if timer is not None:
                timer.cancel()
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        return True

    # On the workers

    def _run(self) -> None:
        while (batch := self._work.get()) is not None:
            with self._turn:
                while self._next != batch.number:
                    self._turn.wait()
                begun_s = time.monotonic()
                if not self._completed(batch.write):
                    return  # and it stays the turn of this batch
                self._next += 1
                self._turn.notify_all()
            if not self._completed(batch.sync):
                return
            self._loop.call_soon_threadsafe(self._done, batch, time.monotonic() - begun_s)

    def _completed(self, call: Callable[[], None]) -> bool:
        """Make the call, again and again while the disk is full or something is exhausted; return False if it fails."""
        while True:
            try:
                call()
                return True
            except Exception as error:  # a bug too: without the worker nothing would be confirmed
                self._loop.call_soon_threadsafe(self._raised, error)
                if not is_temporary(error) or self._given_up.wait(RETRY_S):
                    return False

    # On the loop

    def _done(self, batch: Batch, seconds: float) -> None:
        if self._lost:
            return
        if not self._owned():
            self._loop.call_later(OWNED_S, self._done, batch, seconds)
            return
        self._took(seconds)
        self._outstanding -= 1
        self._check_disk()
        self._journal.committed(batch.number)
        self.commit_soon()
        if self._syncing is None and (self._journal.unsynced() or self._journal.unvouched()):
            self._syncing = self._loop.call_later(SYNC_S, self._sync)
        if not self._outstanding:
            self._idle.set()

    def _raised(self, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno in FULL:
            self._set_full(True)
        elif isinstance(error, OSError) and error.errno in EXHAUSTED:
            self._exhausted(error)
        else:
            self._lost = True
            self._failed(error)

    def _set_full(self, full: bool) -> None:
        self._journal.full = full
        self._full(full)

    def _sync(self) -> None:
        if self._syncing is not None:
            self._syncing.cancel()
            self._syncing = None
        self._journal.sync()
        if not self._outstanding:
            self._journal.vouch()
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
            self._set_full(not enough)
        if not enough:
            self._checking = self._loop.call_later(RETRY_S, self._check_again)

    def _check_again(self) -> None:
        self._check_disk()
        self._sync()


def is_temporary(error: Exception) -> bool:
    """Whether the call may be made again: the disk is full, or the system has no descriptor or memory."""
    return isinstance(error, OSError) and error.errno in (*FULL, *EXHAUSTED)
