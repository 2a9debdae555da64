"""Damage to the log: torn, zero and garbage ends, flipped bits, missing files; then two restarts.

The log is written by the journal itself: segments of a few records, each record in a batch of its own.
"""

from binascii import crc32
from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import journal_on
from tests.support.journal import commit, new_message, store
from tests.support.traced_memory import traced_memory
from warren.broker.amqp.framing import content_frames
from warren.broker.core.messages.message import Message
from warren.broker.core.metadata.records import Change, StoredQueue
from warren.broker.storage import log_records
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.folder_disk import FileDisk
from warren.broker.storage.journal import Journal
from warren.broker.storage.segment import DIGITS, OFFSET_BITS, name_of

SEGMENT_BYTES = 1 << 20
FIRST, SECOND = "00000001.log", "00000002.log"


def open_journal(disk: SimulatedDisk, segment_bytes: int = SEGMENT_BYTES) -> tuple[Journal, dict[int, list[bytes]]]:
    """Start a journal, and return it with the recovered bodies."""
    journal = journal_on(disk, segment_bytes)
    found = journal.recover()
    read = {queue: journal.read(pages) for queue, pages in found.items() if pages}
    return journal, {queue: [m.body for m in messages if m is not None] for queue, messages in read.items()}


def begun(segment_bytes: int = SEGMENT_BYTES) -> tuple[SimulatedDisk, Journal]:
    """Start a journal on an empty disk."""
    disk = SimulatedDisk(Random(1))
    return disk, open_journal(disk, segment_bytes)[0]


def with_log(data: bytes) -> SimulatedDisk:
    """Return a disk with this segment and without a checkpoint."""
    disk = SimulatedDisk(Random(1))
    disk.put(FIRST, data)
    return disk


def flipped(data: bytes, at: int, bits: int = 1) -> bytes:
    return data[:at] + bytes((data[at] ^ bits,)) + data[at + 1 :]


def write_log(*bodies: bytes, segment_bytes: int = SEGMENT_BYTES) -> SimulatedDisk:
    """Return the disk of a killed broker with these messages in queue 1."""
    disk, journal = begun(segment_bytes)
    store(journal, [1], *bodies)
    return disk.crash()


def salt_of(data: bytes) -> int:
    head = log_records.parse_head(data)
    assert head is not None
    return head.salt


def records_of(data: bytes) -> list[tuple[int, int]]:
    """Return where each record of a segment begins and ends, without those that begin a batch."""
    salt = salt_of(data)
    at, found = log_records.SEGMENT_HEAD_BYTES, []
    while at < len(data):
        start, at = at, log_records.record_end(salt, data, at)
        assert at
        if data[start + log_records.RECORD_BYTES] != log_records.BATCH:
            found.append((start, at))
    return found


def survives_two_restarts(disk: SimulatedDisk, expected: list[bytes]) -> None:
    """Check that the messages are recovered, and later ones too, after this start and the next two."""
    journal, found = open_journal(disk)
    assert found.get(1, []) == expected
    store(journal, [1], b"after the first")
    disk = disk.power_loss(Random(2))
    journal, found = open_journal(disk)
    assert found[1] == [*expected, b"after the first"]
    store(journal, [1], b"after the second")
    journal, found = open_journal(disk.power_loss(Random(3)))
    assert found[1] == [*expected, b"after the first", b"after the second"]


def is_refused_and_left_alone(disk: SimulatedDisk, reason: str) -> None:
    before = {each: disk.content(each) for each in disk.names()}
    with pytest.raises(StorageFault, match=reason):
        open_journal(disk)
    assert {each: disk.content(each) for each in disk.names()} == before


BODIES = [b"one", b"two", b"three", b"four"]


def test_cut_off_at_every_byte_of_the_last_two_records() -> None:
    data = write_log(*BODIES).content(FIRST)
    records = records_of(data)
    for size in range(records[-2][0], len(data) + 1):
        survives_two_restarts(with_log(data[:size]), BODIES[: sum(end <= size for _, end in records)])


def test_cut_off_in_the_head() -> None:
    data = write_log(*BODIES).content(FIRST)
    for size in range(log_records.SEGMENT_HEAD_BYTES + 1):
        survives_two_restarts(with_log(data[:size]), [])


