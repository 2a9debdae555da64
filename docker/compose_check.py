"""What the programs check_*.py share: commands, waiting, and a project of compose."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).parent
PATIENCE_S = 120.0  # for any condition
LOOK_S = 0.2  # between two looks at it


class Failed(Exception):
    """The test failed; the text names the condition that was not met."""


def run(*command: str) -> str:
    """Return the output and errors of a command. Raises Failed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stdout.strip()}")
    return done.stdout


def succeeds(*command: str) -> bool:
    return shutil.which(command[0]) is not None and not subprocess.run(command, capture_output=True).returncode


def until(what: str, condition: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Wait for a condition. Raises Failed if it is not met in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"not within {within_s:.0f} s: {what}")
        time.sleep(LOOK_S)


def compose(project: str, file: str) -> list[str] | None:
    """Return this machine's command for a project of compose, or None without an engine."""
    if not succeeds("docker", "info"):
        return None
    words = ["docker", "compose"] if succeeds("docker", "compose", "version") else ["docker-compose"]
    return [*words, "-p", project, "-f", str(FOLDER / file)] if succeeds(*words, "version") else None


@contextmanager
def removed(command: list[str], containers: Sequence[str]) -> Iterator[None]:
    """Context after which all containers of the project are removed. Raises Failed if there are some already."""
    taken = [name for name in containers if run("docker", "ps", "--all", "--quiet", "--filter", f"name=^{name}$")]
    if taken:
        raise Failed(f"containers are there already, remove them first: {', '.join(taken)}")
    try:
        yield
    except Failed:
        subprocess.run([*command, "logs", "--tail", "20"], check=False)
        raise
    finally:
        run(*command, "down", "--volumes", "--rmi", "local", "--timeout", "10")


def check(project: str, file: str, containers: Sequence[str], test: Callable[[list[str]], None]) -> int:
    """Run a test, which starts the containers, with the command of compose for its project; return the exit status."""
    command = compose(project, file)
    if command is None:
        print(f"NOTE: no Docker engine with compose answers: {file} is not run")
        return 0
    os.environ.setdefault("RATE", "20")
    try:
        with removed(command, containers):
            test(command)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    print("nothing was lost")
    return 0
