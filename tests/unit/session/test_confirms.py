"""Confirms and commits with a slow disk: none is sent before the messages are safe."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue, Tx

from tests.support import codec
from tests.support.amqp_client import Channel as ClientChannel
from tests.support.amqp_client import Content
from tests.support.hypothesis_settings import examples
from tests.support.session import SlowJournal, connected, new_node, pipe_of
from warren.broker.amqp.errors import ConnectionForced
from warren.broker.core.definitions.definition_recorder import DefinitionRecorder
from warren.broker.session.confirms import Confirms
from warren.broker.session.connection import REPLIES_DUE_LIMIT

DURABLE = {"delivery_mode": 2}


class Disk:
    """A connection to a node whose journal is slow."""

    def __init__(self) -> None:
        self.journal = SlowJournal()
        self.node = new_node(self.journal)
        self.ch = connected(self.node).channel(1)
        self.ch.declare("durable", durable=True)
        self.ch.declare("transient")

    def acked(self) -> list[tuple[int, bool]]:
        """Return tag and multiple of the confirms that have arrived."""
        return [(item.delivery_tag, item.multiple) for item in self.ch.arrived() if isinstance(item, Basic.Ack)]


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def ch(disk: Disk) -> ClientChannel:
    disk.ch.confirm()
    return disk.ch


def test_a_persistent_message_in_a_durable_queue_is_confirmed_when_it_is_on_disk(disk: Disk, ch: ClientChannel) -> None:
    for _ in range(3):
        ch.publish("", "durable", b"body", DURABLE)
    assert disk.acked() == []
    disk.journal.commit(1)
    assert disk.acked() == [(3, True)]


@pytest.mark.parametrize(
    "queue, properties",
    [("durable", None), ("durable", {"delivery_mode": 1}), ("transient", DURABLE), ("nowhere", DURABLE)],
)
def test_what_needs_no_disk_is_confirmed_at_once(
    disk: Disk, ch: ClientChannel, queue: str, properties: dict[str, int] | None
) -> None:
    ch.publish("", queue, b"body", properties)
    assert disk.acked() == [(1, False)]


def test_each_batch_confirms_its_own(disk: Disk, ch: ClientChannel) -> None:
    for _ in range(2):
        ch.publish("", "durable", b"body", DURABLE)
    disk.journal.seal()
    ch.publish("", "durable", b"body", DURABLE)
    disk.journal.seal()
    ch.publish("", "durable", b"body", DURABLE)
    disk.journal.commit(1)
    assert disk.acked() == [(2, True)]
    disk.journal.commit(2)
    assert disk.acked() == [(3, False)]
    disk.journal.commit(3)
    assert disk.acked() == [(4, False)]


def test_a_message_for_several_queues_waits_for_the_disk_if_one_is_durable(disk: Disk, ch: ClientChannel) -> None:
    for queue in ("durable", "transient"):
        ch.bind(queue, "amq.fanout")
    ch.publish("amq.fanout", "", b"body", DURABLE)
    assert disk.acked() == []
    disk.journal.commit(1)
    assert disk.acked() == [(1, False)]


def test_a_return_comes_before_its_confirm(disk: Disk, ch: ClientChannel) -> None:
    for _ in range(2):
        ch.publish("", "nowhere", b"body", DURABLE, mandatory=True)
        returned, confirmed = ch.arrived()
        assert isinstance(returned, Content) and isinstance(confirmed, Basic.Ack)


def test_each_channel_counts_and_hears_of_its_own(disk: Disk, ch: ClientChannel) -> None:
    other = connected(disk.node).channel(1)
    other.confirm()
    ch.publish("", "durable", b"body", DURABLE)
    for _ in range(2):
        other.publish("", "durable", b"body", DURABLE)
    disk.journal.commit(1)
    assert disk.acked() == [(1, False)]
    assert [(item.delivery_tag, item.multiple) for item in other.arrived()] == [(2, True)]


@pytest.mark.parametrize("end", ["channel", "connection", "loss", "error"])
def test_nobody_is_told_who_is_not_there_any_more(disk: Disk, ch: ClientChannel, end: str) -> None:
    ch.publish("", "durable", b"body", DURABLE)
    if end == "channel":
        ch.send(Channel.Close, reply_code=200)
        ch.send(Channel.Open)
    elif end == "connection":
        ch.client.send(Connection.Close, reply_code=200)
    elif end == "error":
        ch.publish("no such exchange", "")
    else:
        ch.client.vanish()
    ch.arrived()
    disk.journal.commit(1)
    assert ch.arrived() == []


def test_who_publishes_faster_than_the_disk_takes_it_waits(disk: Disk, ch: ClientChannel) -> None:
    disk.journal.much = True
    ch.publish("", "transient", b"1")
    ch.publish("", "durable", b"2", DURABLE)
    ch.publish("", "durable", b"3", DURABLE)
    ch.publish("", "transient", b"4")
    assert disk.acked() == [(1, False)]
    assert len(disk.journal.live) == 1 and connected(disk.node).channel().drain("transient") == [b"1"]
    disk.journal.commit(1)
    assert disk.acked() == [(2, False)] and len(disk.journal.live) == 2
    disk.journal.commit(2)
    assert disk.acked() == [(3, False), (4, False)]
    assert connected(disk.node).channel().drain("transient") == [b"4"]


def test_a_commit_of_more_than_the_disk_takes_is_answered_once(disk: Disk) -> None:
    disk.journal.much = True
    disk.ch.transact()
    for _ in range(3):
        disk.ch.publish("", "durable", b"body", DURABLE)
    disk.ch.send(Tx.Commit)
    assert disk.ch.arrived() == [] and len(disk.journal.live) == 3
    disk.journal.commit(1)
    assert [type(item) for item in disk.ch.arrived()] == [Tx.CommitOk]
    disk.ch.sync()


# Transactions


@pytest.fixture
def tx(disk: Disk) -> ClientChannel:
    disk.ch.transact()
    return disk.ch


def test_what_was_committed_is_delivered_before_it_is_on_disk(disk: Disk, tx: ClientChannel) -> None:
    tx.publish("", "transient", b"body")
    tx.send(Tx.Commit)
    assert connected(disk.node).channel().drain("transient") == [b"body"]


def test_nothing_of_a_connection_is_served_while_it_commits(disk: Disk, tx: ClientChannel) -> None:
    other = tx.client.channel(2)
    tx.publish("", "durable", b"body", DURABLE)
    tx.send(Tx.Commit)
    tx.send(Queue.Declare, queue="more")
    other.publish("", "transient", b"body")
    other.send(Queue.Declare, queue="transient", passive=True)
    assert tx.arrived() == [] and other.arrived() == []
    assert "more" not in disk.node.vhosts["/"].queues
    assert connected(disk.node).channel().drain("transient") == [], "others are served meanwhile"
    disk.journal.commit(1)
    assert [type(item) for item in tx.arrived()] == [Tx.CommitOk, Queue.DeclareOk]
    assert [item.message_count for item in other.arrived()] == [1]


def test_a_goodbye_waits_for_the_commit_before_it(disk: Disk, tx: ClientChannel) -> None:
    tx.publish("", "durable", b"body", DURABLE)
    tx.send(Tx.Commit)
    tx.client.send(Connection.Close, reply_code=200)
    assert tx.arrived() == []
    disk.journal.commit(1)
    assert [type(item) for item in tx.arrived()] == [Tx.CommitOk]
    assert isinstance(tx.client.next(), Connection.CloseOk)


@pytest.mark.parametrize("end", ["loss", "ours"])
def test_a_commit_that_ends_after_its_connection_is_told_to_nobody(disk: Disk, tx: ClientChannel, end: str) -> None:
    tx.publish("", "durable", b"body", DURABLE)
    tx.send(Tx.Commit)
    if end == "loss":
        tx.client.vanish()
    else:
        pipe_of(tx.client).connection.close(ConnectionForced("enough"))
    tx.arrived()
    disk.journal.commit(1)
    assert tx.arrived() == [] and len(disk.journal.live) == 1


# Declarations


@pytest.fixture
def recorded(disk: Disk) -> Disk:
    """Record durable definitions in the journal from now on."""
    disk.ch.bind("durable", "amq.direct")
    disk.ch.exchange("old", durable=True)
    disk.ch.call(Exchange.Bind, destination="old", source="amq.direct")
    disk.node.observers.add(DefinitionRecorder(disk.node, []))
    return disk


@pytest.mark.parametrize(
    "kind, fields",
    [
        (Queue.Declare, {"queue": "new", "durable": True}),
        (Queue.Delete, {"queue": "durable"}),
        (Queue.Bind, {"queue": "durable", "exchange": "amq.fanout"}),
        (Queue.Unbind, {"queue": "durable", "exchange": "amq.direct"}),
        (Exchange.Declare, {"exchange": "new", "exchange_type": "fanout", "durable": True}),
        (Exchange.Delete, {"exchange": "old"}),
        (Exchange.Bind, {"destination": "old", "source": "amq.fanout"}),
        (Exchange.Unbind, {"destination": "old", "source": "amq.direct"}),
    ],
)
def test_the_answer_to_what_changes_something_durable_waits_for_the_disk(
    recorded: Disk, kind: type[Any], fields: dict[str, Any]
) -> None:
    recorded.ch.send(kind, **fields)
    assert recorded.ch.arrived() == []
    recorded.journal.commit(recorded.journal.ticket())
    assert [item.name in kind.valid_responses for item in recorded.ch.arrived()] == [True]


@pytest.mark.parametrize("fields", [{"queue": "new"}, {"queue": "new", "durable": True, "exclusive": True}])
def test_what_will_not_outlive_the_broker_is_declared_at_once(recorded: Disk, fields: dict[str, Any]) -> None:
    recorded.ch.declare(**fields)


def test_what_is_declared_without_an_answer_holds_nobody_up(recorded: Disk) -> None:
    recorded.ch.send(Queue.Declare, queue="new", durable=True, nowait=True)
    recorded.ch.sync()
    assert "new" in recorded.node.vhosts["/"].queues


def names(items: list[Any]) -> list[str]:
    return [item.name for item in items]


def test_pipelined_declarations_are_stored_together_and_answered_in_order(recorded: Disk) -> None:
    ch, journal = recorded.ch, recorded.journal
    ch.send(Queue.Declare, queue="new", durable=True)
    ticket = journal.ticket()
    ch.send(Queue.Bind, queue="new", exchange="amq.direct")
    ch.send(Exchange.Declare, exchange="passing", exchange_type="fanout")
    ch.send(Queue.Declare, queue="durable", passive=True)
    ch.send(Queue.Delete, queue="new")
    assert ch.arrived() == [] and "passing" in recorded.node.vhosts["/"].exchanges
    assert journal.ticket() == ticket, "one batch has all of them"
    journal.commit(ticket)
    answers = ["Queue.DeclareOk", "Queue.BindOk", "Exchange.DeclareOk", "Queue.DeclareOk", "Queue.DeleteOk"]
    assert names(ch.arrived()) == answers


def test_other_methods_wait_for_the_answers_before_them(recorded: Disk) -> None:
    ch, journal = recorded.ch, recorded.journal
    ch.send(Queue.Declare, queue="new", durable=True)
    ch.publish("", "new", b"body")
    ch.send(Basic.Get, queue="new")
    ch.send(Queue.Declare, queue="later", durable=True)
    ch.client.send(Connection.Close, reply_code=200)
    assert ch.arrived() == [] and "later" not in recorded.node.vhosts["/"].queues
    journal.commit(journal.ticket())
    answer, message = ch.arrived()
    assert isinstance(answer, Queue.DeclareOk) and isinstance(message, Content)
    journal.commit(journal.ticket())
    assert names(ch.arrived()) == ["Queue.DeclareOk"]
    assert isinstance(ch.client.next(), Connection.CloseOk)


@pytest.mark.parametrize(
    "kind, fields, code",
    [
        (Queue.Declare, {"queue": "nowhere", "passive": True}, 404),
        (Exchange.Declare, {"exchange": "x", "exchange_type": "unknown"}, 406),
        (Basic.Consume, {"queue": "nowhere"}, 404),
    ],
)
def test_an_error_follows_earlier_answers(recorded: Disk, kind: type[Any], fields: dict[str, Any], code: int) -> None:
    ch, journal = recorded.ch, recorded.journal
    ch.send(Queue.Declare, queue="new", durable=True)
    ch.send(kind, **fields)
    ch.send(Queue.Declare, queue="never", durable=True)
    assert ch.arrived() == []
    journal.commit(journal.ticket())
    answer, error = ch.arrived()
    assert isinstance(answer, Queue.DeclareOk) and isinstance(error, Channel.Close) and error.reply_code == code
    assert "never" not in recorded.node.vhosts["/"].queues


@pytest.mark.parametrize("end", ["loss", "ours"])
def test_declarations_that_are_stored_after_their_connection_are_not_answered(recorded: Disk, end: str) -> None:
    recorded.ch.send(Queue.Declare, queue="new", durable=True)
    if end == "loss":
        recorded.ch.client.vanish()
    else:
        pipe_of(recorded.ch.client).connection.close(ConnectionForced("enough"))
    recorded.ch.arrived()
    recorded.journal.commit(recorded.journal.ticket())
    assert recorded.ch.arrived() == [] and "new" in recorded.node.vhosts["/"].queues


def test_so_many_answers_wait_at_most(recorded: Disk) -> None:
    connection = pipe_of(recorded.ch.client).connection
    connection.replies_due = REPLIES_DUE_LIMIT
    recorded.ch.send(Queue.Declare, queue="new")
    assert "new" not in recorded.node.vhosts["/"].queues and connection.interrupted


def test_a_connection_forgets_its_channels_whose_confirms_are_sent(disk: Disk, ch: ClientChannel) -> None:
    for queue in ("transient", "durable"):
        ch.publish("", queue, b"body", DURABLE)
    disk.journal.commit(1)
    assert disk.acked() == [(1, False), (2, False)]
    assert not pipe_of(ch.client).connection.confirming


# The arithmetic alone


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    return draw(st.lists(st.one_of(
        st.tuples(st.just("durable"), st.integers(1, 3)),
        st.tuples(st.just("transient"), st.integers(1, 3)),
        st.tuples(st.just("seal"), st.just(0)),
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("take"), st.just(0)),
    ), max_size=30))  # fmt: skip


@given(histories())
@examples(120)
def test_what_is_told_is_safe_and_what_is_safe_is_told(history: list[tuple[str, int]]) -> None:
    confirms = Confirms()
    filling, durable, acked = 1, 0, 0
    needs: list[int] = []  # for each publish the batch that it waits for
    for what, number in history:
        if what in ("durable", "transient"):
            ticket = filling if what == "durable" else 0
            needs += [ticket] * number
            confirms.published(number, ticket, durable)
        elif what == "seal":
            filling += 1
        elif what == "commit":
            durable = max(durable, min(filling - 1, number))
            confirms.committed(durable)
        else:
            frame = confirms.drain_frames(1)
            safe = next((index for index, batch in enumerate(needs) if batch > durable), len(needs))
            if not frame:
                assert safe == acked
                continue
            ack: Any = codec.decode_method(frame[7:-1])
            assert (ack.delivery_tag, ack.multiple) == (safe, safe - acked > 1)
            acked = safe


@pytest.mark.parametrize("where", ["queue", "exchange"])
def test_a_duplicate_is_confirmed_no_sooner_than_its_original_is_safe(disk: Disk, where: str) -> None:
    """A publisher that has lost its connection publishes again on another, and must be able to trust the confirm."""
    deduplicating = {"x-message-deduplication": True}
    disk.ch.declare("q", durable=True, arguments=deduplicating if where == "queue" else {})
    disk.ch.exchange("e", "fanout", durable=True, arguments=deduplicating if where == "exchange" else {})
    disk.ch.bind("q", "e")
    other = connected(disk.node).channel(1)
    other.confirm()
    like = DURABLE | {"headers": {"x-deduplication-header": "d"}}
    disk.ch.publish("e", "", b"original", like)
    disk.ch.sync()
    other.publish("e", "", b"duplicate", like)
    assert not [item for item in other.arrived() if isinstance(item, Basic.Ack)], "nothing of it is on disk"
    disk.journal.commit(disk.journal.ticket())
    assert [item.delivery_tag for item in other.arrived() if isinstance(item, Basic.Ack)] == [1]
    assert disk.ch.drain("q") == [b"original"]
