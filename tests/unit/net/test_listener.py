"""The addresses of a listener."""

import asyncio
import socket

import pytest

from warren.broker.net.connection_limits import ConnectionLimits
from warren.broker.net.listener import Listener, SocketOptions
from warren.broker.runtime.supervisor import Supervisor

pytestmark = pytest.mark.sockets


def report(event: str, level: str, fields: dict[str, object]) -> None:
    """Ignore an event."""


def bound_to(host: str) -> list[str]:
    async def bind() -> list[str]:
        listener = Listener(SocketOptions(), report, Supervisor(report), ConnectionLimits(10, report))
        await listener.bind(host, 0)
        listener.close()
        return [address.rpartition(":")[0] for address in listener.addresses]

    return asyncio.run(bind())


def test_every_interface_is_one_socket_for_both_versions_of_ip_where_there_are_both() -> None:
    assert bound_to("::") == (["[::]"] if socket.has_dualstack_ipv6() else ["0.0.0.0"])


def test_every_interface_is_that_of_ipv4_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    assert bound_to("::") == ["0.0.0.0"]
