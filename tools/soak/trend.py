"""Samples of a running broker, and the slope of each of their figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_process import BrokerProcess
from tests.support.http import HTTPClient
from tools.bench.process import PAGE_BYTES, rss_bytes

MIB = 1 << 20
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one broker at a time: MiB of memory and of files, counts, and milliseconds."""

    at_s: float
    memory_mib: float  # of the broker
    export_mib: float  # of the process that writes the message log
    descriptors: int
    tasks: float
    files: int
    data_mib: float
    p99_ms: float

    def __str__(self) -> str:
        return (
            f"{self.at_s:.0f} s: broker {self.memory_mib:.1f} MiB, export {self.export_mib:.1f} MiB,"
            f" {self.descriptors} descriptors, {self.tasks:.0f} tasks, {self.files} files of {self.data_mib:.1f} MiB,"
            f" p99 {self.p99_ms:.0f} ms"
        )


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of a line through points by least squares, per hour, with its standard error."""

    per_hour: float
    error: float

    @property
    def rises(self) -> bool:
        """Whether it is above 0 by more than twice its error."""
        return self.per_hour > 2 * self.error

    def __str__(self) -> str:
        return f"{self.per_hour:+.2f} +-{self.error:.2f} an hour"


def take(broker: BrokerProcess, at_s: float, p99_ms: float) -> Sample:
    pid = broker.process.pid
    files = [path.stat().st_size for path in broker.data.rglob("*") if path.is_file()]
    text = HTTPClient(broker.addresses["http/prometheus"][0], "").get("/metrics").text
    tasks = sum(
        sample.value
        for family in text_string_to_metric_families(text)
        if family.name == "warren_tasks"
        for sample in family.samples
    )
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    memory, all_memory = own_bytes(pid) / MIB, rss_bytes(pid) / MIB
    return Sample(at_s, memory, all_memory - memory, descriptors, tasks, len(files), sum(files) / MIB, p99_ms)


def own_bytes(pid: int) -> int:
    """Resident memory of a process without its children."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def slope(times_s: Sequence[float], values: Sequence[float]) -> Slope:
    """The slope of at least three points."""
    count = len(times_s)
    mean_s, mean = math.fsum(times_s) / count, math.fsum(values) / count
    spread = math.fsum((at_s - mean_s) ** 2 for at_s in times_s)
    by_s = math.fsum((at_s - mean_s) * (value - mean) for at_s, value in zip(times_s, values, strict=True)) / spread
    rest = [value - mean - by_s * (at_s - mean_s) for at_s, value in zip(times_s, values, strict=True)]
    error = math.sqrt(math.fsum(one * one for one in rest) / (count - 2) / spread)
    return Slope(by_s * HOUR_S, error * HOUR_S)
