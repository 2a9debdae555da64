"""basic.get waits for messages that the store does not return now; get-empty says that there are none."""

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Silence
from tests.support.clock import fake_clock
from tests.support.session import SureJournal, connected, new_node, pipe_of
from warren.broker.core.messages.message import Message
from warren.broker.core.node.node import Node
from warren.broker.core.queues import ready_messages
from warren.broker.session.methods.basic import UNREADABLE_MS, UNREADABLE_RETRY_MS


class DeafJournal(SureJournal):
    """A journal that returns no messages while it is `away`, or none of those that it `refuses`."""

    away = refuses = False

    def read(self, ids: list[int], queue: int = 0) -> list[Message | None]:
        if self.away:
            return []
        return [None] * len(ids) if self.refuses else super().read(ids, queue)


class Scene:
    """A queue with one message in memory and two that are paged out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ready_messages, "PAGE_ABOVE", 0)
        self.journal = DeafJournal()
        self.node: Node = new_node(self.journal)
        self.node.ledger.limit_bytes = 0
        self.client = connected(self.node)
        self.ch: Channel = self.client.channel()
        self.ch.declare("queue", durable=True)
        self.ch.fill("queue", b"1", b"2", b"3", delivery_mode=2)
        assert self.node.vhosts["/"].queues["queue"].paged
        item = self.ch.get("queue")
        assert item is not None and item.body == b"1"

    def advance(self, ms: int) -> None:
        fake_clock(self.node.clock).advance(ms)

    def begin_get(self) -> None:
        self.ch.send(Basic.Get, queue="queue", no_ack=True)
        with pytest.raises(Silence):
            self.ch.next()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_get_waits_until_its_message_can_be_read(scene: Scene) -> None:
    scene.journal.away = True
    scene.begin_get()
    scene.ch.publish("", "queue", b"not lost either")
    scene.advance(UNREADABLE_MS - 1)
    with pytest.raises(Silence):
        scene.ch.next()
    scene.journal.away = False
    scene.advance(UNREADABLE_RETRY_MS)
    assert scene.ch.next().body == b"2"
    assert scene.ch.drain("queue") == [b"3", b"not lost either"]


@pytest.mark.parametrize("fault", ["away", "refuses"])
def test_a_get_that_has_waited_long_enough_closes_its_channel(scene: Scene, fault: str) -> None:
    setattr(scene.journal, fault, True)
    other = scene.client.channel()
    for _ in range(2):
        channel = scene.ch
        scene.begin_get()
        scene.advance(UNREADABLE_MS + UNREADABLE_RETRY_MS)
        closed = channel.expect_close(506)
        assert (closed.class_id, closed.method_id) == (60, 70) and "RESOURCE_ERROR - queue 'queue'" in closed.reply_text
        scene.ch = scene.client.channel()
    other.sync()
    assert other.count("queue") == 2, "those that cannot be read are counted"
    setattr(scene.journal, fault, False)
    scene.advance(20_000)
    assert scene.ch.drain("queue") == [b"2", b"3"]


def test_a_get_ends_with_its_queue_and_with_its_connection(scene: Scene) -> None:
    scene.journal.away = True
    scene.begin_get()
    deleter = connected(scene.node).channel()
    assert deleter.call(Queue.Delete, queue="queue").message_count == 2
    scene.advance(UNREADABLE_RETRY_MS)
    scene.ch.expect_close(404)
    scene.client.vanish()
    scene.advance(UNREADABLE_MS)
    assert not scene.node.open_connections - 1


def test_a_connection_that_is_lost_while_its_get_waits_is_released(scene: Scene) -> None:
    scene.journal.away = True
    scene.begin_get()
    pipe_of(scene.client).close()
    scene.advance(UNREADABLE_MS)
    assert not scene.node.open_connections
    scene.journal.away = False
    assert connected(scene.node).channel().drain("queue") == [b"2", b"3"]


def test_a_purge_counts_messages_that_cannot_be_read(scene: Scene) -> None:
    scene.journal.refuses = True
    scene.begin_get()
    assert connected(scene.node).channel().call(Queue.Purge, queue="queue").message_count == 2
    scene.advance(UNREADABLE_RETRY_MS)
    assert scene.ch.next().name == "Basic.GetEmpty"
