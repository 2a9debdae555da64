"""Reports on a part of the input: a time, nodes, virtual hosts, queues."""

from argparse import ArgumentTypeError
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import run
from warren.plugins.message_log.analysis.selection import Selection
from warren.plugins.message_log.cli import master
from warren.plugins.message_log.file_format import schema

from .checking import report_of
from .commands import run_here
from .log import START, Log

HOURS = 4
ROUND_S = 600  # between two rounds of messages
NODES = ("rabbit@a", "rabbit@b")
LINK = "federation: x -> b"


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the logs of two brokers with a link over four hours; the first loses a message in the third hour."""
    folder = tmp_path_factory.mktemp("selection")
    queues = ("work", "waiting", "lost", LINK)
    first, second = Log(folder, NODES[0]).begin(*queues), Log(folder, NODES[1], "b2").begin(*queues)
    for number in range(HOURS * 3600 // ROUND_S):
        for log in (first, second):
            log.now_us = number * ROUND_S * 1_000_000
            log.round_trip("work")
            log.publish("waiting")
        taken = first.publish(LINK, message_id=f"message-{number}")
        first.deliver(taken, LINK)
        second.now_us = first.now_us
        second.publish("work", event=schema.FED_IN, identity=f"message-{number}", link=LINK, upstream="up", hops=1)
        first.ack(taken, LINK, schema.FED_OUT, identity=f"message-{number}", link=LINK)
        if number == 15:
            gone = first.publish("lost")
            first.ready["lost"].remove(gone)
        for log in (first, second):
            for _ in range(2):  # the writer is not silent
                log.now_us += 250_000_000
                log.snapshot()
            log.metric(schema.CPU_S, number, schema.COUNTER)
            if number % 6 == 5:
                log.write()
    for log in (first, second):
        log.stop()
    return folder


OTHERS = "Of records of other virtual hosts and queues, only the numbers were checked"


def queues(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(row["node"], row["queue"]) for row in report["conservation"]["queues"]}


@pytest.mark.parametrize(("hours", "status"), [((0, 2), "balanced"), ((2, None), "imbalanced")])
def test_a_time_is_checked_from_its_first_snapshot_to_its_last(
    export: Path, tmp_path: Path, hours: tuple[int, int | None], status: str
) -> None:
    since, until = [START + timedelta(hours=hour) if hour is not None else None for hour in hours]
    report = report_of(export, tmp_path / "report", since=since, until=until)
    assert report["conservation"]["status"] == status, report["conservation"]
    rounds = ((hours[1] or HOURS) - hours[0]) * 6
    assert report["totals"]["federated_out"] == rounds
    assert report["input"]["files"] < 26


def test_a_node_is_checked_alone(export: Path, tmp_path: Path) -> None:
    report = report_of(export, tmp_path / "report", nodes=(NODES[1],))
    assert report["conservation"]["status"] == "balanced"
    assert {node for node, _ in queues(report)} == {NODES[1]} and OTHERS not in report["verdict"]
    assert report["input"]["files"] == 13 and report["input"]["selection"]["nodes"] == [NODES[1]]


def test_queues_are_checked_alone(export: Path, tmp_path: Path) -> None:
    report = report_of(export, tmp_path / "report", queues=("work", LINK), vhosts=("/",))
    assert report["conservation"]["status"] == "balanced", report["conservation"]
    assert OTHERS in report["verdict"]
    assert {queue for _, queue in queues(report)} == {"work", LINK}
    assert report["totals"]["federated_out"] == HOURS * 6 and report["conservation"]["missing_records"] == 0
    bad = report_of(export, tmp_path / "bad", queues=("lost",))
    assert bad["conservation"]["status"] == "imbalanced" and {queue for _, queue in queues(bad)} == {"lost"}


@pytest.mark.parametrize(
    ("options", "absent"),
    [
        (("--vhost", "other"), ": no vhost 'other'"),
        (("--vhost", "/", "--queue", "work", "--queue", "nosuch"), ": no queue 'nosuch'"),
        (("--node", "rabbit@nosuch", "--queue", "work"), ": no node 'rabbit@nosuch', no queue 'work'"),
        (("--since", "2026-11-23"), ""),
    ],
)
def test_a_selection_of_nothing_is_refused(export: Path, tmp_path: Path, options: tuple[str, ...], absent: str) -> None:
    words = "analyze", "--in-process", "--input", str(export), "--output", str(tmp_path / "report"), *options
    refused = run_here(*words)
    assert refused.returncode == 66 and not (tmp_path / "report").exists()
    assert (
        refused.stderr.splitlines()[-1] == f"warren analyze: {export}: the selection names nothing in the log{absent}"
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--since", "yesterday"), "'yesterday' is no time"),
        (("--since", "1h", "--until", "2h"), "--since is not before --until"),
        (("--stream", "--queue", "q"), "--stream reports on everything"),
        (("--every", "5"), "--every is the interval of --stream, which is not given"),
        (("--every", "nan", "--stream"), "'nan' is no number of seconds above 0"),
        (("--master", "nonsense"), "--master: 'nonsense' is none of local[N], spark://HOST:PORT, k8s://URL and yarn"),
        (("--conf", "spark.master=nonsense"), "--conf: spark.master: 'nonsense' is none of local[N]"),
        (("--driver-memory", "x"), "--driver-memory: 'x' is no size such as 512m or 2g"),
        (("--conf", "spark.driver.memory=2gb"), "--conf: spark.driver.memory: '2gb' is no size such as 512m or 2g"),
        (("--compare", "file://"), "--compare names no folder"),
    ],
)
def test_what_cannot_be_selected_is_an_error_of_one_line(tmp_path: Path, options: tuple[str, ...], line: str) -> None:
    refused = run("analyze", "--input", str(tmp_path), "--output", str(tmp_path / "report"), *options)
    assert refused.returncode == 64 and line in refused.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        *((name, True) for name in ("local", "local[4]", "local[*]", "local[2, 3]", "local-cluster[1,2,1024]", "yarn")),
        *(
            (name, True)
            for name in ("spark://a:7077", "spark://a:7077,b:7077", "spark://[::1]:7077", "k8s://https://h")
        ),
        *((name, False) for name in ("local[0]", "local[x]", "spark://a", "spark:a", "spark://", "k8s://", "Yarn")),
    ],
)
def test_a_master_has_one_of_the_forms_that_spark_knows(name: str, fits: bool) -> None:
    if fits:
        assert master(name) == name
    else:
        with pytest.raises(ArgumentTypeError, match="is none of"):
            master(name)


def test_the_folders_are_looked_at_before_spark_starts(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    refused = run("analyze", "--input", str(folder), "--output", str(tmp_path / "report"))
    assert (refused.returncode, refused.stderr) == (
        66,
        f"warren analyze: {folder}: no such folder: name that of an export with --input\n",
    )


def test_a_spark_that_does_not_start_is_told_with_the_options_that_decide_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.round_trip("work")
    log.write()
    words = ("--input", str(tmp_path / "log"), "--output", str(tmp_path / "report"), "--driver-memory", "1k")
    refused = run("analyze", *words)
    says = "Spark did not start, for the reason above: check --master, --driver-memory and --conf"
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (70, f"warren analyze: {says}")


def test_files_are_selected_by_their_names_and_folders() -> None:
    chosen = Selection(since=START, until=START + timedelta(hours=1), nodes=("rabbit@a",))
    name = "part-rabbit@a-b1-000000.parquet"
    wanted = [hour for hour in range(24) if chosen.has_file(f"events/dt={START:%Y-%m-%d}/hour={hour:02}/{name}")]
    assert wanted == [4, 5, 6], "a file that began in the hour before may reach into this one"
    assert not chosen.has_file(f"events/dt={START:%Y-%m-%d}/hour=05/{name.replace('@a', '@ab')}")
