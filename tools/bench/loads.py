"""The loads: their messages, clients and queues, and the figure that is compared. Without sockets."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """One load. Publisher and consumer number i use queue number i modulo `queues`; dead letters have their own."""

    letter: str
    name: str
    shows: str
    figure: str = "received_per_s"  # the attribute of Result by which brokers are compared
    wanted: float = 1.5  # ratio to RabbitMQ that is demanded: at least, or for a latency at most
    publishers: int = 1
    consumers: int = 1
    queues: int = 1
    body_bytes: int = 100
    prefetch: int = 1000  # used only if the consumer acknowledges
    ack_every: int = 0  # 0: automatic acknowledgement; 1: each delivery on its own; N: multiple, every Nth
    confirm_window: int = 0  # the maximum of unconfirmed messages of a publisher; 0: no confirms
    durable: bool = False  # durable queue, persistent messages
    exchange: str = ""
    exchange_type: str = "direct"
    keys: int = 0  # routing keys in turn; 0: the queue's name is the only one
    rich: bool = False  # the properties of a task queue, with a unique id in each message
    priorities: int = 0  # the messages have the priorities from 0 to below it in turn; 0: none
    expiration_ms: int | None = None  # of each message
    arguments: tuple[tuple[str, int | str | bool], ...] = ()  # of each queue
    dead_letters: bool = False  # the last consumer has their queue, the others reject their messages
    numbered: bool = False  # by one publisher, from 0 on; its consumer checks the order
    rate_per_s: float = 0.0  # messages a second of all publishers; 0: as fast as the broker takes them

    @property
    def title(self) -> str:
        return f"{self.letter} {self.name}"

    def queue(self, index: int) -> str:
        """Return the queue of a publisher by its number."""
        return f"bench.{self.letter}.{index % self.queues}"

    @property
    def dead_queue(self) -> str:
        """The queue of the dead letters."""
        return f"bench.{self.letter}.dead"

    @property
    def queue_arguments(self) -> tuple[tuple[str, int | str | bool], ...]:
        """Return a queue's arguments with its dead letter exchange."""
        if not self.dead_letters:
            return self.arguments
        return (*self.arguments, ("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", self.dead_queue))

    def rejects(self, index: int) -> bool:
        """Return whether a consumer rejects its messages, by its number."""
        return self.dead_letters and index < self.consumers - 1

    def source(self, index: int) -> str:
        """Return the queue of a consumer by its number."""
        return self.dead_queue if self.dead_letters and not self.rejects(index) else self.queue(index)

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
    Load(
        "N", "priorities", "x-max-priority 10, priorities 0 to 9 in turn, acks as B",
        wanted=1.0, priorities=10, ack_every=100, arguments=(("x-max-priority", 10),),
    ),
    Load("O", "queue TTL", "as A, x-message-ttl 60 s", wanted=1.0, arguments=(("x-message-ttl", 60_000),)),
    Load("P", "expiration", "as A, expiration 60 s in each message", wanted=1.0, expiration_ms=60_000),
    Load(
        "Q", "drop-head", "nobody consumes, x-max-length 10,000",
        wanted=1.0, figure="published_per_s", consumers=0, arguments=(("x-max-length", 10_000),),
    ),
    Load(
        "R", "reject-publish", "x-max-length 10,000, confirms (window 1,000), acks as B",
        wanted=1.0, ack_every=100, confirm_window=1000,
        arguments=(("x-max-length", 10_000), ("x-overflow", "reject-publish")),
    ),
    Load(
        "S", "rejected", "each rejected, the dead letters acked each",
        wanted=1.0, consumers=2, ack_every=1, dead_letters=True,
    ),
    Load(
        "T", "single active", "single active consumer, of 3",
        wanted=1.0, consumers=3, arguments=(("x-single-active-consumer", True),),
    ),
    Load(
        "U", "quorum", "as D, a quorum queue",
        wanted=1.0, durable=True, confirm_window=1000, ack_every=100, arguments=(("x-queue-type", "quorum"),),
    ),
    Load(
        "X", "expired", "x-message-ttl 0, the dead letters are consumed",
        wanted=1.0, dead_letters=True, arguments=(("x-message-ttl", 0),),
    ),
    Load(
        "Y", "queue TTL, acks", "as B, x-message-ttl 60 s",
        wanted=1.0, ack_every=100, arguments=(("x-message-ttl", 60_000),),
    ),
)  # fmt: skip
