"""Many wrong logins at once: a right password succeeds promptly from another address, and in the end from the same."""

import socket

import pytest

from tests.support.amqp_client import Client, Closed, Silence
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.sockets

WRONG = 300
ELSEWHERE = "127.0.0.2"


class SocketOf:
    """A connection to the broker from an address of this machine."""

    def __init__(self, broker: tuple[str, int], address: str) -> None:
        self._socket = socket.create_connection(broker, 20, source_address=(address, 0))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, wait_ms: int | None) -> bytes:
        try:
            return self._socket.recv(1 << 16)
        except ConnectionError:
            return b""
        except TimeoutError as error:
            raise Silence("nothing came") from error

    def close(self) -> None:
        self._socket.close()


def send_login(daemon: BrokerProcess, address: str, password: str) -> Client:
    """Send a login without waiting for its result."""
    client = Client(SocketOf(daemon.address, address))
    client.start()
    client.login("PLAIN", f"\0guest\0{password}")
    return client


def gets_in(client: Client) -> bool:
    try:
        client.tune()
    except (Closed, AssertionError):
        return False
    finally:
        client.pipe.close()
    return True


def test_the_right_password_gets_in_beside_300_wrong_ones(daemon: BrokerProcess) -> None:
    daemon.start()
    assert gets_in(send_login(daemon, "127.0.0.1", "guest"))  # whose hash becomes one of argon2id
    wrong = [send_login(daemon, ELSEWHERE, f"wrong {number}") for number in range(WRONG)]
    try:
        assert gets_in(send_login(daemon, "127.0.0.1", "guest")), daemon.tail()
        refusals = len(daemon.events("login_refused"))
        assert refusals < WRONG // 4, f"after {refusals} others"
    finally:
        for client in wrong:
            client.pipe.close()
    daemon.stop()


def test_the_right_password_gets_in_from_the_address_of_the_wrong_ones_in_the_end(daemon: BrokerProcess) -> None:
    daemon.start()
    assert gets_in(send_login(daemon, "127.0.0.1", "guest"))
    wrong = [send_login(daemon, ELSEWHERE, f"wrong {number}") for number in range(WRONG)]
    try:
        assert any(gets_in(send_login(daemon, ELSEWHERE, "guest")) for _ in range(1000)), daemon.tail()
    finally:
        for client in wrong:
            client.pipe.close()
    daemon.stop()
