"""python -m tools.conformance [--broker warren|rabbitmq] [SUITE ...]"""

import argparse
import sys
import time
from pathlib import Path

from tests.support.checkout import ROOT

from .brokers import Broker, NotStarted, RabbitMQ, Warren
from .report import Run, keep, markdown, write
from .suite import Suite, Unavailable
from .suites import SUITES

BROKERS: dict[str, type[Broker]] = {broker.name: broker for broker in (Warren, RabbitMQ)}
FOLDER = ROOT / "build/conformance"


def main() -> int:
    names = {suite.name.lower(): suite for suite in SUITES}
    parser = argparse.ArgumentParser(prog="python -m tools.conformance", description="Suites of other clients.")
    parser.add_argument("--broker", choices=sorted(BROKERS), default=Warren.name, help="default: ours")
    parser.add_argument("--rabbitmq", type=Path, default=RabbitMQ.bin, help="folder of RabbitMQ's programs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for sources and reports")
    parser.add_argument("suites", metavar="SUITE", nargs="*", help=f"default all: {', '.join(names)}")
    options = parser.parse_args()
    unknown = [name for name in options.suites if name.lower() not in names]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}; there are {', '.join(names)}")
    RabbitMQ.bin = options.rabbitmq
    folder: Path = options.folder.resolve()
    runs = []
    try:
        for suite in [names[name.lower()] for name in options.suites] or SUITES:
            runs.append(run(suite, options.broker, folder))
            keep(folder, options.broker, runs[-1])
    except NotStarted as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 1
    write(folder, options.broker, runs)
    print(markdown(options.broker, runs))
    return 1 if any(run.unexplained() for run in runs) else 0


def run(suite: Suite, broker: str, folder: Path) -> Run:
    """Fetch the suite, start a broker for it, run it. Raises NotStarted."""
    ours = broker == Warren.name
    print(f"{suite.name} {suite.version} ...", file=sys.stderr, flush=True)
    try:
        prepared = suite.prepared(folder / "sources")
        with BROKERS[broker](folder / "runs" / f"{suite.name}-{broker}") as peer:
            product = peer.product()
            begin = time.monotonic()
            cases = suite.run(prepared, peer)
            return Run(suite, ours, cases, product=product, seconds=time.monotonic() - begin)
    except Unavailable as error:
        return Run(suite, ours, [], str(error))


if __name__ == "__main__":
    sys.exit(main())
