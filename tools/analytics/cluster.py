"""The analysis on a standalone cluster of pyspark's Spark on loopback: one master and two workers.

    python -m tools.analytics.cluster [--events 1000000 | --brokers]

One log is analysed on this machine, as a stream, and on the cluster; the status is 1 if the reports differ. The log is
that of a model of a broker, or of three brokers that federate.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark

from tests.analytics.federated import Federated
from tests.support.broker_process import command_line
from tests.support.loop_thread import LoopThread
from tests.support.polling import until

from . import bulk

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
WAIT_S = 60.0
ANALYSIS_WITHIN_S = 4 * 3600.0
SPARK = Path(pyspark.__file__).parent


@contextmanager
def daemon(folder: Path, name: str, text: str, *arguments: str) -> Iterator[str]:
    """A process of Spark during the context, which gets the first line of its log with a text."""
    log = folder / f"{name}.log"
    environment = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    command = [str(SPARK / "bin" / "spark-class"), *arguments]
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    try:
        yield wait_for_line(process, log, text)
    finally:
        process.terminate()
        process.wait(WAIT_S)


def wait_for_line(process: subprocess.Popen[bytes], log: Path, text: str) -> str:
    """Return the first line with that text. Raises AssertionError when the process has ended without it."""

    def line_with_text() -> str | None:
        ended = process.poll() is not None
        lines = [line for line in log.read_text(encoding="utf-8").splitlines() if text in line]
        assert lines or not ended, f"{log}: no line with {text!r}\n{log.read_text(encoding='utf-8')[-2000:]}"
        return lines[0] if lines else None

    return until(line_with_text, f"{text!r} in {log}", WAIT_S, 0.1)


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """A cluster during the context, which gets the URL of its master."""
    host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        line = stack.enter_context(daemon(folder, "master", "Starting Spark master at", MASTER, *host))
        url = line.split(" at ")[1].strip()
        for number in range(workers):
            place = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), url)
            registered = "Successfully registered with master"
            stack.enter_context(daemon(folder, f"worker-{number}", registered, WORKER, *host, *place))
        yield url


def analyzed(log: Path, output: Path, master: str, *further: str) -> tuple[dict[str, Any], float]:
    """Return the report, and the time of the analysis in seconds."""
    started = time.monotonic()
    options = ["--input", str(log), "--output", str(output), "--master", master, *further]
    subprocess.run(command_line("analyze", *options), check=True, timeout=ANALYSIS_WITHIN_S)
    report: dict[str, Any] = json.loads((output / "report.json").read_text(encoding="utf-8"))
    return report, time.monotonic() - started


def federated(folder: Path) -> Path:
    """Make the log of three brokers."""
    loop = LoopThread()
    made = Federated(folder / "brokers", loop)
    try:
        made.run()
    finally:
        made.close()
        loop.close()
    return made.export


def modelled(folder: Path, events: int) -> Path:
    bulk.write(folder / "log", events)
    return folder / "log"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--brokers", action="store_true", help="the log of three brokers, instead of a model's")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warren-cluster-") as name:
        folder = Path(name)
        log = federated(folder) if options.brokers else modelled(folder, options.events)
        alone, alone_s = analyzed(log, folder / "alone", "local[2]")
        streamed, _ = analyzed(log, folder / "streamed", "local[2]", "--stream")
        with cluster(folder) as url:
            together, together_s = analyzed(log, folder / "together", url)
    print(f"{alone['input']['events']:,} events: {alone_s:.1f} s alone, {together_s:.1f} s on {url} with two workers")
    differing = [key for key in alone if not alone[key] == together[key] == streamed[key]]
    balanced = "it balances" if alone["conservation"]["balanced"] else "it does not balance"
    print(f"they differ in {', '.join(differing)}" if differing else f"they say the same: {balanced}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
