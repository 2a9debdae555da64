"""A standalone cluster on loopback, of the Spark that pyspark brings: one master and two workers, and the job on them.

    python -m tests.throughput.cluster [--events 1000000]

Analyses one log on this machine alone and on the cluster, and fails unless both say the same.
"""

from __future__ import annotations

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

import pyspark

from . import bulk

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
WAIT_S = 60.0
SPARK = Path(pyspark.__file__).parent


@contextmanager
def daemon(folder: Path, name: str, until: str, *arguments: str) -> Iterator[str]:
    """One of Spark's processes, until what it logs has that in it; gives that line."""
    log = folder / f"{name}.log"
    environment = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    command = [str(SPARK / "bin" / "spark-class"), *arguments]
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    try:
        yield awaited(process, log, until)
    finally:
        process.terminate()
        process.wait(WAIT_S)


def awaited(process: subprocess.Popen[bytes], log: Path, text: str) -> str:
    """The first line with that text. Raises RuntimeError where none comes in time."""
    deadline = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < deadline:
        for line in log.read_text(encoding="utf-8").splitlines():
            if text in line:
                return line
        time.sleep(0.1)
    raise RuntimeError(f"{log}: no line with {text!r}\n{log.read_text(encoding='utf-8')[-2000:]}")


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The URL of its master."""
    host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        line = stack.enter_context(daemon(folder, "master", "Starting Spark master at", MASTER, *host))
        url = line.split(" at ")[1].strip()
        for number in range(workers):
            place = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), url)
            registered = "Successfully registered with master"
            stack.enter_context(daemon(folder, f"worker-{number}", registered, WORKER, *host, *place))
        yield url


def analyzed(log: Path, output: Path, master: str) -> tuple[dict[str, object], float]:
    """The report, and how long it took."""
    started = time.monotonic()
    options = ["--input", str(log), "--output", str(output), "--master", master]
    subprocess.run([sys.executable, "-m", "broker.cli", "analyze", *options], check=True)
    report: dict[str, object] = json.loads((output / "report.json").read_text(encoding="utf-8"))
    return report, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warren-cluster-") as name:
        folder = Path(name)
        bulk.write(folder / "log", options.events)
        alone, alone_s = analyzed(folder / "log", folder / "alone", "local[2]")
        with cluster(folder) as url:
            together, together_s = analyzed(folder / "log", folder / "together", url)
    print(f"{options.events:,} events: {alone_s:.1f} s alone, {together_s:.1f} s on {url} with two workers")
    differing = [key for key in alone if alone[key] != together[key]]
    print(f"they differ in {', '.join(differing)}" if differing else "both say the same")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
