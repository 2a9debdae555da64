"""The runner of `make test-stress`: what it counts, what it prints, and that nothing of it stays behind."""

import tempfile
from pathlib import Path

import pytest

from tools.stress import busy, main

SOMETIMES = """
from pathlib import Path

COUNT = Path(__file__).with_name("count")

def test_every_second_time():
    count = int(COUNT.read_text()) if COUNT.exists() else 0
    COUNT.write_text(str(count + 1))
    assert count % 2 == 0

def test_always():
    pass
"""


def test_it_says_how_often_each_test_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "test_luck.py").write_text(SOMETIMES)
    options = ["-n0", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}", str(tmp_path)]
    assert main(["--rounds", "2", "--busy", "1", "--", *options]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("round 1: passed (") and lines[1].startswith("round 2: 1 failed; see ")
    assert lines[2:] == [
        "    test_luck::test_every_second_time",
        "1 of 2: test_luck::test_every_second_time",
        "1 of 2 rounds passed",
    ]


def test_what_keeps_the_cores_busy_is_ended_however_the_rounds_end() -> None:
    with pytest.raises(KeyboardInterrupt), busy(2, 60) as processes:
        assert [process.poll() for process in processes] == [None, None]
        raise KeyboardInterrupt
    assert all(process.poll() is not None for process in processes)
