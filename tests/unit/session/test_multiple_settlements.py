"""Many settlements at once."""

import time
from contextlib import suppress
from itertools import chain, count
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue, Tx
from pytest import MonkeyPatch

from tests.support import codec
from tests.support.amqp_client import Channel as ClientChannel
from tests.support.clock import fake_clock
from tests.support.session import SureJournal, connected, new_node, pipe_of
from warren.broker.core.jobs.scheduler import SLICE, TURN_COST
from warren.broker.core.messages.message import Message
from warren.broker.core.queues.queue import Queue as BrokerQueue
from warren.broker.session import settlements, transaction
from warren.broker.session.methods import acknowledge
from warren.broker.session.unacked import Settlement

COUNT = 5_000
PUBLISH = codec.method_frame(1, Basic.Publish, {"routing_key": "queue"}) + codec.header_frame(1, 0)


def channel_with_deliveries(consumers: int, transaction: bool = False) -> ClientChannel:
    """Return a channel with consumers that share a limit, and COUNT deliveries to them."""
    client = connected(new_node())
    ch = client.channel(1)
    ch.declare("queue")
    ch.qos(COUNT, globally=True)
    connection = pipe_of(client).connection
    for number in range(consumers):
        ch.send(Basic.Consume, queue="queue", consumer_tag=str(number))
    for _ in range(COUNT // 100):
        client.raw(PUBLISH * 100)
        while connection.take_output():
            connection.flushed()
    if transaction:
        ch.transact()
    assert len(connection.channels[1].unacked) == connection.channels[1].shared_prefetch.unacked == COUNT
    return ch


def seconds(ch: ClientChannel, how: str) -> float:
    start = time.thread_time()
    if how == "ack":
        ch.ack(0, multiple=True)
    elif how == "commit":
        ch.ack(0, multiple=True)
        ch.send(Tx.Commit)
    elif how == "close":
        ch.send(Channel.Close, reply_code=200)
    else:
        ch.nack(0, multiple=True, requeue=how == "requeue")
    return time.thread_time() - start


@pytest.mark.parametrize("how", ["ack", "drop", "requeue", "close", "commit"])
def test_settling_all_at_once_costs_no_more_where_many_consumers_share_a_limit(how: str) -> None:
    one, many = (
        min(seconds(channel_with_deliveries(count, how == "commit"), how) for _ in range(2)) for count in (1, 500)
    )
    assert many < 8 * one + 0.02


LARGE = 3 * settlements.TOGETHER


class Large:
    """A channel with LARGE unsettled deliveries, of which each turn settles some."""

    def __init__(self, transaction: bool = False) -> None:
        self.journal = SureJournal()
        self.node = new_node(self.journal)
        self.ch = connected(self.node).channel(1)
        self.ch.declare("queue", durable=True)
        self.connection = pipe_of(self.ch.client).connection
        self.queue = self.node.vhosts["/"].queues["queue"]
        for _ in range(LARGE // 100):
            self.ch.client.raw(PUBLISH * 100)
        self.ch.send(Basic.Consume, queue="queue", consumer_tag="c")
        self.read()
        if transaction:
            self.ch.transact()
        assert self.queue.unacked == LARGE

    def read(self) -> None:
        while self.connection.take_output():
            self.connection.flushed()

    @property
    def channel(self) -> Any:
        return self.connection.channels[1]

    def ack_all(self) -> None:
        """Acknowledge all in the transaction, which takes several turns."""
        self.ch.ack(0, multiple=True)
        assert self.connection.suspended and self.channel.unacked
        self.turns()
        assert not self.connection.suspended and not self.channel.unacked and self.queue.unacked == LARGE

    def turns(self) -> list[int]:
        """Run the job to its end, and return how much each turn settled."""
        clock = fake_clock(self.node.clock)
        settled, left = [LARGE - self.queue.unacked], self.queue.unacked

        def turned() -> None:
            nonlocal left
            settled.append(left - self.queue.unacked)
            left = self.queue.unacked

        clock.after_each = turned
        clock.advance(0)
        return settled


@pytest.mark.parametrize("how", ["ack", "drop", "requeue", "recover", "commit"])
def test_very_many_are_settled_in_slices_before_anything_else_is_served(how: str) -> None:
    large = Large(how == "commit")
    if how == "ack":
        large.ch.ack(LARGE, multiple=True)
    elif how == "recover":
        large.ch.send(Basic.RecoverAsync, requeue=True)
    elif how == "commit":
        large.ack_all()
        large.ch.send(Tx.Commit)
    else:
        large.ch.nack(LARGE, multiple=True, requeue=how == "requeue")
    assert large.connection.suspended
    assert not large.channel.unacked
    first = large.queue.ready_messages.count
    settled = large.turns()
    assert len(settled) > 2 and max(settled) <= TURN_COST and first <= TURN_COST
    assert not large.connection.suspended
    if how == "commit":
        large.ch.reply_to(Tx.Commit)
    large.read()
    assert large.queue.ready == 0
    if how in ("requeue", "recover"):
        assert [entry[2] for entry in large.channel.unacked.values()] == list(range(1, LARGE + 1))
    else:
        assert not large.channel.unacked and not large.queue.unacked


def test_acknowledging_step_by_step_looks_at_no_delivery_twice(monkeypatch: MonkeyPatch) -> None:
    large = Large()
    looks = 0

    class Counted(dict[int, Any]):
        def __contains__(self, key: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(key)

        def __iter__(self) -> Any:
            raise AssertionError("all that is outstanding is looked at")

        __reversed__ = __iter__

        def pop(self, key: int, *default: Any) -> Any:
            nonlocal looks
            looks += 1
            return super().pop(key, *default)

    large.channel.unacked.entries = Counted(large.channel.unacked.entries)
    for tag in range(1, LARGE + 1, 3):
        large.ch.ack(tag, multiple=True)
    assert looks <= 2 * LARGE
    assert large.queue.unacked == 2


def test_very_many_single_acknowledgements_share_turns() -> None:
    large = Large()
    large.ch.client.raw(b"".join([codec.method_frame(1, Basic.Ack, {"delivery_tag": tag + 1}) for tag in range(LARGE)]))
    first = LARGE - large.queue.unacked
    most = 2 * (TURN_COST + acknowledge.RUN)  # two of them cost 1
    assert 0 < first <= most and max(large.turns()[1:]) <= most and not large.queue.unacked


def test_deliveries_are_counted_in_slices_for_a_prefetch_limit_of_the_channel() -> None:
    large = Large()
    cancelled = large.channel.consumers["c"]
    large.ch.cancel("c")
    large.ch.publish("", "queue")
    assert large.ch.get("queue", no_ack=False) is not None
    found = 0

    class Counted(dict[int, Any]):
        def get(self, *arguments: Any) -> Any:
            nonlocal found
            found += 1
            return super().get(*arguments)

        def values(self) -> Any:
            raise AssertionError("all that is outstanding is looked at")

    large.channel.unacked.entries = Counted(large.channel.unacked.entries)
    for deliveries in large.channel._deliveries():
        assert len(deliveries) <= SLICE and found <= SLICE
        found = 0
    large.ch.qos(LARGE, globally=True)
    assert large.channel.shared_prefetch.unacked == LARGE, "of a cancelled consumer too, but not of a get"
    assert cancelled.shares


def test_no_step_of_settlements_in_turn_is_free() -> None:
    """A transaction may have very many deliveries that are settled one by one in two ways."""
    large = Large()
    deliveries = [one for part in large.channel.unacked.take_all() for one in part.values()]
    ways = (Settlement.NACK, Settlement.ACK)
    runs = [(ways[index % 2], [delivery]) for index, delivery in enumerate(deliveries[:100])]
    assert min(settlements.settle_in_steps(large.channel, runs, "")) > 0


def test_a_commit_that_settles_many_in_turn_in_two_ways_takes_several_turns() -> None:
    large = Large(transaction=True)
    for tag in range(1, settlements.TOGETHER, 2):
        large.ch.ack(tag)
        large.ch.nack(tag + 1, requeue=True)
    large.ch.send(Tx.Commit)
    assert large.connection.suspended
    assert max(large.turns()) <= TURN_COST
    large.ch.reply_to(Tx.Commit)


def test_no_step_that_looks_for_deliveries_is_free() -> None:
    """Most tags may be of deliveries without an acknowledgement, or of settled ones."""
    large = Large()
    large.channel.unacked.pop_many(range(2, LARGE // 2))
    steps = large.channel.shared_prefetch.count(LARGE // 2, large.channel._deliveries())
    assert min(chain(steps, large.channel.pause_in_steps())) > 0


def test_all_are_acknowledged_also_where_the_last_one_is_already() -> None:
    large = Large()
    large.ch.ack(LARGE)
    large.ch.ack(0, multiple=True)
    large.turns()
    large.ch.ack(0, multiple=True)
    large.ch.sync()
    assert not large.queue.unacked and not large.channel.unacked


@pytest.mark.parametrize("step", ["settling", "rolling back"])
def test_a_connection_that_ends_within_a_long_transaction_gives_everything_back_in_order(step: str) -> None:
    large = Large(transaction=True)
    if step == "settling":
        large.ch.ack(0, multiple=True)
    else:
        large.ack_all()
        large.ch.send(Tx.Rollback)
    assert large.connection.suspended
    large.connection.lost("reset")
    assert max(large.turns()) <= TURN_COST
    assert large.queue.unacked == 0 and large.queue.ready == LARGE
    other = connected(large.node).channel(1)
    other.send(Basic.Consume, queue="queue", consumer_tag="c")
    connection = pipe_of(other.client).connection
    while connection.take_output():
        connection.flushed()
    assert [entry[2] for entry in connection.channels[1].unacked.values()] == list(range(1, LARGE + 1))


@pytest.mark.parametrize("fails_at", [0, 700])
def test_a_settlement_that_fails_in_a_transaction_loses_no_delivery(monkeypatch: MonkeyPatch, fails_at: int) -> None:
    large = Large(transaction=True)
    cost_of_copies, calls = settlements.cost_of_copies, count()

    def failing(*arguments: Any) -> int:
        if next(calls) == fails_at:
            raise OSError("a bug")
        return cost_of_copies(*arguments)

    for module in (acknowledge, settlements, transaction):
        monkeypatch.setattr(module, "cost_of_copies", failing)
    with suppress(OSError):
        large.ch.ack(0, multiple=True)
    large.turns()
    large.connection.lost("reset")
    large.turns()
    assert large.queue.unacked == 0 and large.queue.ready == LARGE


def test_single_acknowledgements_find_deliveries_in_all_parts() -> None:
    large = Large()
    for _ in range(3):
        large.channel.unacked.begin_part(large.channel.delivery_tag)
        large.ch.client.raw(PUBLISH * 1_000)
        large.read()
    last = large.channel.delivery_tag
    assert last == large.queue.unacked == LARGE + 3_000
    for tag in (last, 1, LARGE + 500):
        large.ch.ack(tag)
    acks = [
        codec.method_frame(1, Basic.Ack, {"delivery_tag": tag}) for tag in range(last - 1, 2, -1) if tag != LARGE + 500
    ]
    large.ch.client.raw(b"".join(acks))
    large.turns()
    assert large.queue.unacked == 1 and large.channel.unacked.tags() == [2]


def test_a_long_rollback_is_answered_when_all_is_outstanding_again() -> None:
    large = Large(transaction=True)
    large.ack_all()
    large.ch.send(Tx.Rollback)
    assert large.connection.suspended
    large.turns()
    large.ch.reply_to(Tx.Rollback)
    assert large.channel.unacked.tags() == list(range(1, LARGE + 1))
    large.ch.ack(0, multiple=True)
    large.turns()
    large.ch.send(Tx.Commit)
    large.turns()
    large.ch.reply_to(Tx.Commit)
    assert not large.queue.unacked


CLOSE = b"\x00\x14\x00\x28"
CLOSE_OK = b"\x00\x14\x00\x29"
RECOVER_OK = b"\x00\x3c\x00\x6f"


@pytest.mark.parametrize("how", ["close", "recover"])
def test_the_reply_comes_after_all_that_was_out_is_back(how: str) -> None:
    large = Large()
    if how == "close":
        large.ch.send(Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    else:
        large.ch.send(Basic.Recover, requeue=True)
    reply = CLOSE_OK if how == "close" else RECOVER_OK
    assert reply not in b"".join(map(bytes, large.connection.take_output()))
    large.connection.flushed()
    for size in large.turns()[:-1]:
        assert size <= TURN_COST
    assert large.queue.unacked == 0 or how == "recover"
    written = b""
    while pieces := large.connection.take_output():
        written += b"".join(map(bytes, pieces))
        large.connection.flushed()
    assert reply in written


def test_a_channel_with_very_much_that_fails_is_closed_in_slices() -> None:
    large = Large()
    large.ch.send(Basic.Ack, delivery_tag=LARGE + 1)
    large.ch.send(Queue.Declare, queue="never made")
    assert CLOSE not in b"".join(map(bytes, large.connection.take_output()))
    assert max(large.turns()) <= TURN_COST
    large.ch.expect_close(406)
    assert large.queue.ready == LARGE and "never made" not in large.node.vhosts["/"].queues
    large.ch.client.channel(1)


def test_a_queue_that_is_deleted_if_empty_after_close_ok_keeps_what_the_channel_had() -> None:
    large = Large()
    large.node.scheduler._left = 0  # other jobs had this turn
    other = large.ch.client.channel(2)
    large.ch.send(Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    other.send(Queue.Delete, queue="queue", if_empty=True)
    large.turns()
    assert large.queue.ready == LARGE and "queue" in large.node.vhosts["/"].queues


def test_a_connection_that_is_lost_while_its_channel_ends_gives_all_back() -> None:
    large = Large()
    large.ch.send(Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    large.connection.lost("reset")
    large.turns()
    assert (large.queue.ready, large.queue.unacked) == (LARGE, 0)


LIMITED = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}


@pytest.mark.parametrize("arguments", [{}, LIMITED, LIMITED | {"x-queue-type": "quorum"}])
def test_what_is_published_before_a_settlement_is_delivered_before_it(arguments: dict[str, Any]) -> None:
    """A message that is requeued behind them in one read is beyond no limit, as a consumer has room for all."""
    ch = connected(new_node()).channel()
    ch.declare("queue", durable=True, arguments=arguments)
    ch.declare("letters")
    ch.qos(10)
    ch.consume("queue")
    ch.publish("", "queue", b"1")
    assert ch.delivery().body == b"1"
    publishes = [
        codec.method_frame(ch.number, Basic.Publish, {"routing_key": "queue"})
        + codec.header_frame(ch.number, 1)
        + codec.body_frames(ch.number, b"%d" % number, 4_096)
        for number in (2, 3, 4)
    ]
    nack = codec.method_frame(ch.number, Basic.Nack, {"delivery_tag": 1, "requeue": True})
    ch.client.raw(b"".join([*publishes, nack]))
    assert [delivery.body for delivery in ch.deliveries(4)] == [b"2", b"3", b"4", b"1"]
    rejects = [codec.method_frame(ch.number, Basic.Reject, {"delivery_tag": tag}) for tag in (2, 3)]
    ch.client.raw(b"".join([publishes[0], *rejects, publishes[1]]))
    assert [delivery.body for delivery in ch.deliveries(2)] == [b"2", b"3"]
    assert ch.drain("letters") == ([b"2", b"3"] if arguments else [])


@pytest.mark.pure("replaces a method, which compiled callers do not look up")
def test_very_many_messages_are_acknowledged_slice_by_slice_and_not_one_by_one(monkeypatch: MonkeyPatch) -> None:
    for module in (acknowledge, settlements):
        monkeypatch.setattr(module, "TOGETHER", COUNT // 5)
    ch = channel_with_deliveries(1)
    runs: list[int] = []
    settle = BrokerQueue.settle

    def counted(queue: BrokerQueue, messages: list[Message]) -> None:
        runs.append(len(messages))
        settle(queue, messages)

    monkeypatch.setattr(BrokerQueue, "settle", counted)
    seconds(ch, "ack")
    pipe_of(ch.client).connection.node.scheduler.finish_all()
    assert sum(runs) == COUNT and len(runs) <= COUNT // SLICE + 2
