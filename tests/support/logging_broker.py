"""A broker that a test has started as a process of its own, known by what it logs."""

import json
import subprocess
from typing import Any


class Broker:
    """A process, and the lines of its log until it was ready or ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        self.log: list[dict[str, Any]] = []
        for line in process.stderr:
            self.log.append(json.loads(line))
            if self.log[-1]["event"] == "ready":
                break

    @property
    def ready(self) -> dict[str, Any]:
        return self.log[-1]

    def rest(self) -> str:
        """Wait for its end; return all that it wrote after that."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == event]
