"""The loads A to M: what each publishes and consumes, and the figure that counts. Knows no socket."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """One load. Publisher and consumer number i use queue number i modulo `queues`."""

    letter: str
    name: str
    shows: str
    figure: str = "received_per_s"  # the attribute of Result by which brokers are compared
    wanted: float = 1.5  # ratio to RabbitMQ that is demanded: at least, or for a latency at most
    publishers: int = 1
    consumers: int = 1
    queues: int = 1
    body_bytes: int = 100
    prefetch: int = 1000  # asked for only when the consumer acknowledges
    ack_every: int = 0  # 0: automatic acknowledgement; 1: each delivery on its own; N: multiple, every Nth
    confirm_window: int = 0  # unconfirmed messages a publisher may have; 0: no confirms
    durable: bool = False  # durable queue, persistent messages
    exchange: str = ""
    exchange_type: str = "direct"
    keys: int = 0  # routing keys in turn; 0: the queue's name is the only one
    rich: bool = False  # the properties of a task queue, with a unique id in each message
    rate_per_s: float = 0.0  # messages a second of all publishers; 0: as fast as the broker takes them

    @property
    def title(self) -> str:
        return f"{self.letter} {self.name}"

    def queue(self, index: int) -> str:
        """The queue of publisher or consumer number index."""
        return f"bench.{self.letter}.{index % self.queues}"

    @property
    def lower_is_better(self) -> bool:
        return self.figure.endswith("_ms")


LOADS = (
    Load("A", "autoack", "1 publisher, 1 consumer, 100 B, no acks", wanted=2.5),
    Load("B", "ack/100", "consumer acks every 100th, prefetch 1,000", ack_every=100),
    Load("C", "2x2", "2 publishers, 2 consumers, 2 queues", wanted=2.5, publishers=2, consumers=2, queues=2),
    Load(
        "D", "durable", "persistent, durable queue, confirms (window 1,000), acks",
        durable=True, confirm_window=1000, ack_every=100,
    ),
    Load("E", "publish only", "nobody consumes: the backlog grows", figure="published_per_s", consumers=0),
    Load("F", "1 KiB", "as A, 1 KiB bodies", wanted=2.5, body_bytes=1024),
    Load(
        "G", "fanout x5", "1 publisher, fanout to 5 queues",
        wanted=2.5, consumers=5, queues=5, exchange="bench.fan", exchange_type="fanout",
    ),
    Load("H", "latency p99", "2,000 messages a second, latency", figure="p99_ms", wanted=1.0, rate_per_s=2000),
    Load("I", "ack each", "an ack for each message, prefetch 100", ack_every=1, prefetch=100),
    Load("K", "topic keys", "topic exchange, 20,000 keys", exchange="bench.topic", exchange_type="topic", keys=20000),
    Load("L", "task queue", "rich properties, a unique id each, acks", rich=True, ack_every=10, prefetch=200),
    Load("M", "64 KiB", "64 KiB bodies", wanted=1.0, body_bytes=65536),
)  # fmt: skip
