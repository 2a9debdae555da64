"""Sharding: queues that a policy gives to an exchange, and clients that consume from the exchange's name."""

import pytest
from pamqp.commands import Basic, Queue

from tests.support.amqp_client import Channel, Client
from tests.support.peer import Name, Peer

pytestmark = pytest.mark.policies


def shards(ch: Channel, exchange: str, count: int) -> list[str]:
    """Return the names of the first shards of an exchange; a declaration of its own name returns one."""
    start = str(ch.declare(exchange, passive=True).queue).rpartition(" ")[0]
    return [f"{start} {number}" for number in range(count)]


def is_there(client: Client, queue: str) -> bool:
    ch = client.channel()
    ch.send(Queue.Declare, queue=queue, passive=True)
    return isinstance(ch.next(), Queue.DeclareOk)


def test_an_exchange_has_the_shards_of_its_policy(broker: Peer, client: Client, ch: Channel, name: Name) -> None:
    broker.set_policy(name("p"), name("x"), {"shards-per-node": 3}, apply_to="exchanges")
    ch.exchange(x := name("x"), "fanout", durable=True)
    ch.publish(x, "key", b"body")
    ch.sync()
    assert [ch.count(queue) for queue in shards(ch, x, 3)] == [1, 1, 1]
    assert not is_there(client, shards(ch, x, 4)[-1])
    ch.declare(shards(ch, x, 1)[0], durable=True)


def test_an_exchange_gets_shards_with_a_later_policy_and_more_with_another(
    broker: Peer, client: Client, ch: Channel, name: Name
) -> None:
    ch.exchange(x := name("x"), "fanout", durable=True)
    assert not is_there(client, x)
    broker.set_policy(name("p"), x, {"shards-per-node": 1}, apply_to="exchanges")
    broker.set_policy(name("p"), x, {"shards-per-node": 3}, apply_to="exchanges")
    ch.publish(x, "", b"1")
    ch.sync()
    assert [ch.count(queue) for queue in shards(ch, x, 3)] == [1, 1, 1]
    broker.set_policy(name("p"), x, {"shards-per-node": 1}, apply_to="exchanges")
    ch.publish(x, "", b"2")
    ch.sync()
    assert [ch.count(queue) for queue in shards(ch, x, 3)] == [2, 2, 2], "they may have messages"
    assert [message.body for message in ch.get_all(x)] == [b"1", b"2"], "of the first one"
    assert ch.get(x) is None


def test_the_routing_key_of_the_bindings_changes_with_the_policy(broker: Peer, ch: Channel, name: Name) -> None:
    ch.exchange(x := name("x"), "direct", durable=True)
    counts = []
    for definition in ({"shards-per-node": 1}, {"shards-per-node": 1, "routing-key": "key"}):
        broker.set_policy(name("p"), x, definition, apply_to="exchanges")
        for key in ("", "key", "undefined"):
            ch.publish(x, key, key.encode())
        ch.sync()
        counts.append(ch.drain(x))
    assert counts[1] == [b"key"]
    assert counts[0] == [b""]


def test_shards_stay_without_their_bindings_when_the_policy_ends(
    broker: Peer, client: Client, ch: Channel, name: Name
) -> None:
    broker.set_policy(name("p"), name("x"), {"shards-per-node": 2}, apply_to="exchanges")
    ch.exchange(x := name("x"), "fanout", durable=True)
    ch.publish(x, "", b"before")
    ch.sync()
    queues = shards(ch, x, 2)
    broker.clear_policy(name("p"))
    ch.publish(x, "", b"after")
    assert [ch.drain(queue) for queue in queues] == [[b"before"]] * 2
    ch.declare(x)  # a queue like any other
    ch.delete(x)


def test_shards_stay_when_the_exchange_is_deleted(broker: Peer, ch: Channel, name: Name) -> None:
    broker.set_policy(name("p"), name("x"), {"shards-per-node": 1}, apply_to="exchanges")
    ch.exchange(x := name("x"), "fanout", durable=True)
    ch.publish(x, "", b"body")
    ch.sync()
    (queue,) = shards(ch, x, 1)
    ch.delete_exchange(x)
    assert ch.drain(queue) == [b"body"]


def test_each_consumer_gets_the_shard_with_the_fewest(broker: Peer, client: Client, ch: Channel, name: Name) -> None:
    broker.set_policy(name("p"), name("x"), {"shards-per-node": 3}, apply_to="exchanges")
    ch.exchange(x := name("x"), "fanout", durable=True)
    queues = shards(ch, x, 3)
    channels = [client.channel() for _ in range(4)]
    tags = [channel.consume(x, no_ack=True) for channel in channels]
    for queue, consumers in zip(queues, (2, 1, 1), strict=True):
        assert ch.declare(queue, passive=True).consumer_count == consumers
    ch.publish(x, "", b"body")
    assert [channel.delivery().body for channel in channels[1:3]] == [b"body"] * 2
    channels[1].cancel(tags[1])
    client.channel().consume(x)
    assert ch.declare(queues[1], passive=True).consumer_count == 1


def test_a_declaration_of_the_exchanges_name_is_that_of_its_first_shard(
    broker: Peer, client: Client, ch: Channel, name: Name
) -> None:
    broker.set_policy(name("p"), name("x"), {"shards-per-node": 2}, apply_to="exchanges")
    ch.exchange(x := name("x"), "fanout", durable=True)
    first, _ = shards(ch, x, 2)
    client.channel().consume(x)
    assert [ch.declare(x, **flags).queue for flags in ({"passive": True}, {"durable": True})] == [first] * 2
    ch.publish(x, "", b"body")
    ch.sync()
    assert ch.drain("") == [], "the queue declared last is the first shard, which has a consumer"
    assert ch.drain(x) == [b"body"]
    ch.refused(406, Queue.Declare, queue=x)


@pytest.mark.parametrize("kind", [Queue.Bind, Queue.Unbind, Queue.Purge, Queue.Delete])
def test_the_name_of_a_sharded_exchange_is_no_queue_for_other_methods(
    broker: Peer, ch: Channel, name: Name, kind: type
) -> None:
    broker.set_policy(name("p"), name("x"), {"shards-per-node": 1}, apply_to="exchanges")
    ch.exchange(x := name("x"), "fanout", durable=True)
    closed = ch.refused(
        406, kind, queue=x, **({"exchange": "amq.direct"} if kind in (Queue.Bind, Queue.Unbind) else {})
    )
    assert closed.reply_text == f'PRECONDITION_FAILED - Can\'t {kind.__name__.lower()} sharded queue: <<"{x}">>'


@pytest.mark.parametrize("kind", [Basic.Get, Basic.Consume])
def test_an_exchange_with_no_shard_cannot_be_read(broker: Peer, ch: Channel, name: Name, kind: type) -> None:
    broker.set_policy(name("p"), name("x"), {"shards-per-node": 0}, apply_to="exchanges")
    ch.exchange(x := name("x"), "fanout", durable=True)
    closed = ch.refused(406, kind, queue=x)
    assert closed.reply_text == f'PRECONDITION_FAILED - Error finding sharded queue for: <<"{x}">>'
