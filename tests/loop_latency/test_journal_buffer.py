"""The journal's buffer is bounded on a slow disk, whichever way one request stores its messages many times over."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Tx

from tests.support.amqp_client import Channel
from tests.support.clock import FakeClock
from tests.support.in_process import FakeSocket, socket_of
from tests.support.session import operator_channel
from warren.broker.amqp.errors import NotNow
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.app import open_storage
from warren.broker.core.jobs import unfinished_publishes
from warren.broker.core.messages.journal_port import Batch
from warren.broker.core.messages.message import RoutingAddress, framed
from warren.broker.core.queues.queue import Queue
from warren.broker.core.vhost import emissions
from warren.broker.core.vhost.vhost import VHost
from warren.broker.storage.journal import BUFFER_LIMIT
from warren.plugins.exchanges.recent_history import DEFAULT_LENGTH

from .broker import StepMeter
from .journal import DiskPeer, MeasuredJournal

LONG = bytes(1 << 20)
QUEUES = 40
PERSISTENT: dict[str, Any] = {"delivery_mode": 2}
LONG_HEADERS = PERSISTENT | {"headers": {"h": "v" * 130_900}}  # as long as one frame takes; the body is empty
BODY, HEADERS = (LONG, PERSISTENT), (b"", LONG_HEADERS)  # of long messages: their bodies and properties
TURNS = 20  # of jobs, for which each batch is on its way to the disk
LARGEST = 2 * BUFFER_LIMIT + len(LONG)

Content = tuple[bytes, dict[str, Any]]


class SlowPeer(DiskPeer):
    """A broker on a slow disk: its jobs have many turns before a batch is durable."""

    def _commit_soon(self) -> None:
        batch = self.journal.seal()
        if batch is not None:
            self._later(batch, TURNS)

    def _later(self, batch: Batch, turns: int) -> None:
        def call() -> None:
            if turns:
                self._later(batch, turns - 1)
            else:
                batch.write()
                batch.sync()
                self._committed(batch)

        FakeClock.call_at(self.clock, self.clock.now_ms(), call)

    def settle(self) -> None:
        """Let all happen that is under way."""
        self._commit_soon()
        super().settle()
        while self.journal.durable < self.journal.ticket():
            self._pass(0)
            super().settle()

    def begin(self, socket: FakeSocket, queue: Queue) -> None:
        """Serve what a client has sent until the queue gets it; a job does the rest."""
        while not queue.published:
            assert socket.feed() | self.loop.turn(), "nothing is left to serve"
        assert len(self.node.scheduler)


@pytest.fixture
def peer(step_meter: StepMeter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowPeer]:
    monkeypatch.setattr(open_storage, "SegmentJournal", MeasuredJournal)
    made = SlowPeer(step_meter, tmp_path)
    MeasuredJournal.longest_bytes, MeasuredJournal.tickets = 0, []
    yield made
    made.close()


def fan(vhost: VHost, exchange: str = "amq.fanout", count: int = QUEUES, alike: bool = False) -> list[Queue]:
    """Durable queues of an exchange, each with a time to live of its own unless they are alike and share records."""
    queues = []
    for number in range(count):
        arguments = Table.of({"x-message-ttl": 3_600_000 + (0 if alike else number)})
        queue = vhost.declare_queue(f"q{number}", durable=True, arguments=arguments)
        vhost.bind(exchange, queue, "", Table.EMPTY)
        queues.append(queue)
    return queues


def check(queues: list[Queue], count: int = 1) -> None:
    assert {queue.ready for queue in queues} == {count}
    assert BUFFER_LIMIT < MeasuredJournal.longest_bytes <= LARGEST


@pytest.mark.parametrize(
    ("count", "content"),
    [(QUEUES, BODY), (QUEUES, (LONG, PERSISTENT | {"expiration": "60000000"})), (300, HEADERS)],
    ids=["body", "body with an expiration", "headers"],
)
def test_a_publish_to_queues_that_each_store_it(
    vhost: VHost, step_meter: StepMeter, count: int, content: Content, channel: Channel
) -> None:
    queues = fan(vhost, count=count)
    channel.confirm()
    step_meter.begin()
    channel.publish("amq.fanout", "", *content)
    assert channel.confirms([1]) == ({1}, set())
    step_meter.check()
    check(queues)


def test_a_publish_is_confirmed_once_its_last_record_is_durable_and_those_behind_it_keep_their_order(
    peer: SlowPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch, channel: Channel
) -> None:
    queues = fan(vhost)
    channel.confirm()
    durable: list[int] = []
    write = FakeSocket.write

    def noting(socket: FakeSocket, data: Any) -> None:
        durable.append(peer.journal.durable)
        write(socket, data)

    monkeypatch.setattr(FakeSocket, "write", noting)
    channel.publish("amq.fanout", "", LONG, PERSISTENT)
    channel.publish("", "q0", b"later", PERSISTENT)
    assert channel.confirms([1, 2]) == ({1, 2}, set())
    assert len(MeasuredJournal.tickets) == QUEUES + 1 and MeasuredJournal.tickets[0] < MeasuredJournal.tickets[-2]
    assert durable[0] >= MeasuredJournal.tickets[-2]
    assert [message.body for message in queues[0].ready_messages.default.fresh] == [LONG, b"later"]
    check(queues[1:])


def test_a_publish_that_waits_when_its_connection_is_lost_reaches_all_its_queues(peer: SlowPeer, vhost: VHost) -> None:
    queues = fan(vhost)
    client = peer.connect()
    client.channel().publish("amq.fanout", "", LONG, PERSISTENT)
    socket = socket_of(client)
    peer.begin(socket, queues[0])
    socket.transport.connection_lost(None)
    peer.settle()
    check(queues)


@pytest.mark.parametrize("committed", [False, True])
def test_publishes_of_clients_that_go_do_not_gather_in_memory(
    peer: SlowPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    monkeypatch.setattr(unfinished_publishes, "LIMIT_BYTES", 1 << 20)
    queues = fan(vhost)
    gone = [peer.connect().channel() for _ in range(50)]
    stays = peer.connect().channel()
    stays.confirm()
    for channel in gone if committed else ():
        channel.transact()
    for channel in [*gone, stays]:
        channel.publish("amq.fanout", "", b"", LONG_HEADERS)
        if committed and channel is not stays:
            channel.send(Tx.Commit)
        socket = socket_of(channel.client)
        while socket.feed() | peer.loop.turn():
            pass
    connections = [peer.server.connections[socket_of(channel.client).transport] for channel in gone]
    for channel in gone:
        socket_of(channel.client).transport.connection_lost(None)
    while peer.loop.turn():
        pass
    assert not any(connection.deferred for connection in connections)
    begun = queues[0].ready
    assert 0 < begun <= 8 and peer.node.unfinished_of("guest").full, "each takes 128 KiB"
    assert stays.confirms([1]) == ({1}, set())
    assert begun < queues[0].ready <= 9 if committed else queues[0].ready == begun + 1  # some are rolled back
    check(queues, queues[0].ready)
    assert not peer.node.unfinished_of("guest").full and not peer.node.unfinished_of("guest")._bytes


def test_moves_of_clients_that_go_do_not_gather_in_memory(
    peer: SlowPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch, channel: Channel
) -> None:
    monkeypatch.setattr(unfinished_publishes, "LIMIT_BYTES", 1 << 20)
    queues = fan(vhost)
    channel.declare("from", durable=True)
    for _ in range(20):
        channel.publish("", "from", b"", LONG_HEADERS)
    peer.settle()
    source = vhost.queues["from"]
    begun = 0
    while source.ready:
        gone = operator_channel(peer.node)
        try:
            assert gone.move("from", "amq.fanout", None).step(1).unfinished
        except NotNow:
            break
        finally:
            gone.close()
        begun += 1
    assert 0 < begun <= 8 and source.ready == 20 - begun, "each takes 128 KiB"
    peer.settle()
    check(queues, begun)
    assert not peer.node.unfinished_of("")._bytes
    stays = operator_channel(peer.node).move("from", "amq.fanout", None)
    assert stays.step(1).unfinished
    peer.settle()
    assert stays.step(1).moved and not peer.node.unfinished_of("")._bytes


def test_a_move_whose_message_was_not_taken_is_finished(peer: SlowPeer, vhost: VHost, channel: Channel) -> None:
    queues = fan(vhost)
    channel.declare("from", durable=True)
    channel.bind("from", "amq.fanout")
    channel.publish("", "from", b"", LONG_HEADERS)
    peer.settle()
    move = operator_channel(peer.node).move("from", "amq.fanout", None)
    move.step(1)
    peer.settle()
    assert move.step(1).problem.endswith("leads back to the queue")
    assert not any(queue.ready for queue in queues) and not peer.node.unfinished_of("")._bytes


def test_a_publish_of_an_operator(peer: SlowPeer, vhost: VHost) -> None:
    queues = fan(vhost)
    channel = operator_channel(peer.node)
    channel.publish("amq.fanout", "", Properties(delivery_mode=2), LONG, in_slices=True)
    peer.settle()
    assert channel.outcome().routed and not channel.busy
    check(queues)


def test_publishes_of_long_headers_that_are_read_together(peer: SlowPeer, vhost: VHost, step_meter: StepMeter) -> None:
    """Their headers differ, so they are not enqueued as one batch of equal ones."""
    queues = fan(vhost, count=60)
    channel = peer.connect().channel()
    step_meter.begin()
    for number in range(40):
        channel.publish("amq.fanout", "", b"", PERSISTENT | {"headers": {"h": str(number) * 10_000}})
    peer.settle()
    step_meter.check()
    check(queues, 40)


@pytest.mark.parametrize(("count", "publishes", "content"), [(1, 20, BODY), (QUEUES, 1, BODY), (100, 3, HEADERS)])
def test_a_commit(
    vhost: VHost, step_meter: StepMeter, count: int, publishes: int, content: Content, channel: Channel
) -> None:
    queues = fan(vhost, count=count)
    channel.transact()
    for _ in range(publishes):
        channel.publish("amq.fanout", "", *content)
    channel.sync()
    step_meter.begin()
    channel.commit()
    step_meter.check()
    check(queues, publishes)


@pytest.mark.parametrize(
    ("count", "content", "deleted"), [(QUEUES, BODY, False), (QUEUES, BODY, True), (200, HEADERS, False)]
)
def test_dead_letters(
    peer: SlowPeer, vhost: VHost, step_meter: StepMeter, count: int, content: Content, deleted: bool, channel: Channel
) -> None:
    """The queue may be deleted while they wait."""
    queues = fan(vhost, count=count)
    channel.declare("from", durable=True, arguments={"x-dead-letter-exchange": "amq.fanout"})
    channel.fill("from", content[0], content[0], **content[1])
    for _ in range(2):
        channel.get("from", no_ack=False)
    step_meter.begin()
    channel.nack(0, multiple=True, requeue=False)
    if deleted:
        channel.delete("from")
    peer.settle()
    step_meter.check()
    check(queues, 2)


def test_a_message_that_becomes_due(peer: SlowPeer, vhost: VHost) -> None:
    vhost.declare_exchange("x", "fanout", durable=True, arguments=Table.of({"x-delayed-exchange": True}))
    queues = fan(vhost, "x")
    peer.connect().channel().publish("x", "", LONG, PERSISTENT | {"headers": {"x-delay": 1_000}})
    peer.settle()
    peer.later(1_000)
    check(queues)


@pytest.mark.parametrize(("count", "length", "content"), [(3, DEFAULT_LENGTH, BODY), (1, 200, HEADERS)])
def test_the_history_that_new_queues_get(
    peer: SlowPeer, vhost: VHost, step_meter: StepMeter, count: int, length: int, content: Content, channel: Channel
) -> None:
    arguments = Table.of({"x-recent-history-length": length})
    vhost.declare_exchange("x", "x-recent-history", durable=True, arguments=arguments)
    for _ in range(length):
        channel.publish("x", "", *content)
    peer.settle()
    MeasuredJournal.longest_bytes = 0
    step_meter.begin()
    queues = fan(vhost, "x", count=count)
    peer.settle()
    step_meter.check()
    check(queues, length)


def test_histories_that_imported_bindings_get(peer: SlowPeer, vhost: VHost, monkeypatch: pytest.MonkeyPatch) -> None:
    vhost.declare_exchange("x", "x-recent-history", durable=True)
    channel = peer.connect().channel()
    for _ in range(DEFAULT_LENGTH):
        channel.publish("x", "", LONG, PERSISTENT)
    peer.settle()
    queues = [vhost.declare_queue(f"q{number}", durable=True) for number in range(3)]
    monkeypatch.setattr(emissions, "LIMIT_BYTES", 1)
    for wait in peer.import_bindings("x", queues).carry_out():
        if wait is not None:
            wait(lambda: None)
            peer.settle()
    peer.settle()
    check(queues, DEFAULT_LENGTH)


def test_messages_of_the_broker_wait_and_are_dropped_when_too_many_do(peer: SlowPeer, vhost: VHost) -> None:
    queue = vhost.declare_queue("q", durable=True)
    vhost.bind("amq.fanout", queue, "", Table.EMPTY)
    one = framed(RoutingAddress("amq.fanout", ""), Properties(delivery_mode=2), LONG)
    taken = [vhost.publish(vhost.exchanges["amq.fanout"], one.as_republished()) for _ in range(40)]
    assert taken == sorted(taken, reverse=True) and not all(taken)
    peer.settle()
    check([queue], sum(taken))


def test_copies_of_the_firehose_that_a_queue_stores(peer: SlowPeer, vhost: VHost, channel: Channel) -> None:
    queue = vhost.declare_queue("traced", durable=True, arguments=Table.of({"x-queue-type": "quorum"}))
    vhost.bind("amq.rabbitmq.trace", queue, "#", Table.EMPTY)
    peer.node.set_tracing("/", True)
    for _ in range(40):
        channel.publish("amq.fanout", "", LONG)
    peer.settle()
    check([queue], 40)


def test_the_stop_of_the_node_waits_too(peer: SlowPeer, vhost: VHost, channel: Channel) -> None:
    queues = fan(vhost)
    channel.publish("amq.fanout", "", LONG, PERSISTENT)
    peer.begin(socket_of(channel.client), queues[0])
    assert not peer.node.finish()
    peer.settle()
    assert peer.node.finish()
    check(queues)


def test_queues_with_equal_times_to_live_share_the_records_of_a_message(peer: SlowPeer, vhost: VHost) -> None:
    queues = fan(vhost, alike=True)
    channel = peer.connect().channel()
    channel.confirm()
    channel.publish("amq.fanout", "", LONG, PERSISTENT)
    channel.publish("amq.fanout", "", LONG, PERSISTENT | {"expiration": "1000"})
    channel.confirms([1, 2])
    assert {queue.ready for queue in queues} == {2}
    assert peer.journal.written_bytes < 2 * len(LONG) + 10_000
    peer.later(1_000)
    for queue in queues[1:]:
        assert channel.drain(queue.name) == [LONG]
