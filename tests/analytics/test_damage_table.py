"""The verdict about damaged logs and legal histories: for each its status, and the sentence that it must have."""

import math
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from warren.plugins.message_log.analysis.engine import InProcess
from warren.plugins.message_log.analysis.ledger import Ledger, make_ledger
from warren.plugins.message_log.analysis.page.document import document
from warren.plugins.message_log.compaction import merge
from warren.plugins.message_log.export.node_state import BootEnd
from warren.plugins.message_log.file_format import schema
from warren.plugins.message_log.file_format.folder import Folder

from . import checking
from .commands import run_here
from .log import START, Log, save_state

BALANCED, IMBALANCED, INCOMPLETE = "balanced", "imbalanced", "incomplete"
STOP, KILL = schema.STOP, schema.PERIODIC  # the last snapshot before
A, B = "a@lab", "b@lab"
LINK = "federation: news -> b"
MESSAGES = 20
Damage = Callable[[Path], object]
HOUR = timedelta(hours=1)


def ledger_of(folder: Path) -> Ledger:
    return checking.ledger_of(folder, folder.parent / "stored")


def expect(folder: Path, status: str, *sentences: str) -> Ledger:
    """Check the status, and that the sentence of the verdict or a reason matches each pattern."""
    ledger = ledger_of(folder)
    text = "\n".join([ledger.verdict.sentence(), *ledger.verdict.reasons])
    assert ledger.verdict.status == status, text
    for sentence in sentences:
        assert re.search(sentence, text), text
    return ledger


def export(folder: Path) -> None:
    """Write the logs of two boots of `a` and one of `b`, which has a link from `a`, in three files of events each."""
    first, second, other = Log(folder, A, "a1"), Log(folder, A, "a2", START + HOUR), Log(folder, B, "b1")
    for log in (first, other):
        log.declare("q")
        log.metric(schema.CHANNELS, 1)
        log.snapshot(schema.START)
    cross(first, other)
    for log in (first, other):
        work(log)
        log.stop()
    second.follow(first)
    second.recovered("q", len(first.ready["q"]))
    second.snapshot(schema.START)
    work(second)
    second.stop()


def work(log: Log) -> None:
    """Write two files, and leave events for a third one."""
    for _ in range(3):
        for number in range(MESSAGES):
            log.round_trip("q", message_id=f"{log.boot_id}-{number}")
        log.confirm(log.publish("q"))
        log.snapshot()
        if log.sequence < 2:
            log.write()


def cross(upstream: Log, downstream: Log, lost: int = 0) -> None:
    """Take messages over a link, of which the last ones do not arrive."""
    for number in range(MESSAGES):
        identity = f"news-{number}"
        taken = upstream.publish(LINK, message_id=identity)
        upstream.deliver(taken, LINK)
        upstream.ack(taken, LINK, schema.FED_OUT, identity=identity, link=LINK)
        if number < MESSAGES - lost:
            downstream.now_us = upstream.now_us
            arrival = {"identity": identity, "link": LINK, "upstream": "a", "hops": 1}
            downstream.publish("q", event=schema.FED_IN, **arrival)


# Damage


def events(folder: Path, boot: str) -> list[Path]:
    return sorted(folder.glob(f"events/*/*/part-*-{boot}-*.parquet"), key=lambda path: path.name)


def remove(folder: Path, *patterns: str) -> None:
    for pattern in patterns:
        found = list(folder.glob(pattern))
        assert found, pattern
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def removal(*patterns: str) -> Damage:
    return lambda folder: remove(folder, *patterns)


