"""The benchmark of federation links: python -m tools.bench.federation (README.md beside this file)."""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

from tests.support.broker_process import NotStarted

from . import report
from .client import LoadFailed
from .generator import Result, add_options
from .growth import far, shards
from .loads import Load
from .neighbours import beside
from .pairs import LATENCY_RATE_PER_S, LINKS, OURS, Pair, best, carried, pairs
from .spread import many_bindings, many_links

PARTS = ("links", "beside", "bindings", "many", "far", "shards")


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # which also ends the brokers
    try:
        print(report.machine() + "\n")
        with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
            if "links" in options.parts or "beside" in options.parts:
                with pairs(Path(folder)) as found:
                    _compare(found, options)
            if "bindings" in options.parts:
                report.print_demands(many_bindings(Path(folder, "bindings")))
            if "many" in options.parts:
                report.print_demands(many_links(Path(folder, "many")))
            for part, runs in (("far", far), ("shards", shards)):
                if part in options.parts:
                    rounds = [
                        runs(Path(folder, f"{part}-{number}"), options.seconds, options.warmup)
                        for number in range(options.rounds)
                    ]
                    _print_rates(rounds)
    except (NotStarted, LoadFailed, OSError, AssertionError) as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.federation", description="Loads links of federation.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)} (all)")
    add_options(parser)
    parser.add_argument("--pairs", default="", metavar="NAMES", help="these only: --pairs warren,rabbitmq")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes the runs of links there as well")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    options.parts = options.parts or PARTS
    return options


def _compare(found: list[Pair], options: argparse.Namespace) -> None:
    chosen = options.pairs.split(",") if options.pairs else [pair.name for pair in found]
    found = [pair for pair in found if pair.name in chosen]
    runs = {}
    if "links" in options.parts:
        print(report.header(report.COLUMNS), flush=True)
        for load in LINKS:
            if not options.only or load.letter in options.only.upper():
                runs[load.name] = _in_turn(load, found, options, paced=False)
        for load in (one for one in LINKS if not one.keys):
            if not options.only or load.letter in options.only.upper():
                paced = replace(load, name=f"{load.name} p50", rate_per_s=LATENCY_RATE_PER_S, figure="p50_ms", wanted=1)
                runs[paced.name] = _in_turn(paced, found, options, paced=True)
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n")
    if "beside" in options.parts:
        print()
        times = options.rounds, options.seconds, options.warmup
        report.print_demands(demand for pair in found for demand in beside(pair, *times))


def _in_turn(
    load: Load, found: list[Pair], options: argparse.Namespace, *, paced: bool
) -> dict[str, list[dict[str, float | None]]]:
    """Run a load on each pair in turn (A B A B ...), and print the medians."""
    run = carried if paced else best
    results: dict[str, list[Result]] = {pair.name: [] for pair in found}
    for _ in range(options.rounds):
        for pair in found:
            results[pair.name].append(run(load, pair, options.seconds, options.warmup))
    medians = {name: report.median(done) for name, done in results.items()}
    print("\n".join(report.load_rows(load, medians, OURS)), flush=True)
    return {name: [asdict(result) for result in done] for name, done in results.items()}


def _print_rates(rounds: Iterable[Iterable[tuple[str, Result]]]) -> None:
    """Print the medians of all rounds after the last one."""
    results: dict[str, list[Result]] = {}
    for what, result in chain.from_iterable(rounds):
        results.setdefault(what, []).append(result)
    print(report.header(report.RATE_COLUMNS), flush=True)
    for what, done in results.items():
        median = report.median(done)
        per_cpu = f"{median.per_cpu_s:,.0f}" if median.per_cpu_s else ""
        print(report.row(report.RATE_COLUMNS, [what, f"{median.received_per_s:,.0f}", per_cpu]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
