"""tx.*: publishes and settlements that wait for a commit (spec/core.md 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pamqp import commands

from ..core.message import Message
from ..core.queue import Queue
from ..errors import PreconditionFailed
from ..table import Table
from ..wire import encode
from . import publishing, settling

if TYPE_CHECKING:
    from .channel import Channel, Unacked


class Transaction:
    """Publishes are routed already, settlements are off the channel's list already; both take effect at commit."""

    __slots__ = ("publishes", "settlements")

    def __init__(self) -> None:
        self.publishes: list[tuple[Message, tuple[Queue, ...], bool]] = []
        self.settlements: list[tuple[int, Unacked, bool, bool]] = []

    def publish(self, message: Message, queues: tuple[Queue, ...], mandatory: bool) -> None:
        self.publishes.append((message, queues, mandatory))

    def settle(self, channel: Channel, tag: int, entry: Unacked, acknowledged: bool, back: bool) -> None:
        self.settlements.append((tag, entry, acknowledged, back))

    def commit(self, channel: Channel) -> None:
        publishes, self.publishes = self.publishes, []
        settlements, self.settlements = self.settlements, []
        for message, queues, mandatory in publishes:
            alive = tuple(queue for queue in queues if not queue.deleted)
            publishing.enqueue(channel, [message], message.body_bytes, message.persistent, alive, mandatory)
        settling.finish(channel, [(entry, acknowledged, back) for _, entry, acknowledged, back in settlements])

    def rollback(self, channel: Channel) -> None:
        """Publishes are forgotten; what was settled is outstanding again, in the order of its tags."""
        self.publishes.clear()
        if self.settlements:
            for tag, entry, _, _ in self.settlements:
                channel.unacked[tag] = entry
            self.settlements.clear()
            channel.unacked = dict(sorted(channel.unacked.items()))


def select(channel: Channel, method: commands.Tx.Select, arguments: Table) -> None:
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(encode.method(channel.number, encode.TX_SELECT_OK))


def commit(channel: Channel, method: commands.Tx.Commit, arguments: Table) -> None:
    """commit-ok leaves when what was committed is durable."""
    current(channel).commit(channel)
    channel.send_when_durable(encode.method(channel.number, encode.TX_COMMIT_OK))


def rollback(channel: Channel, method: commands.Tx.Rollback, arguments: Table) -> None:
    current(channel).rollback(channel)
    channel.send(encode.method(channel.number, encode.TX_ROLLBACK_OK))


def current(channel: Channel) -> Transaction:
    """Raises PreconditionFailed (406)."""
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return channel.transaction
