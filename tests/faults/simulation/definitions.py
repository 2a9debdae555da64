"""Definitions that survive a killed process once `apply` has returned, and a power cut once `sync` has."""

from random import Random

from tests.faults.simulation.metadata import rows_of
from warren.broker.core.metadata.records import Change, Definitions, Record, StoredExchange, StoredQueue, StoredVHost
from warren.broker.storage.metadata import RowsOfMoment

LISTS = {
    "StoredVHost": ("vhosts", ("name",)),
    "StoredUser": ("users", ("name",)),
    "StoredPermission": ("permissions", ("user", "vhost")),
    "StoredParameter": ("parameters", ("vhost", "component", "name")),
    "StoredGlobalParameter": ("global_parameters", ("name",)),
    "StoredExchange": ("exchanges", ("vhost", "name")),
    "StoredQueue": ("queues", ("vhost", "name")),
    "StoredBinding": ("bindings", ("vhost", "source", "kind", "destination", "routing_key", "arguments")),
}
Records = dict[tuple[str, ...], Record]


class MemoryDefinitions:
    def __init__(self) -> None:
        self._records: Records = {}
        self._highest = 0  # number that a queue or an exchange has had
        self._since: list[tuple[Records, int]] = []  # their states since the last sync

    def apply(self, changes: list[Change]) -> None:
        self._since.append((dict(self._records), self._highest))
        for change in changes:
            kind = type(change.record).__name__
            key = (kind, *[str(getattr(change.record, field)) for field in LISTS[kind][1]])
            self._records.pop(key, None)
            if change.put:
                self._records[key] = change.record
                if isinstance(change.record, StoredQueue | StoredExchange):
                    self._highest = max(self._highest, change.record.number)
            elif isinstance(change.record, StoredVHost):  # with all that is in it
                name = change.record.name
                self._records = {
                    key: each for key, each in self._records.items() if getattr(each, "vhost", None) != name
                }

    unsynced = True

    def sync(self) -> None:
        self._since = []

    def power_loss(self, random: Random) -> None:
        """Lose any number of the last transactions."""
        self._records, self._highest = random.choice([*self._since, (self._records, self._highest)])
        self._since = []

    def load(self) -> Definitions:
        loaded = Definitions(next_queue=self._highest + 1)
        for (kind, *_), record in self._records.items():
            getattr(loaded, LISTS[kind][0]).append(record)
        return loaded

    def moment(self) -> RowsOfMoment:
        return rows_of(self.load())
