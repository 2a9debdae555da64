"""The addresses of a listener."""

import asyncio
import errno
import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from warren.broker.net import port_holder
from warren.broker.net.connection_limits import ConnectionLimits
from warren.broker.net.listener import Listener, SocketOptions, another_address, listen_error
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


def in_use() -> OSError:
    return OSError(errno.EADDRINUSE, "")


@pytest.mark.parametrize(("host", "before"), [("127.0.0.1", ""), ("127.16.4.2", "127.16.4.2:"), ("::1", "[::1]:")])
def test_an_address_in_use_is_answered_with_the_next_port_that_is_free(host: str, before: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        taken = stack.enter_context(socket.create_server((host, 0), family=family)).getsockname()[1]
        with suppress(OSError):  # it may be taken by another program
            stack.enter_context(socket.create_server((host, taken + 1), family=family))
        option, _, address = another_address("--amqp", in_use(), host, taken).rpartition(" ")
        assert option == "--amqp" and address.startswith(before)
        port = int(address.removeprefix(before))
        assert port > taken + 1
        socket.create_server((host, port), family=family).close()


def test_a_port_in_use_is_answered_with_the_program_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    name = Path("/proc/self/comm").read_text().strip()
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        with socket.create_server((host, 0), family=family) as taken:
            port = taken.getsockname()[1]
            assert listen_error(in_use(), port) == f"another program listens there: {name} (pid {os.getpid()})"
        assert port_holder.holder_of(port) == ""
    monkeypatch.setattr(port_holder, "TABLES", ("/none",))  # as where there is no /proc
    with socket.create_server(("127.0.0.1", 0)) as taken:
        reason = listen_error(in_use(), taken.getsockname()[1])
    assert reason == "another program listens there, perhaps RabbitMQ or another Warren"


@pytest.mark.parametrize(
    ("error", "port"),
    [(in_use(), 65_535), (OSError(errno.EADDRNOTAVAIL, ""), 5672), (PermissionError(errno.EACCES, ""), 80)],
)
def test_an_address_that_no_other_port_mends_is_answered_with_the_form_of_an_address(error: OSError, port: int) -> None:
    assert another_address("--http", error, "127.0.0.1", port) == "--http HOST:PORT"
