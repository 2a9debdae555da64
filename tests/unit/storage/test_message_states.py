"""State of messages after a restart: priorities, deadlines, delivery counts, BCC keys."""

from __future__ import annotations

from array import array
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import journal_on
from tests.support.journal import commit_any, new_message
from tests.support.queues import new_queue
from warren.broker.amqp.properties import Properties
from warren.broker.core.messages.journal_port import RecoveredQueue
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.messages.message_state import BY_QUEUE, NO_TTL, WITHOUT_CC, MessageState
from warren.broker.plugin import framed
from warren.broker.storage.journal import Journal

if TYPE_CHECKING:
    from tests.support.session import SlowJournal

Attempts = dict[bytes, int]


def opened(disk: SimulatedDisk, segment_bytes: int = 1 << 20) -> tuple[Journal, dict[int, RecoveredQueue]]:
    journal = journal_on(disk, segment_bytes)
    return journal, journal.recover()


def levels(found: dict[int, RecoveredQueue]) -> dict[int, bytes]:
    return {queue: recovered.levels for queue, recovered in found.items() if recovered.levels}


def append(journal: Journal, queues: list[int], body: bytes, state: MessageState | None = None) -> Message:
    message = new_message(body)
    message.state = state
    journal.append(queues, [message])
    commit_any(journal)
    return message


def attempts(journal: Journal, pages: list[int], queue: int) -> Attempts:
    return {m.body: m.state.attempts if m.state is not None else 0 for m in journal.read(pages, queue)}


def attempts_in(journal: Journal) -> dict[tuple[int, int], int]:
    """Return the delivery counts in the journal, by queue and id."""
    return {key: value for block in journal.index for key, value in block.attempts.items()}


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(1))


@pytest.fixture
def journal(disk: SimulatedDisk) -> Journal:
    return opened(disk)[0]


def test_a_shared_state_is_that_of_each_queue_after_a_restart(disk: SimulatedDisk, journal: Journal) -> None:
    message = append(journal, [1, 2, 3], b"x", MessageState(deadline_ms=1_700_000_000_000, level=4))
    pages = [message.id]
    journal.settle(1, pages[0])
    journal.record_delivery_count(2, pages[0], 5)
    commit_any(journal)
    journal, found = opened(disk.power_loss(Random(1)))
    assert levels(found) == {2: bytes((4,)), 3: bytes((4,))}
    assert {queue: recovered.deadlines_ms for queue, recovered in found.items()} == {
        queue: array("Q", [1_700_000_000_000]) for queue in (2, 3)
    }
    assert attempts(journal, pages, 2) == {b"x": 5} and attempts(journal, pages, 3) == {b"x": 0}


@pytest.mark.parametrize("dead_lettered", [0, BY_QUEUE, WITHOUT_CC])
def test_blind_keys_outlive_a_restart_and_their_segment(disk: SimulatedDisk, dead_lettered: int) -> None:
    journal, _ = opened(disk, 2000)
    blind = ("one", "", "\udcff" * 255)
    append(
        journal,
        [1],
        b"kept",
        MessageState(level=4, dead_lettered=dead_lettered, bcc_keys=(*blind, "longer than any" * 18)),
    )
    append(journal, [1], b"behind it")
    for number in range(30):
        filler = append(journal, [3], b"%d" % number)
        journal.settle(3, filler.id)
    for _ in range(20):
        commit_any(journal)
    assert 1 not in journal.segments
    journal, found = opened(disk.crash(), 2000)
    kept, behind = journal.read(found[1], 1)
    assert (kept.bcc_keys, kept.dead_lettered, kept.body, kept.address.routing_key) == (
        blind,
        dead_lettered,
        b"kept",
        "q",
    )
    assert (behind.bcc_keys, behind.body) == ((), b"behind it")
    assert levels(found) == {1: b"\x04\x00"}


