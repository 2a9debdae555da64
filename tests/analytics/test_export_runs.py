"""Runs of messages in queues: each delivery and settlement is recorded for its own message under random load."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from pamqp.commands import Basic

from tests.support import codec
from tests.support.amqp_client import Content
from warren.plugins.message_log.file_format import schema

from .exporting import Exporting

STEPS = 120


class Clients:
    """A publisher and a consumer of a queue with random actions; `arrived` has the bodies in their order."""

    def __init__(self, export: Exporting, seed: int) -> None:
        self.random = Random(seed)
        self.export = export
        self.publisher = export.peer.connect().channel()
        self.getter = export.peer.connect().channel()
        self.consumer = export.peer.connect().channel()
        for queue in ("q", "copy"):
            self.publisher.declare(queue)
            self.publisher.bind(queue, "amq.fanout")
        self.published = 0
        self.arrived: list[int] = []
        self.unacked: list[int] = []
        self.consuming = False

    def publish(self) -> None:
        count = self.random.choice([1, 3, 10, 200])
        wide = self.random.random() < 0.3
        bodies = [b"%09d" % (self.published + index) + b"x" * (index * wide) for index in range(count)]
        self.published += count
        exchange = self.random.choice(["", "amq.fanout"])
        method = {"exchange": exchange, "routing_key": "q", "mandatory": False, "immediate": False}
        head = codec.method_frame(1, Basic.Publish, method)
        contents = [codec.header_frame(1, len(body), None) + codec.body_frames(1, body, 1 << 17) for body in bodies]
        self.publisher.client.raw(b"".join(head + content for content in contents))

    def get(self) -> None:
        no_ack = self.random.random() < 0.5
        for _ in range(self.random.choice([1, 5])):
            message = self.getter.get("q", no_ack)
            if message is not None:
                self.arrived.append(int(message.body[:9]))
                if not no_ack:
                    self.random.choice([self.getter.ack, self.getter.nack])(message.tag)
        self.getter.sync()

    def consume(self) -> None:
        if self.consuming:
            self.consumer.cancel("c")
        else:
            self.consumer.qos(self.random.choice([0, 7, 50]))
            self.consumer.consume("q", consumer_tag="c", no_ack=False)
        self.consuming = not self.consuming

    def settle(self) -> None:
        if self.unacked:
            place = self.random.randrange(len(self.unacked))
            tag, multiple = self.unacked[place], self.random.random() < 0.7
            self.unacked = self.unacked[place + 1 :] if multiple else self.unacked[:place] + self.unacked[place + 1 :]
            self.random.choice([self.consumer.ack, self.consumer.ack, self.consumer.nack])(tag, multiple=multiple)

    def purge(self) -> None:
        if self.random.random() < 0.1:
            self.export.vhost.queues["q"].purge()

    def run(self) -> None:
        for _ in range(STEPS):
            self.random.choice(
                [self.publish, self.publish, self.get, self.consume, self.settle, self.settle, self.purge]
            )()
            self.look()

    def look(self) -> None:
        """Read the deliveries of the consumer."""
        self.export.peer.settle()
        self.consumer.sync()
        inbox = self.consumer.client.inbox(self.consumer.number)
        while inbox:
            message = inbox.popleft()
            if isinstance(message, Content):
                self.arrived.append(int(message.body[:9]))
                self.unacked.append(message.tag)


@pytest.mark.parametrize("seed", range(12))
def test_each_delivery_is_recorded_for_the_message_that_was_delivered(export: Exporting, seed: int) -> None:
    clients = Clients(export, seed)
    clients.run()
    rows = export.events()
    seqs = [row["msg_seq"] for row in rows if row["event"] == schema.PUBLISH]
    assert len(seqs) == clients.published > 500
    delivered = [row["msg_seq"] for row in rows if row["event"] == schema.DELIVER]
    assert delivered == [seqs[body] for body in clients.arrived] and delivered
    size_of = {row["msg_seq"]: row["size"] for row in rows if row["event"] == schema.PUBLISH}
    assert all(row["size"] == size_of[row["msg_seq"]] for row in rows if row["event"] in (schema.DELIVER, schema.ACK))


@pytest.mark.parametrize("one_in", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_each_recorded_message_has_all_its_rows(exporting: Callable[..., Exporting], seed: int, one_in: int) -> None:
    export = exporting(one_in=one_in)
    clients = Clients(export, seed)
    clients.run()
    for channel in (clients.consumer, clients.getter):
        channel.client.vanish()
    export.peer.settle()
    last = export.peer.connect().channel()
    for queue in ("q", "copy"):
        last.consume(queue, no_ack=True)
    last.sync()
    rows = export.events()
    entered = Counter((row["queue"], row["msg_seq"]) for row in rows if row["event"] == schema.ENQUEUE)
    leaving = [
        row for row in rows if row["event"] in schema.LEAVING or row["event"] == schema.DELIVER and row["no_ack"]
    ]
    assert Counter((row["queue"], row["msg_seq"]) for row in leaving) == entered
    held = Counter(
        (row["queue"], row["msg_seq"]) for row in rows if row["event"] == schema.DELIVER and not row["no_ack"]
    )
    settled = Counter((row["queue"], row["msg_seq"]) for row in rows if row["event"] in (schema.ACK, schema.REQUEUE))
    assert held == settled
    share = sum(row["event"] == schema.PUBLISH for row in rows) / clients.published
    assert share == 1 if one_in == 1 else 0.1 < share < 0.7


def test_the_only_sampled_message_of_a_batch_has_its_own_size(exporting: Callable[..., Exporting]) -> None:
    export = exporting(one_in=3)
    ch = export.peer.connect().channel()
    ch.declare("q")
    ch.consume("q", no_ack=True)
    method = {"exchange": "", "routing_key": "q", "mandatory": False, "immediate": False}
    head = codec.method_frame(1, Basic.Publish, method)
    bodies = (b"1", b"12", b"123")
    for _ in range(40):
        contents = [codec.header_frame(1, len(body), None) + codec.body_frames(1, body, 1 << 17) for body in bodies]
        ch.client.raw(b"".join(head + content for content in contents))
        export.peer.settle()
    sizes: dict[int, set[int]] = {}
    for row in export.events(schema.PUBLISH, schema.DELIVER):
        sizes.setdefault(row["msg_seq"], set()).add(row["size"])
    assert {len(each) for each in sizes.values()} == {1}
