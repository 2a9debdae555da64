"""A short tx.commit is whole or absent after a power cut: all that it publishes and settles is one batch of the log."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, cast

from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.metadata import MemoryMetadata
from tests.turns.broker import StepMeter, StoredPeer
from warren.broker.storage.journal import Journal
from warren.broker.storage.metadata import Metadata

PUBLISHES, ACKS = 100, 30
PERSISTENT: dict[str, Any] = {"delivery_mode": 2}
FILES = ("00000001.log", "checkpoint")


def recovered(files: dict[str, bytes]) -> dict[int, int]:
    """Return how many messages each queue has after a start with these files of the log."""
    disk = SimulatedDisk(Random(1))
    for name, data in files.items():
        disk.put(name, data)
    found = Journal(disk, cast(Metadata, MemoryMetadata())).recover()
    return {queue: len(pages) for queue, pages in found.items()}


def test_a_short_commit_is_whole_or_absent_wherever_a_power_cut_tears_the_log(tmp_path: Path) -> None:
    peer = StoredPeer(StepMeter(), tmp_path)
    channel = peer.connect().channel()
    for queue in ("one", "two", "source"):
        channel.declare(queue, durable=True)
    for number in range(ACKS):
        channel.publish("", "source", b"%d" % number, PERSISTENT)
    peer.settle()
    log = tmp_path / "log"
    before = (log / FILES[0]).read_bytes()
    channel.transact()
    for number in range(PUBLISHES):
        channel.publish("", ("one", "two")[number % 2], b"%d" % number, PERSISTENT)
    for _ in range(ACKS):
        got = channel.get("source", no_ack=False)
        assert got is not None
        channel.ack(got.tag)
    channel.commit()
    peer.settle()
    data = (log / FILES[0]).read_bytes()
    files = {name: (log / name).read_bytes() for name in FILES}
    numbers = {queue.name: queue.number for queue in peer.node.vhosts["/"].queues.values()}
    peer.close()
    absent = {numbers["source"]: ACKS}
    whole = {numbers["one"]: PUBLISHES // 2, numbers["two"]: PUBLISHES // 2}
    assert (recovered(files | {FILES[0]: before}), recovered(files)) == (absent, whole)
    random = Random(1)
    for _ in range(30):
        start = random.randrange(len(before), len(data))
        end = random.choice((len(data), min(start + 512, len(data))))
        torn = data[:start] + random.choice((b"", bytes(end - start) + data[end:]))
        assert recovered(files | {FILES[0]: torn}) == absent, f"{start}..{end}"
