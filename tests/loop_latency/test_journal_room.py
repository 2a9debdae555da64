"""The journal's buffer is bounded whatever is done while the disk is full, or takes nothing: who appends asks for room.

Nothing is lost meanwhile, and all goes on once there is space.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue, Tx

from tests.support import codec
from tests.support.amqp_client import Channel
from tests.support.in_process import socket_of
from tests.support.session import operator_channel
from warren.broker.amqp.errors import NotNow
from warren.broker.amqp.field_table import Table
from warren.broker.app import open_storage
from warren.broker.core.jobs.scheduler import SLICE
from warren.broker.core.messages.journal_port import BEHIND, DISK_FULL, Batch
from warren.broker.core.messages.message import Message
from warren.broker.core.queues.ready_messages import PAGE_BYTES
from warren.broker.core.telemetry import firehose
from warren.broker.core.telemetry.firehose import TRACE
from warren.broker.core.telemetry.resource_alarms import DISK
from warren.broker.core.vhost import emissions
from warren.broker.core.vhost.vhost import VHost
from warren.broker.storage.journal import BUFFER_LIMIT
from warren.broker.storage.journal import Batch as JournalBatch

from .broker import StepMeter
from .journal import DiskPeer, MeasuredJournal

COUNT = 60  # messages that are done with in each way
BODY = bytes(256 << 10)
PERSISTENT: dict[str, Any] = {"delivery_mode": 2}
LARGEST = BUFFER_LIMIT + (2 << 20)  # with what one step adds
DELAY_MS = 1_000
TURNS = 60  # of the loop, in which all that has to wait could be done


class StuckPeer(DiskPeer):
    """A broker whose disk takes no batch while it is `stuck`, or `full`, when the alarm is on as well."""

    stuck = False

    def stick(self, full: bool) -> None:
        self.settle()
        self.stuck = True
        self._batches: list[Batch] = []
        if full:
            self.node.alarms.set(DISK)
        MeasuredJournal.longest_bytes = 0

    def free(self) -> None:
        """Let the disk take all."""
        self.stuck = False
        self.node.alarms.clear(DISK)
        for batch in self._batches:
            self._commit(batch)
        self.settle()

    def settle(self) -> None:
        if not self.stuck:
            super().settle()
            return
        for _ in range(TURNS):
            while self.loop.turn() | sum(socket.feed() for socket in self._sockets):
                pass
            self._commit_soon()
            self._pass(0)

    def _commit_soon(self) -> None:
        batch = self.journal.seal()
        if batch is not None and self.stuck:
            self._batches.append(batch)
        elif batch is not None:
            self.call_unmeasured(self._commit, batch)


@pytest.fixture
def peer(step_meter: StepMeter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StuckPeer]:
    monkeypatch.setattr(open_storage, "SegmentJournal", MeasuredJournal)
    made = StuckPeer(step_meter, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("full", [True, False])
def test_messages_that_expire_are_dead_lettered_delayed_and_moved_wait_outside_of_the_buffer(
    peer: StuckPeer, vhost: VHost, full: bool, channel: Channel
) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    at_least_once = {
        "x-queue-type": "quorum",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    for name, arguments in {
        "dead": {},
        "expiring": dead | {"x-message-ttl": DELAY_MS},
        "at least once": dead | at_least_once | {"x-message-ttl": DELAY_MS},
        "rejected": dead,
        "deleted": dead,
        "delayed": {},
        "moved": {},
    }.items():
        channel.declare(name, durable=True, arguments=arguments)
    vhost.declare_exchange("x", "fanout", durable=True, arguments=Table.of({"x-delayed-exchange": True}))
    channel.bind("delayed", "x")
    for _ in range(COUNT):
        for name in ("expiring", "at least once", "rejected", "deleted", "moved"):
            channel.publish("", name, BODY, PERSISTENT)
        channel.publish("x", "", BODY, PERSISTENT | {"headers": {"x-delay": DELAY_MS}})
    peer.settle()
    for name in ("rejected", "deleted"):
        for _ in range(COUNT):
            channel.get(name, no_ack=False)
    moves = [operator_channel(peer.node).move("moved", "", "dead") for _ in range(3)]
    peer.stick(full)
    channel.send(Basic.Nack, delivery_tag=0, multiple=True, requeue=False)
    peer.settle()
    vhost.delete_queue(vhost.queues["deleted"])
    peer.later(DELAY_MS)
    for move in moves:
        try:
            move.step(COUNT)
        except NotNow:
            assert full
    peer.settle()
    queues = vhost.queues
    assert peer.node.journal.room() == (DISK_FULL if full else BEHIND)
    assert MeasuredJournal.longest_bytes <= (0 if full else LARGEST)
    assert queues["dead"].ready + queues["delayed"].ready < COUNT
    peer.free()
    while queues["moved"].ready:
        moves[0].step(COUNT)
        peer._commit_soon()
        peer.settle()
    assert queues["dead"].ready == 5 * COUNT and queues["delayed"].ready == COUNT
    assert sum(queue.stored for queue in queues.values()) == 6 * COUNT


def test_messages_that_are_requeued_again_and_again_take_one_count_each(peer: StuckPeer, vhost: VHost) -> None:
    channel = peer.connect().channel()
    channel.declare("q", durable=True, arguments={"x-delivery-limit": 1 << 20})
    channel.fill("q", *[b""] * 20, **PERSISTENT)
    peer.settle()
    peer.stick(full=True)
    for _ in range(20):
        for _ in range(20):
            assert channel.get("q", no_ack=False) is not None
        channel.nack(0, multiple=True, requeue=True)
    peer.settle()
    batches = sum(len(batch.data) for batch in peer._batches if isinstance(batch, JournalBatch))
    assert batches + len(peer.journal._buffer) < 5_000 and 0 < len(peer.journal._counted) <= 20
    peer.free()
    written = peer.journal.read(list(range(1, 21)), vhost.queues["q"].number)
    assert [message.state.attempts for message in written if message is not None and message.state] == [20] * 20


def test_a_client_that_wants_no_replies_waits_for_the_disk_nevertheless(peer: StuckPeer, vhost: VHost) -> None:
    client = peer.connect()
    number = client.channel().number
    peer.stick(full=False)
    declare = {"queue": "q", "passive": False, "durable": True, "exclusive": False, "auto_delete": False}
    frames = codec.method_frame(number, Queue.Declare, declare | {"nowait": True, "arguments": {}})
    frames += codec.method_frame(number, Queue.Delete, {"queue": "q", "nowait": True})
    socket_of(client).incoming += frames * 1_500
    peer.settle()
    assert peer.journal.room() == BEHIND and 1_000 <= len(peer.journal._changes) < 1_100
    peer.free()
    assert not peer.journal._changes and not vhost.queues and not socket_of(client).incoming


def test_copies_of_the_firehose_are_dropped_on_a_full_disk_and_deliveries_go_on(peer: StuckPeer, vhost: VHost) -> None:
    traced = vhost.declare_queue("traced", durable=True, arguments=Table.of({"x-queue-type": "quorum"}))
    vhost.bind(TRACE, traced, "deliver.#", Table.EMPTY)
    channel = peer.connect().channel()
    channel.declare("q")
    channel.fill("q", *[BODY] * 2 * COUNT)  # of which a half waits to be copied where none is dropped
    peer.node.set_tracing("/", True)
    peer.stick(full=True)
    channel.consume("q", no_ack=True)
    peer.settle()
    assert not vhost.queues["q"].ready and traced.ready == 1 and not vhost.held
    assert MeasuredJournal.longest_bytes < 2 * len(BODY)
    peer.free()
    channel.fill("q", b"")
    peer.settle()
    assert traced.ready == 2


def test_copies_of_the_firehose_that_are_not_stored_are_delivered_on_a_full_disk(peer: StuckPeer, vhost: VHost) -> None:
    traced = vhost.declare_queue("traced", durable=True, arguments=Table.of({"x-queue-type": "quorum"}))
    vhost.bind(TRACE, traced, "deliver.stored", Table.EMPTY)
    channel = peer.connect().channel()
    channel.declare("live")
    channel.bind("live", TRACE, "deliver.other")
    for name in ("other", "stored"):
        channel.declare(name)
        channel.fill(name, *[b""] * 4)
    peer.node.set_tracing("/", True)
    assert channel.get("stored")
    peer.settle()
    reports: list[str] = []
    peer.node.scheduler.report = lambda event, *_: reports.append(event)
    peer.stick(full=True)
    for name in ("stored", "other", "stored", "other"):
        assert channel.get(name)
    peer.settle()
    assert (traced.ready, vhost.queues["live"].ready) == (1, 2)
    assert reports == ["system_messages_dropped"]
    peer.free()
    assert channel.get("stored")
    peer.settle()
    assert traced.ready == 2


@pytest.mark.parametrize("full", [True, False])
def test_few_copies_of_the_firehose_are_stored_without_room_however_many_queues_there_are(
    peer: StuckPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch, full: bool, channel: Channel
) -> None:
    monkeypatch.setattr(firehose, "KEYS", 2)
    traced = vhost.declare_queue("traced", durable=True, arguments=Table.of({"x-queue-type": "quorum"}))
    vhost.bind(TRACE, traced, "deliver.#", Table.EMPTY)
    queues = [f"q{number}" for number in range(COUNT)]
    for name in queues:
        channel.declare(name)
        channel.fill(name, BODY)
    peer.node.set_tracing("/", True)
    peer.stick(full=full)
    for name in queues:
        channel.send(Basic.Get, queue=name, no_ack=True)
        peer.settle()
    assert MeasuredJournal.longest_bytes < (firehose.RISKED_BYTES + 2 * len(BODY) if full else LARGEST)
    peer.free()
    peer.settle()
    assert full or traced.ready == len(queues)


def test_histories_that_imported_bindings_get_wait_for_a_full_disk(
    peer: StuckPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch, channel: Channel
) -> None:
    arguments = Table.of({"x-recent-history-length": COUNT})
    vhost.declare_exchange("x", "x-recent-history", durable=True, arguments=arguments)
    for _ in range(COUNT):
        channel.publish("x", "", BODY, PERSISTENT)
    queues = [vhost.declare_queue(f"q{number}", durable=True) for number in range(2)]
    peer.stick(full=True)
    monkeypatch.setattr(emissions, "LIMIT_BYTES", 1)
    called: list[bool] = []
    waits = 0
    for wait in peer.import_bindings("x", queues).carry_out():
        if wait is not None:
            waits += 1
            wait(lambda: called.append(True))
            peer.settle()
            assert not called and not MeasuredJournal.longest_bytes
            peer.free()
            assert called.pop()
            peer.stick(full=True)
    peer.free()
    assert waits and [queue.ready for queue in queues] == [COUNT, COUNT]


def test_what_a_commit_that_fails_had_settled_returns_to_its_queue(
    peer: StuckPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch, channel: Channel
) -> None:
    """A commit of many publishes is refused memory in the middle of them."""
    settled, count = 10, 2_000
    for name in ("in", "out"):
        channel.declare(name, durable=True)
    channel.fill("in", *[b""] * settled)
    channel.transact()
    tag = [channel.get("in", no_ack=False).tag for _ in range(settled)][-1]
    channel.ack(tag, multiple=True)
    for _ in range(count):
        channel.publish("", "out", b"", PERSISTENT)
    append = MeasuredJournal.append

    def refuse(journal: MeasuredJournal, queues: list[int], messages: list[Message]) -> None:
        if vhost.queues["out"].published > count // 2:
            raise MemoryError
        append(journal, queues, messages)

    monkeypatch.setattr(MeasuredJournal, "append", refuse)
    channel.send(Tx.Commit)
    peer.settle()
    channel.client.vanish()
    peer.settle()
    assert not peer.server.connections
    assert vhost.queues["in"].ready == settled and not vhost.queues["in"].unacked


def test_what_a_commit_that_fails_has_not_settled_returns_to_its_queue(
    peer: StuckPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch, channel: Channel
) -> None:
    """A commit of many acknowledgements is refused memory after the first ones: one step of them is not settled."""
    count = 5 * SLICE
    channel.declare("in", durable=True)
    channel.fill("in", *[b""] * count, **PERSISTENT)
    channel.transact()
    for tag in [channel.get("in", no_ack=False).tag for _ in range(count)]:
        channel.ack(tag)
    settle_many, calls = MeasuredJournal.settle_many, 0

    def refuse(journal: MeasuredJournal, queue: int, messages: list[Message]) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise MemoryError
        settle_many(journal, queue, messages)

    monkeypatch.setattr(MeasuredJournal, "settle_many", refuse)
    channel.send(Tx.Commit)
    peer.settle()
    channel.client.vanish()
    peer.settle()
    assert not peer.server.connections and vhost.queues["in"].ready == count - 2 * SLICE


@pytest.mark.parametrize("exceeded", [True, False])
def test_a_long_message_that_many_queues_page_out_in_ways_of_their_own_is_stored_in_steps(
    peer: StuckPeer, vhost: VHost, exceeded: bool, channel: Channel
) -> None:
    """A transient message for queues with different times to live, some of whose messages are only on the disk."""
    queues = 100
    vhost.ledger.limit_bytes = 1
    channel.exchange("fan", "fanout")
    for number in range(queues):
        channel.declare(f"q{number}", arguments={"x-message-ttl": 1_000_000 + number})
        channel.bind(f"q{number}", "fan")
    for _ in range(PAGE_BYTES // len(BODY) + 1):  # a queue keeps as much in memory
        channel.publish("fan", "", BODY)
        peer.settle()
    if not exceeded:
        channel.publish("fan", "", b"short")
        peer.settle()
        vhost.ledger.limit_bytes = 1 << 40
    assert vhost.ledger.exceeded is exceeded
    MeasuredJournal.longest_bytes = 0
    channel.publish("fan", "", BODY)
    peer.settle()
    assert all(vhost.queues[f"q{number}"].paged for number in range(queues))
    assert len(BODY) < MeasuredJournal.longest_bytes < LARGEST