@pytest.mark.parametrize("size", [1, 3, 4, 11, 12, 13, 21, 100, 511, 512, 513, 70_000])
@pytest.mark.parametrize("kind", ["zeros", "garbage", "magic", "half a record"])
def test_an_end_that_means_nothing(size: int, kind: str) -> None:
    data = write_log(*BODIES).content(FIRST)
    head = log_records.LENGTH.pack(log_records.MAGIC)
    last, _ = records_of(data)[-1]
    tail = {
        "zeros": bytes(size),
        "garbage": Random(size).randbytes(size),
        "magic": (head * size)[:size],
        "half a record": data[last : len(data) - 1] + bytes(size),
    }[kind]
    disk = with_log(data + tail)
    survives_two_restarts(disk, BODIES)
    disk.put(FIRST, data + tail)
    report = open_journal(disk)[0].report
    assert len(report) == 1 and FIRST in report[0] and str(len(data)) in report[0]
    assert disk.content(FIRST) == data


def test_the_same_behind_other_segments() -> None:
    """Only the newest segment may have a torn end."""
    disk = write_log(*BODIES, segment_bytes=100)
    names = [name for name in disk.names() if name.endswith(".log")]
    assert len(names) == len(BODIES)
    disk.put(names[-1], disk.content(names[-1])[:-1] + bytes(30))
    survives_two_restarts(disk, BODIES[:-1])


@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_in_any_byte_of_a_record_in_the_middle(bit: int) -> None:
    """The record is reported with segment and offset and is lost; the ones after it are served."""
    sound = write_log(*BODIES)
    data = sound.content(FIRST)
    start, end = records_of(data)[1]
    for at in range(start, end):
        disk = with_log(flipped(data, at, 1 << bit))
        disk.put("checkpoint", sound.content("checkpoint"))
        journal, found = open_journal(disk.crash())
        assert found == {1: [b"one", b"three", b"four"]}, f"byte {at}"
        assert len(journal.report) == 1, journal.report
        assert FIRST in journal.report[0] and f"offset {start}" in journal.report[0]
        survives_two_restarts(disk, [b"one", b"three", b"four"])


@pytest.mark.parametrize("number", range(len(BODIES) - 1))
def test_a_flipped_bit_in_an_old_segment(number: int) -> None:
    """Damage at the end of an older segment is no torn end: nothing is cut off."""
    disk = write_log(*BODIES, segment_bytes=100)
    name = f"{number + 1:08d}.log"
    data = disk.content(name)
    [(start, _)] = records_of(data)
    for at in range(log_records.SEGMENT_HEAD_BYTES, len(data)):
        damaged = flipped(data, at)
        disk.put(name, damaged)
        disk = disk.crash()
        journal, found = open_journal(disk)
        assert found[1] == [body for body in BODIES if at < start or body != BODIES[number]]
        offset = start if at >= start else log_records.SEGMENT_HEAD_BYTES
        assert len(journal.report) == 1 and f"{name}: a damaged record at offset {offset} " in journal.report[0]
        assert disk.content(name) == damaged
    survives_two_restarts(disk, [body for body in BODIES if body != BODIES[number]])


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_a_damaged_segment_head(number: int) -> None:
    """Its records are served, settled ones stay settled, and ids continue."""
    disk = write_log(*BODIES, segment_bytes=100)
    name = f"{number + 1:08d}.log"
    for at in range(log_records.SEGMENT_HEAD_BYTES):
        fresh = disk.crash()
        fresh.put(name, flipped(fresh.content(name), at))
        journal, found = open_journal(fresh.crash())
        assert found == {1: BODIES}
        assert any(name in line for line in journal.report)
        survives_two_restarts(fresh, BODIES)


@pytest.mark.parametrize("at_end", [True, False])
def test_the_last_message_of_an_old_segment_is_damaged(at_end: bool) -> None:
    """Its id must not be used again: a later message would be taken for it."""
    disk = write_log(b"one", b"two", segment_bytes=100)
    data = disk.content(SECOND)
    if at_end:
        disk.put(SECOND, data[: log_records.SEGMENT_HEAD_BYTES])
    first = disk.content(FIRST)
    disk.put(FIRST, flipped(first, len(first) - 1))
    journal, found = open_journal(disk)
    rest = [] if at_end else [b"two"]
    assert found.get(1, []) == rest
    (new,) = store(journal, [1], b"new")
    disk = disk.power_loss(Random(1))
    journal, found = open_journal(disk)
    assert found == {1: [*rest, b"new"]}
    journal.settle(1, new.id)
    commit(journal)
    assert open_journal(disk.power_loss(Random(1)))[1].get(1, []) == rest


