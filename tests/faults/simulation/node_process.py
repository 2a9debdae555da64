"""Processes with a whole node on a simulated disk, with clients that publish, consume, purge and delete.

Everything follows from the seed. Clients speak AMQP to real sessions; the clock only moves when it is advanced.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from pamqp.commands import Basic, Exchange, Queue, Tx

from tests.faults.simulation.brokers.accounts import check_ledger
from tests.faults.simulation.definitions import MemoryDefinitions
from tests.faults.simulation.disk import SimulatedDisk
from tests.faults.simulation.node_model import NEVER, Entry, Model, Unanswered
from tests.faults.simulation.vhost_process import VHostActions, VHostModel
from tests.faults.simulation.workers import Workers
from tests.support.amqp_client import Channel, Client, Content, Silence, describe
from tests.support.clock import FakeClock
from tests.support.session import connected, pipe_of
from warren.broker.app.build import build_node
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.core.jobs import scheduler
from warren.broker.core.messages.journal_port import EXHAUSTED
from warren.broker.core.queues import chunks, paging, ready_messages, sorted_rows
from warren.broker.core.queues import ready_messages as line
from warren.broker.session import settlements, transaction
from warren.broker.session.methods import acknowledge, tx
from warren.broker.storage import compaction, segment_reader
from warren.broker.storage.journal import Journal

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel as BrokerChannel
    from warren.broker.storage.metadata import Metadata

QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "refusing": {"x-max-length": 6, "x-overflow": "reject-publish"},
    "unique": {"x-message-deduplication": True},
    "timed": {"x-message-ttl": 3000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    "dead": {},
    "levels": {"x-max-priority": 3},
    "counting": {"x-queue-type": "quorum", "x-delivery-limit": -1},
    "brief": {},  # deleted now and then
}
EXCHANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all": ({}, ["plain", "counting", "levels"]),
    "once": ({"x-message-deduplication": True}, ["refusing"]),
    "forgetful": ({"x-message-deduplication": True, "x-cache-ttl": 2500}, ["plain"]),
    "later": ({"x-delayed-exchange": True}, ["plain", "timed"]),
}
DIRECT = ["plain", "refusing", "unique", "timed", "levels", "counting", "brief"]
FAMILY = {"dead": "timed"}
LEVELLED = ("levels", "counting")  # queues in which higher priorities are first
KEYS = 6  # values of the deduplication header
DELAYS_MS = (0, 1, 500, 4000)
CACHE_TTLS_MS = (-1, 0, 1000)  # of messages; negative for none
PURGED = ("plain", "plain", "timed", "dead", "levels", "counting", "unique")
READ_ERRORS = (errno.EIO, errno.EIO, errno.ENOSPC, *EXHAUSTED)
BODY_BYTES = (0, 20, 300, 1200)
SEGMENT_BYTES = (600, 2000, 8000, 60_000)
TURN_COSTS = (scheduler.TURN_COST, 5)  # with the latter, each turn does one step, and each commit is a long one
BUDGET_BYTES = (0, 1500, 5000, 1 << 40)


class World:
    """The state that outlives a process."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(self.random)
        self.metadata = MemoryDefinitions()
        self.now_ms = 1_000_000
        self.model = Model()
        self.vhosts = VHostModel()
        self.segment_bytes = self.random.choice(SEGMENT_BYTES)
        self.budget_bytes = self.random.choice(BUDGET_BYTES)
        self.turn_cost = self.random.choice(TURN_COSTS)
        self.unanswered: Unanswered | None = None
        self.trace: list[str] = []


class SimulatedStore(Store):
    def __init__(self, world: World) -> None:
        super().__init__(Config(memory=True))
        self.definitions = world.metadata.load()
        journal = Journal(world.disk, cast("Metadata", world.metadata), world.segment_bytes)
        self.queues = journal.recover(self.definitions.numbers, self.definitions.next_queue - 1)
        self.next_queue = journal.next_queue
        self.segments = journal
        self.journal = journal


