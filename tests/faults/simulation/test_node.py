"""A whole node keeps its promises, whenever it stops: confirmed messages exist once, rejected ones do not.

Each seed is a few processes of a node with its clients, like those of the journal alone (test_journal.py).
"""

import errno

import pytest

from tests.faults.simulation.disk import Stopped
from tests.faults.simulation.doctor import check_sound
from tests.faults.simulation.journal_process import stop_after
from tests.faults.simulation.node_process import NodeProcess, SimulatedStore, World, set_small_sizes
from tests.faults.simulation.seeds import SEEDS, each_seed
from tests.faults.simulation.test_journal import FAILURES

ENDS = {"kill": 2, "power": 2, "stopped": 3, "failing disk": 2, "full disk": 2, "close": 1}


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small_sizes(monkeypatch, 1000)


def interrupted_start(world: World) -> None:
    """Interrupt a recovery, or make it fail; its result is not used."""
    world.disk.limit_bytes, world.disk.before = None, None
    stop_after(world.disk, world.random.choice((errno.EIO, errno.ENOSPC, None)))
    world.trace.append("a recovery is interrupted")
    try:
        SimulatedStore(world)
    except Stopped:
        pass
    except OSError as error:
        assert error.errno in (errno.EIO, errno.ENOSPC)
    world.disk = world.disk.crash()


def live(world: World, end: str) -> None:
    random = world.random
    world.disk.limit_bytes, world.disk.before = None, None
    process = NodeProcess(world)
    try:
        if end == "stopped" or end in FAILURES:
            stop_after(world.disk, FAILURES.get(end))
        for _ in range(random.choice((5, 30, 90))):
            process.commit() if random.random() < 0.4 else process.work()
            process.check_memory()
        process.receive()
        process.check_counters()
        if end == "close":
            process.stop()
    except Stopped:
        assert end == "stopped"
    except OSError as error:
        assert error.errno == errno.EIO and end in FAILURES
    durable = process.journal.durable
    world.unanswered = process.unanswered()
    power = end in ("power", "close") or random.random() < 0.5
    world.trace.append(f"end by {end}{' and power cut' if power else ''}, {durable} durable")
    world.disk = world.disk.power_loss(random) if power else world.disk.crash()
    if power:
        world.metadata.power_loss(random)
    definitions = world.metadata.load()
    check_sound(world.disk, definitions.numbers, definitions.next_queue - 1)
    world.now_ms = process.clock.now_ms() + random.choice((0, 100, 5000))
    world.model.restart(durable, end != "close")
    world.vhosts.durable = durable
    world.vhosts.synced = process.workers.synced if power and end != "close" else durable


def simulate(world: World) -> None:
    for _ in range(world.random.randint(1, 4)):
        while world.random.random() < 0.15:
            interrupted_start(world)
        live(world, world.random.choices(list(ENDS), list(ENDS.values()))[0])
    world.disk.limit_bytes, world.disk.before = None, None
    NodeProcess(world).drain()


@each_seed(World, SEEDS // 5)  # a process with a node takes as long as many with a journal
def test_a_node_stops_at_any_moment(world: World) -> None:
    simulate(world)
