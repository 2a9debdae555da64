"""Nothing that was durable is lost and nothing that was durably settled comes back, whenever the machine stops.

Each seed is a few lives of a journal, with kills, power cuts, failing and full disks in between, in recoveries too.
`make sim` runs 10,000 seeds. A failing seed is printed; WARREN_SIM_SEED=n runs that one alone and prints all it did.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.simulation.disk import Stopped
from tests.faults.simulation.life import Life, World, stop_after
from warren.broker.storage import compaction, segment_reader

SEEDS = int(os.environ.get("WARREN_SIM_SEEDS", "300"))
FIRST = int(os.environ.get("WARREN_SIM_FIRST", "1"))
ONLY = os.environ.get("WARREN_SIM_SEED")
BLOCK = 25  # seeds in one test
TRACE_LINES = 60  # of what happened before a failure

# How a life ends, and how often.
ENDS = {"kill": 1, "power": 1, "stopped": 2, "stopped without power": 4, "failing disk": 2, "full disk": 2, "close": 1}
FAILURES = {"failing disk": errno.EIO, "full disk": errno.ENOSPC}


@pytest.fixture(autouse=True)
def sizes() -> Iterator[None]:
    """The simulation makes slices small; afterwards they are what they were."""
    before = compaction.SLICE_BYTES, segment_reader.READ_BYTES
    yield
    compaction.SLICE_BYTES, segment_reader.READ_BYTES = before


def cut(world: World, power: bool) -> None:
    """The process is gone; the disk is what the next one finds."""
    world.trace.append("the power goes" if power else "killed")
    world.disk = world.disk.power_loss(world.random) if power else world.disk.crash()
    if power:
        world.metadata.power_loss(world.random)


def interrupted_start(world: World) -> None:
    """A recovery that does not come to its end, or fails; if it did, nobody has seen it."""
    stop_after(world.disk, world.random.choice((errno.EIO, errno.ENOSPC, None, None, None)))
    world.trace.append("a recovery is interrupted")
    try:
        Life(world).journal.recover(set(world.metadata.queues))
    except Stopped:
        pass
    except OSError as error:
        assert error.errno in (errno.EIO, errno.ENOSPC)
    cut(world, world.random.random() < 0.6)


def live(world: World, durable: int, end: str) -> int:
    """One life; what was durable at its end."""
    random = world.random
    life = Life(world)
    life.start(durable)
    failure = FAILURES.get(end)
    try:
        if failure is not None or end.startswith("stopped"):
            stop_after(world.disk, failure)
        life.run(random.choice((0, 5, 40, 150)))
        if end == "close":
            life.finish()
    except Stopped:
        assert end.startswith("stopped")
    except OSError as error:
        assert error.errno == errno.EIO and failure is not None, "only a failed write or sync ends a node"
    durable = life.journal.durable
    power = end in ("power", "stopped without power", "close") or failure is not None and random.random() < 0.5
    world.trace.append(f"end by {end}, {durable} durable, {life.synced} synced")
    cut(world, power)
    life.forget_unsynced(power)
    return durable


def simulate(world: World) -> None:
    durable = 0
    for _ in range(world.random.randint(3, 5)):
        while world.random.random() < 0.15:
            interrupted_start(world)
        durable = live(world, durable, world.random.choices(list(ENDS), list(ENDS.values()))[0])
    life = Life(world)
    life.start(durable)
    life.finish()
    cut(world, True)
    last = Life(world)
    last.start(life.journal.durable)
    # A hole in what was never synced cannot be told from damage: it is reported at each start until its segment goes.
    news = [line for line in last.journal.report if line not in life.journal.report]
    assert not news, f"after a clean stop: {news}"


@contextmanager
def told(world: World, seed: int) -> Iterator[None]:
    """A failure comes with its seed and what happened before it."""
    try:
        yield
    except BaseException as failure:
        lines = "\n".join(world.trace if ONLY else world.trace[-TRACE_LINES:])
        raise AssertionError(f"{lines}\nWARREN_SIM_SEED={seed}: {type(failure).__name__}: {failure}") from failure


@pytest.mark.parametrize("first", [int(ONLY)] if ONLY else range(FIRST, FIRST + SEEDS, BLOCK))
def test_stops_at_any_moment(first: int) -> None:
    for seed in range(first, first + 1 if ONLY else min(first + BLOCK, FIRST + SEEDS)):
        world = World(seed)
        with told(world, seed):
            simulate(world)
