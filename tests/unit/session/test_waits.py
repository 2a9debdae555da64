"""Connections that wait for jobs and for the journal, and are closed if a job fails."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection, Queue, Tx

from tests.support import codec
from tests.support.amqp_client import Channel as ClientChannel
from tests.support.amqp_client import Silence
from tests.support.clock import fake_clock
from tests.support.session import SlowJournal, connected, new_node, pipe_of
from warren.broker.core.messages.message import Message
from warren.broker.core.node.node import Node
from warren.broker.session import channel as channel_module
from warren.broker.session import checked_operations
from warren.broker.session.connection import Connection as Session
from warren.broker.session.methods import handlers

from .test_multiple_settlements import LARGE, Large

INTERNAL_ERROR = 541


class Durable:
    """A journal that is behind from its next message on, until the test calls `give`."""

    def __init__(self, large: Large) -> None:
        self.waiting: list[Callable[[], None]] = []
        self._journal = large.journal
        self._append = large.journal.append
        large.journal.append = self.append  # type: ignore[method-assign]
        large.journal.ticket = lambda: large.journal.durable + 1  # type: ignore[method-assign]
        large.journal.when_durable = lambda ticket, fn: self.waiting.append(fn)  # type: ignore[method-assign]

    def append(self, queues: list[int], messages: list[Message]) -> None:
        self._append(queues, messages)
        self._journal.much = True

    def give(self) -> None:
        self._journal.much = False
        while self.waiting:
            self.waiting.pop(0)()


def test_a_commit_waits_for_the_journal_that_it_has_filled_and_then_for_its_settlements() -> None:
    large = Large(True)
    large.ack_all()
    large.ch.publish("", "queue", b"x", {"delivery_mode": 2})
    durable = Durable(large)
    large.ch.send(Tx.Commit)
    assert large.connection.suspended == 2 and durable.waiting
    large.turns()
    assert large.connection.suspended == 2 and large.queue.unacked == LARGE + 1, "the journal has to keep up first"
    durable.give()
    assert large.connection.suspended == 1 and large.queue.unacked == LARGE + 1, "messages are still settled"
    large.turns()
    durable.give()
    assert not large.connection.suspended and large.queue.unacked == 1, "what was published is delivered"
    large.ch.reply_to(Tx.Commit)


PATCHES = pytest.mark.pure("replaces a method, which compiled callers do not look up")


def failing(*args: Any) -> Any:
    raise KeyError("a bug")


@pytest.mark.parametrize("how", [*(pytest.param(how, marks=PATCHES) for how in ("nack", "commit", "close")), "purge"])
def test_a_job_that_fails_closes_the_connection_that_waits_for_it(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    large = Large(how == "commit")
    log: list[tuple[str, dict[str, object]]] = []
    large.node.scheduler.report = lambda event, level, fields: log.append((event, fields))
    if how == "commit":
        large.ack_all()
    if how == "purge":
        other = connected(large.node).channel(1)
        large.connection.lost("reset")
        large.turns()
        large.ch, large.connection = other, pipe_of(other.client).connection
    with monkeypatch.context() as patch:
        patch.setattr(large.journal, "settle", failing)
        patch.setattr(type(large.queue), "requeue", failing)
        patch.setattr(type(large.queue), "settle", failing)
        patch.setattr(type(large.queue.host), "left", failing)
        if how == "nack":
            large.ch.nack(0, multiple=True, requeue=True)
        elif how == "commit":
            large.ch.send(Tx.Commit)
        elif how == "close":
            large.ch.send(Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
        else:
            large.ch.send(Queue.Purge, queue="queue")
        large.turns()
    close = large.ch.client.expect_close(INTERNAL_ERROR)
    assert isinstance(close, Connection.Close) and not large.connection.suspended
    event, fields = log[0]
    named = "queue 'queue'" if how == "purge" else large.connection.name
    assert event == "job_failed" and named in str(fields["job"])


@PATCHES
def test_requests_that_meet_a_bug_in_a_later_turn_close_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_node()
    ch = connected(node).channel(1)
    ch.declare("queue")
    ch.client.raw(codec.method_frame(1, Queue.Declare, {"queue": "queue", "nowait": True}) * 1_000)
    monkeypatch.setattr(handlers, "handle", failing)
    fake_clock(node.clock).advance(0)
    ch.client.expect_close(INTERNAL_ERROR)


def owner(node: Node, count: int) -> tuple[Session, list[ClientChannel]]:
    """Return a connection with channels, an exclusive queue and a consumer on each."""
    client = connected(node)
    channels = [client.channel(number + 1) for number in range(count)]
    for number, ch in enumerate(channels):
        ch.declare(f"mine{number}", exclusive=True)
        ch.send(Basic.Consume, queue=f"mine{number}", consumer_tag="c")
    return pipe_of(client).connection, channels


def test_an_end_of_a_connection_that_fails_in_one_part_goes_on_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    node = new_node()
    session, _ = owner(node, 3)
    real = channel_module.Channel.end_in_steps

    def end_in_steps(self: Any) -> Any:
        if self.number == 2:
            raise KeyError("a bug")
        yield from real(self)

    monkeypatch.setattr(channel_module.Channel, "end_in_steps", end_in_steps)
    session.lost("reset")
    fake_clock(node.clock).advance(0)
    assert not len(node.scheduler) and not node.vhosts["/"].queues


def test_delete_ok_and_the_cancels_of_the_channel_are_one_write_once_the_deletion_is_durable() -> None:
    journal = SlowJournal()
    client = connected(new_node(journal))
    channel = client.channel()
    channel.declare("queue", durable=True)
    channel.consume("queue", consumer_tag="tag")
    channel.send(Queue.Delete, queue="queue")
    with pytest.raises(Silence):
        channel.next()
    journal.commit(journal.ticket())
    client.pump()
    assert [frame.name for frame in client.inbox(channel.number)] == ["Queue.DeleteOk", "Basic.Cancel"]


def test_a_method_that_fails_while_replies_are_due_is_served_once(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = SlowJournal()
    client = connected(new_node(journal))
    channel = client.channel()
    served: list[str] = []
    check = checked_operations.check_dead_letter_exchange

    def record(channel: Any, name: str, arguments: Any) -> None:
        served.append(name)
        check(channel, name, arguments)

    monkeypatch.setattr(checked_operations, "check_dead_letter_exchange", record)
    channel.declare("stored", durable=True)
    channel.publish("", "stored", b"x", {"delivery_mode": 2})  # replies wait for it
    served.clear()
    channel.send(Queue.Declare, queue="one", durable=True)
    channel.send(Queue.Declare, queue="two", durable=True, arguments={"x-max-length": -1})
    channel.send(Queue.Declare, queue="three", durable=True)
    with pytest.raises(Silence):
        channel.next()
    journal.commit(journal.ticket())
    assert channel.next().queue == "one"
    channel.expect_close(406)
    client.channel().sync()
    assert served == ["one", "two"]


@pytest.mark.parametrize("by_client", [True, False])
def test_nothing_is_confirmed_after_a_close_of_the_connection(by_client: bool) -> None:
    journal = SlowJournal()
    node = new_node(journal)
    client = connected(node)
    channel = client.channel()
    channel.declare("queue", durable=True)
    channel.confirm()
    channel.publish("", "queue", b"x", {"delivery_mode": 2})
    scheduler = node.scheduler
    scheduler._left = 0  # the release of the connection waits for the next turn
    if by_client:
        client.send(Connection.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    else:
        client.send(Connection.Secure, challenge="not expected")
    journal.commit(journal.ticket())
    with suppress(Silence):
        client.pump()
    assert not list(client.inbox(channel.number))
