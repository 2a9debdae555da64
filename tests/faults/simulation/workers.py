"""The committer of a simulated process: batches are written in order, and synced side by side.

Everything happens in one thread. A process calls `step` also between the calls of a worker to the disk, so the other
worker writes and syncs while the sync of the first runs.
"""

import errno
from collections.abc import Callable
from random import Random

from warren.broker.core.messages.journal_port import EXHAUSTED
from warren.broker.storage.journal import Batch, Journal


class Workers:
    """The workers of one journal.

    synced     the last batch up to which all is safe from a power cut
    moment     the last batch with the moment of a backup at its end
    committed  called after the journal was notified of a batch
    delayed    called with the error when a batch is to be tried again
    active     a worker is in a call to the disk, and the loop is not
    """

    def __init__(
        self,
        journal: Journal,
        random: Random,
        trace: Callable[[str], None],
        committed: Callable[[], None],
        delayed: Callable[[OSError], None],
    ) -> None:
        self.synced = self.moment = 0
        self.active = False
        self._journal = journal
        self._random = random
        self._trace = trace
        self._on_committed = committed
        self._on_delayed = delayed
        self._unwritten: list[Batch] = []
        self._unsynced: list[Batch] = []
        self._done: list[Batch] = []  # synced, and the loop has not been notified
        self._outstanding: list[Batch] = []  # all of them
        self._running: list[Batch] = []  # calls under way, each within the one before
        self._sealed = 0  # number of the last batch
        self._failure: OSError | None = None

    def step(self) -> bool:
        """Take one of the possible steps: seal, write, sync, or notify the loop. Return False if nothing is left to do.

        Raises OSError after a failure that is final, once no call is under way.
        """
        steps: list[Callable[[], None]] = [self._seal]
        if self._unwritten and self._unwritten[0] not in self._running:
            steps.append(self._write)
        if any(batch not in self._running for batch in self._unsynced):
            steps.append(self._sync)
        if self._done:
            steps.append(self._committed)
        if self._failure is None:
            self._random.choice(steps)()
        if self._failure is not None and not self._running:
            while self._done and self._random.random() < 0.7:  # they may have ended before the failure
                self._committed()
            raise self._failure
        return len(self._outstanding) > 0

    def finish(self) -> None:
        """Take steps until everything is durable."""
        for _ in range(3000):
            if not self.step():
                self._seal()
                if not self._outstanding:
                    return
        raise AssertionError("the journal never stops writing")

    def _seal(self) -> None:
        batch = self._journal.seal()
        if batch is not None:
            self._trace(f"seal {batch.number}")
            self._sealed = batch.number
            if batch.moment is not None:
                self.moment = batch.number
            self._unwritten.append(batch)
            self._outstanding.append(batch)
            assert len(self._outstanding) <= self._journal.in_flight, "too many batches are outstanding"
            assert len({each.segment.number for each in self._outstanding}) == 1, "of two segments"

    def _write(self) -> None:
        batch = self._unwritten[0]
        if self._call("write", batch, batch.write):
            self._unwritten.remove(batch)
            self._unsynced.append(batch)

    def _sync(self) -> None:
        batch = self._random.choice([batch for batch in self._unsynced if batch not in self._running])
        if self._call("sync", batch, batch.sync):
            self._unsynced.remove(batch)
            self._done.append(batch)

    def _call(self, name: str, batch: Batch, call: Callable[[], None]) -> bool:
        self._trace(f"{name} {batch.number}")
        self._running.append(batch)
        before, self.active = self.active, True
        try:
            call()
            self._trace(f"end of {name} {batch.number}")
            return True
        except OSError as error:
            self._trace(f"{name} {batch.number} failed: {error.strerror}")
            if error.errno in (errno.ENOSPC, *EXHAUSTED):
                self._on_delayed(error)
            else:
                self._failure = error
            return False
        finally:
            self._running.remove(batch)
            self.active = before

    def _committed(self) -> None:
        batch = self._done.pop(self._random.randrange(len(self._done)))
        journal = self._journal
        journal.committed(batch.number)
        waiting = [*self._unwritten, *self._unsynced, *self._done]
        first = min([each.number for each in waiting], default=self._sealed + 1)
        assert journal.durable == first - 1, "durable before an earlier batch is, or not though all are"
        while self._outstanding and self._outstanding[0].number <= journal.durable:
            durable = self._outstanding.pop(0)
            if durable.syncs:
                self.synced = durable.number
        self._trace(f"committed {batch.number}, {journal.durable} durable")
        self._on_committed()
