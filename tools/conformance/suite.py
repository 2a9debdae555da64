"""A test suite of another project: its source, its needs, and how it gets the broker's address."""

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
    """The suite cannot be fetched or cannot run here; the text is the reason, in one line."""


class Suite:
    """The suite of one client.

    `what` is the part of the sources that is run, `left_out` are parts that are not, with the reason. `explained` are
    tests that may fail against Warren, by the beginning of their name, with the reason: any other failure fails the
    run. `explained_elsewhere` are tests that only RabbitMQ may fail.
    """

    name = ""
    version = ""
    language = ""
    what = ""
    time_limit_s = RUN_TIMEOUT_S
    left_out: Sequence[tuple[str, str]] = ()
    explained: Sequence[tuple[str, str]] = ()
    explained_elsewhere: Sequence[tuple[str, str]] = ()

    def prepare(self, folder: Path) -> None:
        """Fetch the suite into the folder, which exists and is empty. Raises Unavailable."""
        raise NotImplementedError

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        """Run the prepared suite. Raises Unavailable."""
        raise NotImplementedError

    def pins(self) -> str:
        """Return the inputs of `prepare`, which is run again when they change."""
        return f"{self.name} {self.version}"

    def prepared(self, cache: Path) -> Path:
        """Return the folder of the suite, prepared by this run or an earlier one. Raises Unavailable."""
        folder = cache / f"{self.name}-{self.version}"
        stamp = folder / ".prepared"
        if not stamp.exists() or stamp.read_text() != self.pins():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.prepare(folder)
            stamp.write_text(self.pins())
        return folder

    def reason(self, name: str) -> str | None:
        """Return why the test of this name may fail against Warren, or None."""
        return next((reason for beginning, reason in self.explained if name.startswith(beginning)), None)

    def explanation(self, name: str) -> tuple[str, str]:
        """Return the beginning of the test's name for which there is a reason, and the reason; or its whole name."""
        known = [*self.explained, *self.explained_elsewhere, (name, "not explained")]
        return next((beginning, reason) for beginning, reason in known if name.startswith(beginning))


def needed(program: str, package: str) -> str:
    """Return the path of a program. Raises Unavailable, naming Debian's package for it."""
    path = shutil.which(program)
    if path is None:
        raise Unavailable(f"{program} is not on PATH (Debian: apt-get install {package})")
    return path


def bring(command: Sequence[str | Path], folder: Path) -> None:
    """Run a command that fetches or builds. Raises Unavailable with the last line of its output."""
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PREPARE_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()] or ["no output"]
        raise Unavailable(f"{Path(command[0]).name} failed: {lines[-1].strip()}")


def test(
    command: Sequence[str | Path], folder: Path, log: Path, limit_s: float = RUN_TIMEOUT_S, **environment: str
) -> None:
    """Run tests with their output in `log`; the exit status is ignored, as the results have it."""
    with log.open("wb") as output:
        try:
            subprocess.run(
                command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, timeout=limit_s,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unavailable(f"not finished after {limit_s:.0f} s, see {log}") from None
