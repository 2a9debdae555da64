"""Whole brokers and their links keep their promises, whatever breaks: seeds of worlds in virtual time.

Each seed is two or three brokers in one process with federated exchanges and queues, on simulated disks and a simulated
network; some have their stores on a simulated PostgreSQL. Nothing is lost, repeated or reordered but as the ack mode of
the links allows; in the end each link exists once, all queues are empty, and all counters are 0. Some worlds export
what happens to messages; their events are what has happened (`exported`). Most use a feature of queues or exchanges
(`features`). An owner of a store on PostgreSQL that is cut off from it or stands still loses it to a standby.
"""

import gc
import os
import subprocess
import sys
from hashlib import sha256

import pytest

from tests.faults.simulation.brokers.shorten import Shortened, fault_of, shorten
from tests.faults.simulation.brokers.world import World, set_small_costs
from tests.faults.simulation.node_process import set_small_sizes
from tests.faults.simulation.seeds import SEEDS, each_seed
from warren.broker.runtime import password_hashing

# What a killed process leaves goes to the garbage collector: a file that its writer was opening, and jobs, whose last
# steps find their loop closed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*_io.FileIO.*mode='wb':pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*<generator object:pytest.PytestUnraisableExceptionWarning"),
]

STEPS = os.environ.get("WARREN_SIM_STEPS")  # the numbers of the steps that a failure has printed
GATE_SEEDS = SEEDS  # usually 300
REST_SEEDS = int(os.environ.get("WARREN_SIM_MORE", min(200 * SEEDS // 3, 20_000 + SEEDS)))  # usually 20,000


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    set_small_sizes(monkeypatch, 1000)
    if "with_turns_as_they_are" not in request.node.name:
        set_small_costs(monkeypatch)
    monkeypatch.setattr(password_hashing, "MEMORY_KIB", 8)
    monkeypatch.setattr(password_hashing, "PASSES", 1)


def world_of(seed: int) -> World:
    return World(seed, [int(number) for number in STEPS.split(",")] if STEPS else None)


def live(world: World) -> None:
    """Run a world; if it fails, raise the failure of the shortest history that fails in the same way."""
    error = fault_of(world)
    if error is None:
        return
    if STEPS is None:
        steps, error, trace = shorten(world.seed, error, [number for number, _ in world.steps])
        world.trace[:] = trace or world.trace
        numbers = ",".join(str(number) for number in steps)
        command = f"WARREN_SIM_SEED={world.seed} WARREN_SIM_STEPS={numbers} python -m pytest -q {__file__}"
        raise Shortened(f"{error}\nThe shortest history: {command}") from error
    raise error


@each_seed(world_of, GATE_SEEDS, block=1)
def test_brokers_and_links_keep_their_promises(world: World) -> None:
    live(world)


@pytest.mark.rest("runs more seeds")
@each_seed(world_of, REST_SEEDS, after=GATE_SEEDS)
def test_brokers_and_links_keep_their_promises_with_more_seeds(world: World) -> None:
    live(world)


@pytest.mark.rest("runs more seeds")
@each_seed(world_of, 5 * SEEDS // 6, after=GATE_SEEDS + REST_SEEDS)
def test_brokers_and_links_keep_their_promises_with_turns_as_they_are(world: World) -> None:
    live(world)


def trace_of(seed: int) -> str:
    gc.collect()  # the last steps of jobs of earlier worlds are not made during this one
    world = World(seed)
    error = fault_of(world)
    return sha256("\n".join([*world.trace, str(error)]).encode()).hexdigest()


def test_the_same_seed_gives_the_same_run() -> None:
    assert trace_of(8) == trace_of(8)


@pytest.mark.rest("starts processes")
def test_a_seed_gives_the_same_run_in_each_process() -> None:
    program = f"from {__name__} import trace_of; print(sorted((seed, trace_of(seed)) for seed in {{}}))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", program.format(seeds)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True, check=True, text=True, timeout=120,
        ).stdout.splitlines()[-1]  # after warnings, which have the time
        for hash_seed, seeds in (("1", "range(12)"), ("2", "reversed(range(12))"))
    ]  # fmt: skip
    assert runs[0] == runs[1]
