"""Real losses, each in the log of a broker of its own, and legal events that look like one: one check over all logs."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from warren.plugins.message_log.analysis import verdict
from warren.plugins.message_log.analysis.boots import Boot
from warren.plugins.message_log.analysis.ledger import Ledger
from warren.plugins.message_log.analysis.report import conservation_of
from warren.plugins.message_log.analysis.verdict import Imbalance
from warren.plugins.message_log.file_format import schema

from .checking import ledger_of
from .log import Log

Values = dict[str, Any]
Scene = Callable[[Log], object]
NOW = datetime.now(UTC).replace(microsecond=0)
LATER = timedelta(seconds=60)
SCENES: dict[str, Scene] = {}


def scene(make: Scene) -> Scene:
    """Add a scene at a running broker of its name, whose log has its first snapshot."""
    SCENES[make.__name__] = make
    return make


def published(log: Log, count: int, confirmed: bool = True, **columns: Any) -> list[int]:
    numbers = [log.publish("work", **columns) for _ in range(count)]
    for number in numbers if confirmed else ():
        log.confirm(number)
    return numbers


def again(log: Log, *, ready: int, recovered: int | None = None, **link: Any) -> Log:
    """Start the broker again; its queue has `ready` messages."""
    later = Log(log.folder, log.node, log.boot_id + "+", log.start + LATER)
    later.follow(log)
    later.link |= link
    if ready or recovered:
        later.recovered("work", ready)
    if recovered is not None:
        later.recovered_before["work"] = recovered
    later.snapshot(schema.START)
    later.snapshot()
    later.write()
    return later


def stopped(log: Log) -> list[Path]:
    log.snapshot(schema.STOP)
    return log.write()


def killed(log: Log) -> list[Path]:
    log.snapshot()
    return log.write()


def restart(end: Callable[[Log], object], count: int, *, settled: bool = False, **after: Any) -> Scene:
    """Publish confirmed messages, end the broker, and start it again.

    If `settled`, consumers settle 5 in the greatest second, and have 3 more.
    """

    def make(log: Log) -> None:
        numbers = published(log, count)
        for number in numbers[:8] if settled else ():
            log.deliver(number, "work")
            if number <= 5:
                log.ack(number, "work")
        end(log)
        again(log, **after)

    return make


def in_two_files(log: Log) -> Path:
    """Write two files of events. Returns the second one."""
    published(log, 10)
    killed(log)
    published(log, 10)
    return next(path for path in killed(log) if "events" in path.parts)


def manifest_of(log: Log) -> Path:
    (path,) = (log.folder / schema.MANIFEST).glob(f"*{log.node}-*")
    return path


def unlist(log: Log, file: Path) -> None:
    """Remove a file from the manifest."""
    listing = manifest_of(log)
    lines = listing.read_text().splitlines(keepends=True)
    listing.write_text("".join(line for line in lines if file.relative_to(log.folder).as_posix() not in line))


# Files


@scene
def running_well(log: Log) -> None:
    in_two_files(log)
    published(log, 10)  # not written yet


@scene
def newest_file_deleted(log: Log) -> None:
    in_two_files(log).unlink()


@scene
def newest_file_deleted_and_unlisted(log: Log) -> None:
    path = in_two_files(log)
    path.unlink()
    unlist(log, path)


@scene
def file_changed(log: Log) -> None:
    path = in_two_files(log)
    pq.write_table(pq.read_table(path), path, compression="none")


@scene
def file_added(log: Log) -> None:
    in_two_files(log)
    metrics = Log(log.folder, log.node, log.boot_id, log.start)
    metrics.metric(schema.CPU_S, 1.0)
    metrics.sequence = 7
    (added,) = metrics.write()
    unlist(log, added)


@scene
def file_removed_by_its_age(log: Log) -> None:
    log.metric(schema.CPU_S, 1.0, schema.COUNTER)
    (path,) = [path for path in log.write() if "metrics" in path.parts]
    path.unlink()
    with manifest_of(log).open("a") as listing:
        listing.write(f'{{"removed":"{path.relative_to(log.folder)}","reason":"retention"}}\n')
    in_two_files(log)


# Boots


def after_boot(age: timedelta) -> Scene:
    """Name a boot before this one, whose files are not there."""

    def make(log: Log) -> None:
        log.link |= {"previous_boot": "b0", "previous_row": 100, "previous_at": NOW - age}
        log.tables[schema.QUEUE_STATS].clear()
        log.snapshot(schema.START)
        in_two_files(log)

    return make


SCENES["boot_missing"] = after_boot(timedelta(days=13))
SCENES["boot_removed_by_its_age"] = after_boot(timedelta(days=16))


@scene
def boot_ends_too_early(log: Log) -> None:
    """The last files of a stop are gone, and the whole manifest."""
    published(log, 10)
    log.write()
    published(log, 5)
    for path in stopped(log):
        path.unlink()
    manifest_of(log).unlink()
    again(log, ready=15)


@scene
def writer_killed_too(log: Log) -> None:
    published(log, 10)
    killed(log)
    published(log, 5)  # never written
    again(log, ready=15)


# Restarts

SCENES |= {
    "kept": restart(stopped, 10, ready=10),
    "lost_after_a_stop": restart(stopped, 10, ready=7),
    "folder_deleted_after_a_stop": restart(stopped, 10, ready=0, store=2),
    "folder_deleted_after_a_kill": restart(killed, 50, ready=0, store=2),
    "journal_cut_after_a_kill": restart(killed, 50, settled=True, ready=25, recovered_batch=90),
    "settled_in_the_last_moment": restart(killed, 50, settled=True, ready=45 - 13),
    "expired_between": restart(stopped, 10, ready=4, recovered=10),
    "not_comparable": restart(stopped, 10, ready=0, comparable=False),
    "ran_without_the_export": restart(stopped, 10, ready=0, settling_batch=1000),
    "queue_never_seen": restart(Log.write, 10, ready=0),
    "lost_from_a_queue_never_seen": restart(Log.write, 10, ready=0, store=2),
}


@scene
def lost_at_the_third_boot(log: Log) -> None:
    """Messages that were on the disk already."""
    published(log, 10)
    stopped(log)
    second = again(log, ready=10)
    number = second.ready["work"][0]
    second.deliver(number, "work")
    second.ack(number, "work")
    stopped(second)
    again(second, ready=8)


@scene
def unconfirmed_after_a_kill(log: Log) -> None:
    published(log, 10, confirmed=False)
    killed(log)
    again(log, ready=0)


@scene
def unconfirmed_after_a_stop(log: Log) -> None:
    published(log, 10)
    published(log, 10, confirmed=False)
    stopped(log)
    again(log, ready=12)


@scene
def refused(log: Log) -> None:
    published(log, 10)
    for _ in range(5):
        log.confirm(log.publish(routed=0, reason="refused"), "nack")
    stopped(log)
    again(log, ready=10)


@scene
def transient_messages(log: Log) -> None:
    published(log, 10, persistent=False)
    stopped(log)
    again(log, ready=0)


@scene
def transient_or_exclusive_queue(log: Log) -> None:
    log.transient.add("work")
    restart(stopped, 10, ready=0)(log)


@scene
def expired_in_an_old_log(log: Log) -> None:
    """The queue is gone by `x-expires`, with its messages, before the stop."""
    for number in published(log, 10):
        log.drop(number, "work", reason="deleted")
    del log.ready["work"], log.unacked["work"]
    stopped(log)
    again(log, ready=0)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    folder = tmp_path_factory.mktemp("proof")
    write_scenes(folder / "log")
    return ledger_of(folder / "log", folder / "stored")


def write_scenes(folder: Path) -> None:
    for name, make in SCENES.items():
        log = Log(folder, name, f"b{name}", NOW - 3 * LATER)
        log.snapshot(schema.START)
        make(log)


def problems(ledger: Ledger, node: str) -> dict[str, int]:
    """Return the records of each problem of one broker."""
    rows = [each for each in ledger.imbalances if each.node == node]
    records: Counter[str] = Counter()
    for row in rows:
        records[row.problem] += row.records or 0
    return dict(records)


def kept_by(ledger: Ledger, node: str) -> list[Values]:
    names = ("confirmed_before", "unconfirmed", "there_after", "missing", "lost")
    return [{name: getattr(row, name) for name in names} for row in ledger.durability if row.node == node]


UNCERTAIN = {
    "boot_missing": "the log of the boot before is missing",
    "writer_killed_too": "15 records lost that a writer had not finished when it ended",
}
LOSSES: dict[str, dict[str, int]] = {
    "newest_file_deleted": {verdict.FILE_MISSING: 30, verdict.MISSING: 30},
    "newest_file_deleted_and_unlisted": {verdict.MISSING: 30},
    "file_changed": {verdict.FILE_CHANGED: 30},
    "boot_ends_too_early": {verdict.MISSING: 15},
    "lost_after_a_stop": {verdict.NOT_KEPT: 3},
    "folder_deleted_after_a_stop": {verdict.NOT_KEPT: 10},
    "lost_at_the_third_boot": {verdict.NOT_KEPT: 1},
    "folder_deleted_after_a_kill": {verdict.NOT_KEPT: 50},
    "journal_cut_after_a_kill": {verdict.NOT_KEPT: 45 - 25 - 3, verdict.AT_RISK: 5 + 3},
    "lost_from_a_queue_never_seen": {verdict.NOT_KEPT: 10},
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_found(ledger: Ledger, name: str) -> None:
    found = problems(ledger, name)
    assert {problem: found.get(problem) for problem in LOSSES[name]} == LOSSES[name]
    assert ledger.verdict.status == "imbalanced"


@pytest.mark.parametrize("name", [name for name in LOSSES if "file_deleted" not in name and "early" not in name])
def test_nothing_else_is_found_of_it(ledger: Ledger, name: str) -> None:
    assert problems(ledger, name) == LOSSES[name]


@pytest.mark.parametrize("name", [name for name in SCENES if name not in LOSSES])
def test_what_is_legal_or_unknown_is_no_loss(ledger: Ledger, name: str) -> None:
    assert problems(ledger, name) == {}


def reasons_of(ledger: Ledger, name: str) -> list[str]:
    boots = [boot for boot in ledger.boots if boot.node == name]
    texts = {"lacks_previous": UNCERTAIN["boot_missing"], "unfinished": UNCERTAIN["writer_killed_too"]}
    return [text for field, text in texts.items() if any(getattr(boot, field) for boot in boots)]


@pytest.mark.parametrize("name", SCENES)
def test_a_log_that_lacks_its_end_or_its_predecessor_is_incomplete(ledger: Ledger, name: str) -> None:
    assert reasons_of(ledger, name) == ([UNCERTAIN[name]] if name in UNCERTAIN else [])
    texts = [reason.partition(" (")[0] for reason in ledger.verdict.reasons]
    assert all(reason in texts for reason in UNCERTAIN.values())


@pytest.mark.parametrize(
    ("name", "before", "unconfirmed", "after", "missing", "lost"),
    [
        ("kept", 10, 0, 10, 0, 0),
        ("lost_after_a_stop", 10, 0, 7, 3, 3),
        ("folder_deleted_after_a_stop", 10, 0, 0, 10, 10),
        ("folder_deleted_after_a_kill", 50, 0, 0, 50, 50),
        ("journal_cut_after_a_kill", 45, 0, 25, 20, 17),
        ("settled_in_the_last_moment", 45, 0, 32, 13, 0),
        ("unconfirmed_after_a_kill", 0, 10, 0, 0, 0),
        ("unconfirmed_after_a_stop", 10, 10, 12, 0, 0),
        ("expired_between", 10, 0, 10, 0, 0),
        ("refused", 10, 0, 10, 0, 0),
        ("queue_never_seen", 10, 0, 0, 10, 0),
    ],
)
def test_the_section_durability_has_what_each_queue_kept(
    ledger: Ledger, name: str, before: int, unconfirmed: int, after: int, missing: int, lost: int
) -> None:
    (row,) = kept_by(ledger, name)
    assert row == {
        "confirmed_before": before, "unconfirmed": unconfirmed, "there_after": after, "missing": missing, "lost": lost,
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "transient_messages",
        "transient_or_exclusive_queue",
        "expired_in_an_old_log",
        "not_comparable",
        "ran_without_the_export",
    ],
)
def test_queues_that_need_keep_nothing_are_not_in_it(ledger: Ledger, name: str) -> None:
    assert kept_by(ledger, name) == []


def test_the_files_are_counted(ledger: Ledger) -> None:
    files = conservation_of(ledger)["files"]
    assert {name: files[name] for name in ("missing", "changed", "unlisted")} == {
        "missing": 1, "changed": 1, "unlisted": 1
    }  # fmt: skip


@pytest.mark.parametrize(("lost", "certain"), [(0, 2), (4, 1), (5, 0), (9, 0)])
def test_more_missing_records_than_were_lost_are_a_loss(lost: int, certain: int) -> None:
    """A link is not checked while any broker has lost records."""
    found = [Imbalance(verdict.MISSING, "a", "b1", records=5), Imbalance(verdict.NOT_ARRIVED, "z", records=1)]
    boots = [Boot("a", "b1", lost_records=lost)]
    assert len(verdict.certain(found, boots)) == certain
