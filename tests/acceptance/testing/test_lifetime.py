"""A broker for tests ends with the process that has started it, however that ends, and leaves nothing behind."""

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pika
import pytest

from tests.support.foreign_project import ForeignProject
from tests.support.polling import until

pytestmark = pytest.mark.sockets
PRINTS_PID = "import warren.testing; broker = warren.testing.Broker().start(); print(broker.pid, flush=True);"


@pytest.fixture
def project(tmp_path: Path) -> ForeignProject:
    return ForeignProject(tmp_path / "project", tmp_path / "installed")


def start(project: ForeignProject, *words: str, **options: object) -> subprocess.Popen[str]:
    environment = {**project.environment, "TMPDIR": str(project.folder)}
    return subprocess.Popen(
        [sys.executable, *words], cwd=project.folder, env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_end(pid: int) -> None:
    """Wait until a process that is no child of this one has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([watched], [], [], 30)[0], f"process {pid} is still running"
    finally:
        os.close(watched)


@pytest.mark.parametrize("end", ["exit", "kill", "fork"])
def test_it_ends_with_its_parent(project: ForeignProject, end: str) -> None:
    """The ends: an exit without `close`, a kill -9, and a kill -9 while a forked child has the pipe open."""
    after = {"exit": "", "kill": "input()", "fork": "import os; os.fork() or input(); input()"}[end]
    with start(project, "-c", PRINTS_PID + after) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        broker = int(parent.stdout.readline())
        if end != "exit":
            parent.kill()
        wait_for_end(broker)
        until(lambda: list(project.folder.iterdir()) == [])
        parent.kill()


@pytest.mark.rest("starts four brokers")
def test_what_a_killed_process_and_a_killed_broker_leave_behind_is_removed_by_the_next(project: ForeignProject) -> None:
    """The folder of a process that lives stays, also while its broker is down."""
    down = PRINTS_PID + "broker.kill(); print(flush=True); input(); broker.start(); print(flush=True)"
    with start(project, "-c", down) as dead, start(project, "-c", down) as alive:
        for parent in (dead, alive):
            assert parent.stdout is not None and parent.stdin is not None
            parent.stdout.readline()
            parent.stdout.readline()
        dead.kill()
        dead.wait()
        assert len(list(project.folder.iterdir())) == 2
        project.run("-c", "import warren.testing; warren.testing.Broker().start()", TMPDIR=str(project.folder))
        assert len(list(project.folder.iterdir())) == 1
        alive.communicate("\n")
        assert alive.returncode == 0
    until(lambda: list(project.folder.iterdir()) == [])


def test_it_outlives_the_thread_that_has_started_it(project: ForeignProject) -> None:
    text = (
        "import threading, warren.testing; broker = warren.testing.Broker()\n"
        "thread = threading.Thread(target=broker.start); thread.start(); thread.join()\n"
        "broker.vhost(); broker.close(); print('served')"
    )
    assert project.run("-c", text).stdout == "served\n"


@pytest.mark.parametrize("way", ["input", "signal"])
def test_the_program_ends_with_its_input_or_by_sigterm(project: ForeignProject, way: str) -> None:
    with start(project, "-m", "warren.testing") as program:
        assert program.stdout is not None and program.stdin is not None and program.stderr is not None
        facts = json.loads(program.stdout.readline())
        assert facts["pid"] == program.pid
        if way == "input":
            program.stdin.close()
        else:
            program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 0
        assert program.stdout.read() == ""
    assert list(project.folder.iterdir()) == []


@pytest.mark.rest("starts one broker after the other")
def test_the_program_has_what_was_durable_after_a_kill_with_the_same_data(project: ForeignProject) -> None:
    """The folder is its caller's, so it does not remove it at the end of its input either."""
    words = ["-m", "warren.testing", "--data", str(project.folder / "data")]
    for attempt in range(3):
        with start(project, *words) as program:
            assert program.stdout is not None and program.stdin is not None and program.stderr is not None
            parameters = pika.URLParameters(json.loads(program.stdout.readline())["url"])
            with suppress(pika.exceptions.AMQPError), pika.BlockingConnection(parameters) as connection:
                connection.channel().queue_declare("q", durable=True, passive=attempt > 0)
                assert connection.is_open
                if attempt == 0:
                    program.kill()
                else:
                    program.stdin.close()
                program.wait(30)
    assert (project.folder / "data/meta.sqlite").exists()


def test_the_program_ends_when_nobody_reads_its_answers(project: ForeignProject) -> None:
    with start(project, "-m", "warren.testing") as program:
        assert program.stdout is not None and program.stdin is not None and program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        program.stdin.write('{"do": "reset"}\n')
        program.stdin.flush()
        assert program.wait(30) == 0


REQUESTS = """
{"do": "add_vhost", "name": "v"}
{"do": "drop_connections"}
{"do": "drop_connections", "pattern": "shop", "reason": "maintenance"}
{"do": "delay", "ms": 10}
{"do": "refuse"}
{"do": "accept"}
{"do": "partition"}
{"do": "partition", "pattern": "shop"}
{"do": "heal", "pattern": "shop"}
{"do": "heal"}
{"do": "block"}
{"do": "unblock"}
{"do": "fill_disk"}
{"do": "free_disk"}
{"do": "advance", "ms": 1000}
{"do": "delete_vhost", "name": "v"}
{"do": "reset"}
"""


def test_programs_in_other_languages_have_all_faults(project: ForeignProject) -> None:
    with start(project, "-m", "warren.testing") as program:
        output, _ = program.communicate(REQUESTS.lstrip() + '{"do": "expire_now", "queue": "q", "vhost": "v"}\n')
    *answers, refused = map(json.loads, output.splitlines()[1:])
    assert len(answers) == REQUESTS.count("do") and refused == {"error": "there is no queue 'q' in virtual host 'v'"}
    assert all(answer in ({"result": None}, {"result": 0}) for answer in answers)


def test_an_unknown_control_is_refused(project: ForeignProject) -> None:
    with start(project, "-m", "warren.testing") as program:
        assert program.stdout is not None and program.stdin is not None and program.stderr is not None
        program.stdout.readline()
        program.stdin.write(
            '{"do": "dance", "id": 1}\n[1]\n"a"\nx\n{"do": "reset", "ms": 1}\n{"do": "reset", "id": 2}\n'
        )
        program.stdin.close()
        answers = [json.loads(line) for line in program.stdout]
        assert all(answer["error"].startswith("not a control: ") for answer in answers[:-1]) and len(answers) == 6
        assert answers[-1] == {"id": 2, "result": None}


def test_a_line_that_is_too_long_is_refused(project: ForeignProject) -> None:
    with start(project, "-m", "warren.testing") as program:
        assert program.stdout is not None and program.stdin is not None and program.stderr is not None
        program.stdout.readline()
        program.stdin.write(f'{{"do": "{"x" * 100_000}"}}\n{{"do": "reset"}}\n')
        program.stdin.close()
        answers = [json.loads(line) for line in program.stdout]
        assert "error" in answers[0] and answers[-1] == {"result": None}


def test_the_program_says_that_it_needs_an_input_that_stays_open(project: ForeignProject) -> None:
    ran = project.run("-m", "warren.testing")  # its input is /dev/null
    assert ran.returncode == 69 and "standard input is neither a pipe nor a terminal" in ran.stderr


def test_warren_serve_has_no_controls(project: ForeignProject) -> None:
    """The broker of `warren serve` imports nothing of the controls, whatever is installed."""
    text = (
        "import sys\nfrom warren.broker.app import main\nfrom warren.broker.plugin_host.loading import load_services\n"
        "names = [*load_services(), *sys.modules]\n"
        "print([name for name in names if name == 'testing' or name.startswith('warren.testing')])"
    )
    assert project.run("-c", text).stdout == "[]\n"
