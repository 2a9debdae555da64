"""The clients of a simulated broker: a publisher with confirms, and a consumer of all queues. They never wait."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pamqp.base import Frame
from pamqp.commands import Basic, Confirm, Connection, Tx
from pamqp.commands import Channel as ChannelMethods

from tests.faults.simulation.brokers.features import EXTRA, Feature
from tests.faults.simulation.brokers.loop import SimulatedLoop
from tests.faults.simulation.brokers.model import Copy, Model
from tests.support.amqp_client import FRAME_MAX, PROTOCOL_HEADER, Channel, Client, Content, Silence, describe

if TYPE_CHECKING:
    from tests.faults.simulation.brokers.network import End, Network

RECEIVED_FROM = "x-received-from"
ORIGINAL = ("x-original-exchange", "x-original-routing-key")  # in messages of a federated queue
DEATHS = [f"x-{which}-death-{what}" for which in ("first", "last") for what in ("reason", "queue", "exchange")]
ADDED = {RECEIVED_FROM, *ORIGINAL, "x-death", *DEATHS, "x-delivery-count", "x-delay"}  # that brokers add or change
NOT_FOUND = 404
SERVED_S = 0.5  # within which a broker serves what it has received
ROUNDED_S = 0.002  # as a broker counts milliseconds
UNDER_WAY_S = 5.0  # that a confirm may be on its way
ORDERED = ("sink", "twin", "timed")  # queues whose messages come by one path
_identities = count(1)


class ClientPipe(asyncio.Protocol):
    """The client's end of a connection; `wake` is called when something has arrived."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.ended = False
        self._received = bytearray()
        self._wake = wake
        self._end: End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._end = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._wake()

    def send(self, data: bytes) -> None:
        assert self._end is not None
        self._end.write(data)

    def receive(self, wait_ms: int | None) -> bytes:
        data = bytes(self._received)
        self._received.clear()
        if not data and not self.ended:
            raise Silence("nothing came")
        return data

    def close(self) -> None:
        assert self._end is not None
        self._end.abort()


class AskingClient(Client):
    """A client that notes which requests have no answer: `unanswered`, by channel, in their order."""

    def __init__(self, pipe: ClientPipe) -> None:
        super().__init__(pipe)
        self.unanswered: defaultdict[int, deque[type[Frame]]] = defaultdict(deque)

    def send(self, kind: type[Frame], channel: int = 0, **fields: Any) -> None:
        if kind.synchronous:
            self.unanswered[channel].append(kind)
        super().send(kind, channel, **fields)

    def note(self, channel: int, item: Any) -> None:
        """Note what has come on a channel: perhaps the answer to the first request, or the end of the channel."""
        requests = self.unanswered[channel]
        if isinstance(item, ChannelMethods.Close):
            requests.clear()
        elif requests and isinstance(item, Frame) and item.name in requests[0].valid_responses:
            requests.popleft()


class Peer:
    """A connection of a client. It sends its whole handshake at once, and what it wants after that."""

    def __init__(self, loop: SimulatedLoop, network: Network, broker: str, model: Model, trace: Callable[[str], None]):
        self.broker = broker
        self.model = model
        self.trace = trace
        self.identity = next(_identities)
        pipe = ClientPipe(self._receive)
        self.end = network.connect(loop, broker)
        self.end.begin(pipe)
        self.client = AskingClient(pipe)
        self.client.raw(PROTOCOL_HEADER)
        self.client.login("PLAIN", "\0guest\0guest")
        self.client.send(Connection.TuneOk, channel_max=2047, frame_max=FRAME_MAX, heartbeat=0)
        self.client.send(Connection.Open, virtual_host="/")
        self.channels: list[Channel] = []
        self.process = self.end.peer.loop  # of the broker

    @property
    def name(self) -> str:
        """The name of the connection at the broker."""
        (host, port), (there, listening) = self.end.get_extra_info("sockname"), self.end.get_extra_info("peername")
        return f"{host}:{port} -> {there}:{listening}"

    def open_channel(self) -> Channel:
        channel = self.client.unopened(len(self.channels) + 1)
        channel.send(ChannelMethods.Open)
        self.channels.append(channel)
        return channel

    @property
    def connected(self) -> bool:
        return not self.client.ended

    def unanswered(self) -> list[str]:
        """Return the requests without an answer, if the broker still has the connection."""
        there = self.connected and not self.end.cut and self.end.peer.loop is self.process
        requests = [kind.name for kinds in self.client.unanswered.values() for kind in kinds]
        return requests if there else []

    def _receive(self) -> None:
        with suppress(Silence):
            while not self.client.ended:
                self.client.pump()
        for item in self._items(0):
            if isinstance(item, Connection.Close):
                assert item.reply_code == 320, f"the connection is closed: {item.reply_text}"
                self.client.send(Connection.CloseOk)
        for channel in self.channels:
            for item in self._items(channel.number):
                self._take(channel, item)
        if self.client.ended:
            self._lost()

    def _items(self, channel: int) -> Iterator[Any]:
        inbox = self.client.inbox(channel)
        while inbox:
            item = inbox.popleft()
            self.client.note(channel, item)
            yield item

    def _take(self, channel: Channel, item: Any) -> None:
        assert not isinstance(item, ChannelMethods.Close), f"the channel is closed: {describe(item)}"

    def _lost(self) -> None:
        """The connection is lost."""


