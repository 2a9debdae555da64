"""The settings of Spark by the size of the log and of the machine, those of the caller, and the archive of classes."""

import os
import subprocess
from argparse import ArgumentTypeError
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from warren.plugins.message_log.analysis.input_files import local_records
from warren.plugins.message_log.analysis.java_class_cache import class_cache
from warren.plugins.message_log.analysis.selection import Selection
from warren.plugins.message_log.analysis.spark_session import (
    CHOSEN,
    JAVA_OPTIONS,
    MEMORY,
    PARTITIONS,
    QUICK,
    SHORT,
    SMALL,
    builder,
    fit,
    heap_mib,
    memory_bytes,
    settings,
)
from warren.plugins.message_log.cli import setting

from .log import Log


def test_a_small_log_has_one_partition_and_a_large_one_many() -> None:
    assert settings(0)[PARTITIONS] == settings(SMALL)[PARTITIONS] == 1
    assert settings(None)[PARTITIONS] == settings(SMALL + 1)[PARTITIONS] == 8
    assert settings(100_000_000)[PARTITIONS] == 200
    assert [QUICK in str(settings(records)[JAVA_OPTIONS]) for records in (1, SHORT, SHORT + 1, None)] == [
        *(True, True, False, False)
    ]


@pytest.mark.parametrize(
    ("memory", "records", "heap"), [(1, None, 512), (8, None, 2048), (64, None, 4096), (64, 5, 1024)]
)
def test_the_heap_is_a_quarter_of_the_memory_within_limits(memory: int, records: int | None, heap: int) -> None:
    assert heap_mib(memory << 30, records) == heap
    assert 1 << 28 < memory_bytes() < 1 << 50


def test_settings_of_the_caller_prevail() -> None:
    made = builder("local[1]", 5, "3g", {PARTITIONS: "7", "a": "b"}, None)._options
    assert (made[MEMORY], made[PARTITIONS], made["a"]) == ("3g", "7", "b")
    assert setting("a=b=c") == ("a", "b=c")
    with pytest.raises(ArgumentTypeError, match="not KEY=VALUE"):
        setting("a")


def test_a_running_session_is_fitted_to_the_log_but_for_what_the_caller_chose(spark: SparkSession) -> None:
    fit(spark, 100_000_000)
    many = spark.conf.get(PARTITIONS)
    spark.conf.set(CHOSEN, f"a,{PARTITIONS}")
    fit(spark, 5)
    kept = spark.conf.get(PARTITIONS)
    spark.conf.set(CHOSEN, "")
    fit(spark, 5)
    assert (many, kept, spark.conf.get(PARTITIONS)) == ("200", "200", "1")


def test_the_events_of_a_folder_are_counted_without_spark(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.round_trip("work")
    (path, *_) = log.write()
    (path.parent / "part-cut-b1-000000.parquet").write_bytes(path.read_bytes()[:-50])
    assert local_records(str(tmp_path)) == 5
    assert local_records(str(tmp_path), Selection(nodes=("rabbit@other",)).has_file) == 0
    assert local_records("s3a://somewhere/else") is None


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
