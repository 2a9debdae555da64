"""`warren compact`: the small files of an export become large ones, with the same rows."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.broker_process import run
from warren.broker.system_errors import FILES, user_name
from warren.plugins.message_log.compaction import merge
from warren.plugins.message_log.file_format import compacted, schema
from warren.plugins.message_log.trace import search

from .commands import run_here
from .exporting import Row, rows_of, whole_files
from .log import START, Log

LATER = START + timedelta(hours=3)


def export(folder: Path, boot_id: str = "b1", files: int = 5) -> Log:
    log = Log(folder, boot_id=boot_id).begin()
    for number in range(files):
        log.round_trip("q", message_id=f"{boot_id}-{number}")
        log.snapshot()
        log.metric(schema.CHANNELS, number)
        log.write()
    return log


def everything(folder: Path) -> list[list[Row]]:
    """Return all rows in an order that does not depend on files."""
    return [sorted(rows_of(folder, table), key=repr) for table in schema.TABLES]


def manifests(folder: Path) -> list[Path]:
    return sorted((folder / schema.MANIFEST).glob("compacted-*.jsonl"))


def test_the_files_of_a_boot_and_an_hour_become_one_with_the_same_rows(tmp_path: Path) -> None:
    export(tmp_path)
    export(tmp_path, "b2")
    before = everything(tmp_path)
    assert merge.compact(tmp_path, LATER) == merge.Result(30, 6, sum(map(len, before)))
    assert everything(tmp_path) == before
    assert [path.name for path in whole_files(tmp_path)] == [
        f"part-rabbit@a-{boot}-000000_000004.parquet" for boot in ("b1", "b2")
    ]
    assert merge.compact(tmp_path, LATER) == merge.Result(0, 0, 0), "nothing is left to do"


def test_manifests_list_the_new_files_and_what_was_removed(tmp_path: Path) -> None:
    export(tmp_path)
    old = {path.relative_to(tmp_path).as_posix() for path in whole_files(tmp_path)}
    merge.compact(tmp_path, LATER)
    for path in manifests(tmp_path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        finished = next(line for line in lines if "sha256" in line)
        content = (tmp_path / finished["path"]).read_bytes()
        assert (finished["bytes"], finished["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        removed = {line["removed"] for line in lines if "removed" in line}
        assert removed == set(lines[0]["replaces"]) and lines[0]["by"] == finished["path"]
        if finished["table"] == schema.EVENTS:
            assert removed == old and (finished["first_row"], finished["last_row"]) == (0, finished["rows"] - 1)


def test_files_of_an_hour_that_a_broker_may_still_write_to_stay(tmp_path: Path) -> None:
    export(tmp_path)
    ended = START.replace(minute=0) + timedelta(hours=1)
    assert merge.compact(tmp_path, ended + merge.GRACE - timedelta(seconds=1)) == merge.Result(0, 0, 0)
    assert merge.compact(tmp_path, ended + merge.GRACE).after == 3


def test_small_files_are_merged_within_the_limits_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(tmp_path, files=7)
    monkeypatch.setattr(merge, "FILE_ROWS", 12)
    before = everything(tmp_path)
    merge.compact(tmp_path, LATER)
    assert everything(tmp_path) == before
    names = [path.name.removeprefix("part-rabbit@a-b1-") for path in whole_files(tmp_path)]
    assert names == ["000000_000001.parquet", "000002_000003.parquet", "000004_000005.parquet", "000006.parquet"]


@pytest.mark.parametrize("step", ["announced", "written", "half removed"])
def test_a_compaction_that_was_interrupted_loses_and_repeats_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    export(tmp_path)
    before = {row["row"] for row in rows_of(tmp_path)}

    class Interrupted(Exception):
        pass

    def stop(*_: object) -> None:
        raise Interrupted

    def remove_one(folder: Path, manifest: object, paths: list[str]) -> None:
        os.unlink(folder / paths[0])
        raise Interrupted

    with monkeypatch.context() as patched:
        if step == "announced":
            patched.setattr(merge, "Part", stop)
        else:
            patched.setattr(merge, "remove", stop if step == "written" else remove_one)
        with pytest.raises(Interrupted):
            merge.compact(tmp_path, LATER)
    for number in range(5):  # a reader counts each row once
        assert len(search.find(search.Log(str(tmp_path)), f"b1-{number}").rows) == 5
    merge.compact(tmp_path, LATER)
    rows = [row["row"] for row in rows_of(tmp_path)]
    assert len(whole_files(tmp_path)) == 1 and len(rows) == len(before) and set(rows) == before
    for path in manifests(tmp_path):
        assert '"sha256"' in path.read_text()


def test_a_compaction_that_was_killed_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(Exception):
        pass

    def kill(*_: object) -> None:
        raise Killed

    log = export(tmp_path)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(merge.Part, "finish", kill)
        merge.compact(tmp_path, LATER)
    (announced,) = manifests(tmp_path)
    merge.temporary_path(tmp_path / json.loads(announced.read_text())["by"]).touch()
    log.round_trip("q")
    log.write()  # the next one merges other files
    (tmp_path / schema.MANIFEST / "compacted-0.jsonl").touch()
    (tmp_path / schema.MANIFEST / "compacted-1.jsonl").write_text('{"repl')
    merge.compact(tmp_path, LATER)
    assert not list(tmp_path.rglob(".*.tmp"))
    assert all('"sha256"' in path.read_text() for path in manifests(tmp_path))


def foreign(path: Path, of: Path, column: str, twice: bool = False) -> None:
    """Write a file with a column as plain strings, or with the column twice."""
    rows = pq.ParquetFile(of).read()
    place = rows.schema.get_field_index(column)
    if twice:
        rows = rows.append_column(column, rows[column])
    else:
        rows = rows.set_column(place, column, rows[column].cast(pa.string()))
    pq.write_table(rows, path)


REFUSED: dict[str, Callable[[Path, Path], object]] = {
    "a pipe": lambda path, whole: os.mkfifo(path),
    "a device": lambda path, whole: path.symlink_to("/dev/zero"),
    "a broken link": lambda path, whole: path.symlink_to("nowhere"),
    "no parquet": lambda path, whole: path.write_bytes(b"PAR1 but not really"),
    "a damaged page": lambda path, whole: path.write_bytes(
        whole.read_bytes()[:4] + bytes(99) + whole.read_bytes()[103:]
    ),
    "plain strings": lambda path, whole: foreign(path, whole, "event"),
    "a column twice": lambda path, whole: foreign(path, whole, "reason", twice=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_no_writer_has_written_is_refused_by_name_and_other_hours_are_merged(
    tmp_path: Path, name: str
) -> None:
    export(tmp_path)
    (hour,) = tmp_path.glob("events/*/*")
    whole = next(hour.glob("*000001.parquet"))
    (tmp_path / "events" / "dt=9999-12-31" / "hour=23").mkdir(parents=True)
    os.mkfifo(tmp_path / schema.MANIFEST / "compacted-0.jsonl")
    other = hour.with_name("hour=04") / "part-rabbit@a-b0-000000.parquet"
    other.parent.mkdir()
    REFUSED[name](other, whole)
    for number in (1, 2):
        shutil.copy(whole, other.with_name(f"part-rabbit@a-b0-{number:06}.parquet"))
    result = merge.compact(tmp_path, LATER)
    assert result[:2] == (17, 4) and result.refused == (other.relative_to(tmp_path).as_posix(),)
    assert {path.name for path in other.parent.iterdir()} == {other.name, "part-rabbit@a-b0-000001_000002.parquet"}
    assert len(search.find(search.Log(str(tmp_path)), "b1-0").rows) == 5


def test_only_one_compaction_runs_at_a_time(tmp_path: Path) -> None:
    export(tmp_path)
    with merge.locked(tmp_path):
        refused = run_here("compact", "--input", str(tmp_path))
    assert (refused.returncode, refused.stdout) == (75, "")
    assert refused.stderr == f"warren compact: {tmp_path}: another compaction is running\n"


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    log = Log(tmp_path, start=datetime.now(UTC) - timedelta(hours=30))
    for _ in range(3):
        log.round_trip("q")
        log.write()
    next(tmp_path.glob("events/*/*/")).joinpath("part-other.parquet").touch()
    done = run("compact", "--input", str(tmp_path))
    merged, refused = done.stdout.splitlines()
    assert (done.returncode, merged) == (0, f"3 files with {log.row} rows were merged into 1")
    assert refused.startswith("1 file was left out, damaged or not of the export: events/")
    missing = run_here("compact", "--input", str(tmp_path / "nothing"))
    assert missing.returncode == 66 and len(missing.stderr.splitlines()) == 1
    (tmp_path / "other").mkdir()
    foreign = run_here("compact", "--input", str(tmp_path / "other"))
    assert foreign.returncode == 66 and "no export of a broker" in foreign.stderr


def test_a_folder_that_cannot_be_written_to_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "manifest").touch()
    done = run_here("compact", "--input", str(tmp_path))
    assert (done.returncode, done.stdout) == (70, "")
    place = tmp_path / "manifest"
    assert done.stderr == f"warren compact: {place}: it is a file, and a folder is needed: choose another path\n"


@pytest.mark.parametrize(("method", "status"), [("is_dir", 66), ("iterdir", 70)])
def test_a_folder_that_cannot_be_read_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, status: int
) -> None:
    def deny(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    (tmp_path / "events").mkdir()
    monkeypatch.setattr(Path, method, deny)
    done = run_here("compact", "--input", str(tmp_path))
    assert (done.returncode, done.stdout) == (status, "")
    assert f"{tmp_path}" in done.stderr and done.stderr.endswith(FILES[errno.EACCES].format(user=user_name()) + "\n")


def test_an_object_store_is_refused_in_one_line(tmp_path: Path) -> None:
    refused = run_here("compact", "--input", "s3a://bucket/export")
    assert (refused.returncode, refused.stdout) == (64, "")
    assert refused.stderr.startswith("warren compact: --input: must be a folder of this machine")
    assert len(refused.stderr.splitlines()) == 1
    (tmp_path / "events").mkdir()
    assert run_here("compact", "--input", f"file://{tmp_path}").returncode == 0
    nowhere = run_here("compact", "--input", "file://", folder=tmp_path)
    assert (nowhere.returncode, nowhere.stderr) == (64, "warren compact: --input: names no folder\n")


def test_a_trace_lists_files_anew_that_a_compaction_removes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(tmp_path)
    listed = search.without_replaced

    def compacted_after(*given: object) -> list[str]:
        names: list[str] = listed(*given)  # type: ignore[arg-type]
        merge.compact(tmp_path, LATER)
        return names

    monkeypatch.setattr(search, "without_replaced", compacted_after)
    log = search.Log(str(tmp_path))
    assert log.skipped == [] and len(search.find(log, "b1-0").rows) == 5


HOUR = "events/dt=2026-11-24/hour=10"
OLD, NEW = f"{HOUR}/part-a-000000.parquet", f"{HOUR}/part-a-000000_000004.parquet"


def test_a_manifest_that_was_cut_names_only_what_was_written() -> None:
    whole = json.dumps({"replaces": [OLD], "by": NEW}) + "\n"
    assert compacted.replaced_paths([whole], {NEW}) == {OLD}
    assert compacted.replaced_paths([whole], {OLD}) == set()
    assert compacted.replaced_paths([whole[:-1]], {NEW}) == set()


@pytest.mark.parametrize(
    "line",
    [
        {"replaces": ["/etc/passwd"], "by": NEW},
        {"replaces": [f"../{OLD}"], "by": NEW},
        {"replaces": [f"{HOUR}/../hour=11/part-a-000000.parquet"], "by": NEW},
        {"replaces": [f"{HOUR}/../../../../victim.parquet"], "by": NEW},
        {"replaces": [OLD.replace("hour=10", "hour=11")], "by": NEW},
        {"replaces": [OLD.replace("events", "metrics")], "by": NEW},
        {"replaces": [OLD.replace("part-a", "part-b")], "by": NEW},
        {"replaces": [OLD.replace("000000", "0")], "by": NEW},
        {"replaces": [f"{HOUR}/part-/../../victim.parquet"], "by": NEW},
        {"replaces": [f"{HOUR}/part-\0.parquet"], "by": NEW},
        {"replaces": [OLD, "_manifest/other.jsonl"], "by": NEW},
        {"replaces": [OLD], "by": "/tmp/x"},
        {"replaces": [OLD], "by": 5},
        {"replaces": [5], "by": NEW},
        {"replaces": 5, "by": NEW},
        {"replaces": [OLD]},
        "replaces",
    ],
)
def test_a_line_that_names_anything_but_files_of_one_hour_counts_for_nothing(line: object) -> None:
    assert compacted.replacements(json.dumps(line) + "\n") == {}
    assert compacted.replacements('{"replaces": [' + "[" * 100_000 + "\n") == {}


@pytest.mark.parametrize("victim", ["absolute", "../victim/part-a-000000.parquet"])
def test_a_compaction_removes_nothing_outside_of_the_export(tmp_path: Path, victim: str) -> None:
    folder, outside = tmp_path / "export", tmp_path / "victim" / "part-a-000000.parquet"
    outside.parent.mkdir()
    outside.write_text("precious")
    (folder / HOUR).mkdir(parents=True)
    (folder / NEW).touch()
    (folder / schema.MANIFEST).mkdir()
    line = {"replaces": [str(outside) if victim == "absolute" else victim], "by": NEW}
    (folder / schema.MANIFEST / "compacted-0.jsonl").write_text(json.dumps(line) + '\n{"sha256":"0"}\n')
    merge.complete_earlier(folder)
    assert outside.read_text() == "precious"


def test_a_compaction_follows_no_link_out_of_the_export(tmp_path: Path) -> None:
    folder, outside = tmp_path / "export", tmp_path / "other"
    outside.mkdir()
    (folder / HOUR).parent.mkdir(parents=True)
    (folder / HOUR).symlink_to(outside)
    for path in (OLD, NEW):
        (folder / path).touch()
    (folder / schema.MANIFEST).mkdir()
    line = {"replaces": [OLD], "by": NEW}
    (folder / schema.MANIFEST / "compacted-0.jsonl").write_text(json.dumps(line) + '\n{"sha256":"0"}\n')
    merge.complete_earlier(folder)
    assert (folder / OLD).exists()
