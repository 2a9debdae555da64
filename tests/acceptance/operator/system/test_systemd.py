"""A broker as a service of systemd: its notifications, and when they are sent."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, environment_of

pytestmark = pytest.mark.sockets


class Service:
    """The receiving end of notifications, and the broker that sends them."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(60)
        self._socket.bind(str(folder / "notify"))
        variables = {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "200000"}
        environment = environment_of(folder / "broker") | variables
        self.broker = BrokerProcess(folder / "broker", environment=environment)

    def until(self, line: str) -> list[str]:
        """Return the lines of the first notification with this line; those before it are dropped."""
        while True:
            lines = self._socket.recv(4096).decode().splitlines()
            if line in lines:
                return lines

    def close(self) -> None:
        self.broker.close()
        self._socket.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.close()


def test_the_broker_is_ready_when_clients_can_connect_and_says_when_it_stops(service: Service) -> None:
    service.broker.launch()
    ready = service.until("READY=1")
    service.broker.wait_ready()
    assert ready[1:] == [f"STATUS=serving clients at {service.broker.addresses['amqp'][0]}", "WATCHDOG_USEC=200000"]
    service.broker.connect().close()
    for _ in range(3):
        service.until("WATCHDOG=1")
    service.broker.process.send_signal(signal.SIGHUP)
    service.until("RELOADING=1")
    service.until("READY=1")
    service.broker.process.send_signal(signal.SIGTERM)
    service.until("STOPPING=1")
    assert service.broker.wait() == 0


def test_a_broker_that_the_watchdog_kills_prints_where_its_loop_was(service: Service) -> None:
    service.broker.start()
    service.broker.process.send_signal(signal.SIGABRT)
    assert service.broker.wait() == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in service.broker.output.read_text()
