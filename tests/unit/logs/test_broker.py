"""What a broker logs of real connections: opened, refused, failed, closed, to every output, and never a password."""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.support.checkout import ROOT
from tests.support.fork_server import fork_server

WITHIN_S = 60
# pika leaves the socket of a refused login to the collector; the fixture collects it, where this filter holds
LEFT_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PASSWORD = "s3cret-pass"
CONFIG = f"""
listeners.tcp.default = 127.0.0.1:0
warren.memory = true
default_pass = {PASSWORD}
log.console.formatter = json
log.file = broker.log
log.file.level = error
log.exchange = true
log.exchange.level = warning
"""


class Broker:
    """With that configuration, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "rabbitmq.conf"
        self.configuration.write_text(CONFIG)
        with (folder / "console").open("wb") as console:
            line = ["serve", "--config", "rabbitmq.conf"]
            self.process = fork_server().start("warren.broker.cli", line, folder, os.environ, console)
        self.port = int(self.told("ready")["amqp"][0].rpartition(":")[2])  # type: ignore[index]

    def console(self) -> str:
        return (self.folder / "console").read_text()

    def told(self, event: str) -> dict[str, object]:
        """The last such line, once there is one."""
        give_up = time.monotonic() + WITHIN_S
        while True:
            lines = [json.loads(line) for line in self.console().splitlines(True) if line.endswith("\n")]
            found = [line for line in lines if line["event"] == event]
            if found:
                assert isinstance(found[-1], dict)
                return found[-1]
            assert time.monotonic() < give_up and self.process.poll() is None, self.console()
            time.sleep(0.01)

    def until(self, condition: Callable[[], bool]) -> None:
        give_up = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < give_up, self.console()
            time.sleep(0.01)

    def connect(self, password: str = PASSWORD) -> pika.BlockingConnection:
        credentials = pika.PlainCredentials("guest", password)
        name = {"connection_name": "a test"}
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, credentials=credentials, client_properties=name)
        )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        gc.collect()


def test_the_life_of_a_connection_is_logged_with_its_user_and_virtual_host(broker: Broker) -> None:
    broker.connect().close()
    accepted, opened, closed = map(broker.told, ("connection_accepted", "connection_opened", "connection_closed"))
    assert str(accepted["msg"]).startswith("accepting AMQP connection 127.0.0.1:")
    assert str(opened["msg"]).endswith("- a test: user 'guest' authenticated and granted access to vhost '/'"), opened
    assert "a test, vhost: '/', user: 'guest', duration: '0s')" in str(closed["msg"])
    assert {line["level"] for line in (accepted, opened, closed)} == {"info"}
    assert len({line["pid"] for line in (accepted, opened, closed)}) == 1
    assert {line["domain"] for line in (accepted, opened, closed)} == {"rabbitmq.connection"}


def test_errors_are_in_the_file_and_in_the_exchange_too(broker: Broker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("q", exclusive=True)
    channel.queue_bind("q", "amq.rabbitmq.log", "#")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("none", passive=True)
    method, properties, body = next(channel.consume("q", auto_ack=True, inactivity_timeout=WITHIN_S))
    assert method is not None and (method.routing_key, properties.content_type) == ("error", "text/plain")
    assert b"operation queue.declare caused a channel exception not_found: no queue 'none' in vhost '/'" in body
    assert (broker.folder / "broker.log").read_text() == body.decode() + "\n"
    assert broker.told("channel_closing")["level"] == "error"


@LEFT_OPEN
def test_a_refused_login_is_logged_without_the_password(broker: Broker) -> None:
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        broker.connect("n0t-" + PASSWORD)
    broker.connect().close()
    refused = broker.told("login_refused")
    assert (refused["level"], refused["user"], refused["state"]) == ("error", "guest", "starting")
    assert str(refused["msg"]).endswith("\nPLAIN login refused: user 'guest' - invalid credentials")
    broker.told("connection_closed")
    assert PASSWORD not in broker.console() + (broker.folder / "broker.log").read_text()


@LEFT_OPEN
def test_what_is_logged_can_change_while_the_broker_runs(broker: Broker) -> None:
    broker.configuration.write_text(CONFIG + "log.connection.level = error\nlog.file = other.log\n")
    broker.process.send_signal(signal.SIGHUP)
    broker.until((broker.folder / "other.log").exists)
    broker.connect().close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        broker.connect("wrong")
    broker.told("login_refused")
    assert "connection_opened" not in broker.console()
    assert "PLAIN login refused" in (broker.folder / "other.log").read_text()


@LEFT_OPEN
def test_rotated_logs_stay_where_the_reloaded_configuration_put_them(broker: Broker) -> None:
    """logrotate renames the file, sends SIGHUP once the configuration has changed, and calls rotate_logs."""
    broker.configuration.write_text(CONFIG + "log.file = other.log\n")
    broker.process.send_signal(signal.SIGHUP)
    other = broker.folder / "other.log"
    broker.until(other.exists)
    other.rename(broker.folder / "other.log.1")
    control = broker.told("ready")["control"][0]  # type: ignore[index]
    line = [sys.executable, "-m", "warren.broker.ctl", "--data", str(Path(str(control)).parent)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def warrenctl(command: str) -> str:
        done = subprocess.run([*line, command], env=environment, capture_output=True, text=True, timeout=50, check=True)
        return done.stdout

    warrenctl("rotate_logs")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        broker.connect("wrong")
    broker.told("login_refused")
    assert "PLAIN login refused" in other.read_text()
    assert not (broker.folder / "broker.log").read_text()
    assert warrenctl("log_location").splitlines()[-1] == "other.log"


def test_a_log_file_that_cannot_be_written_ends_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "rabbitmq.conf").write_text("log.file = .\n")
    line = [sys.executable, "-m", "warren.broker.cli", "serve", "--config", "rabbitmq.conf", "--memory"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (78, "warren: log.file: .: Is a directory\n")
