"""The log of real connections: opened, refused, failed, closed, in every output, and never with a password."""

import gc
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.support.broker_process import BrokerProcess, run
from tests.support.polling import until

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


class Broker(BrokerProcess):
    """A broker with this configuration."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, amqp=None, data=None)
        self.configure(CONFIG)

    def pika(self, password: str = PASSWORD) -> pika.BlockingConnection:
        credentials = pika.PlainCredentials("guest", password)
        name = {"connection_name": "a test"}
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, credentials=credentials, client_properties=name)
        )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as found:
        yield found
    gc.collect()


def test_the_life_of_a_connection_is_logged_with_its_user_and_virtual_host(broker: Broker) -> None:
    broker.pika().close()
    accepted, opened, closed = map(
        broker.wait_for_event, ("connection_accepted", "connection_opened", "connection_closed")
    )
    assert str(accepted["msg"]).startswith("accepting AMQP connection 127.0.0.1:")
    assert str(opened["msg"]).endswith("- a test: user 'guest' authenticated and granted access to vhost '/'"), opened
    assert "a test, vhost: '/', user: 'guest', duration: '0s')" in str(closed["msg"])
    assert {line["level"] for line in (accepted, opened, closed)} == {"info"}
    assert len({line["pid"] for line in (accepted, opened, closed)}) == 1
    assert {line["domain"] for line in (accepted, opened, closed)} == {"rabbitmq.connection"}


def test_errors_are_in_the_file_and_in_the_exchange_too(broker: Broker) -> None:
    connection = broker.pika()
    channel = connection.channel()
    channel.queue_declare("q", exclusive=True)
    channel.queue_bind("q", "amq.rabbitmq.log", "#")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("none", passive=True)
    method, properties, body = next(channel.consume("q", auto_ack=True, inactivity_timeout=WITHIN_S))
    assert method is not None and (method.routing_key, properties.content_type) == ("error", "text/plain")
    assert b"operation queue.declare caused a channel exception not_found: no queue 'none' in vhost '/'" in body
    assert (broker.folder / "broker.log").read_text() == body.decode() + "\n"
    assert broker.wait_for_event("channel_closing")["level"] == "error"


@LEFT_OPEN
def test_a_refused_login_is_logged_without_the_password(broker: Broker) -> None:
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        broker.pika("n0t-" + PASSWORD)
    broker.pika().close()
    refused = broker.wait_for_event("login_refused")
    assert (refused["level"], refused["user"], refused["state"]) == ("error", "guest", "starting")
    assert str(refused["msg"]).endswith("\nPLAIN login refused: user 'guest' - invalid credentials")
    broker.wait_for_event("connection_closed")
    assert PASSWORD not in broker.output.read_text() + (broker.folder / "broker.log").read_text()


@LEFT_OPEN
def test_what_is_logged_can_change_while_the_broker_runs(broker: Broker) -> None:
    broker.configure(CONFIG, "log.connection.level = error", "log.file = other.log")
    broker.process.send_signal(signal.SIGHUP)
    until((broker.folder / "other.log").exists)
    broker.pika().close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        broker.pika("wrong")
    broker.wait_for_event("login_refused")
    assert "connection_opened" not in broker.output.read_text()
    assert "PLAIN login refused" in (broker.folder / "other.log").read_text()


@LEFT_OPEN
def test_a_reload_says_what_has_changed_and_what_waits_for_a_restart(broker: Broker) -> None:
    assert broker.warrenctl("diff").stdout.endswith("The node runs with its configuration as it is now.\n")
    broker.configure(CONFIG, "log.connection.level = error", "heartbeat = 7", "default_pass = n0t-shown")
    assert broker.warrenctl("set_vm_memory_high_watermark", "absolute", "1GB").returncode == 0
    assert json.loads(broker.warrenctl("diff", "--formatter", "json").stdout) == [
        {"key": "heartbeat", "running": "60", "configured": "7", "needs": "restart"},
        {"key": "default_pass", "running": "(not shown)", "configured": "(not shown)", "needs": "restart"},
        {"key": "vm_memory_high_watermark.absolute", "running": "1000000000", "configured": "none", "needs": "restart"},
        {"key": "log.connection.level", "running": "none", "configured": "error", "needs": "reload"},
    ]
    environment = broker.warrenctl("environment").stdout
    assert "vm_memory_high_watermark.absolute = 1000000000" in environment
    assert broker.warrenctl("set_vm_memory_high_watermark", "0.6").returncode == 0
    broker.process.send_signal(signal.SIGHUP)
    reloaded = broker.wait_for_event("configuration_reloaded")
    assert reloaded["changes"] == "log.connection.level none -> error"
    assert (reloaded["needs_restart"], reloaded["level"]) == ("heartbeat, default_pass", "warning")
    waiting = "needs a restart: heartbeat, default_pass"
    assert reloaded["msg"] == f"configuration reloaded: log.connection.level none -> error; {waiting}"
    broker.configure("log.connection.level = loud")
    refused = broker.warrenctl("diff")
    assert refused.returncode == 69 and "broker.conf:1" in refused.stderr and "'loud'" in refused.stderr, refused


@LEFT_OPEN
def test_rotated_logs_stay_where_the_reloaded_configuration_put_them(broker: Broker) -> None:
    """logrotate renames the file, sends SIGHUP once the configuration has changed, and calls rotate_logs."""
    broker.configure(CONFIG, "log.file = other.log")
    broker.process.send_signal(signal.SIGHUP)
    other = broker.folder / "other.log"
    until(other.exists)
    other.rename(broker.folder / "other.log.1")
    assert broker.warrenctl("rotate_logs").returncode == 0
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        broker.pika("wrong")
    broker.wait_for_event("login_refused")
    assert "PLAIN login refused" in other.read_text()
    assert not (broker.folder / "broker.log").read_text()
    assert broker.warrenctl("log_location").stdout.splitlines()[-1] == "other.log"


def test_a_log_file_that_cannot_be_written_ends_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "rabbitmq.conf").write_text("log.file = .\n")
    done = run("serve", "--config", "rabbitmq.conf", "--memory", folder=tmp_path)
    reason = "it is a folder, and a file is needed: choose another path"
    assert (done.returncode, done.stderr) == (78, f"warren: rabbitmq.conf:1: log.file: {tmp_path}: {reason}\n")
