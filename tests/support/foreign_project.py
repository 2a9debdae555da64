"""A project of somebody else, whose tests use the installed package: files in a folder, and pytest in a process."""

import os
import subprocess
import sys
from pathlib import Path

from .checkout import ROOT, write_distribution

RUN_S = 200


class ForeignProject:
    """A folder with a project, and the environment of its processes, in which this checkout is installed."""

    def __init__(self, folder: Path, installed: Path, python: str = sys.executable) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.python = python
        # Not what pytest and its plugins have set for the tests that run this.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        self.environment["PYTHONPATH"] = os.pathsep.join([str(write_distribution(installed)), str(ROOT)])

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python with these words, and variables beside the others."""
        return subprocess.run(
            [self.python, *words],
            cwd=self.folder, env=self.environment | variables, capture_output=True, text=True,
            timeout=RUN_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def pytest(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "pytest", "-p", "no:cacheprovider", *words, **variables)
