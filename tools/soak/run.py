"""The run: two brokers with a link under the mixed load, random faults, samples, and the verdicts."""

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.broker_process import command_line, environment_of
from tests.support.federated_broker import FederatedBroker
from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from tests.support.proxy import Proxy

from . import load, trend

SAMPLE_EVERY_S = 10.0
FAULT_EVERY_S = 15.0
POLL_S = 1.0
CUT_S = 2.0
SETTLED_WITHIN_S = 120.0
ANALYSIS_WITHIN_S = 3600.0
LEAST_SAMPLES = 20  # the minimum of samples for a slope
# The maximum rise of each figure in an hour beyond twice the error of its slope, or None
MOST_PER_HOUR = {
    "memory_mib": 1.0, "export_mib": None, "descriptors": 1.0, "tasks": 1.0, "files": 1.0, "data_mib": 64.0,
    "p99_ms": None,
}  # fmt: skip
POLLED = ("/overview", "/queues", "/connections", "/federation-links")
BALANCED, NO_JAVA = 0, 69  # exit statuses of `warren analyze`
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Line:
    """A verdict: a name, the figures, and whether they meet the demand, or None if it was not run."""

    name: str
    text: str
    good: bool | None

    def __str__(self) -> str:
        return f"{self.name}: {self.text}: {({True: 'held', False: 'NOT HELD', None: 'not run'})[self.good]}"


@dataclass
class Report:
    """The lines of a run, and the samples of the broker that is not killed."""

    lines: list[Line] = field(default_factory=list)
    samples: list[trend.Sample] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)


class Site:
    """`up` is not killed and has most of the load; `down` has some, federates from it by a proxy, and is killed."""

    def __init__(self, folder: Path, stack: ExitStack, exports: bool) -> None:
        self.folder, self.export = folder, folder / "export"
        self.up, self.down = (FederatedBroker(folder / name, name) for name in ("up", "down"))
        for broker in (self.up, self.down):
            stack.callback(broker.close)
            export = ("message_log.enabled = true", f"message_log.directory = {self.export}")
            broker.configure("prometheus.tcp.port = 0", *(export if exports else ()))
            broker.start()
            load.declare(broker.connect().channel())
        channel = self.down.connect().channel()
        channel.declare(load.INBOX, durable=True)
        channel.bind(load.INBOX, load.LINKED, load.LINKED)
        loop = LoopThread()
        stack.callback(loop.close)
        self.proxy = Proxy(loop, self.up.address)
        stack.callback(self.proxy.close)
        self.down.federate("^fed", f"amqp://{self.proxy.address}/%2f?heartbeat=2", prefetch_count=100)
        self.linked()

    def linked(self) -> None:
        """Wait until the link runs."""
        self.down.running()
        self.up.bound(load.LINKED, load.LINKED)

    def workers(self, seed: int) -> list[load.Worker]:
        """Return the clients; `ledgers` are those of the first broker, of the second one, and of the link."""

        def up() -> str:
            return f"127.0.0.1:{self.up.port}"

        def down() -> str:
            return f"127.0.0.1:{self.down.port}"

        self.ledgers = of_up, of_down, of_link = load.Ledger(), load.Ledger(), load.Ledger()
        publishers = [load.Publisher(up, of_up, seed + n, name) for n, name in enumerate(load.PUBLISHED)]
        consumers = [load.Consumer(up, of_up, seed + n, name, slow=name == "dead")
                     for n, name in enumerate(load.CONSUMED)]  # fmt: skip
        return [
            *publishers, *consumers,
            load.Committer(up, of_up, seed, "committed"), load.Churn(up, of_up, seed),
            load.Publisher(down, of_down, seed, "quorum"), load.Consumer(down, of_down, seed, "quorum"),
            load.Publisher(up, of_link, seed, load.LINKED), load.Consumer(down, of_link, seed, load.INBOX),
        ]  # fmt: skip

    def fault(self, dice: random.Random) -> str:
        """Cause a fault, and return its name when its effect is over."""
        name = dice.choice(("kill", "cut", "silence"))
        if name == "kill":
            self.down.kill()
            self.down.start()
        else:
            getattr(self.proxy, name)()
            time.sleep(dice.uniform(0.1, CUT_S))
            self.proxy.restore()
        self.linked()
        return name


