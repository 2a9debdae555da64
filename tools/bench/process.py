"""The brokers under test as processes: this checkout's Warren, and CPU time and memory from /proc."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.broker_process import BrokerProcess

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker on 127.0.0.1. Without its pid neither CPU time nor memory is measured."""

    name: str
    port: int
    pid: int | None = None
    start_s: float | None = None  # from the command to the log line `ready`, if it was started here
    vhost: str = "/"

    @classmethod
    def parse(cls, text: str) -> Broker:
        """Parse NAME=PORT or NAME=PORT:PID. Raises ValueError."""
        name, _, address = text.partition("=")
        port, _, pid = address.partition(":")
        return cls(name, int(port), int(pid) if pid else None)


@contextmanager
def warren(arguments: list[str]) -> Iterator[Broker]:
    """A `warren serve` of this checkout during the context, on a free port and in an empty directory."""
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as directory:
        process = BrokerProcess(Path(directory), *arguments, data=None, fork=False)
        try:
            start_s = process.start()
            yield Broker("warren", process.port, process.process.pid, start_s)
            process.stop()
        finally:
            process.close()


def raise_open_files(count: int) -> None:
    """Allow this process and its brokers to open that many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, its living descendants, and the ended ones that were waited for."""
    seconds = 0.0
    for one in _family(pid):
        try:
            seconds += time.clock_gettime(_cpu_clock(one))
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        seconds += sum(map(int, fields[13:15])) / TICKS_PER_S  # of children it has waited for
    return seconds


def _cpu_clock(pid: int) -> int:
    """Return Linux's identifier of the CPU clock of a process, which is finer than the ticks of /proc."""
    return ~pid << 3 | 2


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process and its living descendants."""
    pages = 0
    for one in _family(pid):
        try:
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pages * PAGE_BYTES


def _family(pid: int) -> list[int]:
    family = [pid]
    for one in family:  # grows during the loop
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                family += map(int, children.read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return family
