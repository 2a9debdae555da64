"""`warren analyze --in-process`: reports and exit statuses without Spark."""

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warren.broker.system_errors import FILES, user_name
from warren.plugins.message_log import cli
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.file_format.folder import Folder

from .checking import valid
from .commands import run_here
from .log import Log
from .scenes import DAMAGES
from .test_durability import Node


def analyze(folder: Path, *options: str, output: str = "report") -> subprocess.CompletedProcess[str]:
    where = "--input", str(folder / "log"), "--output", str(folder / output)
    return run_here("analyze", "--in-process", *where, *options)


def report_in(folder: Path, output: str = "report") -> dict[str, Any]:
    return valid(json.loads((folder / output / "report.json").read_text()))


def one(folder: Path, damage: str = "jumped") -> Log:
    log = Log(folder / "log", "rabbit@one").begin("work")
    DAMAGES[damage](log, [log.round_trip("work") for _ in range(20)])
    return log


@pytest.mark.parametrize(
    ("damage", "status", "verdict"),
    [
        ("jumped", 0, "balanced"),
        ("vanished", 1, "imbalanced"),
        ("dropping", 2, "incomplete"),
        ("unstopped", 2, "incomplete"),
    ],
)
def test_the_exit_status_is_the_verdict(tmp_path: Path, damage: str, status: int, verdict: str) -> None:
    one(tmp_path, damage)
    done = analyze(tmp_path)
    made = report_in(tmp_path)
    assert (done.returncode, made["conservation"]["status"]) == (status, verdict)
    assert done.stderr.splitlines()[-1] == f"warren analyze: {made['verdict']}"
    assert made["input"]["engine"] == "in-process"
    tolerated = analyze(tmp_path, "--fail-on", "never", output="again")
    assert tolerated.returncode == 0


def test_a_stream_adds_what_is_new_and_refuses_another_input(tmp_path: Path) -> None:
    log = one(tmp_path)
    assert analyze(tmp_path, "--stream").returncode == 0 == analyze(tmp_path, "--stream").returncode
    assert len(list((tmp_path / "report" / "runs").iterdir())) == 1
    again = Log(tmp_path / "log", "rabbit@two", "b9").begin()
    again.round_trip("other")
    again.stop()
    assert analyze(tmp_path, "--stream").returncode == 0
    assert report_in(tmp_path)["totals"]["published"] == log.counts[schema.PUBLISH] + 1
    one(tmp_path / "other")
    words = "--input", str(tmp_path / "other" / "log"), "--output", str(tmp_path / "report")
    elsewhere = run_here("analyze", "--in-process", "--stream", *words)
    assert elsewhere.returncode == 73 and f"was made of {tmp_path}/log" in elsewhere.stderr


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (("--master", "local[2]"), 64, "--in-process runs without Spark"),
        (("--conf", "a=b"), 64, "--in-process runs without Spark"),
        (("--since", "2026-11-22T05:30", "--stream"), 64, "cannot be given with it"),
    ],
)
def test_options_that_contradict_it_are_refused(
    tmp_path: Path, options: tuple[str, ...], status: int, text: str
) -> None:
    one(tmp_path)
    done = analyze(tmp_path, *options)
    assert done.returncode == status and text in done.stderr and not (tmp_path / "report").exists()


def test_an_input_without_a_log_and_an_output_that_exists_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    done = analyze(tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (66, 1) and "no export of a broker" in done.stderr
    assert not any((tmp_path / "report").rglob("*.json"))
    one(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    for taken, text in (("taken", "exists already"), ("taken/file", "is a file")):
        done = analyze(tmp_path, output=taken)
        assert (done.returncode, done.stderr) == (73, f"warren analyze: {tmp_path}/{taken}: {text}\n")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["file"]


@pytest.mark.parametrize("options", [(), ("--stream",)])
@pytest.mark.parametrize("code", [errno.ENOTDIR, errno.EACCES, errno.ENOSPC])
def test_an_output_that_cannot_be_made_is_refused_before_the_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int
) -> None:
    one(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(cli, "engine", None)
    if code != errno.ENOTDIR:  # which the system itself finds

        def create(folder: Folder, path: str) -> None:
            raise OSError(code, f"Cannot create directory '{path}'. Detail: [errno {code}] as pyarrow says")

        monkeypatch.setattr(Folder, "_create", create)
    output = "file/report" if code == errno.ENOTDIR else "report"
    done = analyze(tmp_path, *options, output=output)
    text = FILES[code].format(user=user_name())
    assert (done.returncode, done.stderr) == (73, f"warren analyze: {tmp_path}/{output}: {text}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "log"]


@pytest.mark.parametrize("name", ["exists", "files"])
def test_an_input_that_cannot_be_read_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def deny(folder: Folder, *arguments: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    one(tmp_path)
    monkeypatch.setattr(Folder, name, deny)
    done = analyze(tmp_path)
    text = FILES[errno.EACCES].format(user=user_name())
    assert (done.returncode, done.stderr) == (66, f"warren analyze: {tmp_path}/log: {text}\n")


def test_neither_java_nor_spark_is_needed(tmp_path: Path) -> None:
    one(tmp_path)
    program = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from warren.broker import cli; sys.exit(cli.run(sys.argv[1:]))"
    )
    words = "analyze", "--in-process", "--input", str(tmp_path / "log"), "--output", str(tmp_path / "report")
    environment = {"PATH": "/nonexistent", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.sockets
def test_messages_that_a_restart_brought_back_are_settled_and_balance(tmp_path: Path) -> None:
    with Node(tmp_path, "again") as node:
        noted = json.loads((node.data / "message_log.json").read_text())
        node.publish("q", 3)
        node.stop()
        node.start()
        assert len(node.connect().channel().drain("q")) == 3
        node.stop()
    where = "--input", str(tmp_path / "export"), "--output", str(tmp_path / "report")
    assert run_here("analyze", "--in-process", *where).returncode == 0
    made = report_in(tmp_path)
    assert (made["input"]["skipped"], made["totals"]["delivered"]) == ({}, 3)
    first, second = made["conservation"]["boots"]
    assert noted["boot_id"] == first["boot_id"], "it is noted before the first client"
    assert first["exported_boot"] is None and second["exported_boot"] == second["previous_boot"] == first["boot_id"]
    assert first["last"] <= second["exported_at"] <= second["first"]
