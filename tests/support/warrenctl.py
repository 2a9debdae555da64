"""`warrenctl`, run in this process, and brokers for it: a process of its own, or a node in this process."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pika
import pytest

from warren.broker.config import Config
from warren.broker.ctl.main import main
from warren.broker.operator.local_socket import LocalSocket
from warren.broker.plugin_host import services
from warren.broker.plugin_host.host import Host
from warren.plugins.management.service import ManagementService

from .broker_process import ANY_PORT, BrokerProcess
from .in_process import new_host
from .listening_server import ListeningServer

Told = tuple[int, str, str]
"""Exit status, standard output, standard error."""

Warrenctl = Callable[[str], Told]
RunWith = Callable[..., Warrenctl]
Ready = dict[str, list[str]]
"""The addresses of a broker by protocol."""


def ports(ready: Ready) -> list[str]:
    """The ports of all listeners, in their order."""
    addresses = [address for protocol, found in ready.items() if protocol != "control" for address in found]
    return [address.rpartition(":")[2] for address in addresses]


def parameters(ready: Ready) -> pika.ConnectionParameters:
    """The parameters of a connection named `mine`."""
    port = int(ready["amqp"][0].rpartition(":")[2])
    return pika.ConnectionParameters("127.0.0.1", port, client_properties={"connection_name": "mine"})


def broker_process(folder: Path, *options: str) -> BrokerProcess:
    """A broker in memory that logs into the folder, with all its HTTP listeners."""
    options = ("--http", ANY_PORT, *options)
    made = BrokerProcess(folder, *options, memory=True, node="rabbit@here", log=folder / "broker.log")
    made.configure(
        *(f"log.dir = {folder}", "log.file = broker.log", "log.file.formatter = json", "log.console = false"),
        *("prometheus.tcp.ip = 127.0.0.1", "prometheus.tcp.port = 0"),
    )
    return made


def commanded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> Warrenctl:
    """A function that runs a command line of warrenctl with these options appended."""

    def run(line: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["warrenctl", *shlex.split(line), *options])
        status = main()
        told = capsys.readouterr()
        return status, told.out, told.err

    return run


class Controlled:
    """A node on a loop of this process with a control socket in `folder`; `host` is the host of its services."""

    def __init__(self, folder: Path, config: Config | None = None) -> None:
        self.folder = folder
        self.listening = ListeningServer()
        self.host, self.local = self.listening.run(self._build(config or Config(data_dir=str(folder))))

    async def _build(self, config: Config) -> tuple[Host, LocalSocket]:
        node, server = self.listening.node, self.listening.server

        async def listen() -> object:
            return await server.listen("127.0.0.1", 0)

        host = new_host(node, config, server)
        host.control.listen, host.control.stop_services = listen, partial(services.stop, host)
        return host, LocalSocket(config, host.report, host.supervisor, partial(ManagementService().serve_local, host))

    def open(self) -> None:
        self.listening.call(self.local.open)

    def close(self) -> None:
        self.listening.run(self.local.close())
        self.listening.close()
