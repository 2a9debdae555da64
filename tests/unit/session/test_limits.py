"""Limits on what a client makes the broker keep: arguments, declarations, open transactions, lists."""

from contextlib import suppress

import pytest
from pamqp.commands import Basic, Connection, Exchange, Queue, Tx
from pytest import MonkeyPatch

from tests.support import codec
from tests.support.amqp_client import Channel, Silence
from tests.support.clock import fake_clock
from tests.support.in_process import InProcessPeer
from tests.support.queues import OutboxWatcher, limit_dead_letters
from tests.support.session import SessionPipe, SlowJournal, connected, new_node, operator_channel, pipe_of
from warren.broker.amqp.errors import NotNow
from warren.broker.amqp.field_table import Table
from warren.broker.amqp.properties import Properties
from warren.broker.core.access.passwords import hash_password
from warren.broker.core.access.users import InternalUser
from warren.broker.core.node.node import Node
from warren.broker.core.queues import dead_lettering
from warren.broker.core.queues.arguments import ARGUMENTS_BYTES
from warren.broker.core.queues.dead_lettering import DeadLetterOutbox
from warren.broker.core.telemetry.resource_alarms import DISK, MEMORY
from warren.broker.session import alarm_blocking
from warren.broker.session.alarm_blocking import CREATE_LIMIT
from warren.broker.session.management_channel import PublishOutcome

FLOOD, MANY = 100, 50  # publishes of a read; dead letters that wait
FULL = {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "amq.fanout"}


@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize("others", [0, 250])
@pytest.mark.parametrize("alike", [True, False])
def test_messages_that_a_full_queue_rejects_and_dead_letters_are_limited(
    alike: bool, others: int, transaction: bool, monkeypatch: MonkeyPatch
) -> None:
    """They come faster than the queue publishes them, also to other queues before, on ever new connections."""
    limit_dead_letters(monkeypatch, MANY=MANY, SLICE=1)
    node = new_node()
    ch: Channel = connected(node).channel()
    ch.declare("letters")
    ch.bind("letters", "amq.fanout")
    for number in range(others):
        ch.declare(f"other{number}", arguments={"x-max-length": 0})
        ch.bind(f"other{number}", "amq.direct", "all")
    ch.declare("full", arguments=FULL)
    ch.bind("full", "amq.direct", "all")
    method = codec.method_frame(1, Basic.Publish, {"exchange": "amq.direct", "routing_key": "all"})
    headers = [codec.header_frame(1, 0, {} if alike else {"app_id": f"{number % 7}"}) for number in range(FLOOD)]
    data = b"".join([method + header for header in headers])
    if transaction:
        data = codec.method_frame(1, Tx.Select, {}) + data + codec.method_frame(1, Tx.Commit, {})
    watcher = OutboxWatcher(node.vhosts["/"].queues["letters"], outbox_of(node, "full"))
    flood(node, [data] * 10)
    assert watcher.count == 10 * FLOOD and MANY <= watcher.longest < MANY + 2 * FLOOD


@pytest.mark.parametrize("length", [2, 3])
def test_messages_that_full_queues_in_a_circle_reject_are_limited(length: int, monkeypatch: MonkeyPatch) -> None:
    """The one that does not wait for the next one, which waits for it, does not fill it without end."""
    limit_dead_letters(monkeypatch, MANY=MANY, SLICE=1)
    node = new_node()
    ch: Channel = connected(node).channel()
    ch.declare("letters")
    for number in range(length):
        ch.exchange(f"from{number}", "fanout")
        ch.declare(f"full{number}", arguments=FULL | {"x-dead-letter-exchange": f"from{number}"})
        ch.bind("letters", f"from{number}")
    for number in range(length):
        ch.bind(f"full{(number + 1) % length}", f"from{number}")
    letters = node.vhosts["/"].queues["letters"]
    watchers = [OutboxWatcher(letters, outbox_of(node, f"full{number}")) for number in range(length)]
    publishes = [
        codec.method_frame(1, Basic.Publish, {"routing_key": f"full{number}"}) + codec.header_frame(1, 0)
        for number in range(length)
    ]
    flood(node, [publish * FLOOD for publish in publishes * 10])
    assert sum(watcher.count for watcher in watchers) == 10 * FLOOD * length * length
    assert all(watcher.longest < (length + 1) * (MANY + FLOOD) for watcher in watchers)
    assert not letters.host.ledger.dead_letters.full_outboxes and not letters.host.ledger.dead_letters.total