def truncate(folder: Path) -> None:
    path = events(folder, "a1")[1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(folder: Path) -> None:
    """Change bytes of a page, so that it cannot be read."""
    path = events(folder, "a1")[1]
    content = bytearray(path.read_bytes())
    content[100:400] = bytes(300)
    path.write_bytes(content)


def copy_file(folder: Path) -> None:
    path = events(folder, "a1")[1]
    shutil.copy(path, path.with_name(path.name.replace("-000001", "-000099")))


def swap(folder: Path) -> None:
    one, other = events(folder, "a1")[1], events(folder, "b1")[1]
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def cut_manifest(folder: Path) -> None:
    (path,) = folder.glob("manifest/*-a1.jsonl")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def spoil_manifest(line: bytes) -> Damage:
    """Put a line before those of a manifest."""

    def damage(folder: Path) -> None:
        (path,) = folder.glob("manifest/*-a1.jsonl")
        path.write_bytes(line + b"\n" + path.read_bytes())

    return damage


def replace_others(folder: Path) -> None:
    """Add the manifest of a compaction of files of one boot by a file of another one."""
    replaced, by = ([path.relative_to(folder).as_posix() for path in events(folder, boot)] for boot in ("a1", "b1"))
    line = msgspec.json.encode({"replaces": replaced, "by": by[0]})
    (folder / "manifest" / "compacted-0.jsonl").write_bytes(line + b"\n")


def remove_other(folder: Path) -> None:
    """Remove a file of one node, which the manifest of another one says to be removed."""
    path = events(folder, "a1")[1]
    (manifest,) = folder.glob("manifest/*-b1.jsonl")
    line = msgspec.json.encode({"removed": path.relative_to(folder).as_posix(), "reason": schema.RETENTION})
    manifest.write_bytes(manifest.read_bytes() + line + b"\n")
    path.unlink()


def cut_newest(folder: Path) -> None:
    """Remove the last file of events and the last snapshots, and all manifests."""
    for table in ("events", "queue_stats"):
        remove(folder, f"{table}/*/*/part-*-a2-000002.parquet")
    remove(folder, "manifest")


def rewrite(folder: Path) -> None:
    """Rewrite acknowledgements to drops, and remove the manifests."""
    path = events(folder, "a1")[1]
    rows = pq.ParquetFile(path).read()
    event = rows["event"].cast(pa.string())
    place = rows.schema.get_field_index("event")
    changed = pc.if_else(pc.equal(event, schema.ACK), schema.DROP, event).cast(rows.schema.field(place).type)
    pq.write_table(rows.set_column(place, rows.schema.field(place), changed), path)
    remove(folder, "manifest")


def add(make: Callable[[Path], object], name: str = "part-a@lab-a9-000000.parquet") -> Damage:
    """Make an entry in the folder of an hour."""
    return lambda folder: make(events(folder, "a1")[0].with_name(name))


def put_file(name: str) -> Damage:
    """Put a file in place of a folder."""

    def damage(folder: Path) -> None:
        shutil.rmtree(folder / name)
        (folder / name).write_text("a file")

    return damage


NO_FILES: dict[str, Damage] = {
    "a folder": add(Path.mkdir),
    "a pipe": add(os.mkfifo),
    "a link to itself": add(lambda path: path.symlink_to(path)),
    "a link to nothing": add(lambda path: path.symlink_to("nothing")),
    "a device": add(lambda path: path.symlink_to("/dev/zero")),
    "a link to the folder of the day": add(lambda path: path.symlink_to(".."), "loop"),
    "a name that is not UTF-8": add(Path.touch, os.fsdecode(b"part-\xff-a9-000000.parquet")),
}
SPOILED = r"1 manifest or state file is damaged \(such as part-a@lab-a1"
FILE = r"events/\S+-a1-000001.parquet with \d+ records"
MISSING, CHANGED = (
    rf"^The log does not balance: 1 file of the export {what} \({FILE}\)\. " for what in ("missing", "changed")
)
UNREADABLE = r"1 skipped file is damaged or not Parquet \(such as events/\S+-a1-000001\.parquet\)"
NO_FILE = r"1 skipped file is damaged or not Parquet \(such as events/\S+/hour=05/(part-\S+-a9-000000.parquet|loop)\)"
NEWEST = r"the log of the newest boot is missing, with \d+ records \({}\)"
OTHER_END = rf"not certain: 20 messages of a link cannot be checked, .* not in the input \({LINK} of {{}}\)"
UNNOTICED = r"3 boots have no manifest, so missing files are not noticed \(such as part-a@lab-a1\)"
UNLOGGED = r"20 messages: the queue counted more acknowledgements than the log has \(q at a@lab a1\)"
DAMAGES: dict[str, tuple[Damage, str, tuple[str, ...]]] = {
    "none": (lambda folder: None, BALANCED, (r"^Nothing is missing: [\d,]+ records were checked",)),
    "a file deleted": (
        removal("events/*/*/part-*-a1-000001.parquet"),
        *(IMBALANCED, (MISSING, r"\d other imbalances? may be a conseq")),
    ),
    "the first file of a boot deleted, and all manifests": (
        removal("events/*/*/part-*-b1-000000.parquet", "manifest"),
        *(IMBALANCED, (r"balance: \d+ records missing from the log \(b@lab b1\)",)),
    ),
    "a file truncated": (truncate, IMBALANCED, (CHANGED, UNREADABLE)),
    "a page damaged": (flip, IMBALANCED, (CHANGED, UNREADABLE)),
    "files of two nodes swapped": (swap, IMBALANCED, (r"2 files of the export changed",)),
    "the boot before removed": (
        removal("*/*/*/part-*-a1-*", "manifest/*-a1.jsonl"),
        *(INCOMPLETE, (r"the log of the boot before is missing \(a@lab a2\)",)),
    ),
    "the newest boot removed": (
        removal("*/*/*/part-*-a2-*", "manifest/*-a2.jsonl"),
        *(INCOMPLETE, (f"not certain: {NEWEST.format('a@lab a2')}", "with 309 records")),
    ),
    "the folder of manifests removed": (removal("manifest"), INCOMPLETE, (UNNOTICED,)),
    "a manifest removed": (removal("manifest/*-b1.jsonl"), INCOMPLETE, (r"1 boot has no manifest.*part-b@lab-b1",)),
    "manifests and metrics removed": (removal("manifest", "metrics"), INCOMPLETE, (UNNOTICED,)),
    "the downstream removed": (
        removal("*/*/*/part-b@*", "manifest/part-b@*", f"state/{B}.json"),
        *(INCOMPLETE, (OTHER_END.format(A),)),
    ),
    "the upstream removed": (
        removal("*/*/*/part-a@*", "manifest/part-a@*", f"state/{A}.json"),
        *(INCOMPLETE, (OTHER_END.format(B),)),
    ),
    "a node removed, but not its state": (
        removal("*/*/*/part-b@*", "manifest/part-b@*"),
        *(INCOMPLETE, (NEWEST.format("b@lab b1"),)),
    ),
    "the end of the newest boot removed": (
        cut_newest,
        *(IMBALANCED, (r"^The log does not balance: 103 records missing from the log \(a@lab a2\)",)),
    ),
    "a file copied under another name": (
        copy_file,
        *(
            INCOMPLETE,
            (r"are in the log twice \(a@lab a1\)", r"1 file is in no manifest", r"repeated records explain"),
        ),
    ),
    "a manifest cut": (cut_manifest, INCOMPLETE, (r"\d files? (is|are) in no manifest \(such as ",)),
    **{
        f"a manifest spoiled by {line:.20}": (spoil_manifest(line.encode()), INCOMPLETE, (SPOILED,))
        for line in ("{]", '{"rows": -1}', '{"rows": 1e99}', f'{{"bytes": {1 << 63}}}', '{"x": ' + "[" * 10_000)
    },
    "a compaction that replaces files of another boot": (replace_others, BALANCED, ()),
    "a file removed by another node": (remove_other, IMBALANCED, (r"1 file of the export missing",)),
    "a state spoiled": (
        lambda folder: (folder / "state" / f"{A}.json").write_text("{"),
        *(INCOMPLETE, (r"1 manifest or state file is damaged \(such as a@lab.json",)),
    ),
    "the folder of states removed": (removal("state"), INCOMPLETE, (r"3 boots have no state of the node.*@lab-a1",)),
    "a state removed": (removal(f"state/{B}.json"), INCOMPLETE, (r"1 boot has no state of the node.*part-b@lab-b1",)),
    **{f"{name} in place of a file": (damage, INCOMPLETE, (NO_FILE,)) for name, damage in NO_FILES.items()},
    **{
        f"{path} that is no file": (
            lambda folder, path=path, make=make: make(folder / path),
            *(INCOMPLETE, (rf"1 manifest or state file is damaged \(such as {path}\)",)),
        )
        for path, make in (("manifest/part-x-y.jsonl", os.mkfifo), ("state/x.json", Path.mkdir))
    },
    **{
        f"a file in place of the folder {name}": (
            put_file(name),
            *(INCOMPLETE, (rf"1 manifest or state file is damaged \(such as {name}\)",)),
        )
        for name in (schema.MANIFEST, schema.STATE)
    },
    "a file in place of the events": (put_file("events"), IMBALANCED, (r"Parquet \(such as events\)",)),
    "acknowledgements rewritten": (rewrite, IMBALANCED, (UNLOGGED,)),
    "all snapshots removed": (
        removal("queue_stats"),
        *(IMBALANCED, (r"9 files of the export missing", r"there is no snapshot to compare with")),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_has_its_sentence(tmp_path: Path, name: str) -> None:
    damage, status, sentences = DAMAGES[name]
    folder = tmp_path / "export"
    export(folder)
    damage(folder)
    expect(folder, status, *sentences)


# Boots that did not end as they should


def test_records_that_a_writer_had_not_finished_are_counted_by_the_state_of_the_node(tmp_path: Path) -> None:
    log = Log(tmp_path / "export", A).begin()
    log.write()
    save_state(log.folder, A, BootEnd(log.boot_id, 90_140, 1))
    expect(
        log.folder,
        INCOMPLETE,
        r"90,140 records lost that a writer had not finished when it ended \(a@lab b1\)",
        "a log ends without a stop and is not continued",
    )


def test_lost_records_explain_the_imbalances_that_follow_from_them(tmp_path: Path) -> None:
    log = Log(tmp_path / "export", A).begin("q")
    log.round_trip("q")
    lost = range(log.row, log.row + 5)
    log.round_trip("q")
    log.lost = 5
    log.stop(*lost)
    expect(
        log.folder,
        INCOMPLETE,
        r"not certain: 5 records lost: the broker's buffer was full, .* \(a@lab b1\)\.",
        "Lost or repeated records explain 3 imbalances",
    )


def test_hours_of_a_running_broker_without_snapshots_are_a_reason(tmp_path: Path) -> None:
    log = Log(tmp_path / "export", A).begin()
    log.write()
    for _ in range(3):
        log.now_us += 3_600_000_000
        log.snapshot()
        if log.tables[schema.QUEUE_STATS][0]["snapshot"] != 2:
            log.write()
        log.tables[schema.QUEUE_STATS].clear()
    log.stop()
    expect(log.folder, INCOMPLETE, r"1 hour of a running broker has no snapshot, such as 2026-11-22 07 \(a@lab b1\)")


# The messages of a link with equal bodies and no message_id: those taken, repeated and lost, and the sentences.
EQUAL: dict[str, tuple[int, int, int, str, tuple[str, ...]]] = {
    "own bodies": (5, 2, 0, BALANCED, ()),
    "none lost": (5, 0, 0, BALANCED, ()),
    "some lost": (5, 0, 2, IMBALANCED, (r"balance: 2 messages: taken by the link and not arrived",)),
    "fewer repeated than lost": (
        *(5, 1, 3, IMBALANCED),
        (r"balance: 2 messages: taken by the link and not arrived", r"up to 1 message of a link may be lost"),
    ),
    "as many repeated as lost": (5, 1, 1, INCOMPLETE, (r"certain: up to 1 message of a link may be lost",)),
}


@pytest.mark.parametrize(("links", "status"), [({LINK}, BALANCED), ({LINK, "federation: other -> b"}, INCOMPLETE)])
def test_a_link_without_acknowledgements_is_not_checked(tmp_path: Path, links: set[str], status: str) -> None:
    upstream, downstream = Log(tmp_path / "export", A).begin(LINK), Log(tmp_path / "export", B).begin()
    for number in range(MESSAGES):
        upstream.deliver(upstream.publish(LINK), LINK, no_ack=True, link=LINK)
        for link in links:
            downstream.publish("q", event=schema.FED_IN, upstream="a", link=link, identity=f"{number}")
    for log in (upstream, downstream):
        log.stop()
    expect(tmp_path / "export", status, *[r"20 messages of a link cannot .* \(federation: other"] * (len(links) - 1))


@pytest.mark.parametrize("name", EQUAL)
def test_of_equal_messages_as_many_are_lost_as_did_not_arrive(tmp_path: Path, name: str) -> None:
    count, repeated, lost, status, sentences = EQUAL[name]
    upstream, downstream = Log(tmp_path / "export", A).begin(), Log(tmp_path / "export", B).begin()
    for number, message in enumerate([upstream.publish(LINK) for _ in range(count)]):
        about = {"identity": f"message {number}" if name == "own bodies" else "equal", "link": LINK}
        upstream.deliver(message, LINK)
        for _ in range((number < repeated) + (number < count - lost)):
            downstream.publish("q", event=schema.FED_IN, upstream="a", **about)
        if number < repeated:
            upstream.requeue(message, LINK)  # the link is cut before its acknowledgement
            upstream.deliver(message, LINK, redelivered=True)
        upstream.ack(message, LINK, schema.FED_OUT, **about)
    for log in (upstream, downstream):
        log.stop()
    ledger = expect(tmp_path / "export", status, *sentences)
    if status == IMBALANCED:
        values = checking.values_of(ledger)
        assert [(row["link"], row["message"]) for row in values["lost"]] == [(LINK, "equal")]
        assert values["rows"]["lost"] == lost - repeated


# Legal histories


def restarts(folder: Path, *starts: datetime, last_runs: bool = False) -> list[Log]:
    """Write boots of one node that follow each other, and keep all messages."""
    logs: list[Log] = []
    for number, start in enumerate(starts):
        log = Log(folder, A, f"b{number}", start)
        if logs:
            log.follow(logs[-1])
            log.recovered("q", len(logs[-1].ready["q"]))
        log.snapshot(schema.START)
        for _ in range(MESSAGES):
            log.confirm(log.publish("q"))
        log.snapshot(schema.PERIODIC if last_runs and number + 1 == len(starts) else schema.STOP)
        log.write()
        logs.append(log)
    return logs


def test_a_message_from_before_the_boot_may_be_dead_lettered(tmp_path: Path) -> None:
    log = Log(tmp_path / "export", A)
    (old,) = log.recovered("q", 1)
    log.snapshot(schema.START)
    log.dead_letter(old, "q", "dead")
    log.stop()
    expect(log.folder, BALANCED)


@pytest.mark.parametrize("last_runs", [False, True])
def test_a_clock_that_steps_back_between_boots_is_no_fault(tmp_path: Path, last_runs: bool) -> None:
    now = datetime.now(UTC)
    restarts(tmp_path / "export", now + HOUR, now - HOUR / 12, now - HOUR / 60, last_runs=last_runs)
    ledger = expect(tmp_path / "export", BALANCED)
    assert [boot.boot_id for boot in ledger.boots] == ["b0", "b1", "b2"]
    pairs = [(each.boot_id, each.next_boot_id, each.missing) for each in ledger.durability]
    assert pairs == [("b0", "b1", 0), ("b1", "b2", 0)]


def test_a_clock_that_is_ahead_calls_no_other_broker_dead(tmp_path: Path) -> None:
    for node, start in ((A, datetime.now(UTC) + 2 * HOUR), (B, datetime.now(UTC))):
        log = Log(tmp_path / "export", node, start=start).begin()
        log.round_trip("q")
        log.snapshot()
        log.write()
        save_state(log.folder, node, BootEnd(log.boot_id, log.row + 10, 1))
    expect(tmp_path / "export", BALANCED)


def test_a_broker_that_runs_while_the_analysis_takes_long_is_not_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path / "export", A, start=datetime.now(UTC)).begin()
    log.write()
    listed_ns, calls = int(log.start.timestamp() * 1e9), []
    monkeypatch.setattr(
        "warren.plugins.message_log.analysis.input.time.time_ns",
        lambda: calls.append(1) or listed_ns + (len(calls) - 1) * 3_600_000_000_000,
    )
    expect(log.folder, BALANCED)
    assert len(calls) == 1


def test_of_killed_brokers_no_later_snapshot_is_expected(tmp_path: Path) -> None:
    first, second = Log(tmp_path / "export", A, "b0").begin("q"), Log(tmp_path / "export", A, "b1", START + HOUR)
    first.publish("q")
    first.write()
    second.follow(first).recovered("q", 1)
    second.begin().stop()
    ledger = expect(first.folder, INCOMPLETE, r"no record is checked: the log ended before .* \(a@lab b0\)")
    assert not any("yet" in reason for reason in ledger.verdict.reasons)


@pytest.mark.parametrize(("waiting", "status"), [(90_140, INCOMPLETE), (0, BALANCED)])
def test_a_copy_of_a_log_in_which_no_record_is_checked_is_not_balanced(
    tmp_path: Path, waiting: int, status: str
) -> None:
    log = Log(tmp_path / "export", A, start=datetime.now(UTC)).begin()
    log.write()
    save_state(log.folder, A, BootEnd(log.boot_id, waiting, 1))
    sentences = r"no record is checked yet: .* \(a@lab b1\)", "90,140 records are not checked"
    expect(log.folder, status, *sentences if waiting else ())


def test_files_that_are_finished_after_the_listing_are_not_missing(tmp_path: Path) -> None:
    log = Log(tmp_path / "export", A, start=datetime.now(UTC)).begin()
    log.round_trip("q")
    log.snapshot()
    log.write()

    class Growing(Folder):
        """A folder in which a broker finishes a file before its events are listed, and stops after that."""

        def files(self, below: str) -> dict[str, int]:
            stops = below == schema.EVENTS and log.sequence == 1
            if stops:
                log.round_trip("q")
                log.write()
            found = super().files(below)
            if stops:
                log.round_trip("q")
                log.stop()
            return found

    ledger = make_ledger(InProcess(), Growing(str(log.folder)), Folder(str(tmp_path / "stored")))
    assert ledger.verdict.status == BALANCED, ledger.verdict.reasons


@pytest.mark.parametrize(("exported", "status"), [("a1", BALANCED), ("a2", INCOMPLETE)])
def test_a_boot_that_a_restored_backup_of_the_export_hides_is_missed(
    tmp_path: Path, exported: str, status: str
) -> None:
    """The export has the first boot alone, and the third one begins; its data folder has the name of the second."""
    first, third = Log(tmp_path / "export", A, "a1"), Log(tmp_path / "export", A, "a3", START + HOUR)
    first.snapshot(schema.START)
    work(first)
    first.stop()
    third.follow(first)
    third.link |= {"exported_boot": exported, "exported_at": START + HOUR / 2}
    third.recovered("q", len(first.ready["q"]))
    third.snapshot(schema.START)
    third.stop()
    expect(first.folder, status, *[r"the log of the boot before is missing \(a@lab a3\)"] * (status == INCOMPLETE))


def test_a_boot_whose_node_has_lost_its_state_is_compared_with_the_one_before_by_the_data_folder(
    tmp_path: Path,
) -> None:
    (first,) = restarts(tmp_path / "export", START)
    second = Log(first.folder, A, "b1", START + HOUR)
    second.link |= {"exported_boot": "b0", "exported_at": START, "recovered_batch": first.batch}
    for kind in (schema.START, schema.STOP):
        second.snapshot(kind)
    second.write()
    expect(first.folder, IMBALANCED, r"20 confirmed messages lost at a restart \(20 of q at a@lab b0\)")


def test_a_boot_that_lost_both_names_of_the_one_before_is_a_reason(tmp_path: Path) -> None:
    restarts(tmp_path / "export", START)
    Log(tmp_path / "export", A, "b1", START + HOUR).begin().stop()
    expect(tmp_path / "export", INCOMPLETE, r"certain: the boot before is not known: .* \(a@lab b1\)\.")


def test_a_lost_boot_whose_clock_was_behind_is_not_older_than_the_retention(tmp_path: Path) -> None:
    (first,) = restarts(tmp_path / "export", START)
    third = Log(first.folder, A, "b2", START + HOUR).follow(first)
    third.link |= {"previous_boot": "b1", "previous_row": 9, "previous_at": START - timedelta(days=30)}
    third.begin().stop()
    expect(first.folder, INCOMPLETE, r"certain: the log of the boot before is missing \(a@lab b2\)")


# Brokers that take turns at one store: their names, whether the first one stops, the batches that the second one finds
# of those of the first one, and the status.
TURNS = {
    "of another name": (B, STOP, 0, BALANCED),
    "of another name, after a crash of the server": (B, STOP, 5, INCOMPLETE),
    "of another name, after a crash of the server and a kill": (B, KILL, 5, INCOMPLETE),
    "of the same name, after a crash of the server": (A, STOP, 5, IMBALANCED),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_takeover_that_loses_the_end_of_the_store_is_never_balanced(tmp_path: Path, name: str) -> None:
    node, end, lost, status = TURNS[name]
    first, second = Log(tmp_path / "export", A, "t0"), Log(tmp_path / "export", node, "t1", START + HOUR)
    first.snapshot(schema.START)
    for _ in range(MESSAGES):
        first.confirm(first.publish("q"))
    if end == STOP:
        first.snapshot(STOP)
    first.write()
    save_state(first.folder, A, BootEnd("t0", first.row, 1, first.batch, ended=end == STOP))
    if node == A:
        second.follow(first)
    found = second.batch = first.batch - lost
    second.link |= {"store": first.link["store"], "recovered_batch": found, "settling_batch": found}
    second.recovered("q", MESSAGES - lost)
    second.snapshot(schema.START)
    second.round_trip("q")
    second.stop()
    forked = node == B and status == INCOMPLETE
    expect(first.folder, status, *[r"the store lacks batches that a broker of another name .* \(b@lab t1\)"] * forked)


def test_brokers_of_two_names_that_take_turns_at_one_store_are_no_fault(tmp_path: Path) -> None:
    """The clock of one of them is an hour ahead."""
    before = None
    for turn, node in enumerate((A, B, A, B)):
        log = Log(tmp_path / "export", node, f"t{turn}", START + (turn + (node == B) * 4) * HOUR / 4)
        if before is not None:
            log.batch = before.batch
            log.link |= {"recovered_batch": before.batch, "settling_batch": before.batch}
        log.link |= {"store": 1}
        log.snapshot(schema.START)
        log.round_trip("q")
        log.stop()
        before = log
    ledger = ledger_of(tmp_path / "export")
    assert not any(boot.forked for boot in ledger.boots)


def test_brokers_that_are_killed_soon_after_each_other_are_linked_in_their_order(tmp_path: Path) -> None:
    """The writer of the second one waits for the first one's, and locks the state after that of the third one."""
    first, second, third = (Log(tmp_path / "export", A, f"a{at}", START + at * HOUR / 3600) for at in (1, 2, 3))
    first.snapshot(schema.START)
    for log, before in ((first, None), (second, first), (third, second)):
        if before is not None:
            log.follow(before).recovered("q", len(before.ready["q"]))
            log.link |= {"exported_boot": before.boot_id, "exported_at": before.start}
            by_state = first if log is third else third
            log.link |= {"previous_boot": by_state.boot_id, "previous_row": by_state.row, "previous_batch": 1000}
            log.snapshot(schema.START)
        for _ in range(MESSAGES):
            log.confirm(log.publish("q"))
        log.snapshot(schema.STOP if log is third else schema.PERIODIC)
        log.write()
    ledger = expect(first.folder, INCOMPLETE, r"certain: a broker was killed, .* \(a@lab a1, a@lab a2\)\.")
    assert len(ledger.verdict.reasons) == 1
    pairs = [(each.boot_id, each.next_boot_id, each.missing, each.at_risk) for each in ledger.durability]
    assert pairs == [("a1", "a2", 0, 0), ("a2", "a3", 0, 0)]


# The data folder is restored


# The boot before by the state of the node and the last boot that has a log; then the lost messages, and those at risk.
RESTORED = {
    "the state is there": ("b3", "b3", (100, 100)),
    "the state is lost": (None, "b3", (0, 100)),
    "the state is restored, too": ("b1", "b3", (0, 100)),
    "the last boot has no record": ("b3", "b2", (0, 100)),
}


@pytest.mark.parametrize("name", RESTORED)
def test_a_backup_that_is_older_than_the_boot_before_loses_what_came_after_it(tmp_path: Path, name: str) -> None:
    """The first boot has 5 messages, and the backup is made after it; the second one confirms 100 messages."""
    state, last, counts = RESTORED[name]
    logs: dict[str, Log] = {}
    for number, (boot_id, come) in enumerate({"b1": 5, "b2": 100, "b3": 0, "b4": 0}.items()):
        log = logs[boot_id] = Log(tmp_path / "export", A, boot_id, START + number * HOUR)
        named = state if boot_id == "b4" else f"b{number}"
        if named in logs:
            log.follow(logs[named])
        found = logs.get("b1" if boot_id == "b4" else f"b{number}")
        if found is not None:
            log.batch = found.batch
            log.link |= {"exported_boot": found.boot_id, "exported_at": found.start, "recovered_batch": found.batch}
            log.recovered("q", len(found.ready["q"]))
        if boot_id > last and boot_id != "b4":
            continue
        log.snapshot(schema.START)
        for _ in range(come):
            log.confirm(log.publish("q"))
        log.stop()
    text = "100 confirmed messages lost" if counts[0] else "up to 100 confirmed messages lost with the end of the store"
    ledger = expect(
        tmp_path / "export", IMBALANCED, rf"^The log does not balance: {text} .*\(100 of q at a@lab {last}\)"
    )
    *others, row = ledger.durability
    assert (row.boot_id, row.next_boot_id, row.lost, row.at_risk) == (last, "b4", *counts)
    assert [each.boot_id for each in others] == ["b1", "b2"][: int(last[1]) - 1]
    assert not any(each.at_risk for each in others)


def copied(folder: Path, node: str, data: str, consumed: int = 0, **found: Any) -> Ledger:
    """Confirm 60 messages at `a1`, whose data were copied after 10; `b1` begins with the copy, and then `a2` begins.

    `b1` confirms 30 messages, and settles the oldest ones. `a2` has the data of `b1` or `a1`.
    """
    first, other, last = (Log(folder, node, name, START + at * HOUR) for at, (node, name) in enumerate(BROKERS[node]))
    first.snapshot(schema.START)
    for number in range(60):
        if number == 10:
            first.now_us += 10_000_000
            first.snapshot()
            batch = first.batch
        first.confirm(first.publish("q"))
    first.now_us += 10_000_000
    first.stop()
    other.batch = batch
    other.link |= {"store": first.link["store"], "recovered_batch": batch, "settling_batch": 0}
    if node == A:
        other.link |= {"previous_boot": "a1", "previous_row": first.row, "previous_batch": first.batch}
        other.link |= {"previous_at": other.start, "exported_boot": "a1", "exported_at": first.start}
    if consumed > 10:  # it has all messages
        other.batch = other.link["recovered_batch"] = other.link["settling_batch"] = first.batch
    other.recovered("q", 60 if consumed > 10 else 10)
    other.snapshot(schema.START)
    for number in list(other.ready["q"])[:consumed]:
        other.deliver(number, "q")
        other.ack(number, "q")
    for _ in range(30):
        other.confirm(other.publish("q"))
    other.now_us += 10_000_000
    other.stop()
    of = {"a1": first, "b1": other}[data]
    last.follow(other if node == A else first)
    last.batch = of.batch
    last.link |= {"store": first.link["store"], "recovered_batch": of.batch, "settling_batch": 0} | found
    if node == A or data == "a1":
        last.link |= {"exported_boot": data, "exported_at": of.start}
    last.recovered("q", 0 if "store" in found else len(of.ready["q"]))
    last.snapshot(schema.START)
    last.stop()
    return ledger_of(folder)


BROKERS = {A: ((A, "a1"), (A, "b1"), (A, "a2")), B: ((A, "a1"), (B, "b1"), (A, "a2"))}
# The node of `b1`, whose data `a2` has, the messages that `b1` settles, and the store of `a2`, if it is a new one; then
# the boots whose messages were lost or are at risk at the next one.
COPIES: dict[str, tuple[str, str, int, dict[str, Any], dict[str, tuple[int, int]]]] = {
    "the copy goes on": (B, "b1", 0, {}, {"a1": (0, 50)}),
    "the copy settles messages, and goes on": (B, "b1", 10, {}, {"a1": (0, 50)}),
    "the original goes on": (B, "a1", 0, {}, {}),
    "the copy goes on under the same name": (A, "b1", 0, {}, {"a1": (50, 50)}),
    "the original goes on under the same name": (A, "a1", 0, {}, {"b1": (0, 30)}),
    "a broker that takes over settles all, and the store is replaced": (B, "a1", 60, {"store": 2}, {"a1": (0, 60)}),
    "a broker that takes over settles some, and the store is replaced": (B, "a1", 50, {"store": 2}, {"a1": (10, 60)}),
}


@pytest.mark.parametrize("name", COPIES)
def test_of_two_copies_of_a_store_each_has_its_own_messages(tmp_path: Path, name: str) -> None:
    node, data, consumed, found, losses = COPIES[name]
    ledger = copied(tmp_path / "export", node, data, consumed, **found)
    assert {row.boot_id: (row.lost, row.at_risk) for row in ledger.durability if row.at_risk} == losses
    assert ledger.verdict.status == (IMBALANCED if losses else INCOMPLETE)


# Two brokers of one name


NAME_TWICE = r"two brokers have this name, or its clock was set back: .* \(a@lab b0, a@lab b1\)"


def two_brokers(folder: Path, follows: bool) -> None:
    """Write the logs of two brokers that have one name, and run at the same time."""
    first, second = Log(folder, A, "b0"), Log(folder, A, "b1", START + timedelta(milliseconds=50))
    first.snapshot(schema.START)
    for _ in range(MESSAGES):
        first.confirm(first.publish("q"))
    if follows:
        second.follow(first)
    second.snapshot(schema.START)
    first.round_trip("q")
    for log in (first, second):
        log.now_us += 1_000_000
        log.stop()


@pytest.mark.parametrize("follows", [False, True])
def test_two_brokers_of_one_name_are_a_reason_of_its_own(tmp_path: Path, follows: bool) -> None:
    two_brokers(tmp_path / "export", follows)
    assert expect(tmp_path / "export", INCOMPLETE, NAME_TWICE).durability == []


def test_two_boots_that_follow_one_are_of_two_brokers(tmp_path: Path) -> None:
    first, *others = (Log(tmp_path / "export", A, f"b{number}", START + number * HOUR) for number in range(3))
    for log in (first, *others):
        if log is not first:
            log.follow(first)
        log.snapshot(schema.START)
        log.round_trip("q")
        log.stop()
    expect(tmp_path / "export", INCOMPLETE, r"two brokers have this name, or .* \(a@lab b1, a@lab b2\)")


def test_the_report_names_the_cause_before_what_follows_from_it(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    export(folder)
    remove(folder, "events/*/*/part-*-a1-000001.parquet")
    values = checking.values_of(ledger_of(folder))
    check = values["conservation"]
    assert check["causes"] == check["reasons"] and len(check["causes"]) == 1
    assert check["consequences"] == check["imbalance_count"] - 1 > 0 == check["explained"]


# The store


def restarted(folder: Path, end: str, ready: int, taken: int = 0, **found: Any) -> None:
    """Confirm messages, stop or kill the broker, and start it again with `ready` messages, in a store that is `found`.

    Consumers acknowledge 5 messages first, and have `taken` others at the end.
    """
    first, second = Log(folder, A, "a1"), Log(folder, A, "a2", START + HOUR)
    first.declare("idle")
    first.snapshot(schema.START)
    for number in range(MESSAGES + 5 + taken):
        message = first.publish("q", message_id=f"m{number}")
        first.confirm(message)
        if number < 5 + taken:
            first.deliver(message, "q")
        if number < 5:
            first.ack(message, "q")
    first.now_us += 10_000_000
    first.snapshot(end)
    first.write()
    second.follow(first)
    if "recovered" in found:
        second.recovered_before["q"] = found.pop("recovered")
    second.link |= found
    second.recovered("q", ready)
    second.snapshot(schema.START)
    second.stop()


LACKING = r"the store lacks the last batches of the boot before \(a@lab a2\)"
REPLACED = r"the store is not the one of the boot before \(a@lab a2\)"
LOST = r"^The log does not balance: {} confirmed messages lost at a restart \({} of q at a@lab a1\)"
LOST_3, LOST_12, LOST_20 = (LOST.format(count, count) for count in (3, 12, 20))
AT_RISK = (
    r"^The log does not balance: up to 5 confirmed messages lost with the end of the store \(5 of q at a@lab a1\)\. "
)
EMPTY = {"recovered_batch": 0, "settling_batch": 0}
# How the boot ended, the recovered messages, those at consumers, and what the next start found; then the status, the
# messages that were confirmed before, are there after, are missing, are lost and are at risk, and sentences.
Store = tuple[str, int, int, dict[str, Any], str, tuple[int, ...], tuple[str, ...]]
STORES: dict[str, Store] = {
    "sound": (STOP, 20, 0, {}, BALANCED, (20, 20, 0, 0, 0), ()),
    "messages gone after a stop": (STOP, 17, 0, {}, IMBALANCED, (20, 17, 3, 3, 3), (LOST_3,)),
    "rolled back over a stop": (STOP, 20, 0, EMPTY, IMBALANCED, (20, 20, 0, 0, 5), (AT_RISK, LACKING)),
    "replaced after a stop": (STOP, 0, 0, EMPTY | {"store": 2}, IMBALANCED, (20, 0, 20, 20, 20), (LOST_20, REPLACED)),
    "deleted after a kill": (KILL, 0, 0, EMPTY | {"store": 2}, IMBALANCED, (20, 0, 20, 20, 20), (LOST_20, REPLACED)),
    "cut after a kill": (KILL, 8, 0, {"recovered_batch": 10}, IMBALANCED, (20, 8, 12, 12, 17), (LOST_12, LACKING)),
    "cut after a kill, with messages at consumers": (
        *(KILL, 8, 3, {"recovered_batch": 10}, IMBALANCED, (23, 8, 15, 12, 20)),
        (LOST_12, r"up to 8 confirmed messages"),
    ),
    "damaged before a start after a kill": (
        *(KILL, 8, 0, {"damage": 1}, IMBALANCED, (20, 8, 12, 12, 12)),
        (LOST_12, r"the store was found damaged \(a@lab a2\)"),
    ),
    "settled in the last moment before a kill": (
        *(KILL, 8, 0, {}, INCOMPLETE, (20, 8, 12, 0, 0)),
        (r"certain: a broker was killed",),
    ),
    "expired before the next start": (STOP, 4, 0, {"recovered": 20}, BALANCED, (20, 20, 0, 0, 0), ()),
    "another store after a run without the export": (
        *(STOP, 20, 0, EMPTY | {"store": 2}, IMBALANCED, (20, 20, 20, 20, 20)),
        (LOST_20, REPLACED),
    ),
    "another store after a kill, with messages at consumers": (
        *(KILL, 20, 3, EMPTY | {"store": 2}, IMBALANCED, (23, 20, 23, 20, 23)),
        (LOST_20, r"up to 3 confirmed messages"),
    ),
    "a run without the export": (
        *(STOP, 8, 0, {"settling_batch": 1000, "recovered_batch": 1001}, INCOMPLETE, ()),
        (r"certain: the store has settled messages since the boot before, .* without the export, .* \(a@lab a2\)\.",),
    ),
    "a run without the export that settled nothing": (
        *(STOP, 20, 0, {"recovered_batch": 1001}, BALANCED),
        *((20, 20, 0, 0, 0), ()),
    ),
    "other virtual hosts are exported": (STOP, 0, 0, {"comparable": False}, BALANCED, (), ()),
    "in memory": (STOP, 0, 0, dict.fromkeys(("store", *EMPTY)), BALANCED, (), ()),
}


@pytest.mark.parametrize("name", STORES)
def test_the_store_is_compared_by_its_own_log(tmp_path: Path, name: str) -> None:
    end, ready, taken, found, status, counts, sentences = STORES[name]
    restarted(tmp_path / "export", end, ready, taken, **found)
    ledger = expect(tmp_path / "export", status, *sentences)
    names = ("confirmed_before", "there_after", "missing", "lost", "at_risk")
    assert [tuple(getattr(row, name) for name in names) for row in ledger.durability] == [counts] * bool(counts)
    if status == BALANCED:
        assert ledger.verdict.reasons == []


def test_lost_messages_are_listed_by_queue_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restarted(tmp_path / "export", STOP, MESSAGES - 3)
    values = checking.values_of(ledger_of(tmp_path / "export"))
    assert [(row["queue"], row["message"], row["message_id"]) for row in values["lost"]] == [
        ("q", f"a1/{number + 1}", f"m{number}") for number in range(5, MESSAGES + 5)
    ]
    assert {(row["lost"], row["at_risk"], row["confirmed_before"]) for row in values["lost"]} == {(3, 3, MESSAGES)}
    monkeypatch.setattr("warren.plugins.message_log.analysis.ledger.LISTED", 7)
    values = checking.values_of(ledger_of(tmp_path / "export"))
    assert (len(values["lost"]), values["rows"]["lost"]) == (7, MESSAGES)
    assert f"warren trace a1/6 --input {tmp_path / 'export'}" in document(values)


# Files that no broker writes


ABSENT = "the column is absent"
HOSTILE = [
    *[(schema.EVENTS, "sample_rate", value) for value in (math.nan, math.inf, 0.0, -1.0, 3.0)],
    *[(schema.EVENTS, "ts_us", value) for value in (-1, 1 << 58)],
    *[(schema.EVENTS, "row", value) for value in (-(1 << 63), (1 << 63) - 1)],
    (schema.QUEUE_STATS, "sample_rate", math.nan),
    (schema.QUEUE_STATS, "ts_us", 1 << 58),
    (schema.QUEUE_STATS, "ready", None),
    (schema.QUEUE_STATS, "queue", "of the closing row, too"),
    *[(schema.METRICS, "value", value) for value in (math.nan, -math.inf, 1e308, -1e308)],
    (schema.METRICS, "ts_us", 1 << 58),
    (schema.METRICS, "buckets", pa.list_(pa.struct([("a", pa.int64())]))),
    (schema.METRICS, "labels", pa.int64()),
    (schema.EVENTS, "queue", pa.list_(pa.int64())),
    *[(schema.EVENTS, name, ABSENT) for name in ("msg_seq", "node")],
    *[(schema.EVENTS, name, type) for name, type in (("msg_seq", pa.float64()), ("row", pa.string()))],
    *[(schema.EVENTS, name, value) for name, value in (("event", pa.int64()), ("vhost", None), ("queue", b"\xff"))],
    *[(schema.EVENTS, key, b"9" * 5000) for key in (schema.LOST_KEY, schema.FILE_AGE_KEY)],
]


@pytest.mark.parametrize(("table", "column", "value"), HOSTILE)
def test_a_file_with_values_that_no_broker_writes_is_left_out_by_name(
    tmp_path: Path, table: str, column: str, value: Any
) -> None:
    folder = tmp_path / "export"
    log = Log(folder, A).begin()
    log.metric(schema.DISK_FREE_BYTES, 2.0**62)  # as in a store on a server
    log.round_trip("q", message_id="m")
    log.stop()
    (path,) = folder.glob(f"{table}/*/*/*.parquet")
    rows = pq.ParquetFile(path).read()
    place = rows.schema.get_field_index(column)
    is_type = isinstance(value, pa.DataType)
    type = value if is_type else pa.string() if isinstance(value, bytes) else rows.schema.field(place).type
    if value is ABSENT:
        rows = rows.drop_columns(column)
    elif place >= 0:
        values = [None if is_type else value] * rows.num_rows
        made = pa.array(values).view(type) if isinstance(value, bytes) else pa.array(values, type)
        rows = rows.set_column(place, pa.field(column, type), made)
    about = {key: text for key, text in rows.schema.metadata.items() if key != b"ARROW:schema"}
    about |= {column.encode(): value} if place < 0 else {}
    pq.write_table(rows.replace_schema_metadata(about), path)
    ledger = ledger_of(folder)
    values = checking.values_of(ledger)
    assert values["input"]["skipped_files"] == [path.relative_to(folder).as_posix()]
    assert ledger.verdict.status != BALANCED
    traced = run_here("trace", "m", "--input", str(folder))
    assert traced.returncode in (0, 66, 70) and len(traced.stderr.splitlines()) <= 1
    assert merge.compact(folder, datetime.now(UTC)).before == 0


def test_a_compaction_does_not_follow_links_out_of_the_export(tmp_path: Path) -> None:
    """One hour of an export is a link to that of another one, and files are links to other files."""
    folder, other = tmp_path / "export", tmp_path / "other"
    for place, node, boot_id in ((folder, A, "a1"), (other, B, "b1")):
        log = Log(place, node, boot_id)
        for _ in range(3):
            log.round_trip("q")
            log.write()
    (hour,), (theirs,) = folder.glob("events/*/*"), other.glob("events/*/*")
    (hour.parent / "hour=04").symlink_to(theirs)
    first, *others = events(folder, "a1")
    for path in others:
        path.rename(other / path.name)
        path.symlink_to(other / path.name)
    before = sorted(other.rglob("*.parquet"))
    assert merge.compact(folder, datetime.now(UTC)).before == 0
    assert sorted(other.rglob("*.parquet")) == before and first.exists()
