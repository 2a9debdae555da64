"""The firehose holds no step of the loop, however many messages it copies, and keeps few of them."""

import pytest

from tests.support.in_process import socket_of
from warren.broker.amqp.field_table import Table
from warren.broker.core.telemetry import firehose
from warren.broker.core.telemetry.firehose import QUEUES_BYTES
from warren.broker.core.vhost.vhost import VHost

from .broker import MeasuredPeer, StepMeter, fill
from .test_one_publish import NO_LIMIT, star
from .test_publishes import frames

MESSAGES = 4_000
TRACE = "amq.rabbitmq.trace"


@pytest.fixture(autouse=True)
def traced(peer: MeasuredPeer) -> None:
    peer.node.set_tracing("/", True)


def bind_traces(vhost: VHost, limit: int = 1_000_000) -> None:
    traces = vhost.declare_queue("traces", arguments=Table.of({"x-max-length": limit}))
    vhost.bind(TRACE, traces, "#", Table.EMPTY)


def test_very_many_deliveries_in_one_turn(peer: MeasuredPeer, step_meter: StepMeter, vhost: VHost) -> None:
    vhost.declare_queue("q")
    bind_traces(vhost)
    copied = vhost.queues["traces"]
    for _ in step_meter.attempts():
        fill(peer, "q", MESSAGES)
        peer.wait(0)
        before = copied.published
        channel = peer.connect().channel()
        step_meter.begin()
        channel.consume("q", no_ack=True)
        while vhost.queues["q"].ready or len(vhost.scheduler):
            socket_of(channel.client).outgoing.clear()
            peer.wait(0)
        assert copied.published == before + MESSAGES
        channel.client.close()


def test_a_publish_to_very_many_queues_names_the_first_ones(peer: MeasuredPeer, step_meter: StepMeter) -> None:
    vhost = peer.node.vhosts["/"]
    star("fanout", 10_000)(vhost)
    bind_traces(vhost)
    client = peer.connect()
    client.channel()
    for _ in step_meter.attempts():
        step_meter.begin()
        socket_of(client).incoming += frames("x", "k")
        peer.settle()
        peer.wait(0)
    *_, traced = vhost.queues["traces"].ready_messages.default.fresh
    headers = traced.properties.headers
    kind, names = headers.get("routed_queues") or ("", [])
    assert kind == "A" and isinstance(names, list)
    assert names == [("S", f"q{number}".encode()) for number in range(len(names))]
    assert QUEUES_BYTES - 20 < sum(5 + len(name) for _, name in names) <= QUEUES_BYTES


def test_publishes_and_deliveries_wait_while_very_many_copies_go_to_very_many_queues(
    peer: MeasuredPeer, step_meter: StepMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy costs much more than its message, so that a client could have more of them made than there is memory."""
    limit, count = 200_000, 3_000
    monkeypatch.setattr(firehose, "LIMIT_BYTES", limit)
    waiting: list[int] = []
    add = firehose.Firehose._add

    def record(self: firehose.Firehose, key: str, copy: firehose.Copy, size_bytes: int) -> None:
        add(self, key, copy, size_bytes)
        waiting.append(self._waiting_bytes)

    monkeypatch.setattr(firehose.Firehose, "_add", record)
    vhost = peer.node.vhosts["/"]
    star("fanout", 100, NO_LIMIT)(vhost)
    vhost.bind(TRACE, vhost.exchanges["x"], "#", Table.EMPTY)
    vhost.declare_queue("q")
    client = peer.connect()
    client.channel()
    reader = peer.connect().channel()
    reader.consume("q", no_ack=True)
    step_meter.begin()
    socket_of(client).incoming += frames("", "q") * count
    peer.settle()
    while len(vhost.scheduler) or vhost.queues["q"].ready or vhost.queues["q"].published < count:
        socket_of(reader.client).outgoing.clear()
        peer.wait(0)
    assert limit <= max(waiting) < 10 * limit and not vhost.held
    assert vhost.queues["q0"].published == 2 * count
    step_meter.check()