@pytest.mark.parametrize("queues", ["deleted", "kept"])
def test_messages_that_many_queues_reject_are_limited_also_if_each_has_only_one(
    queues: str, monkeypatch: MonkeyPatch
) -> None:
    """They are dead-lettered to a full queue, whose own dead letters wait for the journal."""
    limit_dead_letters(monkeypatch, MANY=MANY, ALL_BYTES=1 << 16, USER_BYTES=1 << 14)
    node = new_node()
    ch: Channel = connected(node).channel()
    ch.declare("letters")
    ch.bind("letters", "amq.fanout")
    ch.declare("full", arguments=FULL)
    outbox = outbox_of(node, "full")
    outbox.awaits_journal = True
    ch.publish("", "full", b"first")
    monkeypatch.setattr(dead_lettering, "MANY", 0)
    pieces = []
    given = FULL | {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"}
    for number in range(100):
        ch.declare(f"queue{number}", arguments=given)
        publish = codec.method_frame(1, Basic.Publish, {"routing_key": f"queue{number}"})
        pieces.append(publish + codec.header_frame(1, 4_000) + codec.body_frames(1, bytes(4_000), 8_192))
        if queues == "deleted":
            pieces[-1] += codec.method_frame(1, Queue.Delete, {"queue": f"queue{number}"})
    pipes = flood(node, pieces)
    budget = node.ledger.dead_letters
    each = 4_500 + (dead_lettering.DELETED_BYTES if queues == "deleted" else 0)
    assert 1 << 16 < budget.total < (1 << 16) + each
    outbox.awaits_journal = False
    node.vhosts["/"].queues["full"].schedule_pump()
    node.pump()
    serve(node, pipes)
    assert ch.count("letters") == 101 and not budget.total and not budget.full_outboxes


def test_restored_queues_count_for_nobody_until_they_are_declared(monkeypatch: MonkeyPatch) -> None:
    """They share no bound: those of one user would hold back those of another. Nor do they count for who uses them."""
    limit_dead_letters(monkeypatch, ALL_BYTES=1 << 16, USER_BYTES=1 << 14)
    node = new_node()
    node.users.add("other", hash_password("other", b"salt"))
    node.users.set_permission("other", "/", ".*", ".*", ".*")
    vhost, budget = node.vhosts["/"], node.ledger.dead_letters
    queue = vhost.declare_queue("restored", arguments=Table.of(FULL))
    queue.outbox.awaits_journal = True
    for account in ("", "guest"):
        budget.add(account, 1 << 16, 1 << 16, node.clock)
    guest: Channel = connected(node).channel()
    guest.consume("restored")
    other: Channel = connected(node, "other").channel()
    other.publish("", "restored", bytes(4_000))
    assert len(queue.outbox) == 1 and not queue.outbox.account, "no user is known, so nobody waits"
    guest.declare("restored", arguments=FULL)
    other.publish("", "restored", bytes(4_000))
    assert len(queue.outbox) == 1 and queue.must_not_reject
    connected(node, "other").channel().declare("restored", arguments=FULL)
    assert queue.must_not_reject, "it counts for the first who declares it"
    budget.add("guest", -1 << 16, -1 << 16, node.clock)
    fake_clock(node.clock).advance(1_000)
    assert len(queue.outbox) == 2 and budget.of("guest") > 8_000


def outbox_of(node: Node, queue: str) -> DeadLetterOutbox:
    return node.vhosts["/"].queues[queue].outbox


def flood(node: Node, pieces: list[bytes]) -> list[SessionPipe]:
    """Have each piece come on a connection of its own, and let all of them be served."""
    pipes = []
    for piece in pieces:
        client = connected(node)
        client.channel(1)
        pipes.append(pipe_of(client))
        pipes[-1].connection.receive(piece)
    serve(node, pipes)
    return pipes


def serve(node: Node, pipes: list[SessionPipe]) -> None:
    for _ in range(400):
        fake_clock(node.clock).advance(1)
        for pipe in pipes:
            with suppress(Silence):
                pipe.receive()


@pytest.mark.parametrize("way", ["key", "CC", "BCC", "headers", "long search"])
def test_an_operator_is_told_at_once_that_a_queue_is_full_and_nothing_is_published_later(
    way: str, monkeypatch: MonkeyPatch
) -> None:
    limit_dead_letters(monkeypatch, MANY=MANY, SLICE=1)
    node = new_node()
    client = connected(node)
    ch: Channel = client.channel()
    for queue, arguments in (("letters", {}), ("other", {}), ("full", FULL)):
        ch.declare(queue, arguments=arguments)
    ch.bind("letters", "amq.fanout")
    exchanges = ["amq.headers"] if way == "headers" else [f"x{number}" for number in range(40)]
    for name in exchanges if way != "headers" else ():
        ch.exchange(name)
    for source, destination in zip(exchanges, exchanges[1:], strict=False):
        ch.bind_exchange(destination, source, "k")
        ch.bind_exchange(destination, source, "copy")
    for queue, key in (("other", "k"), ("full", "copy")):
        ch.bind(queue, exchanges[-1], key, arguments={"x-match": "all"})
    full, letters = node.vhosts["/"].queues["full"], node.vhosts["/"].queues["letters"]
    method = codec.method_frame(1, Basic.Publish, {"routing_key": "full"})
    pipe_of(client).connection.receive((method + codec.header_frame(1, 0)) * FLOOD)
    assert full.must_not_reject
    operator = operator_channel(node)
    exchange, key = (exchanges[0], "k") if way in ("headers", "long search") else ("", "full" if way == "key" else "")
    copies = {"CC": [f"{number}" for number in range(1_000)] + ["copy"]} if way == "long search" else {way: ["full"]}
    properties = Properties(headers=Table.of(copies))

    def publish() -> PublishOutcome:
        outcome = operator.publish(exchange, key, properties, b"", in_slices=True)
        while operator.busy:
            node.clock.advance(0)
            outcome = operator.outcome()
        return outcome

    with pytest.raises(NotNow, match="dead-lettered"):
        publish()
    node.clock.advance(1_000)
    assert not full.must_not_reject and letters.ready == FLOOD
    assert node.vhosts["/"].queues["other"].ready == 0
    assert publish().refused
    node.clock.advance(1_000)
    assert letters.ready == FLOOD + 1


LARGE = {"x-note": "a" * (ARGUMENTS_BYTES - 12)}
TOO_LARGE = {"x-note": "a" * (ARGUMENTS_BYTES - 11)}


def test_arguments_of_16_kib_are_taken_and_larger_ones_refused() -> None:
    client = connected(new_node())
    ch = client.channel()
    assert len(Table.of(LARGE).raw) == ARGUMENTS_BYTES
    ch.declare("q", arguments=LARGE)
    ch.exchange("x", arguments=LARGE)
    ch.bind("q", "x", "k", arguments=LARGE)
    ch.bind_exchange("x", "amq.fanout", arguments=LARGE)
    ch.consume("q", arguments=LARGE)
    for kind, fields in (
        (Queue.Declare, {"queue": "other"}),
        (Exchange.Declare, {"exchange": "y"}),
        (Queue.Bind, {"queue": "q", "exchange": "x"}),
        (Exchange.Bind, {"destination": "x", "source": "amq.fanout"}),
        (Basic.Consume, {"queue": "q"}),
    ):
        close = client.channel().refused(406, kind, arguments=TOO_LARGE, **fields)
        assert f"larger than the limit of {ARGUMENTS_BYTES}" in close.reply_text


@pytest.mark.parametrize("low_on", [MEMORY, DISK])
def test_what_is_new_is_declared_and_bound_after_memory_is_free_again(monkeypatch: MonkeyPatch, low_on: str) -> None:
    monkeypatch.setattr(alarm_blocking, "CREATE_LIMIT", 0)
    node = new_node()
    there = connected(node).channel()
    there.declare("q")
    there.exchange("x")
    there.bind("q", "x", "k")
    there.bind_exchange("x", "amq.fanout")
    node.alarms.set(low_on)
    there.declare("q")
    there.declare("q", passive=True)
    there.exchange("x")
    there.bind("q", "x", "k")
    there.bind_exchange("x", "amq.fanout")
    there.consume("q")
    clients = []
    for kind, fields in (
        (Queue.Declare, {"queue": "new"}),
        (Queue.Declare, {"queue": ""}),
        (Exchange.Declare, {"exchange": "new", "exchange_type": "fanout"}),
        (Queue.Bind, {"queue": "q", "exchange": "x", "routing_key": "new"}),
        (Exchange.Bind, {"destination": "x", "source": "amq.direct"}),
    ):
        ch = connected(node).channel()
        ch.send(kind, **fields)
        connection = pipe_of(ch.client).connection
        assert connection.blocked is (low_on == MEMORY)
        clients.append((ch, connection))
    vhost = node.vhosts["/"]
    before = (len(vhost.queues), "new" in vhost.exchanges, len(vhost.exchanges["x"].outgoing))
    assert before == ((1, False, 1) if low_on == MEMORY else (3, True, 2))
    node.alarms.clear(low_on)
    for ch, connection in clients:
        connection.unblock()
        assert ch.next().name.endswith("Ok")
    assert (len(vhost.queues), "new" in vhost.exchanges, len(vhost.exchanges["x"].outgoing)) == (3, True, 2)


def test_a_worker_that_starts_while_memory_is_low_declares_its_queues_and_consumes() -> None:
    node = new_node()
    ch = connected(node).channel()
    ch.declare("work")
    for number in range(3):
        ch.publish("", "work", b"%d" % number)
    ch.sync()
    node.alarms.set(MEMORY)
    worker = connected(node).channel()
    worker.exchange("replies")
    worker.declare("worker.replies", exclusive=True)
    worker.bind("worker.replies", "replies", "me")
    worker.consume("work")
    assert [worker.delivery().body for _ in range(3)] == [b"0", b"1", b"2"]
    assert not pipe_of(worker.client).connection.blocked


def test_a_connection_that_declares_on_and_on_while_memory_is_low_waits_until_it_is_free() -> None:
    node = new_node()
    ch = connected(node).channel()
    connection = pipe_of(ch.client).connection
    for _ in range(2):
        made = len(node.vhosts["/"].queues)
        node.alarms.set(MEMORY)
        for _ in range(CREATE_LIMIT):
            ch.declare(ch.declare().queue, passive=True)
        ch.send(Queue.Declare)
        ch.send(Queue.Declare)
        assert connection.blocked and len(node.vhosts["/"].queues) == made + CREATE_LIMIT
        node.alarms.clear(MEMORY)
        connection.unblock()
        assert ch.next().name == ch.next().name == "Queue.DeclareOk"


def test_a_consumer_with_long_arguments_waits_while_memory_is_low_and_no_other_does() -> None:
    """All that clients use must go on, as the acknowledgements of a connection wait behind a consumer."""
    node = new_node()
    client = connected(node)
    ch = client.channel()
    connection = pipe_of(client).connection
    ch.declare("q")
    node.alarms.set(MEMORY)
    for number in range(2_000):
        ch.send(Basic.Consume, queue="q", consumer_tag=f"{number}", nowait=True)
    assert not connection.blocked and len(node.vhosts["/"].queues["q"].consumers) == 2_000
    ch.send(Basic.Consume, queue="q", consumer_tag="long", arguments={"x-text": "v" * 2_000})
    assert connection.blocked and len(node.vhosts["/"].queues["q"].consumers) == 2_000
    node.alarms.clear(MEMORY)
    connection.unblock()
    assert ch.next().name == "Basic.ConsumeOk"


def test_a_declaration_that_waited_for_memory_goes_on_while_the_disk_is_low() -> None:
    broker = InProcessPeer()
    ch, publisher = broker.connect().channel(1), broker.connect().channel(1)
    for alarm in (MEMORY, DISK):
        broker.node.alarms.set(alarm)
    for _ in range(CREATE_LIMIT):
        ch.declare()
    ch.send(Queue.Declare, queue="new")
    publisher.publish("", "new", b"held")
    assert isinstance(ch.client.next(), Connection.Blocked)
    assert isinstance(publisher.client.next(), Connection.Blocked)
    broker.node.alarms.clear(MEMORY)
    assert isinstance(ch.client.next(), Connection.Unblocked)
    assert ch.next().queue == "new"
    assert ch.count("new") == 0, "who publishes waits for the disk"
    broker.node.alarms.clear(DISK)
    assert isinstance(publisher.client.next(), Connection.Unblocked)
    assert ch.drain("new") == [b"held"]


def test_a_transaction_that_grows_without_end_is_refused_and_another_one_has_all_the_room() -> None:
    node = new_node()
    client = connected(node, transaction_max_bytes=10_000)
    ch = client.channel()
    ch.declare("q")
    ch.transact()
    for _ in range(3):  # a commit and a rollback give the room back
        for end in (ch.commit, ch.rollback):
            for _ in range(8):
                ch.publish("", "q", b"a" * 700)
            end()
    for _ in range(9):
        ch.publish("", "q", b"a" * 700)
    close = ch.expect_close(406)
    assert close.reply_text == (
        "PRECONDITION_FAILED - transaction with 8 publishes is larger than configured max size 10000"
    )
    assert client.channel().count("q") == 24


def test_the_transactions_of_all_channels_of_a_connection_share_a_limit() -> None:
    client = connected(new_node(), transaction_max_bytes=10_000)
    one, two = client.channel(), client.channel()
    one.declare("q")
    for channel in (one, two):
        channel.transact()
        for _ in range(4):
            channel.publish("", "q", b"a" * 700)
        channel.sync()
    two.publish("", "q", b"a" * 1600)
    text = "PRECONDITION_FAILED - transactions of a connection are larger than configured max size 10000"
    assert two.expect_close(406).reply_text == text
    for _ in range(4):  # the room of the closed channel
        one.publish("", "q", b"a" * 700)
    one.commit()
    assert pipe_of(client).connection.transaction_bytes == 0 and one.count("q") == 8


def test_an_exclusive_queue_that_goes_is_no_longer_its_connections() -> None:
    node = new_node()
    client = connected(node)
    ch, owned = client.channel(), pipe_of(client).connection.owned
    for _ in range(3):
        ch.declare("", exclusive=True, arguments={"x-expires": 50})
    ch.declare("mine", exclusive=True)
    ch.declare("deleted", exclusive=True)
    ch.declare("auto", exclusive=True, auto_delete=True)
    assert len(owned) == 6
    fake_clock(node.clock).advance(100)
    ch.delete("deleted")
    ch.cancel(ch.consume("auto"))
    assert list(owned) == ["mine"]
    node.vhosts["/"].delete_queue(owned["mine"])
    assert not owned


def test_limits_and_the_end_of_a_user_called_none_do_not_concern_what_is_internal() -> None:
    node = new_node()
    node.users.add("none", limits={"max-channels": 0, "max-connections": 0})
    before = node.connection_counts.channels
    operator = operator_channel(node)
    assert node.connection_counts.channels == before + 1
    assert (node.connection_counts.channels_of_user("none"), InternalUser("/").account) == (0, "")
    operator.close()
    assert node.connection_counts.channels == before


@pytest.mark.parametrize(
    ("frames", "ids"),
    [
        (codec.method_frame(7, Basic.Ack, {"delivery_tag": 1}), (60, 80)),
        (codec.method_frame(7, Basic.Publish, {}) + codec.header_frame(7, 0), (60, 40)),
        (codec.method_frame(7, Basic.Get, {}), (60, 70)),
    ],
)
def test_the_error_for_a_channel_that_is_not_open_names_the_method(frames: bytes, ids: tuple[int, int]) -> None:
    client = connected(new_node())
    client.raw(frames)
    close = client.expect_close(504)
    assert isinstance(close, Connection.Close) and (close.class_id, close.method_id) == ids


def test_what_is_looked_up_or_transient_is_answered_before_the_batch_under_way_is_stored() -> None:
    journal = SlowJournal()
    client = connected(new_node(journal))
    ch = client.channel()
    ch.declare("durable", durable=True)  # nothing observes the node, so nothing of it is stored
    ch.publish("", "durable", b"", {"delivery_mode": 2})
    ch.declare("durable", durable=True, passive=True)
    ch.declare("transient")
    ch.exchange("transient")
    ch.exchange("transient", passive=True)
    ch.send(Queue.Declare, queue="durable", durable=True)
    assert pipe_of(client).connection.replies_due == 1
    journal.commit(journal.ticket())
    assert ch.next().name == "Queue.DeclareOk"
