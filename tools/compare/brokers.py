"""The two compared brokers: a Warren started here, and a running RabbitMQ 4."""

import contextlib
import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika

from tests.support.broker_process import ANY_PORT, WARRENCTL, BrokerProcess, NotStarted, command_line
from tests.support.http import HTTPClient

COMMAND_S = 90.0  # time limit of a command
WARREN_NODE = "rabbit@here"
TOOLS = ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins")


class NoAnswer(Exception):
    """The broker does not answer."""


@dataclass
class Answer:
    """An HTTP response: `body` is decoded JSON, the text if it is not JSON, or None if it is empty."""

    status: int
    headers: dict[str, str]
    body: Any


@dataclass
class Output:
    """Output of a command, and its exit status."""

    status: int
    stdout: str
    stderr: str


@dataclass
class Broker:
    """The addresses of a broker and its command line. `names` are the words in paths that differ between the two."""

    title: str
    http: str
    amqp: str
    user: str
    password: str
    tools: dict[str, list[str]]
    names: dict[str, str] = field(default_factory=dict)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        credentials: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return the response to a request below /api; a `body` of bytes is sent as it is. Raises NoAnswer."""
        user, password = credentials or (self.user, self.password)
        sent = {"content-type": "application/json", **(headers or {})}
        try:
            response = HTTPClient(self.http).request(method, path, body, user or None, password, sent)
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"{self.title} at http://{self.http} does not answer: {error}") from error
        return Answer(response.status, response.headers, decoded(response.body.decode("utf-8", "replace")))

    def command(self, line: str) -> Output:
        """Run a command line; its first word may name the tool, otherwise it is rabbitmqctl."""
        tool, _, rest = line.partition(" ")
        arguments = shlex.split(rest if tool in TOOLS else line)
        prefix = self.tools[tool if tool in TOOLS else "rabbitmqctl"]
        done = subprocess.run(
            [*prefix, *arguments], input="", capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def connect(self, user: str = "", password: str = "", vhost: str = "/", name: str = "") -> pika.BlockingConnection:
        """Open an AMQP connection. Raises NoAnswer."""
        host, _, port = self.amqp.rpartition(":")
        credentials = pika.PlainCredentials(user or self.user, password or self.password)
        properties = {"connection_name": name} if name else None
        parameters = pika.ConnectionParameters(
            host, int(port), vhost, credentials, client_properties=properties, heartbeat=60
        )
        try:
            return pika.BlockingConnection(parameters)
        except pika.exceptions.AMQPConnectionError as error:
            raise NoAnswer(f"{self.title} at amqp://{self.amqp} refuses: {error!r}") from error

    def filled(self, path: str) -> str:
        """Return a path with this broker's own names in place of `{node}` and similar."""
        for name, value in self.names.items():
            path = path.replace("{" + name + "}", quote(value, safe=""))
        return path


def decoded(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def tools_of(command: Sequence[str]) -> dict[str, list[str]]:
    """Return the command lines of RabbitMQ's other tools by that of rabbitmqctl; {} without it."""
    if not command:
        return {}
    return {tool: [word.replace("rabbitmqctl", tool) for word in command] for tool in TOOLS}


@contextlib.contextmanager
def warren(folder: Path) -> Iterator[Broker]:
    """A Warren of this checkout, for the duration of the context. Raises NoAnswer."""
    log = folder / "broker.log"
    process = BrokerProcess(folder, "--http", ANY_PORT, data=folder, node=WARREN_NODE, log=log, fork=False)
    process.configure(
        *(f"log.dir = {folder}", f"log.file = {log.name}", "log.file.formatter = json", "log.console = false"),
        *("prometheus.tcp.ip = 127.0.0.1", "prometheus.tcp.port = 0"),
    )
    try:
        with process:
            tools = dict.fromkeys(TOOLS, command_line("--data", str(folder), module=WARRENCTL))
            (http,), (amqp,) = process.addresses["http"], process.addresses["amqp"]
            yield Broker("Warren", http, amqp, "guest", "guest", tools, {"node": WARREN_NODE})
            process.stop()
    except NotStarted as failure:
        raise NoAnswer(f"Warren did not start: {failure}") from failure