def set_small_sizes(monkeypatch: pytest.MonkeyPatch, read_bytes: int) -> None:
    """Make slices, pages and reads small, so that few messages take the paths of very many."""
    monkeypatch.setattr(line, "PAGE_ABOVE", 3)
    monkeypatch.setattr(line, "UNPAGE", 4)
    monkeypatch.setattr(ready_messages, "UNPAGE", 4)
    monkeypatch.setattr(line, "PACK_ABOVE", 1)
    monkeypatch.setattr(line, "UNPACK_BELOW", 2)
    monkeypatch.setattr(chunks, "RUN", 2)
    monkeypatch.setattr(line, "RUN", 2)
    monkeypatch.setattr(chunks, "BLOCK", 2)
    monkeypatch.setattr(paging, "KEEP_BYTES", 500)
    monkeypatch.setattr(paging, "STEP_BYTES", 0)
    monkeypatch.setattr(sorted_rows, "BLOCK", 2)
    monkeypatch.setattr(compaction, "SLICE_BYTES", 1000)
    monkeypatch.setattr(segment_reader, "READ_BYTES", read_bytes)
    for module, size in (
        (scheduler, "TURN_COST"),
        (tx, "TURN_COST"),
        (tx, "SLICE"),
        (transaction, "TURN_COST"),
        (transaction, "SLICE"),
        (acknowledge, "SLICE"),
        (settlements, "SLICE"),
    ):
        monkeypatch.setattr(module, size, getattr(module, size))  # a process sets them


def number_of(body: bytes) -> int:
    return int(body.partition(b":")[0])


class Publish:
    """A publish: its exchange, routing key and properties."""

    def __init__(self, number: int, exchange: str, key: str, random: Random) -> None:
        self.number = number
        self.exchange = exchange
        self.key = key
        self.targets = EXCHANGES[exchange][1] if exchange else [key]
        unlike = exchange in ("once", "forgetful") or key == "unique"
        self.like = random.randrange(KEYS) if unlike else -1
        asked_ms = random.choice(CACHE_TTLS_MS) if unlike else -1
        arguments = EXCHANGES[exchange][0] if exchange else {}
        self.forgotten_ms = asked_ms if asked_ms >= 0 else arguments.get("x-cache-ttl", inf)
        self.delay_ms = random.choice(DELAYS_MS) if exchange == "later" else 0
        self.persistent = bool(exchange) or key not in ("plain", "levels") or random.random() < 0.8
        self.priority = random.randrange(4)
        headers: dict[str, Any] = {}
        if self.like >= 0:
            headers["x-deduplication-header"] = self.like
        if asked_ms >= 0:
            headers["x-cache-ttl"] = asked_ms
        if self.delay_ms:
            headers["x-delay"] = self.delay_ms
        self.properties = {"delivery_mode": 1 + self.persistent, "priority": self.priority, "headers": headers}

    def __str__(self) -> str:
        return f"{self.number} to '{self.exchange}' '{self.key}' like {self.like} in {self.delay_ms} ms"


class Publisher:
    """A connection with confirms. `unconfirmed` has the entries of each publish, by its number."""

    def __init__(self, client: Client) -> None:
        self.channel = client.channel(1)
        self.channel.confirm()
        self.published = 0
        self.unconfirmed: dict[int, list[Entry]] = {}

    def refused(self, tag: int) -> bool:
        """Return whether the latest publish was rejected; other answers stay in the inbox."""
        client = self.channel.client
        confirms = pipe_of(client).connection.channels[1].confirms
        assert confirms is not None, "the channel is closed"
        if tag in confirms.refusals():
            return True
        with suppress(Silence):
            client.pump()
        return any(isinstance(item, Basic.Nack) and item.delivery_tag == tag for item in client.inbox(1))

    def confirmed(self, last: int, multiple: bool, positive: bool, durable: int) -> None:
        for number in [each for each in self.unconfirmed if each == last or multiple and each < last]:
            entries = self.unconfirmed.pop(number)
            for entry in entries if positive else ():
                assert entry.ticket <= durable or not entry.persistent, "confirmed before it is durable"
            assert positive or not entries, "rejected, and yet enqueued"


