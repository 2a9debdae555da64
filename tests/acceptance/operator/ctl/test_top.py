"""The screen of `warrenctl top`: what it shows of a node, and what its keys do."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import WARRENCTL, environment_of
from tests.support.fake_federation import FakeFederation, row
from tests.support.warrenctl import Controlled, Warrenctl
from warren.broker.ctl import node as connection
from warren.broker.ctl.call import Call
from warren.broker.ctl.top import ALARM, CONNECTIONS, LINKS, QUEUES, SELECTED, VIEWS, Top, number, size

pytestmark = pytest.mark.sockets
STRANGE = "evil\x1b[2J\x00\n\u202e" + "x" * 200
DOWN = {"status": "error", "error": "refused", "local_connection": "", "state": "", "reason": ""}


@pytest.fixture
def top(controlled: Controlled) -> Iterator[Top]:
    """A screen of a node with 300 queues, one of which has a strange name, and three links."""

    def declare() -> None:
        vhost = controlled.host.node.vhosts["/"]
        for place in range(299):
            vhost.declare_queue(f"q{place:03}")
        vhost.declare_queue(STRANGE)

    controlled.listening.call(declare)
    links = (row(id=str(place), node="node", name=f"x{place}", backlog=place) for place in range(2))
    controlled.host.services["federation"] = FakeFederation(*links, row(id="down", node="node", **DOWN))
    call = Call("top", [], {})
    connection.connect_to_socket(call, controlled.folder, 10.0)
    yield Top(call)
    call.api.close()
    controlled.host.services.clear()


def pressed(top: Top, *keys: str, rows: int = 10) -> list[str]:
    """Press keys, refresh after each, and return the names of the rows."""
    for key in keys:
        assert top.key(key)
        top.refresh(rows)
    assert not top.message
    return [str(item[top.view.name]) for item in top.items]


def test_the_screen_shows_node_totals_and_a_page_of_queues(top: Top) -> None:
    top.refresh(10)
    lines = [text for text, _ in top.lines(120, 24)]
    assert len(lines) == 24 and lines[0].split()[1:4] == ["Warren", lines[0].split()[2], "up"]
    assert "0 connections, 0 channels, 300 queues, 0 consumers" in lines and "[Queues]" in lines[5]
    assert lines[5].endswith("300, page 1 of 30") and lines[6].split()[:3] == ["VHOST", "NAME", "TYPE"]
    assert len(pressed(top, "KEY_END")) == 10 and (top.page, top.pages) == (30, 30)


def test_no_line_is_longer_than_the_screen_or_controls_it(top: Top) -> None:
    pressed(top, "/", *"evil", "\n")
    for view in VIEWS:
        if view is not QUEUES:
            pressed(top, "\t")
        for width, height in ((0, 0), (1, 1), (20, 5), (80, 24), (109, 11), (500, 600)):
            for top.help in (False, True):
                lines = top.lines(width, height)
                assert len(lines) == max(height, 1) and all(len(text) <= max(width - 1, 0) for text, _ in lines)
                assert all(text.isprintable() for text, _ in lines)
    assert top.view is LINKS


def test_keys_page_and_choose_rows(top: Top) -> None:
    first = pressed(top, ">", "<", rows=100)  # sorted by READY again, all of them equal
    assert len(first) == 100
    assert pressed(top, "KEY_DOWN", "KEY_DOWN", rows=100) == first and top.cursor == 2
    second = pressed(top, "KEY_NPAGE", rows=100)
    assert not {*first} & {*second} and top.cursor == 0
    assert pressed(top, "KEY_UP", rows=100) == first and top.cursor == 99
    assert pressed(top, "KEY_DOWN", rows=100) == second and top.cursor == 0
    assert pressed(top, "KEY_HOME", "KEY_UP", "KEY_PPAGE", rows=100) == first and (top.page, top.cursor) == (1, 0)
    third = pressed(top, "KEY_END", *["KEY_DOWN"] * 120, rows=100)
    assert not {*first, *second} & {*third} and (top.page, top.cursor) == (3, 99)
    top.call.delete("queues/{vhost}/{name}", name="q150")
    assert [pressed(top, "r", rows=150)[0], top.page] == [first[0], 1], "there are fewer pages than before"


def test_keys_sort_by_each_column_of_each_list(top: Top) -> None:
    for view, key in zip(VIEWS, "123", strict=True):
        pressed(top, key)
        for _ in view.columns:
            pressed(top, ">", "I")
        assert top.sort == view.sort
        for key in ("M", "P", ",", "."):
            pressed(top, key)
    assert pressed(top, "1", "<", "<", "<")[0] == STRANGE and pressed(top, "I")[0] == "q298"


def test_a_filter_is_typed_and_removed(top: Top) -> None:
    assert pressed(top, "\\", *"Q01x", "KEY_BACKSPACE", "\n") == [f"q01{place}" for place in range(10)]
    assert "with 'Q01'" in top.lines(120, 24)[5].text
    assert pressed(top, "KEY_F(4)", *"x") == [] and any("none with 'Q01x'" in text for text, _ in top.lines(120, 24))
    assert len(pressed(top, "\x1b")) == 10 and not top.filter
    assert pressed(top, "3", "/", *"X1", "\n") == ["exchange x1"]


def test_a_connection_is_closed_and_a_link_restarted_after_a_question(
    top: Top, controlled: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = controlled.host.services["federation"]
    assert isinstance(links, FakeFederation)
    pressed(top, "3", "k")
    assert top.lines(120, 24)[-1] == ("Restart the link of exchange x? y: yes, any other key: no", ALARM)
    pressed(top, "n")
    assert not links.restarted and not top.question
    pressed(top, "KEY_F(9)", "y")
    assert links.restarted == ["down"], "links that are down are first"
    pressed(top, "1")
    top.key("k")
    assert top.message.startswith("Only a connection") and not top.question
    top.show(CONNECTIONS)
    top.items = [{"name": "1.2.3.4:5 -> 6.7.8.9:10"}]
    closed: list[object] = []
    monkeypatch.setattr(Call, "delete", lambda call, path, **more: closed.append(more))
    top.key("k")
    top.key("y")
    assert closed == [{"headers": {"X-Reason": "closed by warrenctl top"}, "name": "1.2.3.4:5 -> 6.7.8.9:10"}]


def test_what_is_wrong_is_shown_as_an_alarm(top: Top, controlled: Controlled) -> None:
    controlled.listening.call(lambda: controlled.host.node.alarms.set("memory"))
    pressed(top, "3")
    lines = top.lines(120, 24)
    assert lines[1].style == ALARM and lines[1].text.endswith("MEMORY ALARM")
    styles = {text.split()[2]: style for text, style in lines[7:10]}
    assert styles == {"x": SELECTED, "x0": "normal", "x1": "normal"}
    pressed(top, "KEY_DOWN")
    assert top.lines(120, 24)[7].style == ALARM


def test_a_node_that_ends_is_asked_again(top: Top, controlled: Controlled) -> None:
    top.refresh(10)
    controlled.listening.run(controlled.local.close())
    top.refresh(10)
    assert top.message.startswith("No answer from the node, which is asked again: ") and len(top.items) == 10
    controlled.open()
    assert len(pressed(top, "Z")) == 10 and top.paused


def test_without_a_terminal_each_list_is_printed_once(top: Top, in_process: Warrenctl) -> None:
    status, out, err = in_process("top")
    assert (status, err) == (0, "") and out.count("NAME") == len(VIEWS)
    assert len(out.splitlines()) < 100 and "300, page 1 of 6" in out and "exchange x1" in out
    assert in_process("top --interval 0")[0] == 64


def test_it_runs_on_a_terminal(top: Top, controlled: Controlled, tmp_path: Path) -> None:
    terminal, other_end = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [sys.executable, "-m", WARRENCTL, "--data", str(controlled.folder), "top"]
    environment = environment_of(tmp_path) | {"TERM": "xterm"}
    process = subprocess.Popen(command, stdin=other_end, stdout=other_end, stderr=other_end, env=environment)
    os.close(other_end)
    written = b""
    for text, key in ((b"300 queues", b"h"), (b"after a question", b"q")):
        while text not in written:
            assert select.select([terminal], [], [], 20)[0], written
            written += os.read(terminal, 1 << 16)
        os.write(terminal, key)
    assert process.wait(20) == 0
    os.close(terminal)


def test_numbers_and_sizes_are_short() -> None:
    shown = [0, 0.5, 7, 99.94, 99_999, 100_000, 999_950, 1_234_567, 5e15, None]
    assert [number(one) for one in shown] == ["0", "0.5", "7", "99.9", "99999", "100k", "1M", "1.23M", "5P", ""]
    assert [size(one) for one in (0, 1023, 1024, 1536, 20 << 20, 1 << 62)] == ["0", "1023", "1K", "1.5K", "20M", "4E"]
    assert max(len(number(10**power)) for power in range(20)) <= 6
    assert LINKS.whole and not QUEUES.whole