def test_orphan_acks_are_ignored() -> None:
    """The acks survived a power cut and the messages did not; new messages get none of their ids."""
    disk, journal = begun()
    store(journal, [1], b"one")
    data = disk.content(FIRST)
    disk.put(FIRST, data + log_records.encode_settled(salt_of(data), 50, 1, [40, 41, 49]))
    goes_on_after_one(disk.crash(), 60)


def goes_on_after_one(disk: SimulatedDisk, count: int) -> None:
    """Check that the message `one` alone is there, and that so many new messages are, as none has an id of an ack."""
    journal, found = open_journal(disk)
    assert found == {1: [b"one"]}
    bodies = [b"%d" % number for number in range(count)]
    store(journal, [1], *bodies)
    assert open_journal(disk.power_loss(Random(1)))[1] == {1: [b"one", *bodies]}


def test_an_ack_outlives_its_message_from_the_same_batch() -> None:
    disk, journal = begun()
    store(journal, [1], b"one")
    start = len(disk.content(FIRST))
    lost = [new_message(b"lost %d" % number) for number in range(5)]
    journal.append([1], lost)
    journal.settle(1, lost[-1].id)
    commit(journal)
    data = disk.content(FIRST)
    ack, _ = records_of(data)[-1]
    disk.put(FIRST, data[:start] + bytes(ack - start) + data[ack:])
    goes_on_after_one(disk, 10)


def test_a_damaged_ack_brings_its_message_back_and_no_other() -> None:
    disk, journal = begun()
    messages = store(journal, [1], *BODIES)
    starts = []
    for each in messages[:3]:
        starts.append(len(disk.content(FIRST)))
        journal.settle(1, each.id)
        commit(journal)
    disk.put(FIRST, flipped(disk.content(FIRST), starts[1] + log_records.BATCH_BYTES + 14))
    assert open_journal(disk.crash())[1] == {1: [b"two", b"four"]}


@pytest.mark.parametrize("size", [0, 1, 30])
def test_a_damaged_checkpoint_is_reported_and_not_used(size: int) -> None:
    disk, journal = begun()
    messages = store(journal, [1], *BODIES)
    journal.settle(1, messages[0].id)
    commit(journal)
    journal.close()
    disk.put("checkpoint", disk.content("checkpoint")[:size])
    journal, found = open_journal(disk)
    assert found == {1: BODIES[1:]}
    assert len(journal.report) == 1 and "checkpoint" in journal.report[0]


def test_a_flipped_bit_in_the_checkpoint() -> None:
    disk, journal = begun()
    store(journal, [1, 2], *BODIES)
    journal.close()
    for at in range(len(disk.content("checkpoint"))):
        fresh = disk.crash()
        fresh.put("checkpoint", flipped(fresh.content("checkpoint"), at, 0x80))
        journal, found = open_journal(fresh)
        assert found == {1: BODIES, 2: BODIES} and journal.report, f"byte {at}"


def test_one_damaged_while_the_broker_runs_is_left_out() -> None:
    """Wherever the bit flips, even in the length, reading neither fails nor returns other bytes."""
    disk = write_log(*BODIES)
    data = disk.content(FIRST)
    start, end = records_of(data)[1]
    for at in range(start, end):
        for bit in (0, 7):
            fresh = disk.crash()
            journal = journal_on(fresh, SEGMENT_BYTES)
            ids = list(journal.recover()[1])
            fresh.put(FIRST, flipped(data, at, 1 << bit))
            read = journal.read_all(ids)
            assert [m and m.body for m in read] == [b"one", None, b"three", b"four"], f"byte {at}, bit {bit}"
            assert len(journal.report) == 1 and f"offset {start}" in journal.report[0]


def test_a_record_that_a_publisher_wrote_into_a_body_is_none() -> None:
    """Without the salt, recovery would find this record when it skips the damaged one around it."""
    disk, journal = begun()
    store(journal, [1], b"one")
    frames = content_frames(1, b"\x00\x00", b"forged")
    planted = [log_records.encode_message(salt, 2, 0, 6, 1, 1, 1, b"\1\0\0\0\0\0", frames) for salt in range(100)]
    store(journal, [1], b"".join(planted), b"three")
    data = disk.content(FIRST)
    disk.put(FIRST, flipped(data, records_of(data)[1][0] + 4))
    assert open_journal(disk)[1] == {1: [b"one", b"three"]}


