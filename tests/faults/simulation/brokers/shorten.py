"""The shortest history that still fails: steps are dropped as long as the same check fails without them."""

import time
import traceback
from collections.abc import Sequence

from tests.faults.simulation.brokers.world import World

LIMIT_S = 60.0  # of processor time


class Shortened(AssertionError):
    """A failure with its shortened history, and the command that repeats it."""


def fault_of(world: World) -> BaseException | None:
    """Run a world, and return what has failed."""
    try:
        world.live()
    except Exception as error:
        return error
    return None


def check_of(error: BaseException) -> tuple[object, ...]:
    """Identify the check that has failed: the kind of the error, and where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), frame.filename, frame.lineno


def shorten(seed: int, error: BaseException, steps: Sequence[int]) -> tuple[list[int], BaseException, list[str]]:
    """Return the numbers of the steps that are left, with the failure and the trace of their run."""
    end_s = time.process_time() + LIMIT_S
    kept, trace = list(steps), World(seed).trace
    size = len(kept)
    while size:
        for start in range(len(kept) - size, -1, -size):
            if time.process_time() > end_s:
                return kept, error, trace
            fewer = kept[:start] + kept[start + size :]
            world = World(seed, fewer)
            failure = fault_of(world)
            if failure is not None and check_of(failure) == check_of(error):
                kept, error, trace = fewer, failure, world.trace
        size = min(size // 2, len(kept))
    return kept, error, trace
