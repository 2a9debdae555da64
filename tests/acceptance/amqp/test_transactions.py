"""Transactions."""

import pytest
from pamqp.commands import Basic, Tx

from tests.support.amqp_client import Channel, Client, Content
from tests.support.peer import Name

from .numbers import fill


def get_tags(ch: Channel, queue: str, count: int) -> list[int]:
    """Get `count` messages, and return their tags."""
    return [ch.get(queue, no_ack=False).tag for _ in range(count)]


def remaining(ch: Channel, queue: str) -> list[bytes]:
    """Return the contents of the queue after the channel is closed."""
    ch.close()
    return ch.client.channel().drain(queue)


def test_publishes_appear_at_the_commit(client: Client, ch: Channel, queue: str) -> None:
    ch.transact()
    for body in (b"1", b"2"):
        ch.publish("", queue, body)
    ch.sync()
    other = client.channel()
    assert other.count(queue) == 0
    assert ch.get(queue) is None
    ch.commit()
    assert other.drain(queue) == [b"1", b"2"]
    ch.commit()
    assert other.count(queue) == 0


def test_publishes_are_forgotten_at_the_rollback(client: Client, ch: Channel, queue: str) -> None:
    ch.transact()
    ch.publish("", queue, b"forgotten")
    ch.rollback()
    ch.publish("", queue, b"kept")
    ch.transact()  # again: it goes on
    ch.commit()
    assert client.channel().drain(queue) == [b"kept"]
    ch.publish("", queue, b"forgotten as the channel closes")
    assert remaining(ch, queue) == []


def test_publishes_are_validated_at_once(ch: Channel) -> None:
    ch.transact()
    ch.publish("missing", "key", b"body")
    ch.expect_close(404)


def test_publishes_are_delivered_in_order_with_others_in_between(client: Client, ch: Channel, queue: str) -> None:
    ch.transact()
    other = client.channel()
    for at in range(10):
        ch.publish("", queue, b"tx %d" % at)
        other.publish("", queue, b"plain %d" % at)
    other.sync()
    ch.commit()
    assert other.drain(queue) == [b"plain %d" % at for at in range(10)] + [b"tx %d" % at for at in range(10)]


@pytest.mark.parametrize(("steps", "back", "left"), [
    ("ack 3, ack 1, commit", "", "24"),
    ("ack 1, ack 2, ack 3", "", "1234"),  # and the channel closes
    ("ack 2, ack 4, ack 1, rollback, ack 4, ack 1, ack 2, commit", "", "3"),
    ("ack 3, ack 1, rollback, ack 3 multiple, commit", "", "4"),
    ("ack 0 multiple, commit", "", ""),
    ("nack 2 multiple, ack 3, reject 4 drop, commit", "12", ""),
    ("nack 1, nack 2 drop, commit", "1", "34"),
    ("reject 1, reject 2 drop, commit", "1", "34"),
    ("nack 1 drop, nack 2, rollback, ack 2, commit", "", "134"),
    ("reject 1 drop, reject 2, rollback, ack 2, commit", "", "134"),
])  # fmt: skip
def test_a_commit_settles_messages(client: Client, ch: Channel, queue: str, steps: str, back: str, left: str) -> None:
    fill(ch, queue, 4)
    ch.transact()
    get_tags(ch, queue, 4)
    other = client.channel()
    for verb, *words in map(str.split, steps.split(",")):
        assert other.count(queue) == 0
        if words:
            more = {"multiple": True} if "multiple" in words else {"requeue": False} if "drop" in words else {}
            getattr(ch, verb)(int(words[0]), **more)
            ch.sync()
        else:
            getattr(ch, verb)()
    assert other.drain(queue) == [b"%d" % int(number) for number in back]
    assert remaining(ch, queue) == [b"%d" % int(number) for number in left]


@pytest.mark.parametrize("method", [Tx.Commit, Tx.Rollback])
def test_there_is_nothing_to_end_without_select(ch: Channel, method: type) -> None:
    assert ch.refused(406, method).reply_text == "PRECONDITION_FAILED - channel is not transactional"


