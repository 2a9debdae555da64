"""A tx.commit is whole or absent after a power cut.

All that a short one publishes and settles is one batch of the log; a long one is in several, beside what others do.
"""

from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from pamqp.commands import Queue, Tx

from tests.faults.simulation.disk import SimulatedDisk, Stopped
from tests.faults.simulation.metadata import MemoryMetadata
from tests.faults.simulation.node_process import TURN_COSTS, NodeProcess, World, set_small_sizes
from tests.loop_latency.broker import StepMeter, StoredPeer
from warren.broker.compilation import BUILD, COMPILED
from warren.broker.session import transaction
from warren.broker.session.methods import publish, tx
from warren.broker.storage.journal import Journal
from warren.broker.storage.metadata import Metadata

PUBLISHES, ACKS = 100, 30
PERSISTENT: dict[str, Any] = {"delivery_mode": 2}
FILES = ("00000001.log", "checkpoint")


def recovered(files: dict[str, bytes]) -> dict[int, int]:
    """Return how many messages each queue has after a start with these files of the log."""
    disk = SimulatedDisk(Random(1))
    for name, data in files.items():
        disk.put(name, data)
    found = Journal(disk, cast(Metadata, MemoryMetadata())).recover()
    return {queue: len(pages) for queue, pages in found.items()}


