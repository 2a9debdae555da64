"""A state machine of hypothesis: clients with several channels use a broker, whose frames the model checks.

A history uses one profile: the arguments that its queues may have. So features meet in small numbers, and all of them
meet in the profile `mixed`.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from pamqp import base, commands
from pamqp.commands import Basic, Confirm, Connection, Exchange, Tx
from pamqp.commands import Channel as ChannelMethods
from pamqp.commands import Queue as QueueMethods

from tests.support.amqp_client import Channel as ClientChannel
from tests.support.amqp_client import Client, Silence
from tests.support.in_process import InProcessPeer
from tests.support.peer import Peer
from tests.support.queues import ready_messages
from warren.broker.amqp.field_table import Table

from .channel_model import ACK, NACK, REJECT, RETURN, Channel, Refused
from .queue_model import WARREN, Consumer, Dialect, Identity, Message, Queue
from .session_model import Choices, Key, Mismatch, Model, check, queue_type
from .session_model import Exchange as ExchangeModel

CONNECTIONS, CHANNELS = 2, 2
QUEUES = ("q0", "q1", "q2")
FANOUT, DIRECT = "fanout", "direct"
SHORT_MS, LONG_MS = 1_000, 3_001

LENGTHS = {"x-max-length": st.integers(0, 3), "x-max-length-bytes": st.integers(0, 12)}
LIMITS = LENGTHS | {"x-overflow": st.sampled_from(("drop-head", "reject-publish", "reject-publish-dlx"))}
EXPIRY = {"x-message-ttl": st.sampled_from((0, SHORT_MS, LONG_MS))}
DEAD_LETTERS = {
    "x-dead-letter-exchange": st.sampled_from(("", FANOUT, DIRECT, "missing")),
    "x-dead-letter-routing-key": st.sampled_from((*QUEUES, "nowhere")),
}
PRIORITIES = {"x-max-priority": st.sampled_from((3, 2, 1))}
DELIVERY_LIMIT = {"x-delivery-limit": st.integers(-1, 2)}
SINGLE_ACTIVE = {"x-single-active-consumer": st.just(True)}
AT_LEAST_ONCE = {"x-dead-letter-strategy": st.just("at-least-once"), "x-overflow": st.just("reject-publish")}
CLASSIC, QUORUM = {"x-queue-type": st.just("classic")}, {"x-queue-type": st.just("quorum")}
EITHER = {"x-queue-type": st.sampled_from(("classic", "quorum"))}

# profile -> arguments that each queue has, and those that it may have
PROFILES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": (CLASSIC, {}),
    "limits": (CLASSIC, LIMITS | DEAD_LETTERS),
    "expiry": (CLASSIC, EXPIRY | DEAD_LETTERS),
    "priorities": (CLASSIC | PRIORITIES, EXPIRY | LIMITS),
    "single_active": (EITHER | SINGLE_ACTIVE, DEAD_LETTERS),
    "quorum": (QUORUM, DELIVERY_LIMIT | DEAD_LETTERS | LIMITS),
    "at_least_once": (QUORUM | DEAD_LETTERS | AT_LEAST_ONCE, DELIVERY_LIMIT | EXPIRY | LENGTHS),
    "mixed": (EITHER, AT_LEAST_ONCE | LIMITS | EXPIRY | DEAD_LETTERS | PRIORITIES | DELIVERY_LIMIT | SINGLE_ACTIVE),
}


POLICY_KEYS = frozenset(LIMITS | EXPIRY | DEAD_LETTERS | DELIVERY_LIMIT | AT_LEAST_ONCE)
MODES = (Confirm.Select, Tx.Select, Tx.Commit, Tx.Rollback, ChannelMethods.Flow)
WAYS = (ACK, ACK, REJECT, REJECT, NACK, NACK, RETURN)  # to settle a delivery
NEUTRAL = (Confirm.Select, Tx.Select, ChannelMethods.Flow)
Fields = Mapping[str, Any]
Rules = Callable[[dict[Key, list[Any]]], None]
reply_kinds = {kind.name: kind for kind in commands.INDEX_MAPPING.values()}


class SessionMachine(RuleBasedStateMachine):
    """A history of several clients.

    models  those that explain all frames so far, by different choices; clients and rules see the first, `model`
    """

    profile: ClassVar[str] = "mixed"
    dialect: ClassVar[Dialect] = WARREN
    patience_ms: ClassVar[int | None] = None  # for frames; nothing is on its way within a process
    MAX_PATHS: ClassVar[int] = 900  # of choices, in all steps: a history that needs more to be explained is given up

    def __init__(self) -> None:
        super().__init__()
        self.peer = self.new_peer()
        self.model = Model(partial(timestamp_s, self.peer.in_process), self.dialect)
        self.models = [self.model]
        self.paths = 0  # that were followed, without the first one of each step
        self.clients: dict[int, Client] = {}
        self.published = 0
        self.admin = self.peer.connect().channel()

    def new_peer(self) -> Peer:
        return InProcessPeer()

    def now_ms(self) -> int:
        """The time of the broker's clock."""
        assert isinstance(self.peer, InProcessPeer)
        return self.peer.clock.now_ms()

    def teardown(self) -> None:
        self.peer.close()

    # Steps

    @property
    def keys(self) -> list[Key]:
        """The open channels."""
        return list(self.model.channels)

    @property
    def keys_by_deliveries(self) -> list[Key]:
        """The channel of each delivery that is not settled: one with more of them is drawn more often."""
        return [key for key, channel in self.model.channels.items() for _ in channel.unacked]

    def client_channel(self, key: Key) -> ClientChannel:
        return self.clients[key[0]].unopened(key[1])

    def collect(self) -> dict[Key, list[Any]]:
        """Return all frames that have come, by channel; answer those that close a channel or connection."""
        came: dict[Key, list[Any]] = {}
        if self.peer.in_process:
            self.peer.wait(0)  # what is due now is done in the next turn of a loop
        for index, client in self.clients.items():
            with suppress(Silence):
                while not client.ended:
                    client.pump(self.patience_ms)
            for number in range(CHANNELS + 1):
                inbox = client.inbox(number)
                came[index, number] = list(inbox)
                inbox.clear()
                for frame in came[index, number]:
                    if isinstance(frame, ChannelMethods.Close | Connection.Close):
                        client.send(ChannelMethods.CloseOk if number else Connection.CloseOk, number)
        return came

    def request(self, key: Key, rules: Callable[[Channel], None], *methods: tuple[type[base.Frame], Fields]) -> None:
        """Send methods on a channel at once, and check all that comes by the rules of the model."""
        channel = self.client_channel(key)
        for kind, fields in methods:
            channel.send(kind, **fields)
        self.step(key, rules)

    def step(self, key: Key, rules: Callable[[Channel], None]) -> None:
        """Check the frames that came since a request was sent on this channel, and the length of each queue."""
        self.explain(lambda came: self.model.step(came, self.now_ms(), key, rules))
        for index in set(self.clients) - self.model.connections:
            self.clients.pop(index).vanish()

    def explain(self, rules: Rules) -> None:
        """Check the frames that came by these rules, and the messages of each queue. Raises Mismatch.

        Only what is not explained otherwise is explained by more choices.
        """
        came = self.collect()
        widely = [copy.deepcopy(model) for model in self.models if model.may_choose_widely]
        try:
            self.models = self.explanations(self.models, False, rules, came)
        except Mismatch:
            if not widely:
                raise
            self.models = self.explanations(widely, True, rules, came)
        self.model = self.models[0]

    def explanations(self, models: list[Model], wide: bool, rules: Rules, came: dict[Key, list[Any]]) -> list[Model]:
        """Return models that explain the frames, each in another state; the given ones may change. Raises Mismatch."""
        found: dict[str, Model] = {}
        failed: Mismatch | None = None
        for before in models:
            choices, may_choose = Choices(wide), wide or before.may_choose
            while True:
                self.paths += bool(found) or failed is not None
                if self.paths > self.MAX_PATHS:
                    raise UnsatisfiedAssumption("too many paths")
                model = copy.deepcopy(before) if may_choose else before
                try:
                    self.attempt(model, choices, rules, came)
                    found.setdefault(model.state, model)
                except Mismatch as mismatch:
                    failed = mismatch
                if not (may_choose and choices.next_path()):
                    break
        if failed is not None and not found:
            raise failed
        return list(found.values())

    def attempt(self, model: Model, choices: Choices, rules: Rules, came: dict[Key, list[Any]]) -> None:
        """Apply the rules to this model, with these choices. Raises Mismatch."""
        self.model = model
        model.choices = choices
        rules(came)
        self.check_queues()

    def check_queues(self) -> None:
        """Compare the messages, and the counts that each queue reports to another connection."""
        for queue in self.model.queues.values():
            if (messages := self.messages_of(queue.name)) is not None:
                queue.take_order(messages)
                check(f"messages of {queue_type(queue)}", [one.message.identity for one in queue.ready], messages)
                unsettled = self.peer.node.vhosts["/"].queues[queue.name].unacked
                check(f"unsettled of {queue_type(queue)}", self.model.unsettled_count(queue), unsettled)
            if queue.owner is None:
                came = self.admin.declare(queue.name, passive=True)
                counts = came.message_count, came.consumer_count
                check(f"counts of {queue_type(queue)}", (len(queue.ready), self.model.consumer_count(queue)), counts)

    def messages_of(self, name: str) -> list[Identity] | None:
        """The identities of the ready messages of a queue, in their order, or None if they cannot be seen."""
        if not isinstance(self.peer, InProcessPeer):
            return None
        ready = ready_messages(self.peer.node.vhosts["/"].queues[name])
        return [(one.address.exchange, one.address.routing_key, one.body, deaths_of(one.headers)) for one in ready]

    def call(self, key: Key, kind: type[base.Frame], rules: Callable[[Channel], None] = lambda channel: None,
             **fields: Any) -> None:  # fmt: skip
        """Send a method whose reply has nothing to check, after the rules that may refuse it."""
        replies = [reply_kinds[name] for name in kind.valid_responses]

        def rules_and_reply(channel: Channel) -> None:
            rules(channel)
            self.model.reply(channel, *replies)

        self.request(key, rules_and_reply, (kind, fields))

    # Connections and channels

    @initialize(data=st.data())
    def declare_all(self, data: st.DataObject) -> None:
        """Open the channels; declare queues with arguments of the profile, and two exchanges that are bound to all."""
        self.open_all()
        for name, fanout in ((FANOUT, True), (DIRECT, False)):
            self.declare_exchange_of(self.keys[0], name, fanout)
        for name in QUEUES:
            self.declare_queue_of(data, self.keys[0], name)

    def open_all(self) -> None:
        for index in range(CONNECTIONS):
            self.connect(index)
            for number in range(1, CHANNELS + 1):
                self.open_channel((index, number))

    def connect(self, index: int) -> None:
        self.clients[index] = self.peer.connect()
        for model in self.models:
            model.connections.add(index)
        for number in range(1, CHANNELS + 1):
            self.clients[index].unopened(number)

    def open_channel(self, key: Key) -> None:
        self.call(key, ChannelMethods.Open, lambda channel: self.model.channels.update({key: channel}))

    @precondition(lambda self: len(self.keys) < CONNECTIONS * CHANNELS)
    @rule(data=st.data())
    def open(self, data: st.DataObject) -> None:
        every = [(index, number) for index in range(CONNECTIONS) for number in range(1, CHANNELS + 1)]
        key = data.draw(st.sampled_from([one for one in every if one not in self.keys]))
        if key[0] not in self.clients:
            self.connect(key[0])
        self.open_channel(key)

    @precondition(lambda self: len(self.keys) > 1)
    @rule(data=st.data(), what=st.sampled_from(("end", "delete_queue", "delete_queue", "delete_exchange", "settle")))
    def disturb(self, data: st.DataObject, what: str) -> None:
        """End a channel or a connection, delete a queue or an exchange, or settle an unknown tag."""
        if what == "end":
            how = data.draw(st.sampled_from(("channel", "channel", "connection", "lost", "refused", "hard")))
            self.end(data.draw(st.sampled_from(self.keys_by_deliveries or self.keys)), how)
        elif what == "delete_queue":
            self.delete_queue(data)
        elif what == "delete_exchange":
            self.delete_exchange(data)
        else:
            how = data.draw(st.sampled_from((ACK, REJECT, NACK, RETURN)))
            self.settle_one(data.draw(st.sampled_from(self.keys)), data.draw(st.integers(0, 3)), False, how)

    def end(self, key: Key, how: str) -> None:
        """Close a channel or a connection, lose it, or make an error that closes it."""
        if how == "channel":
            self.call(key, ChannelMethods.Close, lambda channel: self.model.end_channel(channel), reply_code=200)
        elif how == "refused":
            self.call(key, QueueMethods.Purge, lambda channel: self.model.purge(channel, "missing"), queue="missing")
        elif how == "hard":
            self.request(key, refuse(540), (ChannelMethods.Flow, {"active": False}))
        else:
            client = self.clients.pop(key[0])
            client.close() if how == "connection" else client.vanish()
            self.step(key, lambda channel: self.model.end_connection(key[0]))

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), legal=st.integers(0, 5))
    def change_mode(self, data: st.DataObject, legal: int) -> None:
        """Select confirms or transactions, end a transaction, or ask for the flow, which changes nothing."""
        key = data.draw(st.sampled_from(self.keys))
        channel = self.model.channels[key]
        modes = MODES if not legal else NEUTRAL
        if legal and channel.transaction is not None:
            modes = (Tx.Select, Tx.Commit, Tx.Commit, Tx.Rollback)
        elif legal and channel.published is not None:
            modes = (Confirm.Select, ChannelMethods.Flow)
        method = data.draw(st.sampled_from(modes))
        if method in (Tx.Commit, Tx.Rollback):
            return self.end_transaction(key, method is Tx.Commit)
        rules: dict[type[base.Frame], Callable[[Channel], None]] = {
            Confirm.Select: Channel.select_confirms,
            Tx.Select: Channel.select_transaction,
        }
        fields = {"active": True} if method is ChannelMethods.Flow else {}
        self.call(key, method, rules.get(method, lambda channel: None), **fields)

    @precondition(lambda self: any(channel.published is None for channel in self.model.channels.values()))
    @rule(data=st.data(), count=st.sampled_from((0, 1, 2, 3)), commit=st.integers(0, 4))
    def transact(self, data: st.DataObject, count: int, commit: int) -> None:
        """Publish and settle in a transaction, of a channel with deliveries if there is one, and commit it or not.

        A queue may be deleted in between.
        """
        channels = {key: channel for key, channel in self.model.channels.items() if channel.published is None}
        key = data.draw(st.sampled_from([key for key, each in channels.items() if each.unacked] or list(channels)))
        self.call(key, Tx.Select, Channel.select_transaction)
        if count:
            self.publish_some(data, key, count, alike=False, mandatory=True)
        for _ in range(2):
            if key in self.keys and self.model.channels[key].unacked:
                self.settle_some(data, key, multiple=False, how=data.draw(st.sampled_from((ACK, REJECT, NACK))))
        if commit == 4 and self.keys:
            self.delete_queue(data)
        if key in self.keys:
            self.end_transaction(key, commit > 0)

    def end_transaction(self, key: Key, commit: bool) -> None:
        if commit:
            self.call(key, Tx.Commit, lambda one: one.commit(partial(self.model.enqueue, one), self.model.run))
        else:
            self.call(key, Tx.Rollback, Channel.rollback)

    # Messages

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), count=st.sampled_from((1, 2, 4)), alike=st.booleans(), mandatory=st.booleans())
    def publish(self, data: st.DataObject, count: int, alike: bool, mandatory: bool) -> None:
        self.publish_some(data, data.draw(st.sampled_from(self.keys)), count, alike, mandatory)

    def publish_some(self, data: st.DataObject, key: Key, count: int, alike: bool, mandatory: bool) -> None:
        """Publish messages, all sent at once, to a queue, an exchange, or where no queue is."""
        addresses = [*[("", name) for name in QUEUES], ("", "nowhere"), (FANOUT, ""), (DIRECT, "q1"), (DIRECT, "other")]
        burst: list[Message] = []
        for _ in range(count):
            if not burst or not alike:
                exchange, routing_key = data.draw(st.sampled_from(addresses))
            burst.append(self.message(data, exchange, routing_key))
        self.publish_all(key, burst, mandatory)

    def publish_all(self, key: Key, burst: list[Message], mandatory: bool) -> None:
        """Publish these messages, all sent at once."""
        for message in burst:
            self.client_channel(key).publish(
                message.exchange, message.key, message.body, dict(message.properties), mandatory
            )

        def rules(channel: Channel) -> None:
            for message in burst:
                self.model.publish(channel, message, mandatory)
                self.model.between()

        self.step(key, rules)

    def message(self, data: st.DataObject, exchange: str, routing_key: str) -> Message:
        """A message with a body of its own, and properties that the profile gives a meaning."""
        self.published += 1
        body = b"%d" % self.published + b"." * data.draw(st.sampled_from((0, 0, 3)))
        properties: dict[str, Any] = {}
        if data.draw(st.booleans()):
            properties["delivery_mode"] = 2
        always, optional = PROFILES[self.profile]
        if "x-max-priority" in always | optional or always == QUORUM and self.dialect.priorities:
            priority = data.draw(st.sampled_from((None, 0, 1, 2, 40)))
            properties |= {"priority": priority} if priority is not None else {}
        if "x-message-ttl" in optional:
            properties |= data.draw(st.sampled_from(({}, {}, {"expiration": "0"}, {"expiration": "500"})))
        headers: dict[str, Any] = {}
        for name in ("CC", "BCC"):
            if exchange != FANOUT and not data.draw(st.integers(0, 4)):
                headers[name] = [data.draw(st.sampled_from(QUEUES))]
        if headers:
            properties["headers"] = headers
        return Message(
            body, exchange, routing_key, properties, tuple(headers.get("CC", ())), tuple(headers.get("BCC", ()))
        )

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), name=st.sampled_from((*QUEUES, *QUEUES, "missing")), no_ack=st.booleans())
    def get(self, data: st.DataObject, name: str, no_ack: bool) -> None:
        key = data.draw(st.sampled_from(self.keys))
        fields = {"queue": name, "no_ack": no_ack}
        self.request(key, lambda channel: self.model.get(channel, name, no_ack), (Basic.Get, fields))

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), name=st.sampled_from(("q0", *QUEUES)), tags=st.sampled_from((("a",), ("b",), ("c", "d"))),
          no_ack=st.integers(0, 3), priority=st.sampled_from((None, None, 1, -1)),
          exclusive=st.integers(0, 5), prefetch=st.sampled_from((None, None, 1, 2)))  # fmt: skip
    def consume(
        self, data: st.DataObject, name: str, tags: tuple[str, ...], no_ack: int, priority: int | None, exclusive: int,
        prefetch: int | None,
    ) -> None:  # fmt: skip
        """Consume from a queue, by one consumer or two on the same channel, perhaps with a limit of their own."""
        key = data.draw(st.sampled_from(self.keys))
        if prefetch is not None:
            self.limit(key, prefetch, shared=False)
        for tag in tags:
            if key in self.keys:
                self.add_consumer(key, name, f"{name}-{tag}", not no_ack, not exclusive, priority)

    def add_consumer(self, key: Key, name: str, tag: str, no_ack: bool, exclusive: bool, priority: int | None) -> None:
        arguments = {} if priority is None else {"x-priority": priority}
        fields = {"queue": name, "consumer_tag": tag, "no_ack": no_ack, "exclusive": exclusive, "arguments": arguments}

        def rules(channel: Channel) -> None:
            self.model.consume(channel, name, lambda queue: Consumer(
                tag, channel, queue, no_ack, exclusive, priority or 0, channel.prefetch_of(queue)
            ))  # fmt: skip

        self.request(key, rules, (Basic.Consume, fields))

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), name=st.sampled_from(QUEUES), count=st.sampled_from((1, 2, 3)), before=st.booleans(),
          settled=st.sampled_from((0, 1, 2)))  # fmt: skip
    def share(self, data: st.DataObject, name: str, count: int, before: bool, settled: int) -> None:
        """Publish several messages to a queue, before or after channels consume from it; settle deliveries of any."""
        keys = data.draw(st.permutations(self.keys))

        def publish() -> None:
            if keys[0] in self.keys:
                self.publish_all(keys[0], [self.message(data, "", name) for _ in range(4)], mandatory=False)

        def consume() -> None:
            for key in keys[:count]:
                priority = data.draw(st.sampled_from((None, 1)))
                if key in self.keys and (tag := f"{name}-s") not in self.model.channels[key].consumers:
                    self.add_consumer(key, name, tag, no_ack=False, exclusive=False, priority=priority)

        for part in (publish, consume) if before else (consume, publish):
            part()
        for _ in range(settled):
            if self.keys_by_deliveries:
                key, how = data.draw(st.sampled_from(self.keys_by_deliveries)), data.draw(st.sampled_from(WAYS))
                self.settle_some(data, key, data.draw(st.booleans()), how)

    @precondition(lambda self: any(channel.consumers for channel in self.model.channels.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Cancel a consumer; its deliveries stay outstanding."""
        consuming = [(key, tag) for key, channel in self.model.channels.items() for tag in channel.consumers]
        key, tag = data.draw(st.sampled_from(consuming))
        self.call(key, Basic.Cancel, lambda channel: self.model.cancel(channel, tag), consumer_tag=tag)

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), count=st.sampled_from((0, 1, 1, 2)), shared=st.booleans())
    def qos(self, data: st.DataObject, count: int, shared: bool) -> None:
        """Limit the deliveries of a channel, of one with several consumers if there is one."""
        several = [key for key, channel in self.model.channels.items() if len(channel.consumers) > 1]
        self.limit(data.draw(st.sampled_from(several or self.keys)), count, shared)

    def limit(self, key: Key, count: int, shared: bool) -> None:
        self.call(key, Basic.Qos, lambda channel: channel.qos(count, shared), prefetch_count=count, global_=shared)

    @precondition(lambda self: any(channel.unacked for channel in self.model.channels.values()))
    @rule(data=st.data(), multiple=st.booleans(), how=st.sampled_from(WAYS))
    def settle(self, data: st.DataObject, multiple: bool, how: str) -> None:
        self.settle_some(data, data.draw(st.sampled_from(self.keys_by_deliveries)), multiple, how)

    def settle_some(self, data: st.DataObject, key: Key, multiple: bool, how: str) -> None:
        """Settle a delivery, or all up to it: a tag that covers more of them is drawn more often."""
        tags = [*self.model.channels[key].unacked]
        if multiple:
            tags = [0, *(tag for covered, tag in enumerate(tags, 1) for _ in range(covered))]
        tag = data.draw(st.sampled_from(tags))
        self.settle_one(key, tag, multiple, how)

    def settle_one(self, key: Key, tag: int, multiple: bool, how: str) -> None:
        if how == RETURN or how == REJECT and not multiple:
            multiple = False
            method = (Basic.Reject, {"delivery_tag": tag, "requeue": how == RETURN})
        elif how == ACK:
            method = (Basic.Ack, {"delivery_tag": tag, "multiple": multiple})
        else:
            method = (Basic.Nack, {"delivery_tag": tag, "multiple": multiple, "requeue": how == NACK})
        self.request(key, lambda channel: channel.settle(tag, multiple, how), method)

    @precondition(lambda self: any(channel.unacked for channel in self.model.channels.values()))
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        self.recover_all(data.draw(st.sampled_from(self.keys)))

    def recover_all(self, key: Key) -> None:
        self.call(key, Basic.Recover, lambda channel: channel.recover(True), requeue=True)

    @rule(ms=st.sampled_from((1, SHORT_MS, LONG_MS, 5_003)))
    def wait(self, ms: int) -> None:
        self.pass_time(ms)
        self.explain(lambda came: self.model.wait(came, self.now_ms()))

    def pass_time(self, ms: int) -> None:
        self.peer.wait(ms)

    # Queues and exchanges

    def declare_queue_of(self, data: st.DataObject, key: Key, name: str) -> None:
        always, optional = PROFILES[self.profile]
        arguments = data.draw(st.fixed_dictionaries(always, optional=optional))
        quorum = arguments["x-queue-type"] == "quorum"
        arguments = self.same_rules(arguments, quorum, policy=False)
        if "x-dead-letter-exchange" not in arguments:
            arguments.pop("x-dead-letter-routing-key", None)
        if quorum:
            arguments.pop("x-max-priority", None)
        kind = "durable" if quorum else data.draw(st.sampled_from(("durable", "transient", "auto_delete", "exclusive")))
        self.declare_queue(key, name, arguments, kind)
        for exchange in (FANOUT, DIRECT):
            if exchange in self.model.exchanges and data.draw(st.booleans()):
                self.bind(key, name, exchange)

    def declare_queue(self, key: Key, name: str, arguments: dict[str, Any], kind: str) -> None:
        """Declare a queue that is durable, transient, auto-delete or exclusive."""
        fields = {"durable": kind == "durable", "auto_delete": kind == "auto_delete", "exclusive": kind == "exclusive"}
        owner = key[0] if kind == "exclusive" else None

        def rules(channel: Channel) -> None:
            self.model.declare(channel, Queue(name, arguments, owner, kind == "auto_delete", self.dialect))

        self.call(key, QueueMethods.Declare, rules, queue=name, arguments=arguments, **fields)

    def same_rules(self, arguments: dict[str, Any], quorum: bool, policy: bool) -> dict[str, Any]:
        """Return the arguments of a queue, or a policy, that follow the rules of the model with this broker."""
        return arguments

    def bind(self, key: Key, name: str, exchange: str) -> None:
        fields = {"queue": name, "exchange": exchange, "routing_key": name}
        self.call(key, QueueMethods.Bind, lambda channel: self.bindings(exchange).append((name, name)), **fields)

    def bindings(self, exchange: str) -> list[tuple[str, str]]:
        return self.model.exchanges[exchange].bindings

    def declare_exchange_of(self, key: Key, name: str, fanout: bool) -> None:
        exchange = ExchangeModel(name, fanout)
        fields = {"exchange": name, "exchange_type": "fanout" if fanout else "direct"}
        self.call(key, Exchange.Declare, lambda channel: self.model.exchanges.update({name: exchange}), **fields)

    @precondition(lambda self: self.keys and len(self.model.queues) + len(self.model.exchanges) < len(QUEUES) + 2)
    @rule(data=st.data())
    def declare(self, data: st.DataObject) -> None:
        """Declare a queue or an exchange that was deleted."""
        key = data.draw(st.sampled_from(self.keys))
        for name in QUEUES:
            if name not in self.model.queues:
                return self.declare_queue_of(data, key, name)
        for name in (FANOUT, DIRECT):
            if name not in self.model.exchanges:
                return self.declare_exchange_of(key, name, name == FANOUT)

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), name=st.sampled_from(QUEUES))
    def purge(self, data: st.DataObject, name: str) -> None:
        key = data.draw(st.sampled_from(self.keys))
        self.request(key, lambda channel: self.model.purge(channel, name), (QueueMethods.Purge, {"queue": name}))

    def delete_queue(self, data: st.DataObject) -> None:
        key, name = data.draw(st.sampled_from(self.keys)), data.draw(st.sampled_from(QUEUES))
        condition = data.draw(st.sampled_from(("", "if_unused", "if_empty")))
        fields = {"queue": name, **({condition: True} if condition else {})}
        self.request(key, lambda channel: self.model.delete_queue(channel, name, condition),
                     (QueueMethods.Delete, fields))  # fmt: skip

    def delete_exchange(self, data: st.DataObject) -> None:
        key, name = data.draw(st.sampled_from(self.keys)), data.draw(st.sampled_from((FANOUT, DIRECT)))
        if_unused = data.draw(st.booleans())

        def rules(channel: Channel) -> None:
            exchange = self.model.exchanges.get(name)
            if if_unused and exchange is not None and exchange.bindings:
                raise Refused(406)
            self.model.exchanges.pop(name, None)

        self.call(key, Exchange.Delete, rules, exchange=name, if_unused=if_unused)

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), name=st.sampled_from(QUEUES), exchange=st.sampled_from((FANOUT, DIRECT)))
    def change_binding(self, data: st.DataObject, name: str, exchange: str) -> None:
        """Bind a queue to an exchange, or remove the binding."""
        key = data.draw(st.sampled_from(self.keys))
        queue = self.model.queues.get(name)
        if queue is None or exchange not in self.model.exchanges or queue.owner not in (None, key[0]):
            return
        if (name, name) not in self.bindings(exchange):
            return self.bind(key, name, exchange)
        fields = {"queue": name, "exchange": exchange, "routing_key": name}
        self.call(key, QueueMethods.Unbind, lambda channel: self.bindings(exchange).remove((name, name)), **fields)

    @precondition(lambda self: PROFILES[self.profile][1])
    @rule(data=st.data(), name=st.sampled_from(QUEUES))
    def set_policy(self, data: st.DataObject, name: str) -> None:
        """Set a policy for one queue, of the keys that the profile has as arguments, or clear it."""
        always, optional = PROFILES[self.profile]
        keys = {word: each for word, each in (always | optional).items() if word in POLICY_KEYS}
        queue = self.model.queues.get(name)
        words = data.draw(st.fixed_dictionaries({}, optional=keys))
        words = self.same_rules(words, queue is None or queue.quorum, policy=True)
        definition = {word.removeprefix("x-"): value for word, value in words.items()}
        if "dead-letter-exchange" not in definition:
            definition.pop("dead-letter-routing-key", None)
        self.apply_policy(name, definition)

    def apply_policy(self, name: str, definition: Mapping[str, Any]) -> None:
        """Set the policy of a queue, or clear it if the definition is empty."""
        if definition:
            self.peer.set_policy(name, f"^{name}$", definition, apply_to="queues")
        elif name in self.model.policies:
            self.peer.clear_policy(name)
        self.explain(lambda came: self.model.wait(came, self.now_ms(), lambda: self.model.set_policy(name, definition)))


def refuse(code: int) -> Callable[[Channel], None]:
    """The rules of a method that is always refused."""

    def rules(channel: Channel) -> None:
        raise Refused(code)

    return rules


def deaths_of(headers: Table) -> tuple[tuple[str, str, int], ...]:
    """The queue, reason and count of each entry of x-death."""
    value = headers.get("x-death")
    entries: Any = value[1] if value is not None else []
    return tuple((entry.text("queue"), entry.text("reason"), entry.integer("count")) for _, entry in entries)


def timestamp_s(in_process: bool, now_ms: int) -> int:
    """The time that the fake clock gives to x-death; times of another broker are not compared."""
    return 1_700_000_000 + now_ms // 1000 if in_process else 0
