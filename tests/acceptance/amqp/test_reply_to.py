"""Direct reply-to."""

import re
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Client, Content
from tests.support.in_process import InProcessPeer
from tests.support.peer import Peer

REPLY_TO = "amq.rabbitmq.reply-to"


def send_request(ch: Channel, replier: Channel, queue: str, body: bytes = b"question") -> str:
    """Send a request with direct reply-to, and return the name that the replier gets."""
    ch.publish("", queue, body, {"reply_to": REPLY_TO, "correlation_id": "1"})
    ch.sync()
    question = replier.get(queue)
    assert question is not None and question.properties.correlation_id == "1"
    name = str(question.properties.reply_to)
    assert re.fullmatch(r"amq\.rabbitmq\.reply-to\.[\w-]+\.[\w-]+==", name)
    return name


def exists(client: Client, queue: str) -> bool:
    probe = client.channel()
    probe.send(Queue.Declare, queue=queue, passive=True)
    reply = probe.next()
    assert reply.name == "Queue.DeclareOk" or reply.reply_code == 404
    if reply.name == "Queue.DeclareOk":
        assert (reply.queue, reply.message_count, reply.consumer_count) == (queue, 0, 1)
        return True
    return False


def test_a_reply_comes_straight_to_the_asking_channel(broker: Peer, ch: Channel, queue: str) -> None:
    other = broker.connect()
    replier = other.channel()
    tag = ch.consume(REPLY_TO, no_ack=True)
    reply_to = send_request(ch, replier, queue)
    assert exists(other, reply_to)
    replier.publish("", reply_to, b"answer", {"correlation_id": "1"})
    answer = ch.delivery()
    assert (answer.body, answer.properties.correlation_id) == (b"answer", "1")
    assert (answer.method.consumer_tag, answer.method.exchange, answer.method.routing_key) == (tag, "", reply_to)
    assert (answer.tag, answer.redelivered) == (1, False)
    ch.close()
    assert not exists(other, reply_to)


@pytest.mark.differs("the delivered message also returns")
def test_a_mandatory_reply_does_not_return_while_someone_waits(broker: Peer, ch: Channel, queue: str) -> None:
    replier = broker.connect().channel()
    tag = ch.consume(REPLY_TO, no_ack=True)
    reply_to = send_request(ch, replier, queue)
    replier.confirm()
    replier.publish("", reply_to, b"answer", mandatory=True)
    assert replier.confirms([1]) == ({1}, set())
    assert ch.delivery().body == b"answer"
    ch.cancel(tag)
    replier.publish("", reply_to, b"late", mandatory=True)
    back = replier.next()
    assert isinstance(back, Content) and (back.method.reply_code, back.body) == (312, b"late")
    assert replier.confirms([2]) == ({2}, set())


def test_each_channel_has_a_name_of_its_own(broker: Peer, client: Client, queue: str) -> None:
    replier = broker.connect().channel()
    channels = [client.channel() for _ in range(3)]
    names = []
    for channel in channels:
        channel.consume(REPLY_TO, no_ack=True)
        names.append(send_request(channel, replier, queue))
    assert len(set(names)) == 3
    for at, reply_to in enumerate(names):
        replier.publish("", reply_to, str(at).encode())
    assert [channel.delivery().body for channel in channels] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("forge", ["xxxxx", "", "longer"])
def test_a_forged_name_is_unknown(broker: Peer, ch: Channel, queue: str, forge: str) -> None:
    other = broker.connect()
    replier = other.channel()
    ch.consume(REPLY_TO, no_ack=True)
    name = send_request(ch, replier, queue)
    forged = {"xxxxx": name[:-5] + "xxxxx", "": name[:-5], "longer": name + "x"}[forge]
    assert not exists(other, forged)
    replier.publish("", forged, b"forged")
    replier.sync()
    ch.nothing()


def test_a_reply_name_is_no_queue_to_get_from(client: Client, ch: Channel, queue: str) -> None:
    ch.consume(REPLY_TO, no_ack=True)
    reply_to = send_request(ch, client.channel(), queue)
    client.channel().refused(404, Basic.Get, queue=reply_to)
    client.channel().refused(404, Basic.Get, queue=REPLY_TO)


def test_replies_cannot_be_acknowledged(ch: Channel) -> None:
    closed = ch.refused(406, Basic.Consume, queue=REPLY_TO)
    assert closed.reply_text == "PRECONDITION_FAILED - reply consumer cannot acknowledge"


def test_a_channel_has_one_reply_consumer(ch: Channel) -> None:
    ch.consume(REPLY_TO, no_ack=True)
    closed = ch.refused(406, Basic.Consume, queue=REPLY_TO, no_ack=True)
    assert closed.reply_text == "PRECONDITION_FAILED - reply consumer already set"


