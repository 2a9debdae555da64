"""Reports in an object store: nothing is renamed, and one small object names the current run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from warren.plugins.message_log.analysis import hadoop_fs, job, publication, rollup, streaming
from warren.plugins.message_log.analysis.hadoop_fs import Folders
from warren.plugins.message_log.analysis.reports import run
from warren.plugins.message_log.file_format import schema

from . import java_classes
from .checking import ON_THE_PAGE
from .log import Log

pytestmark = pytest.mark.timeout(900)
COMMITTER = "spark.sql.parquet.output.committer.class"


class Store:
    """The object store of one test: a folder with the log `input`, at objects://."""

    def __init__(self, spark: SparkSession, folder: Path, java: Any) -> None:
        self.spark, self.folder, self.java = spark, folder, java
        self.input, self.output = f"objects://{folder}/input", f"objects://{folder}/output"
        self.seen = 0
        self.log = Log(folder / "input", "rabbit@store", "b1")
        self.log.snapshot(schema.START)
        self.write()

    def write(self) -> None:
        self.log.round_trip("work")
        self.log.snapshot()
        self.log.write()

    def die_at(self, path: str | None) -> None:
        self._field("failAt").set(None, path)

    def changes(self) -> list[str]:
        """Return the changes since the last call, with paths in the folder."""
        every = list(self._field("LOG").get(None))
        new, self.seen = every[self.seen :], len(every)
        return [change.replace(f"{self.folder}/", "").replace("objects:", "") for change in new]

    def current(self) -> str:
        return str(json.loads((self.folder / "output" / "current.json").read_text())["run"])

    def _field(self, name: str) -> Any:
        return self.java.loadClass("ObjectStore").getField(name)


def quiet(what: str) -> None:
    """Log nothing."""


@pytest.fixture(scope="module")
def java(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return java_classes.load(spark, [java_classes.compile_classes(tmp_path_factory.mktemp("java"))])


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path, java: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    configuration = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    configuration.set("fs.objects.impl", "ObjectStore")
    configuration.set(COMMITTER, "DirectCommitter")
    monkeypatch.setattr(run, "REPORTS", [report for report in run.REPORTS if report.name in ON_THE_PAGE])
    made = Store(spark, tmp_path, java)
    made.changes()
    yield made
    made.die_at(None)
    configuration.unset(COMMITTER)


def test_a_report_is_published_by_one_object_and_nothing_is_renamed(store: Store) -> None:
    report = job.batch(store.spark, store.input, store.output, quiet)
    changes = store.changes()
    run_id = store.current()
    written = [change for change in changes if change.startswith("put output/")]
    at = written.index("put output/current.json")
    assert all(change.startswith(f"put output/runs/{run_id}/") for change in written[:at])
    assert written[at:] == ["put output/current.json", "put output/index.html"]
    assert not [change for change in changes if change.startswith(("rename", "append"))]
    assert job.read_old(store.spark, store.output) == report
    assert f"runs/{run_id}/index.html" in (store.folder / "output" / "index.html").read_text()


def test_a_stream_renames_nothing_also_when_it_merges_its_state(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup, "PARTS", 1)
    streaming.follow(store.spark, store.input, store.output, None, quiet)
    store.write()
    report = streaming.follow(store.spark, store.input, store.output, None, quiet)
    changes = store.changes()
    assert not [change for change in changes if change.startswith(("rename", "append"))]
    assert any("/rollup=" in change for change in changes)
    assert report["totals"]["published"] == 2 and job.read_old(store.spark, store.output) == report


@pytest.mark.parametrize(
    ("place", "seen"), [("/report.json", "first"), ("/current.json", "first"), ("output/index.html", "second")]
)
def test_a_job_that_dies_while_it_publishes_leaves_a_whole_report(store: Store, place: str, seen: str) -> None:
    folders = Folders(store.spark)
    publish(folders, store.output, "first")
    store.die_at(place)
    with pytest.raises(OSError, match="dies"):
        publish(folders, store.output, "second")
    assert folders.text(publication.report_of(folders, store.output)) == seen
    store.die_at(None)
    publish(folders, store.output, "third")
    assert folders.text(publication.report_of(folders, store.output)) == "third"


@pytest.mark.parametrize("scheme", ["objects", "file"])
def test_runs_before_the_last_three_are_removed(store: Store, scheme: str) -> None:
    folders, output = Folders(store.spark), f"{scheme}://{store.folder}/output"
    assert publication.is_free(folders, output)
    folders.write(f"{output}/runs/of-a-killed-job/report.json", "unfinished")
    assert publication.is_free(folders, output)
    for number in range(5):
        publish(folders, output, str(number))
    runs = store.folder / "output" / "runs"
    assert sorted(path.read_text() for path in runs.glob("*/report.json")) == ["2", "3", "4"]
    assert not publication.is_free(folders, output)
    if scheme == "file":
        assert (store.folder / "output" / "report.json").read_text() == "4"


def test_a_file_system_that_renames_in_one_step_replaces_by_renaming(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders, path = Folders(spark), tmp_path / "current.json"
    monkeypatch.setattr(hadoop_fs, "LOCAL", "none")
    monkeypatch.setattr(hadoop_fs, "RENAMING", ("file",))
    for content in ("first", "second"):
        folders.replace(str(path), content)
        assert path.read_text() == content
    assert [name for name in folders.names(str(tmp_path)) if not name.endswith(".crc")] == ["current.json"]


def test_files_are_listed_while_others_are_renamed_and_deleted(spark: SparkSession, tmp_path: Path) -> None:
    folders, there = Folders(spark), tmp_path / "dt=1" / "there"
    there.parent.mkdir()
    there.write_text("four")
    (tmp_path / "_hidden").mkdir()
    (tmp_path / "_hidden" / "file").touch()
    listed = threading.Event()

    def write_files() -> None:
        while not listed.is_set():
            (there.parent / ".new").touch()
            (there.parent / ".new").rename(there.parent / "new")
            (there.parent / "new").unlink()

    writer = threading.Thread(target=write_files, daemon=True)
    writer.start()
    try:
        for _ in range(20):
            found = [file for file in folders.files(str(tmp_path)) if file.name != "new"]
            assert found == [(f"file:{there}", "there", 4)]
    finally:
        listed.set()
        writer.join()


def publish(folders: Folders, output: str, content: str) -> None:
    """Publish a report with this content."""
    with publication.new_run(folders, output) as folder:
        folders.write(f"{folder}/report.json", content)
        publication.publish(folders, folder)