def test_a_damaged_head_of_the_only_segment() -> None:
    """The checkpoint, which exists from the first start on, has the salt."""
    disk = write_log(*BODIES)
    data = disk.content(FIRST)
    for at in range(log_records.SEGMENT_HEAD_BYTES):
        fresh = disk.crash()
        fresh.put(FIRST, flipped(data, at))
        survives_two_restarts(fresh, BODIES)


def test_a_head_that_nothing_can_stand_in_for_is_refused_and_left_alone() -> None:
    disk = write_log(*BODIES)
    data = bytes(1) + disk.content(FIRST)[1:]
    disk.put(FIRST, data)
    disk.put("checkpoint", b"nothing")
    is_refused_and_left_alone(disk, FIRST)


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_a_log_of_another_version_is_refused_and_left_alone(name: str) -> None:
    disk = write_log(*BODIES)
    head = log_records.SEGMENT_HEAD.pack(log_records.SEGMENT_MAGIC, 2, 0, 1, 1)
    data = head + log_records.CRC.pack(log_records.crc32(head)) + b"records"
    disk.put(name, data)
    is_refused_and_left_alone(disk, f"{name}: of version 2 of the log, this broker reads version 4")


def test_a_checkpoint_of_version_1_is_refused() -> None:
    disk = SimulatedDisk(Random(1))
    data = b"WARRCP\x01" + bytes(17)
    disk.put("checkpoint", data + log_records.CRC.pack(log_records.crc32(data)))
    is_refused_and_left_alone(disk, "checkpoint: of version 1")


def test_no_segment_gets_the_number_of_one_before() -> None:
    """The checkpoint, which may be older, would say of its messages that they are dead, or of its batches durable."""
    disk, journal = begun(300)
    gone = new_message(b"x" * 300)
    journal.append([1], [gone])
    journal.settle(1, gone.id)
    commit(journal)  # fills the first segment
    journal.change(Change(True, StoredQueue("/", "q", 1, False, b"")))
    commit(journal)  # saves a checkpoint with the second segment, which has no file yet, and removes the first one
    assert disk.names() == ["checkpoint"]
    disk = disk.crash()
    journal, _ = open_journal(disk, 300)
    settled = new_message(b"y" * 300)
    journal.append([1], [settled, new_message(b"one")])
    commit(journal)  # fills the first segment that has a file
    assert disk.names() == [SECOND, "checkpoint"]
    journal.settle(1, settled.id)
    store(journal, [1], b"two")
    assert open_journal(disk.crash(), 300)[1] == {1: [b"one", b"two"]}


def test_numbers_of_segments_go_on_where_the_last_one_has_no_file_so_that_a_missing_one_is_noticed() -> None:
    disk, journal = begun(300)
    for _ in range(5):
        gone = new_message(b"x" * 300)
        journal.append([1], [gone])
        journal.settle(1, gone.id)
        commit(journal)  # fills a segment
    for _ in range(2):  # without data: all segments are removed
        journal.change(Change(True, StoredQueue("/", "q", 1, False, b"")))
        commit(journal)
    journal.close()
    assert disk.names() == ["checkpoint"]
    journal, _ = open_journal(disk, 300)
    store(journal, [1], *[b"%d" % number * 200 for number in range(5)])
    disk = disk.crash()
    *_, missing, _, _ = sorted(disk.names())
    disk.remove(missing)
    assert open_journal(disk, 300)[0].report == [f"{missing}: it is missing"]


def test_a_segment_that_compaction_has_removed_does_not_return_after_a_power_cut() -> None:
    disk, journal = begun(2000)
    for number in range(60):
        (settled,) = store(journal, [1], b"%d" % number)
        journal.settle(1, settled.id)
        known = {segment.name for segment in journal.segments.values()}
        for seed in range(5):
            assert {name for name in disk.power_loss(Random(seed)).names() if name.endswith(".log")} <= known
    assert FIRST not in known


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"", log_records.SETTLED),
        (b"\xff" * 14 + b"\1" + b"\xff" * 4, log_records.MESSAGE),
        (b"\1\0\0\0" + b"\xff" * 8, log_records.SETTLED),
    ],
)
def test_a_sound_checksum_of_impossible_values_is_a_fault_and_no_error_of_ours(payload: bytes, kind: int) -> None:
    disk = write_log(*BODIES)
    data = disk.content(FIRST)
    record = log_records._encode_record(salt_of(data), log_records.KIND_ID.pack(kind, 9) + payload)
    disk.put(FIRST, data + record)
    is_refused_and_left_alone(disk, "with a valid checksum")


