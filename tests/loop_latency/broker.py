"""A broker in this process, each step of whose loop is measured, with clients that build and parse very little.

A step is what comes with one read of a socket, or one callback or timer of the loop. It is measured in processor time
of the thread, so that it does not matter what else the machine does.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pamqp import base
from pamqp.commands import Basic

from tests.support import codec
from tests.support.clock import FakeTimer
from tests.support.in_process import InProcessPeer, socket_of
from tests.support.speed import within
from tools.bench import client as raw
from tools.bench.loads import Load
from tools.bench.publishing import BATCH, batch_of
from warren.broker.app.main import Store, build_node
from warren.broker.config import Config
from warren.broker.core.exchanges.built_in import new_registry
from warren.broker.core.exchanges.exchange_type import ExchangeType, Registry
from warren.broker.core.messages.journal_port import Batch
from warren.broker.storage.journal import SEGMENT_BYTES, Journal
from warren.plugins.exchanges.consistent_hash import ConsistentHashExchange
from warren.plugins.exchanges.delayed_message import DelayedMessageExchange
from warren.plugins.exchanges.modulus_hash import ModulusHashExchange
from warren.plugins.exchanges.presence import PresenceExchange
from warren.plugins.exchanges.random_exchange import LocalRandomExchange, RandomExchange
from warren.plugins.exchanges.recent_history import RecentHistoryExchange

from .meter import TURN_MS, attempts, collect_young

Step = Callable[..., Any]
Properties = Mapping[str, Any] | None

EXCHANGE_TYPES: dict[str, type[ExchangeType]] = {
    "x-consistent-hash": ConsistentHashExchange,
    "x-delayed-message": DelayedMessageExchange,
    "x-local-random": LocalRandomExchange,
    "x-modulus-hash": ModulusHashExchange,
    "x-presence": PresenceExchange,
    "x-random": RandomExchange,
    "x-recent-history": RecentHistoryExchange,
}
BODY_BYTES = 100
BURST, BURST_BYTES = 1024, 4 << 20  # that are published before consumers are looked at: messages, or bodies


class StepMeter:
    """`longest_s` is the longest step since `begin`; `after_each` is called with the length of each.

    `longest_in_work_s` is the longest one in all work that was measured by `measure` in an attempt.
    """

    def __init__(self) -> None:
        self.longest_s = self.longest_in_work_s = 0.0
        self.after_each: Callable[[float], None] = lambda took_s: None

    def measured(self, step: Step) -> Step:
        def measure(*arguments: Any) -> Any:
            begun_s = time.thread_time()
            try:
                return step(*arguments)
            finally:
                took_s = time.thread_time() - begun_s
                self.longest_s = max(self.longest_s, took_s)
                self.after_each(took_s)

        return measure

    def begin(self) -> None:
        collect_young()
        self.longest_s = 0.0

    def check(self) -> None:
        assert within(self.longest_s * 1000, TURN_MS)

    def measure(self, work: Callable[..., object], *arguments: object) -> None:
        """Measure the steps of a part of an attempt, whose other parts are not measured then."""
        self.begin()
        work(*arguments)
        self.longest_in_work_s = max(self.longest_in_work_s, self.longest_s)

    def attempts(self, limit_ms: float = TURN_MS) -> Iterator[int]:
        """The attempts of a test, by number, until one has no step above the limit.

        An attempt calls `begin` after its preparations. Raises AssertionError if all have a step that is too long.
        """
        longest_ms = []
        for number, _ in enumerate(attempts()):
            self.begin()
            self.longest_in_work_s = 0.0
            yield number
            longest_ms.append((self.longest_in_work_s or self.longest_s) * 1000)
            if within(longest_ms[-1], limit_ms):
                return
        raise AssertionError(f"longest steps of the attempts: {longest_ms} ms")

    def peers(self, limit_ms: float = TURN_MS) -> Iterator["MeasuredPeer"]:
        """A broker for each attempt."""
        for _ in self.attempts(limit_ms):
            peer = MeasuredPeer(self)
            yield peer
            peer.close()

    def stored_peers(self, folder: Path, limit_ms: float = TURN_MS, **options: Any) -> Iterator["StoredPeer"]:
        """A broker with an empty journal for each attempt."""
        for number in self.attempts(limit_ms):
            peer = StoredPeer(self, folder / str(number), **options)
            yield peer
            peer.close()
            shutil.rmtree(folder / str(number))


def with_plugins(registry: Registry) -> Registry:
    """The registry, with the exchange types of the plugins."""
    for name, type_ in EXCHANGE_TYPES.items():
        registry.register(name, type_)
    return registry


class MeasuredPeer(InProcessPeer):
    """A broker that stores nothing, whose callbacks and timers a meter measures."""

    def __init__(self, meter: StepMeter) -> None:
        super().__init__()
        with_plugins(self.node.registry)
        self.call_unmeasured, call_at = self.loop.call_soon, self.clock.call_at

        def measured_call_soon(callback: Step, *arguments: Any) -> None:
            self.call_unmeasured(meter.measured(callback), *arguments)

        def measured_call_at(when_ms: int, fn: Callable[[], None]) -> FakeTimer:
            def call() -> None:
                fn()
                self.server.commit_soon()

            return call_at(when_ms, meter.measured(call))

        self.loop.call_soon = measured_call_soon  # type: ignore[method-assign]
        self.clock.call_at = measured_call_at  # type: ignore[method-assign]


class StoredPeer(MeasuredPeer):
    """A broker whose journal is in a folder. What the committer's thread does is done between two steps, unmeasured."""

    def __init__(
        self,
        meter: StepMeter,
        folder: Path,
        message_memory_bytes: int = 1 << 30,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        super().__init__(meter)
        self.config = Config(data_dir=str(folder), sync="os", message_memory_bytes=message_memory_bytes)
        folder.mkdir(parents=True, exist_ok=True)
        self.store = Store(self.config)
        assert isinstance(self.store.journal, Journal)
        self.journal = self.store.journal
        self.journal._segment_bytes = segment_bytes
        self.node = build_node(self.config, self.clock, self.store, registry=with_plugins(new_registry()))
        self.server = self._new_server()
        self.server.commit_soon = self._commit_soon

    def _commit_soon(self) -> None:
        batch = self.journal.seal()
        if batch is not None:
            self.call_unmeasured(self._commit, batch)

    def _commit(self, batch: Batch) -> None:
        batch.write()
        batch.sync()
        self.loop.call_soon(self._committed, batch)

    def _committed(self, batch: Batch) -> None:
        self.journal.committed(batch.number)
        self._commit_soon()

    def close(self) -> None:
        super().close()
        self.store.close()


class Traffic:
    """A load of the benchmark: its publishers and consumers, in turn, one burst after the other."""

    def __init__(self, peer: InProcessPeer, load: Load) -> None:
        self.peer = peer
        self.load = load
        self.published = self.received = 0
        declare(peer, load)
        self._publishers = [Publishing(peer, load, number) for number in range(load.publishers)]
        self._consumers = [Consuming(peer, load, number) for number in range(load.consumers)]
        self._burst = min(BURST, BURST_BYTES // load.body_bytes // BATCH * BATCH)

    def run(self, messages: int) -> None:
        while self.published < messages:
            for publisher in self._publishers:
                publisher.publish(self._burst)
                self.published += self._burst
            self.peer.settle()
            self._settle()
        while self._settle():
            pass
        self.received = sum(consumer.received for consumer in self._consumers)

    def _settle(self) -> int:
        """Let consumers answer what came; how many deliveries that were."""
        count = sum([consumer.answer() for consumer in self._consumers])
        self.peer.settle()
        for publisher in self._publishers:
            socket_of(publisher.channel.client).outgoing.clear()
        return count


def declare(peer: InProcessPeer, load: Load) -> None:
    channel = peer.connect().channel()
    if load.dead_letters:
        channel.declare(load.dead_queue, durable=load.durable)
    if load.exchange:
        channel.exchange(load.exchange, load.exchange_type, durable=load.durable)
    for index in range(load.queues):
        queue = load.queue(index)
        channel.declare(queue, durable=load.durable, arguments=dict(load.queue_arguments))
        if load.exchange:
            channel.bind(queue, load.exchange, "" if load.exchange_type == "fanout" else f"{queue}.#")


def fill(peer: InProcessPeer, queue: str, count: int, exchange: str = "", properties: Properties = None) -> None:
    """Publish messages of 100 bytes, in bursts; what a queue holds back is waited for."""
    client = peer.connect()
    client.channel()
    head, body = codec.header_frame(1, BODY_BYTES, properties), codec.body_frames(1, bytes(BODY_BYTES), 1 << 17)
    publish = {"exchange": exchange, "routing_key": queue, "mandatory": False, "immediate": False}
    message = codec.method_frame(1, Basic.Publish, publish) + head + body
    for _ in range(0, count, BURST):
        client.raw(message * min(BURST, count))
        count -= BURST
        peer.settle()


class Prompter:
    """A channel of a client that sends frames and reads no answers."""

    def __init__(self, peer: InProcessPeer, transactional: bool = False) -> None:
        self.peer = peer
        client = peer.connect()
        self.channel = client.channel()
        if transactional:
            self.channel.transact()
        self.socket = socket_of(client)
        self._session = peer.server.connections[self.socket.transport].channels[self.channel.number]

    @property
    def unacked(self) -> int:
        return len(self._session.unacked)

    def send(self, kind: type[base.Frame], times: int = 1, **fields: Any) -> None:
        """The same method so many times, in bursts."""
        frame = codec.method_frame(self.channel.number, kind, fields)
        while times > 0:
            self.socket.incoming += frame * min(BURST, times)
            times -= BURST
            self.peer.settle()
            self.socket.outgoing.clear()


class Publishing:
    """A publisher with frames that are ready. Its confirms are not read."""

    def __init__(self, peer: InProcessPeer, load: Load, number: int) -> None:
        self.channel = peer.connect().channel()
        if load.confirm_window:
            self.channel.confirm()
        self._batch = batch_of(load, number, self.channel.client.frame_max)
        self._next = 0

    def publish(self, count: int) -> None:
        for _ in range(count // BATCH):
            self.channel.client.raw(self._batch.build(self._next, BATCH))
            self._next += BATCH


class Consuming:
    """A consumer that does not parse what it gets, but acknowledges or rejects it as the load says."""

    def __init__(self, peer: InProcessPeer, load: Load, number: int) -> None:
        self._load = load
        self._rejects = load.rejects(number)
        client = peer.connect()
        channel = client.channel()
        acknowledges = bool(load.ack_every)
        if acknowledges:
            channel.qos(load.prefetch)
        channel.consume(load.source(number), no_ack=not acknowledges)
        self._socket = socket_of(client)
        self._channel = peer.server.connections[self._socket.transport].channels[channel.number]
        self._answered = 0

    @property
    def received(self) -> int:
        return self._channel.delivery_tag

    def answer(self) -> int:
        """Answer the deliveries that came since; how many they were."""
        first, last = self._answered + 1, self.received
        self._socket.outgoing.clear()
        self._answered = last
        every = self._load.ack_every
        if every and last >= first:
            if self._rejects:
                data = raw.rejects(range(first, last + 1))
            elif every == 1:
                data = raw.acks(range(first, last + 1), False)
            else:
                data = raw.acks([*range(first + every - 1, last, every), last], True)
            self._socket.incoming += data
        return last - first + 1
