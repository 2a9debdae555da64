"""The end of a process without its journal, or without memory for a start: status and log say why."""

import errno
import os
import sys
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from warren.broker.app import main
from warren.broker.config import Config, Sources
from warren.broker.storage.errors import ConfirmedLost
from warren.broker.storage.postgresql.transactions import NOT_OWNER


class Ended(Exception):
    """The process ends with this status."""


@pytest.mark.parametrize(
    ("error", "status", "fields"),
    [
        (OSError(NOT_OWNER, "taken over"), 75, {"event": "not_owner", "reason": "taken over"}),
        (ConfirmedLost(3, 5), 76, {"event": "confirmed_messages_lost", "server_has": 3, "confirmed": 5}),
        (OSError(errno.EIO, "broken"), 74, {"event": "storage_failed", "reason": "[Errno 5] broken"}),
        (KeyError("a bug"), 74, {"event": "storage_failed"}),
    ],
)
def test_the_status_says_why(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, fields: dict[str, object]
) -> None:
    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    with capture_logs() as lines, pytest.raises(Ended) as ended:
        main.lost(error)
    assert ended.value.args == (status,)
    assert fields.items() <= lines[-1].items() and lines[-1]["log_level"] == "critical"


def test_a_start_without_memory_for_a_thread_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(thread: threading.Thread) -> None:
        if thread.name == "committer":
            raise RuntimeError("can't start new thread")
        start(thread)

    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(main, "DIGITS", sys.get_int_max_str_digits())  # it holds for the whole process
    with capture_logs() as lines:
        assert main.serve(Config(data_dir=str(tmp_path)), Sources(environment={})) == 69
    assert lines[-1]["event"] == "cannot_open_data" and "not enough memory" in lines[-1]["reason"]
