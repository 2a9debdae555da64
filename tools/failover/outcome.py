"""The outcome of a demand."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

from tests.support.checkout import ROOT

NOTHING_COLLECTED = 5  # pytest's exit status
SUITE_WITHIN_S = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a demand: whether it holds, or None if it was not measured, and the figures."""

    holds: bool | None
    text: str

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "DOES NOT HOLD", None: "not measured"}[self.holds]


def suite(*words: str, **variables: str) -> Outcome:
    """Run tests of the suite with these words of pytest's command line, and this environment."""
    line = [sys.executable, "-m", "pytest", "-q", "--timeout=0", "-p", "no:cacheprovider", *words]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SUITE_WITHIN_S
    )
    summary = re.sub(r" in [\d.]+s.*", "", (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1])
    holds = None if done.returncode == NOTHING_COLLECTED else done.returncode == 0
    return Outcome(holds, f"tests of {words[0].partition('::')[0]}: {summary}")
