"""x-consistent-hash, x-random and x-local-random over a socket; their rules are tested without one."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.broker_process import BrokerProcess
from tests.support.pika_client import Connect, channel_at, queue, taken

pytestmark = pytest.mark.sockets

KEYS = [f"order-{number}" for number in range(1000)]
HASH = "x-consistent-hash"


@pytest.fixture
def exchange(channel: BlockingChannel, request: pytest.FixtureRequest) -> str:
    """An exchange of the type x-consistent-hash that hashes the routing key."""
    channel.exchange_declare(name := request.node.name, HASH)
    return name


def bound(channel: BlockingChannel, exchange: str, *weights: object) -> list[str]:
    """Bind a new queue for each weight. Their names are the same in every run, because shares depend on them."""
    names = [queue(channel, f"{exchange}-{number}") for number in range(len(weights))]
    for name, weight in zip(names, weights, strict=True):
        channel.queue_bind(name, exchange, str(weight))
    return names


def placed(channel: BlockingChannel, exchange: str, queues: list[str]) -> dict[str, str]:
    """Return the one queue to which each of KEYS is routed."""
    for key in KEYS:
        channel.basic_publish(exchange, key, key.encode())
    found = {body.decode(): name for name in queues for _, _, body in taken(channel, name)}
    assert len(found) == len(KEYS)
    return found


def ready(channel: BlockingChannel, name: str) -> int:
    return channel.queue_declare(name, passive=True).method.message_count


def refused(connect: Connect, do: str, **arguments: Any) -> str:
    """Return the text of the 406 for a method, on a channel of its own."""
    channel = connect().channel()
    with pytest.raises(ChannelClosedByBroker) as caught:
        getattr(channel, do)(**arguments)
    assert caught.value.reply_code == 406
    assert channel.connection.is_open
    return caught.value.reply_text.removeprefix("PRECONDITION_FAILED - ")


def test_keys_and_headers_are_hashed_to_queues_by_weights(channel, exchange):
    queues = bound(channel, exchange, 1, 1, 2, 2)
    before = Counter(placed(channel, exchange, queues).values())
    for name, share in zip(queues, (1, 1, 2, 2), strict=True):
        assert before[name] == pytest.approx(len(KEYS) * share / 6, rel=0.25)
    channel.exchange_declare(by_header := f"{exchange}-header", HASH, arguments={"hash-header": "id"})
    queues = bound(channel, by_header, 1, 1, 1, 1)
    for number in range(400):
        properties = pika.BasicProperties(headers={"id": number % 200})
        channel.basic_publish(by_header, f"key-{number}", b"%d" % (number % 200), properties)
    for name in queues:
        got = Counter(body for _, _, body in taken(channel, name))
        assert len(got) > 30 and set(got.values()) == {2}


def test_arguments_that_make_no_sense_are_refused(connect, channel):
    arguments = {"hash-header": "a", "hash-property": "message_id"}
    text = refused(connect, "exchange_declare", exchange="refused", exchange_type=HASH, arguments=arguments)
    assert text == "hash-header and hash-property are mutually exclusive"
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.exchange_declare("refused", passive=True)
    assert caught.value.reply_code == 404


def test_a_bad_weight_is_refused_and_nothing_else_is_lost(connect, channel, exchange):
    (name,) = bound(channel, exchange, 1)
    channel.basic_publish(exchange, "k", b"before")
    assert taken(channel, name)[0][2] == b"before"
    other = channel.connection.channel()
    channel.basic_publish(exchange, "k", b"unsettled")
    assert channel.basic_get(name)[2] == b"unsettled"
    channel.basic_publish(exchange, "k", b"waiting")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_bind(name, exchange, "abc")
    text = 'PRECONDITION_FAILED - The binding key must be an integer: <<"abc">>'
    assert (caught.value.reply_code, caught.value.reply_text) == (406, text)
    other.basic_publish(exchange, "k", b"after")
    assert [body for _, _, body in taken(other, name)] == [b"unsettled", b"waiting", b"after"]


@pytest.mark.parametrize("type_", [HASH, "x-random", "x-local-random"])
def test_without_a_queue_a_mandatory_message_comes_back(channel, request, type_):
    channel.exchange_declare(exchange := request.node.name, type_)
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(exchange, "k", b"body", mandatory=True)


def test_a_restart_moves_no_key(daemon: BrokerProcess, restart: Callable[..., None]):
    with channel_at(daemon.address) as channel:
        channel.exchange_declare("x", HASH, durable=True)
        names = ["d", "b", "e", "a", "c"]
        for name, weight in zip(names, (3, 1, 2, 1, 1), strict=True):
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, "x", str(weight))
        for weight in ("9", "4"):  # the older of those that stay is what counts, also after the restart
            channel.queue_bind("c", "x", weight)
        channel.queue_unbind("c", "x", "1")
        channel.queue_delete("e")
        before = placed(channel, "x", ["a", "b", "c", "d"])
    restart()
    with channel_at(daemon.address) as channel:
        assert placed(channel, "x", ["a", "b", "c", "d"]) == before
        channel.queue_unbind("c", "x", "4")
        assert placed(channel, "x", ["a", "b", "c", "d"]) == before


def shares(channel: BlockingChannel, exchange: str, queues: list[str], messages: int) -> Mapping[str, int]:
    """Return the number of messages in each queue, after checking that no two queues have the same message."""
    for number in range(messages):
        channel.basic_publish(exchange, "one key", str(number).encode())
    bodies = {name: [body for _, _, body in taken(channel, name)] for name in queues}
    assert sorted(int(body) for each in bodies.values() for body in each) == list(range(messages))
    return {name: len(each) for name, each in bodies.items()}


@pytest.mark.parametrize("type_", ["x-random", "x-local-random"])
def test_messages_go_to_queues_by_chance(channel, request, type_):
    channel.exchange_declare(exchange := request.node.name, type_)
    queues = bound(channel, exchange, "", "", "", "")
    assert all(180 < got < 320 for got in shares(channel, exchange, queues, 1000).values())


def test_x_local_random_takes_classic_queues_with_an_empty_key(connect, channel, request):
    channel.exchange_declare(exchange := request.node.name, "x-local-random", auto_delete=True)
    own = queue(channel)
    channel.queue_declare(quorum := f"{exchange}-quorum", durable=True, arguments={"x-queue-type": "quorum"})
    refusals = [
        refused(connect, "queue_bind", queue=quorum, exchange=exchange, routing_key="key"),
        refused(connect, "queue_bind", queue=quorum, exchange=exchange, routing_key=""),
        refused(connect, "exchange_bind", destination="amq.fanout", source=exchange),
    ]
    assert refusals == [
        "Non empty binding 'key' key not permitted",
        "Queue type quorum not valid for this exchange type",
        "Destination not found",
    ]
    channel.queue_bind(own, exchange, "")
    channel.basic_publish(exchange, "any", b"body")
    assert [body for _, _, body in taken(channel, own)] == [b"body"]
