"""The brokers of the suites, Warren or RabbitMQ, started with the same configuration and definitions.

Each suite gets a new broker on the standard ports of the loopback addresses, 5672, 5671 (TLS) and 15672 (HTTP), as many
suites cannot use other ports. They must be free.
"""

import base64
import hashlib
import importlib.metadata
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pika
import trustme

from tests.support.broker_process import WARRENCTL, BrokerProcess, Process, command_line
from tests.support.checkout import ROOT
from tests.support.polling import until

PORT = 5672
TLS_PORT = 5671
HTTP_PORT = 15672
URL = f"amqp://guest:guest@127.0.0.1:{PORT}"
STOP_TIMEOUT_S = 30
READY_WITHIN_S = 90
NODE = "conformance@localhost"

ALL = (".*", ".*", ".*")
READ = ("^---$", "^---$", ".*")
PASSWORDS = {"guest": "guest", "bunny_gem": "bunny_password", "bunny_reader": "reader_password"}
RIGHTS = {
    "/": {"guest": ALL},
    "bunny_testbed": {"guest": ALL, "bunny_gem": ALL, "bunny_reader": READ},
}


class NotStarted(Exception):
    """The broker did not become ready; the text is the reason."""


class Broker:
    """A broker that runs during the context, its files in `folder`; `certificates` has the files of TLS clients."""

    name = ""
    queue_types: Sequence[str] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates = folder / "certificates"
        self.log = folder / "broker.log"
        self.configuration = folder / "rabbitmq.conf"
        self.process: Process | None = None

    def launch(self, configuration: Path) -> Process:
        raise NotImplementedError

    def product(self) -> str:
        """Return the name and the version of the running broker."""
        raise NotImplementedError

    def control(self) -> list[str]:
        """Return the first words of a command line of rabbitmqctl for this broker."""
        raise NotImplementedError

    def rabbitmqctl(self) -> Path:
        """Return the path of a program that is rabbitmqctl for this broker."""
        program = self.folder / "rabbitmqctl"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.control())} "$@"\n')
        program.chmod(0o755)
        return program

    def __enter__(self) -> "Broker":
        shutil.rmtree(self.folder, ignore_errors=True)
        self.certificates.mkdir(parents=True)
        write_certificates(self.certificates)
        self.configuration.write_text(configuration_text(self.folder, self.certificates))
        (self.folder / "definitions.json").write_text(json.dumps(definitions(self.queue_types), indent=1))
        taken = [port for port in (PORT, TLS_PORT, HTTP_PORT) if listens(port)]
        if taken:
            raise NotStarted(f"ports of 127.0.0.1 are taken by somebody else: {taken}")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it if it does not run, and wait until it is ready. Raises NotStarted."""
        if self.process is not None and self.process.poll() is None:
            return
        process = self.process = self.launch(self.configuration)
        until(
            lambda: (answers() and listens(HTTP_PORT)) or process.poll() is not None,
            f"{self.name} is ready",
            within_s=READY_WITHIN_S,
            every_s=0.1,
        )
        if process.poll() is not None:
            raise NotStarted(f"{self.name} ended before it was ready, see {self.log}")

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Kill it with all processes that it has started, and wait until it has ended."""
        if self.process is not None and self.process.poll() is None:
            self.kill_processes(self.process)
            self.process.wait()

    def kill_processes(self, process: Process) -> None:
        process.kill()


class Warren(Broker):
    """The broker of this checkout."""

    name = "warren"
    queue_types = ("classic", "quorum")

    def product(self) -> str:
        return f"Warren {importlib.metadata.version('warrenmq')}"

    def control(self) -> list[str]:
        data = str(self.folder / "data")
        return ["env", f"PYTHONPATH={ROOT}", *command_line("--data", data, module=WARRENCTL)]

    def launch(self, configuration: Path) -> Process:
        broker = BrokerProcess(self.folder, amqp=None, node=NODE, fork=False)
        self.log = broker.output
        broker.launch(config=configuration)
        return broker.process