class Operator(Peer):
    """A connection that declares and deletes. Another one may delete a queue between its declaration and binding."""

    def _take(self, channel: Channel, item: Any) -> None:
        if not (isinstance(item, ChannelMethods.Close) and item.reply_code == NOT_FOUND):
            super()._take(channel, item)


class Published(NamedTuple):
    """A publish: the number of the message and what the broker received, and its address."""

    number: int
    exchange: str
    key: str
    size: int
    message_id: str | None


class Publisher(Peer):
    """A connection that publishes with confirms.

    unconfirmed  the copies of each publish, by its number
    published    all publishes, in their order
    answers      to each publish, by its number: whether it is confirmed, and when that was received
    _refusable   publishes for a queue that refuses messages when it is full
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._channel = self.open_channel()
        self._channel.send(Confirm.Select)
        self.unconfirmed: dict[int, list[Copy]] = {}
        self.published: list[Published] = []
        self.answers: dict[int, tuple[bool, float]] = {}
        self._refusable: set[int] = set()

    def publish(
        self,
        exchange: str,
        key: str,
        body: bytes,
        copies: list[Copy],
        message_id: str | None = None,
        properties: dict[str, Any] | None = None,
        refusable: bool = False,
    ) -> None:
        self.published.append(Published(copies[0].number, exchange, key, len(body), message_id))
        self.unconfirmed[len(self.published)] = copies
        if refusable:
            self._refusable.add(len(self.published))
        named = {} if message_id is None else {"message_id": message_id}
        sent = {"delivery_mode": 2} | named | (properties or {})
        for copy in copies:
            copy.properties = sent
        self._channel.publish(exchange, key, body, sent)

    def _take(self, channel: Channel, item: Any) -> None:
        super()._take(channel, item)
        if not isinstance(item, Basic.Ack | Basic.Nack):
            return
        last = item.delivery_tag or 0
        for tag in [each for each in self.unconfirmed if each == last or item.multiple and each < last]:
            copies = self.unconfirmed.pop(tag)
            late = isinstance(item, Basic.Ack) and self.end.loop.now_s > self.process.former_s + UNDER_WAY_S
            assert not late, f"{copies[0].number} is confirmed after another process owns the store"
            self.answers[tag] = isinstance(item, Basic.Ack), self.end.loop.now_s
            if isinstance(item, Basic.Ack):
                self.model.confirm(copies)
            else:
                assert tag in self._refusable, f"{copies[0].number} is refused, though no queue is full"
            self.trace(f"{self.broker} confirms {copies[0].number}")


class Transactor(Peer):
    """A connection that publishes in transactions. What it rolls back was never published, so no model knows it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._channel = self.open_channel()
        self._channel.send(Tx.Select)
        self._committing: deque[list[Copy]] = deque()

    def publish(self, queue: str, copies: list[Copy], commit: bool) -> None:
        """Publish copies to a queue in a transaction, and commit it or roll it back."""
        for copy in copies:
            self._channel.publish("", queue, copy.body, copy.properties)
        self._channel.send(Tx.Commit if commit else Tx.Rollback)
        if commit:
            self._committing.append(copies)
            for copy in copies:
                self.model.add(copy)

    def _take(self, channel: Channel, item: Any) -> None:
        super()._take(channel, item)
        if isinstance(item, Tx.CommitOk):
            self.model.confirm(self._committing.popleft())


