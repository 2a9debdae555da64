"""The check of Java before Spark is started, which reports a fault in one line."""

from pathlib import Path

import pytest

from tests.support.broker_process import run
from tests.support.checkout import ROOT, write_distribution
from warren.plugins.message_log.analysis.java_check import ADVICE, java_fault, major


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_411"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("command not found", 0),
    ],
)
def test_the_major_version_is_read(said: str, version: int) -> None:
    assert major(said) == version


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called java, alone on PATH."""
    program = tmp_path / "java"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return program


def test_without_java_one_line_says_how_to_get_it(java: Path) -> None:
    assert java_fault() == f"no java on PATH: {ADVICE}"


@pytest.mark.parametrize(("version", "fault"), [("11.0.2", True), ("17.0.1", False), ("21.0.1", False)])
def test_java_has_to_be_17_or_later(java: Path, version: str, fault: bool) -> None:
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    assert bool(java_fault()) == fault


def test_a_java_that_fails_is_none(java: Path) -> None:
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    assert java_fault().endswith(ADVICE)


def test_the_command_ends_with_one_line_without_java(tmp_path: Path) -> None:
    paths = (write_distribution(tmp_path / "installed"), ROOT)
    words = ("analyze", "--input", str(tmp_path), "--output", str(tmp_path / "o"))
    done = run(*words, folder=tmp_path, paths=paths, PATH=str(tmp_path), JAVA_HOME=str(tmp_path))
    assert done.returncode == 69
    assert done.stderr == f"warren analyze: {tmp_path}/bin/java cannot be run: {ADVICE}\n"
