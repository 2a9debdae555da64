"""Memory of a start, little more than the recovered messages take, and of a batch, which is not copied on the loop."""

from random import Random

import pytest

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import journal_on
from tests.support.journal import commit, new_message
from tests.support.traced_memory import traced_memory
from warren.broker.amqp.framing import content_frames
from warren.broker.core.messages.message import Message, RoutingAddress
from warren.broker.core.messages.message_state import MessageState
from warren.broker.storage import recovery
from warren.broker.storage.journal import Journal

MESSAGES = 6_000
PEAK_BYTES = {False: 40, True: 60}  # a message, of which 16 stay, by whether it has a deadline, which takes 8


def new_journal(disk: SimulatedDisk) -> Journal:
    return journal_on(disk, 1 << 20)


@pytest.mark.parametrize("timed", [False, True], ids=["plain", "with deadlines"])
@pytest.mark.parametrize("queues", [1, 3])
def test_recovery_takes_few_bytes_a_message(monkeypatch: pytest.MonkeyPatch, queues: int, timed: bool) -> None:
    monkeypatch.setattr(recovery, "CHUNK_BYTES", 1 << 14)
    disk = SimulatedDisk(Random(1))
    journal = new_journal(disk)
    journal.recover()
    for first in range(0, MESSAGES, 1000):
        for queue in range(1, queues + 1):
            messages = []
            for number in range(first, first + 1000, queues):
                frames = content_frames(1, b"\x00\x00", b"x" * 20)
                messages.append(Message(RoutingAddress("", "q"), frames, 1, 20, 0, True))
                messages[-1].state = MessageState(deadline_ms=(1 << 41) + number) if timed else None
            journal.append([queue], messages)
        commit(journal)
    journal = new_journal(disk.crash())
    with traced_memory() as memory:
        found = journal.recover()
    count = sum(len(pages) for pages in found.values())
    assert count >= MESSAGES
    assert memory.peak_bytes <= PEAK_BYTES[timed] * count, f"{memory.peak_bytes / count:.0f} bytes a message"


def test_a_batch_is_sealed_without_a_copy_of_its_records() -> None:
    journal = new_journal(SimulatedDisk(Random(1)))
    journal.recover()
    body = bytes(8 << 20)
    journal.append([1], [new_message(body)])
    with traced_memory() as memory:
        batch = journal.seal()
    assert batch is not None and len(batch.data) > len(body)
    assert memory.peak_bytes < 1 << 20
