"""The rules of a channel: delivery tags, settlements, prefetch, confirms, transactions, errors."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .queue_model import Consumer, Entry, Message, Queue

ACK, REJECT, NACK, RETURN, LOST = "ack", "reject", "nack", "return", "lost"
"""How a delivery is settled: RETURN requeues it by basic.reject or basic.recover, LOST by the end of the channel."""


class Refused(Exception):
    """A method is refused with this reply code, which closes the connection if it is a `hard` error."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
        self.hard = code in (504, 530, 540)


@dataclass(eq=False)
class Delivery:
    """A delivery that is not settled. `consumer` is None for basic.get."""

    tag: int
    queue: Queue
    consumer: Consumer | None
    entry: Entry


@dataclass
class Transaction:
    """A transaction: publishes with the queues of their routes, and settlements, which wait for tx.commit."""

    publishes: list[tuple[Message, list[Queue], bool]] = field(default_factory=list)
    settlements: list[tuple[Delivery, str]] = field(default_factory=list)


def in_order(deliveries: list[Delivery]) -> list[Delivery]:
    """Return deliveries of one channel in the order in which the broker settles them: by consumer in RabbitMQ."""
    if not deliveries or deliveries[0].queue.dialect.places_kept:
        return deliveries
    return sorted(
        deliveries, key=lambda one: (one.queue.name, one.consumer.tag if one.consumer is not None else "", one.tag)
    )


class Channel:
    """A channel.

    tag          of the last delivery: they count from 1, also those without acknowledgement
    published    number of publishes since confirm.select, or None before
    unconfirmed  by number, whether a publish is to be acked
    """

    def __init__(self, connection: int, number: int) -> None:
        self.connection, self.number = connection, number
        self.tag = 0
        self.unacked: dict[int, Delivery] = {}
        self.consumers: dict[str, Consumer] = {}
        self.prefetch = self.shared_limit = 0
        self.published: int | None = None
        self.unconfirmed: dict[int, bool] = {}
        self.transaction: Transaction | None = None

    # Deliveries

    def deliver(self, queue: Queue, consumer: Consumer | None, entry: Entry, no_ack: bool, tag: int) -> None:
        """Note a delivery with this tag, until it is settled."""
        if not no_ack:
            self.unacked = dict(sorted([*self.unacked.items(), (tag, Delivery(tag, queue, consumer, entry))]))
            if consumer is not None:
                consumer.unacked += 1

    @property
    def shared_unacked(self) -> int:
        """Deliveries that count towards the shared limit: of consumers of classic queues, settled in no commit yet.

        Consumer Prefetch: a limit of the channel. Those of basic.get do not count.
        """
        return sum(one.consumer is not None and not one.queue.quorum for one in self.outstanding)

    @property
    def outstanding(self) -> list[Delivery]:
        """The deliveries that are not settled, or only in a transaction that is not committed."""
        settled = [delivery for delivery, _ in self.transaction.settlements] if self.transaction is not None else []
        return [*self.unacked.values(), *settled]

    # Settlements

    def settle(self, tag: int, multiple: bool, how: str) -> None:
        """basic.ack, nack and reject. A tag that is not outstanding is 406; 0 with `multiple` is all."""
        if multiple and not tag:
            tags = list(self.unacked)
        elif tag not in self.unacked:
            raise Refused(406)
        else:
            tags = [one for one in self.unacked if one <= tag] if multiple else [tag]
        for delivery in in_order([self.unacked.pop(one) for one in tags]):
            if self.transaction is not None:
                self.transaction.settlements.append((delivery, how))
            else:
                self.apply(delivery, how)

    def apply(self, delivery: Delivery, how: str) -> None:
        queue = delivery.queue
        if delivery.consumer is not None:
            delivery.consumer.unacked -= 1
        if how == REJECT and not queue.deleted:
            queue.dead_letter(delivery.entry.message, "rejected")
        elif how in (NACK, RETURN, LOST):
            of = delivery.consumer.tag if delivery.consumer is not None else ""
            source = f"{self.connection} {self.number} {of}"
            queue.requeue(delivery.entry, nacked=how == NACK, lost_by=source if how == LOST else "")

    def recover(self, requeue: bool, how: str = RETURN) -> None:
        """basic.recover: all that is outstanding is requeued, but not what a transaction has settled."""
        if not requeue:
            raise Refused(540)
        deliveries, self.unacked = list(self.unacked.values()), {}
        for delivery in in_order(deliveries):
            self.apply(delivery, how)

    # Prefetch

    def qos(self, count: int, shared: bool) -> None:
        """basic.qos: a limit of new consumers, which ends that of the channel, or that of the channel."""
        if shared:
            self.shared_limit = count
        else:
            self.prefetch, self.shared_limit = count, 0

    def prefetch_of(self, queue: Queue) -> int:
        """The limit of a new consumer; in quorum queues one of the channel is one of each consumer."""
        return self.shared_limit or self.prefetch if queue.quorum else self.prefetch

    # Confirms and transactions

    def select_confirms(self) -> None:
        if self.transaction is not None:
            raise Refused(406)
        self.published = self.published or 0

    def confirm(self, accepted: bool) -> None:
        """Expect the confirm of the next publish: basic.nack if a queue has rejected it."""
        if self.published is not None:
            self.published += 1
            self.unconfirmed[self.published] = accepted

    def select_transaction(self) -> None:
        if self.published is not None:
            raise Refused(406)
        self.transaction = self.transaction or Transaction()

    def commit(self, publish: Callable[[Message, list[Queue], bool], bool], run: Callable[[], None]) -> None:
        """tx.commit: publish, then settle. 406 at the end if a queue has rejected a publish, or was deleted since.

        Queues `run` before messages come back in front of those, by the commit or by the end of the channel, as a queue
        of RabbitMQ serves one after the other.
        The settlements make no room for the publishes: they count until they are applied.
        """
        transaction = self._current()
        publishes, transaction.publishes = transaction.publishes, []
        results = []
        for message, queues, mandatory in publishes:
            results.append(publish(message, queues, mandatory))
            if any(queue.dialect.serves_at_once for queue in queues):
                run()
        if not all(results) or any(how in (NACK, RETURN) for _, how in transaction.settlements):
            run()
        ways = dict(transaction.settlements)
        for delivery in in_order([*ways]):
            transaction.settlements.remove((delivery, ways[delivery]))
            self.apply(delivery, ways[delivery])
        if not all(results):
            if any(delivery.queue.dialect.serves_at_once for delivery in ways):
                run()
            raise Refused(406)

    def rollback(self) -> None:
        """tx.rollback: what was settled is outstanding again, and is not delivered again."""
        transaction = self._current()
        self.transaction = Transaction()
        for delivery, _ in transaction.settlements:
            self.unacked[delivery.tag] = delivery
        self.unacked = dict(sorted(self.unacked.items()))

    def _current(self) -> Transaction:
        if self.transaction is None:
            raise Refused(406)
        return self.transaction

    # The end

    def end(self) -> None:
        """Return all that is outstanding to its queues; the consumers have been removed."""
        if self.transaction is not None:
            self.rollback()
        self.recover(True, LOST)
        self.transaction = self.published = None
        self.unconfirmed = {}
