"""A scenario: a fault or an abuse, the demand on the broker, and the function that measures it."""

import random
import tempfile
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.broker_process import BrokerProcess
from tests.support.loop_thread import LoopThread
from tools.failover.outcome import Outcome

TRIES = 3


class NotRun(Exception):
    """An error: a scenario cannot be run here. The text is the reason."""


@dataclass
class Lab:
    """The resources of one scenario: a temporary folder, random numbers, a scale, and objects to close at its end."""

    scale: float
    seed: int
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="warren-chaos-")))
        self._brokers = 0

    def count(self, default: int, least: int = 1) -> int:
        """Return a scaled number of rounds, messages or clients."""
        return max(round(default * self.scale), least)

    def broker(self, *options: str, settings: tuple[str, ...] = (), **more: object) -> BrokerProcess:
        """Return a broker that is not started."""
        self._brokers += 1
        folder = self.folder / f"broker{self._brokers}"
        broker = BrokerProcess(folder, "--http", "127.0.0.1:0", *options, **more)  # type: ignore[arg-type]
        broker.configure("prometheus.tcp.port = 0", *settings)
        self.stack.callback(broker.close)
        return broker

    def started(self, *options: str, settings: tuple[str, ...] = (), **more: object) -> BrokerProcess:
        """Return a broker that is ready."""
        broker = self.broker(*options, settings=settings, **more)
        broker.start()
        return broker

    def loop(self) -> LoopThread:
        """Return an event loop in a thread, for proxies."""
        loop = LoopThread()
        self.stack.callback(loop.close)
        return loop


@dataclass(frozen=True, slots=True)
class Timed(Outcome):
    """An outcome with times and rates, which depend on other work on the machine: `in_time` is true if they hold.

    `holds` is the result of all other demands.
    """

    in_time: bool


Measure = Callable[[Lab], Outcome]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A line of the table. `scaled` names the numbers that are smaller by default than in the demand.

    A scenario that is only late is measured up to TRIES times, until it is in time. Others are not repeated.
    """

    number: int
    name: str
    demand: str
    measure: Measure
    scaled: str = ""

    def run(self, scale: float, seed: int) -> Outcome:
        """Measure the scenario."""
        outcome, tries = self._run(scale, seed), 1
        while _is_late(outcome) and tries < TRIES:
            outcome, tries = self._run(scale, seed), tries + 1
        holds = False if _is_late(outcome) else outcome.holds
        return Outcome(holds, outcome.text if tries == 1 else f"{outcome.text} (measured {tries} times)")

    def _run(self, scale: float, seed: int) -> Outcome:
        """Measure the scenario once. A failed assertion of a part is an unmet demand."""
        with ExitStack() as stack:
            try:
                return self.measure(Lab(scale, seed, stack))
            except NotRun as reason:
                return Outcome(None, str(reason))
            except AssertionError as failed:
                return Outcome(False, " ".join(str(failed).split())[:400])
            except Exception as failed:  # so that the other scenarios are run
                traceback.print_exc()
                return Outcome(False, f"it ended with {failed!r:.300}")


def _is_late(outcome: Outcome) -> bool:
    """Return whether only a time does not hold."""
    return isinstance(outcome, Timed) and outcome.holds is True and not outcome.in_time


def both(*outcomes: Outcome) -> Outcome:
    """Return the outcome of several parts, each of which must hold."""
    verdicts = [outcome.holds for outcome in outcomes]
    holds = False if False in verdicts else None if None in verdicts else True
    return Outcome(holds, "; ".join(outcome.text for outcome in outcomes))
