"""The brokers under test as processes: starts this checkout's Warren, reads CPU time and memory from /proc."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.checkout import ROOT

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker on 127.0.0.1. Without its pid neither CPU time nor memory is measured."""

    name: str
    port: int
    pid: int | None = None
    start_s: float | None = None  # from the command to the log line `ready`; only of one started here
    vhost: str = "/"

    @classmethod
    def parse(cls, text: str) -> Broker:
        """From NAME=PORT or NAME=PORT:PID. Raises ValueError."""
        name, _, address = text.partition("=")
        port, _, pid = address.partition(":")
        return cls(name, int(port), int(pid) if pid else None)


class NotStarted(Exception):
    """Warren did not come up; the text is what it logged."""


@contextmanager
def warren(arguments: list[str]) -> Iterator[Broker]:
    """Starts `warren serve` of this checkout on a free port, in an empty directory; stops it with SIGTERM."""
    command = [sys.executable, "-m", "warren.broker.cli", "serve", "--amqp", "127.0.0.1:0", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as directory:
        log = Path(directory, "bench.log")
        with log.open("wb") as stderr:
            started_s = time.monotonic()
            process = subprocess.Popen(command, stdout=stderr, stderr=stderr, cwd=directory, env=environment)
            try:
                address = _ready(process, log)
                start_s = time.monotonic() - started_s
                yield Broker("warren", int(address.rpartition(":")[2]), process.pid, start_s)
            finally:
                _stop(process)


def _ready(process: subprocess.Popen[bytes], log: Path) -> str:
    """Waits for the log line with event `ready`; returns the AMQP address in it."""
    give_up_s = time.monotonic() + READY_WITHIN_S
    while process.poll() is None and time.monotonic() < give_up_s:
        for line in log.read_bytes().splitlines(keepends=True):
            if line.startswith(b"{") and line.endswith(b"\n"):
                event = json.loads(line)
                if event.get("event") == "ready":
                    return str(event["amqp"][0])
        time.sleep(0.002)
    raise NotStarted(f"warren did not become ready:\n{log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def raise_open_files(count: int) -> None:
    """Lets this process, and the brokers it starts, hold that many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, of its living descendants and of those it has waited for."""
    ticks = 0
    for one in _family(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS_PER_S


def rss_bytes(pid: int) -> int:
    """Resident memory of a process and its living descendants."""
    pages = 0
    for one in _family(pid):
        try:
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pages * PAGE_BYTES


def _family(pid: int) -> list[int]:
    family = [pid]
    for one in family:  # grows as it is walked
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                family += map(int, children.read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return family
