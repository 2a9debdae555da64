"""Closed connections and channels and deleted queues are freed by reference counts, without a full collection.

A full collection visits every object of the broker in one turn of the loop, and clients may close and delete very many.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pamqp.commands import Basic, Queue
from pamqp.commands import Queue as QueueMethods

from tests.support.amqp_client import Client
from tests.support.in_process import InProcessPeer, socket_of
from tests.support.session import operator_channel
from warren.broker.app.build import build_settings
from warren.broker.session.internal_publisher import InternalPublisher

LETTERS: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}


@pytest.fixture
def peer() -> Iterator[InProcessPeer]:
    made = InProcessPeer()
    gc.collect()
    gc.disable()
    yield made
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def garbage() -> Counter[str]:
    """Collect what reference counts did not free; return the types of the broker's objects among it."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    return Counter(type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("warren."))


def with_consumers(client: Client) -> None:
    channel = client.channel()
    channel.declare("q", exclusive=True)
    channel.consume("q")
    channel.consume("amq.rabbitmq.reply-to", no_ack=True)
    channel.fill("q", b"x")
    channel.delivery()


def in_a_transaction(client: Client) -> None:
    channel = client.channel()
    channel.transact()
    channel.publish("", "nothing", b"x")


def with_confirms(client: Client) -> None:
    channel = client.channel()
    channel.confirm()
    channel.publish("", "nothing", b"x")
    channel.sync()


def after_an_error(client: Client) -> None:
    client.channel().refused(404, QueueMethods.Declare, queue="nothing", passive=True)


def after_closing_channels(client: Client) -> None:
    for _ in range(3):
        client.channel().close()


def after_deleting_queues(client: Client) -> None:
    channel = client.channel()
    timed: dict[str, object] = {"x-message-ttl": 1000, "x-expires": 5000, "x-max-priority": 5}
    kinds: list[dict[str, object]] = [{}, timed, LETTERS]
    for arguments in kinds:
        for delivered in (False, True):
            channel.declare("q", arguments=arguments)
            channel.bind("q", "amq.fanout")
            channel.fill("q", b"x", b"y", b"z")
            if delivered:
                channel.get("q", no_ack=False)
                channel.reject_next("q")
            channel.delete("q")


@pytest.mark.parametrize(
    "use",
    [*(with_consumers, in_a_transaction, with_confirms, after_an_error, after_closing_channels), after_deleting_queues],
)
def test_objects_of_a_connection_are_freed_when_it_closes(peer: InProcessPeer, use: Callable[[Client], None]) -> None:
    client = peer.connect()
    use(client)
    client.vanish()
    peer._sockets.clear()
    peer.wait(10_000)
    assert not garbage()


def test_objects_of_a_refused_login_are_freed(peer: InProcessPeer) -> None:
    client = peer.dial("127.0.0.1")
    client.start()
    client.login("PLAIN", "\0guest\0wrong")
    client.expect_close(403)
    client.vanish()
    peer._sockets.clear()
    peer.wait(10_000)
    assert not garbage()


def publish_within(peer: InProcessPeer) -> None:
    settings, vhost = build_settings(peer.config), peer.node.vhosts["/"]
    publisher = InternalPublisher(peer.node, settings, vhost, "link", lambda *_: None, lambda fn: fn(), lambda: None)
    assert publisher.publish("amq.fanout", "", [(bytes(2), 0, b"")]).count == 1
    publisher.close()


def operate(peer: InProcessPeer) -> None:
    channel = operator_channel(peer.node, peer.node.users.find("guest"))
    channel.declare_queue("q")
    channel.delete_queue("q")
    channel.close()


@pytest.mark.parametrize("use", [publish_within, operate])
def test_objects_of_the_broker_itself_are_freed(peer: InProcessPeer, use: Callable[[InProcessPeer], None]) -> None:
    use(peer)
    peer.wait(10_000)
    assert not garbage()


def test_a_refused_reply_consumer_leaves_no_reply_queue() -> None:
    broker = InProcessPeer()
    ch = broker.connect().channel()
    ch.send(Basic.Consume, queue="amq.rabbitmq.reply-to", no_ack=True, arguments={"x-priority": "high"})
    ch.expect_close(406)
    assert not broker.node.vhosts["/"].reply_queues


@pytest.mark.parametrize("end", [Queue.Delete, Queue.Purge])
def test_a_held_publisher_is_free_when_its_queue_is_emptied_or_gone(end: type[Queue.Delete | Queue.Purge]) -> None:
    """The consumer of the queue takes nothing."""
    broker = InProcessPeer()
    publisher, ch = broker.connect(), broker.connect().channel()
    ch.declare("queue")
    ch.qos(1)
    ch.consume("queue")
    publisher.channel().fill("queue", *[b""] * 9000)
    throttle = broker.server.connections[socket_of(publisher).transport].publisher_throttle
    assert throttle.queues
    ch.call(end, queue="queue")
    assert not throttle.queues
