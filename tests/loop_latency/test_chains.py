"""Messages that pass through very many queues hold no step of the loop, and their headers stay below frame_max."""

import pytest

from warren.broker.amqp.field_table import Table, check
from warren.broker.amqp.framing import FRAME_OVERHEAD
from warren.broker.core.vhost.vhost import VHost

from .broker import MeasuredPeer, StepMeter

QUEUES = 300
MESSAGES = 5


def name(number: int) -> str:
    return f"{number:200}"  # long names make long headers


def chain(vhost: VHost, after_last: int = QUEUES) -> None:
    """Queues with a time to live of 0, each with the next one as its dead letter queue, and one that keeps messages."""
    vhost.declare_queue(name(QUEUES))
    for number in range(QUEUES):
        following = name(number + 1 if number < QUEUES - 1 else after_last)
        arguments = {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": following}
        vhost.declare_queue(name(number), arguments=Table.of(arguments))


def test_messages_pass_a_chain_of_queues_in_order_and_in_many_steps(step_meter: StepMeter) -> None:
    for peer in step_meter.peers():
        chain(peer.node.vhosts["/"])
        channel = peer.connect().channel()
        step_meter.begin()
        for number in range(MESSAGES):
            channel.publish("", name(0), str(number).encode())
        peer.wait(0)
        assert channel.drain(name(QUEUES)) == [str(number).encode() for number in range(MESSAGES)]


def test_the_headers_of_a_chain_stay_short(step_meter: StepMeter) -> None:
    """A consumer with the least frame_max gets the latest entries of x-death; no frame is longer than it allows."""
    peer = MeasuredPeer(step_meter)
    chain(peer.node.vhosts["/"])
    peer.connect().channel().publish("", name(0), b"x", {"headers": {"own": "kept"}, "correlation_id": "c"})
    peer.wait(0)
    [message] = peer.node.vhosts["/"].queues[name(QUEUES)].ready_messages.default.fresh
    assert len(message.property_bytes) < 1 << 15
    check(message.headers.raw)
    entries = message.headers.get("x-death")
    assert entries is not None and isinstance(entries[1], list)
    assert message.headers.integer("x-death-omitted") == QUEUES - len(entries[1]) > 0
    content = peer.connect(frame_max=4096).channel().get(name(QUEUES))
    assert content is not None and len(content.header) <= 4096 - FRAME_OVERHEAD
    deaths = content.headers["x-death"]
    assert [death["queue"] for death in deaths] == [name(QUEUES - 1 - number) for number in range(len(deaths))]
    assert content.headers["own"] == "kept" and content.properties.correlation_id == "c"
    assert content.headers["x-first-death-queue"] == name(0)
    peer.close()


@pytest.mark.parametrize("returns_to", [0, 1, QUEUES // 5, QUEUES - 3])
def test_a_cycle_in_which_messages_expire_at_once_ends(step_meter: StepMeter, returns_to: int) -> None:
    """The message is dropped, as in RabbitMQ, although x-death has no entry of most of its queues."""
    peer = MeasuredPeer(step_meter)
    vhost = peer.node.vhosts["/"]
    chain(vhost, after_last=returns_to)
    peer.connect().channel().publish("", name(0), b"x")
    peer.wait(0)
    assert not any(queue.ready for queue in vhost.queues.values()) and not len(peer.node.scheduler)
    assert sum(queue.expired for queue in vhost.queues.values()) < 4 * QUEUES
    peer.close()