def test_a_reply_consumer_shares_the_tags_of_its_channel(ch: Channel, queue: str) -> None:
    ch.consume(queue, consumer_tag="tag")
    ch.refused(530, Basic.Consume, queue=REPLY_TO, consumer_tag="tag", no_ack=True)


def test_asking_without_a_reply_consumer_is_refused(ch: Channel, queue: str) -> None:
    ch.publish("", queue, b"question", {"reply_to": REPLY_TO})
    assert ch.expect_close(406).reply_text == "PRECONDITION_FAILED - fast reply consumer does not exist"


def test_another_reply_to_is_left_alone(ch: Channel, queue: str) -> None:
    ch.publish("", queue, b"question", {"reply_to": "amq.rabbitmq.reply-to.mine"})
    question = ch.get(queue)
    assert question is not None and question.properties.reply_to == "amq.rabbitmq.reply-to.mine"


def test_a_cancelled_reply_consumer_may_be_set_again(broker: Peer, ch: Channel, queue: str) -> None:
    replier = broker.connect().channel()
    for _ in range(2):
        tag = ch.consume(REPLY_TO, no_ack=True)
        replier.publish("", send_request(ch, replier, queue), b"answer")
        assert ch.delivery().body == b"answer"
        ch.cancel(tag)
    ch.nothing()


@pytest.mark.differs("404 before 4.3")
@pytest.mark.parametrize("method", [Queue.Bind, Queue.Unbind])
def test_a_reply_name_cannot_be_bound(client: Client, ch: Channel, queue: str, method: type) -> None:
    ch.consume(REPLY_TO, no_ack=True)
    reply_to = send_request(ch, client.channel(), queue)
    closed = ch.refused(403, method, queue=reply_to, exchange="amq.direct", routing_key="key")
    assert closed.reply_text == "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue"


@pytest.mark.in_process("looks at the cache of routes")
def test_a_reply_queue_ends_the_cached_routes_to_itself_alone(broker: Peer, ch: Channel, queue: str) -> None:
    assert isinstance(broker, InProcessPeer)
    vhost = broker.node.vhosts["/"]
    client, replier = broker.connect(), broker.connect().channel()
    asker = client.channel()
    ch.publish("amq.fanout", queue, b"dropped")
    ch.sync()
    cached = [routes.copy() for routes in vhost.routes.values()]
    for _ in range(2):
        asker.consume(REPLY_TO, no_ack=True, consumer_tag="replies")
        reply_to = send_request(asker, replier, queue)
        for mandatory in (True, False):
            replier.publish("", reply_to, b"answer", mandatory=mandatory)
            assert asker.delivery().body == b"answer"
        asker.cancel("replies")
        replier.publish("", reply_to, b"late", mandatory=True)
        returned = replier.next()
        assert isinstance(returned, Content) and isinstance(returned.method, Basic.Return)
        for before, routes in zip(cached, vhost.routes.values(), strict=True):
            assert before.items() <= routes.items(), "no other route has to be found again"


@pytest.mark.parametrize("passive", [False, True])
@pytest.mark.parametrize("consuming", [False, True])
@pytest.mark.parametrize(
    "flags",
    [{}, {"durable": True}, {"exclusive": True}, {"auto_delete": True}, {"arguments": {"x-queue-type": "quorum"}}],
    ids=str,
)
def test_the_pseudo_queue_can_be_declared(ch: Channel, passive: bool, consuming: bool, flags: dict[str, Any]) -> None:
    if consuming:
        ch.consume(REPLY_TO, no_ack=True)
    reply = ch.call(Queue.Declare, queue=REPLY_TO, passive=passive, **flags)
    assert (reply.queue, reply.message_count, reply.consumer_count) == (REPLY_TO, 0, 1)


def test_the_pseudo_queue_may_be_the_queue_declared_last(broker: Peer, ch: Channel, queue: str) -> None:
    ch.send(Queue.Declare, queue=REPLY_TO, nowait=True)
    ch.consume("", no_ack=True)
    broker.connect().channel().publish("", send_request(ch, ch, queue), b"answer")
    assert ch.delivery().body == b"answer"
    ch.refused(404, Basic.Get, queue="")


@pytest.mark.parametrize("name", [REPLY_TO + ".", REPLY_TO + ".x", REPLY_TO + "x"])
@pytest.mark.parametrize("passive", [False, True])
def test_declaring_a_reply_queue_without_consumer_is_refused(ch: Channel, name: str, passive: bool) -> None:
    closed = ch.refused(404, Queue.Declare, queue=name, passive=passive)
    assert closed.reply_text == f"NOT_FOUND - no queue '{name}' in vhost '/'"