class RabbitMQ(Broker):
    """A new node of an installed RabbitMQ, whose programs are in the folder `bin`."""

    name = "rabbitmq"
    queue_types = ("classic", "quorum", "stream")
    bin = Path("/usr/lib/rabbitmq/bin")

    def product(self) -> str:
        with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
            return f"RabbitMQ {connection._impl.server_properties['version']}"

    def control(self) -> list[str]:
        return ["env", f"HOME={self.folder}", str(self.bin / "rabbitmqctl"), "-n", NODE]

    def launch(self, configuration: Path) -> Process:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [str(self.bin / "rabbitmq-server")],
                cwd=self.folder,
                env={**os.environ, **self.environment(configuration)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_processes(self, process: Process) -> None:
        os.killpg(process.pid, signal.SIGKILL)

    def environment(self, configuration: Path) -> dict[str, str]:
        plugins = self.folder / "enabled_plugins"
        plugins.write_text("[rabbitmq_management].\n")
        return {
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_DIST_PORT": "25679",
            "RABBITMQ_CONFIG_FILE": str(configuration.with_suffix("")),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
        }


def configuration_text(folder: Path, certificates: Path) -> str:
    """Return the rabbitmq.conf for both brokers. The maximum message size is the default before RabbitMQ 4, as bunny's
    tests send such messages.
    """
    return f"""\
listeners.tcp.1 = 127.0.0.1:{PORT}
listeners.tcp.2 = ::1:{PORT}
listeners.ssl.1 = 127.0.0.1:{TLS_PORT}
listeners.ssl.2 = ::1:{TLS_PORT}
management.tcp.ip = 127.0.0.1
management.tcp.port = {HTTP_PORT}
ssl_options.cacertfile = {certificates / "ca_certificate.pem"}
ssl_options.certfile = {certificates / "server_certificate.pem"}
ssl_options.keyfile = {certificates / "server_key.pem"}
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
max_message_size = 134217728
load_definitions = {folder / "definitions.json"}
"""


def definitions(queue_types: Sequence[str]) -> dict[str, object]:
    """Return the vhosts, users and permissions that suites expect; bunny has a vhost for each queue type."""
    types = {f"bunny_dqt_{kind}": kind for kind in queue_types}
    rights = {**RIGHTS, **{vhost: {"guest": ALL, "bunny_gem": ALL} for vhost in types}}
    return {
        "vhosts": [
            {"name": name, "metadata": {"default_queue_type": types[name]}} if name in types else {"name": name}
            for name in rights
        ],
        "users": [
            {
                "name": user,
                "password_hash": hashed(password),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ["administrator"] if user == "guest" else [],
            }
            for user, password in PASSWORDS.items()
        ],
        "permissions": [
            {"user": user, "vhost": vhost, "configure": configure, "write": write, "read": read}
            for vhost, users in rights.items()
            for user, (configure, write, read) in users.items()
        ],
    }


def hashed(password: str) -> str:
    salt = os.urandom(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def write_certificates(folder: Path) -> None:
    """Write an authority, a server and a client certificate under the names that clients use."""
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1", "::1")
    client = authority.issue_cert("client.localhost")
    authority.cert_pem.write_to_path(folder / "ca_certificate.pem")
    for role, certificate in (("server", server), ("client", client)):
        for blob in certificate.cert_chain_pems:
            blob.write_to_path(folder / f"{role}_certificate.pem", append=True)
        certificate.private_key_pem.write_to_path(folder / f"{role}_key.pem")
    client.cert_chain_pems[0].write_to_path(folder / "client_certificate_broken.pem")
    server.private_key_pem.write_to_path(folder / "client_key_broken.pem")  # not the key of that certificate


def listens(port: int) -> bool:
    """True if somebody listens on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def answers() -> bool:
    """True if a broker answers AMQP on the port."""
    try:
        with socket.create_connection(("127.0.0.1", PORT), timeout=2) as peer:
            peer.sendall(b"AMQP\x00\x00\x09\x01")
            return peer.recv(1) == b"\x01"
    except OSError:
        return False