def test_a_checkpoint_with_a_sound_checksum_and_impossible_counts_is_a_fault() -> None:
    disk, journal = begun()
    store(journal, [1], *BODIES)
    journal.close()
    data = disk.content("checkpoint")[:-8] + b"\xff" * 4
    disk.put("checkpoint", data + crc32(data).to_bytes(4, "little"))
    is_refused_and_left_alone(disk, "with a valid checksum")


def copied(data: bytes, number: int, over: int) -> bytes:
    """Return a segment in which a record, counted from 0, is written over the beginning of another one."""
    records = records_of(data)
    record = data[slice(*records[number])]
    at, _ = records[over]
    return data[:at] + record + data[at + len(record) :]


@pytest.mark.parametrize("over", range(4))
@pytest.mark.parametrize("number", range(4))
def test_a_record_copied_over_another_one_is_recovered_once_and_the_damage_is_reported(number: int, over: int) -> None:
    """Messages of one length, so that every checksum is right; what was copied is not lost at the second start."""
    bodies = [b"a", b"b", b"c", b"d"]
    disk = write_log(*bodies)
    data = disk.content(FIRST)
    disk.put(FIRST, copied(data, number, over))
    left = [body for at, body in enumerate(bodies) if at != over or number == over]
    reports = []
    for _ in range(3):
        journal, found = open_journal(disk)
        assert found == {1: left}
        reports.append(journal.report)
        journal.close()
        disk = disk.crash()
    assert reports[0] == reports[1] == reports[2]
    if number != over:
        assert len(reports[0]) == 1 and "out of order" in reports[0][0] and FIRST in reports[0][0]
    survives_two_restarts(disk, left)


@pytest.mark.parametrize("to", [FIRST, SECOND])
def test_a_record_copied_into_another_segment_is_not_taken_for_one_of_its_own(to: str) -> None:
    disk = write_log(b"a", b"b", segment_bytes=100)
    other = FIRST if to == SECOND else SECOND
    record = disk.content(other)[log_records.SEGMENT_HEAD_BYTES :]
    disk.put(to, disk.content(to) + record)
    for _ in range(2):
        journal, found = open_journal(disk)
        assert found == {1: [b"a", b"b"]}
        assert len(journal.report) == 1 and to in journal.report[0]
        journal.close()


def test_a_record_that_overwrites_an_acknowledgement_is_reported() -> None:
    disk, journal = begun()
    one, two = store(journal, [1], b"one", b"two")
    for each in (one, two):
        journal.settle(1, each.id)
        commit(journal)
    store(journal, [1], b"three")
    data = disk.content(FIRST)
    start, end = records_of(data)[2]
    deleted = log_records.encode_queue_deleted(salt_of(data), 1, 7)
    disk.put(FIRST, data[:start] + deleted + data[start + len(deleted) : end] + data[end:])
    journal, found = open_journal(disk.crash())
    assert found == {1: [b"one", b"three"]}
    assert any("out of order" in line for line in journal.report)


def test_segments_in_another_order_are_refused_and_left_alone() -> None:
    """One file was restored under the name of another."""
    disk = write_log(*BODIES, segment_bytes=100)
    disk.put("00000003.log", disk.content(FIRST))
    is_refused_and_left_alone(disk, f"00000003.log: its messages are older than those of {SECOND}")


@pytest.mark.parametrize("queues", [[1], [1, 2], []])
def test_an_id_of_another_segment_takes_no_memory(queues: list[int]) -> None:
    """A bit for each id before it would need 128 MB, the words for several queues 8 GB."""
    disk = write_log(*BODIES)
    data = disk.content(FIRST)
    addressed = b"".join(map(log_records.QUEUE.pack, queues)) + b"\0\0"
    frames = content_frames(1, b"\x00\x00", b"forged")
    id_ = 1 << 30
    record = log_records.encode_message(salt_of(data), id_, 0, 6, 1, 1, len(queues), addressed, frames)
    disk.put(FIRST, data + record + log_records.encode_settled(salt_of(data), id_, 1, [id_ - 1]))
    with traced_memory() as memory:
        journal, found = open_journal(disk)
    assert found == {1: BODIES}
    assert "2 records are out of order" in journal.report[0]
    assert memory.peak_bytes < 32 << 20


