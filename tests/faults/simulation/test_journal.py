"""Durable messages are not lost and durably settled ones do not return, whenever the machine stops.

Each seed is a few processes with a journal, with kills, power cuts, failing and full disks in between, in recoveries
too. Some worlds take backups, each of which has all that was stored at its moment, and nothing else. `make sim` runs
10,000 seeds (seeds.py).
"""

import errno
from collections.abc import Iterator

import pytest

from tests.faults.simulation.disk import Stopped
from tests.faults.simulation.doctor import check_shortened, check_sound
from tests.faults.simulation.journal_process import JournalProcess, World, stop_after
from tests.faults.simulation.seeds import each_seed
from warren.broker.storage import compaction, segment_reader

# The ends of processes, and their weights.
ENDS = {"kill": 1, "power": 1, "stopped": 2, "stopped without power": 4, "failing disk": 2, "full disk": 2, "close": 1}
FAILURES = {"failing disk": errno.EIO, "full disk": errno.ENOSPC}


@pytest.fixture(autouse=True)
def sizes() -> Iterator[None]:
    """Restore the slice sizes, which the simulation makes small."""
    before = compaction.SLICE_BYTES, segment_reader.READ_BYTES
    yield
    compaction.SLICE_BYTES, segment_reader.READ_BYTES = before


def cut(world: World, power: bool) -> None:
    """End the process; the disk becomes that of the next one, and the doctor finds no damage but what is done to it."""
    world.trace.append("power cut" if power else "killed")
    world.disk = world.disk.power_loss(world.random) if power else world.disk.crash()
    if power:
        world.metadata.power_loss(world.random)
    for check in (check_sound, check_shortened):
        check(world.disk, world.metadata.queues, world.metadata.highest)


def interrupted_start(world: World) -> None:
    """Interrupt a recovery, or make it fail; its result is not used."""
    stop_after(world.disk, world.random.choice((errno.EIO, errno.ENOSPC, None, None, None)))
    world.trace.append("a recovery is interrupted")
    try:
        JournalProcess(world).journal.recover(set(world.metadata.queues))
    except Stopped:
        pass
    except OSError as error:
        assert error.errno in (errno.EIO, errno.ENOSPC)
    cut(world, world.random.random() < 0.6)


def live(world: World, durable: int, end: str) -> int:
    """Run one process; return the batch that was durable at its end."""
    random = world.random
    process = JournalProcess(world)
    process.start(durable)
    failure = FAILURES.get(end)
    try:
        if failure is not None or end.startswith("stopped"):
            stop_after(world.disk, failure)
        process.run(random.choice((0, 5, 40, 150)))
        if random.random() < 0.2:
            process.empty()
        if random.random() < 0.2:
            process.delete_and_publish()
        if end == "close":
            process.finish()
    except Stopped:
        assert end.startswith("stopped")
    except OSError as error:
        assert error.errno == errno.EIO and failure is not None, "only a failed write or sync ends a node"
    process.leave()
    durable = process.journal.durable
    power = end in ("power", "stopped without power", "close") or failure is not None and random.random() < 0.5
    world.trace.append(f"end by {end}, {durable} durable, {process.workers.synced} synced")
    cut(world, power)
    process.forget_unsynced(power)
    return durable


def simulate(world: World) -> None:
    durable = 0
    for _ in range(world.random.randint(3, 5)):
        while world.random.random() < 0.15:
            interrupted_start(world)
        durable = live(world, durable, world.random.choices(list(ENDS), list(ENDS.values()))[0])
    process = JournalProcess(world)
    process.start(durable)
    process.finish()
    cut(world, True)
    last = JournalProcess(world)
    last.start(process.journal.durable)
    # A hole in unsynced data looks like damage: it is reported at each start until its segment is removed.
    news = [line for line in last.journal.report if line not in process.journal.report]
    assert not news, f"after a clean stop: {news}"
    last.check_index()


@each_seed(World)
def test_stops_at_any_moment(world: World) -> None:
    simulate(world)
