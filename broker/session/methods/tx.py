"""Methods of the tx class: the commit and the rollback of a channel's transaction; also confirm.select."""

from collections.abc import Callable, Generator
from itertools import chain

from pamqp import commands

from ...amqp.errors import PreconditionFailed
from ...amqp.field_table import Table
from ...core.exchanges.router import FEW
from ...core.jobs.scheduler import SLICE, TURN_COST, UNLIMITED, Job, do_at_once
from ...core.messages.journal_port import DISK_FULL, Commit, Journal
from ...core.queues.queue import Queue
from ...core.queues.reply_queue import ReplyQueue
from ...core.queues.route_target import cost_of_reading, cost_of_records
from ...wire import method_encoder
from ..channel import Channel
from ..confirms import Confirms
from ..settlements import SettlementRun, settle_in_steps, settle_list
from ..transaction import PUBLISH_COST, Publish, Transaction
from ..unacked import Settlement, Unacked
from . import publish as publishing


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
    steps, spent = entered(journal, made, commit_in_steps(channel, transaction, made)), 0
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


def commit_in_steps(channel: Channel, transaction: Transaction, commit: Commit) -> Job:
    """Publish and settle, in steps, and end the commit.

    What is requeued, or dead-lettered, comes after that: it stays in the journal, so a power cut loses none of it.
    Raises PreconditionFailed (406) at the end if a queue has refused a publish, or was deleted since; all the rest
    is done then.
    """
    publishes, transaction.publishes = transaction.publishes, []
    transaction.forget_publishes()
    settlements, transaction.settlements = transaction.settlements, []
    removed: list[SettlementRun] = []
    others: list[SettlementRun] = []
    failed = True
    try:
        complete = yield from publish_all(channel, publishes)
        yield from settle_all_in_steps(channel, complete, settlements, removed, others, commit)
        failed = False
    finally:
        if failed:  # the end of the channel returns what is not settled, but for the step that has failed
            left = [delivery for _, delivery, _ in settlements]
            left += [delivery for _, deliveries in (*removed, *others) for delivery in deliveries]
            first = channel.delivery_tag + 1
            transaction.settlements = [(tag, delivery, Settlement.NACK) for tag, delivery in enumerate(left, first)]
    if not complete:
        raise PreconditionFailed("partial tx completion")


def settle_all_in_steps(
    channel: Channel,
    complete: bool,
    settlements: list[tuple[int, Unacked, Settlement]],
    removed: list[SettlementRun],
    others: list[SettlementRun],
    commit: Commit,
) -> Job:
    """Move settlements to these lists, and carry them out, first those that remove messages from the journal.

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
    first = remove_in_steps(channel, removed, commit)
    yield from settle_in_steps(channel, others, "", first=first)


def remove_in_steps(channel: Channel, runs: list[SettlementRun], commit: Commit) -> Job:
    """Carry out the settlements that remove messages from the journal, and end the commit.

    No segment is deleted meanwhile. It does not wait while the disk is full, because it may make room there.
    """
    node = channel.connection.node
    node.journal.begin_settling(commit)
    if channel.busy:
        node.scheduler.append_no_more()
    for settlement, deliveries in runs:
        yield from settle_list(channel, settlement, deliveries, "")
    node.journal.end(commit)


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
    return channel.transaction


def select_confirms(channel: Channel, method: commands.Confirm.Select, arguments: Table) -> None:
    """Serve confirm.select, which may be repeated. Raises PreconditionFailed (406) on a transactional channel."""
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.nowait:
        channel.send(method_encoder.method(channel.number, method_encoder.CONFIRM_SELECT_OK))