def test_a_message_with_impossible_lengths_and_a_sound_checksum_is_a_damaged_one() -> None:
    data = log_records.Head(1, 7).encode()
    record = log_records.encode_message(7, 1, 0, 1, 1, 1, 1, log_records.QUEUE.pack(1), b"\xff")
    assert log_records.parse_message(7, data + record, len(data)) is None
    record = log_records.encode_message(7, 1, 0, 1, 1, log_records.HAS_STATE, 1, b"\0", b"")
    assert log_records.parse_message(7, data + record, len(data)) is None


def test_an_empty_file_at_the_end_of_the_log_is_no_torn_end() -> None:
    """The broker was killed after it had created the segment."""
    disk = write_log(*BODIES)
    disk.put(SECOND, b"")
    journal, found = open_journal(disk)
    assert found == {1: BODIES} and not journal.report


def copied_log(queues: list[int]) -> tuple[SimulatedDisk, list[Message], int, bytes]:
    """Return the disk of a killed broker, messages of deleted segments that were copied, the segment with those, and an
    older checkpoint.
    """
    disk, journal = begun(2_000)
    kept: list[Message] = []
    old = b""
    for turn in range(6):
        messages = [new_message(b"x" * 60) for _ in range(15)]
        for number, each in enumerate(messages):
            each.frames = content_frames(1, b"\0\0", b"%d" % (len(kept) * 100 + number) + b"x" * 60)
        journal.append(queues, messages)
        commit(journal)
        if turn == 1:
            old = journal.snapshot().encode()
            journal.give_back()
        for each in messages[1:]:
            for queue in queues:
                journal.settle(queue, each.id)
        kept.append(messages[0])
    for _ in range(20):
        (other,) = store(journal, [9], b"y" * 60)
        journal.settle(9, other.id)
        commit(journal)
    numbers = {journal.index.place(each.id) >> OFFSET_BITS for each in kept}
    assert 1 not in journal.segments and min(numbers) > 1
    return disk.crash(), kept, max(numbers), old


@pytest.mark.parametrize("queues", [[1], [1, 2]])
@pytest.mark.parametrize("checkpoint", ["sound", "missing", "damaged", "old"])
def test_copies_of_deleted_segments_are_there_at_each_start(queues: list[int], checkpoint: str) -> None:
    disk, kept, _, old = copied_log(queues)
    if checkpoint == "damaged":
        disk.put("checkpoint", b"nothing")
    elif checkpoint == "old":
        disk.put("checkpoint", old)
    elif checkpoint == "missing":
        disk.remove("checkpoint")
    for _ in range(3):
        journal = journal_on(disk, 2_000)
        found = journal.recover()
        for queue in queues:
            ids = [each.id for each in kept]
            assert list(found[queue]) == ids or checkpoint != "sound" and set(ids) <= set(found[queue])
            assert None not in journal.read_all(list(found[queue]), queue)
        disk = disk.crash()


@pytest.mark.parametrize("damaged", [80, 512])
def test_a_damaged_head_of_a_segment_that_begins_with_copies(damaged: int) -> None:
    disk, kept, number, _ = copied_log([1])
    name = f"{number:08d}.log"
    data = disk.content(name)
    disk.put(name, bytes(byte ^ 0xFF for byte in data[:damaged]) + data[damaged:])
    journal = journal_on(disk, 2_000)
    ids = list(journal.recover().get(1, ()))
    assert set(ids) <= {each.id for each in kept} and any(name in line for line in journal.report)


def test_what_is_served_of_a_damaged_segment_is_not_taken_for_torn_at_the_next_start() -> None:
    """The segment was the last but one, and an empty one behind it is removed."""
    disk = write_log(*BODIES)
    data = disk.content(FIRST)
    disk.put(FIRST, flipped(data, records_of(data)[-1][0] + 30))
    disk.put(SECOND, b"")
    for _ in range(2):
        journal, found = open_journal(disk)
        assert found == {1: BODIES[:-1]} and any("damaged record" in line for line in journal.report)
        disk = disk.crash()


