"""`make failover`: the demands on a broker with a replicated store on PostgreSQL, each with its figures.

The exit status is 1 if one of them does not hold. --peer names a RabbitMQ to compare figures with, whose load is a
quorum queue of its cluster.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.postgresql import missing
from tools.bench.process import Broker

from . import figures, losses, refusals
from .outcome import Outcome, suite


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand by its number, and the measurements that show whether it holds."""

    number: int
    text: str
    measure: tuple[Callable[[argparse.Namespace], Outcome], ...]


def simulation(options: argparse.Namespace) -> Outcome:
    """Demand 6."""
    words = ("-n", str(os.cpu_count()), "-k", "postgresql")
    return suite("tests/faults/simulation", *words, WARREN_SIM_SEEDS=str(options.seeds))


DEMANDS = (
    Demand(
        1,
        "kill -9 of the active broker under 8 confirming publishers, 20 rounds: 0 confirmed lost, redelivered flagged,"
        " a standby serves within 3 s (median) with a backlog of 10,000",
        (lambda options: losses.killed_broker(options.rounds or 20, options.backlog),),
    ),
    Demand(
        2,
        "immediate stop of the primary and promotion of the synchronous standby, 10 rounds: 0 confirmed lost; with an"
        " asynchronous standby the status had said that it may",
        (
            lambda options: losses.killed_primary(options.rounds or 10),
            lambda options: losses.killed_primary_of_asynchronous_standby(),
        ),
    ),
    Demand(
        3,
        "SIGSTOP of the active broker for longer than the lease, then SIGCONT: it commits nothing and ends, 0 lost,"
        " none confirmed by both",
        (lambda options: losses.stopped_broker(options.rounds or 5, options.lease),),
    ),
    Demand(
        4,
        "PostgreSQL unreachable for 20 s: nothing confirmed meanwhile, nothing lost, publishers held and released",
        (lambda options: losses.unreachable_server(options.seconds or 20),),
    ),
    Demand(
        5,
        "disk of PostgreSQL full: publishers held, consumers go on, resumed by itself",
        (lambda options: losses.full_disk(options.seconds or 10),),
    ),
    Demand(6, "the simulated store covers this journal: 10,000 seeds", (simulation,)),
    Demand(
        7,
        "load D with one synchronous standby: at least 3 times the received rate of a quorum queue on three nodes",
        (lambda options: figures.rate(options.rounds or 5, options.seconds or 5, options.peer),),
    ),
    Demand(
        8,
        "p99 of a confirm at 500 messages a second: at most that of a quorum queue",
        (lambda options: figures.latency(options.rounds or 5, options.seconds or 5, options.peer),),
    ),
    Demand(
        9,
        "1,000,000 messages: a standby recovers in at most 20 s; the size on disk stays bounded over an hour of D",
        (
            lambda options: figures.recovery(options.messages),
            lambda options: figures.size(options.minutes, options.rate),
        ),
    ),
    Demand(
        10,
        "a role with rights on one schema is enough; a wrong version, a read-only server, missing rights: one line"
        " each",
        (lambda options: refusals.refusals(),),
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.failover.demands", description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, metavar="DEMAND", help="numbers of demands; default: all")
    parser.add_argument("--rounds", type=int, help="of each demand, in place of what it says")
    parser.add_argument("--seconds", type=float, help="of an outage, or of a window, in place of what the demand says")
    parser.add_argument("--backlog", type=int, default=10_000, help="messages of demand 1 (10000)")
    parser.add_argument("--lease", type=int, default=5, help="seconds of demand 3 (5)")
    parser.add_argument("--seeds", type=int, default=10_000, help="of demand 6 (10000)")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of demand 9 (1000000)")
    parser.add_argument("--minutes", type=float, default=60, help="of load D in demand 9 (60)")
    parser.add_argument("--rate", type=float, default=0, help="messages a second in these minutes (no limit)")
    parser.add_argument(
        "--peer", type=Broker.parse, metavar="NAME=PORT[:PID]", help="a broker to compare with in demands 7 and 8"
    )
    options = parser.parse_args()
    if reason := missing():
        print(f"NOTE: {reason}: nothing was measured")
        return 0
    holds = True
    for demand in DEMANDS:
        if options.numbers and demand.number not in options.numbers:
            continue
        print(f"{demand.number}  demanded: {demand.text}", flush=True)
        for measure in demand.measure:
            began_s = time.monotonic()
            outcome = measure(options)
            holds = holds and outcome.holds is not False
            took_s = time.monotonic() - began_s
            print(f"   measured: {outcome.text} ({took_s:.0f} s)\n   {outcome.verdict}", flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
