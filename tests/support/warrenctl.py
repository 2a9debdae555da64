"""`warrenctl`, run in this process, and nodes for it to speak to: a daemon of its own, or one inside this process."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from warren.broker.config import Config
from warren.broker.ctl.main import main
from warren.broker.hosting.host import Host
from warren.broker.hosting.local_socket import LocalSocket
from warren.broker.net.tls import TLS
from warren.broker.runtime.resource_monitor import Resources
from warren.plugins.management.service import ManagementService

from .fork_server import Forked, fork_server
from .listening import Listening

PATIENCE_S = 60.0
POLL_S = 0.02

Told = tuple[int, str, str]
"""Exit status, standard output, standard error."""

Warrenctl = Callable[[str], Told]
Ready = dict[str, list[str]]
"""The addresses of a daemon, by what is spoken there."""


def until(condition: Callable[[], bool]) -> None:
    """Until it holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it has not come to that"
        time.sleep(POLL_S)


def ports(ready: Ready) -> list[str]:
    """Of all listeners, in their order."""
    addresses = [address for protocol, found in ready.items() if protocol != "control" for address in found]
    return [address.rpartition(":")[2] for address in addresses]


@contextmanager
def daemon(folder: Path, *options: str) -> Iterator[tuple[Forked, Ready]]:
    """One in memory, that logs into the folder."""
    config = folder / "broker.conf"
    config.write_text(
        f"log.dir = {folder}\nlog.file = broker.log\nlog.file.formatter = json\nlog.console = false\n"
        "prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = 0\n"
    )
    line = ["serve", "--config", str(config), "--memory", "--node", "rabbit@here"]
    line += ["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", *options]
    log = folder / "broker.log"

    def ready() -> list[Ready]:
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        events = [json.loads(text) for text in lines if text.endswith("\n")]
        return [event for event in events if event["event"] == "ready"]

    with (folder / "console").open("wb") as console:
        process = fork_server().start("warren.broker.cli", line, ROOT, os.environ, console)
    try:
        until(lambda: bool(ready()) or process.poll() is not None)
        found = ready()
        assert found, (folder / "console").read_text() + log.read_text()
        yield process, {name: value for name, value in found[0].items() if isinstance(value, list)}
    finally:
        process.terminate()
        process.wait()


def commanded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> Warrenctl:
    """With these options behind each line."""

    def run(line: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["warrenctl", *shlex.split(line), *options])
        status = main()
        told = capsys.readouterr()
        return status, told.out, told.err

    return run


class Controlled:
    """A node on a loop of this process, with a control socket in `folder`. `host` is what its services would get."""

    def __init__(self, folder: Path, config: Config | None = None) -> None:
        self.folder = folder
        self.listening = Listening()
        self.host, self.local = self.listening.run(self._build(config or Config(data_dir=str(folder))))

    async def _build(self, config: Config) -> tuple[Host, LocalSocket]:
        node, server = self.listening.node, self.listening.server
        resources = Resources(node.alarms, lambda: 1 << 40, lambda: None, lambda: 1 << 20, 1 << 30)

        def no_tls(options: object) -> TLS:
            raise ValueError("no certificates here")

        async def listen() -> object:
            return await server.listen("127.0.0.1", 0)

        host = Host(node, config, server.settings, server, resources, no_tls, [])
        host.control.listen = listen
        return host, LocalSocket(host, [ManagementService()])

    def open(self) -> None:
        self.listening.call(self.local.open)

    def close(self) -> None:
        self.listening.run(self.local.close())
        self.listening.close()
