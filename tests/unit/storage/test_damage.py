"""Damaged parts of a log, of the worst bytes: what is read of them is bounded, and messages are counted once."""

import tracemalloc
from pathlib import Path

from tests.unit.storage.test_doctor import SALT, message
from warren.broker.storage import log_records, recovery
from warren.broker.storage.damage import Damage
from warren.broker.storage.folder_disk import FolderDisk

NAMES = {7: "queue 'q7' in vhost '/'"}


def recovered(folder: Path, *segments: tuple[int, bytes]) -> list[str]:
    """Write segments of a first id and records; return the report of their recovery."""
    for number, (first_id, records) in enumerate(segments, 1):
        (folder / f"{number:08}.log").write_bytes(log_records.Head(first_id, SALT).encode() + records)
    report: list[str] = []
    recovery.recover(FolderDisk(folder, False), report, {7}, 7, lambda: NAMES)
    return report


def test_a_body_that_looks_like_messages_of_many_queues_takes_memory_in_proportion() -> None:
    size = 200_000
    head = message(4, [])[: log_records.RECORD_BYTES]
    looks = head + log_records.MESSAGE_HEAD.pack(log_records.MESSAGE, 4, 0, 0, 1, 0, size // 8)
    data = looks * (size // len(looks))
    damage = Damage()
    tracemalloc.start()
    try:
        damage.add(0, 1, data, 0, len(data), 1 << 40)
        assert tracemalloc.get_traced_memory()[1] < 20 * size
    finally:
        tracemalloc.stop()
    assert 4 in damage.parts[0].claims


def test_copies_and_a_cut_record_after_a_damaged_one_tell_no_next_id(tmp_path: Path) -> None:
    numbers = log_records.QUEUE.pack(7) + b"\0\3key"
    frames = message(1, [7])[log_records.RECORD_BYTES + log_records.MESSAGE_HEAD.size + len(numbers) :]
    copied = log_records.encode_message(SALT, 1, 0, 4, 1, 1 | log_records.COPIED, 1, numbers, frames)
    damaged = message(2, [7])[:-1] + b"\xff"
    report = recovered(tmp_path, (2, damaged + copied + b"cut"), (4, message(4, [7])))
    skipped = [line.partition(" is skipped")[2] for line in report if "is skipped" in line]
    assert len(skipped) == 2
    assert skipped[0].startswith(", with 1 message of queue 'q7' in vhost '/', by what is left of it"), report
    assert skipped[1].startswith(", with 1 message of a queue that is not known"), report


def test_a_damage_before_an_impossible_id_counts_no_more_messages_than_its_bytes_can_have(tmp_path: Path) -> None:
    damaged = message(1, [7])[:-1] + b"\xff"
    report = recovered(tmp_path, (1, damaged), (1 << 50, message(1 << 50, [7])))
    (line,) = [line for line in report if "is skipped" in line]
    assert 0 < int(line.partition(", with ")[2].split()[0]) <= 1 + len(damaged) // log_records.MESSAGE_BYTES
