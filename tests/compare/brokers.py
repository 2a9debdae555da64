"""The two brokers that are compared: a Warren started here, and a RabbitMQ 4 that runs already."""

import base64
import contextlib
import http.client
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika

from tests.support.checkout import ROOT

START_S, ANSWER_S, COMMAND_S = 30.0, 30.0, 90.0  # how long a start, an HTTP answer and a command may take
POLL_S = 0.05
WARREN_NODE = "rabbit@here"
TOOLS = ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins")


class NoAnswer(Exception):
    """A broker that is not there."""


@dataclass
class Answer:
    """An HTTP answer: `body` is decoded JSON, the text where it is no JSON, or None where there is none."""

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
        """The answer to a request below /api; `body` is sent as it is if it is bytes. Raises NoAnswer."""
        user, password = credentials or (self.user, self.password)
        sent = {"content-type": "application/json", **(headers or {})}
        if user:
            sent["authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.http, timeout=ANSWER_S)
        try:
            connection.request(method, "/api" + path, data, sent)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{self.title} at http://{self.http} does not answer: {error}") from error
        finally:
            connection.close()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, decoded(text))

    def command(self, line: str) -> Output:
        """Run a command line, whose first word may name the tool; it is rabbitmqctl otherwise."""
        tool, _, rest = line.partition(" ")
        arguments = shlex.split(rest if tool in TOOLS else line)
        prefix = self.tools[tool if tool in TOOLS else "rabbitmqctl"]
        done = subprocess.run(
            [*prefix, *arguments], input="", capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def connect(self, user: str = "", password: str = "", vhost: str = "/", name: str = "") -> pika.BlockingConnection:
        """An AMQP connection. Raises NoAnswer."""
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
        """A path with this broker's own names in place of `{node}` and the like."""
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
    """The command lines of RabbitMQ's tools beside the given one of rabbitmqctl; empty without it."""
    if not command:
        return {}
    return {tool: [word.replace("rabbitmqctl", tool) for word in command] for tool in TOOLS}


@contextlib.contextmanager
def warren(folder: Path) -> Iterator[Broker]:
    """A Warren of this checkout, in memory, until the block ends. Raises NoAnswer."""
    config, log = folder / "broker.conf", folder / "broker.log"
    config.write_text(
        f"log.dir = {folder}\nlog.file = broker.log\nlog.file.formatter = json\nlog.console = false\n"
        "prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = 0\n"
    )
    line = [sys.executable, "-m", "warren.broker.cli", "serve", "--config", str(config), "--data", str(folder)]
    line += ["--node", WARREN_NODE, "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with subprocess.Popen(line, cwd=ROOT) as process:
        try:
            ready = addresses(process, log)
            ctl = [sys.executable, "-m", "warren.broker.ctl", "--data", str(folder)]
            tools = dict.fromkeys(TOOLS, ctl)
            yield Broker("Warren", ready["http"][0], ready["amqp"][0], "guest", "guest", tools, {"node": WARREN_NODE})
        finally:
            process.terminate()
            process.wait()


def addresses(process: "subprocess.Popen[bytes]", log: Path) -> dict[str, list[str]]:
    """The addresses in the log's line `ready`. Raises NoAnswer."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        for event in (json.loads(line) for line in lines if line.endswith("\n")):
            if event["event"] == "ready":
                return {name: value for name, value in event.items() if isinstance(value, list)}
        time.sleep(POLL_S)
    raise NoAnswer(f"Warren did not start: {log.read_text() if log.exists() else 'no log'}")
