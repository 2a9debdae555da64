"""The watchdog of the event loop: measures how long its turns take.

A probe is due every 20 ms. The delay of a late probe is the duration of a turn, or of up to three in succession: the
turn under way, that of the timer, and that of the task. The processor time of the loop's thread meanwhile shows whether
the turns were long or the machine was busy with other processes. A probe takes a few microseconds; messages have no
extra cost.
"""

import asyncio
import time

from ..core.counters.histogram import LatencyHistogram
from .supervisor import Report

PROBE_S = 0.02
INTERVAL_S = 60.0  # `longest_lately_s` covers one to two of these
WARN_S = 0.1  # heartbeats and health checks tolerate much more, but no turn should take so long
REPORT_S = 10.0  # between two log lines


class Turns:
    """Durations of the loop's turns."""

    def __init__(self, report: Report) -> None:
        self.lag = LatencyHistogram()  # histogram of the delays of probes
        self.last_served: object = ""  # the connection or request served last, possibly the one that held the loop
        self.longest_s = 0.0  # since the start
        self.longest_processor_s = 0.0  # processor time, since the start
        self._report = report
        self._reported_s = -REPORT_S
        self._now_s = 0.0  # longest in this interval
        self._before_s = 0.0  # longest in the one before
        self._interval_ends_s = 0.0

    @property
    def longest_lately_s(self) -> float:
        """The longest turn in the last one to two intervals."""
        return max(self._now_s, self._before_s)

    async def run(self) -> None:
        """Probe until cancelled. It uses a finer clock than the loop's, which may count whole milliseconds."""
        while True:
            due_s, used_s = time.monotonic() + PROBE_S, time.thread_time()
            await asyncio.sleep(PROBE_S)
            now_s = time.monotonic()
            self.probed(now_s, now_s - due_s, time.thread_time() - used_s)

    def probed(self, now_s: float, late_s: float, used_s: float) -> None:
        """Count a probe: its delay, and the processor time of the thread since the one before."""
        late_s = max(late_s, 0.0)
        self.lag.count(late_s)
        worked_s = min(late_s, used_s)
        if now_s >= self._interval_ends_s:
            self._before_s, self._now_s = self._now_s, 0.0
            self._interval_ends_s = now_s + INTERVAL_S
        self._now_s = max(self._now_s, late_s)
        self.longest_s = max(self.longest_s, late_s)
        self.longest_processor_s = max(self.longest_processor_s, worked_s)
        if worked_s >= WARN_S and now_s - self._reported_s >= REPORT_S:
            self._reported_s = now_s
            fields = {"ms": round(late_s * 1000), "processor_ms": round(worked_s * 1000)}
            self._report("event_loop_held", "warning", {**fields, "last_served": str(self.last_served)})

    def status(self) -> dict[str, object]:
        return {
            "longest_turn_ms": round(self.longest_lately_s * 1000, 1),
            "longest_turn_since_start_ms": round(self.longest_s * 1000, 1),
            "longest_processor_ms": round(self.longest_processor_s * 1000, 1),
            "lag": self.lag.status(),
        }