def test_a_copy_of_a_message_that_another_queue_has_settled_in_the_same_batch_is_live_without_the_checkpoint() -> None:
    disk, journal = begun(2_000)
    messages = [new_message(b"x" * 100) for _ in range(12)]
    journal.append([1, 2], messages)
    commit(journal)
    for each in messages[1:]:
        journal.settle(1, each.id)
        journal.settle(2, each.id)
    journal.settle(2, messages[0].id)  # this is in the batch of the copy, and behind it
    for _ in range(30):
        (other,) = store(journal, [9], b"y" * 100)
        journal.settle(9, other.id)
        commit(journal)
    assert 1 not in journal.segments
    disk = disk.crash()
    disk.remove("checkpoint")
    journal, found = open_journal(disk, 2_000)
    assert found[1] == [messages[0].body]


@pytest.mark.parametrize("part", ["file", "end"])
@pytest.mark.parametrize("number", [2, 3])
def test_a_missing_segment_or_end_of_one_after_the_last_checkpoint_is_damage(number: int, part: str) -> None:
    disk = write_log(*BODIES, segment_bytes=100)
    name = f"{number:08d}.log"
    if part == "file":
        disk.remove(name)
    else:
        disk.put(name, disk.content(name)[: log_records.SEGMENT_HEAD_BYTES])
    journal, found = open_journal(disk)
    assert found == {1: [body for body in BODIES if body != BODIES[number - 1]]}
    [line] = journal.report
    assert "missing" in line and (name in line or part == "end" and f"{number - 1:08d}.log" in line)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_segment_that_is_cut_between_records_of_its_last_batch_is_damage(kept: int) -> None:
    """A later batch, in the next segment, says that this one was durable."""
    disk, journal = begun(200)
    journal.append([1], [new_message(body) for body in BODIES])
    commit(journal)
    store(journal, [1], b"later", b"last")
    disk = disk.crash()
    data = disk.content(FIRST)
    end = records_of(data)[kept - 1][1] if kept else log_records.SEGMENT_HEAD_BYTES
    disk.put(FIRST, data[:end])
    journal, found = open_journal(disk)
    assert found == {1: [*BODIES[:kept], b"later", b"last"]}
    [line] = journal.report
    assert "missing" in line and FIRST in line


def test_missing_segments_since_the_first_checkpoint_are_damage() -> None:
    disk = write_log(*BODIES, segment_bytes=100)
    for name in (FIRST, SECOND):
        disk.remove(name)
    journal, found = open_journal(disk)
    assert found == {1: BODIES[2:]}
    assert [line for line in journal.report if "missing" in line] == [f"{FIRST} to {SECOND}: they are missing"]


@pytest.mark.pure("it changes the length of segments of a journal that is open")
def test_a_lost_segment_that_has_nothing_but_copies_is_noticed() -> None:
    """Its first id is that of the next one, and the segments before it were deleted when they were compacted."""
    disk, journal = begun(420)
    settled = store(journal, [1], b"x" * 300, b"kept", b"x" * 400)[::2]
    for each in settled:
        journal.settle(1, each.id)
    journal._segment_bytes = 150
    commit(journal)
    store(journal, [1], b"next")
    disk = disk.crash()
    first, *_ = sorted(disk.names())
    assert open_journal(disk.crash())[1] == {1: [b"kept", b"next"]}
    disk.put(first, disk.content(first)[: log_records.SEGMENT_HEAD_BYTES])
    journal, found = open_journal(disk)
    assert found == {1: [b"next"]} and journal.report == [f"{first}: all its batches are missing"]


def test_very_many_missing_segments_are_one_line() -> None:
    disk = write_log(*BODIES, segment_bytes=100)
    *_, last = sorted(set(disk.names()) - {"checkpoint"})
    disk.put(name_of(10**DIGITS - 1), disk.content(last))
    disk.put(name_of(10**DIGITS), disk.content(last))  # is none
    disk.remove(last)
    [line] = [line for line in open_journal(disk)[0].report if "missing" in line]
    assert line == f"{last} to {name_of(10**DIGITS - 2)}: they are missing"


@pytest.mark.pure("it replaces a method of the log's files")
def test_a_segment_that_becomes_shorter_while_it_is_read_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, segments = write_log(*BODIES), FileDisk.segments
    longer = lambda files: {number: 2 * length for number, length in segments(files).items()}  # noqa: E731
    monkeypatch.setattr(FileDisk, "segments", longer)
    assert open_journal(disk)[1] == {1: BODIES}


