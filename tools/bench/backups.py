"""The throughput of load D that is left while backups of the broker are taken, one after the other."""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.broker_process import BrokerProcess

from .client import Connection, LoadFailed
from .generator import run
from .loads import LOADS, Load
from .memory import QUEUED_WITHIN_S, Demand
from .process import Broker
from .publishing import batch_of

BESIDE = next(load for load in LOADS if load.letter == "D")
KEPT = 0.95  # the share of the throughput without a backup
STORED = Load("stored", "backed up", "messages of 64 KiB", consumers=0, durable=True, body_bytes=64 << 10)
MESSAGES = 8_000  # 512 MB
BEGUN_S = 1.0  # until the first backup is under way

TAKE = """\
import subprocess, sys
command = [sys.executable, "-m", "warren.broker.ctl", "--silent", "--data", sys.argv[1], "backup", sys.argv[2]]
while True:
    subprocess.run(command, check=True)
"""


def backups(rounds: int, seconds: float, warmup_s: float) -> Iterator[Demand]:
    """Measure the share of load D that is left, by time and by the broker's processor time. Raises LoadFailed."""
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as directory:
        process = BrokerProcess(Path(directory), data=None, fork=False)
        try:
            process.start()
            broker = Broker("warren", process.port, process.process.pid)
            fill(broker)
            rates: list[float] = []
            efforts: list[float] = []
            for _ in range(rounds):
                alone = run(BESIDE, broker, seconds, warmup_s)
                with taking(Path(directory)):
                    beside = run(BESIDE, broker, seconds, warmup_s)
                rates.append(beside.received_per_s / alone.received_per_s)
                efforts.append((beside.per_cpu_s or 0) / (alone.per_cpu_s or 1))
            yield Demand("load D beside backups", statistics.median(rates), KEPT, "", at_least=True)
            yield Demand("the lowest of these ratios", min(rates), 0, "")
            yield Demand("the highest", max(rates), 0, "")
            yield Demand("the same by processor second", statistics.median(efforts), KEPT, "", at_least=True)
            process.stop()
        finally:
            process.close()


def fill(broker: Broker) -> None:
    """Store messages, so that a backup takes some time. Raises LoadFailed."""
    connection = Connection(broker.port)
    queue = STORED.queue(0)
    connection.declare_queue(queue, durable=True)
    batch = batch_of(STORED, 0, connection.frame_max)
    for first in range(0, MESSAGES, 50):
        connection.socket.sendall(batch.build(first, 50))
    give_up_s = time.monotonic() + QUEUED_WITHIN_S
    while connection.declare_queue(queue, passive=True) < MESSAGES:
        if time.monotonic() > give_up_s:
            raise LoadFailed("the messages to back up were not queued")
        time.sleep(0.2)
    connection.close()


@contextmanager
def taking(directory: Path) -> Iterator[None]:
    """Context in which backups are taken all the time."""
    line = [sys.executable, "-c", TAKE, str(directory / "data"), str(directory / "backup.tar")]
    taker = subprocess.Popen(line, process_group=0)
    try:
        time.sleep(BEGUN_S)
        yield
    finally:
        os.killpg(taker.pid, signal.SIGKILL)
        taker.wait()
