"""The whole job over the logs of three brokers without faults: its figures are those of the model of a broker."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from warren.plugins.message_log.file_format import schema

from . import scenes
from .checking import report_of

Report = dict[str, Any]


class Run:
    """The logs, their report, and its folder."""

    def __init__(self, folder: Path) -> None:
        self.input, self.output = folder / "input", folder / "output"
        self.logs = scenes.well(self.input)
        self.report: Report = report_of(self.input, self.output)

    def events(self, name: str) -> int:
        counts: Counter[str] = sum((log.counts for log in self.logs), Counter())
        return counts[name]

    def rows(self, report: str, **wanted: object) -> list[Report]:
        return [row for row in self.report[report] if all(row[name] == value for name, value in wanted.items())]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("well"))


def test_the_totals_are_what_the_brokers_counted(run: Run) -> None:
    totals = run.report["totals"]
    named = {
        "published": schema.PUBLISH,
        "returned": schema.RETURN,
        "enqueued": schema.ENQUEUE,
        "delivered": schema.DELIVER,
        "acknowledged": schema.ACK,
        "requeued": schema.REQUEUE,
        "expired": schema.EXPIRE,
        "dropped": schema.DROP,
        "dead_lettered": schema.DEAD_LETTER,
        "federated_in": schema.FED_IN,
        "federated_out": schema.FED_OUT,
    }
    assert {name: totals[name] for name in named} == {name: run.events(event) for name, event in named.items()}
    assert totals["confirmed"] + totals["refused"] == run.events(schema.CONFIRM)
    assert totals["refused"] == 2 and totals["unroutable"] == 4
    assert totals["records"] == sum(log.row for log in run.logs) == run.report["input"]["events"]


def test_everything_balances(run: Run) -> None:
    check = run.report["conservation"]
    assert (check["status"], check["balanced"]) == ("balanced", True), check["imbalances"]
    assert check["reasons"] == [] and check["imbalances"] == []
    assert check["checked_records"] == sum(log.row for log in run.logs) and check["unchecked_records"] == 0
    for log in run.logs:
        queues = {
            row["queue"]: row for row in check["queues"] if (row["node"], row["boot_id"]) == (log.node, log.boot_id)
        }
        assert {name: row["ready_after"] for name, row in queues.items()} == {
            name: len(messages) for name, messages in log.ready.items()
        }
        assert {name: row["unacked_after"] for name, row in queues.items()} == {
            name: len(messages) for name, messages in log.unacked.items()
        }


def test_a_link_brought_what_it_took(run: Run) -> None:
    (crossed,) = run.report["conservation"]["links"]
    named = {"link": scenes.LINK, "upstream_node": "rabbit@up"}
    assert crossed == {**named, "taken": 10, "arrived": 11, "discarded": 1, "missing": 0, "pending": 0}
    (link,) = run.rows("links")
    assert (link["node"], link["upstream_node"], link["upstream"]) == ("rabbit@down", "rabbit@up", "up")
    assert (link["duplicates"], link["missing"], link["most_hops"], link["starts"]) == (1, 0, 1, 2)
    assert link["lag_p50_us"] == pytest.approx(6_000, rel=0.01)


def test_a_restart_says_what_was_there_before_and_after(run: Run) -> None:
    (restart,) = run.report["conservation"]["restarts"]
    assert (restart["queue"], restart["before"], restart["after"], restart["fewer"]) == ("kept", 3, 2, 1)


def test_throughput_is_told_of_queues_vhosts_and_users_in_three_grains(run: Run) -> None:
    node = {"node": "rabbit@up", "flow": "delivered"}
    delivered = sum(log.counts[schema.DELIVER] for log in run.logs if log.node == "rabbit@up")
    for scope, name in (("vhost", "/"), ("user", "guest")):
        rows = {row["grain"]: row for row in run.rows("throughput", scope=scope, name=name, **node)}
        assert {grain: row["messages"] for grain, row in rows.items()} == dict.fromkeys(("1s", "1m", "1h"), delivered)
        assert rows["1s"]["peak_per_s"] >= rows["1m"]["peak_per_s"] >= rows["1h"]["mean_per_s"]
        assert rows["1s"]["peak_to_mean"] >= 1
    assert run.rows("throughput", scope="queue", name="work", flow="enqueued", node="rabbit@up")


def test_latency_is_told_by_stage(run: Run) -> None:
    rows = {row["stage"]: row for row in run.rows("latency", node="rabbit@up", queue="work")}
    assert set(rows) == {"publish_enqueue", "publish_deliver", "publish_ack", "enqueue_deliver", "deliver_ack"}
    trips = rows["publish_ack"]
    assert trips["p50_us"] == pytest.approx(5_000, rel=0.01)  # five events of a millisecond each
    assert rows["deliver_ack"]["p50_us"] == pytest.approx(1_000, rel=0.01)
    assert trips["p50_us"] <= trips["p90_us"] <= trips["p99_us"] <= trips["p999_us"] <= trips["max_us"]
    (confirm,) = run.rows("latency", node="rabbit@up", stage="publish_confirm")
    assert confirm["messages"] == scenes.MESSAGES + 1 and confirm["queue"] is None


def test_hot_keys_have_their_share(run: Run) -> None:
    exchange = run.rows("hot_exchanges", node="rabbit@up")[0]
    keys = run.rows("hot_keys", node="rabbit@up")
    assert sum(row["published"] for row in keys) == exchange["published"]
    assert keys[0]["routing_key"] == exchange["top_key"] and keys[0]["share"] == exchange["top_share"]
    assert 0 < exchange["gini"] < 1 and exchange["keys"] == len(keys)


def test_trouble_is_named(run: Run) -> None:
    (nowhere,) = run.rows("unroutable", node="rabbit@up")
    assert (nowhere["routing_key"], nowhere["unroutable"], nowhere["returned"]) == ("nowhere", 2, 1)
    given_up = {(row["event"], row["reason"]): row["messages"] for row in run.rows("given_up", node="rabbit@up")}
    assert given_up == {("expire", "expired"): 1, ("drop", "maxlen"): 1, ("dlx", "rejected"): 1}
    (again,) = run.rows("redelivered", node="rabbit@up", queue="work")
    assert (again["redelivered"], again["requeued"]) == (5, 5)
    (poison,) = run.rows("poison", node="rabbit@up")
    assert (poison["queue"], poison["redelivered"], poison["requeued"]) == ("work", 5, 5)
    assert (poison["message_id"], poison["exchange"], poison["routing_key"]) == ("poison", "x", "key")


def test_the_process_and_its_queues_are_described(run: Run) -> None:
    (backlog,) = run.rows("backlog", node="rabbit@up", queue="work")
    assert (backlog["ready"], backlog["snapshots"]) == (1, 3)
    (work,) = run.rows("consumers", node="rabbit@up", queue="work")
    assert work["mean_ready"] > 0
    channels = {row["name"]: row for row in run.rows("churn", node="rabbit@up")}
    assert channels[schema.CHANNELS]["now"] == 100
    (capacity,) = run.rows("capacity", node="rabbit@up")
    assert capacity["peak_cpu"] == pytest.approx(0.05, rel=0.2) and capacity["loop_lag_us_p99"] == 32


def test_the_output_is_a_page_a_report_and_tables(run: Run) -> None:
    assert sorted(path.name for path in run.output.iterdir() if path.name[0] != ".") == [
        "current.json",
        "index.html",
        "report.json",
        "runs",
        "tables",
    ]
    folder = run.output / "runs" / json.loads((run.output / "current.json").read_text())["run"]
    names = sorted(path.name for path in folder.iterdir() if path.name[0] != ".")
    assert names == ["index.html", "report.json", "summary.json", "tables"]
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["totals"], summary["balanced"]) == (run.report["totals"], run.report["conservation"]["balanced"])
    assert json.loads((run.output / "report.json").read_text()) == run.report
    assert (run.output / "tables").samefile(folder / "tables")
    for name, count in run.report["rows"].items():
        assert pq.read_metadata(folder / "tables" / f"{name}.parquet").num_rows == count
    assert f'url=runs/{folder.name}/index.html"' in (run.output / "index.html").read_text()
    page = (folder / "index.html").read_text()
    assert "Nothing is missing" in page and 'id="report"' in page and "federation: x -> b" in page
    assert [path.name for path in (run.output / "runs").iterdir()] == [folder.name]
