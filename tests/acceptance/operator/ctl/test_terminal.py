"""The forms of lists and of the status on a terminal; programs get those of RabbitMQ."""

import io
import pty
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.support.fake_federation import FakeFederation, row
from tests.support.warrenctl import Controlled, Told, Warrenctl
from warren.broker.core.telemetry.resource_alarms import DISK

pytestmark = pytest.mark.sockets


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, in_process: Warrenctl) -> Warrenctl:
    """Run warrenctl with a terminal as its standard output."""

    def run(line: str) -> Told:
        ours, theirs = pty.openpty()
        with open(ours, "rb", buffering=0) as screen, ThreadPoolExecutor(1) as readers, monkeypatch.context() as patch:
            shown = readers.submit(read_all, screen)
            with open(theirs, "w", encoding="utf-8") as output:
                patch.setattr(sys, "stdout", output)
                status, _, err = in_process(line)
            return status, shown.result(), err

    monkeypatch.setenv("COLUMNS", "200")
    return run


def read_all(screen: io.FileIO) -> str:
    """Read what is written to a terminal until it is closed."""
    shown = b""
    with suppress(OSError):  # of a terminal that nobody has open any more
        while part := screen.read(4096):
            shown += part
    return shown.decode().replace("\r", "")


def result(told: Told) -> list[str]:
    """Return the lines of the output without the banner."""
    assert told[::2] == (0, ""), told
    return told[1].splitlines()


def test_lists_are_aligned_unless_a_format_is_asked_for(terminal: Warrenctl) -> None:
    assert result(terminal("list_queues"))[2:] == ["(none)"]
    assert result(terminal("-q list_users")) == ["user   tags", "guest  []"]
    assert result(terminal("-s list_users")) == ["guest  []"]
    assert result(terminal("-q list_users --formatter table")) == ["user\ttags", "guest\t[]"]
    assert result(terminal("-q list_users --formatter json"))[0] == "["


def test_a_reader_that_is_no_terminal_may_ask_for_the_same(in_process: Warrenctl) -> None:
    assert result(in_process("-q list_users")) == ["user\ttags", "guest\t[]"]
    assert result(in_process("-q list_users --formatter terminal")) == ["user   tags", "guest  []"]


def test_links_have_the_columns_that_say_whether_they_run(controlled: Controlled, terminal: Warrenctl) -> None:
    controlled.host.services["federation"] = FakeFederation(row(id="a", status="error", error="connection refused"))
    try:
        names, link = result(terminal("-q federation_status"))
        assert " ".join(names.split()) == "upstream type exchange queue status state backlog error reason"
        assert link.split()[:4] == ["origin", "exchange", "x", "error"] and "connection refused" in link
        assert result(terminal("-q federation_status id"))[0].split() == ["id"]
    finally:
        controlled.host.services.clear()


def test_the_status_begins_with_five_lines_that_say_whether_the_node_is_well(
    controlled: Controlled, terminal: Warrenctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    heading, well, broker, load, room, data, empty, runtime, *_ = result(terminal("status"))
    assert heading.startswith("Status of node") and (well, empty, runtime) == ("Is it well?  yes", "", "Runtime")
    assert re.fullmatch(r"Broker       Warren \S+, node, up \d+ s", broker)
    assert load == "Load         connections: 0, queues: 0, messages: 0 ready, 0 unacknowledged"
    size = r"[\d.]+ [MGT]B"
    assert re.fullmatch(
        rf"Room         {size} of {size} of memory used, {size} of disk free, at least [\d.]+ \w+ needed", room
    )
    assert data == f"Data         {controlled.folder}: nothing survives a restart"
    controlled.host.services["federation"] = FakeFederation(row(id="a", status="error"), row(id="b"))
    controlled.listening.call(lambda: controlled.listening.node.alarms.set(DISK))
    monkeypatch.setattr(controlled.listening.node, "not_restored", lambda: ["queue 'q'"])
    try:
        assert result(terminal("status"))[1] == (
            "Is it well?  no: the disk alarm is set, so that publishers wait; federation links that are down: 1"
            " (federation_status --only-down); objects that were not restored at the start: 1"
        )
        assert result(terminal("status --formatter table"))[1] == "Runtime"
    finally:
        controlled.host.services.clear()


def test_a_program_gets_rabbitmqs_status(in_process: Warrenctl) -> None:
    assert result(in_process("status"))[1] == "Runtime"
