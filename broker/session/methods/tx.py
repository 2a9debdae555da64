"""Methods of the tx class: publishes and settlements that wait for a commit."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import chain
from typing import cast

from pamqp import commands

from ...amqp.errors import PreconditionFailed
from ...amqp.field_table import Table
from ...core.exchanges.router import FEW, Route
from ...core.jobs.scheduler import SLICE, STORE_SHIFT, TURN_COST, UNLIMITED, Job, do_at_once
from ...core.messages.journal_port import DISK_FULL, Commit, Journal
from ...core.messages.message import Message, ShedMessage
from ...core.queues.deduplication import Recorders
from ...core.queues.ledger import Ledger
from ...core.queues.queue import Queue
from ...core.queues.reply_queue import ReplyQueue
from ...core.queues.route_target import PAGE_COST, Targets, cost_of_reading, cost_of_records
from ...wire import method_encoder
from ..channel import Channel, Publish
from ..channel_host import ChannelHost
from ..confirms import Confirms
from ..settlements import RUN_COST, TOGETHER, SettlementRun, consumer_tag, cost_of_copies, settle_in_steps, settle_list
from ..unacked import LOOKUP_SHIFT, ROW_COST, Settlement, Unacked
from . import publish as publishing

PUBLISH_COST = 8  # of one publish, in the scheduler's units
PUBLISH_BYTES, QUEUE_BYTES = 450, 8  # of memory: of a publish with its route, beside its frames; of each queue of that


class Transaction:
    """The transaction of a channel: routed publishes, and settlements, whose deliveries are no longer outstanding.

    `transaction_max_bytes` of the settings limits the memory of the publishes of all channels of the connection, which
    no consumer can free; 0 for no limit. `published_bytes` is that of this channel.
    """

    __slots__ = ("publishes", "settlements", "_connection", "published_bytes", "_cost", "_extra_cost", "_steps")

    def __init__(self, connection: ChannelHost) -> None:
        self._connection = connection
        self.published_bytes = 0
        self._cost = 0  # of the publishes (`jobs.scheduler`)
        self._extra_cost = 0  # of the settlements, beside COST for each: copies, and changes from one way to another
        self.publishes: list[Publish] = []
        self.settlements: list[tuple[int, Unacked, Settlement]] = []
        self._steps: Job | None = None  # a long settlement or rollback under way

    def publish(self, route: Route, message: Message, queues: Targets, recorders: Recorders) -> None:
        """Add a publish; raises PreconditionFailed (406) beyond the limit."""
        published_bytes = len(message.frames) + PUBLISH_BYTES + QUEUE_BYTES * len(queues)
        self.published_bytes += published_bytes
        self._connection.transaction_bytes += published_bytes
        largest_bytes = self._connection.settings.transaction_max_bytes
        if self._connection.transaction_bytes > largest_bytes > 0:
            what = "transactions of a connection are"
            if self.published_bytes > largest_bytes:
                what = f"transaction with {len(self.publishes)} publishes is"
            raise PreconditionFailed(f"{what} larger than configured max size {largest_bytes}")
        self._cost += PUBLISH_COST + publishing.cost_of_each([message], queues) * len(queues)
        self._cost += cost_of_records(len(message.frames), queues[:FEW])
        self.publishes.append((route, message, queues, recorders))

    def settle(self, items: list[tuple[int, Unacked]], settlement: Settlement) -> int:
        """Add settlements of removed deliveries; their contents leave memory if that is used up. Return the cost.

        If that fails, a rollback makes all of them outstanding again.
        """
        first = len(self.settlements)
        if items and first and self.settlements[-1][2] is not settlement:
            self._extra_cost += RUN_COST
        self.settlements += [(tag, delivery, settlement) for tag, delivery in items]
        return sum([self._shed(at) for at in range(first, len(self.settlements))])

    def _shed(self, at: int) -> int:
        """Have the content of a settled delivery leave memory if that is used up; return the cost of the settlement."""
        tag, delivery, settlement = self.settlements[at]
        queue, consumer, position, message = delivery
        cost = 1
        if queue.host.ledger.exceeded and not isinstance(message, ShedMessage):
            log = queue.host.traffic_log
            kept = log is not None and log.needs_content(consumer_tag(consumer), queue)
            shed = None if kept else queue.shed_content(position, message)
            if shed is not None:
                delivery = queue, consumer, position, shed
                self.settlements[at] = tag, delivery, settlement
                cost += ROW_COST + (len(message.frames) >> STORE_SHIFT)
        self._extra_cost += cost_of_copies(settlement, (delivery,))
        return cost

    def settle_many(self, channel: Channel, tags: range, settlement: Settlement) -> Job:
        """Add settlements of those of some deliveries that are outstanding, in steps."""
        self._steps = self._settle_many(channel, tags, settlement)
        yield from self._steps
        self._steps = None

    def _settle_many(self, channel: Channel, tags: range, settlement: Settlement) -> Job:
        unacked = channel.unacked
        for some in unacked.slices(tags):
            shed = unacked.shed_count
            cost = self.settle(unacked.pop_items(some), settlement)
            yield (SLICE >> LOOKUP_SHIFT) + cost + ROW_COST * (shed - unacked.shed_count)

    def is_long(self, ledger: Ledger) -> bool:
        """Whether its commit or rollback takes more than one turn of the loop."""
        cost = self._cost * PAGE_COST if ledger.exceeded else self._cost
        return cost + self._extra_cost > TURN_COST or len(self.settlements) > TOGETHER

    def has_sinks(self) -> bool:
        """Whether exchange types take publishes, which may enqueue them in many steps, or queues let them wait."""
        targets = (queue for _, _, queues, _ in self.publishes for queue in queues)
        return any(target.internal or target.must_not_reject for target in targets)

    def commit(self, channel: Channel, commit: Commit) -> Job:
        """Publish and settle, in steps, and end the commit.

        What is requeued, or dead-lettered, comes after that: it stays in the journal, so a power cut loses none of it.
        Raises PreconditionFailed (406) at the end if a queue has refused a publish, or was deleted since; all the rest
        is done then.
        """
        publishes, self.publishes = self.publishes, []
        self._forget_publishes()
        settlements, self.settlements = self.settlements, []
        removed: list[SettlementRun] = []
        others: list[SettlementRun] = []
        failed = True
        try:
            complete = yield from publish_all(channel, publishes)
            yield from self._settle_all(channel, complete, settlements, removed, others, commit)
            failed = False
        finally:
            if failed:  # the end of the channel returns what is not settled, but for the step that has failed
                left = [delivery for _, delivery, _ in settlements]
                left += [delivery for _, deliveries in (*removed, *others) for delivery in deliveries]
                first = channel.delivery_tag + 1
                self.settlements = [(tag, delivery, Settlement.NACK) for tag, delivery in enumerate(left, first)]
        if not complete:
            raise PreconditionFailed("partial tx completion")

    def _settle_all(
        self,
        channel: Channel,
        complete: bool,
        settlements: list[tuple[int, Unacked, Settlement]],
        removed: list[SettlementRun],
        others: list[SettlementRun],
        commit: Commit,
    ) -> Job:
        """Move settlements to these lists, and carry them out, those first that leave the journal by that.

        `complete` is True if the queues have taken all publishes.
        """
        settlements.reverse()
        while settlements:
            for _, delivery, settlement in settlements[: -SLICE - 1 : -1]:
                runs = removed if is_removal(settlement, delivery[0]) else others
                if not runs or runs[-1][0] is not settlement:
                    runs.append((settlement, []))
                runs[-1][1].append(delivery)
            del settlements[-SLICE:]
            yield SLICE
        if not complete or any(settlement.requeues for settlement, _ in others):
            # Consumers take what they have room for of the publishes before a requeue drops what is above a limit. The
            # channel of a commit that fails ends, which requeues what is outstanding.
            channel.connection.node.journal.enter(None)
            channel.connection.node.scheduler.pump()
        first = self._remove(channel, removed, commit)
        yield from settle_in_steps(channel, others, "", first=first)

    def _remove(self, channel: Channel, runs: list[SettlementRun], commit: Commit) -> Job:
        """Settle the messages that leave the journal by that, and end the commit.

        No segment is deleted meanwhile. So it does not wait for a full disk, on which that may make room.
        """
        node = channel.connection.node
        node.journal.begin_settling(commit)
        if channel.busy:
            node.scheduler.append_no_more()
        for settlement, deliveries in runs:
            yield from settle_list(channel, settlement, deliveries, "")
        node.journal.end(commit)

    def _forget_publishes(self) -> None:
        self._connection.transaction_bytes -= self.published_bytes
        self.published_bytes = self._cost = self._extra_cost = 0

    def rollback(self, channel: Channel) -> Job:
        """Drop publishes, and make settled deliveries outstanding again in the order of their tags, in steps.

        At the end of a channel this first completes a long settlement or rollback that is under way.
        """
        if self._steps is not None:
            yield from self._steps
        self._steps = self._rollback(channel)
        yield from self._steps
        self._steps = None

    def _rollback(self, channel: Channel) -> Job:
        self._forget_publishes()
        while self.publishes:
            del self.publishes[-SLICE:]
            yield SLICE
        if self.settlements:
            yield from channel.unacked.put_back(self.settlements)


def select(channel: Channel, method: commands.Tx.Select, arguments: Table) -> None:
    """Serve tx.select, which may be repeated. Raises PreconditionFailed (406) in confirm mode."""
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.connection)
    channel.send(method_encoder.method(channel.number, method_encoder.TX_SELECT_OK))


def commit(channel: Channel, method: commands.Tx.Commit, arguments: Table) -> None:
    """Serve tx.commit; commit-ok is sent once the commit is durable.

    A long commit is a job: the connection is suspended until it is done, and others may see a part of it before. So is
    one that publishes while the disk is full. After a power cut all of it is there, or nothing.
    """
    transaction, connection = current(channel), channel.connection
    appends = len(transaction.publishes) > 0
    published_bytes = transaction.published_bytes
    is_long = transaction.is_long(channel.vhost.ledger) or appends and connection.node.journal.room() == DISK_FULL
    full = channel.unfinished.full
    if full and appends and (is_long or transaction.has_sinks()):
        channel.await_publishes()
    journal = connection.node.journal
    made = Commit()
    steps, spent = entered(journal, made, transaction.commit(channel, made)), 0
    if not is_long:  # but an exchange type may enqueue a message in steps
        is_long, spent = do_at_once(steps, TURN_COST if appends and not full else UNLIMITED)
    if is_long:
        name = f"commit of channel {channel.number} of connection {connection.name}"
        channel.unfinished.begin(published_bytes)
        journal.keep_open(made)
        job = commit_all(channel, chain((spent,), steps), published_bytes, channel.begin_job())
        connection.node.scheduler.start(name, job, connection.job_failed, appends and not made.settles)
    else:
        connection.spent += spent
    if not channel.closing:
        channel.send_when_durable(method_encoder.method(channel.number, method_encoder.TX_COMMIT_OK))


def publish_all(channel: Channel, publishes: list[Publish]) -> Generator[int, None, bool]:
    """Publish these in steps, which removes them from the list; return whether the queues have taken all of them.

    They are those of the time of the publish: one that was deleted since takes nothing, nor does one of the same name.
    """
    complete = True
    publishes.reverse()
    while publishes:
        cost = 0
        while publishes and cost < SLICE:
            route, message, queues, recorders = publishes.pop()
            cost += PUBLISH_COST + len(queues)
            few = queues[:FEW]  # more are enqueued in steps
            cost += cost_of_records(len(message.frames), few)
            queues, recorders = yield from publishing.routed_again(channel, route, message, queues, recorders)
            if publishing.is_dropped(queues):
                continue
            # If its queues were deleted, the commit fails, and it is not returned; but a reply queue may be deleted.
            returns = (
                route.mandatory and all(isinstance(queue, ReplyQueue) for queue in queues[:FEW]) and not channel.closing
            )
            cost += cost_of_reading([message], few) * len(few)
            queues = yield from publishing.accepted_in_steps(queues, message)
            taken = yield from publishing.enqueue_in_steps(channel, route, [message], queues, returns, recorders)
            complete = complete and taken and not (yield from publishing.some_deleted(queues))
        yield cost
    return complete


def is_removal(settlement: Settlement, queue: Queue) -> bool:
    """Return whether a message that is settled in this way leaves the journal at once."""
    dropped = settlement is Settlement.REJECT and queue.settings.dead_letter_exchange is None
    return dropped or settlement is Settlement.ACK


def entered(journal: Journal, commit: Commit, steps: Job) -> Job:
    """Do steps of a commit so that their messages belong to it. If one fails, the steps before are kept."""
    while True:
        outer = journal.enter(commit)
        failed = True
        try:
            cost = next(steps, None)
            failed = False
        finally:
            if failed and not commit.ended:
                journal.end(commit)
            journal.enter(outer)
        if cost is None:
            return
        yield cost


def commit_all(channel: Channel, steps: Job, published_bytes: int, finished: Callable[[], None]) -> Job:
    """Commit as a job. If that fails the channel is closed, unless it is closing already."""
    try:
        yield from steps
    except PreconditionFailed as error:
        if not channel.closing:
            channel.close(error.of_method(commands.Tx.Commit.index))
    finally:
        channel.unfinished.end(published_bytes)
    finished()


def rollback(channel: Channel, method: commands.Tx.Rollback, arguments: Table) -> None:
    """Serve tx.rollback. A long rollback is a job: the connection is suspended until it is done."""
    channel.do("rollback", current(channel).rollback(channel))
    channel.send_after_job(method_encoder.method(channel.number, method_encoder.TX_ROLLBACK_OK))


def current(channel: Channel) -> Transaction:
    """Return the transaction of the channel; raises PreconditionFailed (406) if it has none."""
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return cast("Transaction", channel.transaction)


def select_confirms(channel: Channel, method: commands.Confirm.Select, arguments: Table) -> None:
    """Serve confirm.select, which may be repeated. Raises PreconditionFailed (406) on a transactional channel."""
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.nowait:
        channel.send(method_encoder.method(channel.number, method_encoder.CONFIRM_SELECT_OK))
