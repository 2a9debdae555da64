"""The real broker as a process on a folder of its own: started, killed, stopped, asked for what it logged."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.amqp import Client
from tests.support.broker import SocketPeer
from tests.support.checkout import ROOT, installed
from tests.support.fork_server import Forked, fork_server

READY_WITHIN_S = 60  # on a machine that others use as well
STOP_WITHIN_S = 60
Process = Forked | subprocess.Popen[bytes]


class Daemon:
    """`warren serve --data FOLDER/data`. It may be started again after it has ended; the log goes on in one file.

    `ahead_s` is how far its wall clock is ahead of the machine's, from the next start on: in place of waiting so long.
    `address` is where it listens, once it has been started. `python` is the interpreter, with what is installed there;
    `options` are further ones of `serve`.
    """

    def __init__(
        self, folder: Path, python: str = sys.executable, node: str = "crash@test", options: Sequence[str] = ()
    ) -> None:
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.starts = 0
        self.ahead_s = 0.0
        self.address = ("", 0)
        self._python = python
        self._options = ["--node", node, *options]
        self._path = os.pathsep.join([str(installed(folder / "installed")), str(ROOT)])
        self._folder = folder
        self._process: Process | None = None
        self._peer: SocketPeer | None = None
        self._log_start = 0

    def launch(self, sync: str = "fsync", config: Path | None = None) -> None:
        """Start it, and do not wait. What was connected before hangs up now: until then it reads what still came."""
        self._hang_up()
        module = "tests.faults.crash.ahead" if self.ahead_s else "warren.broker.cli"
        line = [str(self.ahead_s)] if self.ahead_s else []
        line += ["serve", "--amqp", "127.0.0.1:0", "--data", str(self.data), "--sync", sync, *self._options]
        line += ["--config", str(config)] if config is not None else []
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": self._path}
            if self._python == sys.executable:
                self._process = fork_server().start(module, line, self._folder, environment, log)
            else:
                line = [self._python, "-m", module, *line]
                self._process = subprocess.Popen(line, stderr=log, stdout=log, cwd=self._folder, env=environment)
        self.starts += 1

    def start(self, sync: str = "fsync", config: Path | None = None) -> float:
        """Start it; the seconds until it was ready."""
        begin = time.monotonic()
        self.launch(sync, config)
        self.started()
        return time.monotonic() - begin

    def started(self) -> None:
        """Until it is ready."""
        give_up = time.monotonic() + READY_WITHIN_S
        while not (ready := self.events("ready")):
            assert self.process.poll() is None and time.monotonic() < give_up, f"it did not start:\n{self.tail()}"
            time.sleep(0.02)
        host, _, port = ready[0]["amqp"][0].rpartition(":")
        self.address = (host, int(port))
        self._peer = SocketPeer(f"{host}:{port}")

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of this event since the last start."""
        lines = self.log.read_bytes()[self._log_start :].splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"\n")]
        return [event for event in events if event["event"] == name]

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def connect(self, **options: Any) -> Client:
        assert self._peer is not None, "it is not running"
        return self._peer.connect(**options)

    def kill(self) -> None:
        """kill -9."""
        assert self.process.poll() is None, f"it ended by itself with {self.process.returncode}:\n{self.tail()}"
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and it leaves as it should. Clients that do not answer it would keep it for some seconds."""
        self.process.send_signal(signal.SIGTERM)
        self._hang_up()
        assert self.process.wait(STOP_WITHIN_S) == 0, self.tail()

    def close(self) -> None:
        """However the test ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def doctor(data: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "warren.broker.cli", "doctor", "--data", str(data)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
