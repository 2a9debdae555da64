"""Real losses, each in the log of a broker of its own, and legal events that look like one: one check over all logs."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from warren.plugins.message_log.analysis import verdict
from warren.plugins.message_log.analysis.boots import Boot
from warren.plugins.message_log.analysis.ledger import Ledger
from warren.plugins.message_log.analysis.report import conservation_of
from warren.plugins.message_log.analysis.verdict import FILE_CHANGED, FILE_MISSING, MISSING, NOT_KEPT, Imbalance
from warren.plugins.message_log.file_format import schema

from .checking import ledger_of
from .log import Log

NOW = datetime.now(UTC).replace(microsecond=0)
LATER = timedelta(seconds=60)
COUNTS = ("confirmed_before", "unconfirmed", "there_after", "missing", "lost")
LACKS = "the log of the boot before is missing"
UNFINISHED = "at least 15 records lost that a writer had not finished when it ended"


class Scene(NamedTuple):
    """A scene at a running broker of its name, whose log has its first snapshot, and what must be found of it.

    problems  the records of each problem
    counts    the COUNTS of each restart, or None if they do not matter
    reason    why its log is not complete, or None
    """

    make: Callable[[Log], object]
    problems: dict[str, int]
    counts: list[tuple[int, ...]] | None
    reason: str | None


SCENES: dict[str, Scene] = {}


def scene(
    problems: dict[str, int] | None = None, counts: list[tuple[int, ...]] | None = None, reason: str | None = None
) -> Callable[[Callable[[Log], object]], None]:
    def add(make: Callable[[Log], object]) -> None:
        SCENES[make.__name__] = Scene(make, problems or {}, counts, reason)

    return add


def published(log: Log, count: int, confirmed: bool = True, **columns: Any) -> list[int]:
    numbers = [log.publish("work", **columns) for _ in range(count)]
    for number in numbers if confirmed else ():
        log.confirm(number)
    return numbers


def again(log: Log, ready: int, **link: Any) -> Log:
    """Start the broker again; its queue has `ready` messages."""
    later = Log(log.folder, log.node, log.boot_id + "+", log.start + LATER).follow(log)
    later.link |= link
    if ready:
        later.recovered("work", ready)
    later.snapshot(schema.START)
    later.snapshot()
    later.write()
    return later


def killed(log: Log) -> list[Path]:
    log.snapshot()
    return log.write()


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


@scene()
def running_well(log: Log) -> None:
    in_two_files(log)
    published(log, 10)  # not written yet


@scene({FILE_MISSING: 30, MISSING: 30, verdict.UNEQUAL: 10, verdict.UNLOGGED_IN: 10})
def newest_file_deleted(log: Log) -> None:
    in_two_files(log).unlink()


@scene({MISSING: 30, verdict.UNEQUAL: 10, verdict.UNLOGGED_IN: 10})
def newest_file_deleted_and_unlisted(log: Log) -> None:
    path = in_two_files(log)
    path.unlink()
    unlist(log, path)


@scene({FILE_CHANGED: 30})
def file_changed(log: Log) -> None:
    path = in_two_files(log)
    pq.write_table(pq.read_table(path), path, compression="none")


@scene()
def file_added(log: Log) -> None:
    in_two_files(log)
    metrics = Log(log.folder, log.node, log.boot_id, log.start)
    metrics.metric(schema.CPU_S, 1.0)
    metrics.sequence = 7
    (added,) = metrics.write()
    unlist(log, added)


@scene()
def file_removed_by_its_age(log: Log) -> None:
    log.metric(schema.CPU_S, 1.0, schema.COUNTER)
    (path,) = [path for path in log.write() if "metrics" in path.parts]
    path.unlink()
    with manifest_of(log).open("a") as listing:
        listing.write(f'{{"removed":"{path.relative_to(log.folder)}","reason":"retention"}}\n')
    in_two_files(log)


# Boots


def follow_a_boot_without_files(log: Log, age: timedelta) -> None:
    log.link |= {"previous_boot": "b0", "previous_row": 100, "previous_at": NOW - age}
    log.tables[schema.QUEUE_STATS].clear()
    log.snapshot(schema.START)
    in_two_files(log)


@scene(reason=LACKS)
def boot_missing(log: Log) -> None:
    follow_a_boot_without_files(log, timedelta(days=13))


@scene()
def boot_removed_by_its_age(log: Log) -> None:
    follow_a_boot_without_files(log, timedelta(days=16))


@scene({MISSING: 15})
def boot_ends_too_early(log: Log) -> None:
    """The last files of a stop are gone, and the whole manifest."""
    published(log, 10)
    log.write()
    published(log, 5)
    for path in log.stop():
        path.unlink()
    manifest_of(log).unlink()
    again(log, 15)


@scene(reason=UNFINISHED)
def writer_killed_too(log: Log) -> None:
    published(log, 10)
    killed(log)
    published(log, 5)  # never written
    again(log, 15)


# Restarts


@scene(counts=[(10, 0, 0, 10, 0)])
def queue_never_seen(log: Log) -> None:
    published(log, 10)
    log.write()
    again(log, 0)


@scene({NOT_KEPT: 10}, [(10, 0, 0, 10, 10)])
def lost_from_a_queue_never_seen(log: Log) -> None:
    published(log, 10)
    log.write()
    again(log, 0, store=2)


@scene({NOT_KEPT: 1}, [(10, 0, 10, 0, 0), (9, 0, 8, 1, 1)])
def lost_at_the_third_boot(log: Log) -> None:
    """Messages that were on the disk already."""
    published(log, 10)
    log.stop()
    second = again(log, 10)
    number = second.ready["work"][0]
    second.deliver(number, "work")
    second.ack(number, "work")
    second.stop()
    again(second, 8)


@scene(counts=[(0, 10, 0, 0, 0)])
def unconfirmed_after_a_kill(log: Log) -> None:
    published(log, 10, confirmed=False)
    killed(log)
    again(log, 0)


@scene(counts=[(10, 10, 12, 0, 0)])
def unconfirmed_after_a_stop(log: Log) -> None:
    published(log, 10)
    published(log, 10, confirmed=False)
    log.stop()
    again(log, 12)


@scene(counts=[(10, 0, 10, 0, 0)])
def refused(log: Log) -> None:
    published(log, 10)
    for _ in range(5):
        log.confirm(log.publish(routed=0, reason="refused"), "nack")
    log.stop()
    again(log, 10)


@scene(counts=[])
def transient_messages(log: Log) -> None:
    published(log, 10, persistent=False)
    log.stop()
    again(log, 0)


@scene(counts=[])
def transient_or_exclusive_queue(log: Log) -> None:
    log.transient.add("work")
    published(log, 10)
    log.stop()
    again(log, 0)


@scene(counts=[])
def expired_in_an_old_log(log: Log) -> None:
    """The queue is gone by `x-expires`, with its messages, before the stop."""
    for number in published(log, 10):
        log.drop(number, "work", reason="deleted")
    del log.ready["work"], log.unacked["work"]
    log.stop()
    again(log, 0)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    folder = tmp_path_factory.mktemp("proof")
    for name, each in SCENES.items():
        log = Log(folder / "log", name, f"b{name}", NOW - 3 * LATER).begin()
        each.make(log)
    return ledger_of(folder / "log", folder / "stored")


@pytest.mark.parametrize("name", SCENES)
def test_a_loss_is_found_and_what_is_legal_or_unknown_is_none(ledger: Ledger, name: str) -> None:
    expected = SCENES[name]
    problems: Counter[str] = Counter()
    for each in ledger.imbalances:
        if each.node == name:
            problems[each.problem] += each.records or 0
    assert problems == expected.problems
    if expected.counts is not None:
        rows = [row for row in ledger.durability if row.node == name]
        assert [tuple(getattr(row, count) for count in COUNTS) for row in rows] == expected.counts
    boots = [boot for boot in ledger.boots if boot.node == name]
    assert any(boot.lacks_previous for boot in boots) == (expected.reason == LACKS)
    assert any(boot.unfinished for boot in boots) == (expected.reason == UNFINISHED)


def test_the_verdict_has_the_reasons_and_the_files_are_counted(ledger: Ledger) -> None:
    assert ledger.verdict.status == "imbalanced"
    assert {LACKS, UNFINISHED} <= {reason.partition(" (")[0] for reason in ledger.verdict.reasons}
    assert conservation_of(ledger)["files"] == {"missing": 1, "changed": 1, "unlisted": 1}


@pytest.mark.parametrize(("lost", "certain"), [(0, 2), (4, 1), (5, 0), (9, 0)])
def test_more_missing_records_than_were_lost_are_a_loss(lost: int, certain: int) -> None:
    """A link is not checked while any broker has lost records."""
    found = [Imbalance(MISSING, "a", "b1", records=5), Imbalance(verdict.NOT_ARRIVED, "z", records=1)]
    boots = [Boot("a", "b1", lost_records=lost)]
    assert len(verdict.certain(found, boots)) == certain