def test_a_short_commit_is_whole_or_absent_wherever_a_power_cut_tears_the_log(tmp_path: Path) -> None:
    peer = StoredPeer(StepMeter(), tmp_path)
    channel = peer.connect().channel()
    for queue in ("one", "two", "source"):
        channel.declare(queue, durable=True)
    for number in range(ACKS):
        channel.publish("", "source", b"%d" % number, PERSISTENT)
    peer.settle()
    log = tmp_path / "log"
    before = (log / FILES[0]).read_bytes()
    channel.transact()
    for number in range(PUBLISHES):
        channel.publish("", ("one", "two")[number % 2], b"%d" % number, PERSISTENT)
    for _ in range(ACKS):
        got = channel.get("source", no_ack=False)
        channel.ack(got.tag)
    channel.commit()
    peer.settle()
    data = (log / FILES[0]).read_bytes()
    files = {name: (log / name).read_bytes() for name in FILES}
    numbers = {queue.name: queue.number for queue in peer.node.vhosts["/"].queues.values()}
    peer.close()
    absent = {numbers["source"]: ACKS}
    whole = {numbers["one"]: PUBLISHES // 2, numbers["two"]: PUBLISHES // 2}
    assert (recovered(files | {FILES[0]: before}), recovered(files)) == (absent, whole)
    random = Random(1)
    for _ in range(30):
        start = random.randrange(len(before), len(data))
        end = random.choice((len(data), min(start + 512, len(data))))
        torn = data[:start] + random.choice((b"", bytes(end - start) + data[end:]))
        assert recovered(files | {FILES[0]: torn}) == absent, f"{start}..{end}"


LONG_PUBLISHES, LONG_ACKS, DEAD = 12, 6, 3
ABSENT = {"plain": LONG_ACKS, "refusing": DEAD, "timed": DEAD}
WHOLE = {"levels": LONG_PUBLISHES // 2, "counting": LONG_PUBLISHES // 2}


class BesideOthers:
    """A long commit of a node with small segments, and a client, one half of whose messages is acknowledged at once.

    calls  writes and syncs of files of the log since the commit was sent; the process ends in the last one
    """

    def __init__(self, last_call: int, seed: int) -> None:
        self.world = World(seed)
        self.world.turn_cost, self.world.segment_bytes, self.world.budget_bytes = TURN_COSTS[1], 800, 1 << 40
        self.process = NodeProcess(self.world)
        self.process.quiet = True
        self.calls = 0
        self._last_call = last_call
        self._others = self.process.publishers[0].channel
        committer = self.process.transacting
        for queue, messages in ABSENT.items():
            for _ in range(messages):
                self._others.publish("", queue, b"before", PERSISTENT)
        self.process.commit_all()
        for number in range(LONG_PUBLISHES):
            committer.publish("", ("levels", "counting")[number % 2], b"%d" % number, PERSISTENT)
        for queue, messages in ABSENT.items():
            for _ in range(messages):
                got = committer.get(queue, no_ack=False)
                committer.ack(got.tag) if queue == "plain" else committer.reject(got.tag, requeue=False)

    def run(self) -> bool:
        """Commit; return False if the process ended before the answer."""
        try:
            self.begin()
            while self.process.committing is not None:
                self.go_on()
        except Stopped:
            return False
        return True

    def begin(self) -> None:
        self.world.disk.before = self._count
        self.process.transacting.send(Tx.Commit)
        self.process.committing = []

    def go_on(self) -> None:
        self.publish()
        for _ in range(3):
            self.process.commit()
        self.process._turn()
        self.process.receive()

    def publish(self) -> None:
        """Publish two messages, one of which leaves at once: all segments have few that are live."""
        for _ in range(2):
            self._others.publish("", "brief", bytes(60), PERSISTENT)
        assert self._others.get("brief") is not None

    def _count(self, what: str, name: str) -> None:
        if what in ("write", "sync"):
            self.calls += 1
            if self.calls == self._last_call:
                raise Stopped

    def found(self, seed: int) -> dict[str, int]:
        """Return how many messages each queue has after a power cut."""
        metadata = self.world.metadata
        journal = Journal(self.world.disk.power_loss(Random(seed)), cast(Metadata, metadata))
        queues = journal.recover()
        assert not [line for line in journal.report if "torn end" not in line], "a stop is no damage"
        names = {queue.number: queue.name for queue in metadata.load().queues}
        return {names[number]: len(messages) for number, messages in queues.items()}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_long_commit_is_whole_or_absent_at_each_write_and_sync(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_sizes(monkeypatch, 1000)
    outcomes = set()
    for last_call in count(1):
        beside = BesideOthers(last_call, seed)
        answered = beside.run()
        for power in range(3):
            found = beside.found(power)
            found.pop("brief", None)
            whole = "plain" not in found
            # A rejected message that is dead-lettered is in either queue: its copy is stored after the commit.
            dead = found.pop("timed", 0), found.pop("dead", 0)
            assert dead == (DEAD, 0) or whole and sum(dead) == DEAD
            assert found == (WHOLE if whole else {"plain": LONG_ACKS, "refusing": DEAD}), f"in call {last_call}"
            assert whole or not answered, "the client was told of the commit"
            outcomes.add(whole)
        if answered:
            break
    assert len(outcomes) == 2


def test_a_full_disk_gets_room_while_a_long_commit_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_sizes(monkeypatch, 1000)
    beside = BesideOthers(0, 1)
    process, disk, scheduler = beside.process, beside.world.disk, beside.process.node.scheduler
    beside.begin()
    for _ in range(4):
        beside.go_on()
    for _ in range(30):
        beside.publish()
    for _ in range(60):
        process.commit()
    scheduler.disk_alarm(True)
    process.journal.full = True
    used_bytes = disk.used_bytes
    process.removing = []
    process.admin.send(Queue.Purge, queue="brief")
    process.commit_all()
    assert process.committing is not None and disk.used_bytes < used_bytes
    scheduler.disk_alarm(False)
    process.journal.full = False
    while not process.journal._settling and process._turn():
        pass
    scheduler.disk_alarm(True)
    process.journal.full = True
    process.commit_all()
    assert process.committing is None, "what is settled makes room"


def test_a_commit_that_becomes_long_while_it_settles_waits_for_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_sizes(monkeypatch, 1000)
    world = World(1)
    world.turn_cost, world.budget_bytes = TURN_COSTS[1], 1 << 40
    process = NodeProcess(world)
    for module in (tx, transaction):
        monkeypatch.setattr(module, "TURN_COST", 40)
    for _ in range(12):
        process.publishers[0].channel.publish("", "plain", b"before", PERSISTENT)
    process.commit_all()
    process.transacting.publish("", "levels", b"one", PERSISTENT)
    for _ in range(12):
        got = process.transacting.get("plain", no_ack=False)
        process.transacting.ack(got.tag)
    process.transacting.send(Tx.Commit)
    process.committing = []
    assert process.journal._settling or BUILD == COMPILED, "it is no job"
    process.node.scheduler.disk_alarm(True)
    process.journal.full = True
    process.commit_all()
    assert process.committing is None


def test_what_a_commit_has_done_before_it_fails_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_sizes(monkeypatch, 1000)
    beside = BesideOthers(0, 1)
    process, queues = beside.process, beside.process.node.vhosts["/"].queues
    beside.begin()
    for _ in range(4):
        beside.go_on()
    failures: list[str] = []
    monkeypatch.setattr(publish, "enqueue_in_steps", None)
    process.node.scheduler.report = lambda event, level, fields: failures.append(event)
    while not failures:
        process._turn()
    for _ in range(60):
        process.commit()
    found = beside.found(1)
    assert 0 < found["levels"] + found["counting"] == queues["levels"].ready + queues["counting"].ready < LONG_PUBLISHES
    assert found["plain"] == LONG_ACKS


def test_what_others_do_in_a_turn_of_a_long_commit_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_sizes(monkeypatch, 1000)
    beside = BesideOthers(0, 1)
    process = beside.process
    for queue in ["plain", *["timed"] * 60]:
        process.publishers[0].channel.publish("", queue, b"before", PERSISTENT)
    process.commit_all()
    got = process.transacting.get("plain", no_ack=False)
    process.transacting.nack(got.tag)  # so that the commit has all queues deliver, and dead-letter, in its turn
    timed = process.node.vhosts["/"].queues["timed"]
    beside.begin()
    while process.committing is not None:
        if (rejected := timed.get(False)) is not None:
            timed.reject(rejected[0], rejected[1])
        process._turn()
        for _ in range(3):
            process.commit()
        process.receive()
        found = beside.found(1)
        assert found.get("timed", 0) + found.get("dead", 0) == DEAD + 60
