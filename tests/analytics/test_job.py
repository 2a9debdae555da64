"""The runs of a stream: without news, beside each other, after errors, and killed at any write."""

import json
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warren.plugins.message_log.analysis import job
from warren.plugins.message_log.analysis.engine import InProcess
from warren.plugins.message_log.file_format import folder as folders
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.file_format.folder import Folder

from .checking import report_of
from .log import START, Log


def stream(tmp_path: Path, log: Callable[[str], None] = lambda step: None) -> job.Job:
    return job.Job(str(tmp_path / "log"), str(tmp_path / "report"), log, stream=True)


def one(folder: Path, node: str, messages: int = 3, stop: bool = True, start: datetime = START) -> None:
    log = Log(folder, node, f"boot-of-{node.partition('@')[2]}", start).begin("work")
    for _ in range(messages):
        log.round_trip("work")
    log.snapshot(schema.STOP if stop else schema.PERIODIC)
    log.write()


def runs(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "report" / "runs").iterdir())


def test_a_run_without_news_publishes_nothing_and_needs_no_engine(tmp_path: Path) -> None:
    one(tmp_path / "log", "rabbit@a")
    assert stream(tmp_path).unchanged() is None
    first = stream(tmp_path).run(InProcess())
    assert stream(tmp_path).unchanged() == json.loads(json.dumps(first))
    one(tmp_path / "log", "rabbit@b")
    assert stream(tmp_path).unchanged() is None
    second = stream(tmp_path).run(InProcess())
    assert second["totals"]["published"] == 6 and stream(tmp_path).unchanged() is not None
    shutil.rmtree(tmp_path / "report")
    assert stream(tmp_path).unchanged() is None


def test_a_broker_that_becomes_silent_is_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one(tmp_path / "log", "rabbit@a", stop=False, start=datetime.now(UTC) - timedelta(seconds=60))
    first = stream(tmp_path).run(InProcess())
    assert first["reasons"] == [] and stream(tmp_path).unchanged() is not None
    later_ns = (datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1e9
    monkeypatch.setattr("time.time_ns", lambda: int(later_ns))
    assert stream(tmp_path).unchanged() is None
    (reason,) = stream(tmp_path).run(InProcess())["reasons"]
    assert "ends without a stop" in reason
    assert stream(tmp_path).unchanged() is not None


@pytest.mark.parametrize("written", [0, 5])
def test_a_stream_whose_first_run_met_a_full_disk_begins_again(tmp_path: Path, written: int) -> None:
    one(tmp_path / "log", "rabbit@a")
    mark = tmp_path / "report.state" / job.MARK
    mark.parent.mkdir()
    mark.write_text(str(tmp_path / "log")[:written])
    assert stream(tmp_path).run(InProcess())["conservation"]["balanced"]
    mark.write_text("")
    with pytest.raises(job.JobRefused, match="was made of no stream of this kind"):
        stream(tmp_path)


def test_a_second_stream_with_the_same_output_is_refused(tmp_path: Path) -> None:
    one(tmp_path / "log", "rabbit@a")
    second = stream(tmp_path)
    for attempt in (lambda: second.run(InProcess()), second.unchanged):
        with job.locked(second.state), pytest.raises(job.JobRefused, match="another stream") as refused:
            attempt()
        assert refused.value.status == job.NO_OUTPUT
    assert second.run(InProcess())["conservation"]["balanced"]


def test_a_stream_goes_on_after_an_error_and_reports_only_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one(tmp_path / "log", "rabbit@a")
    said: list[str] = []
    made = stream(tmp_path, said.append)
    looks = iter(["fails", "works", "unchanged", "ends"])

    def sleep(seconds: float) -> None:
        if next(looks) == "ends":
            raise KeyboardInterrupt
        monkeypatch.undo()
        monkeypatch.setattr(job, "time", clock)

    clock = SimpleNamespace(sleep=sleep, time_ns=time.time_ns)  # of this module alone: other threads sleep too
    monkeypatch.setattr(job, "time", clock)
    monkeypatch.setattr(job, "make_ledger", fail)
    with pytest.raises(KeyboardInterrupt):
        made.follow(InProcess(), 0.5)
    assert said.count("reduce") == 2 and len(runs(tmp_path)) == 1
    ends = [line.partition(".")[0] for line in said if "Next look in 0.5 s" in line]
    assert ends[0] == "the disk is full" and len(ends) == 4 and len(set(ends[1:])) == 1


def fail(*arguments: Any) -> Any:
    raise OSError("the disk is full")


class Killed(BaseException):
    """The end of a process at a write, after which it writes nothing more."""


@pytest.mark.rest("many runs")
def test_a_run_that_is_killed_at_any_write_leaves_the_earlier_report_and_the_next_run_is_right(tmp_path: Path) -> None:
    one(tmp_path / "log", "rabbit@a")
    first = stream(tmp_path).run(InProcess())
    one(tmp_path / "log", "rabbit@b")
    shutil.copytree(tmp_path, tmp_path.with_name("before"), symlinks=True)
    whole = report_of(tmp_path / "log", tmp_path.with_name("whole"))
    number, finished = 0, False
    while not finished:
        number += 1
        finished = run_until(tmp_path, number)
        published = Folder(str(tmp_path / "report"))
        current = json.loads(published.read_text(job.report_of(published)))
        assert current in (json.loads(json.dumps(each)) for each in (first, whole))
        assert stream(tmp_path).run(InProcess()) == whole
        assert len(runs(tmp_path)) <= 3
        for name in ("report", "report.state"):
            shutil.rmtree(tmp_path / name)
            shutil.copytree(tmp_path.with_name("before") / name, tmp_path / name, symlinks=True)
    assert number > 5


def run_until(tmp_path: Path, last: int) -> bool:
    """Run, and end at a write of this number. Returns whether there were fewer."""
    count = 0

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Folder, *arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count >= last:
                raise Killed
            return method(self, *arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_create", "replace", "remove"):
            patch.setattr(folders.Folder, name, counted(getattr(folders.Folder, name)))
        try:
            stream(tmp_path).run(InProcess())
        except Killed:
            return False
    return True
