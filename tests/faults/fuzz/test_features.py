"""Two clients use queues with every feature at random: all counts agree after each step, and nothing is left at the
end.

The counts are those of the journal, the memory budget, queues and consumers, and the confirms.
"""

import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pamqp.commands import Basic, Channel, Confirm, Queue, Tx

from tests.faults.simulation.brokers.accounts import check_ledger
from tests.support import codec
from tests.support.amqp_client import Silence
from tests.support.clock import FakeClock
from tests.support.hypothesis_settings import examples
from tests.support.queues import held_by, stored_ids
from tests.support.session import SureJournal, connected, new_node, pipe_of
from warren.broker.core.messages.message import Message, ShedMessage
from warren.broker.core.queues import chunks, dead_lettering, paging, ready_messages, sorted_rows
from warren.broker.core.queues import queue as queues
from warren.broker.session import channel as channels
from warren.broker.session.methods.basic import UNREADABLE_RETRY_MS

NAMES = ("a", "b", "c")
SMALL = {
    ready_messages: {"PAGE_ABOVE": 3, "UNPAGE": 2, "PACK_ABOVE": 1, "UNPACK_BELOW": 2, "RUN": 2},
    chunks: {"RUN": 2, "BLOCK": 2},
    paging: {"KEEP_BYTES": 500, "STEP_BYTES": 0},
    sorted_rows: {"BLOCK": 2},
    queues: {"SLICE": 2},
    dead_lettering: {"SLICE": 2, "MANY": 4},
}
BUDGET_BYTES = 3000

names = st.sampled_from(NAMES)
numbers = st.integers(0, 1)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "x-dead-letter-exchange": st.just(""),
        "x-dead-letter-routing-key": names,
        "x-message-ttl": st.sampled_from((0, 20, 200)),
        "x-max-length": st.sampled_from((0, 1, 5)),
        "x-max-length-bytes": st.sampled_from((50, 500)),
        "x-overflow": st.sampled_from(("drop-head", "reject-publish", "reject-publish-dlx")),
        "x-max-priority": st.just(2),
        "x-single-active-consumer": st.booleans(),
        "x-expires": st.sampled_from((50, 500)),
        "x-delivery-limit": st.sampled_from((0, 2)),
        "x-queue-type": st.sampled_from(("classic", "quorum")),
    },
)


class RandomClient:
    """A client with one channel, which it opens again when it was closed."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.connect()

    def connect(self) -> None:
        self.client = connected(self.node)
        self.open()

    def open(self) -> None:
        self.ch = self.client.channel()
        self.published = 0
        self.settled: set[int] = set()
        self.confirming = False

    @property
    def theirs(self) -> channels.Channel | None:
        """Return the broker's side of the channel."""
        return pipe_of(self.client).connection.channels.get(self.ch.number)

    def send(self, kind: Any, **fields: Any) -> None:
        self.ch.send(kind, **fields)
        self.run_turns()

    def run_turns(self) -> None:
        """Receive what is there, and what the jobs of the broker send: they end in the turns that are due now."""
        self.receive()
        self.node.clock.advance(0)

    def receive(self) -> None:
        with contextlib.suppress(Silence):
            while not self.client.ended:
                self.client.pump()
        inbox = self.client.inbox(self.ch.number)
        closed = False
        while inbox:
            item = inbox.popleft()
            if isinstance(item, Basic.Ack | Basic.Nack):
                self.confirmed(item.delivery_tag or 0, bool(item.multiple))
            closed = closed or isinstance(item, Channel.Close)
        if self.client.ended or self.client.inbox(0):
            self.client.vanish()
            self.connect()
        elif closed:
            self.ch.send(Channel.CloseOk)
            self.open()

    def confirmed(self, tag: int, multiple: bool) -> None:
        assert 0 < tag <= self.published and tag not in self.settled, "each publish is settled once"
        self.settled |= {each for each in range(1, tag + 1) if multiple} | {tag}


class FeaturesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module, changed in SMALL.items():
            for name, value in changed.items():
                self.patch.setattr(module, name, value)
        self.journal = SureJournal()
        self.node = new_node(self.journal)
        self.node.ledger.limit_bytes = BUDGET_BYTES
        self.vhost = self.node.vhosts["/"]
        self.clock = self.node.clock
        assert isinstance(self.clock, FakeClock)
        self.clock.after_each = self.receive
        self.clients = [RandomClient(self.node), RandomClient(self.node)]
        self.declared: dict[str, Any] = {}

    def receive(self) -> None:
        for client in self.clients:
            client.receive()

    def run_turns(self) -> None:
        for client in self.clients:
            client.run_turns()

    @initialize(first=arguments, second=arguments, third=arguments)
    def begin(self, first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]) -> None:
        for name, given in zip(NAMES, (first, second, third), strict=True):
            self.clients[0].send(Queue.Declare, queue=name, durable=True, arguments=given)

    @rule(who=numbers, name=names, given=arguments, durable=st.booleans(), kind=st.sampled_from((0, 0, 1, 2)))
    def declare(self, who: int, name: str, given: dict[str, Any], durable: bool, kind: int) -> None:
        self.clients[who].send(
            Queue.Declare, queue=name, durable=durable, auto_delete=kind == 1, exclusive=kind == 2, arguments=given
        )

    @rule(
        who=numbers, name=names, count=st.integers(1, 8), size=st.sampled_from((0, 10, 100)), persistent=st.booleans(),
        priority=st.none() | st.integers(0, 5), expiration=st.none() | st.sampled_from(("0", "10", "100")),
        copies=st.lists(names, max_size=2),
    )  # fmt: skip
    def publish(
        self, who: int, name: str, count: int, size: int, persistent: bool, priority: int | None,
        expiration: str | None, copies: list[str],
    ) -> None:  # fmt: skip
        client = self.clients[who]
        properties: dict[str, Any] = {"delivery_mode": 2 if persistent else 1}
        if priority is not None:
            properties["priority"] = priority
        if expiration is not None:
            properties["expiration"] = expiration
        if copies:
            properties["headers"] = {"CC": copies}
        one = codec.method_frame(client.ch.number, Basic.Publish, {"routing_key": name})
        one += codec.header_frame(client.ch.number, size, properties)
        one += codec.frame(3, client.ch.number, b"x" * size) * bool(size)
        client.published += count if client.confirming else 0
        confirming, before = client.confirming, client.ch
        client.client.raw(one * count)
        client.run_turns()
        assert not confirming or client.ch is not before or len(client.settled) == client.published

    @rule(who=numbers, name=names, no_ack=st.booleans(), priority=st.integers(0, 1), exclusive=st.booleans())
    def consume(self, who: int, name: str, no_ack: bool, priority: int, exclusive: bool) -> None:
        self.clients[who].send(
            Basic.Consume, queue=name, no_ack=no_ack, exclusive=exclusive and not priority,
            consumer_tag=f"{name}{no_ack}{priority}", arguments={"x-priority": priority},
        )  # fmt: skip

    @rule(who=numbers, count=st.integers(0, 3), globally=st.booleans())
    def qos(self, who: int, count: int, globally: bool) -> None:
        self.clients[who].send(Basic.Qos, prefetch_count=count, global_=globally)

    @rule(who=numbers, name=names, no_ack=st.booleans())
    def get(self, who: int, name: str, no_ack: bool) -> None:
        client = self.clients[who]
        client.send(Basic.Get, queue=name, no_ack=no_ack)
        while client.theirs is not None and client.theirs.get_until_ms:  # more messages are due than expire at once
            self.clock.advance(UNREADABLE_RETRY_MS)

    @rule(who=numbers, data=st.data(), how=st.sampled_from(("ack", "nack", "reject")), back=st.booleans(),
          multiple=st.booleans())  # fmt: skip
    def settle(self, who: int, data: st.DataObject, how: str, back: bool, multiple: bool) -> None:
        theirs = self.clients[who].theirs
        tags = sorted(theirs.unacked.tags()) if theirs is not None else []
        if not tags:
            return
        tag = data.draw(st.sampled_from(tags))
        if how == "ack":
            self.clients[who].send(Basic.Ack, delivery_tag=tag, multiple=multiple)
        elif how == "nack":
            self.clients[who].send(Basic.Nack, delivery_tag=tag, multiple=multiple, requeue=back)
        else:
            self.clients[who].send(Basic.Reject, delivery_tag=tag, requeue=back)

    @rule(who=numbers, data=st.data())
    def cancel(self, who: int, data: st.DataObject) -> None:
        theirs = self.clients[who].theirs
        if theirs is not None and theirs.consumers:
            self.clients[who].send(Basic.Cancel, consumer_tag=data.draw(st.sampled_from(sorted(theirs.consumers))))

    @rule(who=numbers, kind=st.sampled_from((Basic.Recover, Tx.Select, Tx.Commit, Tx.Rollback, Channel.Close)))
    def channel(self, who: int, kind: Any) -> None:
        client = self.clients[who]
        said: dict[Any, dict[str, Any]] = {Basic.Recover: {"requeue": True}, Channel.Close: {"reply_code": 200}}
        client.send(kind, **said.get(kind, {}))
        if kind is Channel.Close and client.theirs is None:
            client.open()

    @rule(who=numbers)
    def confirm(self, who: int) -> None:
        theirs = self.clients[who].theirs
        if theirs is not None and theirs.transaction is None and not self.clients[who].confirming:
            self.clients[who].send(Confirm.Select)
            self.clients[who].confirming = True

    @rule(who=numbers)
    def vanish(self, who: int) -> None:
        self.clients[who].client.vanish()
        self.clients[who].connect()
        self.run_turns()

    @rule(who=numbers, name=names, kind=st.sampled_from((Queue.Delete, Queue.Purge)))
    def end(self, who: int, name: str, kind: Any) -> None:
        self.clients[who].send(kind, queue=name)

    @rule(name=names, given=arguments)
    def set_policy(self, name: str, given: dict[str, Any]) -> None:
        keys = ("message-ttl", "expires", "max-length", "overflow", "dead-letter-exchange")
        definition = {key: given[f"x-{key}"] for key in keys if f"x-{key}" in given}
        if definition:
            self.node.policies.set("/", name, f"^{name}$", definition)
            self.run_turns()

    @precondition(lambda self: self.node.policies.all("/"))
    @rule(data=st.data())
    def clear_policy(self, data: st.DataObject) -> None:
        policy = data.draw(st.sampled_from([policy.name for policy in self.node.policies.all("/")]))
        self.node.policies.clear("/", policy)
        self.run_turns()

    @rule(ms=st.sampled_from((0, 1, 10, 60, 600)))
    def wait(self, ms: int) -> None:
        assert isinstance(self.clock, FakeClock)
        self.clock.advance(ms)
        self.receive()

    # The counts

    @invariant()
    def they_balance(self) -> None:
        channels = [each for client in self.clients for each in pipe_of(client.client).connection.channels.values()]
        out = check_ledger(self.node, channels)
        entries = [entry for channel in channels for entry in channel.unacked.values()]
        for channel in channels:
            if channel.transaction is not None:
                entries += [entry for _, entry, _ in channel.transaction.settlements]
        kept: set[tuple[int, int]] = set()
        pages: list[int] = []
        for queue in self.vhost.queues.values():
            held: list[Message] = []
            paged: list[int] = []
            for each in queue.ready_messages.all:
                held += held_by(each)[0]
                paged += stored_ids(each)
            pages += [id_ for id_ in paged if id_ in self.journal.loose]
            kept |= {(queue.number, id_) for id_ in paged if id_ not in self.journal.loose}
            assert queue.ready == len(held) + len(paged)
            assert paged or queue.ready_bytes == sum(message.body_bytes for message in held)
            assert queue.unacked == out[queue]
            messages = [message for of, _, _, message in entries if of is queue]
            messages += [message for message, _, queued in queue.outbox.waiting if queued]
            kept |= {(queue.number, m.id) for m in [*held, *messages] if queue.number and m.persistent}
            assert not queue.dirty and not queue.deleted
            consumed = [consumer for client in self.clients for consumer in self.consumers(client, queue)]
            assert len(consumed) == len(queue.consumers)
            for consumer in list(queue.consumers.all):
                assert consumer.unacked == len([entry for entry in entries if entry[1] is consumer])
        shed = [(of, message) for of, _, _, message in entries if isinstance(message, ShedMessage)]
        pages += [message.id for of, message in shed if not (of.number and message.persistent)]
        loose = Counter(list(self.journal.loose)) + self.journal.held
        assert set(self.journal.live) == kept and Counter(pages) == loose and not self.node.pending

    def consumers(self, client: RandomClient, queue: queues.Queue) -> list[Any]:
        found: list[Any] = []
        for each in pipe_of(client.client).connection.channels.values():
            found += [consumer for consumer in each.consumers.values() if consumer.queue is queue]
        return found

    @invariant()
    def nothing_stands_still(self) -> None:
        """Check that queues have no work left to do, and exceed no limit."""
        assert isinstance(self.clock, FakeClock)
        for queue in self.vhost.queues.values():
            if queue.timer is not None and queue.due_ms <= self.clock.now_ms():
                continue
            settings = queue.settings
            assert not len(queue.outbox)
            if settings.drops_head:
                assert not -1 < settings.max_length < queue.ready and not -1 < settings.max_bytes < queue.ready_bytes
            first = queue.ready_messages.first_loaded()
            front = first.ensure_loaded() if first is not None else None
            if front is None:
                continue
            assert not ready_messages.due(front, self.clock.now_ms())
            turns = queue.consumers.any_ready()
            assert not turns, "a consumer with room is served"

    def teardown(self) -> None:
        try:
            assert isinstance(self.clock, FakeClock)
            for client in self.clients:
                client.client.vanish()
            self.clock.after_each = lambda: None
            for queue in list(self.vhost.queues.values()):
                self.vhost.delete_queue(queue)
            self.node.pump()
            self.clock.advance(0)  # the last turn of jobs
            assert not self.journal.live and not self.journal.left and not self.journal.loose
            assert not self.node.ledger.queued_bytes and not self.node.pending
            assert not [timer for timer in self.clock._timers if not timer.cancelled], "a timer is left behind"
        finally:
            self.patch.undo()


TestTheBooksOfAllFeatures = FeaturesMachine.TestCase
TestTheBooksOfAllFeatures.settings = examples(25)
