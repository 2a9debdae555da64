"""A reserved port is given to nobody else, and a server listens at it again and again."""

import socket

import pytest

from tests.support.ports import HOST, ReservedPort

pytestmark = pytest.mark.sockets

OTHERS = 200


def test_the_system_gives_a_reserved_port_to_nobody_while_its_server_is_stopped() -> None:
    reserved = [ReservedPort() for _ in range(OTHERS)]
    others = [socket.create_server((HOST, 0)) for _ in range(OTHERS)]
    try:
        numbers = {port.number for port in reserved}
        assert len(numbers) == OTHERS and numbers.isdisjoint(other.getsockname()[1] for other in others)
        for _ in range(2):
            with socket.create_server((HOST, reserved[0].number)) as server:
                client = socket.create_connection(server.getsockname())
                accepted, _ = server.accept()
                accepted.close()
                client.close()
    finally:
        for each in (*reserved, *others):
            each.close()
