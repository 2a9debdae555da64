"""The wait for the writer when a broker stops: as long as it makes progress, and no longer."""

import asyncio
import os
from collections.abc import Callable, Iterator
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest

from warren.broker.runtime.supervisor import Supervisor
from warren.plugins.message_log.export import writer_process
from warren.plugins.message_log.export.writer_process import Outlet, processor_time

WRITER = """
import sys, time, pathlib
sys.stdin.buffer.read()
time.sleep({seconds})
pathlib.Path({done!r}).touch()
"""


@pytest.fixture
def stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float, Iterator[int]], list[tuple[str, Any]]]:
    """Stop a writer that takes some seconds for its files, and uses processor time as given; return what is logged."""
    monkeypatch.setattr(writer_process, "STOP_WAIT_S", 0.1)
    monkeypatch.setattr(writer_process, "MODULE", "slow_writer")
    monkeypatch.syspath_prepend(tmp_path)

    def run(seconds: float, times: Iterator[int]) -> list[tuple[str, Any]]:
        (tmp_path / "slow_writer.py").write_text(WRITER.format(seconds=seconds, done=str(tmp_path / "done")))
        monkeypatch.setattr(writer_process, "processor_time", lambda pid: next(times))
        logged: list[tuple[str, Any]] = []

        async def stop() -> None:
            def report(event: str, level: str, fields: dict[str, object]) -> None:
                logged.append((event, fields))

            outlet = Outlet(report, Supervisor(report))
            await outlet.start()
            await outlet.stop()

        asyncio.run(stop())
        return logged

    return run


def test_a_writer_that_makes_progress_is_waited_for(
    tmp_path: Path, stop: Callable[[float, Iterator[int]], list[tuple[str, Any]]]
) -> None:
    assert stop(1.0, count()) == [] and (tmp_path / "done").exists()


def test_a_writer_without_progress_is_killed_and_its_loss_is_logged(
    tmp_path: Path, stop: Callable[[float, Iterator[int]], list[tuple[str, Any]]]
) -> None:
    (event, fields), (ended, _) = stop(600.0, repeat(1))
    assert (event, ended) == ("message_log_not_written", "message_log_ended") and not (tmp_path / "done").exists()
    assert fields["waiting_bytes"] == 0 and "is lost" in fields["reason"]


def test_the_processor_time_of_a_process_grows_with_its_work() -> None:
    before = processor_time(os.getpid())
    if before:
        while processor_time(os.getpid()) == before:
            pass
    assert processor_time(1 << 30) == []
