"""A Prometheus server of the tests, from Debian's package: its own process, on loopback, with its data in a folder."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from .checkout import ROOT
from .polling import until

UNPACKED = ROOT / ".venv" / "prometheus" / "usr" / "bin"  # by `make test-more`
MISSING = "no Prometheus is installed (Debian: apt-get install prometheus)"
TIMEOUT_S = 30.0


def program(name: str) -> str | None:
    """Return the path of `prometheus` or `promtool`, or None."""
    return shutil.which(name) or shutil.which(name, path=str(UNPACKED))


class Prometheus:
    """A server with this configuration; it ends with the context."""

    def __init__(self, folder: Path, config: Path) -> None:
        command = program("prometheus")
        assert command is not None, MISSING
        self._log = folder / "prometheus.log"
        options = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        with self._log.open("wb") as log:
            line = [command, *options, "--web.listen-address=127.0.0.1:0"]
            self._process = subprocess.Popen(line, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._url = ""

    def __enter__(self) -> Prometheus:
        try:
            found = until(
                lambda: re.search(r"[Ll]istening on\W.*address=(127\.0\.0\.1:[1-9]\d*)", self._text()), self._text
            )
        except AssertionError:
            self.__exit__()
            raise
        self._url = f"http://{found[1]}"
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT_S)

    def _text(self) -> str:
        return self._log.read_text(errors="replace")

    def get(self, path: str, **query: str) -> Any:
        """Return the data of a response of /api/v1."""
        address = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as response:
            return json.load(response)["data"]

    def query(self, expression: str, time_s: float) -> list[float]:
        """Return the values of all series of an expression at a time, NaN included."""
        found = self.get("query", query=expression, time=f"{time_s:.3f}")["result"]
        return [float(series["value"][1]) for series in found]