def test_levels_are_in_the_order_of_the_queue(disk: SimulatedDisk, journal: Journal) -> None:
    for level in (0, 5, 255, 1):
        append(journal, [1], b"x", MessageState(level=level))
    append(journal, [1], b"x")
    append(journal, [2], b"x", MessageState(attempts=1))
    append(journal, [3], b"x")
    journal, found = opened(disk.crash())
    assert levels(found) == {1: bytes((0, 5, 255, 1, 0))}
    assert [len(found[queue]) for queue in (1, 2, 3)] == [5, 1, 1]
    assert all(recovered.deadlines_ms is None for recovered in found.values())


def test_queues_with_a_deadline_are_told_as_long_as_its_message_is_there(disk: SimulatedDisk, journal: Journal) -> None:
    append(journal, [1], b"x", MessageState(deadline_ms=5))
    append(journal, [1], b"x")
    settled = append(journal, [2], b"x", MessageState(deadline_ms=5))
    append(journal, [2], b"x", MessageState(level=1))
    journal.settle(2, settled.id)
    commit_any(journal)
    found = opened(disk.crash())[1]
    assert {queue: recovered.deadlines_ms for queue, recovered in found.items()} == {1: array("Q", (5, 0)), 2: None}


@pytest.mark.parametrize(("number", "count"), [(1, 3), (2, 0)])
def test_a_restored_queue_reads_its_own_count(disk: SimulatedDisk, journal: Journal, number: int, count: int) -> None:
    message = append(journal, [1, 2], b"x")
    journal.record_delivery_count(1, message.id, 3)
    commit_any(journal)
    journal, found = opened(disk.crash())
    queue = new_queue(number=number, journal=cast("SlowJournal", journal))
    queue.restore(found[number])
    got = queue.get(True)
    assert got is not None and (got[1].state.attempts if got[1].state else 0) == count


def test_a_settled_message_leaves_no_count_behind(disk: SimulatedDisk, journal: Journal) -> None:
    message = append(journal, [1], b"x")
    append(journal, [1], b"y")
    journal.record_delivery_count(1, message.id, 1)
    commit_any(journal)
    journal.settle(1, message.id)
    commit_any(journal)
    assert not attempts_in(journal)
    assert not attempts_in(opened(disk.crash())[0])


@pytest.mark.parametrize("closed", [True, False])
def test_counts_outlive_the_segments_they_were_written_in(disk: SimulatedDisk, closed: bool) -> None:
    """The segment of the counts has no live messages and is deleted; the messages are copied and get other ids."""
    journal, _ = opened(disk, 2000)
    kept = [append(journal, [1, 2], b"kept %d" % number, MessageState(level=4)) for number in range(2)]
    for number in range(30):
        filler = append(journal, [3], b"%d" % number)
        journal.settle(3, filler.id)
        if number == 20:
            for count in (1, 2):
                journal.record_delivery_count(1, kept[0].id, count)
            journal.record_delivery_count(2, kept[1].id, 7)
    for _ in range(5):
        append(journal, [4], b"and on")
    journal.record_delivery_count(1, kept[0].id, 3)
    commit_any(journal)
    assert "00000001.log" not in disk.names() and journal.segments.keys() - {1, 2}, "nothing was compacted"
    if closed:
        journal.close()
    journal, found = opened(disk.power_loss(Random(1)))
    assert attempts(journal, found[1], 1) == {b"kept 0": 3, b"kept 1": 0}
    assert attempts(journal, found[2], 2) == {b"kept 0": 0, b"kept 1": 7}
    assert levels(found) == {1: b"\x04\x04", 2: b"\x04\x04"}


@pytest.mark.parametrize("expiration", [None, "5000"])
def test_a_message_that_is_published_again_keeps_its_way_and_its_blind_copies(expiration: str | None) -> None:
    message = framed(RoutingAddress("x", "k"), Properties(expiration=expiration), b"body")
    message.state = MessageState(1, attempts=3, dead_lettered=1, bcc_keys=("hidden",))
    again = message.as_republished()
    assert (again.dead_lettered, again.bcc_keys) == (1, ("hidden",))
    assert again.state is not None and (again.state.ttl_ms, again.state.attempts) == (
        int(expiration) if expiration else NO_TTL,
        0,
    )
