"""The committer of a simulated process: the real one on the loop, with its workers as a source of the loop.

Batches are written in order and synced side by side, as the threads do: also within the sync of another one, where the
store is a server. A call that fails for lack of space or descriptors is made again later.
"""

from collections.abc import Callable
from math import inf
from typing import Any

from tests.faults.simulation.brokers.loop import SimulatedLoop, Source
from warren.broker.core.messages.journal_port import Batch, Journal
from warren.broker.runtime.commit_thread import RETRY_S, Committer, is_temporary

DISK_S = 0.01  # the longest call, when the disk is not slow


class SimulatedCommitter(Committer, Source):
    """The committer. The arguments after `loop` are those of the real one."""

    def __init__(self, loop: SimulatedLoop, journal: Journal, *callbacks: Any) -> None:
        in_flight, journal.in_flight = journal.in_flight, 0  # no threads
        super().__init__(journal, *callbacks)
        journal.in_flight = in_flight
        self._simulated = loop
        self._unwritten: list[Batch] = []
        self._unsynced: list[Batch] = []
        self._under_way: list[Batch] = []
        self._free_s = 0.0  # when the next call can be made
        self._broken = False
        self.synced: Callable[[], None] = lambda: None  # called after each sync
        loop.sources.append(self)

    @property
    def due_s(self) -> float:
        if self._broken or not (self._unwritten or self._unsynced or self._work.qsize()):
            return inf
        return self._free_s

    def run(self) -> None:
        """Write or sync one batch."""
        if self.due_s <= self._simulated.now_s:
            self.work()

    def work(self) -> None:
        """Write or sync a batch, unless all are under way."""
        loop = self._simulated
        while self._work.qsize():
            batch = self._work.get()
            assert batch is not None
            self._unwritten.append(batch)
        possible = [batch for batch in [*self._unwritten[:1], *self._unsynced] if batch not in self._under_way]
        if self._broken or not possible:
            return
        choice = loop.random.choice(possible)
        self._under_way.append(choice)
        self._free_s = loop.now_s + DISK_S * loop.random.random() ** 3
        try:
            if choice in self._unwritten:
                choice.write()
                self._unwritten.remove(choice)
                self._unsynced.append(choice)
            else:
                choice.sync()
                self._unsynced.remove(choice)
                loop.call_soon(self._done, choice, 0.001)
                self.synced()
        except OSError as error:
            loop.call_soon(self._raised, error)
            self._broken = not is_temporary(error)
            self._free_s = loop.now_s + RETRY_S
        finally:
            self._under_way.remove(choice)
