"""python -m tools.conformance [--broker warren|rabbitmq] [SUITE ...]"""

import argparse
import sys
from pathlib import Path

from tests.support.checkout import ROOT

from .amqp091_go import Amqp091Go
from .amqplib import Amqplib
from .amqpstorm import AMQPStorm
from .brokers import NotStarted, RabbitMQ, Warren
from .bunny import Bunny
from .kombu import Kombu
from .pika import Pika
from .py_amqp import PyAMQP
from .report import Run, markdown, write
from .suite import Suite, Unavailable

SUITES: dict[str, Suite] = {
    suite.name.lower(): suite
    for suite in (Kombu(), PyAMQP(), Pika(), AMQPStorm(), Amqplib(), Amqp091Go(), Bunny())
}  # fmt: skip
BROKERS = {broker.name: broker for broker in (Warren, RabbitMQ)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance", description="Suites of other clients.")
    parser.add_argument("--broker", choices=sorted(BROKERS), default=Warren.name, help="default: ours")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/conformance", help="for sources and reports")
    parser.add_argument("suites", metavar="SUITE", nargs="*", help=f"default all: {', '.join(SUITES)}")
    options = parser.parse_args()
    unknown = [name for name in options.suites if name.lower() not in SUITES]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}; there are {', '.join(SUITES)}")
    folder: Path = options.folder.resolve()
    wanted = [SUITES[name.lower()] for name in options.suites] or list(SUITES.values())
    try:
        runs = [run(suite, options.broker, folder) for suite in wanted]
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
            return Run(suite, ours, suite.run(prepared, peer))
    except Unavailable as error:
        return Run(suite, ours, [], str(error))


if __name__ == "__main__":
    sys.exit(main())
