"""The promises of the guide to the modulus hash exchange that need a broker: restarts, and the order of each key.

A docstring is a sentence of the guide. The choice of a queue is tested without a socket (test_modulus_hash.py).
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess
from tests.support.pika_client import Connect, channel_at, queue, taken
from warren.broker.plugin import stable_hash

pytestmark = pytest.mark.sockets

KEYS = [f"order-{number}" for number in range(500)]
SHARDS = 3


@pytest.fixture
def exchange(channel: BlockingChannel, request: pytest.FixtureRequest) -> str:
    channel.exchange_declare(name := request.node.name, "x-modulus-hash")
    return name


def bound(channel: BlockingChannel, exchange: str, count: int) -> list[str]:
    """Declare and bind `count` queues. Returns their names, sorted."""
    names = sorted(queue(channel) for _ in range(count))
    for name in names:
        channel.queue_bind(name, exchange, "")
    return names


def placed(channel: BlockingChannel, exchange: str, queues: list[str]) -> dict[str, str]:
    """Return the one queue that has each of KEYS."""
    for key in KEYS:
        channel.basic_publish(exchange, key, b"")
    found = [(method.routing_key, name) for name in queues for method, _, _ in taken(channel, name)]
    assert len(found) == len(KEYS)
    return dict(found)


def test_hash_mod_n_picks_the_queue(channel, exchange):
    """When a message is published to this exchange, it hashes the message's routing key and applies a Hash mod N
    operation to pick the destination queue, where N is the total number of bound destinations."""
    queues = bound(channel, exchange, 5)
    assert placed(channel, exchange, queues) == {key: queues[stable_hash(key.encode()) % 5] for key in KEYS}


def test_routing_survives_restarts(daemon: BrokerProcess, restart: Callable[..., None]):
    """As long as the bindings to the exchange remain the same, messages with the same routing key will always be routed
    to exactly the same destination queue, even across node restarts."""
    names = [f"q{number}" for number in range(40)]
    with channel_at(daemon.address) as channel:
        channel.exchange_declare("x", "x-modulus-hash", durable=True)
        for name in reversed(names):
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, "x", "")
        before = placed(channel, "x", names)
    restart()
    with channel_at(daemon.address) as channel:
        assert placed(channel, "x", names) == before


@contextmanager
def order_taker(daemon: BrokerProcess) -> Iterator[subprocess.Popen[str]]:
    """An application that handles the messages of the shards, in a process of its own."""
    line = [sys.executable, str(Path(__file__).with_name("order_taker.py")), str(daemon.address[1]), str(SHARDS)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "consuming\n"
            yield process
        finally:
            process.kill()


def handled(process: subprocess.Popen[str], at_most: int) -> list[tuple[str, int]]:
    """Return key and number of the messages that an application has handled, in order."""
    assert process.stdout is not None
    lines: list[tuple[str, int]] = []
    while len(lines) < at_most and (line := process.stdout.readline()):
        key, number = line.split()
        lines.append((key, int(number)))
    return lines


@pytest.fixture
def shards(channel: BlockingChannel, exchange: str) -> Iterator[list[str]]:
    """Declare N queues on the exchange, with single active consumer."""
    names = [f"shard-{number}" for number in range(SHARDS)]
    for name in names:
        channel.queue_declare(name, arguments={"x-single-active-consumer": True})
        channel.queue_bind(name, exchange, "")
    yield names
    for name in names:
        channel.queue_delete(name)


def publish_orders(channel: BlockingChannel, exchange: str, keys: list[str], numbers: range) -> None:
    for number in numbers:
        for key in keys:
            channel.basic_publish(exchange, key, str(number).encode())


def note(came: list[tuple[str, int]], _: object, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
    came.append((method.routing_key, int(body)))


def test_messages_of_one_entity_are_processed_in_order_and_shards_at_once(channel, exchange, shards, connect: Connect):
    """This makes it an excellent choice for use cases where message ordering matters for a specific domain entity (e.g.
    an order ID), but you still want to process messages concurrently across multiple consumers.

    Message ordering: Thanks to stable routing, all messages for a specific routing key end up in the same queue. SAC
    ensures they are processed in order.

    Concurrent consumption: N application instances can process messages in parallel, each consuming from a different
    queue."""
    keys = KEYS[:30]
    by_queue: dict[str, list[tuple[str, int]]] = {name: [] for name in shards}
    idle: list[tuple[str, int]] = []
    instances = [connect() for _ in shards]  # each active on the queue to which it comes first
    theirs = [instance.channel() for instance in instances]
    for turn in range(SHARDS):
        for index, consumer in enumerate(theirs):
            name = shards[(index + turn) % SHARDS]
            consumer.basic_consume(name, partial(note, by_queue[name] if turn == 0 else idle), auto_ack=True)
    publish_orders(channel, exchange, keys, range(20))
    while sum(map(len, by_queue.values())) < len(keys) * 20:
        for instance in instances:
            instance.process_data_events(0.01)
    for key in keys:
        found = [[number for theirs, number in came if theirs == key] for came in by_queue.values()]
        assert sorted(found) == [[], [], list(range(20))]
    assert all(by_queue.values()) and not idle


def test_the_order_of_a_key_survives_the_crash_of_its_consumer(channel, exchange, shards, running):
    """Fault tolerance: If an active consumer crashes, the broker will automatically deliver messages to another
    consumer attached to that queue."""
    keys = KEYS[:30]
    with order_taker(running) as first, order_taker(running) as second:
        publish_orders(channel, exchange, keys, range(20))
        before = handled(first, 150)
        first.kill()
        before += handled(first, 1 << 30)  # what it wrote before it died
        publish_orders(channel, exchange, keys, range(20, 30))
        again = dict.fromkeys(keys, 0)  # how many it has handled: the next is that, or the last one once more
        for key, number in before:
            assert number == again[key]
            again[key] += 1
        after: list[tuple[str, int]] = []
        while Counter(number for _, number in after)[29] < len(keys):
            after += handled(second, 1)
        for key in keys:
            numbers = [number for theirs, number in after if theirs == key]
            assert numbers == list(range(numbers[0], 30)), f"{key} is out of order"
            assert numbers[0] in (again[key], again[key] - 1), f"{key} has a gap, or came twice"
