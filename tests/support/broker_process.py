"""A broker of this checkout as a process of its own: started, stopped, killed, and observed by what it logs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .amqp_client import Client
from .checkout import ROOT, write_distribution
from .fork_server import ForkedProcess, fork_server
from .http import HTTPClient
from .peer import SocketPeer
from .polling import until

READY_WITHIN_S = 60.0  # on a machine that others use as well
STOP_WITHIN_S = 60.0
COMMAND_WITHIN_S = 60.0
ANY_PORT = "127.0.0.1:0"
WARREN, WARRENCTL = "warren.broker.cli", "warren.broker.ctl"
Process = ForkedProcess | subprocess.Popen[bytes]


class NotStarted(Exception):
    """The broker ended, or did not become ready in time; the text is the end of its output."""


class BrokerProcess:
    """`warren serve`, with its files in `folder`. It may be started again after it has ended.

    `options` are further ones of `serve`. Messages are stored in `data`, unless it is to keep them in `memory` or
    stores them by options of its own (`data` is None), or on PostgreSQL (`store`, a URL). `amqp` is the listener's
    address, or None where the configuration has it. `log` is the file with its log as JSON, which is its output unless
    the configuration names another. It is forked from a process that has imported the broker
    (tests/support/fork_server.py); without `fork`, or with the interpreter `python`, it starts from nothing. Its
    `environment` is one with this checkout, unless given.

    `address` is that of AMQP since the last start. `clock_ahead_s` is how far the broker's wall clock is ahead of the
    machine's: tests set it in place of waiting for so long. It is set before a start, and may be changed after it.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        memory: bool = False,
        data: Path | None = Path("data"),
        amqp: str | None = ANY_PORT,
        node: str = "warren@test",
        log: Path | None = None,
        store: str | None = None,
        fork: bool = True,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.data = folder / (data or "")
        self.output = folder / "output"
        self.log = log or self.output
        self.config: Path | None = None
        self._clock = folder / "clock_ahead"
        self.starts = 0
        self.address = ("", 0)
        self._options = ["--memory"] if memory else [] if data is None else ["--data", str(self.data)]
        self._store = store
        self._options += ["--store", store] if store is not None else []
        self._options += ["--amqp", amqp] if amqp is not None else []
        self._options += ["--node", node, *options]
        self._python = python
        self._environment = environment
        self._forked = fork and python == sys.executable
        self._process: Process | None = None
        self._peer: SocketPeer | None = None
        self._log_start = 0

    # Start

    @property
    def clock_ahead_s(self) -> float:
        return float(self._clock.read_text(encoding="utf-8")) if self._clock.exists() else 0.0

    @clock_ahead_s.setter
    def clock_ahead_s(self, seconds: float) -> None:
        new = self._clock.with_suffix(".new")
        new.write_text(str(seconds), encoding="utf-8")
        new.replace(self._clock)

    def configure(self, *lines: str) -> Path:
        """Write these lines to the configuration file of all further starts; return its path."""
        self.config = self.folder / "broker.conf"
        self.config.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return self.config

    def launch(self, *options: str, config: Path | None = None) -> None:
        """Start it with further options of this start, and do not wait until it is ready.

        The test's clients of the process before read what it sent them up to now: they are closed here.
        """
        self._close_clients()
        module, line = WARREN, ["serve", *self._options, *options]
        if self._clock.exists():
            module, line = "tests.support.clock_ahead", [str(self._clock), *line]
        config = config or self.config
        line += ["--config", str(config)] if config is not None else []
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.output.open("ab") as output:
            environment = dict(self._environment or environment_of(self.folder))
            if self._forked:
                self._process = fork_server().start(module, line, self.folder, environment, output)
            else:
                self._process = subprocess.Popen(
                    command_line(*line, module=module, python=self._python),
                    cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                )  # fmt: skip
        self.starts += 1

    def start(self, *options: str, config: Path | None = None) -> float:
        """Start it; return the seconds until it was ready. Raises NotStarted."""
        begin = time.monotonic()
        self.launch(*options, config=config)
        self.wait_ready()
        return time.monotonic() - begin

    def wait_ready(self) -> None:
        """Wait for the event `ready` in its log. Raises NotStarted."""

        def ready_or_ended() -> bool:
            ended = self.process.poll() is not None  # read before the log is: nothing is logged after that
            return bool(self.events("ready")) or ended

        try:
            until(ready_or_ended, within_s=READY_WITHIN_S, every_s=0.005)
        except AssertionError as late:
            raise NotStarted(f"not ready within {READY_WITHIN_S:.0f} s:\n{self.tail()}") from late
        if not self.events("ready"):
            raise NotStarted(f"it ended with status {self.process.poll()}:\n{self.tail()}")
        for address in self.addresses["amqp"]:
            host, _, port = address.rpartition(":")
            self.address = (host, int(port))
            self._peer = SocketPeer(address)
            break

    def __enter__(self) -> BrokerProcess:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # While it runs

    @property
    def process(self) -> Process:
        assert self._process is not None, "it was never started"
        return self._process

    @property
    def port(self) -> int:
        """The port of AMQP."""
        return self.address[1]

    @property
    def addresses(self) -> dict[str, list[str]]:
        """The addresses where it listens by protocol, such as `amqp`, `http` and `control`."""
        return {name: value for name, value in self.events("ready")[0].items() if isinstance(value, list)}

    def connect(self, **options: Any) -> Client:
        """Open a connection of the test client, which is closed at the next start."""
        assert self._peer is not None, "it is not running"
        return self._peer.connect(**options)

    def http(self, base: str = "/api") -> HTTPClient:
        """A client of its HTTP API; `base` is put before each path."""
        return HTTPClient(self.addresses["http"][0], base)

    def log_lines(self) -> list[dict[str, Any]]:
        """The complete lines of its log since the last start."""
        if not self.log.exists():
            return []
        lines = self.log.read_bytes()[self._log_start :].splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"\n")]

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of this event since the last start."""
        return [line for line in self.log_lines() if line["event"] == name]

    def wait_for_event(self, name: str) -> dict[str, Any]:
        """The last line of this event, as soon as there is one."""
        return until(lambda: self.events(name), lambda: f"the event {name} in\n{self.tail()}")[-1]

    def tail(self) -> str:
        """The end of its output, and of its log where that is another file."""
        files = [file for file in dict.fromkeys((self.output, self.log)) if file.exists()]
        return "\n".join(file.read_text(errors="replace")[-3000:] for file in files)

    def warrenctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `warrenctl` by its control socket."""
        return run("--data", str(Path(self.addresses["control"][0]).parent), *words, module=WARRENCTL)

    def doctor(self) -> subprocess.CompletedProcess[str]:
        """Run `warren doctor` on its data."""
        return run("doctor", *(["--store", self._store] if self._store is not None else ["--data", str(self.data)]))

    # Its end

    def wait(self, within_s: float = STOP_WITHIN_S) -> int:
        """Wait until it has ended; return its exit status."""
        return self.process.wait(within_s)

    def kill(self) -> None:
        """End it by SIGKILL; it must be running."""
        assert self.process.poll() is None, f"it ended by itself with {self.process.returncode}:\n{self.tail()}"
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it by SIGTERM, with exit status 0. Clients that do not answer would delay it: they are closed."""
        self.process.send_signal(signal.SIGTERM)
        self._close_clients()
        assert self.wait() == 0, self.tail()

    def close(self) -> None:
        """End it in whatever state it is."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close_clients()

    def _close_clients(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def environment_of(folder: Path) -> dict[str, str]:
    """The environment of a process that imports this checkout and finds its plugins, whatever is installed."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(write_distribution(folder / "installed")), str(ROOT)])}


def command_line(*words: str, module: str = WARREN, python: str = sys.executable) -> list[str]:
    """The command line of `warren`, or of another module, with these words."""
    return [python, "-m", module, *words]


def run(
    *words: str,
    module: str = WARREN,
    folder: Path = ROOT,
    paths: Sequence[Path] = (ROOT,),
    python: str = sys.executable,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command of `warren`, or of another module, in that folder; return its exit status and output.

    Its PYTHONPATH has these paths, and its environment these variables beside those of the tests.
    """
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **variables}
    return subprocess.run(
        command_line(*words, module=module, python=python),
        cwd=folder, env=variables, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=False,
    )  # fmt: skip
