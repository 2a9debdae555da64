"""No snapshot of the export holds the loop, however many queues there are, and each is of one moment."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analytics.exporting import Exporting, imbalance, snapshot_rows
from tests.support.speed import within
from tests.support.traced_memory import traced_memory
from warren.plugins.message_log.export.snapshot_columns import Frame
from warren.plugins.message_log.export.snapshots import SLICE
from warren.plugins.message_log.file_format import schema

from .meter import ATTEMPTS, LIMIT_MS, MANY

QUEUES = MANY // 10  # whose memory is traced


@pytest.fixture
def export(tmp_path: Path) -> Iterator[Exporting]:
    made = Exporting(tmp_path)
    yield made
    made.close()


def longest_step_ms(export: Exporting, queues: int) -> float:
    """Measure everything that a snapshot does between two turns of the loop."""
    longest_s, begun_s = 0.0, time.thread_time()
    steps = export.snapshots.prepare()
    while True:
        try:
            next(steps)
        except StopIteration:
            break
        finally:
            longest_s, begun_s = max(longest_s, time.thread_time() - begun_s), time.thread_time()
    frames = []
    for pieces in export.snapshots.take(schema.PERIODIC).frames():
        frames.append(b"".join(pieces))
        longest_s, begun_s = max(longest_s, time.thread_time() - begun_s), time.thread_time()
    assert sum(Frame(payload).rows for payload in frames) == queues + 1
    return longest_s * 1000


def test_a_snapshot_of_many_queues_is_taken_in_short_steps(export: Exporting) -> None:
    for number in range(MANY):
        export.vhost.declare_queue(f"q{number}")
    gc.freeze()
    assert within(min(longest_step_ms(export, MANY) for _ in range(ATTEMPTS)), LIMIT_MS)


def test_a_snapshot_of_many_queues_takes_little_memory(export: Exporting) -> None:
    for number in range(QUEUES):
        export.vhost.declare_queue(f"q{number}")
    with traced_memory() as memory:
        for _ in range(3):
            for _ in export.snapshots.prepare():
                pass
            for pieces in export.snapshots.take(schema.PERIODIC).frames():
                assert sum(map(len, pieces)) <= 1 << 16
    assert memory.peak_bytes <= 300 * QUEUES


def test_what_happens_while_a_snapshot_is_prepared_is_in_it(export: Exporting) -> None:
    count = 4 * SLICE
    ch = export.peer.connect().channel()
    for number in range(count):
        export.vhost.declare_queue(f"q{number}")
        ch.publish("", f"q{number}", b"x")
    before = export.snapshot(schema.START)
    for number, _ in enumerate(export.snapshots.prepare()):
        for place in (0, count // 2, count - 1):
            queue = f"q{place}"
            ch.publish("", queue, b"x")
            if number == 1:
                ch.get(queue, no_ack=False)
            if number == 2:
                export.vhost.queues[queue].purge()
        if number == 3:
            ch.publish("", "q1", b"x")
            ch.sync()
            ch.delete("q1")
            ch.declare(f"new{number}")
            ch.fill(f"new{number}", b"x")
        ch.sync()
    after = snapshot_rows(export.snapshots.take(schema.STOP))
    assert len(after) - 1 == after[-1]["queues"] == count
    ch.publish("", "q2", b"x")  # after its moment
    ch.sync()
    rows = [row for row in export.events() if before[-1]["row"] <= row["row"] < after[-1]["row"]]
    assert len(rows) > 12
    assert imbalance(rows, before, after) == {}