class Unsettled(NamedTuple):
    """A delivery that is not settled."""

    channel: Channel
    tag: int
    consumer: str
    copy: Copy


class Received(NamedTuple):
    """A delivery that a consumer has received, and when."""

    queue: str
    consumer: str
    number: int
    size: int
    redelivered: bool
    at_s: float


class Consumer(Peer):
    """A connection that consumes from queues, each on a channel of its own.

    places       by queue, the place of its copies
    outstanding  deliveries that are not settled
    settlements  final ones that the broker may not have stored, with their times
    received     all deliveries by channel, in the order of their tags
    settled      how deliveries were settled, by channel and tag
    """

    def __init__(self, *arguments: Any, places: dict[str, str], prefetch: int, feature: Feature | None = None) -> None:
        super().__init__(*arguments)
        self.outstanding: list[Unsettled] = []
        self.settlements: list[tuple[float, Copy]] = []
        self.received: dict[int, list[Received]] = {}
        self.settled: dict[tuple[int, int], str] = {}
        self._places = places
        self._prefetch = prefetch
        self._queues: dict[int, str] = {}
        self._latest: dict[tuple[str, int, int], int] = {}  # by queue, publisher and priority, its last message
        self._tags: dict[Channel, str] = {}  # of the consumers that were not cancelled
        self._consumed = 0
        self._feature = feature.name if feature is not None else ""
        ordered = list(feature.queues) if feature is not None and feature.ordered else []
        self._ordered = (*ORDERED, *ordered)
        self._active = ""  # the consumer that the only active one was last
        for queue in [*places, EXTRA] if self._feature == "one active consumer" else places:
            channel = self.open_channel()
            self._queues[channel.number] = queue
            channel.send(Basic.Qos, prefetch_count=prefetch)
            if self._transacts(channel):
                channel.send(Tx.Select)
        self.consume_all()

    def _transacts(self, channel: Channel) -> bool:
        return self._feature == "transactions" and self._queues[channel.number] == EXTRA

    def consume_all(self) -> None:
        """Consume from each queue."""
        for channel in self.channels:
            if channel not in self._tags:
                self.toggle(channel)

    def toggle(self, channel: Channel) -> None:
        """Cancel the consumer of a channel, or consume again."""
        tag = self._tags.pop(channel, None)
        if tag is not None:
            channel.send(Basic.Cancel, consumer_tag=tag)
            return
        self._consumed += 1
        self._tags[channel] = f"c{self._consumed}"
        channel.send(Basic.Consume, queue=self._queues[channel.number], consumer_tag=self._tags[channel])

    def _take(self, channel: Channel, item: Any) -> None:
        if isinstance(item, ChannelMethods.Close) and item.reply_code == NOT_FOUND:  # its queue is deleted
            self.client.vanish()
            return
        super()._take(channel, item)
        if isinstance(item, Basic.Cancel):  # the queue is deleted
            self._tags.pop(channel, None)
            for delivery in [each for each in self.outstanding if each.channel is channel]:
                self.outstanding.remove(delivery)
                self._settle(channel, delivery.tag, "ack")
        if not isinstance(item, Content):
            return
        queue = self._queues[channel.number]
        place = self._places[queue]
        number = int(item.body.partition(b":")[0])
        properties = dict(item.properties)
        headers = properties["headers"] or {}
        links = headers.get(RECEIVED_FROM) or []
        if self.process.former_s < inf:  # it does not know yet: its successor delivers the message, too
            self.model.find(place, number, item.body)
            return
        redelivered = item.redelivered or any(link.get("redelivered") for link in links)
        self.trace(f"{self.broker} delivers {number} of {queue}{' again' if redelivered else ''}")
        copy = self.model.deliver(place, number, item.body, redelivered)
        sent, came = own_properties(copy.properties), own_properties(properties)
        assert came == sent, f"message {number} of {place} has the properties {came}, not {sent}"
        twice = not copy.links and any(each.copy is copy for each in self.outstanding)
        twice = twice and not self.model.comes_again(copy)
        assert not twice, f"message {number} of {place} is delivered again before it is settled"
        consumer = item.method.consumer_tag
        received = Received(queue, consumer, number, len(item.body), item.redelivered, self.end.loop.now_s)
        self.received.setdefault(channel.number, []).append(received)
        assert item.tag == len(self.received[channel.number]), f"a delivery has the tag {item.tag}"
        self.outstanding.append(Unsettled(channel, item.tag, consumer, copy))
        mine = sum(each.consumer == consumer for each in self.outstanding)
        assert mine <= self._prefetch, f"{mine} unacknowledged deliveries with a prefetch of {self._prefetch}"
        came_back = any(death["queue"] == queue for death in headers.get("x-death") or [])  # as a dead letter
        if queue == EXTRA and self._feature == "one active consumer":
            lasting = self._active in self._tags.values() and self._active != consumer
            assert not lasting, f"{consumer} of {queue} has {number}, and {self._active} is the active consumer"
            self._active = consumer
        assert received.at_s >= copy.due_s - ROUNDED_S, f"message {number} of {queue} is early"
        if queue in self._ordered and not redelivered and copy.unmarked == 1 and not came_back:
            publisher, sequence = copy.origin
            line = queue, publisher, copy.priority
            assert self._latest.get(line, 0) < sequence, f"message {number} of {queue} is out of order"
            self._latest[line] = sequence

    def settle(self, most: int, random: Random, finally_: bool = False) -> None:
        """Settle some deliveries; `finally_`: acknowledge them. Those of a transaction may be rolled back."""
        transaction: Channel | None = None
        back = not finally_ and self._feature == "transactions" and random.random() < 0.3
        unsettled = []
        for _ in range(min(most, len(self.outstanding))):
            delivery = self.outstanding.pop(random.randrange(len(self.outstanding)))
            channel, tag, _, copy = delivery
            choice = "ack" if finally_ else random.choice(("ack", "ack", "ack", "requeue", "reject"))
            self.trace(f"{choice} {copy.number} of {self._queues[channel.number]} at {self.broker}")
            self._settle(channel, tag, choice)
            if self._transacts(channel):
                transaction = channel
                if back:
                    unsettled.append(delivery)
                    continue
            if choice == "requeue":
                copy.returned = True
            elif choice == "reject" and copy.place.startswith("timed@") and self._queues[channel.number] != "dead":
                copy.delivered = 0  # the copy in the dead letters is a new one
            else:
                self.model.settle(copy)
                self.settlements.append((self.end.loop.now_s, copy))
        if transaction is not None:
            self.trace(f"{'roll back' if back else 'commit'} at {self.broker}")
            transaction.send(Tx.Rollback if back else Tx.Commit)
            self.outstanding += unsettled

    def _settle(self, channel: Channel, tag: int, choice: str) -> None:
        self.settled[channel.number, tag] = choice
        if choice == "ack":
            channel.ack(tag)
        else:
            channel.nack(tag, requeue=choice == "requeue")

    def note_stored(self, broker: SimulatedLoop) -> None:
        """The broker has stored all that it has received: settlements that it has surely received are certain."""
        there = self.end.peer
        if self.end.cut or there.resets_s < inf or there.loop is not broker or there.incoming:
            return  # a reset, as after what is written to a closed socket, drops what is not served yet
        received_s = broker.now_s - SERVED_S
        for time_s, copy in self.settlements:
            copy.sure = copy.sure or copy.settled and time_s < received_s
        self.settlements = [each for each in self.settlements if each[0] >= received_s]

    def _lost(self) -> None:
        for delivery in self.outstanding:
            delivery.copy.returned = True
        self.outstanding.clear()


def own_properties(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the properties that brokers and links do not change, with the client's own headers."""
    headers = {name: value for name, value in (properties.get("headers") or {}).items() if name not in ADDED}
    return {name: value for name, value in properties.items() if value not in (None, "")} | {"headers": headers}
