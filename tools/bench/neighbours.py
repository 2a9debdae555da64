"""The throughput that a broker has left for other clients while it is at one end of a busy link."""

import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from .client import LoadFailed
from .generator import Workers, run
from .loads import LOADS
from .memory import Demand
from .pairs import FEDERATED, LATENCY_RATE_PER_S, Pair, Place
from .progress import RUNNING

BESIDE = next(load for load in LOADS if load.letter == "A")
RATES = {f"{LATENCY_RATE_PER_S:,}/s": LATENCY_RATE_PER_S, "15,000/s": 15_000, "all it can": 0}
KEPT = 0.8  # the share of the throughput beside an idle link


def beside(pair: Pair, rounds: int, seconds: float, warmup_s: float) -> Iterator[tuple[str, Demand]]:
    """Measure the share of load A that is left at each end. Raises LoadFailed."""
    places = {"downstream": pair.down, "upstream": pair.up}
    if pair.up.peer is pair.down.peer:
        del places["upstream"]
    for end, place in places.items():
        idle: list[float] = []
        busy: dict[str, list[tuple[float, float]]] = {name: [] for name in RATES}
        for _ in range(rounds):
            with pair.linked(FEDERATED):
                idle.append(run(BESIDE, place.broker, seconds, warmup_s).received_per_s)
            for name, rate_per_s in RATES.items():
                with pair.linked(FEDERATED):
                    busy[name].append(_while_busy(pair, place, rate_per_s, seconds, warmup_s))
        for name, rates in busy.items():
            left = statistics.median(rate for rate, _ in rates) / statistics.median(idle)
            link = statistics.median(rate for _, rate in rates)
            what = f"load A {end}, link at {name} ({link:,.0f})"
            yield pair.name, Demand(what, left, KEPT, "", at_least=True)


def _while_busy(pair: Pair, place: Place, rate_per_s: float, seconds: float, warmup_s: float) -> tuple[float, float]:
    """Return the rates of load A and of the link."""
    workers = Workers(replace(FEDERATED, rate_per_s=rate_per_s), pair.up.broker, pair.down.broker)
    try:
        workers.wait_until_ready()
        workers.progress.phase = RUNNING
        workers.sleep(warmup_s)
        before, started_s = workers.progress.counted(workers.consumers), time.monotonic()
        rate = run(BESIDE, place.broker, seconds, warmup_s).received_per_s
        workers.check()
        carried = workers.progress.counted(workers.consumers) - before
        took_s = time.monotonic() - started_s
    except BaseException:
        with suppress(LoadFailed):  # the first failure is reported
            workers.stop()
        raise
    workers.stop()
    return rate, carried / took_s