def test_a_log_whose_end_is_lost_goes_on_in_another_segment() -> None:
    """Ids of a segment have no gaps, and the checkpoint knows those that were lost."""
    disk, journal = begun()
    store(journal, [1], *BODIES)
    journal.close()
    data = disk.content(FIRST)
    disk.put(FIRST, data[: records_of(data)[2][0] - log_records.BATCH_BYTES])
    journal, found = open_journal(disk)
    assert found == {1: BODIES[:2]} and any("are missing" in line for line in journal.report)
    store(journal, [1], b"new")
    disk = disk.crash()
    assert disk.names() == [FIRST, SECOND, "checkpoint"]
    journal, found = open_journal(disk)
    assert found == {1: [*BODIES[:2], b"new"]} and not any("out of order" in line for line in journal.report)


def test_a_copy_is_there_although_the_end_of_the_segment_with_the_original_is_damaged() -> None:
    """The id is above those of the records that are left, and below those of the next segment."""
    disk, journal = begun(2_000)
    dead, last = new_message(b"x" * 2_000), new_message(b"last")
    for each in (dead, last):
        journal.append([1], [each])
    commit(journal)
    original = disk.content(FIRST)
    journal.settle(1, dead.id)
    for _ in range(3):
        store(journal, [9], b"y" * 100)
    assert FIRST not in disk.names() and journal.index.place(last.id) >> OFFSET_BITS == 2
    disk = disk.crash()
    start, end = records_of(original)[-1]
    disk.put(FIRST, original[: start + 20] + bytes(byte ^ 0xFF for byte in original[start + 20 : end]) + original[end:])
    disk.remove("checkpoint")
    journal, found = open_journal(disk, 2_000)
    assert found[1] == [b"last"] and journal.index.place(last.id) >> OFFSET_BITS == 2


def test_a_copy_of_a_message_of_its_own_segment_is_out_of_order() -> None:
    disk, kept, number, _ = copied_log([1])
    name = f"{number:08d}.log"
    data = disk.content(name)
    frames = content_frames(1, b"\0\0", b"x")
    record = log_records.encode_message(
        salt_of(data), 1 << 40, 0, 1, 1, log_records.COPIED, 1, b"\1\0\0\0" + b"\0\0", frames
    )
    disk.put(name, data + record)
    journal = journal_on(disk, 2_000)
    assert list(journal.recover()[1]) == [each.id for each in kept]
    assert any("out of order" in line for line in journal.report)


@pytest.mark.parametrize("name", ["\u00b20000001.log", "\u0663.log", "2.log", "0000000002.log"])
def test_a_file_with_another_name_than_those_of_segments_is_none(name: str) -> None:
    disk = write_log(b"one")
    disk.put(name, b"odd")
    journal, queues = open_journal(disk)
    assert not journal.report and [len(ids) for ids in queues.values()] == [1]


def test_a_start_knows_its_log_and_the_last_batches_that_stored_and_settled() -> None:
    disk, journal = begun(2_000)
    assert journal.recovery is not None and journal.recovery[1:] == (0, 0, 0) and journal.position() == (0, 0)
    identity = journal.recovery.store
    messages = store(journal, [1], *[bytes(200)] * 20)
    assert journal.position() == (20, 20)
    journal.settle(1, messages[0].id)
    assert journal.position() == (20, 21), "it is not durable yet"
    commit(journal)
    journal.append([1], [new_message(b"after")])
    commit(journal)
    assert journal.position() == (22, 22)
    again, _ = open_journal(disk.crash(), 2_000)
    assert again.recovery == (identity, 22, 21, 0) and again.position() == (22, 22)
    store(again, [1], b"more")
    assert again.position() == (23, 23), "the numbers go on"


def test_a_start_counts_damage_and_knows_a_shorter_log() -> None:
    disk = write_log(*BODIES)
    data = disk.content(FIRST)
    whole, _ = open_journal(disk)
    start, end = records_of(data)[1]
    disk.put(FIRST, flipped(data, (start + end) // 2))
    damaged, _ = open_journal(disk)
    assert whole.recovery is not None and damaged.recovery is not None
    assert (whole.recovery.damage, damaged.recovery.damage) == (0, 1)
    assert damaged.recovery[:3] == whole.recovery[:3]
    disk.put(FIRST, data[: records_of(data)[1][1]])
    shorter, _ = open_journal(disk)
    assert shorter.recovery is not None and shorter.recovery.batch == 2
