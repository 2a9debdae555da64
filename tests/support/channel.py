"""A channel of the test client: `call` wants the reply, `send` wants nothing, `refused` wants the error."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pamqp import base
from pamqp.commands import Basic, Confirm, Exchange, Queue, Tx
from pamqp.commands import Channel as ChannelMethods

from . import codec
from .received import Closed, Content, check_reply_text, describe

if TYPE_CHECKING:
    from .amqp import Client

SOFT = frozenset((311, 312, 313, 403, 404, 405, 406))  # these close a channel, all others the connection


class Channel:
    """One channel."""

    def __init__(self, client: "Client", number: int) -> None:
        self.client = client
        self.number = number

    def send(self, kind: type[base.Frame], **fields: Any) -> None:
        self.client.send(kind, self.number, **fields)

    def next(self) -> Any:
        return self.client.next(self.number)

    def call(self, kind: type[base.Frame], **fields: Any) -> Any:
        """Send and return the reply; what the server sends by itself meanwhile stays in the inbox."""
        self.send(kind, **fields)
        return self.reply_to(kind)

    def reply_to(self, kind: type[base.Frame]) -> Any:
        passed: list[Any] = []
        while True:
            item = self.next()
            if isinstance(item, base.Frame) and item.name in kind.valid_responses:
                break
            unasked = isinstance(item, Basic.Ack | Basic.Nack | Basic.Cancel)
            if isinstance(item, Content) and isinstance(item.method, Basic.GetOk) and kind is Basic.Get:
                break
            if not unasked and not isinstance(item, Content):
                raise Closed(f"{kind.name} was answered {describe(item)}")
            passed.append(item)
        self.client.inbox(self.number).extendleft(reversed(passed))
        return item

    def refused(self, code: int, kind: type[base.Frame], **fields: Any) -> Any:
        """Send, and expect channel.close or connection.close with this code and the ids of this method."""
        self.send(kind, **fields)
        closed = self.expect_close(code) if code in SOFT else self.client.expect_close(code)
        ids = (closed.class_id, closed.method_id)
        assert ids == (kind.index >> 16, kind.index & 0xFFFF), f"close names method {ids}: {dict(closed)}"
        return closed

    def expect_close(self, code: int, answer: bool = True) -> Any:
        item = self.next()
        assert isinstance(item, ChannelMethods.Close), f"expected channel.close {code}, got {describe(item)}"
        check_reply_text(item, code)
        if answer:
            self.send(ChannelMethods.CloseOk)
        return item

    def nothing(self, *queues: str) -> None:
        """Nothing waits here, and nothing comes while the server answers some more (`queues` are asked too)."""
        assert not self.client.inbox(self.number), f"unexpected: {list(map(describe, self.client.inbox(self.number)))}"
        for queue in queues:
            self.declare(queue, passive=True)
        self.sync()
        waiting = list(map(describe, self.client.inbox(self.number)))
        assert not waiting, f"unexpected: {waiting}"

    def sync(self) -> None:
        """By the time this returns the server has dealt with all that was sent on the channel."""
        for _ in range(2):
            self.call(ChannelMethods.Flow, active=True)

    def close(self) -> None:
        self.send(ChannelMethods.Close, reply_code=200)
        while not isinstance(self.next(), ChannelMethods.CloseOk):
            pass

    # What tests do all day

    def declare(self, queue: str | bytes = "", **fields: Any) -> Any:
        return self.call(Queue.Declare, queue=queue, **fields)

    def count(self, queue: str) -> int:
        """Messages ready in a queue."""
        return int(self.declare(queue, passive=True).message_count)

    def exchange(self, exchange: str | bytes, exchange_type: str = "direct", **fields: Any) -> None:
        self.call(Exchange.Declare, exchange=exchange, exchange_type=exchange_type, **fields)

    def delete(self, queue: str) -> None:
        self.call(Queue.Delete, queue=queue)

    def delete_exchange(self, exchange: str) -> None:
        self.call(Exchange.Delete, exchange=exchange)

    def bind(self, queue: str, exchange: str, routing_key: str = "", **fields: Any) -> None:
        self.call(Queue.Bind, queue=queue, exchange=exchange, routing_key=routing_key, **fields)

    def unbind(self, queue: str, exchange: str, routing_key: str = "", **fields: Any) -> None:
        self.call(Queue.Unbind, queue=queue, exchange=exchange, routing_key=routing_key, **fields)

    def bind_exchange(self, destination: str, source: str, routing_key: str = "", **fields: Any) -> None:
        self.call(Exchange.Bind, destination=destination, source=source, routing_key=routing_key, **fields)

    def unbind_exchange(self, destination: str, source: str, routing_key: str = "", **fields: Any) -> None:
        self.call(Exchange.Unbind, destination=destination, source=source, routing_key=routing_key, **fields)

    def publish(self, exchange: str, routing_key: str | bytes, body: bytes = b"", properties: Any = None,
                mandatory: bool = False, immediate: bool = False) -> None:  # fmt: skip
        fields = {"exchange": exchange, "routing_key": routing_key, "mandatory": mandatory, "immediate": immediate}
        self.client.raw(
            codec.method_frame(self.number, Basic.Publish, fields)
            + codec.header_frame(self.number, len(body), properties)
            + codec.body_frames(self.number, body, self.client.frame_max)
        )

    def fill(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        """Publish to a queue, all with the same properties."""
        for body in bodies:
            self.publish("", queue, body, properties)
        self.sync()

    def get(self, queue: str = "", no_ack: bool = True) -> Content | None:
        reply = self.call(Basic.Get, queue=queue, no_ack=no_ack)
        return reply if isinstance(reply, Content) else None

    def drain(self, queue: str) -> list[bytes]:
        """The bodies of all that is ready in a queue, taken out of it."""
        bodies = []
        while (message := self.get(queue)) is not None:
            bodies.append(message.body)
        return bodies

    def consume(self, queue: str, **fields: Any) -> str:
        return str(self.call(Basic.Consume, queue=queue, **fields).consumer_tag)

    def cancel(self, consumer_tag: str) -> None:
        self.call(Basic.Cancel, consumer_tag=consumer_tag)

    def delivery(self) -> Content:
        item = self.next()
        assert isinstance(item, Content) and isinstance(item.method, Basic.Deliver), describe(item)
        return item

    def deliveries(self, count: int) -> list[Content]:
        return [self.delivery() for _ in range(count)]

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        self.send(Basic.Ack, delivery_tag=delivery_tag, multiple=multiple)

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self.send(Basic.Nack, delivery_tag=delivery_tag, multiple=multiple, requeue=requeue)

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        self.send(Basic.Reject, delivery_tag=delivery_tag, requeue=requeue)

    def reject_next(self, queue: str) -> None:
        """Take the next message out of a queue and reject it for good."""
        message = self.get(queue, no_ack=False)
        assert message is not None, "the queue is empty"
        self.reject(message.tag, requeue=False)
        self.sync()

    def qos(self, prefetch_count: int, globally: bool = False) -> None:
        self.call(Basic.Qos, prefetch_count=prefetch_count, global_=globally)

    def confirm(self) -> None:
        self.call(Confirm.Select)

    def transact(self) -> None:
        self.call(Tx.Select)

    def commit(self) -> None:
        self.call(Tx.Commit)

    def rollback(self) -> None:
        self.call(Tx.Rollback)

    def confirms(self, numbers: Iterable[int]) -> tuple[set[int], set[int]]:
        """Read until these publishes are settled: those acked and those nacked. Each may be settled once only."""
        waiting = set(numbers)
        verdicts: tuple[set[int], set[int]] = (set(), set())
        while waiting:
            item = self.next()
            assert isinstance(item, Basic.Ack | Basic.Nack), f"expected a confirm, got {describe(item)}"
            tag = item.delivery_tag or 0
            assert tag > 0
            settled = {n for n in waiting if n <= tag} if item.multiple else {tag}
            assert tag in waiting, f"{tag} was settled before, or never published"
            waiting -= settled
            verdicts[isinstance(item, Basic.Nack)].update(settled)
        return verdicts
