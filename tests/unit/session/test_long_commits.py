"""Transactions with very many publishes, which are committed in slices."""

from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Channel, Tx

from tests.support.clock import FakeTimer
from tests.support.in_process import InProcessPeer
from warren.broker.core.exchanges.exchange_type import DESTINATIONS_SHIFT
from warren.broker.core.jobs.scheduler import TURN_COST
from warren.broker.core.queues.route_target import RouteTarget
from warren.broker.session.methods.publish import LOOKS, some_deleted
from warren.broker.session.transaction import PUBLISH_COST

MANY = 3 * TURN_COST // PUBLISH_COST


@pytest.fixture
def broker() -> InProcessPeer:
    return InProcessPeer()


def test_a_long_commit_is_answered_after_its_last_slice_and_keeps_the_order(broker: InProcessPeer) -> None:
    ch = broker.connect().channel()
    ch.declare("q")
    ch.transact()
    for number in range(MANY):
        ch.publish("", "q", b"%d" % number)
    queue = broker.node.vhosts["/"].queues["q"]
    lengths: list[int] = []
    call_at = broker.clock.call_at

    def counted(when_ms: int, fn: Callable[[], None]) -> FakeTimer:
        lengths.append(queue.ready)  # as each turn of jobs expects the next one
        return call_at(when_ms, fn)

    broker.clock.call_at = counted  # type: ignore[method-assign]
    ch.send(Tx.Commit)
    ch.publish("", "q", b"later")
    ch.send(Tx.Commit)
    for _ in range(2):
        assert isinstance(ch.next(), Tx.CommitOk)
    assert queue.ready == MANY + 1
    assert any(0 < length < MANY for length in lengths), "it was committed in one turn"
    for number in range(MANY):
        got = ch.get("q")
        assert got is not None and got.body == b"%d" % number
    got = ch.get("q")
    assert got is not None and got.body == b"later"


def test_settlements_follow_the_publishes_of_a_long_commit(broker: InProcessPeer) -> None:
    ch = broker.connect().channel()
    ch.declare("q")
    ch.fill("q", b"one", b"two")
    ch.consume("q")
    first = ch.deliveries(2)[0]
    ch.transact()
    for _ in range(MANY):
        ch.publish("", "other", b"x")
    ch.ack(first.method.delivery_tag)
    ch.call(Tx.Commit)
    assert broker.node.vhosts["/"].queues["q"].unacked == 1


def test_consumers_get_the_publishes_of_a_commit_before_its_requeues_count_for_a_limit(broker: InProcessPeer) -> None:
    consumer = broker.connect().channel()
    ch = broker.connect().channel()
    ch.declare("q", arguments={"x-max-length": 5})
    ch.fill("q", b"returned")
    ch.transact()
    got = ch.get("q", no_ack=False)
    assert got is not None
    consumer.consume("q")
    for number in range(20):
        ch.publish("", "q", b"%d" % number)
    ch.nack(got.tag)
    ch.commit()
    assert [each.body for each in consumer.deliveries(21)] == [*[b"%d" % number for number in range(20)], b"returned"]


def test_a_long_commit_that_a_queue_refuses_in_part_closes_the_channel(broker: InProcessPeer) -> None:
    client = broker.connect()
    ch = client.channel()
    ch.declare("q", arguments={"x-max-length": 10, "x-overflow": "reject-publish"})
    ch.transact()
    for _ in range(MANY):
        ch.publish("", "q", b"x")
    ch.send(Tx.Commit)
    close = ch.next()
    assert isinstance(close, Channel.Close)
    assert (close.reply_code, close.reply_text) == (406, "PRECONDITION_FAILED - partial tx completion")
    assert (close.class_id, close.method_id) == (90, 20)
    ch.send(Channel.CloseOk)
    assert client.channel().declare("q", passive=True).message_count == 10


def test_a_commit_looks_for_the_deleted_one_of_very_many_queues_in_steps() -> None:
    queues = [RouteTarget(str(at), 0, False) for at in range(2 * LOOKS + 1)]
    assert list(some_deleted(tuple(queues))) == 2 * [LOOKS >> DESTINATIONS_SHIFT]
    queues[-1].deleted = True
    steps = some_deleted(tuple(queues))
    assert [next(steps), next(steps)] == 2 * [LOOKS >> DESTINATIONS_SHIFT]
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value


def test_a_long_commit_goes_on_when_its_client_vanishes(broker: InProcessPeer) -> None:
    client = broker.connect()
    ch = client.channel()
    ch.declare("q")
    ch.transact()
    for _ in range(MANY):
        ch.publish("", "q", b"x")
        ch.publish("", "nowhere", b"x", mandatory=True)
    ch.send(Tx.Commit)
    client.vanish()
    broker.settle()
    assert broker.node.vhosts["/"].queues["q"].ready in (0, MANY), "all of it or nothing"
    assert isinstance(broker.connect().channel().call(Basic.Qos), Basic.QosOk)