def test_messages_return_at_the_commit(ch: Channel) -> None:
    ch.transact()
    ch.publish("", "nowhere", b"1", mandatory=True)
    ch.publish("", "nowhere", b"2", mandatory=True)
    ch.nothing()
    ch.send(Tx.Commit)
    first, second, last = ch.next(), ch.next(), ch.next()
    assert isinstance(first, Content) and isinstance(second, Content) and isinstance(last, Tx.CommitOk)
    got = [first.method.name, first.body, second.method.name, second.body]
    assert got == ["Basic.Return", b"1", "Basic.Return", b"2"]
    ch.publish("", "nowhere", b"body", mandatory=True)
    ch.rollback()
    ch.commit()
    ch.nothing()


def test_recover_leaves_what_was_acknowledged(ch: Channel, queue: str) -> None:
    fill(ch, queue, 2)
    ch.transact()
    ch.ack(get_tags(ch, queue, 2)[0])
    ch.call(Basic.Recover, requeue=True)
    again = ch.get(queue, no_ack=False)
    assert again is not None and (again.body, again.redelivered) == (b"2", True)
    assert ch.get(queue) is None
    ch.ack(again.tag)
    ch.commit()
    assert remaining(ch, queue) == []


def test_consuming_without_acknowledgement_is_no_part_of_a_transaction(ch: Channel, queue: str) -> None:
    fill(ch, queue, 2)
    ch.transact()
    assert ch.get(queue, no_ack=True) is not None
    ch.rollback()
    assert remaining(ch, queue) == [b"2"]


@pytest.mark.parametrize("mandatory", [False, True])
@pytest.mark.parametrize("again", [False, True], ids=["deleted", "declared again"])
@pytest.mark.parametrize("exchange", ["", "amq.direct"])
def test_a_commit_fails_if_a_queue_was_deleted_since_the_publish(
    client: Client, ch: Channel, queue: str, name: Name, exchange: str, again: bool, mandatory: bool
) -> None:
    """Others have all that was published, and what was acknowledged is; nothing is returned."""
    fill(ch, queue, 1)
    ch.declare(gone := name("gone"))
    ch.transact()
    if exchange:
        for each in (gone, queue):
            ch.bind(each, exchange, gone)
    headers = {} if exchange else {"headers": {"CC": [queue]}}
    ch.publish(exchange, gone, b"to both", headers, mandatory=mandatory)
    ch.publish("", gone, b"to one", mandatory=mandatory)
    ch.publish("", queue, b"last")
    ch.ack(get_tags(ch, queue, 1)[0])
    other = client.channel()
    other.delete(gone)
    if again:
        other.declare(gone)
    assert ch.refused(406, Tx.Commit).reply_text == "PRECONDITION_FAILED - partial tx completion"
    assert other.drain(queue) == [b"to both", b"last"]
    if again:
        assert other.count(gone) == 0


@pytest.mark.differs("a quorum queue is found by its name: without one, the message is lost and the commit succeeds")
def test_a_commit_fails_if_a_quorum_queue_was_deleted_since(client: Client, ch: Channel, name: Name) -> None:
    ch.declare(gone := name("gone"), durable=True, arguments={"x-queue-type": "quorum"})
    ch.transact()
    ch.publish("", gone, b"lost")
    ch.sync()
    client.channel().delete(gone)
    ch.refused(406, Tx.Commit)


def test_a_commit_succeeds_if_a_reply_queue_is_gone(client: Client, ch: Channel) -> None:
    asker = client.consumer("amq.rabbitmq.reply-to", no_ack=True)
    asker.publish("", queue := ch.declare().queue, b"question", {"reply_to": "amq.rabbitmq.reply-to"})
    question = ch.get(queue)
    ch.transact()
    ch.publish("", str(question.properties.reply_to), b"answer")
    ch.sync()
    asker.close()
    ch.commit()


def test_a_failed_commit_delivers_before_its_channel_returns_others(client: Client, ch: Channel, name: Name) -> None:
    """The consumer gets the message, so the limit does not drop what comes back."""
    ch.declare(queue := name("queue"), arguments={"x-max-length": 1})
    ch.declare(full := name("full"), arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    fill(ch, queue, 1)
    get_tags(ch, queue, 1)
    consumer = client.consumer(queue, prefetch=1)
    ch.transact()
    ch.publish("", queue, b"published")
    ch.publish("", full, b"refused")
    ch.refused(406, Tx.Commit)
    delivery = consumer.delivery()
    assert delivery.body == b"published"
    consumer.ack(delivery.tag)
    assert consumer.delivery().body == b"1"
