"""The delivery acknowledgement timeout."""

import pytest

from tests.support.amqp_client import Channel, Client
from tests.support.in_process import InProcessPeer

pytestmark = pytest.mark.in_process("time passes")

TEXT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: {} ms. "
    "This timeout value can be configured, see consumers doc guide to learn more"
)
MINUTE_MS = 60_000


def expect_timeout(ch: Channel, ms: int) -> None:
    closed = ch.expect_close(406)
    assert closed.reply_text == TEXT.format(ms)
    assert (closed.class_id, closed.method_id) == (0, 0)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize(("minutes", "of"), [(3, "policy"), (2, "queue"), (5, "consumer"), (30, "nobody")])
def test_who_settles_nothing_is_closed(broker: InProcessPeer, client: Client, kind: str, minutes: int, of: str) -> None:
    ch, other, argument = client.channel(), client.channel(), {"x-consumer-timeout": minutes * MINUTE_MS}
    if of == "policy":
        broker.set_policy("timeout", "q", {"consumer-timeout": minutes * MINUTE_MS})
    ch.declare("q", durable=True, arguments={"x-queue-type": kind, **(argument if of == "queue" else {})})
    ch.publish("", "q", b"one")
    ch.consume("q", arguments=argument if of == "consumer" else {})
    ch.delivery()
    broker.wait((minutes - 1) * MINUTE_MS)
    ch.sync()
    broker.wait(3 * MINUTE_MS)
    expect_timeout(ch, minutes * MINUTE_MS)
    got = other.get("q")
    assert got is not None and got.redelivered and got.body == b"one"


def test_who_settles_in_time_goes_on(broker: InProcessPeer, ch: Channel, queue: str) -> None:
    broker.set_policy("timeout", ".*", {"consumer-timeout": 10_000})
    ch.consume(queue)
    for _ in range(30):
        ch.publish("", queue, b"one")
        tag = ch.delivery().tag
        broker.wait(9_000)
        ch.ack(tag)
    ch.sync()


def test_what_is_not_to_be_acknowledged_is_never_overdue(broker: InProcessPeer, ch: Channel, queue: str) -> None:
    broker.set_policy("timeout", ".*", {"consumer-timeout": 1000})
    ch.consume(queue, no_ack=True)
    ch.publish("", queue, b"one")
    ch.delivery()
    broker.wait(5 * MINUTE_MS)
    ch.sync()


def test_one_delivery_that_is_forgotten_among_many_is_found(broker: InProcessPeer, ch: Channel, queue: str) -> None:
    broker.set_policy("timeout", ".*", {"consumer-timeout": 60_000})
    ch.consume(queue)
    ch.publish("", queue, b"forgotten")
    ch.delivery()
    for _ in range(5):
        ch.publish("", queue, b"settled")
        ch.ack(ch.delivery().tag)
        broker.wait(10_000)
        ch.sync()
    broker.wait(100_000)
    expect_timeout(ch, 60_000)


def test_what_a_cancelled_consumer_left_is_overdue_too(broker: InProcessPeer, ch: Channel, queue: str) -> None:
    broker.set_policy("timeout", ".*", {"consumer-timeout": 1000})
    ch.publish("", queue, b"one")
    tag = ch.consume(queue)
    ch.delivery()
    ch.cancel(tag)
    broker.wait(2 * MINUTE_MS)
    expect_timeout(ch, 1000)
