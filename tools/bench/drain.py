"""The rate at which a queue of a running RabbitMQ is drained: by a link of Warren, and by a shovel of that RabbitMQ.

    python -m tools.bench.drain HTTP,AMQP

HTTP and AMQP are URLs of a RabbitMQ with the plugin rabbitmq_shovel. Rounds alternate.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.polling import until
from warren.broker.ctl.api_client import API, LocalAPI
from warren.plugins.migration.brokers import Broker, QueueName
from warren.plugins.migration.movers import Drains, Mover, Shovels

QUEUE = QueueName("/", "drained")
COPY = "bench-drain"  # the virtual host of the RabbitMQ into which its shovel moves
BODY = b"x" * 100
REQUEST_S = 60.0
WITHIN_S = 600.0


def channel_of(uri: str) -> BlockingChannel:
    channel = pika.BlockingConnection(pika.URLParameters(uri)).channel()
    channel.confirm_delivery()
    return channel


def length(channel: BlockingChannel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def fill(uri: str, count: int) -> BlockingChannel:
    """Publish the messages, without waiting for each confirm; return a channel for looking."""
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_delete(QUEUE.name)
    channel.queue_declare(QUEUE.name, durable=True)
    properties = pika.BasicProperties(delivery_mode=2)
    for _ in range(count):
        channel.basic_publish("", QUEUE.name, BODY, properties)
    until(lambda: length(channel, QUEUE.name) == count, "all messages in the queue", WITHIN_S, 0.2)
    return channel


def measure(mover: Mover, source: str, target: str, count: int) -> float:
    """Drain a full queue; return the messages per second."""
    fill(source, count).connection.close()
    looking = channel_of(target)
    looking.queue_delete(QUEUE.name)
    looking.queue_declare(QUEUE.name, durable=True)
    began_s = time.monotonic()
    mover.set([QUEUE])
    until(lambda: length(looking, QUEUE.name) >= count, lambda: length(looking, QUEUE.name), WITHIN_S, 0.05)
    rate = count / (time.monotonic() - began_s)
    mover.set(())
    looking.queue_delete(QUEUE.name)
    looking.connection.close()
    return rate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rabbitmq", metavar="HTTP,AMQP")
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    http, amqp = options.rabbitmq.split(",")
    rabbitmq = Broker(lambda: API(http, REQUEST_S))
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder), "--http", ANY_PORT) as warren:
        own = Broker(lambda: LocalAPI(warren.data, REQUEST_S))
        own_uri = f"amqp://guest:guest@127.0.0.1:{warren.port}/%2f"
        copy_uri = f"{amqp.rpartition('/')[0]}/{COPY}"
        loads: dict[str, tuple[Mover, str, str]] = {
            "RabbitMQ to Warren, by its link": (Drains(own, "bench-drain", amqp), amqp, own_uri),
            "Warren to RabbitMQ, by its shovel": (Shovels(rabbitmq, "bench-drain", own_uri), own_uri, amqp),
            "RabbitMQ to itself, by its shovel": (LocalShovels(rabbitmq, "bench-drain", amqp), amqp, copy_uri),
        }
        rates: dict[str, list[float]] = {name: [] for name in loads}
        with closing(API(http, REQUEST_S)) as api:
            api.put("vhosts", COPY)
        try:
            for _ in range(options.rounds):
                for name, load in loads.items():
                    rates[name].append(measure(*load, options.count))
                    print(f"{name}: {rates[name][-1]:,.0f} a second, load {os.getloadavg()[0]:.0f}", flush=True)
        finally:
            with closing(API(http, REQUEST_S)) as api:
                api.delete("vhosts", COPY)
                api.delete("queues", QUEUE.vhost, QUEUE.name)
    for name, found in rates.items():
        print(f"{name}: {statistics.median(found):,.0f} messages a second")
    return 0


class LocalShovels(Shovels):
    """Shovels into a virtual host of the same broker, whose source is the virtual host `/`."""

    def _shovel(self, queue: QueueName) -> dict[str, object]:
        return {**super()._shovel(queue), "dest-uri": f"amqp:///{COPY}"}


if __name__ == "__main__":
    sys.exit(main())
