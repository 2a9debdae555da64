"""Backups of simulated brokers, which are compared with what clients know."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from tests.faults.simulation.backups import Backup
from tests.faults.simulation.brokers.broker import TYPES, Process
from tests.faults.simulation.brokers.features import EXTRA, SPREAD
from tests.faults.simulation.definitions import MemoryDefinitions
from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.node_process import SimulatedStore, number_of
from tests.support.clock import FakeClock
from warren.broker.app.build import build_node
from warren.broker.storage.archive import NoBackup

if TYPE_CHECKING:
    from tests.faults.simulation.brokers.model import Model
    from tests.faults.simulation.node_process import World


class TakenBackup(Backup):
    """A backup of the broker of a process. `random` is of its own."""

    def __init__(self, process: Process, model: Model, random: Random) -> None:
        self.process = process
        self.random = random
        self._model = model
        at = f"@{process.broker.name}"
        own = [copy for copy in model.copies.values() if copy.place.endswith(at) and not copy.links]
        self._stored = [copy for copy in own if copy.confirmed]
        self._consumed = [copy for copy in own if copy.sure and not model.comes_again(copy)]
        self._errors = self._count_errors()
        super().__init__(process.store.journal)
        process.loop.run_now(process.committer.commit_soon)

    def _count_errors(self) -> int:
        """Return how many calls to the disk have failed; none is counted of a server."""
        disk = self.process.broker.disk
        return disk.errors if isinstance(disk, SimulatedDisk) else 0

    def read(self) -> None:
        if self.begun:
            super().read()

    def check(self, places: dict[str, str], queues: Collection[str]) -> str:
        """Compare what is restored with what the broker had when the backup began; return what became of it.

        `places` are those of copies by queue, and `queues` must be there.
        """
        process, report = self.process, list[str]()
        try:
            disk, metadata = self.restored(self.random, MemoryDefinitions, report)
        except NoBackup as fault:
            unsafe = process.remote is not None or self.lost or self._count_errors() > self._errors
            assert unsafe, f"a backup was given up: {fault}"
            return f"was given up: {fault}"
        if not process.owns_store:
            return "is that of a former owner"
        world = SimpleNamespace(disk=disk, metadata=metadata, segment_bytes=process.broker.segment_bytes)
        store = SimulatedStore(cast("World", world))
        damage = [line for line in [*report, *store.segments.report] if line not in process.store.segments.report]
        assert not damage, f"damage in a backup: {damage}"
        found = self._found(store, places)
        model = self._model
        lost = [each for each in self._stored if each.certain and not each.consumed]
        lost = [each for each in lost if (each.place, each.number) not in found]
        assert not lost, f"a backup lacks {[f'{each.number} of {each.place}' for each in lost]}"
        back = [each for each in self._consumed if not model.comes_again(each) and (each.place, each.number) in found]
        assert not back, f"a backup has consumed messages: {[f'{each.number} of {each.place}' for each in back]}"
        clock = FakeClock(process.clock.now_ms())
        node = build_node(process.config, clock, store, registry=TYPES)
        missing = {*queues} - {*node.vhosts["/"].queues}
        assert not missing, f"a backup lacks the queues {missing}"
        return f"has {len(found)} messages"

    def _found(self, store: SimulatedStore, places: dict[str, str]) -> set[tuple[str, int]]:
        """Return place and number of each message."""
        assert store.definitions is not None
        names = {queue.number: queue.name for queue in store.definitions.queues}
        names |= {each.number: EXTRA for each in store.definitions.exchanges if each.name == SPREAD}  # delayed ones
        found: set[tuple[str, int]] = set()
        for number, ids in store.queues.items():
            messages = store.journal.read_all(list(ids), number)
            assert None not in messages, f"{names[number]} has unreadable messages in a backup"
            place = places.get(names[number])  # none of a queue of a link
            found |= {(place, number_of(each.body)) for each in messages if place is not None and each is not None}
        return found
