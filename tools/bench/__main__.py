"""The command line of the benchmark: python -m tools.bench [--memory | --confirms | --churn ...] [NAME=PORT ...]"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from tests.support.broker_process import NotStarted

from . import churn, latency, memory, report
from .backups import backups
from .bindings import MANY, bindings
from .churn import Figure
from .client import Connection, LoadFailed
from .confirms import QUEUE_TYPES, RATES_PER_S, Latency, confirms, disk
from .generator import Result, add_options, run
from .loads import LOADS, Load
from .memory import Demand
from .process import Broker, raise_open_files, warren
from .sink import sink


def main() -> int:
    options = _options()
    try:
        if options.self:
            _measure_self(options)
        elif options.memory:
            _measure_memory(options)
        elif options.bindings:
            _measure_bindings(options)
        elif options.latency:
            _measure_latency(options)
        elif options.churn:
            _measure_churn(options)
        elif options.backup:
            print(report.machine() + "\n")
            figures = backups(options.rounds, options.seconds, options.warmup)
            report.print_demands(("warren", demand) for demand in figures)
        elif options.confirms:
            _measure_confirms(options)
        else:
            return _compare(options)
    except (NotStarted, LoadFailed, OSError) as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description="Loads brokers, prints figures.")
    parser.add_argument(
        "brokers", nargs="*", type=Broker.parse, metavar="NAME=PORT[:PID]",
        help="brokers on 127.0.0.1 to compare with; with its pid, CPU time and memory are measured as well",
    )  # fmt: skip
    parser.add_argument("--no-start", action="store_true", help="only the brokers named, the first is compared with")
    parser.add_argument("--serve", default="", metavar="'OPTIONS'", help="more options for `warren serve`")
    add_options(parser)
    parser.add_argument(
        "--connections",
        type=int,
        default=memory.CONNECTIONS,
        metavar="COUNT",
        help="idle ones, of --memory and --latency",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes all runs there as well")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--memory", action="store_true", help="start-up time and memory instead of the loads")
    mode.add_argument("--bindings", type=int, nargs="?", const=MANY, metavar="COUNT", help="of one topic exchange")
    mode.add_argument(
        "--churn", nargs="?", const=",".join(churn.PARTS), metavar="PARTS",
        help=f"connections and objects that come and go, and many of them: some of {','.join(churn.PARTS)}",
    )  # fmt: skip
    mode.add_argument("--backup", action="store_true", help="the share of load D that is left during backups")
    mode.add_argument("--confirms", action="store_true", help="the latency of confirms of persistent messages")
    mode.add_argument("--latency", action="store_true", help="latency at fixed rates, beside idle connections")
    mode.add_argument("--self", action="store_true", help="what the load generator can do, against a sink")
    options = parser.parse_args()
    if options.no_start and not options.brokers:
        parser.error("--no-start needs a broker")
    if unknown := set(options.only.upper()) - {load.letter for load in LOADS}:
        parser.error(f"no such load: {', '.join(sorted(unknown))}")
    options.churn = (options.churn or "").split(",") if options.churn else []
    if other := set(options.churn) - set(churn.PARTS):
        parser.error(f"no such part: {', '.join(sorted(other))}")
    options.serve = shlex.split(options.serve)
    return options


def _chosen(options: argparse.Namespace) -> list[Load]:
    return [load for load in LOADS if not options.only or load.letter in options.only.upper()]


def _compare(options: argparse.Namespace) -> int:
    """Run each load on each broker in turn (A B A B ...), and print the medians."""
    runs: dict[str, dict[str, list[dict[str, float | None]]]] = {}
    failed = False
    with _brokers(options) as brokers:
        print(report.header(report.COLUMNS), flush=True)
        for load in _chosen(options):
            results: dict[str, list[Result]] = {broker.name: [] for broker in brokers}
            for _ in range(options.rounds):
                for broker in brokers:
                    try:
                        results[broker.name].append(run(load, broker, options.seconds, options.warmup))
                    except (LoadFailed, OSError) as reason:
                        print(f"bench: {load.title} on {broker.name}: {reason}", file=sys.stderr)
                        failed = True
            medians = {name: report.median(done) if done else None for name, done in results.items()}
            print("\n".join(report.load_rows(load, medians)), flush=True)
            runs[load.title] = {name: [asdict(result) for result in done] for name, done in results.items()}
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n")
    return int(failed)


@contextmanager
def _brokers(options: argparse.Namespace) -> Iterator[list[Broker]]:
    """The brokers of the options, by default the Warren of this checkout first; their versions are printed."""
    with ExitStack() as stack:
        brokers = [] if options.no_start else [stack.enter_context(warren(options.serve))]
        brokers += options.brokers
        _print_machine(brokers)
        yield brokers


def _print_figures(brokers: list[Broker], figures_of: Iterable[tuple[str, list[Figure | None]]]) -> None:
    """Print the figures of the brokers in turn, and their ratios, as they are measured."""
    columns = report.figure_columns([broker.name for broker in brokers])
    print(report.header(columns), flush=True)
    for what, figures in figures_of:
        print(report.row(columns, report.figure_cells(what, figures)), flush=True)


def _print_machine(brokers: list[Broker]) -> None:
    print(report.machine())
    for broker in brokers:
        connection = Connection(broker.port)
        print(f"{broker.name}: {connection.server}")
        connection.close()
    print()


def _measure_memory(options: argparse.Namespace) -> None:
    """Measure each figure of a new Warren, and of other brokers as they are."""
    raise_open_files(options.connections + memory.SPARE_FILES)
    if not options.no_start:
        with warren(options.serve):
            pass  # the first start after a change compiles, so it is not measured
    print(report.machine() + "\n")
    idle_connections = partial(memory.connections, count=options.connections)
    _print_demands(options, (memory.idle, idle_connections, memory.backlog))


def _measure_bindings(options: argparse.Namespace) -> None:
    """Measure durable and transient bindings, each on a Warren that was just started."""
    print(report.machine() + "\n")
    figures = {"seconds": options.seconds, "warmup_s": options.warmup, "many": options.bindings}
    _print_demands(options, [partial(bindings, durable=durable, **figures) for durable in (True, False)])


def _measure_churn(options: argparse.Namespace) -> None:
    """Measure each part on each broker in turn, and print the figures and their ratios."""
    raise_open_files(churn.IDLE_CONNECTIONS + churn.SPARE_FILES)
    with _brokers(options) as brokers:
        _print_figures(brokers, churn.compare(brokers, options.churn, options.rounds, options.seconds))


def _measure_latency(options: argparse.Namespace) -> None:
    """Measure each rate on each broker in turn, and print the figures and their ratios."""
    with _brokers(options) as brokers:
        figures = latency.compare(brokers, options.connections, options.rounds, options.seconds, options.warmup)
        _print_figures(brokers, figures)


def _measure_confirms(options: argparse.Namespace) -> None:
    """Measure the latency of confirms on each broker in turn, and that of the disk alone; print the medians."""
    with _brokers(options) as brokers:
        print(report.header(report.CONFIRM_COLUMNS), flush=True)
        for rate_per_s in RATES_PER_S:
            syncs: list[Latency] = []
            for queue_type in QUEUE_TYPES:
                found: dict[str, list[Latency]] = {broker.name: [] for broker in brokers}
                for _ in range(options.rounds):
                    syncs.append(disk())
                    for broker in brokers:
                        found[broker.name].append(
                            confirms(broker, rate_per_s, queue_type, options.seconds, options.warmup)
                        )
                for name, latencies in found.items():
                    print(report.confirm_row(f"{rate_per_s:,}/s, {queue_type}", name, latencies), flush=True)
            print(report.confirm_row("append and fdatasync", "the disk", syncs), flush=True)


def _print_demands(options: argparse.Namespace, checks: Iterable[Callable[[Broker], Iterator[Demand]]]) -> None:
    def measured() -> Iterator[tuple[str, Demand]]:
        for check in checks:
            with ExitStack() as stack:
                brokers = [] if options.no_start else [stack.enter_context(warren(options.serve))]
                for broker in brokers + options.brokers:
                    for demand in check(broker):
                        yield broker.name, demand

    report.print_demands(measured())


def _measure_self(options: argparse.Namespace) -> None:
    """Measure publishing and consuming separately, each against a sink: a broker must be slower than these rates."""
    print(report.machine() + "\n")
    print(report.header(report.COLUMNS), flush=True)
    for load in _chosen(options):
        halves = []
        if not load.rate_per_s:
            halves = [replace(load, name="publishing", consumers=0, figure="published_per_s")]
            if load.consumers:
                halves.append(replace(load, name="consuming", publishers=0))
        for half in halves:
            with sink() as broker:
                done = [run(half, broker, options.seconds, options.warmup) for _ in range(options.rounds)]
            print("\n".join(report.load_rows(half, {broker.name: report.median(done)})), flush=True)


if __name__ == "__main__":
    sys.exit(main())
