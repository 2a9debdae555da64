"""Waiting for nodes that start, never start, or do not respond; and for the end of nodes."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.polling import WITHIN_S
from tests.support.warrenctl import Controlled, RunWith, Warrenctl, broker_process
from warren.broker.ctl import wait
from warren.broker.ctl.api_client import API, LocalAPI
from warren.broker.operator import local_socket

pytestmark = pytest.mark.sockets

OWN = f"warren@{os.uname().nodename.partition('.')[0]}"
LATER_S = 0.2  # the tests wait for the result, however long it takes
RUNNING = "Applications 'rabbit_and_plugins' are running on node 'node'"


@pytest.fixture
def here(tmp_path: Path, run_with: RunWith) -> Warrenctl:
    """Run warrenctl at the unix socket of this folder, which may not exist yet."""
    return run_with("--data", str(tmp_path))


def later(work: Callable[[], object]) -> None:
    """Call a function in another thread after LATER_S."""
    threading.Timer(LATER_S, work).start()


def test_a_node_that_starts_later_is_waited_for(tmp_path: Path, here: Warrenctl) -> None:
    node = Controlled(tmp_path)
    later(node.open)
    assert here("await_startup") == (0, "", "")
    node.close()


def test_the_node_of_a_process_is_waited_for(tmp_path: Path, here: Warrenctl) -> None:
    node = Controlled(tmp_path)
    file, own = tmp_path / "pid", os.getpid()

    def begin() -> None:
        file.write_text(f"{own}\n")
        node.open()

    later(begin)
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


def test_an_ended_process_is_not_waited_for(here: Warrenctl) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert here(f"wait --pid {process.pid}")[::2] == (69, "Error:\nprocess_not_running\n")


def test_waiting_ends_at_the_timeout(tmp_path: Path, here: Warrenctl) -> None:
    output = f"Error: operation {{}} on node {OWN} timed out. Timeout value used: 100\n"
    assert here("await_startup -t 0.1") == (75, "", output.format("await_startup"))
    assert here(f"wait {tmp_path}/none -t 0.1")[::2] == (75, output.format("wait"))
    assert here(f"wait --pid {os.getpid()} -t 0.1")[::2] == (75, output.format("wait"))


@pytest.mark.parametrize(("line", "says"), [
    ("wait", '"No pid or pidfile specified"'),
    ("wait --pid 1 file", '"Cannot specify both pid and pidfile"'),
    ("wait --pid none", "--pid : none"),
    ("wait --pid 0", "--pid : 0"),
])  # fmt: skip
def test_wait_needs_a_pid_or_a_pid_file(here: Warrenctl, line: str, says: str) -> None:
    status, _, err = here(line)
    assert status == 64 and err.startswith("Error (argument validation): ") and says in err


def test_a_node_that_does_not_answer_in_time_is_75(tmp_path: Path, here: Warrenctl) -> None:
    with local_socket.bind(tmp_path):
        output = f"Error: operation list_queues on node {OWN} timed out. Timeout value used: 100\n"
        assert here("list_queues -t 0.1") == (75, "", output)
        assert here("list_queues -t soon")[0] == 64


def test_stop_returns_when_the_node_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_with: RunWith) -> None:
    with broker_process(tmp_path) as broker:
        process, ready = broker.process, broker.addresses
        run = run_with("--data", str(Path(ready["control"][0]).parent))
        file = tmp_path / "pid"
        file.write_text(f"{process.pid}\n")
        ended = iter([True, False])
        monkeypatch.setattr(wait, "is_running", lambda pid: pid == process.pid and next(ended))
        assert run(f"stop {file}") == (0, "Stopping and halting node rabbit@here ...\n", "")
        assert next(ended, None) is None, "it has waited for the process"
        assert process.wait(20) == 0
        assert run("ping")[0] == run(f"stop {file}")[0] == 69
        gone = (0, "Node rabbit@localhost is no longer running\n", "")
        assert run("stop --idempotent") == run(f"stop --idempotent {tmp_path / 'none'}") == gone


def test_shutdown_need_not_wait(controlled: Controlled, in_process: Warrenctl, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    monkeypatch.setattr(API, "wait_for_end", lambda api: waits.append(api.address))
    monkeypatch.setattr(LocalAPI, "server_pid", lambda api: None)  # it is this process
    for line, count in (("shutdown --no-wait --timeout 5", 0), ("shutdown --wait", 1)):
        assert in_process(line)[0] == 0 and len(waits) == count


@pytest.mark.parametrize("command", ["stop", "shutdown", "shutdown --wait"])
def test_a_stop_returns_once_the_process_has_ended(tmp_path: Path, run_with: RunWith, command: str) -> None:
    with broker_process(tmp_path) as broker:
        run = run_with("--data", str(Path(broker.addresses["control"][0]).parent))
        assert run(command)[::2] == (0, "")
        assert broker.process.poll() == 0, "its status is there at once"


def test_a_process_that_nobody_has_waited_for_yet_has_ended() -> None:
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as process:
        wait.wait_for_exit(process.pid, WITHIN_S)
        assert process.returncode is None
    assert wait.is_running(os.getpid())


def test_the_end_of_a_process_is_noticed_without_descriptors_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert wait.is_running(os.getpid()) and not wait.is_running(process.pid)
