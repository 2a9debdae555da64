"""Power cuts at each call to the disk, with two batches under way and segments that are compacted."""

from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.doctor import check_sound
from tests.faults.simulation.test_interleavings import append, bodies, opened
from warren.broker.core.messages.message import Message
from warren.broker.storage import compaction
from warren.broker.storage.journal import Batch, Journal

SEGMENT_BYTES = 900
ROUNDS = 14
LEFT = 9  # one in so many messages is not settled
CUTS = 6  # at each call: different parts of what is not synced are lost


class Scene:
    """A journal that stores messages and settles most of them, and what must be there when the power fails.

    appended, settled  by body, the batch of it
    """

    def __init__(self, synced_first: int) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.journal, _ = opened(self.disk, SEGMENT_BYTES)
        self.appended: dict[bytes, int] = {}
        self.settled: dict[bytes, int] = {}
        self.calls: set[str] = set()
        self._synced_first = synced_first
        self._ready: list[Message] = []  # to be settled with the next batch

    def run(self) -> None:
        self.disk.before = self._cut
        for _ in range(ROUNDS):
            batches = [batch for _ in range(2) if (batch := self._sealed()) is not None]
            for batch in batches:
                batch.write()
            for batch in batches if not self._synced_first else reversed(batches):
                batch.sync()
                self.journal.committed(batch.number)

    def _sealed(self) -> Batch | None:
        journal = self.journal
        for message in self._ready:
            journal.settle(1, message.id)
            self.settled[message.body] = journal.ticket()
        stored = append(journal, *[b"%02d" % (len(self.appended) + each) + b"x" * 90 for each in range(2)])
        self.appended.update((message.body, journal.ticket()) for message in stored)
        self._ready = [message for message in stored if int(message.body[:2]) % LEFT]
        return journal.seal()

    def _cut(self, what: str, name: str) -> None:
        self.calls.add(what)
        durable = self.journal.durable
        for seed in range(CUTS):
            disk = self.disk.power_loss(Random(seed))
            check_sound(disk, {1}, 1)
            after, pages = opened(disk, SEGMENT_BYTES)
            self._check(after, bodies(after, pages), durable, f"cut {seed} before {what} of {name}")

    def _check(self, journal: Journal, found: list[bytes], durable: int, cut: str) -> None:
        unknown = [body for body in found if body not in self.appended]
        assert not unknown and len(set(found)) == len(found), f"{cut}: {unknown} of {found}"
        assert found == sorted(found), f"{cut}: out of order"
        back = [body for body in found if self.settled.get(body, durable + 1) <= durable]
        assert not back, f"{cut}: {back} were settled"
        there = [body for body, batch in self.appended.items() if batch <= durable and body not in self.settled]
        assert not set(there) - set(found), f"{cut}: {set(there) - set(found)} are LOST"


@pytest.mark.parametrize("synced_first", [0, 1])
def test_confirmed_messages_survive_a_power_cut_at_any_call_and_settled_ones_do_not(
    monkeypatch: pytest.MonkeyPatch, synced_first: int
) -> None:
    monkeypatch.setattr(compaction, "SLICE_BYTES", 300)
    scene = Scene(synced_first)
    scene.run()
    assert scene.calls >= {"open", "write", "sync", "rename", "remove", "sync_folder", "read"}
    assert scene.journal.written_messages > len(scene.appended), "nothing was compacted"