def soak(
    folder: Path,
    minutes: float,
    seed: int,
    exports: bool = True,
    every_s: float = SAMPLE_EVERY_S,
    say: Say = lambda text: None,
) -> Report:
    """Run the load with faults for that time, with a message log if `exports`; `say` gets a line for each sample."""
    report, dice = Report(), random.Random(seed)
    with ExitStack() as stack:
        site = Site(folder, stack, exports)
        workers = site.workers(seed)
        for worker in workers:
            worker.start()
        begun_s = time.monotonic()
        next_sample_s, next_fault_s = begun_s + every_s, begun_s + FAULT_EVERY_S
        while (now_s := time.monotonic()) < begun_s + minutes * 60:
            for path in POLLED:
                site.up.ask("GET", path)
            if now_s >= next_fault_s:
                report.faults[site.fault(dice)] += 1
                next_fault_s += FAULT_EVERY_S
            if now_s >= next_sample_s:
                report.samples.append(trend.take(site.up, now_s - begun_s, site.ledgers[0].p99_ms()))
                say(str(report.samples[-1]))
                next_sample_s += every_s
            time.sleep(POLL_S)
        finish(site, workers)
        site.up.stop()
        site.down.stop()
        report.lines += [*slopes(report.samples), *losses(site.ledgers)]
        report.lines += [conservation(site)] if exports else []
        report.lines += [Line("faults", ", ".join(f"{count} {name}" for name, count in report.faults.items()), True)]
        report.lines += [Line("client", worker.error, False) for worker in workers if worker.error]
    return report


def finish(site: Site, workers: list[load.Worker]) -> None:
    """End the publishers, wait until all confirmed messages have arrived or are late, and end the other clients."""
    site.linked()
    publishers = [worker for worker in workers if not isinstance(worker, load.Consumer)]
    for worker in publishers:
        worker.end()
    for worker in publishers:
        worker.join(SETTLED_WITHIN_S)

    def arrived() -> bool:
        return not any(ledger.lost for ledger in site.ledgers)

    with suppress(AssertionError):
        until(arrived, "all messages", SETTLED_WITHIN_S, 0.1)
    for worker in workers:
        worker.end()
    for worker in workers:
        worker.join(SETTLED_WITHIN_S)


def slopes(samples: list[trend.Sample]) -> list[Line]:
    """Return the slope of each figure in the second half, which must meet the demand, and in the warm-up before."""
    half = len(samples) // 2
    first, rest = samples[:half], samples[half:]
    if half < LEAST_SAMPLES:
        return [Line("slopes", f"{half} samples say nothing of an hour; {samples[-1] if samples else ''}", None)]
    lines = []
    for name, most in MOST_PER_HOUR.items():
        warm_up, found = slope_of(first, name), slope_of(rest, name)
        values = [float(getattr(sample, name)) for sample in rest]
        text = f"{found}, {min(values):.1f} to {max(values):.1f}; in the first half {warm_up}"
        lines.append(Line(name, text, most is None or found.per_hour - 2 * found.error <= most))
    return lines


def slope_of(samples: list[trend.Sample], name: str) -> trend.Slope:
    return trend.slope([sample.at_s for sample in samples], [float(getattr(sample, name)) for sample in samples])


def losses(ledgers: tuple[load.Ledger, load.Ledger, load.Ledger]) -> list[Line]:
    lines = []
    for name, ledger in zip(("broker with most of the load", "broker that is killed", "link"), ledgers, strict=True):
        text = f"{len(ledger.confirmed):,} confirmed, {len(ledger.lost)} lost, {ledger.again} again"
        lines.append(Line(name, f"{text}, {ledger.unflagged} of them not flagged", not ledger.lost))
    return lines


def conservation(site: Site) -> Line:
    """Return whether the message log of the broker that was not killed balances, by `warren analyze`."""
    name = "message log"
    words = ["analyze", "--input", str(site.export), "--output", str(site.folder / "report"), "--node", "up@test"]
    done = subprocess.run(
        command_line(*words), cwd=site.folder, env=environment_of(site.folder), capture_output=True, text=True,
        check=False, timeout=ANALYSIS_WITHIN_S,
    )  # fmt: skip
    if done.returncode == NO_JAVA:
        return Line(name, f"warren analyze: {done.stderr.strip()[:120]}", None)
    found = json.loads((site.folder / "report" / "report.json").read_text(encoding="utf-8"))
    totals = found["totals"]
    text = f"{found['verdict']}; {totals['published']:,} published, {totals['acknowledged']:,} acknowledged"
    return Line(name, text, done.returncode == BALANCED)
