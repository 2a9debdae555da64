"""Notifications of systemd, received at real sockets as it does."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.broker.runtime.systemd import Systemd

Environment = dict[str, str]


def no_report(event: str, level: str, fields: dict[str, object]) -> None:
    pytest.fail(f"{event}: {fields}")


@pytest.fixture(params=["path", "abstract"])
def notified(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A socket of systemd, and its address as NOTIFY_SOCKET has it."""
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiving:
        receiving.settimeout(10)
        receiving.bind(f"\0{name}" if request.param == "abstract" else name)
        yield receiving, f"@{name}" if request.param == "abstract" else name


def received(receiving: socket.socket) -> list[str]:
    return receiving.recv(4096).decode().splitlines()


def test_each_state_is_a_datagram(notified: tuple[socket.socket, str]) -> None:
    receiving, address = notified
    notifying = Systemd({"NOTIFY_SOCKET": address}, no_report)
    notifying.status("standby of a@host")
    assert received(receiving) == ["STATUS=standby of a@host"]
    notifying.ready("serving")
    assert received(receiving) == ["READY=1", "STATUS=serving"]
    notifying.reloading()
    reloading, since = received(receiving)
    assert reloading == "RELOADING=1" and int(since.removeprefix("MONOTONIC_USEC=")) > 0
    notifying.reloaded()
    assert received(receiving) == ["READY=1"]
    notifying.stopping()
    assert received(receiving) == ["STOPPING=1", "STATUS=stopping"]


def test_the_watchdog_pauses_while_a_standby_recovers(notified: tuple[socket.socket, str]) -> None:
    receiving, address = notified
    notifying = Systemd({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000"}, no_report)
    notifying.ready("standby")
    assert received(receiving)[2:] == ["WATCHDOG_USEC=30000000"]
    notifying.recovering("taking over")
    assert received(receiving) == ["STATUS=taking over", "WATCHDOG_USEC=0"]


async def test_the_loop_sends_twice_in_the_time_of_the_watchdog(notified: tuple[socket.socket, str]) -> None:
    receiving, address = notified
    receiving.setblocking(False)
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
    notifying = Systemd(environment, no_report)
    assert notifying.watchdog_s == 0.02 and environment == {}
    watching = asyncio.ensure_future(notifying.watch())
    for _ in range(3):
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(receiving, 100), 10) == b"WATCHDOG=1"
    watching.cancel()


@pytest.mark.parametrize(
    "environment",
    [{}, {"WATCHDOG_USEC": "20000"}, {"NOTIFY_SOCKET": "/none", "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"}],
    ids=["nothing", "no-socket", "another-process"],
)
async def test_without_a_watchdog_nothing_is_sent(environment: Environment) -> None:
    notifying = Systemd(environment, no_report)
    assert notifying.watchdog_s == 0.0
    await asyncio.wait_for(notifying.watch(), 10)


def test_a_socket_that_is_gone_is_logged_and_ends_nothing(tmp_path: Path) -> None:
    events: list[tuple[str, str, dict[str, object]]] = []
    environment = {"NOTIFY_SOCKET": str(tmp_path / "none")}
    Systemd(environment, lambda *event: events.append(event)).ready("serving")
    lines = ["READY=1", "STATUS=serving"]
    fields = {"lines": lines, "reason": "No such file or directory"}
    assert events == [("systemd_not_notified", "warning", fields)]