class NodeProcess:
    """One process. Its methods raise Stopped, or OSError, like the disk."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.model = world.model
        self.clock = FakeClock(world.now_ms)
        self.long = world.turn_cost < TURN_COSTS[0]  # commits are
        tx.TURN_COST = transaction.TURN_COST = scheduler.TURN_COST = world.turn_cost
        size = 1 if self.long else scheduler.SLICE
        tx.SLICE = transaction.SLICE = acknowledge.SLICE = settlements.SLICE = size
        store = SimulatedStore(world)
        self.journal = store.segments
        self._check_commit(store)
        config = Config(memory=False, message_memory_bytes=world.budget_bytes)
        self.node = build_node(config, self.clock, store)
        self.node.scheduler.report = self._report
        self.workers = Workers(self.journal, world.random, self.trace, self.node.pump, self._delayed)
        self.failing = self.short = 0.0  # the probabilities that a read, and a call of the worker, fails
        self.quiet = False  # clients do nothing new
        self.publishers = [Publisher(self._open()) for _ in range(2)]
        self.transacting = self._open().channel(1)
        self.admin = self._open().channel(1)
        subscriber = self._open()
        self.subscribers = [subscriber.channel(number) for number in (1, 2)]
        self.pending: list[Publish] = []  # in the open transaction
        self.settling: list[tuple[int, str, Entry, str]] = []  # likewise: tag, queue, entry, and the settlement
        self.committing: list[Entry] | None = None
        self.acknowledging: list[Entry] = []
        self.requeuing: list[Entry] = []  # by the last commit
        self.outstanding: list[tuple[Channel, int, str, Entry]] = []  # deliveries: tag, queue
        self.removing: list[Entry] | None = None  # by an unanswered purge or deletion
        self.brief = False  # the queue `brief` exists
        self.brief_commits = False  # the commit under way publishes to it
        self.declaring = False  # and it is being declared again
        self.latest: dict[str, int] = {}  # by consumer, the arrival of the last fresh delivery
        self.vhosts = VHostActions(self.node, self.journal, world.vhosts, world.random)
        self._set_up()

    def trace(self, line: str) -> None:
        self.world.trace.append(line)

    def _report(self, event: str, level: str, fields: dict[str, object]) -> None:
        error = fields.get("exc_info")
        raise AssertionError(f"{event}: {fields}") from (error if isinstance(error, Exception) else None)

    def _check_commit(self, store: SimulatedStore) -> None:
        """Check that all of the last commit of the process before is there, or nothing."""
        unanswered, self.world.unanswered = self.world.unanswered, None
        if unanswered is None or store.definitions is None:
            return
        found: dict[str, set[int]] = {}
        for queue in store.definitions.queues:
            messages = self.journal.read_all(list(store.queues.get(queue.number, ())), queue.number)
            assert None not in messages, f"{queue.name} has unreadable messages"
            found[queue.name] = {number_of(message.body) for message in messages if message is not None}
        self.trace(unanswered.check(found))

    def unanswered(self) -> Unanswered | None:
        """Return what shows whether the commit that is under way has happened."""
        if self.committing is None:
            return None
        durable = self.journal.durable
        shown = [
            (name, entry)
            for name, entries in self.model.entries.items()
            for entry in entries.values()
            if name != "unique"  # which may have an earlier message in place of it
            and entry.persistent
            and entry.certain
            and not (entry.moves or entry.removed)
        ]
        stored = [(name, entry.number) for name, entry in shown if entry in self.committing and not entry.settled]
        settled = [
            (name, entry.number) for name, entry in shown if entry in self.acknowledging and entry.ticket <= durable
        ]
        return Unanswered(stored, settled)

    def _open(self) -> Client:
        return connected(self.node)

    def _set_up(self) -> None:
        """Declare all queues and exchanges that do not exist, and consume nothing yet."""
        self.transacting.transact()
        for subscriber in (*self.subscribers, self.transacting):
            subscriber.qos(self.random.choice((1, 3, 20)))
        for name, arguments in QUEUES.items():
            self.admin.send(Queue.Declare, queue=name, durable=True, arguments=arguments)
        for name, (arguments, queues) in EXCHANGES.items():
            declared = {"exchange": name, "exchange_type": "fanout", "durable": True, "arguments": arguments}
            self.admin.send(Exchange.Declare, **declared)
            for queue in queues:
                self.admin.send(Queue.Bind, queue=queue, exchange=name, routing_key="")
        self.commit_all()
        self.brief = True
        self.world.disk.before = self._between

    # The workers

    def _between(self, what: str, name: str) -> None:
        """Run the loop or the other worker before this call of a worker; or make a call of the loop itself fail."""
        workers = self.workers
        if not workers.active:
            if what in ("open", "read") and self.random.random() < self.failing:
                self.model.refused = True
                raise OSError(self.random.choice(READ_ERRORS), "injected", name)
            return
        if what != "sync" and self.random.random() < self.short:
            raise OSError(self.random.choice(EXHAUSTED), "injected", name)
        if not self.quiet and not self.random.randrange(3):
            workers.active = False
            self.work() if self.random.random() < 0.6 else workers.step()
            workers.active = True

    def _delayed(self, error: OSError) -> None:
        self.world.disk.limit_bytes = None

    def commit(self) -> bool:
        """Take one step of a group commit; return False if nothing is outstanding."""
        return self.workers.step()

    def commit_all(self) -> None:
        """Commit until all requests of clients are durable; sessions continue when their clients have read."""
        for _ in range(3000):
            if not self.commit():
                self.receive()
                turned = self._turn()
                if not self.commit() and not self.commit() and not turned:
                    return
        raise AssertionError("the journal never stops writing")

    # Answers and deliveries

    def receive(self) -> None:
        for channel in (*[each.channel for each in self.publishers], self.transacting, self.admin, *self.subscribers):
            client = channel.client
            with suppress(Silence):
                while not client.ended:
                    client.pump()
            assert not client.ended and not client.inbox(0), f"the connection ended: {list(client.inbox(0))}"
            inbox = client.inbox(channel.number)
            while inbox:
                self._receive(channel, inbox.popleft())

    def _receive(self, channel: Channel, item: Any) -> None:
        if isinstance(item, Basic.Ack | Basic.Nack):
            publisher = next(each for each in self.publishers if each.channel is channel)
            positive = isinstance(item, Basic.Ack)
            publisher.confirmed(item.delivery_tag or 0, bool(item.multiple), positive, self.journal.durable)
        elif isinstance(item, Tx.CommitOk):
            assert self.committing is not None
            durable = self.journal.durable
            for entry in self.committing:
                entry.ticket = min(entry.ticket, durable) if self.long else entry.ticket
                assert entry.ticket <= durable or not entry.persistent, "committed before it is durable"
            for entry in self.acknowledging:
                entry.settled = min(entry.settled, durable) if self.long else entry.settled
                assert entry.settled <= durable or not entry.persistent, "committed before that is durable"
            self.committing = None
        elif isinstance(item, Queue.PurgeOk | Queue.DeleteOk):
            assert self.removing is not None
            for entries in self.model.entries.values():
                for entry in self.removing:
                    if entries.get(entry.number) is entry:
                        del entries[entry.number]
            self.removing = None
        elif isinstance(item, Queue.DeclareOk):
            self.brief = self.brief or item.queue == "brief"
            self.declaring = self.declaring and item.queue != "brief"
        elif isinstance(item, Content):
            queue = item.method.consumer_tag.partition(".")[0]
            self._delivered(channel, queue, item)
        else:
            known = (Basic.ConsumeOk, Basic.CancelOk, Basic.Cancel, Queue.BindOk, Exchange.DeclareOk, Tx.RollbackOk)
            assert isinstance(item, known), f"unexpected: {describe(item)}"

    def _delivered(self, channel: Channel, queue: str, item: Content) -> None:
        number = number_of(item.body)
        self.trace(f"{queue} delivers {number}{' again' if item.redelivered else ''}")
        entry = self.model.deliver(FAMILY.get(queue, queue), number, item.body, item.redelivered, self.clock.now_ms())
        consumer = item.method.consumer_tag
        in_order = entry.ordered and not item.redelivered and not entry.moves and queue not in LEVELLED
        if in_order and not self.model.refused:
            assert self.latest.get(consumer, 0) < entry.arrival, f"message {number} of {queue} is out of order"
            self.latest[consumer] = entry.arrival
        self.outstanding.append((channel, item.tag, queue, entry))

    # Actions of clients

    def work(self) -> None:
        kinds: list[tuple[int, Callable[[], object]]] = [
            (50, self._publish), (30 if self.long else 12, self._transact), (45, self._settle), (6, self._consume),
            (4, self._cancel), (3 if self.long else 8, self._pass), (2, self._purge), (2, self._delete),
            (2, self._refuse), (1, self._run_short), (1, self._fill), (3, self._vhost), (6, self._turn),
        ]  # fmt: skip
        self.random.choices(kinds, [weight for weight, _ in kinds])[0][1]()
        self.receive()

    def _made(self, transaction: bool) -> Publish:
        number = len(self.model.bodies)
        self.model.bodies.append(b"%d:" % number + self.random.randbytes(self.random.choice(BODY_BYTES)))
        left_out = {"" if self.brief else "brief", "refusing" if transaction else ""}
        if transaction and self.long:
            left_out.add("unique")  # others may be first, whoever was asked first
        direct = [name for name in DIRECT if name not in left_out]
        once = [] if transaction else ["once", "forgetful"]
        exchange = self.random.choice(["", "", "all", "later", *once])
        return Publish(number, exchange, "" if exchange else self.random.choice(direct), self.random)

    def _send(self, channel: Channel, publish: Publish) -> None:
        channel.publish(publish.exchange, publish.key, self.model.bodies[publish.number], publish.properties)

    def _taken(self, publish: Publish) -> list[Entry]:
        """Record that the queues have it now, or, for a duplicate, the original."""
        like = (publish.exchange, publish.key, publish.like)
        original, forgotten_ms = self.model.seen.get(like, ([], -inf))
        if publish.like >= 0 and self.clock.now_ms() < forgotten_ms:
            self.trace(f"{publish.number} is a duplicate")
            return original
        entries: list[Entry] = []
        if publish.like >= 0:
            self.model.seen[like] = entries, self.clock.now_ms() + publish.forgotten_ms
        due_ms = self.clock.now_ms() + publish.delay_ms
        for queue in publish.targets:
            moves = queue == "timed" or publish.delay_ms > 0
            persistent = publish.persistent or queue == "counting"
            if queue == "brief" and not self.brief:
                continue
            entries.append(self.model.take(queue, publish.number, self.journal, persistent, moves, due_ms))
            entries[-1].priority = publish.priority
        return entries

    def _publish(self) -> None:
        for _ in range(self.random.choice((1, 1, 3, 9))):
            publish = self._made(False)
            publisher = self.random.choice(self.publishers)
            tag = publisher.published = publisher.published + 1
            self._send(publisher.channel, publish)
            refused = publisher.refused(tag)
            self.trace(f"publish {publish}{': refused' if refused else ''} in {self.journal.ticket()}")
            publisher.unconfirmed[tag] = [] if refused else self._taken(publish)

    def _transact(self) -> None:
        if self.committing is not None:
            return
        choice = self.random.random()
        if choice < 0.6 or not self.pending and not self.settling:
            publish = self._made(True)
            self._send(self.transacting, publish)
            self.pending.append(publish)
            self.trace(f"publish {publish} in a transaction")
            return
        pending, self.pending = self.pending, []
        settling, self.settling = self.settling, []
        if choice < 0.75:
            self.transacting.send(Tx.Rollback)
            self.outstanding += [(self.transacting, tag, queue, entry) for tag, queue, entry, _ in settling]
            self.trace("rollback")
            return
        self.transacting.send(Tx.Commit)
        self.committing = [entry for publish in pending for entry in self._taken(publish)]
        self.acknowledging = [entry for _, queue, entry, choice in settling if self._settled(queue, entry, choice)]
        self.requeuing = [entry for *_, entry, choice in settling if choice == "requeue"]
        if self.long:
            for entry in self.committing:
                entry.ticket, entry.ordered = NEVER, False
            for entry in self.acknowledging:
                entry.settled = NEVER
            self.brief_commits = any(publish.key == "brief" for publish in pending)
        self.trace(f"commit in {self.journal.ticket()}")

    def _settle(self) -> None:
        for _ in range(min(len(self.outstanding), self.random.choice((1, 3, 10)))):
            channel, tag, queue, entry = held = self.outstanding.pop(self.random.randrange(len(self.outstanding)))
            if channel is self.transacting and self.committing is not None:
                self.outstanding.append(held)
                return
            choice = self.random.choice(("ack", "ack", "ack", "requeue", "reject"))
            self.trace(f"{choice} {entry.number} of {queue}")
            if choice == "ack":
                channel.ack(tag)
            else:
                channel.nack(tag, requeue=choice == "requeue")
            if channel is self.transacting:
                self.settling.append((tag, queue, entry, choice))
            else:
                self._settled(queue, entry, choice)

    def _settled(self, queue: str, entry: Entry, choice: str) -> bool:
        """Record a settlement; return whether it is final."""
        entry.out = False
        if choice == "reject" and queue == "timed":
            entry.delivered = False
            return False
        if choice != "requeue":
            entry.settled = self.journal.ticket()
        return choice != "requeue"

    def _consume(self) -> None:
        queue = self.random.choice([name for name in QUEUES if name != "brief" or self.brief])
        share = 3 if self.long else 1
        channel = self.random.choice([*self.subscribers, *[self.transacting] * share * (queue != "brief")])
        self.trace(f"consume {queue} on {'the transaction' if channel is self.transacting else channel.number}")
        channel.send(Basic.Consume, queue=queue, consumer_tag=f"{queue}.{self.random.getrandbits(64)}")

    def _cancel(self) -> None:
        channel = self.random.choice([*self.subscribers, self.transacting])
        tags = list(pipe_of(channel.client).connection.channels[channel.number].consumers)
        if tags:
            channel.send(Basic.Cancel, consumer_tag=self.random.choice(tags))

    def _turn(self) -> bool:
        """Run what is due, as one turn of the loop does; return whether there was anything."""
        return self.clock.run_next(self.clock.now_ms())

    def _pass(self) -> None:
        ms = self.random.choice((0, 1, 300, 2000, 11_000))
        self.trace(f"{ms} ms pass")
        self.clock.advance(ms)

    def _purge(self) -> None:
        self._remove(self.random.choice(PURGED), Queue.Purge)

    def _delete(self) -> None:
        if self.removing is not None or self.declaring:
            return
        if not self.brief:
            self.declaring = True
            self.admin.send(Queue.Declare, queue="brief", durable=True)
            self.trace("declare brief")
        elif not any(publish.key == "brief" for publish in self.pending) and not (
            self.committing is not None and self.brief_commits
        ):
            self.brief = False
            self._remove("brief", Queue.Delete)
            for held in [each for each in self.outstanding if each[2] == "brief"]:
                self.outstanding.remove(held)
                held[0].ack(held[1])

    def _remove(self, queue: str, kind: type[Queue.Purge] | type[Queue.Delete]) -> None:
        """Record that ready messages, or all, are removed; once that is answered, they must not exist any more."""
        if self.removing is not None or self.declaring:  # it would be served only after the other
            return
        self.trace(f"{kind.name} {queue}")
        there = self.model.entries.get(FAMILY.get(queue, queue), {}).values()
        entries = [each for each in there if kind is Queue.Delete or not each.out]
        self.removing = []
        for entry in entries:
            if entry.moves or self.committing is not None and entry in (*self.committing, *self.requeuing):
                entry.certain = False  # a delayed message may not be in the queue yet, nor one of a long commit
            elif not entry.settled:
                entry.removed = True
                self.removing.append(entry)
        self.admin.send(kind, queue=queue)

    def _vhost(self) -> None:
        self.trace(self.vhosts.work())

    def _refuse(self) -> None:
        self.failing = self.random.choice((0.0, 0.0, 0.0, 0.2, 1.0))
        self.trace(f"reads fail in {self.failing} of all cases")

    def _run_short(self) -> None:
        self.short = self.random.choice((0.0, 0.0, 0.1, 0.5))

    def _fill(self) -> None:
        self.world.disk.limit_bytes = self.world.disk.used_bytes + self.random.randrange(2000)
        self.trace("the disk is nearly full")

    # The end

    def calm(self) -> None:
        """Make the disk reliable from now on, and all that has gathered durable."""
        self.failing = self.short = 0.0
        self.world.disk.limit_bytes = None
        self.quiet = True
        self.commit_all()

    def stop(self) -> None:
        """Stop cleanly."""
        self.calm()
        while not self.node.finish():
            self.commit_all()
        self.commit_all()
        self.journal.close()
        self.world.metadata.sync()

    def check_counters(self) -> None:
        for queue in self.node.vhosts["/"].queues.values():
            out = [name for _, _, name, _ in self.outstanding] + [name for _, name, _, _ in self.settling]
            out = out.count(queue.name)
            settling = self.long and self.committing is not None
            assert settling or queue.unacked == out, f"{queue}: {queue.unacked} unacknowledged, and {out} are out"
            assert queue.ready == sum(len(line) for line in queue.ready_messages.all), f"{queue}: {queue.ready} ready"
        self.check_memory()

    def check_memory(self) -> None:
        """Compare the memory that is counted with what is held, unless a job is under way."""
        if not len(self.node.scheduler):
            check_ledger(self.node, cast("Iterable[BrokerChannel]", self.node.shedding.holders))

    def drain(self) -> None:
        """Consume all messages, and compare them with the model."""
        self.calm()
        for _ in range(6):
            self.clock.advance(11_000)
            self.commit_all()
        getter = self.subscribers[0]
        for name in QUEUES:
            found: list[Entry] = []
            while (item := getter.get(name)) is not None:
                number = number_of(item.body)
                self.trace(f"{name} has {number}")
                found.append(
                    self.model.deliver(FAMILY.get(name, name), number, item.body, item.redelivered, self.clock.now_ms())
                )
            there = [entry for entry in found if entry.ordered and not entry.moves]
            order = [(-entry.priority if name in LEVELLED else 0, entry.arrival) for entry in there]
            assert order == sorted(order), f"{name} is out of order"
        self.vhosts.drain()
        for name, entries in self.model.entries.items():
            lost = [n for n, e in entries.items() if e.certain and not e.out and not e.settled and not e.removed]
            assert not lost, f"{name}: {lost} are LOST"
        self.commit_all()
        for queue in self.node.vhosts["/"].queues.values():
            kept = (queue.ready, queue.ready_bytes, queue.unacked, queue.unacked_bytes, queue.journal.count)
            assert kept == (0, 0, 0, 0, 0), f"{queue} is empty, and counts {kept}"
            assert not queue.journal.body_bytes and not queue.ready_messages.unread_count
        assert not self.node.ledger.queued_bytes
        live = sum(segment.live for segment in self.journal.segments.values())
        assert not live, f"the journal keeps {live} messages of empty queues"
