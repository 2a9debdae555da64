"""The store of a simulated broker on a simulated PostgreSQL server with its standby, which outlive its processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.faults.simulation.postgresql import (
    SimulatedDatabase,
    SimulatedServer,
    SimulatedTables,
    SimulatedTransactions,
)
from warren.broker.storage.postgresql.metadata import PostgreSQLMetadata
from warren.broker.storage.postgresql.operations import Operation

RETRY_S = (3.0, 30.0)


class OwnDatabase(SimulatedDatabase):
    """The sessions of one process, which may commit with its own `epoch` only."""

    def __init__(self, server: SimulatedServer, epoch: int) -> None:
        super().__init__(server)
        self._epoch = epoch

    def commit(self, session: int, epoch: int, number: int, operations: Sequence[Operation]) -> None:
        assert epoch == self._epoch, f"a broker with epoch {self._epoch} commits with that of another one, {epoch}"
        super().commit(session, epoch, number, operations)


class RemoteDisk(SimulatedTables):
    """The disk of one process. After `stopped` it does nothing any more."""

    torn = False  # a transaction is committed as a whole, or not at all

    @property
    def stopped(self) -> bool:
        return self.database.stopped

    @stopped.setter
    def stopped(self, stopped: bool) -> None:
        self.database.stopped = stopped


class RemoteStore:
    """The server of one broker."""

    def __init__(self, random: Random, now_s: Callable[[], float], trace: Callable[[str], None]) -> None:
        self.server = SimulatedServer(random, trace)
        self._retry_s = random.choice(RETRY_S)
        self._now_s = now_s
        self._epoch = 0  # of the last process that has taken it over

    @property
    def replaced(self) -> bool:
        """Whether another broker has owned the store since."""
        return self.server.state.epoch != self._epoch

    def take_over(self) -> tuple[RemoteDisk, PostgreSQLMetadata]:
        """Return disk and metadata of a new owner. An earlier one can commit nothing from now on."""
        self._epoch, commits = self.server.take_over()
        database = OwnDatabase(self.server, self._epoch)
        transactions = SimulatedTransactions(database, self._epoch, commits, self._retry_s, self._now_s)
        return RemoteDisk(database, transactions), PostgreSQLMetadata(database, transactions)
