"""Each call to the disk fails, one per run, with EIO and with ENOSPC: no promise is broken."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import MemoryMetadata
from tests.faults.simulation.node_process import NodeProcess, World, set_small_sizes
from tests.faults.simulation.test_interleavings import message
from warren.broker.core.messages.journal_port import FULL
from warren.broker.core.messages.message import Message
from warren.broker.storage.disk import Disk
from warren.broker.storage.folder_disk import File, FileDisk
from warren.broker.storage.journal import Journal

if TYPE_CHECKING:
    from warren.broker.storage.metadata import Metadata

ERRORS = (errno.EIO, errno.ENOSPC)
# The calls of a file system: those of its files, and what the log in a folder has beside the calls of every disk.
METHODS = {
    name
    for kind, others in ((FileDisk, vars(Disk)), (File, {}))
    for name, each in vars(kind).items()
    if callable(each) and not name.startswith("_") and name not in others
} - {"reader"}  # which makes an object, and calls nothing
SEGMENT_BYTES = 400
ROUNDS = 11
PARTS = 2
STEPS = 140  # of a node
SELDOM = {"rename", "remove", "truncate", "names"}
TORN = b"the beginning of a record"


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_sizes(monkeypatch, 300)


class Ended(Exception):
    """The process ends, as the disk has failed."""


def tear(disk: SimulatedDisk) -> None:
    """Kill the process in the middle of a write."""
    name = max((name for name in disk.names() if name.endswith(".log")), default="")
    if name:
        disk.put(name, disk.content(name) + TORN)


class Scene:
    """Processes with a journal on a disk whose call number `fails_at`, from 0 on, fails.

    `there` are messages that must exist, `unsure` the bodies of those that may.
    """

    def __init__(self, error: int, fails_at: int) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.calls = 0
        self.failed = ""
        self.there: list[Message] = []
        self.unsure: list[bytes] = []
        self.stored = 0
        self._error = error
        self._fails_at = fails_at
        self._journal: Journal | None = None

    def run(self) -> None:
        work, settle = [self._work] * ROUNDS, [self._settle] * 6
        for step in (*work, self._tear, *work[:3], self._close, *settle, self._close):
            try:
                step(self._journal or self._start())
            except Ended:
                self._journal = None
        self._start()

    def _before(self, what: str, name: str) -> None:
        self.calls += 1
        if self.calls - 1 == self._fails_at:
            self.failed = what
            raise OSError(self._error, os.strerror(self._error), name)

    def _start(self) -> Journal:
        """Open and recover the journal; repeat it if that fails."""
        while True:
            self.disk = self.disk.crash()
            self.disk.before = self._before
            journal = Journal(self.disk, cast("Metadata", MemoryMetadata()), SEGMENT_BYTES)
            try:
                pages = list(journal.recover().get(1, []))
                break
            except OSError as error:
                assert error.errno in ERRORS
        read = [each for each in journal.read_all(pages) if each is not None]
        assert len(read) == len(pages), "one failure, and yet a message is unreadable"
        found = [each.body for each in read]
        expected = [each.body for each in self.there]
        assert [body for body in found if body not in self.unsure] == expected, "not what was promised"
        assert found == sorted(found), "out of order"
        self.there, self.unsure, self._journal = read, [], journal
        return journal

    def _work(self, journal: Journal) -> None:
        """Store two messages and settle one, so that most segments become empty or are compacted."""
        made = [message(b"%03d" % (self.stored + each) + b"x" * 60) for each in range(2)]
        self.stored += 2
        journal.append([1], made)
        self._commit(journal, made, self.there[1 : 1 + (len(self.there) > 3)])

    def _settle(self, journal: Journal) -> None:
        self._commit(journal, [], self.there[:4])

    def _commit(self, journal: Journal, made: list[Message], settled: list[Message]) -> None:
        for each in settled:
            journal.settle(1, each.id)
            self.there.remove(each)
        self.unsure += [each.body for each in made + settled]
        while (batch := journal.seal()) is not None:
            self._try(batch.write)
            self._try(batch.sync)
            journal.committed(batch.number)
        self.there += made
        self.unsure = []
        pages = [each.id for each in self.there]
        read = journal.read_all(pages)
        self.there = [each for each in read if each is not None]
        assert len(self.there) == len(pages), "one failure, and yet a message is unreadable"

    def _try(self, call: Callable[[], None]) -> None:
        """Make the call like the committer, which tries again if the disk is full, here once at most."""
        for _ in range(2):
            try:
                call()
                return
            except OSError as error:
                if error.errno not in FULL:
                    assert error.errno == errno.EIO
                    raise Ended from error
        raise AssertionError("one failure, and yet the second attempt fails as well")

    def _tear(self, journal: Journal) -> None:
        """Kill the process in the middle of a write."""
        self.disk.before = None
        tear(self.disk)
        raise Ended

    def _close(self, journal: Journal) -> None:
        try:
            journal.close()
        except OSError as error:
            assert error.errno in ERRORS
        raise Ended


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
def test_a_journal_keeps_its_promises_whichever_call_fails(error: int, part: int) -> None:
    failed: set[str] = set()
    fails_at = part
    while True:
        scene = Scene(error, fails_at)
        try:
            scene.run()
        except BaseException as failure:
            raise AssertionError(f"call {fails_at}, {scene.failed}: {failure}") from failure
        if fails_at >= scene.calls:
            break
        failed.add(scene.failed)
        fails_at += PARTS
    assert failed == METHODS or part, "the first part has all methods"


def fail(disk: SimulatedDisk, method: str, number: int, error: int) -> list[str]:
    """Make the call of this method with this number fail; return the list to which its file is added."""
    before, failed, calls = disk.before, [], 0

    def count(what: str, name: str) -> None:
        nonlocal calls
        calls += what == method
        if what == method and calls == number:
            failed.append(name)
            raise OSError(error, os.strerror(error), name)
        if before is not None:
            before(what, name)

    disk.before = count
    return failed


def run_processes(world: World, method: str, number: int, error: int) -> int:
    """Run processes of a node on one disk; return the number of those, starts included, in which such a call failed."""
    hits = 0
    for start in (False, True, False):
        failed = []
        try:
            world.disk.before = None
            if start:
                failed = fail(world.disk, method, (number + 1) // 2, error)
            process = NodeProcess(world)
        except OSError as raised:
            assert raised.errno in ERRORS and failed, "a start fails without a cause"
            world.disk = world.disk.crash()
            process = NodeProcess(world)
        if not start:
            failed = fail(world.disk, method, number, error)
        try:
            for _ in range(STEPS):
                process.commit() if world.random.random() < 0.5 else process.work()
            process.receive()
            process.check_counters()
        except OSError as raised:
            assert raised.errno == errno.EIO and failed, "only a disk that has failed ends a node"
        hits += len(failed)
        world.disk = world.disk.power_loss(world.random)
        tear(world.disk)
        world.metadata.power_loss(world.random)
        world.now_ms = process.clock.now_ms()
        world.model.restart(process.journal.durable, True)
        world.vhosts.durable, world.vhosts.synced = process.journal.durable, process.workers.synced
    world.disk.limit_bytes = None
    NodeProcess(world).drain()
    return hits


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_node_keeps_its_promises_whichever_call_fails(method: str, error: int) -> None:
    hits = 0
    for seed in range(1, 6):
        world = World(seed)
        world.budget_bytes = 0
        world.segment_bytes = 600
        try:
            hits += run_processes(world, method, 1 + seed % (2 if method in SELDOM else 8), error)
        except BaseException as failure:
            lines = "\n".join(world.trace[-40:])
            raise AssertionError(f"{lines}\nseed {seed}: {type(failure).__name__}: {failure}") from failure
    assert hits >= 2, "hardly any call has failed"
