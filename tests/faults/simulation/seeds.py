"""The seeds of the simulations: first those of seeds.txt, which failed once, then a range of numbers.

WARREN_SIM_SEEDS is the length of that range and WARREN_SIM_FIRST its start; WARREN_SIM_MORE is the number of those of
whole brokers that only the rest of the tests has. WARREN_SIM_SEED=n runs only seed n; a failure then prints all steps.
A failure prints the line that keeps its seed: it is added to seeds.txt with the change that mends it. A kept seed
repeats its run until the simulation draws other numbers; from then on it is one like any.
"""

import os
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

KEPT = Path(__file__).with_name("seeds.txt")
SEEDS = int(os.environ.get("WARREN_SIM_SEEDS", "300"))
FIRST = int(os.environ.get("WARREN_SIM_FIRST", "1"))
ONLY = os.environ.get("WARREN_SIM_SEED")
BLOCK = 25  # seeds in one test
TRACE_LINES = 60  # before a failure


class Traced(Protocol):
    """A simulated world: `trace` has a line for each step."""

    trace: list[str]


W = TypeVar("W", bound=Traced)


def kept_seeds(test: str) -> list[int]:
    """The seeds in seeds.txt of this test, in their order. Raises ValueError for another line than `test seed why`."""
    lines = [line for line in KEPT.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    fields = [line.split(maxsplit=2) for line in lines]
    return [int(seed) for name, seed, _ in fields if name == test]


def each_seed(
    make: Callable[[int], W], count: int = SEEDS, block: int = BLOCK, after: int = 0
) -> Callable[[Callable[[W], None]], Callable[..., None]]:
    """Run a test with the world that `make` returns for each kept seed, and for `count` others, in blocks.

    The others begin `after` the first ones of the range.
    """

    def decorate(test: Callable[[W], None]) -> Callable[..., None]:
        def run_block(seeds: Sequence[int]) -> None:
            for seed in seeds:
                world = make(seed)
                try:
                    test(world)
                except BaseException as failure:
                    raise AssertionError(report(world.trace, test.__name__, seed, failure)) from failure

        numbers = range(FIRST + after, FIRST + after + count)
        kept = kept_seeds(test.__name__)
        blocks = [
            list(seeds[start : start + block]) for seeds in (kept, numbers) for start in range(0, len(seeds), block)
        ]
        blocks = [[int(ONLY)]] if ONLY else blocks
        return pytest.mark.parametrize("seeds", blocks, ids=lambda seeds: str(seeds[0]))(run_block)

    return decorate


def report(trace: list[str], test: str, seed: int, failure: BaseException) -> str:
    lines = "\n".join(trace if ONLY else trace[-TRACE_LINES:])
    return (
        f"{lines}\nWARREN_SIM_SEED={seed} repeats this: {type(failure).__name__}: {failure}\n"
        f"Keep the seed by this line in {KEPT.name}, and replace its end: {test} {seed} {date.today()} what failed"
    )
