"""The settings of Spark, those of the caller, and the archive of classes."""

import os
import subprocess
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from warren.plugins.message_log.analysis.java_class_cache import class_cache
from warren.plugins.message_log.analysis.session import JAVA_OPTIONS, MEMORY, builder
from warren.plugins.message_log.cli import setting


def test_settings_of_the_caller_prevail() -> None:
    made = builder("local[1]", "3g", {JAVA_OPTIONS: "-Da=b", "a": "b"}, None)._options
    assert (made[MEMORY], made[JAVA_OPTIONS], made["a"]) == ("3g", "-Da=b", "b")
    assert builder("local[1]", None, {}, None)._options[MEMORY] == "640m"
    assert setting("a=b=c") == ("a", "b=c")
    with pytest.raises(ArgumentTypeError, match="not KEY=VALUE"):
        setting("a")


def test_java_leaves_its_classes_for_later_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = class_cache("/usr/bin/java", tmp_path)
    assert archive is None  # there are no jars
    (tmp_path / "jars").mkdir()
    unused = tmp_path / "warren" / "spark-old.jsa"
    unused.touch()
    os.utime(unused, (0, 0))
    archive = class_cache("/usr/bin/java", tmp_path)
    assert archive is not None and archive.missing
    new = Path(archive.options().rpartition("=")[2])
    java = subprocess.Popen(["sh", "-c", f"cat; echo classes >{new}"], stdin=subprocess.PIPE)
    archive.keep(java)
    again = class_cache("/usr/bin/java", tmp_path)
    assert again is not None and not again.missing and "SharedArchiveFile" in again.options()
    assert [path.name for path in (tmp_path / "warren").iterdir()] == [Path(again.options().rpartition("=")[2]).name]
