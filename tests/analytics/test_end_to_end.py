"""The path from clients' messages to the report: three brokers under a counting load, with a link that is cut."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.support.loop_thread import LoopThread
from warren.plugins.message_log.analysis import queues, verdict
from warren.plugins.message_log.analysis.report import conservation_of
from warren.plugins.message_log.file_format import schema

from .checking import ledger_of, report_of
from .exporting import whole_files
from .federated import NEWS, WORK, Federated, upstream_queue

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]
Report = dict[str, Any]


@pytest.fixture(scope="module")
def federated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federated]:
    loop = LoopThread()
    made = Federated(tmp_path_factory.mktemp("federated"), loop)
    try:
        made.run()
        yield made
    finally:
        made.close()
        loop.close()


@pytest.fixture(scope="module")
def report(federated: Federated) -> Report:
    made: Report = report_of(federated.export, federated.export.parent / "report")
    return made


def test_the_totals_are_what_clients_counted(federated: Federated, report: Report) -> None:
    counted = federated.total
    requeued = counted.pop("requeued")
    assert {name: report["totals"][name] for name in counted} == dict(counted)
    assert report["totals"]["requeued"] >= requeued  # the messages of the cut link are also requeued
    entered = [sum(load.entered.values()) for load in federated.loads.values()]
    assert report["totals"]["enqueued"] == sum(entered)


def test_it_balances_in_each_queue(federated: Federated, report: Report) -> None:
    check = report["conservation"]
    assert (check["status"], check["balanced"], check["reasons"]) == ("balanced", True, []), check["imbalances"]
    assert check["unchecked_records"] == 0 and check["checked_records"] == report["totals"]["records"]
    assert {boot["stopped"] for boot in check["boots"]} == {True} and len(check["boots"]) == 3
    for name, load in federated.loads.items():
        rows = {row["queue"]: row for row in check["queues"] if row["node"] == f"{name}@test"}
        assert {queue: row["entered"] for queue, row in rows.items() if row["entered"]} == dict(load.entered)
        assert rows["short"]["dropped"] == 6 and rows["timed"]["expired"] == 6 and rows["late"]["dead_lettered"] == 5
        assert rows["kept"]["ready_after"] + rows["kept"]["unacked_after"] == 8
    assert all(row["difference"] == 0 for row in check["queues"])


def test_what_links_took_has_come(federated: Federated, report: Report) -> None:
    links = {(link["link"], link["upstream_node"]): link for link in report["conservation"]["links"]}
    assert sorted(links) == [
        (WORK, "a@test"), (upstream_queue("b"), "a@test"), (upstream_queue("c"), "b@test"),
    ]  # fmt: skip
    loads = federated.loads
    assert {link["missing"] for link in links.values()} == {0} == {link["pending"] for link in links.values()}
    taken = {name: load.counts["federated_out"] for name, load in loads.items()}
    assert links[upstream_queue("c"), "b@test"]["taken"] == taken["b"]
    assert links[upstream_queue("b"), "a@test"]["taken"] + links[WORK, "a@test"]["taken"] == taken["a"]
    assert sum(link["arrived"] for link in links.values()) == federated.total["federated_in"]
    told = {(row["link"], row["node"], row["upstream"], row["most_hops"]) for row in report["links"]}
    assert told == {
        (WORK, "c@test", "work", 1), (upstream_queue("b"), "b@test", "news", 1),
        (upstream_queue("c"), "c@test", "news", 2),
    }  # fmt: skip
    assert all(row["lag_p50_us"] is not None and row["missing"] == 0 for row in report["links"])


def test_reports_name_what_clients_did(report: Report) -> None:
    nowhere = [row for row in report["unroutable"] if row["routing_key"] == "nowhere"]
    assert {(row["exchange"], row["unroutable"], row["returned"]) for row in nowhere} == {(NEWS, 12, 5)}
    assert len(nowhere) == 3
    given_up = {(row["queue"], row["event"], row["reason"], row["messages"]) for row in report["given_up"]}
    assert given_up == {
        ("short", "drop", "maxlen", 6), ("purged", "drop", "purged", 3), ("gone", "drop", "deleted", 2),
        ("timed", "expire", "expired", 6), ("late", "dlx", "expired", 5), ("rejecting", "dlx", "rejected", 8),
    }  # fmt: skip


def without(folder: Path, node: str, event: str, queue: str) -> dict[str, Any]:
    """Remove the last such row of a log, and return it."""
    for path in whole_files(folder):
        table = pq.ParquetFile(path).read()
        if table["node"][0].as_py() == node:
            named = pc.and_(pc.equal(table["event"], event), pc.equal(table["queue"], queue))
            place = pc.index(named, pa.scalar(True)).as_py()
            if place >= 0:
                row: dict[str, Any] = table.slice(place, 1).to_pylist()[0]
                pq.write_table(pa.concat_tables([table.slice(0, place), table.slice(place + 1)]), path)
                return row
    raise LookupError(event)


def test_a_row_that_is_removed_is_found_and_nothing_else_also_where_a_broker_was_killed(
    federated: Federated, tmp_path: Path
) -> None:
    shutil.copytree(federated.export, tmp_path / "log")
    gone = without(tmp_path / "log", "b@test", schema.ACK, "acked")
    taken = without(tmp_path / "log", "a@test", schema.FED_OUT, WORK)
    federated.kill("b", tmp_path / "log")
    check = conservation_of(ledger_of(tmp_path / "log", tmp_path / "stored"))
    assert (check["status"], check["balanced"], check["missing_records"]) == ("imbalanced", False, 2)
    found = {(row["problem"], row["node"], row["queue"]): row for row in check["imbalances"]}
    for row, queue in ((gone, "acked"), (taken, WORK)):
        node = row["node"]
        assert found.pop((queues.VANISHED, node, queue))["msg_seq"] == row["msg_seq"]
        assert found.pop((verdict.UNEQUAL, node, queue))["records"] == 1
        assert found.pop((verdict.UNLOGGED_ACKS, node, queue))["records"] == 1
        missing = found.pop((verdict.MISSING, node, None))
        assert (missing["first_row"], missing["last_row"]) == (row["row"], row["row"])
        assert found.pop((verdict.FILE_CHANGED, node, None))["file"].startswith("events/")
    assert found == {}
    (killed,) = check["reasons"][len(check["causes"]) :]
    assert killed.startswith("a broker was killed, or could not write its last records: they are unknown (b@test ")
    assert [boot["stopped"] for boot in check["boots"] if boot["node"] == "b@test"] == [True, False, True]
    kept = {row["stopped"]: row for row in check["restarts"] if row["queue"] == "kept"}
    assert {stopped: (row["before"], row["after"]) for stopped, row in kept.items()} == {True: (8, 8), False: (None, 8)}
