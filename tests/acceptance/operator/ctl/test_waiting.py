"""Waiting for nodes: that start, that never do, and that do not answer; and seeing them end."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.warrenctl import Controlled, Warrenctl, broker_process, commanded
from warren.broker.hosting import local_socket

pytestmark = pytest.mark.sockets

SOON_S = 0.2  # nothing depends on it: whoever waits does so for as long as it takes
RUNNING = "Applications 'rabbit_and_plugins' are running on node 'node'"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Warrenctl:
    """By the control socket that may come to be in this folder."""
    return commanded(monkeypatch, capsys, "--data", str(tmp_path))


@pytest.fixture
def soon() -> Callable[[Callable[[], object]], None]:
    """Does something in a while, in another thread."""

    def start(work: Callable[[], object]) -> None:
        threading.Timer(SOON_S, work).start()

    return start


def test_a_node_that_starts_later_is_waited_for(
    tmp_path: Path, here: Warrenctl, soon: Callable[[Callable[[], object]], None]
) -> None:
    node = Controlled(tmp_path)
    soon(node.open)
    assert here("await_startup") == (0, "", "")
    node.close()


def test_the_node_of_a_process_is_waited_for(
    tmp_path: Path, here: Warrenctl, soon: Callable[[Callable[[], object]], None]
) -> None:
    node = Controlled(tmp_path)
    file, own = tmp_path / "pid", os.getpid()

    def begin() -> None:
        file.write_text(f"{own}\n")
        node.open()

    soon(begin)
    status, out, err = here(f"wait {file} --timeout 20")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        f"Waiting for pid file '{file}' to appear",
        f"pid is {own}",
        f"Waiting for erlang distribution on node 'rabbit@localhost' while OS process '{own}' is running",
        "Waiting for applications 'rabbit_and_plugins' to start on node 'node'",
        RUNNING,
    ]
    status, out, _ = here(f"wait --pid {own}")
    assert (status, out.splitlines()[-1]) == (0, RUNNING)
    node.close()


def test_a_process_that_is_gone_is_not_waited_for(here: Warrenctl) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert here(f"wait --pid {gone.pid}")[::2] == (69, "Error:\nprocess_not_running\n")


def test_what_never_comes_is_waited_for_until_the_time_is_up(tmp_path: Path, here: Warrenctl) -> None:
    told = "Error: operation {} on node rabbit@localhost timed out. Timeout value used: 100\n"
    assert here("await_startup -t 0.1") == (75, "", told.format("await_startup"))
    assert here(f"wait {tmp_path}/none -t 0.1")[::2] == (75, told.format("wait"))
    assert here(f"wait --pid {os.getpid()} -t 0.1")[::2] == (75, told.format("wait"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("wait", '"No pid or pidfile specified"'),
        ("wait --pid 1 file", '"Cannot specify both pid and pidfile"'),
        ("wait --pid none", "--pid : none"),
        ("wait --pid 0", "--pid : 0"),
    ],
)
def test_what_to_wait_for_has_to_be_said(here: Warrenctl, line: str, says: str) -> None:
    status, _, err = here(line)
    assert status == 64 and err.startswith("Error (argument validation): ") and says in err


def test_a_node_that_does_not_answer_in_time_is_told_with_75(tmp_path: Path, here: Warrenctl) -> None:
    with local_socket.bind(tmp_path):
        told = "Error: operation list_queues on node rabbit@localhost timed out. Timeout value used: 100\n"
        assert here("list_queues -t 0.1") == (75, "", told)
        assert here("list_queues -t soon")[0] == 64


def test_stop_returns_when_the_node_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker_process(tmp_path) as broker:
        process, ready = broker.process, broker.addresses
        run = commanded(monkeypatch, capsys, "--data", str(Path(ready["control"][0]).parent))
        assert run("stop") == (0, "Stopping and halting node rabbit@here ...\n", "")
        assert process.wait(20) == 0
        assert run("ping")[0] == 69
