"""A test suite of somebody else: where it comes from, what it needs, and how it is told where the broker is."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .brokers import Broker
from .results import Case

PREPARE_TIMEOUT_S = 600
RUN_TIMEOUT_S = 900


class Unavailable(Exception):
    """The suite cannot be had or cannot run here; the text says why, in one line."""


class Suite:
    """The suite of one client.

    `left_out` are parts that are not run, and why. `explained` are tests that may fail against our broker, by the
    beginning of their name, and why: a failure that it does not have fails the run.
    """

    name = ""
    version = ""
    left_out: Sequence[tuple[str, str]] = ()
    explained: Sequence[tuple[str, str]] = ()

    def prepare(self, folder: Path) -> None:
        """Bring the suite into the folder, which exists and is empty. Raises Unavailable."""
        raise NotImplementedError

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        """Run what was prepared. Raises Unavailable."""
        raise NotImplementedError

    def pins(self) -> str:
        """What `prepare` depends on; it is run again when this has changed."""
        return f"{self.name} {self.version}"

    def prepared(self, cache: Path) -> Path:
        """The folder of the suite, brought there now unless it is there from an earlier run. Raises Unavailable."""
        folder = cache / f"{self.name}-{self.version}"
        stamp = folder / ".prepared"
        if not stamp.exists() or stamp.read_text() != self.pins():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.prepare(folder)
            stamp.write_text(self.pins())
        return folder

    def why_explained(self, case: Case) -> str | None:
        for beginning, reason in self.explained:
            if case.name.startswith(beginning):
                return reason
        return None


def needed(program: str, package: str) -> str:
    """The path of a program. Raises Unavailable, naming Debian's package for it."""
    path = shutil.which(program)
    if path is None:
        raise Unavailable(f"{program} is not on PATH (Debian: apt-get install {package})")
    return path


def bring(command: Sequence[str | Path], folder: Path) -> None:
    """Run a command that fetches or builds. Raises Unavailable with the last line that it printed."""
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PREPARE_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()] or ["no output"]
        raise Unavailable(f"{Path(command[0]).name} failed: {lines[-1].strip()}")


def test(command: Sequence[str | Path], folder: Path, log: Path, **environment: str) -> None:
    """Run tests, all they print into `log`; their exit status says nothing that their results do not."""
    with log.open("wb") as output:
        try:
            subprocess.run(
                command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, timeout=RUN_TIMEOUT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unavailable(f"not finished after {RUN_TIMEOUT_S} s, see {log}") from None
