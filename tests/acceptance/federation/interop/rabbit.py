"""Debian's RabbitMQ, started on free ports, under a node name and in a folder of its own."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.amqp_client import Channel
from tests.support.federation import Row, hyphened
from tests.support.http import HTTPClient
from tests.support.peer import SocketPeer
from tests.support.polling import links_running, until

BIN = Path("/usr/lib/rabbitmq/bin")  # the commands themselves, without what Debian does for its own service
STARTED_WITHIN_S = 90.0
PLUGINS = (
    "[rabbitmq_management,rabbitmq_federation,rabbitmq_federation_management,rabbitmq_shovel,"
    "rabbitmq_shovel_management]."
)


def missing() -> str:
    """Return why RabbitMQ cannot be run, or an empty string."""
    if not (BIN / "rabbitmq-server").exists():
        return "RabbitMQ is not installed (Debian: apt-get install rabbitmq-server)"
    return "" if shutil.which("erl") else "Erlang is not on PATH"


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Rabbit:
    """A broker whose cluster is called `rabbit`; what is asked of it is asked in the virtual host `/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, http_port, distribution_port, self._epmd_port = free_ports(4)
        self._http = f"127.0.0.1:{http_port}"
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nmanagement.tcp.ip = 127.0.0.1\n"
            f"management.tcp.port = {http_port}\nlog.console.level = warning\n"
        )
        (folder / "enabled_plugins").write_text(PLUGINS)
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"warren-interop-{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_MNESIA_BASE": str(folder),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._peer = SocketPeer(f"127.0.0.1:{self.port}")

    def start(self) -> None:
        with (self.folder / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                [str(BIN / "rabbitmq-server")],
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,
            )
        until(self._answers, lambda: (self.folder / "out.log").read_text()[-2000:], STARTED_WITHIN_S)
        self.ask("PUT", "/cluster-name", {"name": "rabbit"})  # else each message waits for a look at the host's name

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self.folder / "out.log").read_text()
        try:
            return HTTPClient(self._http).get(f"/health/checks/port-listener/{self.port}").status == 200
        except OSError:
            return False

    def close(self) -> None:
        self._peer.close()
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        until(self._end_epmd, "the end of epmd")

    def _end_epmd(self) -> bool:
        """End epmd, which ends only after it has seen that the node is down."""
        line = ["epmd", "-port", str(self._epmd_port), "-kill"]
        done = subprocess.run(line, env=self._environment, capture_output=True, text=True, timeout=20, check=False)
        return "Killed" in done.stdout or "Cannot connect" in done.stdout + done.stderr

    def run(self, command: str, *words: str) -> str:
        """One of its commands, as an operator runs it."""
        line = [str(BIN / command), "-n", self._environment["RABBITMQ_NODENAME"], *words]
        done = subprocess.run(line, env=self._environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    @property
    def uri(self) -> str:
        return f"amqp://127.0.0.1:{self.port}/%2f"

    @property
    def urls(self) -> tuple[str, str]:
        """The URLs of its HTTP API and of AMQP, with user and password."""
        return f"http://guest:guest@{self._http}", f"amqp://guest:guest@127.0.0.1:{self.port}/%2f"

    def channel(self) -> Channel:
        """One of a new connection."""
        return self._peer.connect().channel()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the document of a response of its HTTP API, which must report success; `path` follows /api."""
        response = HTTPClient(self._http).request(method, path, body)
        assert response.status < 300, (method, path, response)
        return response.json if response.body else None

    def federate(self, pattern: str, *uris: str, **settings: Any) -> None:
        """All that the pattern finds, by upstreams called u0, u1 and so on."""
        for number, uri in enumerate(uris):
            value = hyphened({"uri": uri, "reconnect_delay": 1, **settings})
            self.ask("PUT", f"/parameters/federation-upstream/%2f/u{number}", {"value": value})
        self.policy(pattern, {"federation-upstream-set": "all"})

    def policy(self, pattern: str, definition: Mapping[str, Any]) -> None:
        self.ask("PUT", "/policies/%2f/federate", {"pattern": pattern, "definition": definition})

    def unfederate(self) -> None:
        for policy in self.ask("GET", "/policies/%2f"):
            self.ask("DELETE", f"/policies/%2f/{policy['name']}")
        for upstream in self.ask("GET", "/parameters/federation-upstream/%2f"):
            self.ask("DELETE", f"/parameters/federation-upstream/%2f/{upstream['name']}")

    def running(self, count: int = 1) -> list[Row]:
        """Wait until `count` links run, and return them."""
        return links_running(self.rows, count, lambda: str(self.rows()))

    def rows(self) -> list[Row]:
        found: list[Row] = self.ask("GET", "/federation-links")
        return found

    def bindings(self, exchange: str) -> list[dict[str, Any]]:
        """Return the bindings that links have made."""
        found = self.ask("GET", f"/exchanges/%2f/{quote(exchange, '')}/bindings/source")
        return [one for one in found if one["destination"].startswith("federation: ")]

    def bound(self, exchange: str, *keys: str) -> None:
        def look() -> list[str]:
            return sorted(one["routing_key"] for one in self.bindings(exchange))

        until(lambda: look() == sorted(keys), lambda: f"{sorted(keys)}: {look()}")

    def ready(self, queue: str) -> int:
        """Messages there, asked of the queue itself."""
        channel = self.channel()
        count = channel.count(queue)
        channel.client.close()
        return count
