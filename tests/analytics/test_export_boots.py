"""The boots and files of an export: the link from boot to boot, and the manifest."""

import hashlib
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from warren.broker.core.messages.journal_port import Recovery
from warren.broker.runtime.supervisor import Supervisor
from warren.plugins.message_log.export.manifest import FinishedFile, Manifest
from warren.plugins.message_log.export.node_state import NodeState, state_path
from warren.plugins.message_log.export.pipe_format import NODE_TAKEN, SNAPSHOT
from warren.plugins.message_log.export.writer import Writer
from warren.plugins.message_log.export.writer_process import Outlet
from warren.plugins.message_log.file_format import schema

from .exporting import NODE, Row, empty_snapshot, rows_of, task, whole_files

NOW_S = int(time.time())
ENTRY = FinishedFile("events/dt=2026-11-22/hour=05/part-a-b-000000.parquet", "events", 5, 2, 0, 1, "ab")
LINK = ("previous_boot", "previous_row", "previous_at", "retention_days")


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all manifests."""
    found = sorted((folder / schema.MANIFEST).glob("*.jsonl"))
    return [msgspec.json.decode(line) for path in found for line in path.read_bytes().splitlines()]


def starts(folder: Path) -> list[Row]:
    """Return the closing rows of all starts, in their order."""
    rows = [row for row in rows_of(folder, schema.QUEUE_STATS) if row["queue"] is None and row["kind"] == schema.START]
    return sorted(rows, key=lambda row: row["ts_us"])


def snapshot(number: int, row: int, kind: str = schema.PERIODIC) -> bytes:
    """Return a snapshot whose time is its row."""
    return empty_snapshot(number, row, kind, NOW_S * 1_000_000 + row)


def start(folder: Path, boot_id: str = "b1", row: int | None = None, **changed: Any) -> Writer:
    """Return a writer with the first snapshot of a boot, and with another one at `row`."""
    writer = Writer(task(folder, 0, boot_id=boot_id, **changed))
    writer.take(SNAPSHOT, snapshot(0, 0, schema.START))
    if row is not None:
        writer.take(SNAPSHOT, snapshot(1, row))
    return writer


def test_a_start_names_the_boot_before_and_how_far_it_came(tmp_path: Path) -> None:
    for boot_id, row in (("b1", 70), ("b2", 5), ("b3", 9)):
        start(tmp_path, boot_id, row, retention_days=14).end()
    links = [[row[name] for name in LINK] for row in starts(tmp_path)]
    assert [link[:2] + link[3:] for link in links] == [[None, None, 14], ["b1", 70, 14], ["b2", 5, 14]]
    assert [link[2] and link[2].microsecond for link in links] == [None, 70, 5]
    others = [row for row in rows_of(tmp_path, schema.QUEUE_STATS) if row["kind"] != schema.START]
    assert others and all(row[name] is None for row in others for name in LINK)


def test_a_start_says_how_it_found_the_store_and_how_far_the_boot_before_came_in_it(tmp_path: Path) -> None:
    names = ("store", "recovered_batch", "settling_batch", "damage", "previous_batch")
    for boot_id, recovery in (("b1", (8, 3, 2, 0)), ("b2", (8, 45, 44, 1)), ("b3", None)):
        writer = start(tmp_path, boot_id, recovery=recovery and Recovery(*recovery))
        writer.take(SNAPSHOT, empty_snapshot(1, 7, schema.STOP, NOW_S * 1_000_000 + int(boot_id[1]), batch=40))
        writer.end()
    found = [[row[name] for name in names] for row in starts(tmp_path)]
    assert found == [[8, 3, 2, 0, None], [8, 45, 44, 1, 40], [None, None, None, None, 40]]
    rows = [row for row in rows_of(tmp_path, schema.QUEUE_STATS) if row["kind"] == schema.STOP]
    assert {(row["durable_batch"], row["last_batch"]) for row in rows} == {(40, 41)}
    ended = msgspec.json.decode(state_path(tmp_path, NODE).read_bytes())["boot"]
    assert (ended["boot_id"], ended["row"], ended["batch"], ended["ended"]) == ("b3", 7, 40, True)


def test_a_start_is_written_at_once(tmp_path: Path) -> None:
    start(tmp_path)
    assert len(starts(tmp_path)) == 1


def test_a_start_waits_for_the_writer_of_the_boot_before_to_finish(tmp_path: Path) -> None:
    before, after = start(tmp_path), start(tmp_path, "b2")
    after.finish()
    assert [row["boot_id"] for row in starts(tmp_path)] == ["b1"]
    before.take(SNAPSHOT, snapshot(1, 70))
    before.end()
    after.look()
    (link,) = [row for row in starts(tmp_path) if row["boot_id"] == "b2"]
    assert (link["previous_boot"], link["previous_row"]) == ("b1", 70)


def test_a_writer_that_never_ends_delays_the_next_one_for_some_time_only_and_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("warren.plugins.message_log.export.writer.LOCK_WAIT_S", 0.0)
    before = start(tmp_path, row=70)
    before.look()
    assert NODE_TAKEN not in capfd.readouterr().out
    start(tmp_path, "b2", row=3).end()
    (line,) = [line for line in capfd.readouterr().out.splitlines() if NODE_TAKEN in line]
    reported: list[tuple[str, str, dict[str, object]]] = []
    Outlet(lambda *fields: reported.append(fields), Supervisor(lambda *fields: None))._log(line.encode())
    ((event, level, fields),) = reported
    assert (event, level, fields["node"], fields["directory"]) == (NODE_TAKEN, "error", NODE, str(tmp_path))
    (link,) = [row for row in starts(tmp_path) if row["boot_id"] == "b2"]
    assert (link["previous_boot"], link["previous_row"]) == ("b1", 70)
    state = NodeState(tmp_path, NODE, "b3")
    before.end()
    assert state.lock() and state.previous is not None
    assert state.previous.boot_id == "b1", "only the writer with the lock changes the state"
    state.close()


def test_a_boot_without_a_single_record_is_no_link(tmp_path: Path) -> None:
    start(tmp_path).end()
    Writer(task(tmp_path, 0, boot_id="b2")).end()
    state = NodeState(tmp_path, NODE, "b3")
    assert state.lock() and state.previous is not None and state.previous.boot_id == "b1"
    state.close()


def test_states_of_nodes_with_similar_names_are_apart(tmp_path: Path) -> None:
    states = [NodeState(tmp_path, node, "b1") for node in ("a@my-host", "a@my_host", "a@my/host", "a@my%2Fhost")]
    assert all(state.lock() for state in states)
    for state in states:
        state.save(durable=True)
        state.close()
    assert len(list((tmp_path / schema.STATE).glob("*.json"))) == len(states)


def test_the_manifest_lists_each_finished_file_with_its_checksum(tmp_path: Path) -> None:
    writer = start(tmp_path)
    writer.take(SNAPSHOT, snapshot(1, 7, schema.STOP))
    writer.end()
    files = {path.relative_to(tmp_path).as_posix(): path for path in whole_files(tmp_path, schema.QUEUE_STATS)}
    assert [line["path"] for line in lines(tmp_path)] == sorted(files)
    for line in lines(tmp_path):
        content = files[line["path"]].read_bytes()
        assert (line["bytes"], line["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        assert (line["table"], line["rows"], line["first_row"], line["last_row"]) == ("queue_stats", 1, None, None)


def test_a_line_of_the_manifest_that_was_cut_is_replaced(tmp_path: Path) -> None:
    Manifest(tmp_path, schema.manifest_name(NODE, "b1")).add(ENTRY)
    (path,) = (tmp_path / schema.MANIFEST).iterdir()
    path.write_bytes(path.read_bytes() + b'{"path":"events/dt=2026-1')
    manifest = Manifest(tmp_path, schema.manifest_name(NODE, "b1"))
    assert manifest.finished_files() == [ENTRY]
    manifest.add(ENTRY)
    assert manifest.finished_files() == [ENTRY, ENTRY] and len(lines(tmp_path)) == 2


def test_lines_that_cannot_be_written_wait(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, schema.manifest_name(NODE, "b1"))
    (tmp_path / schema.MANIFEST).write_text("no folder")
    with pytest.raises(OSError):
        manifest.add(ENTRY)
    (tmp_path / schema.MANIFEST).unlink()
    manifest.flush()
    assert manifest.finished_files() == [ENTRY]


def test_a_start_says_whether_the_boot_before_can_be_compared(tmp_path: Path) -> None:
    """Restarts with other virtual hosts, or in the same process, cannot be compared."""
    boots: list[dict[str, Any]] = [{}, {}, {"vhosts": ("a",)}, {"vhosts": ("a",), "resumed": True}, {"vhosts": ("a",)}]
    for number, changed in enumerate(boots, 1):
        start(tmp_path, f"b{number}", **changed).end()
    assert [row["comparable"] for row in starts(tmp_path)] == [None, True, False, False, True]
